"""What the commands show. Data and results go to stdout; progress, warnings and errors go to stderr."""

import io
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle

from rich.cells import cell_len
from rich.console import Console
from rich.filesize import decimal
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

NAME = "hf-scaffold"

Update = Callable[[int, int | None], None]


def use_utf8() -> None:
    """Tokens are UTF-8 whatever the locale; file names that aren't pass through as they are."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="surrogateescape")


# ---- stderr


def message(text: str) -> None:
    """One line on stderr."""
    print(f"{NAME}: {' '.join(text.split())}", file=sys.stderr)


@contextmanager
def one_line_warnings(worded: Callable[[str], str]) -> Iterator[None]:
    """Warnings come as one line, without the source line that gave them.

    Args:
        worded: What to say for what a warning says.
    """
    with warnings.catch_warnings():
        warnings.showwarning = lambda warning, *_, **__: message(f"warning: {worded(str(warning))}")
        yield


class _RateColumn(ProgressColumn):
    """How fast it goes: bytes or another unit a second."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        speed = task.speed or 0
        rate = decimal(int(speed)) if self._unit == "bytes" else f"{speed:,.0f} {self._unit}"
        return Text(f"{rate}/s", style="progress.data.speed")


@contextmanager
def progress_bar(description: str, unit: str, *, hidden: bool = False) -> Iterator[Update]:
    """Show a bar with rate and time left while the block runs; nothing where stderr is not a terminal.

    Args:
        description: What is going on.
        unit: "bytes", or the name of what is counted.
        hidden: Show nothing anyway.

    Yields:
        update(done, total): total is None where it isn't known.
    """
    if hidden or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        _RateColumn(unit),
        TimeRemainingColumn(),
    )
    # redirect_stdout would send what is printed meanwhile to the bar's console: to stderr.
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as progress:
        task = progress.add_task(description, total=None)

        def update(done: int, total: int | None) -> None:
            if total is not None and done >= total:  # what is left has no measure
                progress.update(task, description=f"{description}, last steps", total=None)
            else:
                progress.update(task, completed=done, total=total)

        yield update


@contextmanager
def status(step: str = "") -> Iterator[Callable[[str], None]]:
    """Show what is being done, and for how long, while the block runs; nothing where stderr is no terminal.

    Args:
        step: What is done first.

    Yields:
        update(step).
    """
    if not sys.stderr.isatty():
        yield lambda step: None
        return
    columns = SpinnerColumn(), TextColumn("{task.description} …", markup=False), TimeElapsedColumn()
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as progress:
        task = progress.add_task(step, total=None)
        yield lambda step: progress.update(task, description=step)


# ---- stdout


_COLORS = {"cyan": 36, "green": 32, "yellow": 33, "magenta": 35}  # of tokens, in turn


def line(text: str | Text = "", style: str | None = None) -> None:
    """A line of text, never wrapped; styles show on terminals, unless NO_COLOR is set."""
    if isinstance(text, str) and style is None:
        print(text)  # at a small part of what rich takes: `tokenize` may write millions
    else:
        _console().print(text, style=style, soft_wrap=True)


def _console() -> Console:
    return Console(markup=False, emoji=False, highlight=False)


def joined() -> Callable[[Sequence[str]], str]:
    """What makes a line of tokens: with spaces between, and in colours on a terminal."""
    console = _console()
    if console.color_system is None or console.no_color:
        return " ".join
    return lambda tokens: " ".join(
        f"\x1b[{code}m{token}\x1b[0m" for token, code in zip(tokens, cycle(_COLORS.values()), strict=False)
    )


def colored(tokens: Iterable[str], end: str = "") -> Text:
    """Tokens with spaces between, in colours that take turns."""
    pairs = zip(tokens, cycle(_COLORS), strict=False)
    return Text(" ").join(Text(token, color) for token, color in pairs) + end


def heading(text: str) -> None:
    """A heading, with an empty line before it."""
    line()
    line(text, style="bold")


def facts(rows: Sequence[tuple[str, str]]) -> None:
    """Lines of a name and its value."""
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        line(f"{name:<{width}}  {value}")


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str | Text]], *, numbers: Sequence[str] = ()
) -> None:
    """Aligned columns under their names; those in `numbers` are aligned to the right."""
    rows = list(rows)
    widths = [max(cell_len(str(cell)) for cell in cells) for cells in zip(columns, *rows, strict=True)]
    for style, row in [("dim", columns), *(("", row) for row in rows)]:
        cells = []
        for name, cell, width in zip(columns, row, widths, strict=True):
            padding = " " * (width - cell_len(str(cell)))
            cells.append(Text.assemble(padding, cell) if name in numbers else Text.assemble(cell, padding))
        shown = Text("   ").join(cells)
        shown.rstrip()
        line(shown, style)
