"""Which programs give a tokenizer's ids exactly, and how near the others come.

    python benchmarks/programs.py novels-en.txt multilingual.txt --tokenizers-1 path/to/python

For each text, tokenizers of several pre-tokenizers are trained on nine tenths of its lines, and saved. Then
every program, in a process of its own, encodes lines of both parts and decodes them. The table has the share
of pre-tokens whose ids are those of Scaffold-BPE, in the text trained on and in the rest. A program that is
to be exact and isn't ends this with 1.

Needs the environments that `make programs` makes; a program that isn't installed is left out, by name.
"""

import json
import math
import os
import random
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves it out

from harness import markdown, measure
from program_readers import BYTES, EXACT, PRESETS, PROGRAMS, REFUSED, Lists, Program, Texts, missing, version

Run = dict[str, Any]


# ---- the child's side


def read(program: str, folders: Sequence[str], texts: str) -> Run:
    """By preset, the ids and texts that a program gives, or why it refuses the tokenizer."""
    reader = PROGRAMS[program]
    if absent := [*missing(reader)]:
        return {"missing": absent}
    given = json.loads(Path(texts).read_bytes())
    return {"version": version(reader), **{Path(f).name: ids_of(reader, Path(f), given) for f in folders}}


def ids_of(reader: Program, folder: Path, texts: Texts) -> Run:
    try:
        ids, decoded = reader.read(folder, texts)
    except Exception as error:  # each has its own
        return {"refused": f"{type(error).__name__}: {error}"}
    return {"ids": ids, "texts": decoded}


def read_in_child(name: str, folders: Sequence[Path], texts: Path, tokenizers_1: str | None) -> Run:
    if PROGRAMS[name].apart and tokenizers_1 is None:
        return {"missing": ["--tokenizers-1"]}
    python = tokenizers_1 if PROGRAMS[name].apart and tokenizers_1 else sys.executable
    paths = [*map(os.fspath, folders)]
    return measure(
        __file__, {"program": name, "folders": paths, "texts": os.fspath(texts), "threads": 1}, python=python
    )


# ---- tokenizers and texts


def train(lines: Texts, preset: str, vocab_size: int, folder: Path, every_split: bool = False) -> None:
    import hf_scaffold as hs

    end = "<|endoftext|>"
    alphabet = {} if preset in BYTES else {"alphabet": "chars", "byte_fallback": True, "unk_token": "<unk>"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # candidates may run out
        tokenizer = hs.train_tokenizer(
            lines, vocab_size, pre_tokenizer=preset, eos_token=end, every_split=every_split, **alphabet
        )
    tokenizer.save_pretrained(folder)


def parts_of(path: Path, sample: int) -> tuple[Texts, Texts, Texts]:
    """Nine tenths of a text's lines to train on, and so many bytes of lines of these and of the others.

    Lines that begin with a space are left out: SentencePiece and llama.cpp put another before it, as
    docs/export.md says, and no token of such a line would stand where it does here.
    """
    texts = {*path.read_text(encoding="utf-8").splitlines()}
    lines = sorted(line for line in texts if line.strip() and not line.startswith(" "))
    random.Random(0).shuffle(lines)
    cut = len(lines) * 9 // 10
    return lines[:cut], first_bytes(lines[:cut], sample), first_bytes(lines[cut:], sample)


def first_bytes(lines: Texts, size: int) -> Texts:
    kept: Texts = []
    for line in lines:
        if size <= 0:
            break
        kept.append(line)
        size -= len(line.encode())
    return kept


# ---- agreement


class Agreement:
    """The share of pre-tokens whose ids are exact."""

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        import hf_scaffold as hs

        self.encoder = hs.Encoder.from_pretrained(folder)
        backend = Tokenizer.from_file(os.fspath(folder / "tokenizer.json"))
        alphabet = "bytes" if folder.name in BYTES else "chars"
        self.pre_tokenizer = hs.get_pre_tokenizer(backend, alphabet=alphabet)
        by_byte = alphabet == "bytes"
        self.sizes = {
            i: 1 if token.startswith("<0x") and not by_byte else len(token if by_byte else token.encode())
            for token, i in backend.get_vocab().items()
        }

    def of(self, texts: Texts, found: Lists) -> float:
        agreeing = total = 0
        for text, ids in zip(texts, found, strict=True):
            pretokens = self.pre_tokenizer.pre_tokenize(text)
            wrong = self.differing([*map(len, pretokens)], self.encoder.encode(text), ids)
            agreeing += len(pretokens) - wrong
            total += len(pretokens)
        return agreeing / total

    def differing(self, sizes: Sequence[int], exact: Sequence[int], found: Sequence[int]) -> int:
        """How many pre-tokens, of these sizes in bytes, hold a token of only one of the two."""
        import numpy as np

        apart = {*self.placed(exact)} ^ {*self.placed(found)}
        places = np.searchsorted(np.cumsum(sizes), [end for end, _ in apart])
        return len({*np.minimum(places, len(sizes) - 1).tolist()})

    def placed(self, ids: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Each token, by where it ends."""
        end = 0
        for token_id in ids:
            end += self.sizes.get(token_id, 0)
            yield end, token_id


def percent(share: float) -> str:
    """Never rounded up: 100 % are all."""
    return f"{math.floor(share * 10_000) / 100:.2f} %"


# ---- the table


def cell(found: Run, agreement: Agreement, inside: Texts, outside: Texts) -> str:
    if "ids" not in found:
        return REFUSED
    ids = found["ids"]
    texts = [*inside, *outside]
    if ids == [agreement.encoder.encode(text) for text in texts]:
        return EXACT
    shares = agreement.of(inside, ids[: len(inside)]), agreement.of(outside, ids[len(inside) :])
    return " / ".join(map(percent, shares))


def decoding(runs: Sequence[Run], texts: Texts) -> str:
    """The share of texts that ids of byte-level tokenizers give back."""
    decoded = [text for run in runs for text in run["texts"]]
    same = sum(a == b for a, b in zip(decoded, texts * len(runs), strict=True))
    return EXACT if same == len(decoded) else percent(same / len(decoded))


def row(name: str, runs: Run, cells: dict[str, str], texts: Texts) -> list[str]:
    source = PROGRAMS[name].reads
    decoded = decoding([runs[preset] for preset in BYTES if "ids" in runs[preset]], texts)
    return [name, runs["version"], source, *(cells[preset] for preset in PRESETS), decoded]


def main(
    corpora: Annotated[list[Path] | None, typer.Argument(help="Text files; each is measured alone.")] = None,
    vocab_size: int = 32_000,
    every_split: Annotated[bool, typer.Option("--every-split", help="Train with every_split=True.")] = False,
    sample: Annotated[
        int, typer.Option(help="Bytes encoded of the text trained on, and of the rest.")
    ] = 300_000,
    only: Annotated[str, typer.Option(help="Some of the programs, joined by ';'.")] = ";".join(PROGRAMS),
    tokenizers_1: Annotated[str | None, typer.Option(help="A Python that has tokenizers 1.0.")] = None,
    child: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Compare what programs make of saved tokenizers with the exact ids."""
    if child is not None:
        spec = json.loads(child)
        print("\n" + json.dumps(read(spec["program"], spec["folders"], spec["texts"])))
        return
    wrong = []
    for corpus in corpora or [demo_text()]:
        with tempfile.TemporaryDirectory() as scratch:
            wrong += compare(
                corpus, vocab_size, sample, only.split(";"), tokenizers_1, Path(scratch), every_split
            )
    if wrong:
        print("\n".join(wrong))
        raise SystemExit(1)


def demo_text() -> Path:
    import hf_scaffold

    return Path(hf_scaffold.__file__).parent / "data" / "wuthering-heights.txt"


def compare(
    corpus: Path,
    vocab_size: int,
    sample: int,
    names: Sequence[str],
    tokenizers_1: str | None,
    scratch: Path,
    every_split: bool = False,
) -> list[str]:
    """Print the table of a corpus; returns what is not as it is known to be."""
    lines, inside, outside = parts_of(corpus, sample)
    given = scratch / "texts.json"
    given.write_text(json.dumps([*inside, *outside]), encoding="utf-8")
    for preset in PRESETS:
        train(lines, preset, vocab_size, scratch / preset, every_split)
    agreements = {preset: Agreement(scratch / preset) for preset in PRESETS}
    rows, wrong = [], []
    for name in names:
        runs = read_in_child(name, [scratch / preset for preset in PRESETS], given, tokenizers_1)
        if "missing" in runs:
            print(f"{name}: left out, without {', '.join(runs['missing'])}", file=sys.stderr)
            continue
        cells = {preset: cell(runs[preset], agreements[preset], inside, outside) for preset in PRESETS}
        rows.append(row(name, runs, cells, [*inside, *outside]))
        for preset in PRESETS:
            known, found = PROGRAMS[name].sees[preset], cells[preset]
            if (known == EXACT != found) or (known == REFUSED) != (found == REFUSED):
                why = runs[preset].get("refused", "")
                wrong.append(f"{corpus.stem}, {name}, {preset}: {found} instead of {known}. {why}")
    size = f"{sum(len(line.encode()) for line in lines) / 1e6:.0f} MB"
    print(f"\n{corpus.stem}: {vocab_size:,} tokens, trained on {size}\n")
    print("\n".join(markdown(["program", "version", "reads", *PRESETS, "decodes"], rows)), flush=True)
    return wrong


if __name__ == "__main__":
    typer.run(main)
