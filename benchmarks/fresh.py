"""Encode text that is seen once, of a dozen kinds, with hf_scaffold and its peers.

    python benchmarks/fresh.py
    python benchmarks/fresh.py --kinds "Chinese;logs" --tokenizers-1 path/to/python --json runs.json

All load one plain BPE, trained on other text. Each measurement is a process of its own that makes one pass
over one kind of text, in documents of 4,000 bytes, 1,000 a call, and another over a copy of it. Speeds are
medians over the rounds, in which the peers take turns; those of the first call and of the second pass are
shown apart. Ids must agree; where they don't, this says so and exits with 1.

tokenizers 1.0, which can't be installed beside the release that transformers needs, is measured with the
Python of another environment: `pip install tokenizers==1.0.0rc3 numpy typer`.
"""

import hashlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves it out

from encoders import FRESH, Setting, write_tokenizers
from fresh_texts import KINDS, documents
from harness import Run, environment, fetch, installed, markdown, measure, save, take_turns

OURS = "hf_scaffold"
ON_ITS_OWN = "tokenizers 1"  # needs another environment
DOCUMENT_SIZE, BATCH_SIZE = 4000, 1000  # bytes, documents


# ---- the child's side


def encode_once(form: str, peer: str, folder: str, kind: str, threads: int) -> Run:
    """The time of each call, in two passes over the text, and a digest of the ids of the first."""
    encoder = FRESH[form][peer](Setting(Path(folder), Path(), threads))
    seconds: list[float] = []
    n_bytes: list[int] = []
    sha256 = hashlib.sha256()
    for is_first in (True, False):
        # New strings each time, as data has them: some peers keep the UTF-8 of a string in it.
        texts: list[str] = json.loads(Path(folder, "texts", kind).read_text(encoding="utf-8"))
        for at in range(0, len(texts), BATCH_SIZE):
            batch = texts[at : at + BATCH_SIZE]
            n_bytes.append(sum(len(text.encode()) for text in batch))
            start = time.perf_counter()
            encoded = encoder.encode(batch)
            seconds.append(time.perf_counter() - start)
            for rows in encoder.rows(encoded) if is_first else ():
                sha256.update(np.ascontiguousarray(rows, np.int64).tobytes())
            del encoded
    return {"seconds": seconds, "n_bytes": n_bytes, "digest": sha256.hexdigest()}


def prepare(
    text: str, folder: str, vocab_size: int, kinds: Sequence[str], limit_mb: float, cache: str, threads: int
) -> Run:
    """Train the tokenizer; write the texts."""
    write_tokenizers(Path(text), vocab_size, "gpt2", Path(folder))
    Path(folder, "texts").mkdir()
    Path(cache).mkdir(parents=True, exist_ok=True)
    for kind in kinds:
        texts = documents(KINDS[kind], DOCUMENT_SIZE, int(limit_mb * 1e6), Path(cache))
        Path(folder, "texts", kind).write_text(json.dumps(texts), encoding="utf-8")
    return {}


# ---- tables


TITLES = ("One pass", "The first call of a process", "A second pass")


def calls_of(title: str, run: Run) -> slice:
    n_calls = len(run["seconds"]) // 2  # of a pass
    return dict(zip(TITLES, (slice(n_calls), slice(1), slice(n_calls, None)), strict=True))[title]


def speeds(runs: Sequence[Run], form: str, title: str) -> dict[str, dict[str, float]]:
    """By kind and peer: MB/s in these calls, the median over the rounds."""
    found: dict[str, dict[str, list[float]]] = {}
    for run in runs:
        if run["form"] == form:
            calls = calls_of(title, run)
            speed = sum(run["n_bytes"][calls]) / 1e6 / sum(run["seconds"][calls])
            found.setdefault(run["kind"], {}).setdefault(run["peer"], []).append(speed)
    return {
        kind: {peer: statistics.median(each) for peer, each in of_kind.items()}
        for kind, of_kind in found.items()
    }


def tables(runs: Sequence[Run], form: str) -> Iterator[str]:
    """MB/s, and ours in speeds of the best peer: in a pass, its first call, and a second pass."""
    for title in TITLES:
        found = speeds(runs, form, title)
        peers = [peer for peer in FRESH[form] if any(peer in of_kind for of_kind in found.values())]
        rows, ratios = [], []
        for kind, of_kind in found.items():
            others = [speed for peer, speed in of_kind.items() if not peer.startswith(OURS)]
            ratios += [of_kind[OURS] / max(others)] if others else []
            cells = [f"{of_kind[peer]:.0f}" for peer in peers]
            rows.append([kind, *cells, f"{ratios[-1]:.2f}" if others else ""])
        yield from ["", f"### {title}, {form}, MB/s", ""]
        yield from markdown(["text", *peers, "ours to the best peer"], rows)
        if ratios:
            mean, worst = statistics.geometric_mean(ratios), min(ratios)
            yield from ["", f"Ours to the best peer: geometric mean {mean:.2f}, worst {worst:.2f}."]


def disagreements(runs: Sequence[Run]) -> Iterator[str]:
    for kind in dict.fromkeys(run["kind"] for run in runs):
        digests = {run["digest"]: run["peer"] for run in runs if run["kind"] == kind}
        if len(digests) > 1:
            yield f"{kind}: OTHER ids from one of {', '.join(digests.values())}"


# ---- the command


def main(
    text: Annotated[
        list[str] | None, typer.Argument(help="What to train on: files, or hub:dataset:config.")
    ] = None,
    kinds: Annotated[str, typer.Option(help="Some of them, joined by ';'.")] = ";".join(KINDS),
    vocab_size: int = 32_000,
    limit_mb: Annotated[float, typer.Option(help="So much of each kind, if there is.")] = 12,
    threads: int = 2,
    rounds: int = 3,
    tokenizers_1: Annotated[str | None, typer.Option(help="A Python that has tokenizers 1.0.")] = None,
    cache: Annotated[Path, typer.Option(help="Where downloads stay.")] = Path("build/fresh-texts"),
    json_file: Annotated[Path | None, typer.Option("--json", help="Every single run.")] = None,
    child: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Compare encoders on text seen once."""
    if child is not None:
        spec = json.loads(child)
        print(json.dumps(encode_once(**spec) if "peer" in spec else prepare(**spec)))
        return
    wanted = kinds.split(";")
    if unknown := {*wanted} - KINDS.keys():
        raise typer.BadParameter(
            f"no kind of text: {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}"
        )
    runs: list[Run] = []
    with tempfile.TemporaryDirectory() as folder:
        source = fetch(text or [], folder)
        spec = {"text": str(source), "folder": folder, "vocab_size": vocab_size, "threads": threads}
        measure(__file__, {**spec, "kinds": wanted, "limit_mb": limit_mb, "cache": str(cache)})
        print(f"{vocab_size:,} tokens, preset `gpt2`, {threads} threads; {environment()}", flush=True)
        for form, peers in FRESH.items():
            present = {
                peer: rounds for peer in peers if (tokenizers_1 if peer == ON_ITS_OWN else installed(peer))
            }
            for kind in wanted:
                run = partial(encode_in_child, form, kind, folder, threads, tokenizers_1)
                runs += take_turns(present, run)
                print(f"  {form}, {kind}", file=sys.stderr)
            print("\n".join(tables(runs, form)), flush=True)
    print("\nSources: " + "; ".join(f"{kind}: {KINDS[kind].source}" for kind in wanted) + ".")
    wrong = [*disagreements(runs)]
    print("\n" + ("\n".join(wrong) or "All ids agree."))
    if json_file is not None:
        save(json_file, [OURS], runs, without=["folder"])
    if wrong:
        raise SystemExit(1)


def encode_in_child(
    form: str, kind: str, folder: str, threads: int, tokenizers_1: str | None, peer: str
) -> Run:
    spec = {"form": form, "peer": peer, "folder": folder, "kind": kind, "threads": threads}
    python = tokenizers_1 if peer == ON_ITS_OWN and tokenizers_1 else sys.executable
    return measure(__file__, spec, python=python)


if __name__ == "__main__":
    typer.run(main)
