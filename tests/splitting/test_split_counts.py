"""Counting with compiled splitting, beside `tokenizers` in this process."""

import random

import pytest
from split_cases import PRE_TOKENIZERS, isolated, random_text
from tokenizers.normalizers import NFC
from tokenizers.pre_tokenizers import ByteLevel, Metaspace, Sequence

import hf_scaffold as hs
from hf_scaffold.counting.workers import count_in_processes, splitting_for
from hf_scaffold.text.pre_tokenizers import get_pre_tokenizer


@pytest.mark.parametrize("alphabet", ["bytes", "chars"])
@pytest.mark.parametrize("name", ["qwen2", "deepseek", "whitespace", "bert", "removed, thrice"])
def test_counts_are_those_of_tokenizers(name, alphabet):
    rng = random.Random(name)
    texts = ["a b", *(random_text(rng) for _ in range(100))]
    cutter = get_pre_tokenizer(PRE_TOKENIZERS[name], alphabet=alphabet)
    assert splitting_for(cutter) is not None
    (rows,) = count_in_processes(iter([text.encode() for text in texts]), cutter, 1)
    assert hs.count(texts, pre_tokenizer=cutter, num_workers=2) == hs.PreTokenCounts(*rows, cutter)


@pytest.mark.parametrize(
    ("pre_tokenizer", "normalizer", "alphabet"),
    [
        (PRE_TOKENIZERS["qwen2"], NFC(), "bytes"),
        (ByteLevel(add_prefix_space=True), None, "bytes"),
        (ByteLevel(add_prefix_space=False), None, "chars"),
        (Metaspace(), None, "chars"),
        (Sequence([isolated("a*"), ByteLevel(add_prefix_space=False)]), None, "bytes"),
    ],
)
def test_what_native_code_cannot_count(pre_tokenizer, normalizer, alphabet):
    assert splitting_for(get_pre_tokenizer(pre_tokenizer, normalizer, alphabet)) is None
