"""How the native encoder finds added tokens: beside a slow twin, and beside `tokenizers`."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models

from hf_scaffold._core.text_encoder import AddedTokenFinder, Normalizer, TextEncoder

FIRST_ADDED = 1000
ENCODER = TextEncoder("gpt2", np.arange(256, dtype=np.int32), np.empty((0, 3), np.int32), {})
BLOCK = 1 << 16  # of the text, at least, is looked at together


def finder(contents, normalized=False):
    return AddedTokenFinder(
        [
            (content, FIRST_ADDED + i, False, False, False, normalized, False)
            for i, content in enumerate(contents)
        ]
    )


def found(contents, text, normalized=False):
    return ENCODER.encode_one(text, finder(contents, normalized))


def expected(contents, text):
    """Leftmost first, the longest at each place, without overlap; between them bytes."""
    ids, at, data = [], 0, text.encode()
    numbers = {content.encode(): FIRST_ADDED + i for i, content in enumerate(contents)}
    lengths = sorted({*map(len, numbers)} - {0}, reverse=True)
    while at < len(data):
        length = next((n for n in lengths if data[at : at + n] in numbers), None)
        ids.append(data[at] if length is None else numbers[data[at : at + length]])
        at += length or 1
    return ids


# Such as begin, end and lie in each other; of many a beginning is the end of another.
nasty = st.lists(
    st.one_of(
        st.text("ab", max_size=6),
        st.text("a", min_size=1, max_size=9),
        st.builds(
            lambda n, end: "a" * n + end, st.integers(0, 12), st.sampled_from(["b", "c", "", "ba", "é"])
        ),
        st.text("abé語", max_size=4),
    ),
    max_size=12,
)


@settings(max_examples=500)
@given(
    nasty,
    st.lists(st.sampled_from(["a", "b", "c", "é", "語", "aaaa", "ab" * 9, "x"]), max_size=40),
    st.booleans(),
)
def test_finding_is_what_the_slow_twin_finds(contents, pieces, normalized):
    text = "".join(pieces) + "".join(contents)
    assert found(contents, text, normalized) == expected(contents, text)


@settings(max_examples=200)
@given(st.lists(st.binary(min_size=1, max_size=3).map(lambda b: b.decode("latin-1")), max_size=60), st.data())
def test_many_different_last_bytes(contents, data):
    text = "".join(data.draw(st.lists(st.sampled_from([*contents, "a", "zz"]), max_size=30)))
    assert found(contents, text) == expected(contents, text)


@settings(max_examples=150)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "aa", "aab", "ab", "b", " b", "a ", "ba", "  ", "b a", "é", "éa"]),
            st.fixed_dictionaries(
                {}, optional=dict.fromkeys(["single_word", "lstrip", "rstrip"], st.booleans())
            ),
            st.booleans(),
        ),
        max_size=6,
        unique_by=lambda token: token[0],
    ),
    st.lists(st.sampled_from(["a", "b", " ", "  ", "_", "x", "\n", "é"]), max_size=25).map("".join),
)
def test_finding_is_what_tokenizers_finds(tokens, text):
    """Where ours leaves a text to `tokenizers` there is nothing to compare."""
    backend = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    rows = []
    for i, (content, flags, normalized) in enumerate(tokens):
        backend.add_tokens([AddedToken(content, normalized=normalized, **flags)])
        row = [flags.get(name, False) for name in ("single_word", "lstrip", "rstrip")]
        rows.append((content, FIRST_ADDED + i, *row, normalized, False))
    ids = ENCODER.encode_one(text, AddedTokenFinder(rows))
    if ids is None:
        return
    stretches = []
    encoding = backend.encode(text)
    for token_id, (start, stop) in zip(encoding.ids, encoding.offsets, strict=True):
        stretches += [FIRST_ADDED + token_id - 1] if token_id else [*text[start:stop].encode()]
    assert ids == stretches


def test_of_two_alike_the_last_counts():
    for contents in (["a", "a"], ["ab", "a", "ab"], ["b", "ab", "b", "ab", "b"]):
        last = {content: FIRST_ADDED + i for i, content in enumerate(contents)}
        assert found(contents, "ab") == expected(contents, "ab")
        assert {*found(contents, "abab")} <= {*last.values(), ord("b")}


def test_space_between_two_that_strip_it_is_the_first_one_s():
    """It needn't be left to `tokenizers`."""
    tokens = [("[a]", 1000), ("[b]", 1001)]
    finder = AddedTokenFinder([(*token, False, True, True, False, False) for token in tokens])
    assert ENCODER.encode_one("x [a] \n[b] y", finder) == [ord("x"), 1000, 1001, ord("y")]


@pytest.mark.parametrize("length", [2, 31, 127, 128, 129, 255, 256, 257, 1000])
def test_tokens_at_every_place_around_what_is_looked_at_together(length):
    """Bytes are passed over by the hundred, and texts read block by block."""
    token = "<" + "a" * (length - 2) + ">"
    rng = random.Random(length)
    places = [
        0,
        1,
        BLOCK - length - 1,
        BLOCK - length,
        BLOCK - 1,
        BLOCK,
        3 * BLOCK // 2,
        2 * BLOCK - length // 2,
    ]
    places += [3 * BLOCK + 64 * i + rng.randrange(3) for i in range(0, 400, 1 + length // 40)]
    for others in ([], [">"], ["<", "y"], ["a<", "b", "c", "d", "e"]):
        text = ["x"] * (5 * BLOCK)
        for place in places:
            text[place : place + length] = token
        joined = "".join(text)
        assert found([token, *others], joined) == expected([token, *others], joined)


def test_tokens_longer_than_a_block():
    long = "ab" * BLOCK + "c"
    contents = [long, "ab" * 10, "bab", long[1:], "c" * 7]
    text = f"ab{long}a{long}{long[1:]}bab{long[:-1]}"
    assert found(contents, text) == expected(contents, text)


@pytest.mark.parametrize(
    ("contents", "text"),
    [
        (["a" * 20_000 + "b"], "a" * 2_000_000),
        (["b" + "a" * 20_000], "a" * 2_000_000),
        (["a", "a" * 20_000 + "b"], "a" * 1_000_000),
        (["ab" * 10_000 + "c", "ba" * 10_000 + "d", "b"], "ab" * 1_000_000),
        (["a" * n for n in range(1, 3000)], "a" * 2_000_000),
        (["a" * n + "b" for n in range(1, 3000)], "a" * 2_000_000),
        (["b" + "a" * n for n in range(1, 3000)], "a" * 2_000_000),
    ],
)
def test_no_tokens_and_text_take_more_than_linear_time(contents, text):
    """From each place on, a token's length would have to be read: 40,000,000,000 steps never end here."""
    long = max(contents, key=len)
    ids = found(contents, text)
    spelled = sum(len(contents[i - FIRST_ADDED]) if i >= FIRST_ADDED else 1 for i in ids)
    assert spelled == len(text)
    assert (FIRST_ADDED + contents.index(long) in ids) == (long in text)


def test_every_flag_takes_linear_time():
    flags = list(itertools.product([False, True], repeat=3))
    for single_word, lstrip, rstrip in flags:
        tokens = [
            (content, FIRST_ADDED + i, single_word, lstrip, rstrip, normalized, False)
            for normalized in (False, True)
            for i, content in enumerate(["aaaaaaaab", " " * 999 + "x", "y" + " " * 999])
        ]
        for text in (" " * 1_000_000, " " * 500_000 + "aaaaaaaab" + " " * 500_000, "a" * 1_000_000):
            ids = ENCODER.encode_one(text, AddedTokenFinder(tokens))
            assert ids is not None


def bytes_of(text, *tokens, **rewriting):
    """The bytes of what is encoded, with the ids of added tokens among them."""
    return ENCODER.encode_one(text, AddedTokenFinder(tokens, **rewriting))


def test_a_marker_comes_after_all_added_tokens_and_may_be_for_the_start_only():
    token = ("x", FIRST_ADDED, False, False, False, True, False)
    spaces = ("replace", " ", "_")
    for at_start, second in ((True, ""), (False, "_")):
        marker = Normalizer([spaces, ("prepend", "_", True, at_start)])
        for text, expected in {
            "a b": ["_a_b"],
            " b": ["_b"],
            "x": [FIRST_ADDED],
            "xb": [FIRST_ADDED, f"{second}b"],
            "a x bxb": ["_a_", FIRST_ADDED, "_b", FIRST_ADDED, f"{second}b"],
        }.items():
            ids = [i for part in expected for i in ([part] if isinstance(part, int) else part.encode())]
            assert bytes_of(text, token, marker=marker) == ids, (at_start, text)


def test_a_normalizer_comes_between_the_two_kinds_of_added_tokens():
    raw = ("A", FIRST_ADDED, False, False, False, False, False)
    normalized = ("bB", FIRST_ADDED + 1, False, False, False, True, False)
    lower = Normalizer([("named", "Lowercase")])
    assert bytes_of("AaBBA", raw, normalized, normalizer=lower) == [
        *[FIRST_ADDED, ord("a"), FIRST_ADDED + 1, FIRST_ADDED]
    ]
    with pytest.raises(ValueError, match="'bb' is like another once normalized"):
        AddedTokenFinder([normalized, ("bb", 0, False, False, False, True, False)], lower)
    with pytest.raises(ValueError, match="' ' is empty once normalized"):
        AddedTokenFinder([(" ", 0, False, False, False, True, False)], Normalizer([("strip", True, True)]))
