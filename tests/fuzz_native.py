"""Random texts and calls for the native encoder and decoder, until the time is up or one is answered wrongly.

    python tests/fuzz_native.py [SECONDS] [SEED]

The Rust backend's answer is the right one; of short texts, it has to be the oracle's, too. What texts and
calls fell on is counted. Each round has a seed of its own, so a failure can be run again alone: give 0
seconds and the seed that is printed with the smallest failing input.
"""

import json
import os
import random
import subprocess
import sys
import time
import traceback
import warnings
from collections import Counter
from itertools import groupby

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # PYTHONSAFEPATH leaves it out

from fuzz_rounds import Round

N_TEXTS, N_CALLS = 10_000, 20
# In one process: the backend keeps some 9 MB for each tokenizer that there ever was.
MOST_ROUNDS = 100


def main(seconds: float = 60.0, seed: str = "0.0") -> int:
    start = time.monotonic()
    series, first = seed.split(".")
    n, total = int(first), Counter[str]()
    quiet = {**os.environ, "RUST_BACKTRACE": "0"}  # it panics at some inputs, and both paths must then fail
    while True:
        left = max(seconds - (time.monotonic() - start), 0)
        command = [sys.executable, __file__, "rounds", str(left), series, str(n)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=quiet)
        if done.returncode:
            print(done.stdout or f"a round from seed {series}.{n} on ended the process: {done.returncode}")
            return 1
        total.update(json.loads(done.stdout))
        n = int(first) + total["rounds"]
        figures = f"{total['texts']:,} texts, {total['calls']:,} calls, {total['native']:,} of them native"
        elapsed = time.monotonic() - start
        print(f"{elapsed:.0f} s: seeds {seed} to {series}.{n - 1}, {figures}: all alike", flush=True)
        show(total)
        if elapsed >= seconds:
            return 0


def show(total: Counter[str]) -> None:
    """How many texts, or calls, fell on what, and how many of them were encoded natively."""
    names = sorted(name for name in total if ": " in name and not name.endswith(" natively"))
    for group, members in groupby(names, lambda name: name.partition(": ")[0]):
        print(f"  {group}")
        for name in members:
            n, native = total[name], total.get(f"{name} natively")
            share = "" if native is None else f"{native / max(n, 1):6.0%} natively"
            print(f"    {name.partition(': ')[2]:65}{n:12,}{share}", flush=True)


def run_rounds(seconds: float, series: str, first: int) -> int:
    """As many as the time allows, but one at least; prints what was done, or the failure."""
    warnings.simplefilter("ignore")  # about options that don't go together
    start = time.monotonic()
    total = Round()
    for n in range(first, first + MOST_ROUNDS):
        try:
            total.run(random.Random(f"{series}.{n}"), N_TEXTS, N_CALLS)
        except Exception:  # whatever it is, the seed is what finds it again
            total.fail(traceback.format_exc())
        if total.failure:
            print(f"seed {series}.{n}\n{total.failure}")
            return 1
        if time.monotonic() - start >= seconds:
            break
    done = {"texts": total.n_texts, "calls": total.n_calls, "native": total.n_native}
    print(json.dumps({"rounds": n + 1 - first, **done, **total.counts}))
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["rounds"]:
        _, _, seconds, series, first = sys.argv
        sys.exit(run_rounds(float(seconds), series, int(first)))
    arguments = sys.argv[1:]
    sys.exit(main(*map(float, arguments[:1]), *arguments[1:2]))
