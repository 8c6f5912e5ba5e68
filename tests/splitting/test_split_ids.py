"""Ids of tokenizers with compiled splitting, beside the Rust backend."""

import random

import pytest
from native_cases import ADDED, Tokenizer, is_native, twins
from split_cases import PRE_TOKENIZERS, random_text
from tokenizers.pre_tokenizers import ByteLevel, Sequence

import hf_scaffold as hs

BYTES = ByteLevel(add_prefix_space=False, use_regex=False)
NAMES = ["qwen2", "deepseek", "cl100k", "o200k removed", "whitespace", "bert", "quoted", "removed"]
PIPELINES = {
    **{name: Sequence([PRE_TOKENIZERS[name], BYTES]) for name in NAMES},
    "prefix space": ByteLevel(add_prefix_space=True),
}
ALL_ADDED = tuple((content, {}) for content in ADDED)


def pair(name, added=()):
    made = twins(Tokenizer(added=added))
    for tokenizer in made:
        tokenizer.backend_tokenizer.pre_tokenizer = PIPELINES[name]
    return made


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("added", [(), ALL_ADDED], ids=["none added", "added"])
def test_ids_are_those_of_the_general_path(name, added):
    rng = random.Random(name)
    native, general = pair(name, added)
    pieces = ["zona", " Arizona", "national", "ana", "<|eos|>", "", " "]
    texts = ["", " ", *pieces, *(random_text(rng) + rng.choice(pieces) for _ in range(60))]
    found = native(texts)
    assert is_native(found)
    assert found["input_ids"] == general(texts)["input_ids"]
    assert native(texts, dropout=1.0)["input_ids"] == general(texts, dropout=1.0)["input_ids"]


@pytest.mark.parametrize("name", ["qwen2", "deepseek", "quoted", "bert", "prefix space"])
def test_long_texts_are_cut_where_that_changes_nothing(name):
    rng = random.Random(name)
    native, general = pair(name)
    text = "".join(random_text(rng) for _ in range(100))
    text *= 300_000 // len(text) + 1
    assert native(text)["input_ids"] == general(text)["input_ids"]


def test_encoder_says_how_it_encodes(tmp_path):
    native, _ = pair("qwen2")
    native.save_pretrained(tmp_path)
    encoder = hs.Encoder.from_pretrained(tmp_path)
    assert encoder.why_general is None
    assert repr(encoder).endswith("; native)")
    assert encoder.encode("Arizona 123") == native("Arizona 123")["input_ids"]
