"""Shares for people."""


def percent_down(share: float) -> str:
    """A share as percent, never rounded up to 100 %, which would be a promise.

    Example:
        >>> percent_down(0.99956), percent_down(0.99999), percent_down(1.0)
        ('99.95 %', '99.99 %', '100 %')
    """
    return "100 %" if share == 1 else f"{int(share * 10_000) / 100:.2f} %"
