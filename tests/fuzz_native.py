"""Random texts and calls for the native encoder and decoder, until the time is up or one is answered wrongly.

    python tests/fuzz_native.py [SECONDS] [SEED]

The Rust backend's answer is the right one; of short texts, it has to be the oracle's, too. What texts and
calls fell on is counted. Each round has a seed of its own, so a failure can be run again alone: give 0
seconds and the seed that is printed with the smallest failing input. A round in which the backend takes
minutes, or runs out of memory, is left out, and said to be.
"""

import json
import os
import random
import re
import subprocess
import sys
import time
import traceback
import warnings
from collections import Counter
from itertools import groupby

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # PYTHONSAFEPATH leaves it out

from fuzz_rounds import Patience, Round

N_TEXTS, N_CALLS = 10_000, 20
# In one process: the backend keeps some 9 MB for each tokenizer that there ever was.
MOST_ROUNDS = 100
# Its regular expressions for added tokens can take quadratic time, and its encodings quadratic memory.
PATIENCE = Patience(backend=60, ours=600)
BACKEND_GAVE_UP = re.compile(
    r"Timeout \(.*\bin ask_the_backend\b|memory allocation of \d+ bytes failed", re.S
)


def main(seconds: float = 60.0, seed: str = "0.0") -> int:
    start = time.monotonic()
    series, first = seed.split(".")
    n, total = int(first), Counter[str]()
    while True:
        left = max(seconds - (time.monotonic() - start), 0)
        rounds, failure = rounds_of_a_process(left, series, n)
        n += len(rounds)
        for each in rounds:
            total.update(each)
        if failure:
            print(f"seed {series}.{n}\n{failure}")
            if not BACKEND_GAVE_UP.search(failure):
                return 1
            print("left out: the backend has no answer to this, in time or at all")
            total["rounds: left out"] += 1
            n += 1
        figures = f"{total['texts']:,} texts, {total['calls']:,} calls, {total['native']:,} of them native"
        elapsed = time.monotonic() - start
        print(f"{elapsed:.0f} s: seeds {seed} to {series}.{n - 1}, {figures}: all alike", flush=True)
        show(total)
        if elapsed >= seconds:
            return 0


def rounds_of_a_process(seconds: float, series: str, first: int) -> tuple[list[dict[str, int]], str]:
    """What was done in each of the rounds that went well, and the failure that ended the last one."""
    command = [sys.executable, __file__, "rounds", str(seconds), series, str(first)]
    quiet = {**os.environ, "RUST_BACKTRACE": "0"}  # it panics at some inputs, and both paths must then fail
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=quiet)
    rounds = [json.loads(line) for line in done.stdout.splitlines()]
    failure = rounds.pop()["failure"] if rounds and "failure" in rounds[-1] else ""
    if done.returncode and not failure:
        failure = f"the process ended with {done.returncode}\n{done.stderr[-5000:]}"
    return rounds, failure


def show(total: Counter[str]) -> None:
    """How many texts, or calls, fell on what, and how many of them were encoded natively."""
    names = sorted(name for name in total if ": " in name and not name.endswith(" natively"))
    for group, members in groupby(names, lambda name: name.partition(": ")[0]):
        print(f"  {group}")
        for name in members:
            n, native = total[name], total.get(f"{name} natively")
            share = "" if native is None else f"{native / max(n, 1):6.0%} natively"
            print(f"    {name.partition(': ')[2]:65}{n:12,}{share}", flush=True)


def run_rounds(seconds: float, series: str, first: int) -> None:
    """As many as the time allows, but one at least; prints what was done in each, or the failure."""
    warnings.simplefilter("ignore")  # about options that don't go together
    start = time.monotonic()
    for n in range(first, first + MOST_ROUNDS):
        done = Round(patience=PATIENCE)
        try:
            done.run(random.Random(f"{series}.{n}"), N_TEXTS, N_CALLS)
        except Exception:  # whatever it is, the seed is what finds it again
            done.fail(traceback.format_exc())
        if done.failure:
            print(json.dumps({"failure": done.failure}))
            return
        figures = {"texts": done.n_texts, "calls": done.n_calls, "native": done.n_native}
        print(json.dumps({**figures, **done.counts}), flush=True)
        if time.monotonic() - start >= seconds:
            return


if __name__ == "__main__":
    if sys.argv[1:2] == ["rounds"]:
        _, _, seconds, series, first = sys.argv
        run_rounds(float(seconds), series, int(first))
    else:
        arguments = sys.argv[1:]
        sys.exit(main(*map(float, arguments[:1]), *arguments[1:2]))
