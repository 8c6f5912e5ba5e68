"""What --help says of each argument, without the names of Python's types and the braces of newer typers."""

from typing import Any

from typer.core import TyperCommand, TyperGroup


class _Plain:
    def get_params(self, context: Any) -> list[Any]:
        params: list[Any] = super().get_params(context)  # type: ignore[misc]
        for param in params:
            param.display_type = lambda ctx: ""  # typer 0.26 and later; a metavar says what an option takes
        return params

    def collect_usage_pieces(self, context: Any) -> list[str]:
        pieces: list[str] = super().collect_usage_pieces(context)  # type: ignore[misc]
        return [piece.replace("{", "").replace("}", "") for piece in pieces]


class Command(_Plain, TyperCommand):
    """A command with such a help."""


class Group(_Plain, TyperGroup):
    """A group of commands with such a help."""
