"""Count a corpus in thousands of parts, deliver them as a cluster would, and merge them.

    python benchmarks/simulate_parts.py novels.txt --parts 10000 --seed 0

Parts are counted in random order. Some come late or get lost; some are written twice, by a retry under the
same name or by speculative execution under another; some are cut off, as by a writer that was killed. Parts
of another corpus, of another pre-tokenizer and of a later version are among them.

They are merged in groups of any size, and these in groups again. What must not be merged has to be refused by
name; then it is set right. What is missing has to be named; then it is delivered. At last a process that may
open few files merges all parts at once, after others were killed in the middle of that. All of it
has to give the bytes of one run over the corpus.
"""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import pyarrow.parquet
import typer

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves it out

from harness import Run, environment, fetch, markdown, measure

import hf_scaffold as hs
from hf_scaffold.errors import ScaffoldError
from hf_scaffold.tables.files import VERSION_KEY

PRE_TOKENIZER, OTHER = "gpt2", "llama3"
FATES = ("late", "lost", "retried", "doubled", "cut off")
SHARE = 0.01  # of the parts, for each of these


class Cluster:
    """A corpus, the tables of its parts in a folder, and what is wrong there.

    Args:
        fates: What happens to parts, by number.
        wrong: Files that must not be merged, each with what is wrong and what sets it right.
        twins: Files of which one may be merged, each with the other.
        sources: What each merged table is made of.
        refused: How many were refused, by what was wrong.
    """

    def __init__(self, corpus: Path, folder: Path, n_parts: int, dice: random.Random) -> None:
        self.corpus, self.folder, self.n_parts, self.dice = corpus, folder, n_parts, dice
        self.fates: dict[int, str] = {}
        self.wrong: dict[Path, tuple[str, Callable[[], object]]] = {}
        self.twins: dict[Path, Path] = {}
        self.sources: dict[Path, list[Path]] = {}
        self.refused: Counter[str] = Counter()
        self.n_merges = 0
        numbers = dice.sample(range(n_parts), n_parts)
        for fate in FATES:
            for _ in range(max(1, round(SHARE * n_parts))):
                self.fates[numbers.pop()] = fate

    def path(self, number: int) -> Path:
        return self.folder / f"part-{number}.parquet"

    def count(self, number: int) -> Path:
        """What a worker does."""
        path = self.path(number)
        part = number, self.n_parts
        hs.count(self.corpus, pre_tokenizer=PRE_TOKENIZER, part=part, num_workers=1, output=path)
        return path

    def deliver(self, number: int) -> list[Path]:
        """The files that a part arrives as."""
        fate = self.fates.get(number)
        if fate in ("late", "lost"):
            return []
        path = self.count(number)
        if fate == "retried":
            self.count(number)
        if fate == "doubled":
            copy = path.with_suffix(".attempt-1.parquet")
            copy.write_bytes(path.read_bytes())
            self.twins |= {path: copy, copy: path}
            return [path, copy]
        if fate == "cut off":
            data = path.read_bytes()
            path.write_bytes(data[: self.dice.randrange(len(data))])
            self.wrong[path] = fate, lambda: self.count(number)
        return [path]

    def strangers(self) -> list[Path]:
        """Tables that don't belong here."""
        found = []
        corpus, first = self.folder / "other.txt", self.count(0)
        corpus.write_text("another corpus\n" * 9, encoding="utf-8")
        for name, text, pre_tokenizer in (
            ("another corpus", corpus, PRE_TOKENIZER),
            ("another pre-tokenizer", self.corpus, OTHER),
        ):
            path = self.folder / f"{name}.parquet"
            hs.count(text, pre_tokenizer=pre_tokenizer, part=(0, self.n_parts), num_workers=1, output=path)
            self.wrong[path] = name, path.unlink
            found.append(path)
        path = self.folder / "later version.parquet"
        table = pyarrow.parquet.read_table(first)
        metadata = {**table.schema.metadata, VERSION_KEY: b"2"}
        pyarrow.parquet.write_table(table.replace_schema_metadata(metadata), path)
        self.wrong[path] = "later version", path.unlink
        return [*found, path]

    def merge(self, paths: list[Path]) -> Path:
        """Merge tables; whatever is refused has to be wrong, and is set right."""
        output = self.folder / f"merged-{self.n_merges}.parquet"
        self.n_merges += 1
        while True:
            try:
                hs.merge_counts(paths, output)
            except ScaffoldError as error:
                self.set_right(str(error), [path for path in paths if str(path) in str(error)])
                paths = [path for path in paths if path.exists()]
            else:
                if merged := [path for path in paths if path in self.wrong]:
                    raise SystemExit(f"{merged[0]} was merged, which is {self.wrong[merged[0]][0]}")
                self.sources[output] = paths
                return output

    def set_right(self, message: str, named: Sequence[Path]) -> None:
        if wrong := [path for path in named if path in self.wrong]:
            what, mend = self.wrong.pop(wrong[0])
            mend()
            self.refused[what] += 1
        elif len(named) == 2 and "both count part" in message:
            self.refused["doubled"] += self.leave_out_twins(*named)
        else:
            raise SystemExit(f"a merge was refused without need: {message}")

    def leave_out_twins(self, one: Path, other: Path) -> int:
        """Remove from the second table what is also in the first; returns how many parts."""
        here = {*self.leaves(one)}
        twins = [path for path in self.leaves(other) if self.twins.get(path) in here]
        for path in twins:
            path.unlink()
        if other in self.sources:
            self.sources[other] = [path for path in self.leaves(other) if path.exists()]
            hs.merge_counts(self.sources[other], other)
        return len(twins)

    def leaves(self, path: Path) -> Iterator[Path]:
        """The files that a table was merged from in the end."""
        if path not in self.sources:
            yield path
        for source in self.sources.get(path, ()):
            yield from self.leaves(source)

    def merge_in_groups(self, paths: list[Path]) -> Path:
        """Merge in any order and grouping until one table is left."""
        while len(paths) > 1:
            size = min(len(paths), self.dice.choice((2, 3, 30, 300, 1000)))
            group = [paths.pop(self.dice.randrange(len(paths))) for _ in range(size)]
            paths.append(self.merge(group))
        return paths[0]


def merge_all(tables: str, output: str, max_memory: str, files: int) -> Run:
    """A child's side: merges all parts at once, with so many open files."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    start, cpu = time.perf_counter(), time.process_time()
    size = hs.merge_counts(tables, output, max_memory=max_memory)
    return {
        "n_distinct": size.n_distinct,
        "n_missing": sum(parts.n_missing for parts in size.parts),
        "merge_s": time.perf_counter() - start,
        "merge_cpu_s": time.process_time() - cpu,
    }


def kill_merges(tables: str, output: Path, seconds: float, n_kills: int, dice: random.Random) -> None:
    """Start the merge as a program, and kill it, again and again."""
    command = [sys.executable, "-m", "hf_scaffold", "merge-counts", tables, "-o", str(output)]
    while n_kills:
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                process.wait(dice.uniform(0, seconds))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
        n_kills -= process.returncode == -signal.SIGKILL


def main(
    text: Annotated[list[str] | None, typer.Argument(help="Files, or hub:dataset:config.")] = None,
    parts: int = 10_000,
    seed: int = 0,
    kills: Annotated[int, typer.Option(help="Of merges of all parts.")] = 10,
    files: Annotated[int, typer.Option(help="That the last merge may have open.")] = 256,
    max_memory: str = "1G",
    child: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Simulate a cluster that counts a corpus in parts."""
    if child is not None:
        print(json.dumps(merge_all(**json.loads(child)["arguments"])))
        return
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "parts")
        folder.mkdir()
        corpus = fetch(text or [], name)
        size = corpus.stat().st_size
        one_run = Path(name, "one run.parquet")
        whole = hs.count(corpus, pre_tokenizer=PRE_TOKENIZER, output=one_run)
        cluster = Cluster(corpus, folder, parts, dice)

        start = time.perf_counter()
        arrived = [path for n in dice.sample(range(parts), parts) for path in cluster.deliver(n)]
        counted_s = time.perf_counter() - start
        merged = cluster.merge_in_groups([*arrived, *cluster.strangers()])
        if cluster.wrong:  # what is doubled would show in the sum
            raise SystemExit(f"never refused: {[*cluster.wrong]}")
        missing = {number for number, fate in cluster.fates.items() if fate in ("late", "lost")}
        for found in hs.PreTokenCounts.load(merged).parts:
            if {*found.missing} != missing:
                raise SystemExit(f"{missing} are missing, not {[*found.missing]}")
        merged = cluster.merge_in_groups([merged, *map(cluster.count, sorted(missing))])
        n_merges, same = cluster.n_merges, merged.read_bytes() == one_run.read_bytes()

        tables, output = f"{folder}/part-*.parquet", Path(name, "all", "all.parquet")
        arguments = {"tables": tables, "output": str(output), "max_memory": max_memory, "files": files}
        run = measure(__file__, {"threads": 1, "arguments": arguments})
        kill_merges(tables, output, run["process_s"], kills, dice)
        if output.read_bytes() != one_run.read_bytes():
            raise SystemExit("a killed merge left another table")
        output.unlink()
        run = measure(__file__, {"threads": 1, "arguments": arguments})
        if left := {*os.listdir(output.parent)} - {output.name}:
            raise SystemExit(f"left over: {left}")
        same = same and output.read_bytes() == one_run.read_bytes()
        n_bytes = sum(path.stat().st_size for path in folder.glob("part-*.parquet"))
    if not same or run["n_distinct"] != whole.n_distinct:
        raise SystemExit("ANOTHER table than that of one run")
    print(environment(), end="\n\n")
    rows = [
        ("parts", f"{parts:,} of {size / parts / 1000:.1f} kB"),
        ("counted one after another", f"{counted_s:,.0f} s"),
        ("tables", f"{n_bytes / 1e6:,.1f} MB"),
        *((f"refused: {what}", f"{n:,}") for what, n in sorted(cluster.refused.items())),
        ("missing, and named", f"{len(missing):,}"),
        ("merges in groups", f"{n_merges:,}: the bytes of one run"),
        (f"merge of all, {files} open files", f"{run['merge_cpu_s']:.1f} CPU s, {run['merge_s']:.1f} s"),
        ("its peak of memory", f"{run['peak_mb']:,.0f} MiB of {max_memory}"),
        (f"the same after {kills} kills", "the bytes of one run, nothing left over"),
    ]
    print("\n".join(markdown(["what", f"seed {seed}"], rows)))


if __name__ == "__main__":
    typer.run(main)
