"""Ctrl-C while native code is at work: served within moments, and what was at work is of use afterwards."""

import os
import signal
import subprocess
import sys
import time
from array import array
from contextlib import contextmanager, suppress
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import hf_scaffold as hs
from hf_scaffold._core.counter import PretokenCounter
from hf_scaffold._core.pretoken_encoder import PretokenEncoder
from hf_scaffold._core.text_encoder import AddedTokenFinder, TextEncoder
from hf_scaffold._core.trainer import AmbiguousMergeLoop, MergeLoop, MergeReplay
from hf_scaffold._utils.child import in_child
from hf_scaffold.errors import ConfigurationError
from hf_scaffold.evaluation import baselines
from hf_scaffold.evaluation.metrics import EvaluationText
from hf_scaffold.training import agreement


class StopError(Exception):
    """What the handler of the tests raises."""


def stop(signum, frame):
    raise StopError


@contextmanager
def stopped(after=0.05):
    """The block is to be ended by a signal after so many seconds of the processor's time."""
    before = signal.signal(signal.SIGVTALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, after)
        with pytest.raises(StopError):
            yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def test_counting_stops_and_the_counter_goes_on():
    text = b"all the king's horses and all the king's men " * 20_000
    counter = PretokenCounter("gpt2")
    with stopped():
        counter.add([text] * 100_000)  # minutes of work
    before = rows(counter).get(b" king", 0)
    assert before < 40_000 * 100_000
    counter.add([b"all the king's horses"])
    assert rows(counter)[b" king"] == before + 1


def rows(counter):
    text, offsets, counts = counter.table()
    return {text[a:b]: n for (a, b), n in zip(pairwise(offsets.tolist()), counts.tolist(), strict=True)}


@cache
def words():
    """A counter of so many words that calls take far longer than the 0.1 s between looks at signals."""
    numbers = np.random.default_rng(0).integers(0, 1 << 60, 4_000_000).tolist()
    letters = bytes.maketrans(b"0123456789", b"ghijklmnop")
    text = b" ".join(b"%x" % n for n in numbers).translate(letters)
    counter = PretokenCounter("gpt2")
    counter.add([text])
    return counter


@cache
def corpus():
    """Symbols in pre-tokens of two, as the loops take them."""
    symbols = np.random.default_rng(0).integers(0, 2000, 5_000_000).astype(np.int32)
    tokens = [b"%04d" % i for i in range(2000)]
    return (
        symbols,
        np.arange(0, len(symbols) + 1, 2),
        np.ones(len(symbols) // 2, np.int64),
        tokens,
        0,
        0,
        0,
        True,
    )


def one_huge_merge(n=6_000_000):
    """A loop that has done nothing yet, and whose first merge is nearly all there is to do."""
    n_other = 4 * n // 100
    counts = np.ones(n + n_other, np.int64)
    symbols = np.concatenate(
        [np.tile(np.array([0, 1], np.int32), n), np.tile(np.array([2, 3], np.int32), n_other)]
    )
    return AmbiguousMergeLoop(
        symbols, np.arange(0, len(symbols) + 1, 2), counts, [b"a", b"b", b"c", b"d"], 0, 0, 0, True
    )


CALLS = {
    "table": lambda: words().table(),
    "merge": lambda: PretokenCounter("gpt2").merge(words()),
    "MergeLoop": lambda: MergeLoop(*corpus()),
    "AmbiguousMergeLoop": lambda: AmbiguousMergeLoop(*corpus()),
    "MergeReplay": lambda: MergeReplay(*corpus()[:4], np.zeros((0, 3), np.int32)),
}


@pytest.mark.parametrize("name", CALLS)
def test_native_calls_stop_halfway(name):
    def seconds() -> float:
        begin = time.process_time()
        with suppress(StopError):
            CALLS[name]()
        return time.process_time() - begin

    seconds()  # what it needs is made now
    whole = max(seconds() for _ in range(3))  # the time of one varies
    before = signal.signal(signal.SIGVTALRM, stop)
    try:
        for _ in range(5):
            signal.setitimer(signal.ITIMER_VIRTUAL, whole / 8)
            if seconds() < whole * 0.8:
                return
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    pytest.fail("it went on to the end")


NOTHING_ADDED = AddedTokenFinder([])
BYTES = np.arange(256, dtype=np.int32)
DOUBLING = np.array([(i, i, i + 1) for i in range(97, 120)], np.int32)  # a a, then what that makes, …


@pytest.mark.parametrize("n_threads", [1, 3])
def test_encoding_stops_and_the_encoder_goes_on(n_threads):
    encoder = TextEncoder("gpt2", BYTES, DOUBLING, {})
    with stopped():
        encoder.encode(["a" * 100_000] * 10_000, NOTHING_ADDED, n_threads)  # minutes of work
    assert encoder.encode_one("a" * 8 + " a", NOTHING_ADDED) == [100, 32, 97]


@pytest.mark.parametrize("n_threads", [1, 3])
def test_making_lists_stops_and_the_encoder_goes_on(n_threads):
    encoder, rows = TextEncoder("gpt2", BYTES, DOUBLING, {}), [[] for _ in range(10_000)]
    texts, nothing = ["a" * 100_000 + " b" * 50_000] * len(rows), array("i")
    with stopped():
        encoder.encode_to_lists(texts, NOTHING_ADDED, n_threads, nothing, nothing, [], rows)
    assert rows[-1] == []
    assert encoder.encode_one("a" * 8 + " a", NOTHING_ADDED) == [100, 32, 97]


@pytest.mark.parametrize("n_threads", [1, 2])
def test_encoding_stops_inside_a_pretoken(n_threads):
    encoder = TextEncoder("gpt2", BYTES, DOUBLING, {})
    streams = np.arange(2, dtype=np.uint64)
    with stopped():  # hours of work: of a million candidates nearly all are passed over before each merge
        encoder.encode(["a" * 1_000_000] * 2, NOTHING_ADDED, n_threads, dropout=0.99999, streams=streams)
    assert encoder.encode_one("a" * 8 + " a", NOTHING_ADDED) == [100, 32, 97]


def test_encoding_pretokens_stops():
    encoder = PretokenEncoder(BYTES, DOUBLING, {}, {})
    data, n = b"a" * 40_000_000, 400
    with stopped(0.2):
        encoder.encode(data, np.linspace(0, len(data), n + 1).astype(np.int64))
    ids, _ = encoder.encode(b"a" * 8, np.array([0, 8]))
    assert ids.tolist() == [100]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_agreement_is_the_same_in_slices(size, english_text, monkeypatch):
    counts = hs.count([english_text[:50_000]])
    bpe = hs.train(counts, 600)
    monkeypatch.setattr(agreement, "_SLICE", size)
    again = agreement.measure(bpe, counts)
    assert (again.measured, again.merges_only) == (bpe.raw_agreement, bpe.raw_agreement_merges_only)


def interrupted(program):
    """What a program prints that is interrupted after it has said to be at work."""
    start = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    process = subprocess.Popen(
        [sys.executable, "-c", start + program],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=Path(__file__).parents[1],
    )
    with process:
        try:
            assert process.stdout.readline() == "at work\n"
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=120)
        finally:
            process.kill()
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    return output


def test_counting_in_threads_stops():
    assert (
        interrupted(
            "import hf_scaffold as hs\n"
            "text = 'all the king\\'s horses and all the king\\'s men ' * 20_000\n"
            "hs.count  # an import that is interrupted can't be repeated\n"
            "print('at work', flush=True)\n"
            "try:\n"
            "    hs.count((text for _ in range(10**9)), num_workers=2)\n"
            "except KeyboardInterrupt:\n"
            "    print(hs.count([text])[' king'])\n"
        )
        == "40000\n"
    )


def test_work_in_a_child_stops():
    assert (
        interrupted(
            "import time\n"
            "from hf_scaffold._utils.child import in_child\n"
            "print('at work', flush=True)\n"
            "try:\n"
            "    in_child(time.sleep, 3600)\n"
            "except KeyboardInterrupt:\n"
            "    print(in_child(divmod, 17, 5))\n"
        )
        == "(3, 2)\n"
    )


def test_work_in_a_child_returns_what_it_returns_here():
    assert in_child(divmod, 17, 5) == (3, 2)
    with pytest.raises(ZeroDivisionError):
        in_child(divmod, 17, 0)
    assert in_child(lambda: 5) == 5  # can't be pickled, so it is done here


def test_what_work_prints_stays_out_of_its_result():
    assert in_child(print, "something") is None


def test_a_child_that_dies_is_an_error():
    with pytest.raises(ConfigurationError, match="_exit died with exit status 7"):
        in_child(os._exit, 7)


@pytest.mark.parametrize("kind", ["wordpiece", "unigram", "sentencepiece-bpe", "sentencepiece-unigram"])
def test_baselines_trained_in_a_child_are_what_they_are_here(kind, english_text, monkeypatch):
    counts = hs.count([english_text[:200_000]])
    text = EvaluationText([english_text[:200_000]])
    here = baselines.train_baseline(kind, counts, 1000, corpus=text, special_tokens=["<s>"])
    children = []
    monkeypatch.setattr(baselines, "_MOMENT", 0)
    monkeypatch.setattr(baselines, "in_child", lambda *args: children.append(1) or in_child(*args))
    apart = baselines.train_baseline(kind, counts, 1000, corpus=text, special_tokens=["<s>"])
    assert children == [1]
    sample = english_text[200_000:201_000]
    assert apart.decode(apart(sample).input_ids) == here.decode(here(sample).input_ids)
    if kind.startswith("sentencepiece"):  # the others decide ties by the order of a hash table
        assert apart.get_vocab() == here.get_vocab()
