"""Random texts and calls for the native encoder and decoder, until the time is up or one is answered wrongly.

    python tests/fuzz_native.py [SECONDS] [SEED]

The Rust backend's answer is the right one. Each round has a seed of its own, so a failure can be run again
alone: give 0 seconds and the seed that is printed with the smallest failing input.
"""

import random
import sys
import time
import warnings

from native_cases import Round

N_TEXTS, N_CALLS = 2000, 20


def main(seconds: float = 60.0, seed: str = "0.0") -> int:
    warnings.simplefilter("ignore")  # about options that don't go together
    start = time.monotonic()
    series, first = seed.split(".")
    total, n = Round(), int(first)
    while True:
        total.run(random.Random(f"{series}.{n}"), N_TEXTS, N_CALLS)
        if total.failure:
            print(f"seed {series}.{n}\n{total.failure}")
            return 1
        n += 1
        elapsed = time.monotonic() - start
        if n % 100 == 0 or elapsed >= seconds:
            figures = f"{total.n_texts} texts, {total.n_calls} calls, {total.n_native} of them native"
            print(f"{elapsed:.0f} s: seeds {seed} to {series}.{n - 1}, {figures}: all alike", flush=True)
        if elapsed >= seconds:
            return 0


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.exit(main(*map(float, arguments[:1]), *arguments[1:2]))
