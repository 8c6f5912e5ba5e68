"""Train with hf_scaffold and its peers on the same text, in turn, and print a table of times and memory.

    python benchmarks/train.py my-text.txt --vocab-size 32000
    python benchmarks/train.py hub:wikitext:wikitext-103-raw-v1
    python benchmarks/train.py en.txt de.txt --scaling plot.png

Every training runs in a process of its own. The peers take turns, so that a slow minute of the machine hits
all alike. "train" is the training call, from file to merges; "process" the whole process with its imports;
memory is the peak of the process.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves it out

from harness import Run, environment, fetch, installed, markdown, measure, save, take_turns
from trainers import TRAINERS

OURS = next(iter(TRAINERS))
PLAIN = "hf_scaffold, scaffold=False"
SLOW = {"tokenizers", "sentencepiece"}  # these get --slow-rounds
SIZES_MB = (60, 125, 250, 500)
VOCAB_SIZES = (8_000, 32_000, 64_000, 128_000)


# ---- one training, in its own process


def train_once(peer: str, path: str, vocab_size: int, threads: int) -> Run:
    """The child's side: the seconds, and the merged tokens."""
    seconds, learned = TRAINERS[peer][0](Path(path), vocab_size, threads)
    return {"train_s": seconds, "learned": [token.hex() for token in learned]}


def measure_training(peer: str, path: Path, vocab_size: int, threads: int) -> Run:
    spec = {"peer": peer, "path": str(path), "vocab_size": vocab_size, "threads": threads}
    run = measure(__file__, spec)
    print(f"  {peer}: {run['train_s']:.2f} s", file=sys.stderr)
    return run


# ---- comparing


def agreement(runs: Sequence[Run]) -> Iterator[str]:
    """Whether the peers that promise our plain BPE's merges have learned them, rank by rank."""
    learned = {run["peer"]: run["learned"] for run in runs}
    if PLAIN not in learned:
        return
    ours = learned[PLAIN]
    for name, theirs in learned.items():
        if name == PLAIN or not TRAINERS[name][1]:
            continue
        equal = sum(a == b for a, b in zip(ours, theirs, strict=False))
        line = f"{name}: {equal:,} of {len(ours):,} merges equal ours at scaffold=False, rank by rank"
        if theirs != ours:
            rank = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), equal)
            line += f"; the first other one has rank {rank:,}"
        yield line


def table(runs: Sequence[Run]) -> Iterator[str]:
    """A Markdown table: medians, with the range of the training call and the ratios to ours."""
    peers = list(dict.fromkeys(run["peer"] for run in runs))
    median = {
        name: {
            key: statistics.median(run[key] for run in runs if run["peer"] == name)
            for key in ("train_s", "process_s", "cpu_s", "peak_mb")
        }
        for name in peers
    }
    base = median[OURS if OURS in median else peers[0]]
    rows = []
    for name in peers:
        own = [run["train_s"] for run in runs if run["peer"] == name]
        row = median[name]
        rows.append(
            (
                name,
                f"{row['train_s']:.2f} ({min(own):.2f} to {max(own):.2f})",
                f"{row['train_s'] / base['train_s']:.2f}",
                f"{row['process_s']:.2f}",
                f"{row['cpu_s']:.2f}",
                f"{row['peak_mb']:.0f}",
                f"{row['peak_mb'] / base['peak_mb']:.2f}",
                str(len(own)),
            )
        )
    columns = "trainer, train s (min to max), ratio, process s, CPU s, peak MB, ratio, rounds"
    yield from markdown(columns.split(", "), rows)


# ---- scaling


def first_mb(path: Path, size_mb: int, folder: str) -> Path | None:
    """The first size_mb MB of a file and the rest of the line; None if it is shorter."""
    if path.stat().st_size < size_mb * 10**6:
        return None
    part = Path(folder, f"{size_mb}.txt")
    with path.open("rb") as source, part.open("wb") as target:
        while source.tell() < size_mb * 10**6:
            target.write(source.readline())
    return part


def scaling(path: Path, threads: int, plot: Path, folder: str) -> Iterator[str]:
    """Our time and memory against corpus size at 32,000 tokens, and against vocab_size on the whole file."""
    whole_mb = path.stat().st_size / 10**6
    points: dict[str, list[tuple[float, float]]] = {"corpus MB": [], "vocab_size": []}
    yield "| corpus MB | vocab_size | distinct pre-tokens | train s | peak MB |"
    yield "|---|---|---|---|---|"
    for size_mb in SIZES_MB:
        part = first_mb(path, size_mb, folder)
        if part is None:
            yield f"| {size_mb} | 32000 | the text given has only {whole_mb:.0f} MB | | |"
            continue
        run = measure_training(OURS, part, 32_000, threads)
        points["corpus MB"].append((size_mb, run["train_s"]))
        yield scaling_row(part, size_mb, 32_000, run)
    for vocab_size in VOCAB_SIZES:
        run = measure_training(OURS, path, vocab_size, threads)
        points["vocab_size"].append((vocab_size, run["train_s"]))
        yield scaling_row(path, whole_mb, vocab_size, run)
    draw(points, plot)


def scaling_row(path: Path, size_mb: float, vocab_size: int, run: Run) -> str:
    script = "import sys, hf_scaffold as hs; print(len(hs.count(sys.argv[1], pre_tokenizer='gpt2')))"
    distinct = int(subprocess.check_output([sys.executable, "-I", "-c", script, path]))
    return f"| {size_mb:.0f} | {vocab_size} | {distinct:,} | {run['train_s']:.2f} | {run['peak_mb']:.0f} |"


def draw(points: dict[str, list[tuple[float, float]]], plot: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.5), layout="constrained")
    for axes, (label, values) in zip(figure.subplots(1, 2), points.items(), strict=True):
        axes.plot(*zip(*values, strict=True), marker="o")
        axes.set(xlabel=label, ylabel="seconds from file to merges", ylim=(0, None))
    figure.savefig(plot)


# ---- the command


def main(
    text: Annotated[list[str] | None, typer.Argument(help="Files, or hub:dataset:config.")] = None,
    vocab_size: int = 32_000,
    rounds: int = 5,
    slow_rounds: Annotated[int, typer.Option(help=f"Rounds of {', '.join(sorted(SLOW))}.")] = 2,
    threads: int = 2,
    peers: Annotated[str, typer.Option(help="Some of them, joined by ';'.")] = ";".join(TRAINERS),
    json_file: Annotated[Path | None, typer.Option("--json", help="Every single run.")] = None,
    scaling_plot: Annotated[
        Path | None, typer.Option("--scaling", help="Measure ours by size; a picture.")
    ] = None,
    child: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Compare trainers on a text."""
    if child is not None:
        print(json.dumps(train_once(**json.loads(child))))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = fetch(text or [], folder)
        print(f"{path.stat().st_size / 1e6:.1f} MB of text, {threads} threads, {environment()}\n")
        if scaling_plot is not None:
            for line in scaling(path, threads, scaling_plot, folder):
                print(line, flush=True)
            return
        wanted = peers.split(";")
        for name in wanted:
            if not installed(name):
                print(f"{name} is not installed and left out")
        present = [name for name in wanted if installed(name)]
        turns = {name: slow_rounds if name in SLOW else rounds for name in present}
        runs = list(take_turns(turns, lambda name: measure_training(name, path, vocab_size, threads)))
        print("\n".join(table(runs)), end="\n\n")
        print("\n".join(agreement(runs)))
        if json_file is not None:
            save(json_file, present, runs, without=["learned"])


if __name__ == "__main__":
    typer.run(main)
