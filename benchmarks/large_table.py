"""Load a large table of counts and train on it: time, and memory for each distinct pre-token.

    python benchmarks/large_table.py novels.txt --rows 5000000

The pre-tokens are made of a text's (made_tables.py). The most frequent occurs as often as there are
pre-tokens, the second half as often, and so on.
"""

import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves it out

import made_tables
from harness import Run, environment, fetch, markdown, measure, megabytes

import hf_scaffold as hs


def make_table(text: str, rows: int, path: str) -> Run:
    """A child's side: writes the table."""
    words = made_tables.words_of(Path(text))
    numbers = made_tables.numbers_of(words, rows)
    return {"n_bytes": made_tables.write(Path(path), words, numbers, made_tables.counts_of(rows))}


def load_and_train(path: str, vocab_size: int) -> Run:
    """A child's side: processor time, and the peak of memory up to then."""
    train = hs.train  # imported before the clock starts
    begin = time.process_time()
    counts = hs.PreTokenCounts.load(path)
    loaded = time.process_time()
    load_mb = megabytes(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    train(counts, vocab_size)
    end = time.process_time()
    return {
        "n_bytes": len(counts.data),
        "load_s": loaded - begin,
        "load_mb": load_mb,
        "train_s": end - loaded,
    }


STEPS = {"make": make_table, "train": load_and_train}


def main(
    text: Annotated[list[str] | None, typer.Argument(help="Files, or hub:dataset:config.")] = None,
    rows: int = 5_000_000,
    vocab_size: int = 32_000,
    child: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Measure loading and training by the distinct pre-token."""
    if child is not None:
        spec = json.loads(child)
        print(json.dumps(STEPS[spec["step"]](**spec["arguments"])))
        return
    with tempfile.TemporaryDirectory() as folder:
        table = f"{folder}/table.parquet"
        steps = {
            "make": {"text": str(fetch(text or [], folder)), "rows": rows, "path": table},
            "train": {"path": table, "vocab_size": vocab_size},
        }
        for step, arguments in steps.items():
            run = measure(__file__, {"step": step, "arguments": arguments, "threads": 1})
    print(environment(), end="\n\n")
    columns = (
        "distinct pre-tokens, bytes each, load CPU s, load peak MB, train CPU s, peak MB, peak bytes each"
    )
    row = [
        f"{rows:,}",
        f"{run['n_bytes'] / rows:.1f}",
        f"{run['load_s']:.1f}",
        f"{run['load_mb']:,.0f}",
        f"{run['train_s']:.1f}",
        f"{run['peak_mb']:,.0f}",
        f"{run['peak_mb'] * 2**20 / rows:.0f}",
    ]
    print("\n".join(markdown(columns.split(", "), [row])))


if __name__ == "__main__":
    typer.run(main)
