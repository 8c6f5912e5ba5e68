"""The tokenizer results of Lian et al. 2024, measured on your text: tables with the paper's figures beside.

    python benchmarks/paper_tables.py novels-en.txt novels-de.txt --vocab-sizes 32000,64000,128000
    python benchmarks/paper_tables.py novels-en.txt --first-mb 1,4,16,64
    python benchmarks/paper_tables.py novels-en.txt --held-out-mb 5

Plain BPE and Scaffold-BPE learn from the same counts. Nothing is timed, and the same text gives the same
tables. docs/paper.md shows and explains them.
"""

import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves it out

from harness import markdown

import hf_scaffold as hs

Row = dict[str, Any]


# ---- measuring


def measure(
    corpus: str, train: Path, held_out: Path | None, vocab_sizes: Sequence[int], pre_tokenizer: str
) -> Iterator[Row]:
    """Both tokenizers at every size, on the text they were trained on and on what was held out."""
    texts = {"train": hs.count(train, pre_tokenizer=pre_tokenizer)}
    if held_out is not None:
        texts["held-out"] = hs.count(held_out, pre_tokenizer=pre_tokenizer)
    scaffolds = hs.train_sizes(texts["train"], vocab_sizes)
    larger_sizes = [len(bpe.vocab) for bpe in scaffolds]
    plains = hs.train_sizes(texts["train"], [*vocab_sizes, *larger_sizes], scaffold=False)
    larger = plains[len(vocab_sizes) :]
    for vocab_size, *tokenizers in zip(vocab_sizes, plains, scaffolds, larger, strict=False):
        for text, counts in texts.items():
            yield {
                "corpus": corpus,
                "text": text,
                "vocab_size": vocab_size,
                "pre_tokenizer": pre_tokenizer,
                "trained_on_bytes": texts["train"].n_bytes,
                **findings(*tokenizers, counts),
            }


def findings(
    plain: hs.ScaffoldBPE, scaffold: hs.ScaffoldBPE, larger: hs.ScaffoldBPE, counts: hs.PreTokenCounts
) -> Row:
    """What the paper reports, and what the entropy follows from. Lists are of BPE and Scaffold-BPE.

    Args:
        larger: BPE with as many tokens as Scaffold-BPE has when its scaffold tokens are added.
    """
    before, after, beyond = (hs.evaluate(bpe, counts) for bpe in (plain, scaffold, larger))
    change = hs.compare_vocabularies(before, after)
    entropy, bytes_per_token = both(before, after, "entropy"), both(before, after, "bytes_per_token")
    return {
        "reached": both(before, after, "vocab_size"),
        "scaffold_tokens": len(scaffold.scaffold_tokens),
        "removed": len(change.removed),
        "share_removed": len(change.removed) / before.vocab_size,
        "mean_removed": change.mean_removed,
        "mean_added": change.mean_added,
        "gain": change.gain,
        "n_tokens": both(before, after, "n_tokens"),
        "bytes_per_token": bytes_per_token,
        "entropy": entropy,
        "redundancy": both(before, after, "redundancy"),
        "bits_per_saved_token": bits_per_saved_token(entropy, bytes_per_token),
        "bits_per_saved_token_of_larger": bits_per_saved_token(
            both(before, beyond, "entropy"), both(before, beyond, "bytes_per_token")
        ),
        "entropy_terms": entropy_terms(before, after, change),
        "raw_agreement": after.raw_agreement,
        "raw_agreement_merges_only": after.raw_agreement_merges_only,
        "raw_agreement_unseen": scaffold.raw_agreement_unseen,
    }


def both(before: hs.Evaluation, after: hs.Evaluation, metric: str) -> list[Any]:
    return [getattr(before, metric), getattr(after, metric)]


def bits_per_saved_token(entropy: Sequence[float], bytes_per_token: Sequence[float]) -> float | None:
    """The bits that a text gets shorter by for each token that it gets shorter by.

    To write a text of n tokens takes n · H bits: -log2 p for each token of probability p. With s of these
    bits for each token saved, H' - H = (n - n') / n' · (H - s), and n / n' is the ratio of the bytes per
    token. So entropy rises where a token saved is worth fewer bits than the mean token.

    Returns:
        s. None where no token is saved.
    """
    saved = bytes_per_token[1] / bytes_per_token[0] - 1
    return entropy[0] - (entropy[1] - entropy[0]) / saved if saved else None


def entropy_terms(before: hs.Evaluation, after: hs.Evaluation, change: hs.VocabularyChange) -> list[float]:
    """What the removed, the added and the staying tokens add to the change of H = -Σ p log2 p."""
    removed = entropy_of(change.removed_frequencies / before.n_tokens)
    added = entropy_of(change.added_frequencies / after.n_tokens)
    return [0 - removed, added, (after.entropy - added) - (before.entropy - removed)]


def entropy_of(shares: Any) -> float:
    shares = shares[shares > 0]
    return float(np.sum(shares * -np.log2(shares)))


def parts(corpus: Path, first_mb: float | None, held_out_mb: float, folder: str) -> tuple[Path, Path | None]:
    """The text to train on, and the text held out, which is the end of the corpus; no line is cut."""
    if first_mb is None and not held_out_mb:
        return corpus, None
    text = corpus.read_bytes()
    end = line_end(text, len(text) - int(held_out_mb * 1e6))
    train, held_out = Path(folder, "train.txt"), Path(folder, "held-out.txt")
    train.write_bytes(text[: end if first_mb is None else line_end(text, min(end, int(first_mb * 1e6)))])
    held_out.write_bytes(text[end:])
    return train, held_out if held_out_mb else None


def line_end(text: bytes, limit: int) -> int:
    """Where the last line ends that does so within the limit; the limit itself at the end of the text."""
    return limit if limit == len(text) else text.rfind(b"\n", 0, limit) + 1


# ---- showing

# Lian et al. 2024, on the Pile: the share of scaffold tokens (section 1), Tables 6 and 8, Figure 5.
PAPER: list[Row] = [
    {
        "corpus": "the Pile (paper)",
        "vocab_size": 32_000,
        "share_removed": 0.0607,
        "gain": 0.7640,
        "bytes_per_token": [3.879, 3.889],
        "entropy": [11.2382, 11.2443],
        "redundancy": [0.2491, 0.2487],
        "bits_per_saved_token": bits_per_saved_token([11.2382, 11.2443], [3.879, 3.889]),
    },
    {"corpus": "the Pile (paper)", "vocab_size": 64_000, "gain": 0.6858},
    {"corpus": "the Pile (paper)", "vocab_size": 128_000, "gain": 0.5899},
]

Show = Callable[[Any], str]


def number(form: str) -> Show:
    return lambda value: format(value, form)


def percent(form: str) -> Show:
    return lambda value: f"{100 * value:{form}} %"


def from_to(form: str) -> Show:
    return lambda values: " → ".join(format(value, form) for value in values)


# Title to columns; column to what it shows, and how. An empty cell: not told, or nothing to tell.
TABLES: dict[str, dict[str, tuple[str, Show]]] = {
    "What the vocabulary loses, and what it gets instead": {
        "removed": ("removed", number(",")),
        "share": ("share_removed", percent(".2f")),
        "mean frequency, removed": ("mean_removed", number(",.1f")),
        "added": ("mean_added", number(",.1f")),
        "gain": ("gain", percent("+.2f")),
    },
    "Compression, entropy and redundancy: BPE → Scaffold-BPE": {
        "bytes per token": ("bytes_per_token", from_to(".3f")),
        "tokens": ("bytes_per_token", lambda values: percent("+.2f")(values[0] / values[1] - 1)),
        "entropy, bits": ("entropy", from_to(".4f")),
        "change": ("entropy", lambda values: f"{values[1] - values[0]:+.4f}"),
        "redundancy": ("redundancy", from_to(".4f")),
    },
    "Why entropy rises or falls": {
        "H, bits": ("entropy", lambda values: f"{values[0]:.2f}"),
        "s, bits per saved token": ("bits_per_saved_token", number(".2f")),
        "change of H": ("entropy", lambda values: f"{values[1] - values[0]:+.4f}"),
        "of what is removed, added, stays": (
            "entropy_terms",
            lambda values: " ".join(f"{value:+.4f}" for value in values),
        ),
        "s of larger BPE": ("bits_per_saved_token_of_larger", number(".2f")),
    },
    "Raw agreement": {
        "measured": ("raw_agreement", percent(".2f")),
        "without ignore_merges": ("raw_agreement_merges_only", percent(".2f")),
        "estimated for text not trained on": ("raw_agreement_unseen", percent(".2f")),
    },
}


def tables(rows: Sequence[Row]) -> Iterator[str]:
    for title, columns in TABLES.items():
        yield f"### {title}\n"
        cells = [
            [*names(row), *(cell(row, *column) for column in columns.values())] for row in [*PAPER, *rows]
        ]
        yield from markdown(["corpus", "vocabulary", *columns], [row for row in cells if any(row[2:])])
        yield ""


def names(row: Row) -> tuple[str, str]:
    corpus, size = row["corpus"], f"{row['vocab_size']:,}"
    if "text" in row:
        corpus += f", {row['trained_on_bytes'] / 1e6:.1f} MB" + ", held-out text" * (
            row["text"] == "held-out"
        )
    if min(row.get("reached", [row["vocab_size"]])) < row["vocab_size"]:
        size += f" (reached: {from_to(',')(row['reached'])})"
    return corpus, size


def cell(row: Row, key: str, show: Show) -> str:
    return "" if row.get(key) is None else show(row[key])


# ---- the command


def numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",") if part]


def main(
    corpora: Annotated[list[Path], typer.Argument(help="Text files; each is measured alone.")],
    vocab_sizes: Annotated[str, typer.Option(help="Joined by commas.")] = "32000,64000,128000",
    pre_tokenizer: Annotated[str, typer.Option(help=", ".join(hs.PRESETS))] = "gpt2-digits",
    first_mb: Annotated[str, typer.Option(help="Train on so many MB of each corpus, joined by commas.")] = "",
    held_out_mb: Annotated[float, typer.Option(help="Keep the last MB of each, and measure there, too.")] = 0,
    json_file: Annotated[Path | None, typer.Option("--json", help="All that was measured.")] = None,
) -> None:
    """Measure plain BPE and Scaffold-BPE on texts, beside what the paper measured on the Pile."""
    sizes = [int(size) for size in numbers(vocab_sizes)]
    rows: list[Row] = []
    for corpus in corpora:
        for part_mb in numbers(first_mb) or [None]:
            with tempfile.TemporaryDirectory() as folder:
                train, held_out = parts(corpus, part_mb, held_out_mb, folder)
                rows += measure(corpus.stem, train, held_out, sizes, pre_tokenizer)
    print("\n".join(tables(rows)))
    if json_file is not None:
        json_file.write_text(json.dumps({"paper": PAPER, "measured": rows}, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
