"""Shares for people, where all would be a promise."""

__all__ = ["percent_down"]


def percent_down(share: float) -> str:
    """A share, never rounded up to all.

    Example:
        >>> percent_down(0.99956), percent_down(0.99999), percent_down(1.0)
        ('99.95 %', '99.99 %', '100 %')
    """
    return "100 %" if share == 1 else f"{int(share * 10_000) / 100:.2f} %"
