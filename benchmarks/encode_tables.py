"""What `encode.py` shows of its runs: speed and memory, whether ids agree, and what was to be reached."""

import statistics
from collections.abc import Iterator, Sequence

from encoders import ENCODERS
from harness import Run, markdown

STOCK = "transformers"
SENTENCE = "This is one short sentence."
# What ours is to reach of a peer's speed: by task, with the first size of documents and all threads.
GOALS = [
    ("encode", "hf_scaffold, lists", STOCK, 10.0),
    ("encode", "hf_scaffold, lists", "gigatoken, lists", 0.7),
    ("encode", "hf_scaffold, arrays", "gigatoken, arrays", 0.9),
    ("sentence", "hf_scaffold, lists", STOCK, 1.0),
    ("decode", "hf_scaffold, lists", STOCK, 3.0),
    ("map", "hf_scaffold, Arrow", STOCK, 5.0),
]
TITLES = {
    "encode": "Encoding documents of {document_size:,} bytes, {threads} threads",
    "decode": "Decoding documents of {document_size:,} bytes, {threads} threads",
    "sentence": f"One short text: `tok({SENTENCE!r})`",
    "map": "`Dataset.map` to Arrow files, documents of {document_size:,} bytes, {threads} threads",
}


def speed(runs: Sequence[Run], peer: str, key: str = "warm_s") -> float:
    """Calls a second: the median over the rounds."""
    return 1 / statistics.median(statistics.median(seconds(run, key)) for run in runs if run["peer"] == peer)


def seconds(run: Run, key: str) -> list[float]:
    return run[key] if isinstance(run[key], list) else [run[key]]


def ratio(runs: Sequence[Run], peer: str, other: str, key: str = "warm_s") -> float | None:
    """The speed of a peer in speeds of the other one; None if one of them is not there."""
    if not {peer, other} <= {run["peer"] for run in runs}:
        return None
    return speed(runs, peer, key) / speed(runs, other, key)


def gigatoken_like(peer: str) -> str:
    """gigatoken's way out that gives what this one does."""
    is_array = peer.partition(", ")[2] in ("arrays", "Arrow", "files")
    return f"gigatoken, {'arrays' if is_array else 'lists'}"


def table(runs: Sequence[Run]) -> Iterator[str]:
    """The runs of one task in one setting, in Markdown."""
    first = runs[0]
    yield f"### {TITLES[first['task']].format(**first)}\n"
    is_sentence = first["task"] == "sentence"
    n_megabytes = first["n_bytes"] / 1e6

    def shown(calls_a_second: float) -> str:
        value = 1e6 / calls_a_second if is_sentence else n_megabytes * calls_a_second
        return f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"

    rows = []
    for peer in dict.fromkeys(run["peer"] for run in runs):
        own = [run for run in runs if run["peer"] == peer]
        best = 1 / min(call for run in own for call in run["warm_s"])
        speeds = speed(own, peer), best, speed(own, peer, "cold_s"), speed(own, peer, "warm_cpu_s")
        ratios = ratio(runs, peer, STOCK), ratio(runs, peer, gigatoken_like(peer))
        memory = (statistics.median(run[key] for run in own) for key in ("peak_mb", "added_mb"))
        rows.append(
            [
                peer,
                *map(shown, speeds),
                *("" if times is None else f"{times:.2f}" for times in ratios),
                f"{statistics.median(run['load_s'] for run in own):.2f}",
                *(f"{size:.0f}" for size in memory),
                str(len(own)),
            ]
        )
    units = "µs, best, cold, CPU µs" if is_sentence else "MB/s, best, cold, MB per CPU s"
    columns = f"encoder, {units}, x stock, x gigatoken, load s, peak MB, added MB, rounds"
    yield from markdown(columns.split(", "), rows)
    yield ""


def agreement(runs: Sequence[Run]) -> Iterator[tuple[bool, str]]:
    """Whether those who encoded the same text with the same tokenizer found the same ids.

    Yields:
        A verdict and a sentence. Who doesn't load merges may find other ids.
    """
    groups: dict[str, dict[tuple[int, str], list[str]]] = {}
    for run in runs:
        if "digest" in run:
            text = f"{run['n_bytes'] / 1e6:.1f} MB in documents of {run['document_size']:,} bytes"
            group = groups.setdefault(f"{ENCODERS[run['peer']].tokenizer}, {text}", {})
            peers = group.setdefault((run["n_ids"], run["digest"]), [])
            if run["peer"] not in peers:
                peers.append(run["peer"])
    for name, group in groups.items():
        (n_ids, _), same = max(
            group.items(), key=lambda item: sum(ENCODERS[peer].has_merges for peer in item[1])
        )
        yield True, f"{name}: the same {n_ids:,} ids from {'; '.join(same)}."
        for (n_ids, _), others in group.items():
            for peer in others:
                if others is not same:
                    may = not ENCODERS[peer].has_merges
                    yield may, f"{name}: OTHER ids, {n_ids:,}, from {peer}" + ", which loads no merges." * may


def restored(runs: Sequence[Run]) -> Iterator[tuple[bool, str]]:
    """Whether decoding gave the texts back: a verdict and a sentence."""
    for run in runs:
        if not run.get("is_exact", True):
            yield False, f"{run['peer']}: decoding gives OTHER texts than were encoded."


def goals(runs: Sequence[Run]) -> Iterator[str]:
    """What ours is to reach, and what it reached."""
    threads = max(run["threads"] for run in runs)
    for task, peer, other, goal in GOALS:
        own = [run for run in runs if run["task"] == task and run["threads"] == threads]
        own = [run for run in own if run["document_size"] == own[0]["document_size"]]
        reached, cpu = ratio(own, peer, other), ratio(own, peer, other, "warm_cpu_s")
        if reached is not None:
            found = f"{reached:.2f} x {other}, {cpu:.2f} x in CPU time"
            verdict = "reached" if reached >= goal else "MISSED"
            yield f"- {task}, {peer}: {found}. The goal, {goal:g} x, is {verdict}."
