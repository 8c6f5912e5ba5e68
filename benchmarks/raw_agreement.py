"""How near the estimate of raw agreement comes on text that was not trained on.

    python benchmarks/raw_agreement.py novels-en.txt novels-de.txt --mb 0.1,1,16

Parts of each text are trained on: two of each size, or one above 10 MB. Their agreement is measured on the
text that follows, and on text from elsewhere in the file. The same text gives the same table. In
docs/algorithm.md the two rows of each size are joined.
"""

import random
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves it out

from harness import markdown

import hf_scaffold as hs

Row = dict[str, Any]
SIZES = [1000, 8000, 32_000]
PIECE = 500_000  # bytes of text from elsewhere, of which four are measured; fewer of a short text
FOLLOWING, ELSEWHERE = "that follows", "from elsewhere"


def measure(corpus: Path, sizes_mb: Sequence[float]) -> Iterator[Row]:
    """The shares measured in training, estimated, and found on other text."""
    text, generator = corpus.read_bytes(), random.Random(0)
    for size in (int(mb * 1e6) for mb in sizes_mb for _ in range(1 if mb > 10 else 2)):
        piece = min(PIECE, (len(text) - size) // 4)  # so there is room on one side
        start = generator.randrange(len(text) - size - min(size, 1_000_000))
        end = start + size
        begins = (generator.randrange(len(text) - piece) for _ in iter(int, 1))
        apart = (begin for begin in begins if begin + piece <= start or begin >= end)
        others = {
            FOLLOWING: [text[end : end + min(size, 1_000_000)]],
            ELSEWHERE: [text[begin : begin + piece] for _, begin in zip(range(4), apart, strict=False)],
        }
        counts = {name: count(parts) for name, parts in others.items()}
        for bpe in hs.train_sizes(count([text[start:end]]), SIZES):
            for name, table in counts.items():
                yield {
                    "corpus": corpus.stem,
                    "mb": size / 1e6,
                    "other": name,
                    "measured": bpe.raw_agreement,
                    "estimate": bpe.raw_agreement_unseen,
                    "found": bpe.agreement(table),
                }


def count(parts: Sequence[bytes]) -> hs.PreTokenCounts:
    return hs.count([part.decode(errors="ignore") for part in parts])


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """By size and other text: how far both figures are off, in percentage points."""
    cells = []
    for key in dict.fromkeys((row["corpus"], row["mb"], row["other"]) for row in rows):
        group = [row for row in rows if (row["corpus"], row["mb"], row["other"]) == key]
        found = f"{100 * min(r['found'] for r in group):.2f} to {100 * max(r['found'] for r in group):.2f} %"
        off = [np.array([100 * (r[name] - r["found"]) for r in group]) for name in ("measured", "estimate")]
        corpus, mb, other = key
        cells.append([corpus, f"{mb:g}", other, found, *(f"{x.min():+.2f} to {x.max():+.2f}" for x in off)])
    columns = ["corpus", "MB", "other text", "agreement found", "raw_agreement is off", "the estimate is off"]
    yield from markdown(columns, cells)


def main(
    corpora: Annotated[list[Path], typer.Argument(help="Text files; each is measured alone.")],
    mb: Annotated[str, typer.Option(help="MB to train on, joined by commas.")] = "0.1,1,16",
) -> None:
    """Measure raw agreement on text that was not trained on, beside what training says of it."""
    warnings.simplefilter("ignore")  # candidates may run out
    sizes = [float(part) for part in mb.split(",")]
    print("\n".join(tables([row for corpus in corpora for row in measure(corpus, sizes)])))


if __name__ == "__main__":
    typer.run(main)
