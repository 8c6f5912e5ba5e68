"""What the rows of a table of pre-token counts must be."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hf_scaffold._core.counter import first_out_of_order
from hf_scaffold.errors import CorpusError

Int64Array: TypeAlias = npt.NDArray[np.int64]

# Pre-tokens one after another; where each begins, and where the last one ends; counts.
Rows: TypeAlias = tuple[bytes, Int64Array, Int64Array]


def check_rows(rows: Rows, alphabet: str, first: int = 0, before: bytes = b"") -> None:
    """Refuse rows that no table has.

    Args:
        alphabet: That of the table's pre-tokenizer.
        first: The number of the first row, for messages.
        before: The pre-token of the row before that.
    Raises:
        CorpusError: a pre-token is empty, out of order, repeated, or not UTF-8 where the alphabet is
            characters; or a count is below 1. Names the row.
    Example:
        >>> check_rows((b"ab", np.array([0, 1, 2]), np.array([1, 1])), "bytes", first=7, before=b"b")
        Traceback (most recent call last):
        hf_scaffold.errors.CorpusError: row 7: pre-token b'a' is not sorted: it follows b'b'
    """
    data, offsets, counts = rows
    for row in np.flatnonzero(np.diff(offsets) < 1)[:1]:
        raise CorpusError(f"row {first + row}: the pre-token is empty")
    for row in np.flatnonzero(counts < 1)[:1]:
        raise CorpusError(
            f"row {first + row}: pre-token {_pretoken(rows, row)!r} has count {counts[row]}, not 1 or more"
        )
    row = first_out_of_order(data, offsets)
    if len(counts) and _pretoken(rows, 0) <= before:
        row = 0
    if row < len(counts):
        pretoken = _pretoken(rows, row)
        before = _pretoken(rows, row - 1) if row else before
        problem = "appears twice" if pretoken == before else f"is not sorted: it follows {before!r}"
        raise CorpusError(f"row {first + row}: pre-token {pretoken!r} {problem}")
    if alphabet == "chars" and (row := _first_broken(data, offsets)) < len(counts):
        raise CorpusError(
            f"row {first + row}: pre-token {_pretoken(rows, row)!r} is not UTF-8, so it has no characters"
        )


def _pretoken(rows: Rows, row: int) -> bytes:
    data, offsets, _ = rows
    return data[offsets[row] : offsets[row + 1]]


def _first_broken(data: bytes, offsets: Int64Array) -> int:
    """The first row that is not UTF-8 by itself; the number of rows if there is none."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return int(np.searchsorted(offsets, error.start, side="right")) - 1
    starts = np.frombuffer(data, np.uint8)[offsets[:-1]]
    broken = np.flatnonzero(starts & 0xC0 == 0x80)  # the second part of a character
    return int(broken[0]) if len(broken) else len(offsets) - 1
