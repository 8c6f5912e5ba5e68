"""One tokenizer for many threads and processes: what comes out is what single calls give."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
import toys
from tokenizers import AddedToken

WORDS = list(toys.WORDS)
BATCH = [f"international {word} zona<|eos|> {word}" for word in WORDS]
SETTINGS = [
    {},
    {"truncation": True, "max_length": 9, "padding": "max_length"},
    {"truncation": True, "max_length": 7, "stride": 2, "return_overflowing_tokens": True},
    {"padding": True, "padding_side": "left"},
    {"padding": True, "pad_to_multiple_of": 8, "split_special_tokens": True},
    {"return_offsets_mapping": True, "add_special_tokens": False},
    {"text_pair": BATCH[::-1], "truncation": "only_second", "max_length": 60},
    {"padding": "max_length", "max_length": 30, "return_special_tokens_mask": True},
]


@pytest.fixture(params=[True, False], ids=["native", "general"])
def native(request):
    return request.param


def tokenizer(native, **kwargs):
    made = toys.tokenizer(**kwargs)
    made.native = native
    return made


def at_once(work, n=8):
    """work(0) … work(n - 1), each on its own thread, begun together."""
    barrier = Barrier(n)

    def begin(i):
        barrier.wait(60)
        return work(i)

    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(begin, range(n)))


def test_settings_of_other_calls_do_not_matter(native):
    tok = tokenizer(native, post_processor="bos and eos")
    expected = [tok(BATCH, **options).data for options in SETTINGS]

    def call(i):
        return [tok(BATCH, **SETTINGS[(i + k) % 8]).data for k in range(8)]

    for i, found in enumerate(at_once(call)):
        assert found == [expected[(i + k) % 8] for k in range(8)]


def test_sides_set_on_shallow_copies(native):
    tok = tokenizer(native)
    tok.truncation_side = "left"
    left = tok(BATCH, truncation=True, max_length=5).data
    tok.truncation_side = "right"
    right = tok(BATCH, truncation=True, max_length=5).data
    assert left != right
    found = at_once(lambda i: tok(BATCH, truncation=True, max_length=5, padding_side="left").data)
    assert found == [right] * 8


def test_first_calls_may_come_at_once(native):
    expected = [tokenizer(native)(BATCH, **options).data for options in SETTINGS]
    for _ in range(3):
        tok = tokenizer(native)
        assert at_once(lambda i, tok=tok: tok(BATCH, **SETTINGS[i]).data) == expected
        ids = expected[0]["input_ids"]
        fresh = tokenizer(native)
        assert at_once(lambda i, fresh=fresh, ids=ids: fresh.batch_decode(ids)) == [BATCH] * 8


@pytest.mark.parametrize("again", [False, True], ids=["new strings", "new flags"])
def test_tokens_may_be_added_meanwhile(native, again):
    """A call sees all of an addition or nothing of it, and a later call of a thread never less."""
    text = " ".join([f"xhug{i}x zona{i}" for i in range(20)])
    if again:
        additions = [[AddedToken(f"hug{k}", single_word=n % 2 == 0) for k in range(20)] for n in range(30)]
    else:
        additions = [[f"hug{n}", f"zona{n}"] for n in range(20)]
    alone = tokenizer(native)
    states = [alone(text)["input_ids"]]
    for tokens in additions:
        alone.add_tokens(tokens)
        states.append(alone(text)["input_ids"])
    tok = tokenizer(native)

    def work(i):
        if i == 0:
            for tokens in additions:
                tok.add_tokens(tokens)
            return []
        seen = [tok(text) for _ in range(25)]
        return [(encoded["input_ids"], encoded.encodings[0].ids) for encoded in seen]

    for seen in at_once(work, 4):
        for ids, encoded in seen:
            assert ids == encoded
            assert ids in states
        if not again:
            numbers = [states.index(ids) for ids, _ in seen]
            assert numbers == sorted(numbers)
    assert tok(text)["input_ids"] == states[-1]


SCRIPT = """
import multiprocessing, sys, threading
sys.path.insert(0, sys.argv[1])
import toys

tok = toys.tokenizer()
tok.native = sys.argv[2] == "native"
batch = ["international nationality zona<|eos|> Arizona"] * 300
options = {"padding": True, "truncation": True, "max_length": 12}
expected = tok(batch, **options)["input_ids"]

def encode(n):
    return tok(batch[:n], **options)["input_ids"]

def encode_with(tok, n, results):
    results.put(tok(batch[:n], padding=True, truncation=True, max_length=12)["input_ids"])

if __name__ == "__main__":
    stop = threading.Event()

    def keep_busy():
        while not stop.is_set():
            encode(100)

    busy = threading.Thread(target=keep_busy)
    busy.start()
    for _ in range(5):
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(encode, [300, 200, 1], chunksize=1) == [expected, expected[:200], expected[:1]]
    stop.set()
    busy.join()
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    child = context.Process(target=encode_with, args=(tok, 300, results))
    child.start()
    assert results.get(timeout=100) == expected
    child.join()
    assert encode(300) == expected
    print("done")
"""


@pytest.mark.parametrize("parallelism", ["true", "false", None])
def test_processes_after_use(native, parallelism, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = {k: v for k, v in os.environ.items() if k != "TOKENIZERS_PARALLELISM"}
    if parallelism is not None:
        environment["TOKENIZERS_PARALLELISM"] = parallelism
    command = [sys.executable, "-P" if sys.version_info >= (3, 11) else "-B", str(script)]
    command += [str(Path(__file__).parent), "native" if native else "general"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "done", done.stderr
