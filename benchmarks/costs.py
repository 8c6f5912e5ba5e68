"""What loading files and reading texts costs, by size: processor time and peak memory.

    python benchmarks/costs.py [--vocab-sizes 2000 8000] [--megabytes 0.25 1] [--docs docs/security.md]

Each figure is of a forked process, or the median of three. Of the texts in tests/attack the worst for each
operation is shown beside ordinary text; what grows faster than its size would be a fault.
"""

import argparse
import os
import random
import statistics
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from attack import forks, texts  # of the folder above

import hf_scaffold as hs

ROUNDS = 3
NO_LIMITS = forks.Limits(600, 16 << 30)
MARKS = ("<!-- costs.py -->\n", "<!-- end -->\n")


def measured(work: Callable[[], Any], rounds: int = ROUNDS) -> tuple[float, float]:
    """Seconds of processor time, MB at the peak beside what there was."""
    outcomes = [
        next(forks.run([None], lambda _: bool(work()) and None, lambda _: NO_LIMITS)) for _ in range(rounds)
    ]
    for outcome in outcomes:
        if outcome.death:
            raise RuntimeError(f"{outcome.death}\n{outcome.errors}")
    medians = (
        statistics.median(getattr(outcome, name) for outcome in outcomes) for name in ("seconds", "peak")
    )
    seconds, peak = medians
    return seconds, peak / 2**20


def table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


# ---- loading


def synthetic(vocab_size: int) -> Any:
    """A tokenizer of any size, of words that no one speaks."""
    rng = random.Random(vocab_size)
    words = {
        "".join(rng.choices("abcdefghijklmnop", k=rng.randrange(2, 12))): 1 for _ in range(vocab_size * 2)
    }
    counts = hs.PreTokenCounts.from_mapping({word: rng.randrange(1, 1000) for word in words})
    return hs.train(counts, vocab_size)


def load(folder: str) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def load_stock(folder: str) -> Any:
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_file=f"{folder}/tokenizer.json")


def loading(vocab_sizes: list[int]) -> Iterator[tuple[str, ...]]:
    with tempfile.TemporaryDirectory() as work:
        for vocab_size in vocab_sizes:
            bpe = synthetic(vocab_size)
            folder, artifact = f"{work}/{vocab_size}", f"{work}/{vocab_size}-artifact"
            bpe.to_tokenizer().save_pretrained(folder)
            bpe.save(artifact)
            load(folder)  # what is imported late is there from now on
            steps: dict[str, tuple[str, Callable[[], Any]]] = {
                "`AutoTokenizer.from_pretrained`": (folder, partial(load, folder)),
                "…, and a first call": (folder, lambda folder=folder: load(folder)("a b")),
                "…, and save": (
                    folder,
                    lambda folder=folder: load(folder).save_pretrained(f"{folder}-again"),
                ),
                "the stock class, tokenizer.json": (folder, partial(load_stock, folder)),
                "`ScaffoldBPE.load`": (artifact, partial(hs.ScaffoldBPE.load, artifact)),
            }
            for step, (read, do) in steps.items():
                size = sum(path.stat().st_size for path in Path(read).iterdir()) / 2**20
                seconds, peak = measured(do)
                yield (
                    step,
                    f"{vocab_size:,}",
                    f"{size:.2f}",
                    f"{seconds:.2f}",
                    f"{peak:.0f}",
                )


# ---- texts


def reading(megabytes: list[float]) -> Iterator[tuple[str, ...]]:
    for name, _, operation in texts.operations():
        for size in megabytes:
            n = int(size * 1_000_000)
            seconds, peak = measured(partial(operation, texts.ordinary(n)))
            made = {text: partial(quietly, operation, make(n)) for text, make in texts.TEXTS.items()}
            found = {text: measured(do, 1) for text, do in made.items()}
            worst = max(found, key=lambda text: found[text][0])
            slowest, largest = found[worst][0], max(peak for _, peak in found.values())
            yield (
                *(name, f"{size:g}", f"{seconds:.2f}", f"{peak:.0f}"),
                *(f"{slowest:.2f}", f"{largest:.0f}", worst),
            )


def quietly(operation: Callable[[str], Any], text: str) -> None:
    texts.usage((operation, text))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vocab-sizes", type=int, nargs="*", default=[2000, 8000, 32_000])
    parser.add_argument("--megabytes", type=float, nargs="*", default=[0.25, 1])
    parser.add_argument("--docs", type=Path, help="a page with marks, between which the tables go")
    arguments = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    warnings.simplefilter("ignore")
    texts.prepare()
    head = ("step", "tokens", "MB read", "s", "peak MB")
    page = table(head, loading(arguments.vocab_sizes))
    head = (
        "operation",
        "million characters",
        "ordinary text: s",
        "peak MB",
        "worst text: s",
        "peak MB",
        "slowest",
    )
    page += "\n" + table(head, reading(arguments.megabytes))
    print(page)
    if arguments.docs:
        before, rest = arguments.docs.read_text(encoding="utf-8").split(MARKS[0])
        _, after = rest.split(MARKS[1])
        arguments.docs.write_text(f"{before}{MARKS[0]}\n{page}\n{MARKS[1]}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
