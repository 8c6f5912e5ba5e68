"""Scaffold-BPE beside the other methods of docs/methods.md, on text trained on and on other text.

    python benchmarks/methods.py novels-en.txt novels-de.txt multilingual.txt --docs docs/methods.md

Each text is cut into nine tenths and a last tenth, which is *other* text: other books, other languages. Of
the first part every tenth line is left out of training, too: the *same* text, but not seen. Frequency gain:
how much more often the tokens occur that only this method has, on average, than those that only plain BPE
has. Never used: tokens with an id, characters and bytes included, that the other text doesn't contain.
N-grams: bits per byte of 2 MB of the other text under a 5-gram model that is estimated on 20 MB of the
training text.
"""

import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves it out

from harness import markdown, surroundings

import hf_scaffold as hs

METHODS = ["bpe", "scaffold", "picky", "trimmed", "residue", "leaf"]
ORDER = 5
COLUMNS = ["corpus", "tokens", "method", "bytes/token, trained", "same", "other"]
COLUMNS += ["frequency gain, trained", "other", "never used", "n-grams, bits/byte"]


def parts_of(path: Path) -> dict[str, list[str]]:
    """The lines that are trained on, those of the same text that aren't, and those of other text."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    cut = len(lines) * 9 // 10
    return {
        "trained": [line for i, line in enumerate(lines[:cut]) if i % 10],
        "same": lines[:cut:10],
        "other": lines[cut:],
    }


def at_most(lines: list[str], n_bytes: int) -> list[str]:
    """The text as one document, cut after so many bytes."""
    return ["".join(lines).encode()[:n_bytes].decode(errors="ignore")]


def options_of(method: str) -> dict[str, Any]:
    """What `train` takes; "scaffold 0.5" is Scaffold-BPE with scaffold_below=0.5."""
    name, _, below = method.partition(" ")
    return {"method": name, **({"scaffold_below": float(below)} if below else {})}


def measured(
    path: Path, sizes: list[int], methods: list[str], n_train: int, n_test: int
) -> Iterator[dict[str, Any]]:
    parts = parts_of(path)
    counts = {name: hs.count(lines) for name, lines in parts.items()}
    train, test = at_most(parts["trained"], n_train), at_most(parts["other"], n_test)
    for size in sizes:
        plain: dict[str, hs.Evaluation] = {}
        for method in methods:
            bpe = hs.train(counts["trained"], size, **options_of(method))
            found = {name: hs.evaluate(bpe, table) for name, table in counts.items()}
            plain = plain or found
            gains = {
                name: hs.compare_vocabularies(plain[name], found[name]).gain for name in ("trained", "other")
            }
            tokenizer = bpe.to_tokenizer()
            yield {
                "corpus": path.stem,
                "size": size,
                "method": method,
                "n_tokens": bpe.vocab_size,
                "bytes_per_token": {name: each.bytes_per_token for name, each in found.items()},
                "gain": None if method == methods[0] else gains,
                "never_used": len(found["other"].tokens_under(1)),
                "bits_per_byte": hs.ngram_bits_per_byte(tokenizer, train, test, order=ORDER).by_order,
            }


def percent(gain: float | None) -> str:
    """None: what only plain BPE has never occurs."""
    return "-" if gain is None else f"{gain:+.1%}"


def row_of(found: dict[str, Any]) -> list[str]:
    lengths, gains = found["bytes_per_token"], found["gain"]
    shown = ["", ""] if gains is None else [*map(percent, gains.values())]
    return [
        found["corpus"],
        f"{found['n_tokens']:,}",
        found["method"],
        *(f"{lengths[name]:.4f}" for name in ("trained", "same", "other")),
        *shown,
        f"{found['never_used']:,}",
        f"{found['bits_per_byte'][-1]:.4f}",
    ]


def main(
    texts: Annotated[list[Path], typer.Argument(help="Files of text.")],
    vocab_size: Annotated[list[int], typer.Option()] = [8_000, 32_000, 64_000],  # noqa: B006  # never changed
    method: Annotated[list[str], typer.Option(help="The first is what others are compared with.")] = METHODS,
    train_bytes: Annotated[int, typer.Option(help="What n-grams are estimated on.")] = 20_000_000,
    test_bytes: Annotated[int, typer.Option(help="What they are tried on.")] = 2_000_000,
    json_lines: Annotated[Path | None, typer.Option("--json", help="The figures, an object a line.")] = None,
    docs: Annotated[Path | None, typer.Option(help="A page to put the table into.")] = None,
) -> None:
    before, after = ("", "") if docs is None else surroundings(docs, "methods.py")
    warnings.filterwarnings("ignore", "the vocabulary has")
    found = []
    for path in texts:
        for each in measured(path, vocab_size, method, train_bytes, test_bytes):
            found.append(each)
            print(" | ".join(row_of(each)), flush=True)
    lines = markdown(COLUMNS, [row_of(each) for each in found])
    if json_lines is not None:
        json_lines.write_text("".join(json.dumps(each) + "\n" for each in found), encoding="utf-8")
    if docs is not None:
        docs.write_text("\n".join([before, *lines, "", after]), encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
