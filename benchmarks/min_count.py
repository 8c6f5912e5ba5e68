"""What is learned without the rare pre-tokens of a text, beside what all of them teach.

    python benchmarks/min_count.py novels.txt --vocab-size 32000

Bytes per token are of the whole text, with its rare pre-tokens.
"""

import sys
import tempfile
import warnings
from pathlib import Path
from typing import Annotated

import typer

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves it out

from harness import fetch, markdown

import hf_scaffold as hs


def bytes_per_token(bpe: hs.ScaffoldBPE, counts: hs.PreTokenCounts) -> float:
    n_tokens = sum(len(ids) * n for ids, n in zip(bpe.encode([*counts]), counts.counts.tolist(), strict=True))
    return counts.n_bytes / n_tokens


def row(min_count: int, counts: hs.PreTokenCounts, whole: hs.ScaffoldBPE) -> tuple[str, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kept = counts.at_least(min_count)
    bpe = hs.train(kept, whole.vocab_size)
    return (
        f"{min_count}",
        f"{len(kept):,}",
        f"{100 * (1 - kept.n_bytes / counts.n_bytes):.2f} %",
        f"{len({*bpe.merges} & {*whole.merges}):,} of {len(whole.merges):,}",
        f"{len({*bpe.tokens} & {*whole.tokens}):,}",
        f"{bytes_per_token(bpe, counts):.4f}",
    )


def main(
    text: Annotated[list[str] | None, typer.Argument(help="Files, or hub:dataset:config.")] = None,
    vocab_size: int = 32_000,
    min_counts: Annotated[str, typer.Option(help="Joined by commas.")] = "1,2,3,5,10,20",
) -> None:
    """Compare what is learned with several values of min_count."""
    with tempfile.TemporaryDirectory() as folder:
        counts = hs.count(Path(fetch(text or [], folder)), pre_tokenizer="gpt2")
    whole = hs.train(counts, vocab_size)
    columns = "min_count, distinct pre-tokens, text left out, same merges, same tokens, bytes per token"
    rows = [row(int(each), counts, whole) for each in min_counts.split(",")]
    print("\n".join(markdown(columns.split(", "), rows)))


if __name__ == "__main__":
    typer.run(main)
