"""Workers without an engine, killed at random moments: in the end, what one run makes.

Each round divides a corpus into parts. Two workers at a time count and tokenize them by the command line;
then others merge the tables and join the shards. Sometimes two do the same, as with speculative execution.
Each is killed sooner or later; who was is run again. In the end the table and the ids have to be those of one
run that nobody killed, and nothing else may be there.
"""

import argparse
import gzip
import importlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import toys

import hf_scaffold as hs
from attack.kills import child_that, end_of
from hf_scaffold.cli.commands import main as hf_scaffold
from hf_scaffold.shards.index import INDEX_FILE, ShardIndex
from hf_scaffold.tables import merging

Job = list[str]  # arguments of hf-scaffold
DIVISIONS = (2, 7, 13)
MOST_FILES = 3  # that a merge reads at a time
FORMS = (".txt", ".jsonl", ".txt.gz", ".parquet")
AT_ONCE = ("count", "merge-counts")  # two may do the same; of shards, the second is refused


def write_corpus(folder: Path, form: str, dice: random.Random) -> None:
    import pyarrow
    import pyarrow.parquet

    folder.mkdir()
    for number in range(3):
        lines = [" ".join(dice.choices([*toys.WORDS], k=dice.randrange(2, 30))) for _ in range(400)]
        path, text = folder / f"{number}{form}", "\n".join(lines)
        if form == ".parquet":
            pyarrow.parquet.write_table(pyarrow.table({"text": lines}), path, row_group_size=90)
        elif form == ".jsonl":
            path.write_text("".join(json.dumps({"text": line}) + "\n" for line in lines), encoding="utf-8")
        elif form == ".txt.gz":
            path.write_bytes(gzip.compress(text.encode()))
        else:
            path.write_text(text, encoding="utf-8")


def ids_of(folder: Path) -> bytes:
    index = ShardIndex.load(folder)
    names = [shard.name for shard in index.shards]
    assert index.complete, "the index says that shards are missing"
    wanted = {INDEX_FILE, *names, *(name.replace(".bin", ".idx") for name in names)}
    assert {path.name for path in folder.iterdir()} == wanted, "other files are there"
    return b"".join((folder / name).read_bytes() for name in names)


class Campaign:
    """Rounds in a folder."""

    def __init__(self, folder: Path, dice: random.Random) -> None:
        self.folder, self.dice = folder, dice
        self.seconds: dict[str, float] = {}  # that a command takes, about
        self.kills: Counter[str] = Counter()
        self.findings: list[str] = []
        self.n_rounds = 0
        for module in ("pyarrow.parquet", "pyarrow.compute", "hf_scaffold.cli.workflow"):
            importlib.import_module(module)  # else each child would
        merging._MOST_FILES = MOST_FILES
        self.tokenizer = folder / "tokenizer"
        words = [" ".join(toys.WORDS) * 3]
        tokenizer = hs.train_tokenizer(words, 290, special_tokens=["</s>"], eos_token="</s>")
        tokenizer.save_pretrained(self.tokenizer)
        self.expected = {form: self.one_run(form) for form in FORMS}

    def one_run(self, form: str) -> tuple[bytes, bytes]:
        """The table and the ids of a corpus that nobody divides."""
        place = self.folder / f"one{form}"
        write_corpus(place, form, self.dice)
        for job in (
            ["count", f"{place}/*", "-o", f"{place}.table/all.parquet"],
            self.tokenize(form, f"{place}.shards"),
        ):
            start = time.perf_counter()
            child = self.start(job)
            if end_of(child):
                raise RuntimeError(f"{job} failed: {self.said_by(child)}")
            self.seconds[job[0]] = time.perf_counter() - start
        return Path(f"{place}.table", "all.parquet").read_bytes(), ids_of(Path(f"{place}.shards"))

    def tokenize(self, form: str, output: str) -> Job:
        corpus = f"{self.folder}/one{form}/*"
        shards = ["--to", "bin", "--shard-size", "5000", "--output-dir", output]
        lines = ["--lines"] if ".txt" in form else []
        return ["tokenize", corpus, "--tokenizer", str(self.tokenizer), *shards, *lines]

    def start(self, job: Job) -> int:
        def work() -> None:
            sys.stdout = sys.stderr = self.log_of(os.getpid()).open("w", encoding="utf-8")
            code = hf_scaffold(job)
            sys.stderr.flush()
            assert code == 0, job

        return child_that(work)

    def log_of(self, child: int) -> Path:
        return self.folder / f"{child}.log"

    def said_by(self, child: int) -> str:
        return self.log_of(child).read_text(encoding="utf-8")

    def run(self) -> None:
        """One round."""
        self.n_rounds += 1
        form, n_parts = self.dice.choice(FORMS), self.dice.choice(DIVISIONS)
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            place, corpus = Path(name), f"{self.folder}/one{form}/*"
            numbers = [*range(n_parts)]
            parts = [["--part", f"{number}/{n_parts}"] for number in numbers]
            self.finish(
                [["count", corpus, *part, "-o", f"{place}/parts/{i}.parquet"] for i, part in enumerate(parts)]
                + [self.tokenize(form, f"{place}/shards/{i:02}") + part for i, part in enumerate(parts)]
            )
            table = place / "table" / "all.parquet"
            self.finish(
                [
                    ["merge-counts", f"{place}/parts/*.parquet", "-o", str(table)],
                    ["join-shards", f"{place}/shards/*", "-o", f"{place}/joined"],
                ]
            )
            what = f"round {self.n_rounds}: {n_parts} parts of {form}"
            expected_table, expected_ids = self.expected[form]
            try:
                assert table.read_bytes() == expected_table, "another table"
                assert ids_of(place / "joined") == expected_ids, "other ids"
                assert {path.name for path in table.parent.iterdir()} == {table.name}, "files left over"
                left = {path.name for path in (place / "parts").iterdir()}
                assert left == {f"{number}.parquet" for number in numbers}, f"files left over: {left}"
            except (AssertionError, OSError, ValueError) as error:
                self.found(f"{what}: {error}")

    def found(self, finding: str) -> None:
        self.findings.append(finding)
        print(f"FINDING {finding}", flush=True)

    def finish(self, jobs: list[Job]) -> None:
        """Run jobs in any order, two at a time, and again if they were killed."""
        self.dice.shuffle(jobs)
        while jobs:
            some, jobs = jobs[:2], jobs[2:]
            if some[0][0] in AT_ONCE and self.dice.random() < 0.2:
                some.append(some[0])
            jobs += self.killed_of(some)

    def killed_of(self, jobs: list[Job]) -> list[Job]:
        """Run jobs at one time; returns those that were killed before they ended."""
        start = time.monotonic()
        for job in jobs:
            self.seconds.setdefault(job[0], max(self.seconds.values()))
        waits = [self.seconds[job[0]] * self.dice.uniform(0, 2) for job in jobs]
        children = [self.start(job) for job in jobs]
        killed = []
        for wait, job, child in sorted(zip(waits, jobs, children, strict=True)):
            while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < start + wait:
                time.sleep(0.0005)
            if ended[0] == 0:
                os.kill(child, signal.SIGKILL)
                ended = os.waitpid(child, 0)
            code = os.waitstatus_to_exitcode(ended[1])
            # The machine may be busy now and then: keep to the time that jobs take of late.
            self.seconds[job[0]] *= 0.9 if code == 0 else 1.1
            if code == -signal.SIGKILL:
                self.kills[job[0]] += 1
                killed.append(job)
            elif code:
                self.found(f"{' '.join(job)}: exit code {code}: {self.said_by(child)}")
        return killed


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, help="whole rounds until so many have been killed")
    parser.add_argument("--seconds", type=float, help="or until then")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    kills = options.kills if options.kills is not None else (sys.maxsize if options.seconds else 200)
    end = time.monotonic() + (options.seconds or sys.maxsize)
    with tempfile.TemporaryDirectory() as folder:
        campaign = Campaign(Path(folder), random.Random(options.seed))
        while time.monotonic() < end and campaign.kills.total() < kills:
            campaign.run()
    shown = ", ".join(f"{command} {n:,}" for command, n in sorted(campaign.kills.items()))
    print(f"{campaign.kills.total():,} kills ({shown}), {campaign.n_rounds:,} rounds: ", end="")
    print(f"{len(campaign.findings)} findings, seed {options.seed}")
    return bool(campaign.findings)


if __name__ == "__main__":
    sys.exit(main())
