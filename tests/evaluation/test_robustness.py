"""Tokens that misspelling adds, against misspelling by hand."""

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hf_scaffold as hs
from hf_scaffold.errors import ConfigurationError, CorpusError
from hf_scaffold.evaluation.robustness import NoisyText, misspelled

EDITS = {  # by the numbers drawn: the edit, the place, the letter; of "abcdef"
    (0.0, 0.0): "acbdef", (0.24, 0.99): "abcedf",  # swapped
    (0.25, 0.0): "acdef", (0.49, 0.34): "abdef", (0.26, 0.99): "abcef",  # left out
    (0.5, 0.0): "abbcdef", (0.74, 0.99): "abcddef",  # doubled
    (0.75, 0.0, 0.0): "axcdef", (0.99, 0.99, 0.99): "abcyef",  # replaced
}  # fmt: skip


@pytest.mark.parametrize(("numbers", "expected"), EDITS.items(), ids=EDITS.values())
def test_edits_by_hand(numbers, expected):
    drawn = iter(numbers)
    assert misspelled("abcdef", ["x", "y"], lambda: next(drawn)) == expected
    assert next(drawn, None) is None


def may_become(word, letters):
    """All that one edit inside a word can make."""
    for i in range(1, len(word) - 2):
        yield word[:i] + word[i + 1] + word[i] + word[i + 2 :]
        yield word[:i] + word[i + 1 :]
        yield word[:i] + word[i] * 2 + word[i + 1 :]
        yield from (word[:i] + letter + word[i + 1 :] for letter in letters)


@given(st.text("abcde", min_size=4, max_size=9), st.integers(0, 2**32))
def test_one_edit_inside_a_word(word, seed):
    assert misspelled(word, ["x", "y"], random.Random(seed).random) in {*may_become(word, "xy")}


def test_words_of_four_letters_are_changed_and_nothing_else():
    text = "The cats, naïve Überall: 1234 ab_cdef don't 日本語文字 its"
    noisy = NoisyText([text])
    words = ["cats", "naïve", "Überall", "cdef", "日本語文字"]
    assert noisy.n_words == len(words)
    letters = {*"".join(words)}
    pattern = re.escape(text)
    for word in words:
        pattern = pattern.replace(re.escape(word), f"({'|'.join(map(re.escape, may_become(word, letters)))})")
    [changed] = noisy.misspelled.documents()
    assert re.fullmatch(pattern, changed)
    assert [*noisy.recased.documents()] == ["The Cats, Naïve überall: 1234 ab_Cdef don't 日本語文字 its"]
    assert [*noisy.plain.documents()] == [text]


def test_the_seed_decides(english_text):
    first, again, other = (NoisyText([english_text[:20_000]], seed=seed) for seed in (0, 0, 1))
    assert [*first.misspelled.documents()] == [*again.misspelled.documents()]
    assert [*first.misspelled.documents()] != [*other.misspelled.documents()]


def test_every_tokenizer_is_measured_on_the_same_words(english_text):
    text = english_text[:30_000]
    bpe = hs.train(hs.count([text]), 1000)
    noisy = NoisyText([text])
    found = hs.robustness(bpe, [text], name="x")
    assert found == hs.robustness(bpe.to_tokenizer(), hs.EvaluationText([text]), name="x")
    assert found.n_tokens == hs.evaluate(bpe, [text]).n_tokens
    assert found.n_misspelled_tokens == hs.evaluate(bpe, noisy.misspelled).n_tokens
    assert found.n_recased_tokens == hs.evaluate(bpe, noisy.recased).n_tokens
    assert min(found.recased, found.misspelled) > 0.1
    by_bytes = hs.robustness(lambda text: list(text.encode()), [text], name="bytes")
    assert by_bytes.n_words == found.n_words
    assert by_bytes.recased == 0
    assert abs(by_bytes.misspelled) < 0.01  # as many letters are left out as are doubled, more or less
    assert hs.robustness(lambda text: [], [text]).misspelled == -1


def test_only_the_first_documents_are_used():
    bpe = hs.train(hs.count(["some words"]), 258)
    texts = ["some words", "words some", "more words"]
    for max_bytes, n_texts in ((10, 1), (11, 2), (20, 2), (21, 3)):  # 10 bytes each
        found = hs.robustness(bpe, texts, max_bytes=max_bytes)
        assert found == hs.robustness(bpe, texts[:n_texts])


def test_errors():
    bpe = hs.train(hs.count(["some words"]), 258)
    with pytest.raises(ConfigurationError, match="the text is a PreTokenCounts; misspelling needs the text"):
        hs.robustness(bpe, hs.count(["some words"]))
    with pytest.raises(CorpusError, match="a list has no words of 4 letters or more to misspell"):
        hs.robustness(bpe, ["a bc def 12345"])
    with pytest.raises(ConfigurationError, match="max_bytes is 0"):
        hs.robustness(bpe, ["some words"], max_bytes=0)
    with pytest.raises(ConfigurationError, match="seed is -1"):
        hs.robustness(bpe, ["some words"], seed=-1)
