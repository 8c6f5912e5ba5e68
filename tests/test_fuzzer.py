"""The fuzzer notices what it is there for: a wrong answer on any way to ids."""

import random

import fuzz_rounds
import numpy as np
import pytest
from fuzz_rounds import Round
from native_cases import Tokenizer, twins

from hf_scaffold._core.text_encoder import TextEncoder

TEXTS = ["Arizona", "banana 日本語", "", "hug zone", *["pug"] * 60]


class Wrong:
    """An encoder that forgets the last token of a batch, or of a text, on one of its ways."""

    def __init__(self, encoder, way):
        self.encoder, self.way = encoder, way

    def __getattr__(self, name):
        method = getattr(self.encoder, name)
        if name != self.way:
            return method
        return lambda *args, **options: self.forget(args, method(*args, **options))

    def forget(self, args, made):
        if self.way == "encode_to_lists":
            for rows in filter(None, args[6:8]):  # and masks
                rows[-1].pop()
            return made
        if self.way == "encode_one":
            return made[:-1]
        ids, offsets, unsure = made
        return ids[:-1], np.minimum(offsets, len(ids) - 1), unsure


@pytest.mark.parametrize("way", ["encode_to_lists", "encode", "encode_utf8", "encode_one"])
def test_a_wrong_answer_on_any_way_is_noticed(monkeypatch, way):
    monkeypatch.setattr("hf_scaffold.engine.bare.TextEncoder", lambda *args: Wrong(TextEncoder(*args), way))
    made, fuzzed = Tokenizer(), Round()
    fuzzed.check_texts(random.Random(0), made, *twins(made), TEXTS)
    assert fuzzed.failure


def test_that_the_oracle_says_otherwise_is_noticed(monkeypatch):
    made = Tokenizer()
    for way in ("encode", "encode_with_dropout"):
        fuzzed = Round()
        with monkeypatch.context() as patch:
            patch.setattr(fuzz_rounds.SlowTokenizer, way, lambda *args: [-1])
            fuzzed.check_oracle(random.Random(0), made, twins(made)[0], TEXTS)
        assert "not\n[-1]" in fuzzed.failure


def test_no_failure_and_all_counted():
    made, fuzzed = Tokenizer(), Round()
    fuzzed.check_texts(random.Random(0), made, *twins(made), TEXTS)
    fuzzed.check_oracle(random.Random(0), made, twins(made)[0], TEXTS)
    assert not fuzzed.failure
    for name in ("preset: gpt2-digits", "normalizer: none", "way: lists", "way: arrays", "way: UTF-8"):
        assert fuzzed.counts[name] == fuzzed.counts[f"{name} natively"] == len(TEXTS)
    assert fuzzed.counts["way: one by one"] == 50
    assert fuzzed.counts["way: beside the oracle"] == fuzzed.counts["way: dropout beside the oracle"] == 8
