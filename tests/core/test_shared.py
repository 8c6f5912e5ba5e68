"""Objects of the core that threads share: with the GIL, or without it where Python has none."""

import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest
from together import at_once

import hf_scaffold
from hf_scaffold._core.counter import PretokenCounter
from hf_scaffold._core.pretoken_encoder import PretokenEncoder
from hf_scaffold._core.text_encoder import AddedTokenFinder, TextEncoder
from hf_scaffold._core.token_decoder import TokenDecoder
from hf_scaffold._core.trainer import MergeLoop

CORE = sorted(path.stem for path in Path(hf_scaffold.__file__).with_name("_core").glob("*.pyi"))
BYTES = np.arange(256, dtype=np.int32)
RULES = np.array([[ord("a") + i, ord("b") + i, 256 + i] for i in range(20)], np.int32)
PLAIN = AddedTokenFinder([])


def accepted(work):
    """Whether the object took the call: one that another thread has at work refuses it."""
    try:
        work()
    except RuntimeError as error:
        if "another thread" in str(error):
            return False
        raise
    return True


def random_text(seed, n=1500, length=200):
    letters = np.random.default_rng(seed).integers(97, 120, (n, length), np.uint8)
    letters[:, 0] = 32
    return letters.tobytes().decode()


def test_importing_the_core_leaves_the_gil_as_it_was():
    modules = ", ".join(f"hf_scaffold._core.{name}" for name in CORE)
    code = f"import sys, {modules}; print(getattr(sys, '_is_gil_enabled', lambda: True)())"
    command = [sys.executable, "-W", "error::RuntimeWarning", "-c", code]
    shown = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(sys.prefix)).stdout
    assert shown.strip() == str(not sysconfig.get_config_var("Py_GIL_DISABLED"))


def test_first_calls_prepare_an_encoder_once():
    """Each text is enough for that."""
    text = random_text(0, 400)
    expected = TextEncoder("gpt2", BYTES, RULES, {}).encode([text], PLAIN)[0].tobytes()
    for _ in range(30):
        encoder = TextEncoder("gpt2", BYTES, RULES, {})

        def work(i, encoder=encoder):
            if i % 2:
                encoder.prepare()
            return encoder.encode([text], PLAIN)[0].tobytes()

        assert {*at_once(work)} == {expected}


def test_first_calls_prepare_an_encoder_of_pretokens_once():
    data = random_text(1, 200).encode()
    offsets = np.array([0, len(data)])
    expected = PretokenEncoder(BYTES, RULES, {}, {}).encode(data, offsets)[0].tobytes()
    for _ in range(30):
        encoder = PretokenEncoder(BYTES, RULES, {}, {})
        found = at_once(lambda i, encoder=encoder: encoder.encode(data, offsets)[0].tobytes())
        assert {*found} == {expected}


def test_the_cache_is_replaced_while_others_take_it():
    encoder = TextEncoder("gpt2", BYTES, RULES, {256: [7, 8]})
    texts = [random_text(seed) for seed in range(8)]
    alone = [TextEncoder("gpt2", BYTES, RULES, {256: [7, 8]}).encode([text], PLAIN)[0] for text in texts]

    def work(i):
        for k in range(6):
            ids, _, _ = encoder.encode([texts[(i + k) % 8], "a"], PLAIN)
            assert np.array_equal(ids[:-1], alone[(i + k) % 8])
            assert encoder.encode_one(" abcd", PLAIN) == [32, 7, 8, 258]
            assert encoder.n_cached >= 0
            assert encoder.cache_bytes > 0
        return True

    assert all(at_once(work))


def test_tokens_are_added_while_others_encode():
    """A finder never changes: a caller that adds tokens makes another one."""
    encoder = TextEncoder("gpt2", BYTES, RULES, {})
    names = [f"<{k}>" for k in range(40)]
    text = " ".join(names) * 20

    def finder(n):
        flags = (False, False, False, False, False)
        return AddedTokenFinder([(name, 1000 + k, *flags) for k, name in enumerate(names[:n])])

    expected = [encoder.encode_one(text, finder(n)) for n in range(41)]
    now = [finder(0)]
    numbers = np.arange(1040).tolist()
    frame = np.array([1], np.int32)

    def work(i):
        if i == 0:
            for n in range(41):
                now[0] = finder(n)
            return True
        for _ in range(40):
            seen, rows = now[0], [[], []]
            encoder.encode_to_lists([text, text], seen, 1, frame, frame, numbers, rows)
            assert rows[0] == rows[1]
            assert rows[0][1:-1] in expected
            assert encoder.encode([text], seen)[0].tolist() == rows[0][1:-1]
        return True

    assert all(at_once(work))


def test_a_counter_counts_for_one_thread_at_a_time():
    texts = [random_text(2, 50, 6).encode()]
    once = PretokenCounter("gpt2")
    once.add(texts)
    counter = PretokenCounter("gpt2")
    n = sum(map(sum, at_once(lambda i: [accepted(lambda: counter.add(texts)) for _ in range(200)])))
    assert n >= 1
    assert counter.table()[0] == once.table()[0]
    assert counter.table()[2].tolist() == (n * once.table()[2]).tolist()


def test_counters_are_merged_by_one_thread_at_a_time():
    one, total = PretokenCounter("gpt2"), PretokenCounter("gpt2")
    one.add([b"the cat the dog"])
    n = sum(map(sum, at_once(lambda i: [accepted(lambda: total.merge(one)) for _ in range(200)])))
    assert n >= 1
    assert total.table()[2].tolist() == (n * one.table()[2]).tolist()


def loop_of(text):
    symbols = np.frombuffer(text.encode(), np.uint8)
    offsets = np.arange(0, len(symbols) + 1, 200)
    counts = np.arange(1, len(offsets))
    return MergeLoop(symbols, offsets, counts, [bytes([b]) for b in range(256)], 0, 0, 0, True)


def test_a_loop_is_run_by_one_thread_at_a_time():
    text = random_text(3, 300)
    alone = loop_of(text)
    alone.run(330)
    shared = loop_of(text)
    for size in range(256, 331, 2):
        at_once(lambda i, size=size: accepted(lambda: shared.run(size)))
    shared.run(330)
    assert (shared.tokens, shared.merges) == (alone.tokens, alone.merges)


@pytest.mark.parametrize("n_threads", [1, 3])
def test_a_list_may_change_while_it_is_decoded(n_threads):
    """What comes out is some of its tokens, or an IndexError where it shrinks at the wrong moment."""
    decoder = TokenDecoder({i: b"%d," % i for i in range(5000)})
    ids = list(range(5000))

    def work(i):
        for _ in range(60):
            if i < n_threads:
                ids[:] = range(1000 * i, 1000 * i + 700)
                ids.extend(range(4000, 5000))
            else:
                try:
                    pieces = decoder.decode(ids).split(",")
                except IndexError:
                    continue
                assert all(int(piece) < 5000 for piece in pieces if piece)
        return True

    assert all(at_once(work))
