"""What terabytes of text would take: how tables grow with megabytes, speeds, and what both come to.

    python benchmarks/terabytes.py novels=novels.txt python= --json benchmarks/terabytes.json
    python benchmarks/terabytes.py --json benchmarks/terabytes.json --docs docs/scale.md

The first command measures: of growing pieces of each text, how many pre-tokens are distinct; and speeds by
the CPU second. The second puts the tables of the page together, from these measurements alone.
"""

import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves it out

import large_table
import merge_tables
from growth import DECADES, STEPS, Curve
from harness import Run, environment, fetch, markdown, measure, surroundings

import hf_scaffold as hs

BLOCK = 1 << 16  # bytes
MIN_COUNTS = (1, 2, 5, 10, 100, 200)
SHOWN = MIN_COUNTS[:-1]  # the last one is there for WEB
SIZES = {"1 TB": (10**12, 64), "15 TB": (15 * 10**12, 1024), "100 TB": (10**14, 8192)}  # and parts
READ_AT_ONCE = 170  # tables that a merge reads at "1G"
WEB = (6 * 10**12, 1)  # the size of Google's Web 1T 5-gram corpus, whose words are known
MERGED = 16  # tables, to measure it
TB, GB, GIB = 1e12, 1e9, 2**30
TRIED = [10 ** (9 + step / 20) for step in range(7 * 20 + 1)]  # bytes of text, up to 10,000 TB
UNITS = ((1e9, " billion"), (1e6, " million"))
MEMORIES = {"24 GiB": 24 * GIB, "64 GiB": 64 * GIB}
POSITIONS = 2**32 - 2  # of symbols and pre-tokens together, that training takes


# ---- measuring


def grow(texts: Mapping[str, str]) -> Run:
    """A child's side: for each text, and all together, distinct pre-tokens of growing pieces."""
    data = {name: shuffled(Path(path).read_bytes()) for name, path in texts.items()}
    found = {name: _curve([text]) for name, text in data.items()}
    return {"curves": found | ({"all of it": _curve([*data.values()])} if len(data) > 1 else {})}


def shuffled(text: bytes) -> bytes:
    """Its blocks, of whole lines, in random order, as if it were documents from everywhere."""
    ends = {text.find(b"\n", place) + 1 or len(text) for place in range(BLOCK, len(text), BLOCK)}
    blocks = [text[first:last] for first, last in pairwise(sorted({0, len(text)} | ends))]
    random.Random(0).shuffle(blocks)
    return b"".join(blocks)


def _curve(texts: Sequence[bytes]) -> Run:
    rows: Run = {"n_bytes": [], "distinct": {min_count: [] for min_count in MIN_COUNTS}}
    for step in range(STEPS * DECADES, -1, -1):
        share = 10 ** (-step / STEPS)
        pieces = [text[: round(share * len(text))].decode(errors="ignore") for text in texts]
        counts = hs.count(pieces, num_workers=1).counts
        rows["n_bytes"].append(sum(len(piece.encode()) for piece in pieces))
        for min_count in MIN_COUNTS:
            rows["distinct"][min_count].append(int((counts >= min_count).sum()))
    return rows


def count(text: str, table: str) -> Run:
    """A child's side."""
    begin = time.process_time()
    size = hs.count(Path(text), num_workers=1, output=table)
    seconds = time.process_time() - begin
    return {
        "count_bytes_a_s": size.n_bytes / seconds,
        "file_bytes_a_row": Path(table).stat().st_size / size.n_distinct,
        "pretoken_bytes_a_row": len(hs.PreTokenCounts.load(table).data) / size.n_distinct,
    }


def tokenize(text: str, table: str, vocab_size: int, folder: str) -> Run:
    """A child's side: lines are documents."""
    tokenizer = hs.train(hs.PreTokenCounts.load(table), vocab_size).to_tokenizer()
    begin = time.process_time()
    index = hs.write_shards(text, tokenizer, folder, lines=True)
    seconds, n_bytes = time.process_time() - begin, Path(text).stat().st_size
    return {"tokenize_bytes_a_s": n_bytes / seconds, "bytes_a_token": n_bytes / index.n_tokens}


STEPS_OF = {
    "grow": grow,
    "count": count,
    "tokenize": tokenize,
    "make": large_table.make_table,
    "train": large_table.load_and_train,
    "make several": merge_tables.make_tables,
    "merge": merge_tables.merge,
}


def measured(texts: Mapping[str, str], rows: int, vocab_size: int) -> Run:
    """All measurements."""

    def run(step: str, **arguments: Any) -> Run:
        return measure(__file__, {"step": step, "arguments": arguments, "threads": 1})

    with tempfile.TemporaryDirectory() as folder:
        table, large = f"{folder}/table.parquet", f"{folder}/large.parquet"
        paths = {name: str(_fetched([path] if path else [], folder, name)) for name, path in texts.items()}
        text = str(_fetched([*paths.values()], folder, "all of it"))
        grown = run("grow", texts=paths)
        counted = run("count", text=text, table=table)
        tokenized = run("tokenize", text=text, table=table, vocab_size=vocab_size, folder=f"{folder}/shards")
        run("make", text=text, rows=rows, path=large)
        trained = run("train", path=large, vocab_size=vocab_size)
        run("make several", text=text, rows=rows // MERGED, tables=MERGED, folder=folder)
        merged = run("merge", tables=f"{folder}/part-*.parquet", output=large, max_memory="1G")
    return {
        "environment": environment(),
        "vocab_size": vocab_size,
        "rows": rows,
        "curves": grown["curves"],
        **{key: counted[key] for key in ("count_bytes_a_s", "file_bytes_a_row", "pretoken_bytes_a_row")},
        **{key: tokenized[key] for key in ("tokenize_bytes_a_s", "bytes_a_token")},
        "train_s_a_row": (trained["load_s"] + trained["train_s"]) / rows,
        "train_bytes_a_row": trained["peak_mb"] * 2**20 / rows,
        "merge_rows_a_s": rows // MERGED * MERGED / merged["merge_s"],
    }


def _fetched(sources: Sequence[str], folder: str, name: str) -> Path:
    """One file, in a folder of its own."""
    place = Path(folder, name)
    place.mkdir()
    return fetch(sources, str(place))


# ---- what follows


class Outlook:
    """What a size of text takes, at least and at most.

    Args:
        found: What `measured` returns.
        n_bytes: Of text.
        n_parts: That it is counted in.
    """

    def __init__(self, found: Run, n_bytes: float, n_parts: int) -> None:
        self.found, self.n_bytes, self.n_parts = found, n_bytes, n_parts
        self.curve = curve_of(found, [*found["curves"]][-1])

    def rows(self, n_bytes: float) -> tuple[float, float]:
        return self.curve.least(n_bytes), self.curve.most(n_bytes)

    @property
    def merged_rows(self) -> tuple[float, float]:
        return self.rows(self.n_bytes)

    @property
    def part_rows(self) -> tuple[float, float]:
        return self.rows(self.n_bytes / self.n_parts)

    @property
    def all_rows(self) -> tuple[float, float]:
        """Of all parts' tables together."""
        return times(self.part_rows, self.n_parts)

    @property
    def merges(self) -> list[tuple[float, float]]:
        """Rows that are read: of the parts, of what these are merged to, and so on."""
        n_tables, found = self.n_parts, [self.all_rows]
        while n_tables > READ_AT_ONCE:
            n_tables = -(-n_tables // READ_AT_ONCE)
            found.append(times(self.rows(self.n_bytes / n_tables), n_tables))
        return found

    def core_hours(self, step: str) -> tuple[float, float]:
        found = self.found
        seconds = {
            "count": (self.n_bytes / found["count_bytes_a_s"],) * 2,
            "merge": times(added(self.merges), 1 / found["merge_rows_a_s"]),
            "last merge": times(self.merges[-1], 1 / found["merge_rows_a_s"]),
            "train": times(self.merged_rows, found["train_s_a_row"]),
            "tokenize": (self.n_bytes / found["tokenize_bytes_a_s"],) * 2,
        }
        return times(seconds[step], 1 / 3600)


def times(values: tuple[float, float], factor: float) -> tuple[float, float]:
    return values[0] * factor, values[1] * factor


def added(values: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return sum(low for low, _ in values), sum(high for _, high in values)


def curve_of(found: Run, name: str) -> Curve:
    curve = found["curves"][name]
    return Curve(curve["n_bytes"], curve["distinct"]["1"])


# ---- the page


def short(value: float) -> str:
    """Two digits, which is more than is known."""
    rounded = float(f"{value:.1e}")
    size, unit = next(((size, unit) for size, unit in UNITS if rounded >= size), (1, ""))
    rounded /= size
    return (f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:.2g}") + unit


def between(values: tuple[float, float], factor: float = 1) -> str:
    low, high = (short(value * factor) for value in values)
    shared = next((unit for _, unit in UNITS if low.endswith(unit) and high.endswith(unit)), "")
    return high if low == high else f"{low.removesuffix(shared)} to {high}"


def page(found: Run) -> Iterator[str]:
    """The lines of the tables."""
    yield f"{found['environment']}; {found['vocab_size']:,} tokens"
    yield from ("", "## Growth", "", *_growth(found))
    yield from ("", "## Outlook", "", *_outlook(found))
    yield from ("", "## Where time goes", "", *_shares(found))
    yield from ("", "## Rare pre-tokens", "", *_rare(found))
    yield from ("", "## What breaks first", "", *_limits(found))


def _growth(found: Run) -> Iterator[str]:
    columns = [
        *("text", "MB", "distinct pre-tokens"),
        *(f"exponent, {each}" for each in ("first tenfold", "second", "last")),
        *("largest miss", "whole by the tenth"),
    ]
    rows = []
    for name in found["curves"]:
        curve = curve_of(found, name)
        fits = [curve.fit(decade) for decade in reversed(range(DECADES))]
        rows.append(
            [
                *(name, f"{curve.n_bytes[-1] / 1e6:.1f}", f"{curve.distinct[-1]:,}"),
                *(f"{fit.exponent:.2f}" for fit in fits),
                *(f"{100 * max(fit.error for fit in fits):.1f} %", f"{100 * curve.foretold() - 100:+.0f} %"),
            ]
        )
    yield from markdown(columns, rows)


def _outlook(found: Run) -> Iterator[str]:
    each = [Outlook(found, *size) for size in SIZES.values()]
    per_row = found["file_bytes_a_row"] / GB
    rows = {
        "parts": [f"{one.n_parts:,}" for one in each],
        "distinct pre-tokens of a part": [between(one.part_rows) for one in each],
        "of all, merged": [between(one.merged_rows) for one in each],
        "text read, twice, TB": [short(2 * one.n_bytes / TB) for one in each],
        "tables of the parts, GB": [between(one.all_rows, per_row) for one in each],
        "merged table, GB": [between(one.merged_rows, per_row) for one in each],
        "shards, TB": [short(2 * one.n_bytes / found["bytes_a_token"] / TB) for one in each],
        "memory for training, GB": [
            between(one.merged_rows, found["train_bytes_a_row"] / GB) for one in each
        ],
        **{
            f"core hours, {step}": [between(one.core_hours(step)) for one in each]
            for step in ("count", "merge", "last merge", "train", "tokenize")
        },
    }
    yield from markdown(["what", *SIZES], [[name, *cells] for name, cells in rows.items()])
    distinct = found["curves"][[*found["curves"]][-1]]["distinct"]
    share = distinct["200"][-1] / distinct["1"][-1]
    often = between(Outlook(found, *WEB).merged_rows, share)
    yield ""
    yield f"By this outlook, {often} pre-tokens occur 200 times or more in {short(WEB[0] / TB)} TB."


def _shares(found: Run) -> Iterator[str]:
    """Of all core hours, at most."""
    steps = ("count", "merge", "train", "tokenize")
    hours = [{step: max(Outlook(found, *size).core_hours(step)) for step in steps} for size in SIZES.values()]
    rows = [[step, *(f"{100 * each[step] / sum(each.values()):.1f} %" for each in hours)] for step in steps]
    yield from markdown(["what", *SIZES], rows)


def _rare(found: Run) -> Iterator[str]:
    name = [*found["curves"]][-1]
    distinct = found["curves"][name]["distinct"]
    rows = []
    for min_count in map(str, SHOWN):
        shares = [distinct[min_count][-1 - n * STEPS] / distinct["1"][-1 - n * STEPS] for n in (2, 1, 0)]
        memories = [
            between(Outlook(found, *size).merged_rows, shares[-1] * found["train_bytes_a_row"] / GB)
            for size in SIZES.values()
        ]
        rows.append([min_count, *(f"{100 * share:.1f} %" for share in shares), *memories])
    columns = ["min_count", *(f"left of {each}" for each in ("a hundredth", "a tenth", "all of it"))]
    yield from markdown([*columns, *(f"GB to train, {size}" for size in SIZES)], rows)


def _limits(found: Run) -> Iterator[str]:
    distinct = found["curves"][[*found["curves"]][-1]]["distinct"]
    rows = []
    limits = {name: memory / found["train_bytes_a_row"] for name, memory in MEMORIES.items()}
    limits["any, by 32-bit positions"] = POSITIONS / (found["pretoken_bytes_a_row"] + 1)
    for name, n_rows in limits.items():
        cells = []
        for min_count in map(str, SHOWN):
            share = distinct[min_count][-1] / distinct["1"][-1]
            cells.append(_text_of(found, n_rows / share))
        rows.append([name, short(n_rows), *cells])
    columns = ["memory", "rows", *(f"text, min_count {min_count}" for min_count in SHOWN)]
    yield from markdown(columns, rows)


def _text_of(found: Run, n_rows: float) -> str:
    """The terabytes of text with so many distinct pre-tokens."""
    outlooks = [(size, Outlook(found, size, 1).merged_rows) for size in TRIED]
    least, most = (next((size for size, rows in outlooks if rows[which] > n_rows), None) for which in (1, 0))
    if least is None:
        return f"over {short(TRIED[-1] / TB)} TB"
    if most is None:
        return f"{short(least / TB)} TB or more"
    return f"{between((least, most), 1 / TB)} TB"


def main(
    text: Annotated[
        list[str] | None, typer.Argument(help="name=path; without a path, Python's library.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="The measurements.")] = None,
    docs: Annotated[Path | None, typer.Option(help="A page to put the tables into.")] = None,
    rows: Annotated[int, typer.Option(help="To train on, and to merge.")] = 5_000_000,
    vocab_size: int = 32_000,
    child: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Measure, or make a page of what was measured, or both."""
    if child is not None:
        spec = json.loads(child)
        print(json.dumps(STEPS_OF[spec["step"]](**spec["arguments"])))
        return
    before, after = ("", "") if docs is None else surroundings(docs, "terabytes.py")
    if text or json_file is None or not json_file.exists():
        names = {name: path for name, _, path in (each.partition("=") for each in text or ["Python="])}
        found = json.loads(json.dumps(measured(names, rows, vocab_size)))
        if json_file is not None:
            json_file.write_text(json.dumps(found, indent=1) + "\n")
    else:
        found = json.loads(json_file.read_text())
    lines = [*page(found)]
    print("\n".join(lines))
    if docs is not None:
        docs.write_text("\n".join([before, *lines, "", after]), encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
