"""What workers counted, on its way to the driver's table: in cells of many rows, added up on the way."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from hf_scaffold._utils.arguments import warn
from hf_scaffold._utils.urls import Source, place, require_writable_place
from hf_scaffold.errors import CorpusError
from hf_scaffold.scale.arrow import LEFT_OUT, Counting
from hf_scaffold.tables.files import arrow_table, rows_of_arrow
from hf_scaffold.tables.merging import TableSize, memory_for_rows, summed, write_sum
from hf_scaffold.tables.rows import is_blank, left_out, rows_of
from hf_scaffold.text.files import import_extra
from hf_scaffold.text.pre_tokenizers import PreTokenizer

_CELL_ROWS = 1 << 12  # at most: engines hold thousands of cells at a time
_CELL_BYTES = 1 << 15  # of pre-tokens, but for the last one, likewise
_CELLS = 1 << 6  # taken from a batch at a time
_BYTES = 1 << 22  # of rows, added up at a time
_MERGE_MEMORY = "1G"

N_BUCKETS = 256


# ---- cells: an engine takes its time for each row of its own, so these hold many of a table


def packed(table: Any) -> Any:
    """A table of counts as cells.

    Args:
        table: An Arrow table in the order of its pre-tokens, of less than 2 GB.
    Returns:
        An Arrow table with a row for each cell: its first pre-token; its pre-tokens, one after another; and
        as int32 and int64 their lengths and counts.
    Example:
        >>> rows = arrow_table((b"aab", np.array([0, 1, 3]), np.array([5, 6])))
        >>> packed(rows).drop(["lengths", "counts"]).to_pylist()
        [{'first': b'a', 'pretokens': b'aab'}]
        >>> unpacked(packed(rows)).equals(rows)
        True
    """
    return _cells(table, np.zeros(len(table), np.uint8))[0]


def packed_by_bucket(table: Any) -> Any:
    """As `packed`, with another column that is equal for equal pre-tokens: `bucket`, below `N_BUCKETS`."""
    data, offsets, _ = rows_of_arrow(table)
    buckets = _buckets(data, offsets)
    order = np.argsort(buckets, kind="stable")
    cells, first_rows = _cells(table.take(order), buckets[order])
    return cells.append_column("bucket", [buckets[order[first_rows]].astype(np.int32)])


def _buckets(data: bytes, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """A bucket for each pre-token, by its last eight bytes."""
    before: Any = np.ndarray(len(data) + 1, "<u8", bytes(8) + data, strides=(1,))  # the eight before a byte
    n_foreign = np.maximum(8 - np.diff(offsets), 0).astype(np.uint64)
    numbers = before[offsets[1:]] >> np.uint64(8) * n_foreign
    buckets: npt.NDArray[np.uint64] = numbers * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(56)
    return buckets.astype(np.uint8)


def _cells(table: Any, buckets: npt.NDArray[np.uint8]) -> tuple[Any, npt.NDArray[np.int64]]:
    """The cells of rows, each of one bucket, and the first row of each."""
    arrow = import_extra("pyarrow", "parquet")
    data, offsets, counts = rows_of_arrow(table)
    numbers = (buckets, np.arange(len(counts)) // _CELL_ROWS, offsets[:-1] // _CELL_BYTES)
    differs = np.logical_or.reduce([np.diff(each) != 0 for each in numbers])
    first_rows = np.flatnonzero(np.concatenate([np.ones(min(len(counts), 1), bool), differs]))
    ends = np.append(first_rows, len(counts))
    columns = (
        (data, offsets[ends]),
        (np.diff(offsets).astype(np.int32), 4 * ends),
        (counts, 8 * ends),
    )
    cells = [
        arrow.LargeBinaryArray.from_buffers(
            arrow.large_binary(), len(first_rows), [None, arrow.py_buffer(bounds), arrow.py_buffer(values)]
        ).cast(arrow.binary())
        for values, bounds in columns
    ]
    firsts = table["pretoken"].take(arrow.array(first_rows)).combine_chunks().cast(arrow.binary())
    return arrow.table([firsts, *cells], ["first", "pretokens", "lengths", "counts"]), first_rows


def in_one_cell(table: Any) -> Any:
    """A table of counts as a single cell, of a table that the driver takes at once."""
    data, offsets, counts = rows_of_arrow(table)
    values = {
        "pretokens": data,
        "lengths": np.diff(offsets).astype(np.int32).tobytes(),
        "counts": counts.tobytes(),
    }
    return import_extra("pyarrow", "parquet").RecordBatch.from_pylist([values])


def unpacked(cells: Any) -> Any:
    """The rows in cells, as an Arrow table; those of each cell are sorted."""
    data, lengths, counts = (_joined(cells[name]) for name in ("pretokens", "lengths", "counts"))
    offsets = np.cumsum(np.append(0, np.frombuffer(lengths, np.int32)), dtype=np.int64)
    return arrow_table((data, offsets, np.frombuffer(counts, np.int64)))


def _joined(column: Any) -> bytes:
    """Cells, one after another."""
    return b"".join(column.to_pylist())


def sums(batches: Iterable[Any]) -> Iterator[Any]:
    """Tables of the sums of cells, in the order of pre-tokens, each once.

    Args:
        batches: Arrow tables or record batches of cells, in the order of their first pre-tokens.
    Raises:
        CountOverflowError: a sum is beyond 2**63 - 1; names the pre-token.
    Cost: memory of the cells that overlap with one another, and of a batch.
    """
    arrow = import_extra("pyarrow", "parquet")
    held = no_rows()
    waiting: list[Any] = []
    for batch in batches:
        for start in range(0, batch.num_rows, _CELLS):
            cells = batch.slice(start, _CELLS)
            waiting.append(unpacked(cells))
            # As much as is held, so that each row is sorted some few times.
            if sum(rows.nbytes for rows in waiting) < max(_BYTES, held.nbytes):
                continue
            rows = summed(arrow.concat_tables([held, *waiting]))
            # No later cell has a pre-token before this one.
            n_final = _rows_before(rows, cells["first"][-1].as_py())
            yield rows.slice(0, n_final)
            held, waiting = rows.slice(n_final), []
    yield summed(arrow.concat_tables([held, *waiting]))


def no_rows() -> Any:
    """The table of nothing."""
    return arrow_table(rows_of({}))


def _rows_before(rows: Any, bound: bytes) -> int:
    pretokens = rows["pretoken"]
    return bisect_left(range(len(rows)), bound, key=lambda row: pretokens[row].as_py())


# ---- the driver


def save_counts(tables: Iterable[Any], output: Source, counting: Counting) -> TableSize:
    """Write the sum of what workers counted; it takes its place once it is complete.

    Args:
        tables: Arrow tables, each in the order of pre-tokens, each a row once in a table. Where a table
            doesn't go on in the order of the last one, another run begins, which is merged with the others.
        output: A path or URL.
    Raises:
        CorpusError: there is no pre-token, or only white space.
        CountOverflowError: a sum is beyond 2**63 - 1; names the pre-token.
    Cost: on the disk, the size of the table once more; memory for some rows of each run.
    """
    target = place(output)
    require_writable_place(target)
    found = _Runs(tables)
    pre_tokenizer = PreTokenizer.from_json(counting.pre_tokenizer)
    size = write_sum(found, target, pre_tokenizer, n_bytes=memory_for_rows(_MERGE_MEMORY))
    if found.n_left_out:
        warn(left_out(found.n_left_out, counting.max_pretoken_length))
    return size


class _Runs:
    """Tables in runs that are sorted: each an iterator of tables, to be used up before the next."""

    def __init__(self, tables: Iterable[Any]) -> None:
        self.n_left_out = 0
        self._tables = tables
        self._number, self._last, self._is_space = 0, b"", True

    def __iter__(self) -> Iterator[Iterator[Any]]:
        tables = filter(len, map(self._without_left_out, self._tables))
        for _, run in groupby(tables, self._run_of):
            yield run
        if not self._last:
            raise CorpusError("nothing to count: the texts gave no pre-tokens")
        if self._is_space:
            raise CorpusError("nothing to count: the texts are all white space")

    def _without_left_out(self, table: Any) -> Any:
        if not len(table) or table["pretoken"][0].as_py() != LEFT_OUT:
            return table
        self.n_left_out += table["count"][0].as_py()
        return table.slice(1)

    def _run_of(self, table: Any) -> int:
        """The number of a table's run."""
        self._number += table["pretoken"][0].as_py() <= self._last
        self._last = table["pretoken"][-1].as_py()
        self._is_space = self._is_space and is_blank(rows_of_arrow(table))
        return self._number
