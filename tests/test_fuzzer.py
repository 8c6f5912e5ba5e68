"""The fuzzer notices what it is there for: a wrong answer on any way to ids."""

import random
import subprocess
import sys

import fuzz_native
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


@pytest.mark.parametrize(("who", "is_left_out"), [("general", True), ("native", False)])
def test_what_takes_too_long_ends_the_process_and_is_left_out_if_it_is_the_backend(who, is_left_out):
    script = f"""
import random, sys, time
sys.path[:0] = {sys.path!r}
import fuzz_rounds
from native_cases import Call, Tokenizer, twins
made = Tokenizer()
native, general = twins(made)
fuzz_rounds.outcome = lambda tokenizer, call: time.sleep(99 if tokenizer is {who} else 0)
fuzzed = fuzz_rounds.Round(patience=fuzz_rounds.Patience(backend=0.2, ours=0.3))
fuzzed.check_call(random.Random(0), made, native, general, Call("a"))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "Timeout" in done.stderr
    assert bool(fuzz_native.BACKEND_GAVE_UP.search(done.stderr)) == is_left_out
