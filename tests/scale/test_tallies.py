"""What workers counted on its way to a table, without any engine."""

import random
import resource
import subprocess
import sys
from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hf_scaffold as hs
from hf_scaffold.scale import tallies
from hf_scaffold.scale.arrow import Counting
from hf_scaffold.scale.tallies import (
    N_BUCKETS,
    in_one_cell,
    packed,
    packed_by_bucket,
    save_counts,
    sums,
    unpacked,
)
from hf_scaffold.tables.merging import summed


def counting_of(max_pretoken_length=None):
    return Counting.of(None, None, None, max_pretoken_length)


def table_of(rows):
    """A table of pairs."""
    pretokens, counts = zip(*rows, strict=True) if rows else ((), ())
    return pa.table(
        {"pretoken": pa.array(pretokens, pa.large_binary()), "count": pa.array(counts, pa.int64())}
    )


def rows_in(table):
    return [*zip(table["pretoken"].to_pylist(), table["count"].to_pylist(), strict=True)]


def rows_by_cell(cells):
    """The rows in each cell, by reading it byte for byte."""
    for cell in cells.to_pylist():
        lengths = [
            int.from_bytes(cell["lengths"][i : i + 4], "little") for i in range(0, len(cell["lengths"]), 4)
        ]
        counts = [
            int.from_bytes(cell["counts"][i : i + 8], "little") for i in range(0, len(cell["counts"]), 8)
        ]
        ends = np.cumsum([0, *lengths]).tolist()
        pretokens = [cell["pretokens"][begin:end] for begin, end in pairwise(ends)]
        assert ends[-1] == len(cell["pretokens"])
        yield [*zip(pretokens, counts, strict=True)]


TABLES = st.dictionaries(st.binary(max_size=12), st.integers(1, 2**63 - 1), max_size=40).map(
    lambda rows: sorted(rows.items())
)


# ---- cells


@given(rows=TABLES, cell_rows=st.integers(1, 9), cell_bytes=st.integers(1, 50))
def test_cells_hold_the_rows_of_a_table(rows, cell_rows, cell_bytes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tallies, "_CELL_ROWS", cell_rows)
        patch.setattr(tallies, "_CELL_BYTES", cell_bytes)
        cells, by_bucket = packed(table_of(rows)), packed_by_bucket(table_of(rows))
    found = [*rows_by_cell(cells)]
    assert [row for cell in found for row in cell] == rows
    assert cells["first"].to_pylist() == [cell[0][0] for cell in found]
    bucket_of = {}
    for bucket, first, cell in zip(
        by_bucket["bucket"].to_pylist(), by_bucket["first"].to_pylist(), rows_by_cell(by_bucket), strict=True
    ):
        assert 0 <= bucket < N_BUCKETS
        assert cell == sorted(cell)
        assert first == cell[0][0]
        bucket_of |= {pretoken: bucket for pretoken, _ in cell}
        found.append(cell)
    assert sorted(bucket_of) == [pretoken for pretoken, _ in rows]
    for cell in found:
        assert len(cell) <= cell_rows
        assert sum(len(pretoken) for pretoken, _ in cell[:-1]) <= cell_bytes
    assert rows_in(unpacked(cells)) == rows
    assert sorted(rows_in(unpacked(by_bucket))) == rows
    [whole] = rows_by_cell(in_one_cell(table_of(rows)))
    assert whole == rows == rows_in(unpacked(in_one_cell(table_of(rows))))


def test_a_slice_of_a_table_has_cells_of_its_own():
    rows = [(b"%05d" % i, i + 1) for i in range(9000)]
    table = table_of(rows).slice(100, 8000)
    for cells in (packed(table), packed_by_bucket(table), in_one_cell(table)):
        assert sorted(rows_in(unpacked(cells))) == rows[100:8100]


def test_a_pre_token_has_one_bucket_in_any_table():
    pretokens = [b"", b"a", b"\x00a", b"a\x00", b"international", b"national", b" national", b"\xff" * 9]
    pretokens += [b"%d" % i for i in range(20_000)]
    both = {}
    for rows in (sorted(pretokens), sorted(pretokens)[::2], sorted(pretokens)[1:]):
        cells = packed_by_bucket(table_of([(pretoken, 1) for pretoken in rows]))
        for bucket, cell in zip(cells["bucket"].to_pylist(), rows_by_cell(cells), strict=True):
            for pretoken, _ in cell:
                assert both.setdefault(pretoken, bucket) == bucket
    sizes = Counter(both.values())
    assert len(sizes) == N_BUCKETS
    assert max(sizes.values()) < 3 * len(both) / N_BUCKETS


# ---- sums


@given(st.lists(TABLES, max_size=6), st.integers(1, 5), st.integers(1, 300), st.integers(1, 4))
def test_sums_are_those_of_all_cells(tables, cell_rows, n_bytes, n_cells):
    tables = [[(pretoken, count % 2**40 + 1) for pretoken, count in rows] for rows in tables]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("_CELL_ROWS", cell_rows), ("_BYTES", n_bytes), ("_CELLS", n_cells)):
            patch.setattr(tallies, name, value)
        cells = pa.concat_tables([packed(table_of([])), *map(packed, map(table_of, tables))])
        found = [*sums(cells.sort_by("first").to_batches(max_chunksize=3))]
    expected = Counter()
    for rows in tables:
        expected.update(dict(rows))
    assert [row for table in found for row in rows_in(table)] == sorted(expected.items())


def test_sums_hold_no_more_than_cells_that_overlap(monkeypatch):
    monkeypatch.setattr(tallies, "_BYTES", 1 << 16)
    tables = [table_of([(b"%07d" % i, 1) for i in range(start, 200_000, 20)]) for start in range(20)]
    cells = pa.concat_tables(map(packed, tables)).sort_by("first")
    lengths = [len(table) for table in sums(cells.to_batches(max_chunksize=10))]
    assert sum(lengths) == 200_000
    assert len(lengths) > 1
    taken = 20 * tallies._CELL_ROWS + 10 * tallies._CELL_ROWS
    assert max(lengths) <= 2 * taken


def test_sums_that_overflow_are_refused():
    cells = pa.concat_tables([packed(table_of([(b"zone", 2**61)]))] * 4)
    assert rows_in(next(sums([cells.slice(1)]))) == [(b"zone", 3 * 2**61)]
    with pytest.raises(hs.CountOverflowError, match=r"b'zone' has count 9223372036854775808, beyond 2\*\*63"):
        [*sums([cells])]


# ---- the driver


@settings(max_examples=40)
@given(st.lists(st.lists(st.binary(min_size=1, max_size=3), max_size=9), max_size=9), st.integers(1, 4))
def test_tables_in_any_order_are_added_up(tmp_path_factory, tables, n_rows):
    folder = tmp_path_factory.mktemp("runs")
    counted = [sorted(Counter(pretokens).items()) for pretokens in tables]
    in_cells = [table_of(rows[i : i + n_rows]) for rows in counted for i in range(0, len(rows), n_rows)]
    expected = Counter(pretoken for pretokens in tables for pretoken in pretokens)
    if all(pretoken.decode(errors="replace").isspace() for pretoken in expected):
        return
    size = save_counts(in_cells, folder / "a", counting_of())
    hs.PreTokenCounts.from_mapping(expected).save(folder / "b")
    assert (folder / "a").read_bytes() == (folder / "b").read_bytes()
    assert size[:3] == (len(expected), expected.total(), sum(len(p) * n for p, n in expected.items()))


def test_what_was_left_out_is_told(tmp_path):
    tables = [table_of([(b"", 2), (b"b", 1)]), table_of([]), table_of([(b"", 3)]), table_of([(b"a", 1)])]
    with pytest.warns(UserWarning, match="left out 5 pre-tokens of more than 1 bytes"):
        save_counts(tables, tmp_path / "a", counting_of(1))
    assert dict(hs.PreTokenCounts.load(tmp_path / "a")) == {b"a": 1, b"b": 1}


def test_what_the_driver_refuses(tmp_path):
    refused = [
        ([table_of([(b"a", 2**62)])] * 2, hs.CountOverflowError, "b'a' has count 9223372036854775808"),
        ([], hs.CorpusError, "nothing to count: the texts gave no pre-tokens"),
        ([table_of([])], hs.CorpusError, "nothing to count: the texts gave no pre-tokens"),
        (
            [table_of([(b"\n", 1), (b" ", 1)])],
            hs.CorpusError,
            "nothing to count: the texts are all white space",
        ),
    ]
    (tmp_path / "before").write_bytes(b"kept")
    for tables, error, message in refused:
        with pytest.raises(error, match=message):
            save_counts(tables, tmp_path / "before", counting_of())
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"before": b"kept"}


def test_an_output_that_can_not_be_written_is_refused_before_there_is_work(tmp_path):
    def tables():
        raise AssertionError("the engine was asked")
        yield

    (tmp_path / "file").write_bytes(b"")
    for output, error in ((tmp_path, IsADirectoryError), (tmp_path / "file" / "a", NotADirectoryError)):
        with pytest.raises(error):
            save_counts(tables(), output, counting_of())


def test_a_full_disk_leaves_the_table_that_was_there(tmp_path):
    """As a file that may not grow stands for it."""
    output = tmp_path / "before"
    output.write_bytes(b"kept")
    rows = table_of([(b"%07d" % i, i + 1) for i in range(300_000)])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))  # Python ignores its signal
    try:
        with pytest.raises(OSError, match="File too large"):
            save_counts([rows], output, counting_of())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"before": b"kept"}


@pytest.mark.parametrize("n_runs", [1, 16])
def test_the_drivers_memory_does_not_grow_with_the_table(n_runs, tmp_path):
    program = """
import resource, sys
import pyarrow as pa
from hf_scaffold.scale.arrow import Counting
from hf_scaffold.scale.tallies import save_counts
n_runs = int(sys.argv[2])
def tables(n):
    for run in range(n_runs):
        for first in range(run, n, n_runs << 15):
            names = [b"pre-token %020d" % i for i in range(first, min(first + (n_runs << 15), n), n_runs)]
            columns = [pa.array(names, pa.large_binary()), pa.array([1] * len(names))]
            yield pa.table(columns, ["pretoken", "count"])
for n in (1 << 20, 1 << 22):
    assert save_counts(tables(n), sys.argv[1], Counting.of("gpt2", None, None, None)).n_distinct == n
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
"""
    command = [sys.executable, "-I", "-c", program, tmp_path / "counts.parquet", str(n_runs)]
    little, much = map(int, subprocess.check_output(command, text=True).split())
    assert much - little < 64  # MB, where the table has 160


def test_tables_of_workers_in_any_order_give_the_table_of_one_machine(tmp_path):
    """All of the way: cells of several workers, sums of some of their buckets, the driver."""
    texts = ["international bananas", "hugs", "Arizona zone " * 9, "\nno end", "日本語 zone"] * 3
    dice = random.Random(0)
    cells = []
    for text in texts:
        counts = hs.count([text])
        cells.append(packed_by_bucket(table_of(sorted(counts.items()))))
    joined = pa.concat_tables(cells)
    buckets = np.array(joined["bucket"].to_pylist())
    tables = []
    for part in dice.sample(range(7), 7):
        of_part = joined.filter(pa.array(buckets % 7 == part)).sort_by("first")
        tables += [unpacked(in_one_cell(table)) for table in sums(of_part.to_batches(max_chunksize=2))]
    save_counts(tables, tmp_path / "a", counting_of())
    hs.count(texts).save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert rows_in(summed(pa.concat_tables(tables))) == sorted(hs.count(texts).items())
