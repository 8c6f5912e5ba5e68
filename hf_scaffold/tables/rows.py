"""What the rows of a table of pre-token counts must be."""

import operator
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hf_scaffold._core.counter import first_out_of_order
from hf_scaffold._utils.arguments import warn
from hf_scaffold.errors import CorpusError

Int64Array: TypeAlias = npt.NDArray[np.int64]

# Pre-tokens one after another; where each begins, and where the last one ends; counts.
Rows: TypeAlias = tuple[bytes, Int64Array, Int64Array]


def rows_of(counts: Mapping[bytes, int]) -> Rows:
    """Counts as rows."""
    pretokens = sorted(counts)
    offsets = np.cumsum([0, *map(len, pretokens)], dtype=np.int64)
    return b"".join(pretokens), offsets, np.array([counts[each] for each in pretokens], np.int64)


def joined(tables: Sequence[Rows]) -> Rows:
    """The rows of tables, one table after another.

    Example:
        >>> joined([rows_of({b"ab": 5}), rows_of({b"a": 6})])
        (b'aba', array([0, 2, 3]), array([5, 6]))
    """
    counts = np.concatenate([np.zeros(0, np.int64), *(counts for _, _, counts in tables)])
    offsets = np.zeros(len(counts) + 1, np.int64)
    row = 0
    for _, ends, own in tables:
        np.add(ends[1:], offsets[row] - ends[0], out=offsets[row + 1 : row + 1 + len(own)])
        row += len(own)
    return b"".join(data for data, _, _ in tables), offsets, counts


def without_longer(rows: Rows, max_length: int) -> tuple[Rows, int]:
    """The rows of pre-tokens of at most max_length bytes, and how often the others occur in all.

    Example:
        >>> without_longer((b"abbc", np.array([0, 1, 3, 4]), np.array([5, 6, 7])), 1)
        ((b'ac', array([0, 1, 2]), array([5, 7])), 6)
    """
    data, offsets, counts = rows
    lengths = np.diff(offsets)
    is_short = lengths <= max_length
    if is_short.all():
        return rows, 0
    kept = np.frombuffer(data, np.uint8)[np.repeat(is_short, lengths)].tobytes()
    bounds = np.concatenate([offsets[:1], lengths[is_short].cumsum()])
    return (kept, bounds, counts[is_short]), sum(counts[~is_short].tolist())


def left_out(n_pretokens: int, max_length: int | None) -> str:
    """What to say of pre-tokens that `without_longer` took out."""
    return f"left out {n_pretokens:,} pre-tokens of more than {max_length:,} bytes (max_pretoken_length)"


def join_min_counts(tables: Sequence[tuple[str, int]]) -> int:
    """What is left out of the sum of tables, with a warning if that makes its counts too small.

    Args:
        tables: The name of each, and the count below which pre-tokens were left out of it; 1 if none was.
    """
    name, min_count = max(tables, key=operator.itemgetter(1))
    if min_count > 1 and len(tables) > 1:
        warn(
            f"{name} lacks pre-tokens that occur less than {min_count:,} times (min_count), so counts added "
            "to it may come out too small; merge whole tables first, then leave out what is rare"
        )
    return min_count


def is_blank(rows: Rows) -> bool:
    """Whether all of it is white space.

    Cost: as a rule that of a few rows.
    """
    return all(_pretoken(rows, row).decode(errors="replace").isspace() for row in range(len(rows[2])))


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
