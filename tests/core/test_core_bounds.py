"""The core's classes and functions, given what nobody means: a right result or an error, nothing else.

Whoever can import a class can call it, so none may rely on what the layers above it check.
"""

import itertools
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_scaffold._core.pretoken_encoder import PretokenEncoder
from hf_scaffold._core.spans import RowSpans, pieces_as_lists
from hf_scaffold._core.text_encoder import (
    AddedTokenFinder,
    TextEncoder,
    constant_lists,
    fill_rows,
    framed,
    rows_as_lists,
    rules_of,
)
from hf_scaffold._core.text_reader import Utf8, checked_utf8, json_texts
from hf_scaffold._core.token_decoder import TokenDecoder

REFUSED = (ValueError, OverflowError, IndexError, MemoryError, TypeError)
BYTES = np.arange(256, dtype=np.int32)
NO_RULES = np.empty((0, 3), np.int32)
NONE = AddedTokenFinder([])
MIB = 1 << 20
HIGHEST = (1 << 31) - 1


def int32(*rows):
    return np.array(rows, np.int32)


def int64(*rows):
    return np.array(rows, np.int64)


def plain_encoder():
    return TextEncoder("gpt2", BYTES, NO_RULES, {})


# ---- more ids than bytes

XY = int32((ord("x"), ord("y"), 300))


@pytest.mark.parametrize("n_ids", [0, 1, 2, 3, 4, 16, 5000])
def test_a_replacement_may_be_longer_than_the_text(n_ids):
    """As from a file in which two tokens have one id: thousands of ids for two bytes."""
    parts = list(range(1000, 1000 + n_ids))
    encoder = TextEncoder("gpt2", BYTES, XY, {300: parts})
    assert encoder.encode_one("xy", NONE) == parts
    for texts in (
        ["xy"] * 500,
        ["xy " * 400],
        ["xy" * 200],
        ["a", "xy", "语xy", ""] * 90,
        ["xy z" * (300_000 // (n_ids + 9))],
    ):
        expected = [
            list(
                itertools.chain.from_iterable(parts if piece is None else piece.encode() for piece in pieces)
            )
            for pieces in (text.replace("xy", "\0xy\0").split("\0") for text in texts)
            for pieces in [[None if piece == "xy" else piece for piece in pieces]]
        ]
        for _ in range(2):  # the second time from the cache, as far as it holds them
            for n_threads, dropout in ((1, 0), (3, 0), (1, 1e-9)):
                streams = np.zeros(len(texts), np.uint64)
                ids, ends, unsure = encoder.encode(texts, NONE, n_threads, dropout, streams)
                assert unsure == []
                assert [ids[a:b].tolist() for a, b in itertools.pairwise(ends)] == expected


def test_a_byte_may_become_more_ids_than_a_text_has_bytes():
    encoder = TextEncoder("gpt2", BYTES, NO_RULES, {ord("a"): list(range(70))})
    assert encoder.encode_one("a" * 999, NONE) == list(range(70)) * 999
    assert encoder.encode_one("b a a", NONE) == [98, 32, *range(70), 32, *range(70)]


PARTS = np.array([5, 6, 7], np.int32)


def test_replacements_in_rows():
    encoder = TextEncoder("gpt2", BYTES, NO_RULES, (97, np.array([2, 2, 3]), PARTS))
    assert encoder.encode_one("abcd", NONE) == [5, 6, 7, 100]


@pytest.mark.parametrize(
    "rows",
    [
        (97, np.array([2, 1]), PARTS),
        (97, np.array([2, 4]), PARTS),
        (97, np.array([-1]), PARTS),
        (97, np.array([3]), -PARTS),
        (HIGHEST, np.array([2, 3]), PARTS),
        (97, np.array([3], np.int32), PARTS),
        (97, np.array([3]), PARTS.astype(np.int64)),
        (97, None, PARTS),
        (97, np.array([3]), None),
        (97, np.array([3])),
    ],
)
def test_rows_that_do_not_fit(rows):
    with pytest.raises(REFUSED):
        TextEncoder("gpt2", BYTES, NO_RULES, rows)


@given(
    st.lists(st.tuples(*[st.sampled_from([97, 98, 300, 301, 302])] * 3), max_size=6),
    st.dictionaries(
        st.sampled_from([97, 98, 300, 301, 302, HIGHEST]),
        st.lists(st.sampled_from([97, 300, 5, HIGHEST]), max_size=40),
        max_size=4,
    ),
    st.lists(st.text("ab 1", max_size=12), max_size=8),
)
def test_any_rules_and_replacements_equal_the_slow_reference(rules, replacements, texts):
    """Rules as no training makes them: one id for several tokens, loops, replacements of replaced tokens."""
    table = np.array(rules, np.int32).reshape(-1, 3)
    encoder = TextEncoder("gpt2-digits", BYTES, table, replacements)
    pretokens = PretokenEncoder(BYTES, table, replacements, {})
    for text in [*texts, "".join(texts) * 9]:
        expected = []
        for pretoken in oracle_pretokens(text):
            merged = oracle_merge(list(pretoken.encode()), rules)
            expected += itertools.chain.from_iterable(replacements.get(i, [i]) for i in merged)
        assert encoder.encode_one(text, NONE) == expected
        assert encoder.encode_one(text, NONE) == expected
        data = [pretoken.encode() for pretoken in oracle_pretokens(text)]
        ids, _ = pretokens.encode(b"".join(data), np.cumsum([0, *map(len, data)]))
        assert ids.tolist() == expected


def oracle_pretokens(text):
    from hf_scaffold.text.pre_tokenizers import get_pre_tokenizer

    pre_tokenizer = get_pre_tokenizer("gpt2-digits").pre_tokenizer
    return [text[a:b] for _, (a, b) in pre_tokenizer.pre_tokenize_str(text)]


def oracle_merge(ids, rules):
    """The first rule that applies, leftmost first, until none does; of two for a pair the first counts."""
    first = {}
    for left, right, merged in rules:
        first.setdefault((left, right), merged)
    while True:
        for (left, right), merged in first.items():
            places = [i for i, pair in enumerate(itertools.pairwise(ids)) if pair == (left, right)]
            if places:
                ids[places[0] : places[0] + 2] = [merged]
                break
        else:
            return ids


# ---- ids


def test_memory_follows_the_number_of_tokens_not_their_ids():
    """Ids of two thousand million would take some 50 GB where they index tables."""
    rules = int32((97, 98, HIGHEST), (HIGHEST, 99, HIGHEST - 1))
    replacements = {HIGHEST: [5, HIGHEST - 5], 7: [1], HIGHEST - 1: [HIGHEST]}
    for encode in (
        TextEncoder("gpt2", BYTES, rules, replacements).encode_one,
        lambda text, _: PretokenEncoder(BYTES, rules, replacements, {}).encode(text.encode(), int64(0, 3))[0],
    ):
        assert list(encode("abd", NONE)) == [5, HIGHEST - 5, 100]
        assert list(encode("abc", NONE)) == [HIGHEST]
        assert list(encode("x\7y", NONE)) == [120, 1, 121]
    decoder = TokenDecoder({0: b"a", 5: b"", 10**8: b"b", (1 << 32) - 1: b"c"})
    assert decoder.decode([0, 10**8, 5, 1, 10**8 + 1, (1 << 32) - 1, 1 << 31]) == "abc"
    finder = AddedTokenFinder([("é", HIGHEST, False, False, False, False, False)])
    assert plain_encoder().encode_one("aé", finder) == [97, HIGHEST]
    rows = rows_as_lists(int32(0, HIGHEST), int64([[0, 2]]), int32(-1), int64([1, 0]), HIGHEST, [7])
    assert rows == [[HIGHEST, 7, HIGHEST]]


def test_a_vocabulary_of_few_tokens_with_high_ids_takes_little_memory(tmp_path):
    """End to end, what a session derives from it included."""
    script = tmp_path / "script.py"
    script.write_text(
        """
import toys

def peak():  # KB, of this program: ru_maxrss knows that of the one that started it
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

tok = toys.tokenizer()
tok(["Arizona"], padding=True), tok.decode([1])
from hf_scaffold.engine.bare import BareEncoder
from hf_scaffold.engine.definition import Definition
from hf_scaffold.engine.model import Model
before = peak()
vocab = {"a": 0, "b": 1, "ab": 10**8}
model = Model(vocab, [["a", "b"], ["ab", "a"]], {"aba": ["ab", "a"]}, {})
gpt2 = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
bare = BareEncoder(Definition(model, [], None, gpt2, None, [], []))
assert bare.encode("abaab", frozenset()) == [10**8, 0, 10**8]
assert len(bare.numbers) < 5000
assert peak() - before < 100_000
"""
    )
    command = [sys.executable, str(script)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("bad", [-1, -2, -(1 << 31), 1 << 31, 1 << 70])
def test_ids_that_no_token_has_are_refused(bad):
    flags = [False] * 5
    for make in (
        lambda: AddedTokenFinder([("a", bad, *flags)]),
        lambda: TextEncoder("gpt2", BYTES, NO_RULES, {bad: [1]}),
        lambda: TextEncoder("gpt2", BYTES, NO_RULES, {1: [bad]}),
        lambda: TextEncoder("gpt2", BYTES, NO_RULES, (bad, np.array([1]), np.array([1], np.int32))),
        lambda: PretokenEncoder(BYTES, NO_RULES, {bad: [1]}, {}),
        lambda: PretokenEncoder(BYTES, NO_RULES, {1: [2, bad]}, {}),
        lambda: PretokenEncoder(BYTES, NO_RULES, {}, {b"a": bad}),
        lambda: PretokenEncoder({(b"a", False, True): bad}, NO_RULES, {}, {}),
        lambda: rules_of([["a", "b"]], {"a": 1, "b": bad, "ab": 2}, {}) if bad > 0 else refuse(),
        lambda: TokenDecoder({bad: b"a"}) if not 0 <= bad < 1 << 32 else refuse(),
    ):
        with pytest.raises((ValueError, OverflowError)):
            make()


def refuse():
    raise ValueError("nothing to test here")


def test_arrays_of_ids_that_no_token_has_are_refused():
    for bad in (-2, -(1 << 31)):
        for encoder, rest in ((TextEncoder, [{}]), (PretokenEncoder, [{}, {}])):
            preset = ["gpt2"] if encoder is TextEncoder else []
            with pytest.raises(ValueError, match="is no token's id"):
                encoder(*preset, np.full(256, bad, np.int32), NO_RULES, *rest)
            for row in ((bad, 1, 2), (1, bad, 2), (1, 2, bad), (1, 2, -1)):
                with pytest.raises(ValueError, match="is no token's id"):
                    encoder(*preset, BYTES, int32(row), *rest)
    with pytest.raises(OverflowError):
        PretokenEncoder({}, NO_RULES, {}, {}, -1, False, HIGHEST - 254)
    encoder = PretokenEncoder({}, NO_RULES, {}, {}, -1, False, HIGHEST - 255)
    assert encoder.encode(b"\xff\0", int64(0, 2))[0].tolist() == [HIGHEST, HIGHEST - 255]


@pytest.mark.parametrize("symbol", [b"", b"ab", b"\xc3\xa9x", b"\xff", b"\xc3", b"abcde"])
def test_symbols_that_are_no_character_are_refused(symbol):
    with pytest.raises(ValueError, match="must be one character"):
        PretokenEncoder({(symbol, False, False): 3}, NO_RULES, {}, {})


@pytest.mark.parametrize("n_columns", [0, 1, 2, 4])
def test_rules_of_another_shape_are_refused(n_columns):
    for make in (lambda r: TextEncoder("gpt2", BYTES, r, {}), lambda r: PretokenEncoder(BYTES, r, {}, {})):
        with pytest.raises(ValueError, match="columns instead of 3"):
            make(np.zeros((5, n_columns), np.int32))


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("gpt2", None, NO_RULES, {}),
        ("gpt2", BYTES, None, {}),
        ("gpt2", BYTES, NO_RULES, None),
        ("gpt2", BYTES, NO_RULES, {1: None}),
        ("gpt2", BYTES, NO_RULES, {"a": [1]}),
        ("gpt2", BYTES.astype(np.int64), NO_RULES, {}),
        ("gpt2", BYTES[::2], NO_RULES, {}),
        ("gpt2", BYTES, NO_RULES.ravel(), {}),
    ],
)
def test_encoders_of_anything(arguments):
    with pytest.raises(REFUSED):
        TextEncoder(*arguments)
    with pytest.raises(REFUSED):
        PretokenEncoder(*arguments[1:], {})
    with pytest.raises(REFUSED):
        PretokenEncoder({None: 3}, NO_RULES, {}, {})
    with pytest.raises(REFUSED):
        PretokenEncoder({(None, False, False): 3}, NO_RULES, {}, {})
    with pytest.raises(REFUSED):
        PretokenEncoder(BYTES, NO_RULES, {}, {None: 3})


@pytest.mark.parametrize("tokens", [None, {0: None}, {0: "a"}, {None: b"a"}, {"a": b"a"}, [b"a"]])
def test_decoders_of_anything(tokens):
    with pytest.raises(REFUSED):
        TokenDecoder(tokens)


# ---- objects that were never made, or are made again


@pytest.mark.parametrize("cls", [TextEncoder, PretokenEncoder, AddedTokenFinder, TokenDecoder])
def test_there_are_no_objects_without_content(cls):
    class Heedless(cls):
        def __init__(self, *arguments):
            pass

    for make in (lambda: cls.__new__(cls), Heedless):
        with pytest.raises(TypeError):
            make()


def test_made_again_they_stay_what_they_are():
    encoder, finder = plain_encoder(), AddedTokenFinder([("a", 300, False, False, False, False, False)])
    decoder = TokenDecoder({0: b"a"})
    for made, arguments in (
        (encoder, ("gpt2", BYTES[::-1].copy(), NO_RULES, {})),
        (finder, ([],)),
        (decoder, ({0: b"b"},)),
    ):
        made.__init__(*arguments)
    assert encoder.encode_one("ab", finder) == [300, 98]
    assert decoder.decode([0]) == "a"


# ---- calls


@pytest.mark.parametrize("n_threads", [0, 1, 257, 1 << 31, (1 << 62) + 1, (1 << 64) - 1])
def test_any_number_of_threads_will_do(n_threads):
    text = "Some text. " * 40_000
    ids, ends, unsure = plain_encoder().encode([text, "a"], NONE, n_threads)
    assert (ids.tobytes(), ends.tolist(), unsure) == (
        int32(*text.encode(), 97).tobytes(),
        [0, len(text), len(text) + 1],
        [],
    )


@pytest.mark.parametrize("streams", [None, np.zeros(1, np.uint64), np.zeros(3, np.uint64)], ids=str)
def test_dropout_needs_a_stream_for_each_text(streams):
    with pytest.raises(ValueError, match="dropout needs 2 streams, one for each text"):
        plain_encoder().encode(["x", "y"], NONE, 1, 0.5, streams)


@pytest.mark.parametrize("dropout", [float("nan"), float("inf"), -1, 2, 1e-40])
def test_any_dropout_will_do(dropout):
    encoder = TextEncoder("gpt2", BYTES, XY, {})
    ids, _, _ = encoder.encode(["xy"], NONE, 1, dropout, np.zeros(1, np.uint64))
    assert ids.tolist() in ([300], [120, 121])


def test_utf8_that_does_not_lie_in_its_memory_is_refused():
    encoder = plain_encoder()
    for offsets in ([], [0, 4], [2, 1], [-1, 2], [0, 2, 1], [1 << 62, 1 << 62], [-(1 << 63), 1]):
        with pytest.raises(ValueError, match=r"text \d from|offsets is empty"):
            encoder.encode_utf8(b"abc", np.array(offsets, np.int64), NONE)
    ids, ends, unsure = encoder.encode_utf8(b"", int64(0), NONE)
    assert (ids.tolist(), ends.tolist(), unsure) == ([], [0], [])


def rows_of(ids, ends):
    return [ids[begin:end].tolist() for begin, end in itertools.pairwise(ends.tolist())]


@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_an_id_follows_the_texts_that_it_is_for(short, n_threads):
    texts = [b"xy", b"", b"xx", b"\xff", b"\xff", b"xyz " * 200_000, b"x" * 300_000, b"", b""] * 2
    is_end = np.arange(len(texts)) % 3 != 1
    encoder, offsets = TextEncoder("gpt2", BYTES, XY, {}), np.cumsum([0, *map(len, texts)])
    ids, ends, unsure = encoder.encode_utf8(b"".join(texts), offsets, NONE, n_threads)
    found = encoder.encode_utf8(
        b"".join(texts), offsets, NONE, n_threads, end_id=77, is_end=is_end.view(np.uint8), short=short
    )
    assert found[0].dtype == (np.uint16 if short else np.int32)
    assert unsure == found[2] == [3, 4, 12, 13]
    expected = [row + [77] * end for row, end in zip(rows_of(ids, ends), is_end.tolist(), strict=True)]
    assert rows_of(*found[:2]) == expected


def test_an_ending_that_fits_no_text_is_refused():
    encoder, one = plain_encoder(), np.ones(1, np.uint8)
    for is_end in (one[:0], np.ones(2, np.uint8)):
        with pytest.raises(ValueError, match=r"is_end has \d values for 1 texts"):
            encoder.encode_utf8(b"abc", int64(0, 3), NONE, end_id=1, is_end=is_end)
    with pytest.raises(ValueError, match="-1"):
        encoder.encode_utf8(b"abc", int64(0, 3), NONE, end_id=-1, is_end=one)


@pytest.mark.parametrize("n", [1, 7, 100_000])
def test_ids_that_are_too_large_to_be_short(n):
    def encode(largest):
        encoder = TextEncoder("gpt2", BYTES, NO_RULES, {ord("y"): [largest]})
        return encoder.encode_utf8(b"x" * n + b"y", int64(0, n + 1), NONE, short=True)[0]

    assert encode(65535).tolist() == [ord("x")] * n + [65535]
    for largest in (65536, HIGHEST):
        with pytest.raises(OverflowError, match="too large for uint16"):
            encode(largest)


def test_what_is_known_to_be_utf8():
    text = "aé語🙂".encode()
    for data in (text, memoryview(text), np.frombuffer(text, np.uint8), bytearray(text)):
        assert bytes(checked_utf8(data)) == text
    for data in (b"\xff", text[:-1], b"\x80", b"\xed\xa0\x80"):
        assert checked_utf8(data) is None
    assert len(Utf8()) == len(checked_utf8(b"")) == 0
    assert bytes(Utf8()) == bytes(checked_utf8(b"")) == b""
    with pytest.raises(TypeError):
        checked_utf8("text")


def test_what_is_known_to_be_utf8_can_not_be_changed():
    data = np.frombuffer("é語".encode(), np.uint8).copy()
    utf8 = checked_utf8(data)
    data[:] = 0xFF
    assert bytes(utf8).decode() == "é語"
    assert memoryview(utf8).readonly
    assert len(Utf8(b"\xff")) == 0  # whatever it is called with


def test_json_lines_may_be_written_to_meanwhile():
    """What is then read is UTF-8 or left to Python's reader."""
    data = np.frombuffer(b'{"text": "%s"}\n' % ("é" * 40_000).encode(), np.uint8).copy()
    stop = []

    def write():
        while not stop:
            data[40_000] ^= 0x40

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        for _ in range(200):
            utf8, _, n_lines, _ = json_texts(data, b"text")
            assert len(utf8) == 80_000 * n_lines
            assert checked_utf8(bytes(utf8)) is not None
        stop.append(True)
        writing.result(60)


def test_offsets_may_lie_inside_the_characters_of_utf8():
    text = "aé語🙂".encode() * 3
    encoder, utf8 = plain_encoder(), checked_utf8(text)
    for begin, end in itertools.combinations_with_replacement(range(len(text) + 1), 2):
        offsets = int64(begin, end)
        found = encoder.encode_utf8(utf8, offsets, NONE)
        expected = encoder.encode_utf8(text, offsets, NONE)
        assert [part.tolist() for part in found[:2]] == [part.tolist() for part in expected[:2]]
        assert found[2] == expected[2] == ([] if checked_utf8(text[begin:end]) is not None else [0])


def test_utf8_may_be_written_to_meanwhile():
    """Bytes that end inside a character would be read past their end."""
    encoder, data = plain_encoder(), np.frombuffer("é語".encode() * 20_000, np.uint8).copy()
    stop = []

    def write():
        while not stop:
            data[-1:] = 0xF0
            data[-1:] = 0xAA

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        for _ in range(50):
            ids, _, unsure = encoder.encode_utf8(data, int64(0, len(data)), NONE)
            assert unsure == [0] or len(ids) == len(data)
        stop.append(True)
        writing.result(60)


def test_lists_may_change_while_they_are_read():
    class Key(str):
        __hash__ = str.__hash__

        def __eq__(self, other):
            merges.extend([["a", "b"]] * 1000)
            return str.__eq__(self, other)

    merges = [["a", "b"], ["a", "b"]]
    assert rules_of(merges, {Key("a"): 1, "b": 2}, {"ab": 3}).tolist() == [[1, 2, 3]] * 2
    assert len(merges) > 2


# ---- rows

IDS = int32(*range(10))


@pytest.mark.parametrize(
    "offsets", [[], [1, 2], [0, 11], [0, 5, 3], [0, -1], [0, 20, 10], [-5, 3], [0, -(1 << 63), 10]]
)
def test_frames_around_what_is_not_there_are_refused(offsets):
    with pytest.raises(ValueError, match=r"offsets must ascend|goes from"):
        framed(IDS, np.array(offsets, np.int64), int32(1), int32(2, 3))


def test_frames():
    made, ends = framed(IDS, int64(0, 2, 2, 3), int32(50), int32(60, 61))
    assert (made.tolist(), ends.tolist()) == ([50, 0, 1, 60, 61, 50, 60, 61, 50, 2, 60, 61], [0, 5, 8, 12])
    made, ends = framed(IDS, int64(0), int32(50), int32())
    assert (made.tolist(), ends.tolist()) == ([], [0])


BAD_ROWS = {
    "another sequence": ([[[0, 2]]], [-2], [[0, 0]]),
    "no sequence at all": ([[[0, 2]]], [-(1 << 31)], [[0, 0]]),
    "beyond the ids": ([[[0, 11]]], [-1], [[0, 0]]),
    "far beyond": ([[[0, 1 << 62]]], [-1, -1, -1], [[0, 0]]),
    "backwards": ([[[3, 2]]], [-1], [[0, 0]]),
    "before the ids": ([[[-1, 2]]], [-1], [[0, 0]]),
    "negative padding": ([[[0, 2]]], [-1], [[-1, 1]]),
    "padding on the other side": ([[[0, 2]]], [-1], [[1, -3]]),
    "padding without end": ([[[0, 2]]], [-1], [[(1 << 63) - 1, (1 << 63) - 1]]),
    "more padding than memory": ([[[0, 2]]], [-1], [[1 << 60, 0]]),
    "other rows": ([[[0, 2]]], [-1], [[0, 0], [0, 0]]),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_rows_of_what_is_not_there_are_refused(name):
    spans, template, padding = BAD_ROWS[name]
    with pytest.raises((ValueError, MemoryError)):
        rows_as_lists(IDS, int64(*spans), int32(*template), int64(*padding), 0, list(range(10)))


def test_rows_of_another_shape_are_refused():
    with pytest.raises(ValueError, match="must be of shape"):
        rows_as_lists(IDS, np.zeros((1, 1, 1), np.int64), int32(-1), int64([0, 0]), 0, [])
    with pytest.raises(ValueError, match="must be of shape"):
        rows_as_lists(IDS, np.zeros((1, 1, 2), np.int64), int32(-1), int64([0]), 0, [])


def test_numbers_that_are_not_there_are_made():
    """A padding id that another thread has just added is beyond those that a list was made of."""
    for numbers in ([], [0], list(range(5)), list(range(100))):
        rows = rows_as_lists(IDS, int64([[2, 8]]), int32(77, -1, 99), int64([1, 2]), 1234, numbers)
        assert rows == [[1234, 77, 2, 3, 4, 5, 6, 7, 99, 1234, 1234]]
    rows = rows_as_lists(int32(-5, -1), int64([[0, 2]]), int32(-1), int64([0, 1]), -7, list(range(5)))
    assert rows == [[-5, -1, -7]]


BAD_MATRICES = {
    **{name: (s, t, [p[0][0]], 12) for name, (s, t, p) in BAD_ROWS.items() if "padding" not in name},
    "other rows": ([[[0, 2]], [[0, 2]]], [-1], [0], 12),
    "left of another number": ([[[0, 2]]], [-1], [0, 0], 12),
    "too narrow": ([[[0, 9]]], [-1], [0], 8),
    "too far right": ([[[0, 2]]], [-1, 3], [10], 12),
    "too far left": ([[[0, 2]]], [-1, 3], [-1], 12),
    "out of sight": ([[[0, 2]]], [-1, 3], [(1 << 63) - 1], 12),
}


@pytest.mark.parametrize("name", BAD_MATRICES)
def test_matrices_of_what_is_not_there_are_refused(name):
    spans, template, left, width = BAD_MATRICES[name]
    out = np.zeros((1, width), np.int64)
    with pytest.raises(ValueError, match=r"row|sequence"):
        fill_rows(out, IDS, int64(*spans), int32(*template), int64(*left))


def test_matrices():
    out = np.full((2, 5), 9)
    fill_rows(out, IDS, int64([[0, 2]], [[2, 3]]), int32(7, -1), int64(1, 3))
    assert out.tolist() == [[9, 7, 0, 1, 9], [9, 9, 9, 7, 2]]


def test_lists_of_constants():
    assert constant_lists(5, int64(2, 0, -3, 1)) == [[5, 5], [], [], [5]]
    with pytest.raises(MemoryError):
        constant_lists(5, int64(1 << 62))


# ---- the cache


@pytest.mark.parametrize("n_threads", [1, 4])
def test_the_cache_is_bounded_in_bytes(n_threads):
    """Long pre-tokens, all different, each with as many ids: most of it are blocks."""
    encoder = plain_encoder()
    rng = np.random.default_rng(0)
    before = most = n_renewed = 0
    for _ in range(60):
        letters = rng.integers(97, 123, (2000, 256), np.uint8)
        letters[:, 0] = 32
        text = letters.tobytes().decode()
        encoder.encode([text], NONE, n_threads)  # what comes once is not kept
        ids, _, _ = encoder.encode([text], NONE, n_threads)
        assert ids.tobytes() == np.frombuffer(text.encode(), np.uint8).astype(np.int32).tobytes()
        n_renewed += encoder.cache_bytes < before
        before = encoder.cache_bytes
        most = max(most, before)
    assert n_renewed >= 2
    assert most <= 128 * MIB + n_threads * 2048


def test_however_many_calls_there_are_they_keep_two_caches():
    encoder = plain_encoder()
    seen = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(12):
            letters = rng.integers(97, 123, (2000, 256), np.uint8)
            letters[:, 0] = 32
            text = letters.tobytes().decode()
            ids, _, _ = encoder.encode([text, "a"], NONE)
            seen.append(encoder.cache_bytes)
            assert len(ids) == len(text) + 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert 64 * MIB < max(seen) <= 256 * MIB + 16 * 2048


def test_threads_that_encode_and_renew_the_cache_agree():
    encoder = TextEncoder("gpt2", BYTES, XY, {300: [7, 8, 9, 10]})
    finder = AddedTokenFinder([("<x>", 400, False, False, False, False, False)])

    def work(seed):
        letters = np.random.default_rng(seed).integers(97, 120, (1500, 200), np.uint8)
        letters[:, 0] = 32
        texts = [letters.tobytes().decode() + " xy <x>" * 3000, "xy", "a" * 300]
        made = [encoder.encode(texts, finder, 2) for _ in range(4)]
        return [(ids.tobytes(), ends.tobytes()) for ids, ends, _ in made]

    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(work, [0, 1, 2, 0, 1, 2]))
    assert made[:3] == made[3:]
    assert all(len({*calls}) == 1 for calls in made)


def test_short_pretokens_fill_it_as_before():
    encoder = plain_encoder()
    words = ["".join(word) for word in itertools.product("abcdefghijkl", repeat=4)]
    for _ in range(3):
        encoder.encode(words, NONE)
    assert encoder.n_cached == len(words)
    assert encoder.cache_bytes < 6 * MIB


# ---- where ids stand

LENGTHS = int32(*[1] * 257)[:256]  # what lies beyond would fit


def test_ids_that_are_not_those_of_a_text_are_not_located():
    encoder = plain_encoder()
    good = int32(*b"a \xc3\xa9")
    spans, unsure = encoder.locate(["a é"], good, int64(0, 4), NONE, LENGTHS)
    assert (spans[:, :2].tolist(), unsure) == ([[0, 1], [1, 2], [2, 3], [2, 3]], [])
    assert (spans[:, 4].tolist(), spans[:, 5].any()) == ([0, 1, 1, 1], False)
    for ids in ([], [97], [*good, 97], [97, 97, 256, 97], [-1, 32, 195, 169], [HIGHEST] * 4):
        _, unsure = encoder.locate(["a é"], int32(*ids), int64(0, len(ids)), NONE, LENGTHS)
        assert unsure == [0]
    for length in (0, -1, 2, 3, HIGHEST, -HIGHEST - 1):
        lengths = LENGTHS.copy()
        lengths[ord("a")] = length
        assert encoder.locate(["a é"], good, int64(0, 4), NONE, lengths)[1] == [0]
    assert encoder.locate(["a é"], good, int64(0, 4), NONE, LENGTHS[:100])[1] == [0]
    assert encoder.locate(["a é"], good, int64(0, 4), NONE, LENGTHS[:0])[1] == [0]
    added = AddedTokenFinder([("é", 300, False, True, False, False, False)])
    assert encoder.locate(["a é"], good, int64(0, 4), added, LENGTHS)[1] == [0]
    spans, unsure = encoder.locate(["a é"], int32(97, 300), int64(0, 2), added, LENGTHS)
    assert (spans.tolist(), unsure) == ([[0, 1, 0, 0, 0, 0], [1, 3, 1, 0, 1, 1]], [])
    assert encoder.locate(["\ud800"], int32(), int64(0, 0), NONE, LENGTHS)[1] == [0]


@pytest.mark.parametrize(
    "offsets", [(), (0,), (1, 2), (0, 3), (0, -1), (0, 2, 2), (0, 1 << 62), (0, -1 << 63)]
)
def test_ids_of_texts_that_are_not_there_are_refused(offsets):
    with pytest.raises(ValueError, match=r"text"):
        plain_encoder().locate(["ab"], int32(97, 98), int64(*offsets), NONE, LENGTHS)


def test_texts_without_ids_are_located():
    spans, unsure = plain_encoder().locate([], int32(), int64(0), NONE, LENGTHS)
    assert (spans.shape, unsure) == ((0, 6), [])
    assert plain_encoder().locate(["", ""], int32(), int64(0, 0, 0), NONE, LENGTHS)[1] == []


SPANS = int32(*([i, i + 1, 0, 0, i // 2, 0] for i in range(10)))


def row_spans(rows, template, padding, spans=SPANS, trim="none"):
    return RowSpans(spans, int64(*rows), int32(*template), int64(*padding), trim)


@pytest.mark.parametrize("name", BAD_ROWS)
def test_spans_of_what_is_not_there_are_refused(name):
    def made():
        return row_spans(rows, template, padding)

    rows, template, padding = BAD_ROWS[name]
    for use in (
        lambda: made().offsets(0, 1, []),
        lambda: made().words(0, 1),
        lambda: made().fill(np.zeros((1, 4, 2), np.int64)),
    ):
        if "padding" not in name or "fill" not in use.__code__.co_names:
            with pytest.raises((ValueError, MemoryError)):
                use()


def test_places_that_are_not_there_are_refused():
    spans = row_spans([[[2, 5]]], [-1, 7], [[1, 0]])
    assert spans.offsets(0, 1, [0, 1, 2]) == [[(0, 0), (2, 3), (3, 4), (4, 5), (0, 0)]]
    assert spans.words(0, 1) == [[None, 1, 1, 2, None]]
    assert (spans.chars_of(0, 0, 2), spans.word_of(0, 0, 2), spans.token_at(0, 0, 4)) == ((4, 5), 2, 2)
    assert (spans.tokens_of(0, 0, 1), spans.tokens_of(0, 0, 0), spans.token_at(0, 0, -5)) == (
        (0, 2),
        None,
        None,
    )
    for row, sequence, token in [(1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 3), (0, 0, -1)]:
        for of in (spans.chars_of, spans.word_of):
            with pytest.raises(ValueError, match=r"row|token"):
                of(row, sequence, token)
        if token == 0:
            for of in (spans.token_at, spans.tokens_of):
                with pytest.raises(ValueError, match="row"):
                    of(row, sequence, 0)
    for first, last in [(0, 2), (-1, 1), (1, 0)]:
        with pytest.raises(ValueError, match="rows"):
            spans.words(first, last)
    for shape in [(1, 4, 2), (2, 5, 2), (1, 5, 3)]:
        with pytest.raises(ValueError, match="row"):
            spans.fill(np.zeros(shape, np.int64))


def test_spans_of_another_shape_are_refused():
    for rows, padding, spans in [
        (np.zeros((1, 1, 1)), [[0, 0]], SPANS),
        ([[[0, 2]]], [[0, 0], [0, 0]], SPANS),
        ([[[0, 2]]], [[0]], SPANS),
        ([[[0, 2]]], [[0, 0]], SPANS[:, :5].copy()),
    ]:
        with pytest.raises(ValueError, match=r"shape|columns"):
            row_spans(np.array(rows, np.int64), [-1], padding, spans)
    with pytest.raises(KeyError):
        row_spans([[[0, 2]]], [-1], [[0, 0]], trim="some")


@pytest.mark.parametrize("trim", ["all", "all but prefix"])
@pytest.mark.parametrize("span", itertools.product([-5, 0, 3, HIGHEST], repeat=4))
def test_any_white_space_may_be_trimmed(span, trim):
    """Numbers that no text has give numbers, too."""
    [[(begin, end)]] = row_spans([[[0, 1]]], [-1], [[0, 0]], int32([*span, 0, 0]), trim).offsets(0, 1, [0])
    assert isinstance(begin, int)
    assert isinstance(end, int)


def test_pieces():
    values = [["a", "b"], ["c", "d"]]
    assert pieces_as_lists(values, int64(1, 0), int64([2, 1], [0, 3])) == [["c", "c", "d"], ["b", "b", "b"]]
    for kinds, sizes in [
        ([2], [[1, 1]]),
        ([-1], [[1, 1]]),
        ([0], [[1]]),
        ([0, 0], [[1, 1]]),
        ([0], [[-1, 2]]),
    ]:
        with pytest.raises(ValueError, match="row"):
            pieces_as_lists(values, int64(*kinds), int64(*sizes))
    with pytest.raises(MemoryError):
        pieces_as_lists(values, int64(0), int64([1 << 62, 1 << 62]))
