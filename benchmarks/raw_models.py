"""How often the raw-safe models agree with the exact encoder, and how often any such model could.

    python benchmarks/raw_models.py novels-en.txt novels-de.txt multilingual.txt

For each text, tokenizers of several pre-tokenizers are trained on nine tenths of its lines. The shares are of
pre-tokens in these lines, and in the others. *possible*: those without a token that no rules over normal
tokens make, in whatever order; no plain BPE agrees more often. Merges only: of an engine that doesn't take
a pre-token that is a token whole.
"""

import random
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves it out

from harness import markdown

import hf_scaffold as hs
from hf_scaffold.training.agreement import percent_down

PRESETS = {
    "gpt2": {},
    "llama3": {},
    "metaspace": {"alphabet": "chars", "byte_fallback": True, "unk_token": "<unk>"},
}
COLUMNS = ["corpus", "preset", "tokens", "raw-safe", "every split", "possible"]
COLUMNS += [f"{column}, merges only" for column in COLUMNS[3:]]


def parts_of(path: Path) -> tuple[list[str], list[str]]:
    """Nine tenths of a text's lines, and the others."""
    lines = sorted({line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()})
    random.Random(0).shuffle(lines)
    cut = len(lines) * 9 // 10
    return lines[:cut], lines[cut:]


def rows(path: Path, sizes: list[int]) -> Iterator[list[str]]:
    parts = parts_of(path)
    for preset, options in PRESETS.items():
        settings = dict(options)
        alphabet = settings.pop("alphabet", None)
        counts = [hs.count(lines, pre_tokenizer=preset, alphabet=alphabet) for lines in parts]
        for bpe in hs.train_sizes(counts[0], sizes, **settings):
            every = bpe.with_every_split()
            cells = []
            for whole in (True, False):
                for model in (bpe, every):
                    cells.append([model.agreement(table, ignore_merges=whole) for table in counts])
                cells.append([possible(every, table, whole) for table in counts])
            yield [
                path.stem,
                preset,
                f"{bpe.vocab_size:,}",
                *(" / ".join(map(percent_down, c)) for c in cells),
            ]


def possible(bpe: hs.ScaffoldBPE, counts: hs.PreTokenCounts, takes_wholes: bool) -> float:
    """The share of pre-tokens without a token that can't be made of normal tokens."""
    is_missing = np.zeros(len(bpe.vocab), bool)
    is_missing[bpe.rules[:, 2]] = True
    is_missing[bpe.as_ids(bpe.raw_merges, bpe.affixes.join_all(bpe.raw_merges))[:, 2]] = False
    ids, ends = bpe.pretoken_encoder.encode(counts.data, counts.offsets)
    n_missing = np.diff(np.concatenate([[0], np.cumsum(is_missing[ids])])[ends])
    can_agree = n_missing == 0
    if takes_wholes and bpe.affixes.takes_wholes:
        can_agree |= np.diff(ends) == 1
    return int(counts.counts[can_agree].sum()) / counts.total


def main(
    corpora: Annotated[list[Path], typer.Argument(help="Text files; each is measured alone.")],
    vocab_sizes: Annotated[str, typer.Option(help="Sizes, joined by commas.")] = "8000,32000",
) -> None:
    """Measure what the raw-safe model and the one with every split get right."""
    warnings.simplefilter("ignore")  # candidates may run out
    sizes = [int(size) for size in vocab_sizes.split(",")]
    print("\n".join(markdown(COLUMNS, [row for corpus in corpora for row in rows(corpus, sizes)])))


if __name__ == "__main__":
    typer.run(main)
