"""Tokenizers with a compiled normalizer beside the Rust backend."""

import pytest
import toys
from native_cases import Tokenizer, is_native, twins
from tokenizers import normalizers

TEXTS = [
    *["", " ", "a", "Zone", " ZONE  ana", "zone\n", "été\u0301 x", "xzonex", "<|eos|>zone<|bos|> zone "],
    *["ézone zone", "zoneé", "na " * 500, "語" * 3000, "Ab ab AB é É e\u0301 E\u0301"],
]
ADDED = (
    ("Zone", {"normalized": True}),
    ("x", {"normalized": False}),
    ("ana", {"normalized": True, "lstrip": True, "rstrip": True}),
    ("été", {"normalized": True, "single_word": True}),
)
COMPILED = sorted(toys.NORMALIZERS.keys() - {"none", "not compiled"})


@pytest.mark.parametrize("name", COMPILED)
@pytest.mark.parametrize("added", [(), ADDED], ids=["none added", "added"])
def test_ids_are_those_of_the_general_path(name, added):
    native, general = twins(Tokenizer(normalizer=name, added=added))
    for text in [*TEXTS, " ".join(TEXTS)]:
        found = native(text)
        assert is_native(found)
        assert found["input_ids"] == general(text)["input_ids"], text
    assert native(TEXTS)["input_ids"] == general(TEXTS)["input_ids"]


@pytest.mark.parametrize("name", COMPILED)
def test_long_texts_are_normalized_before_they_are_cut(name):
    native, general = twins(Tokenizer(normalizer=name, added=ADDED[:2]))
    text = " ".join(TEXTS[:-2]) * 200
    assert len(text) > 1 << 18
    assert native(text)["input_ids"] == general(text)["input_ids"]


@pytest.mark.parametrize("name", COMPILED)
def test_if_all_merges_are_dropped_nothing_is_left_to_chance(name):
    native, general = twins(Tokenizer(normalizer=name, added=ADDED))
    for text in [*TEXTS, "zoneété", "étézone été"]:
        found = native(text, dropout=1.0)
        assert is_native(found)
        assert found["input_ids"] == general(text, dropout=1.0)["input_ids"]


def test_text_may_grow_much():
    native, general = twins(Tokenizer())
    for tokenizer in (native, general):
        tokenizer.backend_tokenizer.normalizer = normalizers.Replace("a", "bcdefghijklmnop" * 7)
    texts = ["a" * n for n in range(60)]
    assert native(texts)["input_ids"] == general(texts)["input_ids"]
    for tokenizer in (native, general):
        tokenizer.backend_tokenizer.normalizer = normalizers.Replace("a", "bcdefgh")
    long = "a" * 270_000  # of which threads take pieces
    assert native(long)["input_ids"] == general(long)["input_ids"]


@pytest.mark.parametrize("contents", [("Zo", "zo"), ("zo", " zo"), (" ", "zo")])
def test_added_tokens_that_become_alike_or_empty_are_left_to_the_backend(contents):
    added = tuple((content, {"normalized": True}) for content in contents)
    native = Tokenizer(added=added).made()
    both = normalizers.Sequence([normalizers.Strip(), normalizers.Replace("Z", "z")])
    native.backend_tokenizer.normalizer = both
    assert "once normalized" in native.explain_path("a")  # which of them the backend finds is up to chance
    assert not is_native(native("zo"))
