"""Rows of several tables added up natively, against Python's own sums."""

import random
from collections import Counter
from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_scaffold._core.counter import sum_rows
from hf_scaffold.errors import CountOverflowError
from hf_scaffold.tables.rows import joined, rows_of

# Short ones that often agree, at the lengths where a prefix ends, with zeros that look like padding.
PRETOKENS = st.one_of(
    st.binary(max_size=3),
    st.lists(st.sampled_from([0, 1, 97, 255]), max_size=2).map(bytes),
    st.builds(
        lambda n, end: b"sixteen letters!!"[:n] + bytes(end),
        st.integers(6, 17),
        st.lists(st.sampled_from([0, 97, 255]), max_size=3),
    ),
)


def table_of(pairs):
    """Rows in the order that they are given in."""
    pretokens, counts = zip(*pairs, strict=True) if pairs else ((), ())
    offsets = np.cumsum([0, *map(len, pretokens)], dtype=np.int64)
    return b"".join(pretokens), offsets, np.array(counts, np.int64)


def pairs_in(rows):
    data, offsets, counts = rows
    pretokens = [data[begin:end] for begin, end in pairwise(offsets.tolist())]
    return [*zip(pretokens, counts.tolist(), strict=True)]


def sums_of(pairs):
    total = Counter()
    for pretoken, count in pairs:
        total[pretoken] += count
    return sorted(total.items())


@given(st.lists(st.tuples(PRETOKENS, st.integers(0, 2**53)), max_size=60))
def test_rows_in_any_order(pairs):
    assert pairs_in(sum_rows(*table_of(pairs))) == sums_of(pairs)


@given(st.lists(st.dictionaries(PRETOKENS, st.integers(1, 2**53), max_size=12), max_size=9))
def test_rows_of_tables(tables):
    found = pairs_in(sum_rows(*joined([*map(rows_of, tables)])))
    assert found == sums_of(chain.from_iterable(table.items() for table in tables))


@pytest.mark.parametrize("seed", range(4))
def test_many_rows_of_many_tables(seed):
    rng = random.Random(seed)
    words = [f"{'the same beginning ' * rng.randint(0, 1)}{i}".encode() for i in range(9_000)]
    tables = [dict.fromkeys(rng.sample(words, rng.choice([1, 50, 5_000])), i) for i in range(1, 14)]
    found = pairs_in(sum_rows(*joined([*map(rows_of, tables)])))
    assert found == sums_of(chain.from_iterable(table.items() for table in tables))


def test_rows_may_be_a_part_of_the_data():
    offsets, counts = np.array([1, 2, 3]), np.array([5, 6])
    offsets.setflags(write=False)
    assert pairs_in(sum_rows(b"zba" + bytes(99), offsets, counts)) == [(b"a", 6), (b"b", 5)]


@pytest.mark.parametrize("seed", range(9))
def test_a_sum_beyond_int64_is_an_error(seed):
    pairs = [(b"a", 2**62), (b"a", 2**62), (b"a", 7), (b"b", 2**63 - 1), (b"", 2**63 - 1)]
    random.Random(seed).shuffle(pairs)
    with pytest.raises(CountOverflowError, match=rf"pre-token b'a' has count {2**63 + 7}, beyond 2\*\*63"):
        sum_rows(*table_of(pairs))
    kept = [(pretoken, count) for pretoken, count in pairs if pretoken != b"a"]
    assert pairs_in(sum_rows(*table_of(kept))) == sorted(kept)


@pytest.mark.parametrize("offsets", [[0, 5, 2], [0, 1, 9], [-1, 0, 1], [2, 1, 0]])
def test_offsets_stay_within_the_data(offsets):
    with pytest.raises(ValueError, match="offsets must ascend"):
        sum_rows(b"abcd", np.array(offsets), np.array([1, 1]))


@pytest.mark.parametrize("counts", [[], [1], [1, 1, 1]])
def test_each_row_has_a_count(counts):
    with pytest.raises(ValueError, match="one more of offsets than of counts, not 3 and"):
        sum_rows(b"ab", np.array([0, 1, 2]), np.array(counts, np.int64))


def test_counts_are_not_negative():
    with pytest.raises(ValueError, match="counts must not be negative"):
        sum_rows(b"ab", np.array([0, 1, 2]), np.array([1, -1]))
