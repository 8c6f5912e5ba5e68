"""What the merge loops refuse by themselves, and what training costs on text that repeats itself."""

import time
from functools import partial

import numpy as np
import pytest

import hf_scaffold as hs
from hf_scaffold._core.counter import PretokenCounter, first_out_of_order
from hf_scaffold._core.trainer import AmbiguousMergeLoop, MergeLoop, MergeReplay, PickyMergeLoop

GIVEN = {
    "symbols": np.array([0, 1, 1, 2], np.int32),
    "offsets": np.array([0, 3, 4]),
    "counts": np.array([5, 1]),
    "tokens": [b"a", b"##b", b"c"],
    "n_special": 0,
    "min_frequency": 0,
    "max_token_length": 0,
    "scaffold": True,
    "prefix_length": 2,
}
IDS = np.arange(3, dtype=np.int32)
WRONG = {
    "symbol beyond": ({"symbols": np.array([0, 1, 3, 2], np.int32)}, "symbol 2 is 3; the tokens are 0 to 2"),
    "symbol below": ({"symbols": np.array([0, -1, 1, 2], np.int32)}, "symbol 1 is -1"),
    "no prefix": ({"symbols": np.array([0, 2, 1, 2], np.int32)}, "symbol 1 continues a pre-token"),
    "descending offsets": ({"offsets": np.array([0, 6, 4])}, "offset 1 is 6"),
    "offsets that go back": ({"offsets": np.array([0, 3, 2, 4]), "counts": np.ones(3, int)}, "offset 2 is 2"),
    "offsets from 1": ({"offsets": np.array([1, 3, 4])}, "offsets must be 3 positions from 0 to 4"),
    "offsets beyond": ({"offsets": np.array([0, 3, 5])}, "offsets must be"),
    "too few offsets": ({"offsets": np.array([0, 4])}, "offsets must be"),
    "no offsets": ({"offsets": np.zeros(0, int), "counts": np.zeros(0, int)}, "offsets must be"),
    "count 0": ({"counts": np.array([5, 0])}, "count 1 is 0; counts are from 1"),
    "negative count": ({"counts": np.array([-5, 1])}, "count 0 is -5"),
    "min_frequency": ({"min_frequency": -1}, "min_frequency is -1; it must be from 0 to 9223372036854775807"),
    "large min_frequency": ({"min_frequency": 2**63}, "min_frequency is 9223372036854775808"),
    "max_token_length": ({"max_token_length": 2**40}, "max_token_length is 1099511627776"),
    "n_special": ({"n_special": 4}, "n_special is 4; it must be from 0 to 3"),
    "prefix_length": ({"prefix_length": -1}, "prefix_length is -1"),
    "code beyond": ({"ids": np.array([0, 1], np.int32)}, "symbol 3 is -1"),
    "code of no token": ({"ids": np.array([0, 3, 2], np.int32)}, "symbol 1 is 3"),
    "code below": ({"symbols": np.array([0, -1, 1, 2], np.int32), "ids": IDS}, "symbol 1 is -1"),
    "symbols of other width": ({"symbols": np.array([0, 1, 1, 2], np.int16)}, "Buffer dtype mismatch"),
    "signed bytes": ({"symbols": np.array([0, 1, 1, 2], np.int8)}, "Buffer dtype mismatch"),
}


@pytest.mark.parametrize("kind", [MergeLoop, AmbiguousMergeLoop])
@pytest.mark.parametrize("name", WRONG)
def test_loops_check_what_they_are_given(kind, name):
    changed, message = WRONG[name]
    with pytest.raises(ValueError, match=message):
        kind(**{**GIVEN, **changed})


def test_loops_take_what_is_right():
    loop = MergeLoop(**{**GIVEN, "max_token_length": np.int64(7), "min_frequency": np.int32(1)})
    assert loop.run(np.int64(5)) == "vocab_size"
    with pytest.raises(ValueError, match="vocab_size is -1"):
        loop.run(-1)
    with pytest.raises(ValueError, match="vocab_size is 18446744073709551616"):
        loop.run(2**64)


@pytest.mark.parametrize("kind", [MergeLoop, AmbiguousMergeLoop])
def test_symbols_may_be_given_as_bytes_and_by_their_place_in_a_table(kind):
    def result(**changed):
        loop = kind(**{**GIVEN, **changed})
        return loop.run(5), loop.merges, loop.frequencies

    expected = result()
    assert result(symbols=np.array([0, 1, 1, 2], np.uint8)) == expected
    for dtype in (np.uint8, np.int32):
        table = np.array([9, 2, 9, 1, 0], np.int32)
        assert result(symbols=np.array([4, 3, 3, 1], dtype), ids=table) == expected


@pytest.mark.parametrize("kind", [MergeLoop, AmbiguousMergeLoop, partial(PickyMergeLoop, threshold=0.5)])
def test_a_loop_that_has_finished_keeps_its_results(kind):
    loop, same = kind(**GIVEN), kind(**GIVEN)
    for each in (loop, same):
        each.run(4)
    loop.finish()
    loop.finish()
    assert (loop.tokens, loop.merges, loop.scaffolds) == (same.tokens, same.merges, same.scaffolds)
    assert loop.frequencies == same.frequencies
    assert loop.run(4) == "vocab_size"
    with pytest.raises(RuntimeError, match="has finished; make another"):
        loop.run(5)
    with pytest.raises(RuntimeError, match="has finished"):
        _ = loop.head_frequency


def test_what_the_cells_encode():
    """Of 3 merges, 2, 1 and none, in any order and repeated."""
    a, b, c = range(3)
    rows = [[a, b, a, b, c], [a, b], [c], [a, b, c]]
    loop = MergeLoop(
        np.concatenate(rows).astype(np.int32), np.cumsum([0, *map(len, rows)]), np.array([1, 9, 1, 5]),
        [b"a", b"b", b"c"], 0, 0, 0, True,
    )  # fmt: skip
    loop.run(6)
    ab, abc, ababc = 3, 4, 5
    assert loop.merges == [(a, b), (ab, c), (ab, abc)]
    for n_merges, expected in (
        (None, [[ababc], [ab], [c], [abc]]),
        (3, [[ababc], [ab], [c], [abc]]),
        (2, [[ab, abc], [ab], [c], [abc]]),
        (1, [[ab, ab, c], [ab], [c], [ab, c]]),
        (0, rows),
    ):
        options = () if n_merges is None else (n_merges,)
        for wanted in ([0, 1, 2, 3], [2, 3], [3, 0, 0, 1], [1], []):
            ids, ends = loop.encoded(np.array(wanted, np.int64), *options)
            assert [x.tolist() for x in np.split(ids, ends[1:-1])][: len(wanted)] == [
                expected[row] for row in wanted
            ]
    loop.finish()
    assert loop.encoded(np.array([3]))[0].tolist() == [abc]
    for row in (-1, 4, 2**62):
        with pytest.raises(ValueError, match=f"there is no pre-token {row}; there are 4"):
            loop.encoded(np.array([0, row]))
    with pytest.raises(ValueError, match="n_merges is -1"):
        loop.encoded(np.array([0]), -1)


def test_cells_of_any_pretoken_are_found():
    """Of 1 to 40 symbols, so that they begin anywhere in a cache line."""
    rows = [[row % 3] * (1 + row * 7 % 40) for row in range(200)]
    loop = MergeLoop(
        np.concatenate(rows).astype(np.int32), np.cumsum([0, *map(len, rows)]), np.arange(1, 201),
        [b"a", b"b", b"c"], 0, 0, 0, True,
    )  # fmt: skip
    for row, expected in enumerate(rows):
        assert loop.encoded(np.array([row]), 0)[0].tolist() == expected
    sizes = [(row[0], count * len(row)) for count, row in enumerate(rows, 1)]
    assert loop.frequencies == [sum(size for of, size in sizes if of == letter) for letter in range(3)]


def test_ambiguous_cells_are_no_encoding():
    loop = AmbiguousMergeLoop(**GIVEN)
    with pytest.raises(RuntimeError, match="no encoding"):
        loop.encoded(np.array([0]))


@pytest.mark.parametrize("rule", [(0, 1, 3), (-1, 1, 2), (0, 3, 2)])
def test_replay_checks_its_rules(rule):
    arrays = [GIVEN[name] for name in ("symbols", "offsets", "counts", "tokens")]
    with pytest.raises(ValueError, match=r"rule 0 names token -?\d of 3"):
        MergeReplay(*arrays, np.array([rule], np.int32))
    with pytest.raises(ValueError, match="rows of three tokens"):
        MergeReplay(*arrays, np.zeros((1, 2), np.int32))


X, Y, W, Z, M = range(5)


@pytest.mark.parametrize(
    ("symbols", "rules", "found"),
    [
        ([X, Y, Y], [(X, Y, X)], [2]),  # applies again to what it made
        # After two rules X and Y stand where they stood at first; what they merge into merges in turn.
        ([X, Y, W, W, Y], [(Y, W, Z), (Z, W, Y), (X, Y, M), (M, Y, X)], [1, 1, 1, 1]),
    ],
)
def test_replay_of_rules_that_make_what_was_there_before(symbols, rules, found):
    tokens = [b"x", b"y", b"w", b"z", b"m"]
    arrays = (np.array(symbols, np.int32), np.array([0, len(symbols)], np.int64), np.array([1], np.int64))
    assert MergeReplay(*arrays, tokens, np.array(rules, np.int32)).replay() == found


@pytest.mark.parametrize("kind", [MergeLoop, AmbiguousMergeLoop])
def test_a_loop_is_set_up_once(kind):
    loop = kind(**GIVEN)
    with pytest.raises(RuntimeError, match="set up once"):
        loop.__init__(**GIVEN)
    with pytest.raises(RuntimeError, match="left in the middle"):
        kind.__new__(kind).run(3)


@pytest.mark.parametrize("offsets", [[0, 5, 2], [0, 1, 9], [-1, 0, 1], [2, 1, 0]])
def test_tables_of_strings_are_read_within_their_data(offsets):
    with pytest.raises(ValueError, match="offsets must ascend"):
        first_out_of_order(b"abcd", np.array(offsets))


def test_a_counter_needs_no_init():
    with pytest.raises(TypeError):
        PretokenCounter.__new__(PretokenCounter)


def fibonacci(n):
    shorter, word = "a", "ab"
    while len(word) < n:
        shorter, word = word, word + shorter
    return word[:n]


@pytest.mark.parametrize(
    "make", [lambda n: "a" * n, lambda n: "ab" * (n // 2), fibonacci], ids=["a", "ab", "fib"]
)
def test_training_is_near_linear_in_text_that_repeats_itself(make):
    """One pre-token, eight times as long: quadratic would take sixty-four times as long."""

    def seconds(n):
        counts = hs.PreTokenCounts.from_mapping({make(n): 1})
        begin = time.process_time()
        with pytest.warns(UserWarning, match="no pair of tokens is left"):
            hs.train(counts, 2000)
        return time.process_time() - begin

    shorter = min(seconds(1 << 17) for _ in range(2))
    assert seconds(1 << 20) < 24 * shorter
