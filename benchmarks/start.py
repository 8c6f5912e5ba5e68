"""What comes before any throughput: importing and loading, and the share of each part in one short call.

    python benchmarks/start.py my-tokenizer

Each start is a new process: `import hf_scaffold`, `hf_scaffold.Encoder`, `from_pretrained`; Python's own
start does not count. Times are CPU time, of starts the median and the lowest, of calls the lowest.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Annotated
from unittest import mock

import typer

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves it out

from encode_tables import SENTENCE

START = """
import sys, time
times = [time.process_time()]
import hf_scaffold
times.append(time.process_time())
Encoder = hf_scaffold.Encoder
times.append(time.process_time())
Encoder.from_pretrained(sys.argv[1])
times.append(time.process_time())
print(*times)
"""
CALLS, TRIES = 2000, 20


def starts(folder: str, rounds: int) -> list[list[float]]:
    """The ms of import, module, load and all of them, of each round."""
    found = []
    for _ in range(rounds):
        command = [sys.executable, "-c", START, os.path.abspath(folder)]
        elsewhere = os.path.dirname(sys.executable)  # where no sources are imported
        output = subprocess.run(command, cwd=elsewhere, capture_output=True, text=True, check=True).stdout
        times = [1000 * float(word) for word in output.split()]
        found.append([*(b - a for a, b in pairwise(times)), times[-1] - times[0]])
    return found


def microseconds(call: Callable[[], object]) -> float:
    """The CPU time of one call, at best."""
    tries = []
    for _ in range(TRIES):
        begin = time.thread_time()
        for _ in range(CALLS):
            call()
        tries.append(time.thread_time() - begin)
    return 1e6 * min(tries) / CALLS


def shares(folder: str) -> dict[str, float]:
    """The µs of a tokenizer's call with one short text, and of what it consists of."""
    from transformers import BatchEncoding

    from hf_scaffold import ScaffoldTokenizerFast

    tokenizer = ScaffoldTokenizerFast.from_pretrained(folder)
    encoding = tokenizer(SENTENCE)
    whole = microseconds(lambda: tokenizer(SENTENCE))

    def stand_in(self: object, **options: object) -> BatchEncoding:
        return encoding

    with mock.patch.object(type(tokenizer), "_encode_plus", stand_in):
        outer = microseconds(lambda: tokenizer(SENTENCE))
    data, kept = dict(encoding), encoding._encodings
    made = microseconds(lambda: BatchEncoding({**data}, kept, n_sequences=1))
    return {
        "transformers' `__call__`": outer,
        "`BatchEncoding`": made,
        "ours": whole - outer - made,
        "all": whole,
    }


def main(
    tokenizer: Annotated[Path, typer.Argument(help="A saved tokenizer.")],
    rounds: Annotated[int, typer.Option(min=1)] = 20,
) -> None:
    """Print the ms of starts and the µs of a call."""
    folder = str(tokenizer)
    columns = zip(*starts(folder, rounds), strict=True)
    print("| start | ms | best |\n|---|---|---|")
    for name, times in zip(("import", "module of Encoder", "load", "all"), columns, strict=True):
        print(f"| {name} | {statistics.median(times):.1f} | {min(times):.1f} |")
    print(f"\n| `tok({SENTENCE!r})` | µs |\n|---|---|")
    for name, each in shares(folder).items():
        print(f"| {name} | {each:.1f} |")


if __name__ == "__main__":
    typer.run(main)
