"""Pipelines of published tokenizers: which run natively, and that their ids are the general path's."""

# ruff: noqa: RUF001  (a full-width comma)

import random
from pathlib import Path

import pipelines
import pytest
import split_cases
from native_cases import ODD

import hf_scaffold as hs

# Why the others take the general path.
GENERAL = {
    "Falcon": "the pre-tokenizer goes on after ByteLevel",
}
CODE = Path(random.__file__).read_text(encoding="utf-8")
CHINESE = "我们应当重视语言的多样性，因为每一种语言都是人类共同的财富。\n" * 20
PIECES = [*CODE.split(" "), *CHINESE[:31], *ODD, *split_cases.ODD, "  ", "▁", "##", "</w>"]


def trained(name):
    like = pipelines.example(*pipelines.PIPELINES[name])
    texts = [CODE[i : i + 500] for i in range(0, len(CODE), 500)]
    return hs.train_tokenizer([*texts, CHINESE], 1_000, like=like)


@pytest.mark.parametrize("name", pipelines.PIPELINES)
def test_ids_of_a_published_pipeline(name):
    tokenizer, rng = trained(name), random.Random(name)
    assert tokenizer.explain_path("a") == (f"general: {GENERAL[name]}" if name in GENERAL else "native")
    texts = ["".join(rng.choices(PIECES, k=n)) for n in (1, 2, 5, 20, 100, 1000) for _ in range(20)]
    assert sum(map(len, texts)) > 1 << 15  # so that the encoder is prepared
    ids = [tokenizer(texts)["input_ids"] for _ in range(2)]  # the second time from the cache
    flat, ends = tokenizer.encode_batch_to_arrays(texts)
    tokenizer.native = False
    expected = tokenizer(texts)["input_ids"]
    assert ids == [expected, expected]
    assert [flat[ends[i] : ends[i + 1]].tolist() for i in range(len(texts))] == expected
