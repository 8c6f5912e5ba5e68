"""One tokenizer for many threads and processes: what comes out is what single calls give."""

import copy
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import toys
from together import at_once
from tokenizers import AddedToken

WORDS = list(toys.WORDS)
BATCH = [f"international {word} zona<|eos|> {word}" for word in WORDS]
SETTINGS = [
    *toys.SETTINGS,
    {"return_offsets_mapping": True, "add_special_tokens": False},
    {"text_pair": BATCH[::-1], "truncation": "only_second", "max_length": 60},
    {"padding": "max_length", "max_length": 30, "return_special_tokens_mask": True},
]


def test_settings_of_other_calls_do_not_matter(native):
    tok = toys.tokenizer(native=native, post_processor="bos and eos")
    expected = [tok(BATCH, **options).data for options in SETTINGS]

    def call(i):
        return [tok(BATCH, **SETTINGS[(i + k) % 8]).data for k in range(8)]

    for i, found in enumerate(at_once(call)):
        assert found == [expected[(i + k) % 8] for k in range(8)]


def test_sides_of_other_calls_do_not_matter(native):
    """The padding side is a call's; the truncation side that of a copy, which shares backend and cache."""
    sides = [(truncation, padding) for truncation in ("left", "right") for padding in ("left", "right")]
    batch, options = [*BATCH, "hug", "a"], {"truncation": True, "padding": "max_length", "max_length": 7}
    expected = [
        toys.tokenizer(native=native, truncation_side=truncation, padding_side=padding)(batch, **options).data
        for truncation, padding in sides
    ]
    assert all(expected.count(one) == 1 for one in expected)
    tok = toys.tokenizer(native=native)
    copies = [copy.copy(tok) for _ in sides]
    for copied, (truncation, _) in zip(copies, sides, strict=True):
        copied.truncation_side = truncation

    def call(i):
        turns = [(i + k) % 4 for k in range(8)]
        return [(k, copies[k](batch, padding_side=sides[k][1], **options).data) for k in turns]

    for seen in at_once(call):
        for k, found in seen:
            assert found == expected[k]
    assert tok.truncation_side == tok.padding_side == "right"


def test_first_calls_may_come_at_once(native):
    expected = [toys.tokenizer(native=native)(BATCH, **options).data for options in SETTINGS]
    for _ in range(3):
        tok = toys.tokenizer(native=native)
        assert at_once(lambda i, tok=tok: tok(BATCH, **SETTINGS[i]).data) == expected
        ids = expected[0]["input_ids"]
        fresh = toys.tokenizer(native=native)
        assert at_once(lambda i, fresh=fresh, ids=ids: fresh.batch_decode(ids)) == [BATCH] * 8


@pytest.mark.parametrize("again", [False, True], ids=["new strings", "new flags"])
def test_tokens_may_be_added_meanwhile(native, again):
    """A call sees all of an addition or nothing of it, and a later call of a thread never less."""
    text = " ".join([f"xhug{i}x zona{i}" for i in range(20)])
    if again:
        additions = [[AddedToken(f"hug{k}", single_word=n % 2 == 0) for k in range(20)] for n in range(30)]
    else:
        additions = [[f"hug{n}", f"zona{n}"] for n in range(20)]
    alone = toys.tokenizer(native=native)
    states = [alone(text)["input_ids"]]
    for tokens in additions:
        alone.add_tokens(tokens)
        states.append(alone(text)["input_ids"])
    tok = toys.tokenizer(native=native)

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


def test_padding_tokens_may_be_named_meanwhile(native):
    """A call pads with a token that its text is searched for, too; nothing is padded with what has no id."""
    names = [f"<p{k}>" for k in range(60)]
    batch = ["".join(names), "a"]
    alone = toys.tokenizer(native=native)
    states = [alone(batch)["input_ids"][0]]
    for name in names:
        alone.add_special_tokens({"pad_token": name})
        states.append(alone(batch)["input_ids"][0])
    tok = toys.tokenizer(native=native)
    pad_ids = [tok.pad_token_id, *alone.convert_tokens_to_ids(names)]

    def work(i):
        if i == 0:
            for k, name in enumerate(names):
                tok.add_special_tokens({"pad_token": name})
                tok.padding_side = ("left", "right")[k % 2]
            return []
        calls = [{"padding": True}, {"padding": True, "return_tensors": "np"}]
        return [tok(batch, **calls[k % 2])["input_ids"] for k in range(40)]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        made = at_once(work, 5)
    finally:
        sys.setswitchinterval(interval)
    for long, short in [[list(map(int, row)) for row in rows] for seen in made for rows in seen]:
        n_known = states.index(long)
        (token_id,) = alone("a")["input_ids"]
        assert short.count(token_id) == 1
        (pad_id,) = {*short} - {token_id}
        assert pad_ids.index(pad_id) <= n_known
        assert len(short) == len(long)
        assert token_id in (short[0], short[-1])
    assert tok(batch, padding=True)["input_ids"][0] == states[-1]


SCRIPT = """
import multiprocessing, sys, threading
sys.path.insert(0, sys.argv[1])
import toys

native, general = toks = toys.tokenizer(), toys.tokenizer(native=False)
batch = ["international nationality zona<|eos|> Arizona"] * 300
options = {"padding": True, "truncation": True, "max_length": 12}
expected = native(batch, **options)["input_ids"]

def encode(n, toks=toks):
    return [tok(batch[:n], **options)["input_ids"] for tok in toks]

def send(toks, results):
    results.put(encode(300, toks))

if __name__ == "__main__":
    stop = threading.Event()

    def keep_busy(tok):
        while not stop.is_set():
            tok(batch[:100], **options)

    busy = [threading.Thread(target=keep_busy, args=(tok,)) for tok in toks]
    [thread.start() for thread in busy]
    for _ in range(5):
        with multiprocessing.get_context("fork").Pool(2) as pool:
            found = pool.map(encode, [300, 200, 1], chunksize=1)
        assert found == [[expected[:n]] * 2 for n in (300, 200, 1)]
    stop.set()
    [thread.join() for thread in busy]
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    child = context.Process(target=send, args=(toks, results))
    child.start()
    assert results.get(timeout=100) == [expected] * 2
    child.join()
    assert encode(300) == [expected] * 2
    print("done")
"""


FORK_SCRIPT = """
import os, random, sys, threading, time
sys.path.insert(0, sys.argv[1])
import toys
from hf_scaffold import tokenization_scaffold

tok = toys.tokenizer(native=False)
options = {"padding": True, "truncation": True, "max_length": 12}

def wait_for(child):
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if os.waitpid(child, os.WNOHANG)[0]:
            return
        time.sleep(0.002)
    os.kill(child, 9)
    print("a child hangs", flush=True)

def first_call_meets_fork(delay):
    thread = threading.Thread(target=tok, args=(["zona", "Arizona"],))
    thread.start()
    time.sleep(delay)
    child = os.fork()
    if child == 0:
        tok(["zona", "Arizona zona"], **options)
        os._exit(0)
    wait_for(child)

rng = random.Random(0)
for _ in range(150):
    process = os.fork()
    if process == 0:  # it is to be like one that has just started
        tokenization_scaffold.first_process.cache_clear()
        tokenization_scaffold.first_process()
        first_call_meets_fork(rng.uniform(0, 0.008))
        os._exit(0)
    rng.random()
    os.waitpid(process, 0)
print("done")
"""


def run(command, timeout=120, **options):
    """Output and errors of a program; if it hangs, what it has started ends with it."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, start_new_session=True, **pipes, **options) as program:
        try:
            return program.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(program.pid, signal.SIGKILL)
            raise


def test_a_program_that_hangs_ends_with_all_it_has_started(tmp_path):
    beats = tmp_path / "beats"
    with pytest.raises(subprocess.TimeoutExpired):
        run(["sh", "-c", f"(while :; do echo >> {beats}; sleep 0.02; done) & wait"], timeout=1)
    n_beats = beats.stat().st_size
    time.sleep(0.5)
    assert 0 < n_beats == beats.stat().st_size


def test_a_fork_while_the_backend_starts_its_threads(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(FORK_SCRIPT)
    command = [sys.executable, str(script), str(Path(__file__).parents[1])]
    output, errors = run(command, env={**os.environ, "TOKENIZERS_PARALLELISM": "true"})
    assert output.strip() == "done", errors


@pytest.mark.parametrize("parallelism", ["true", "false", None])
def test_processes_after_use(parallelism, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = {k: v for k, v in os.environ.items() if k != "TOKENIZERS_PARALLELISM"}
    if parallelism is not None:
        environment["TOKENIZERS_PARALLELISM"] = parallelism
    command = [sys.executable, str(script), str(Path(__file__).parents[1])]
    output, errors = run(command, env=environment)
    assert output.strip() == "done", errors
