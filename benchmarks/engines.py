"""What the engines of `hf_scaffold.scale` cost: counting and tokenizing through each, beside bare functions.

    python benchmarks/engines.py my-text.txt --tokenizer my-tokenizer

The text is written as Parquet, of documents of some size, which come in batches of 4 MB. Each engine works on
this machine, a task at a time, in turns of reading alone, of the bare functions on the same texts in the same
worker processes, and of ours; and on a quarter of the text likewise. The bare functions are `hs.count` of a
task's documents and the saving of their table, and `Encoder.encode_batch_to_arrays` of a batch's, on one
thread. Theirs and our tokenizer start without having seen any text. MB of text per second of CPU time:

    bare     the bare function alone
    worker   the Python processes that count or encode, with all that Arrow and the engine do in them;
             those of datatrove read, too
    step     all processes of the engine, the driver's too, without what reading alone takes them: what the
             whole text takes them longer than a quarter of it
    reading  all processes, where the text is read and thrown away, likewise

"fixed" is the rest of the step's CPU time, which a text of any size takes; "wall" is MB per second on the
clock, all of it; "start" is the CPU time of importing ours and loading the tokenizer, in a worker that has
imported what the engine itself needs.
"""

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves it out

from harness import fetch, markdown, measure

import hf_scaffold as hs

ENGINES = ("spark", "ray", "datatrove")
STEPS = ("read", "bare_count", "count", "bare_tokenize", "tokenize")
CORPORA = {"quarter": 4, "whole": 1}  # what part of the documents they have
BATCH = 4 << 20  # bytes of text
N_FILES = 2  # of each corpus
WARM_UPS = 4  # rounds: a JVM compiles meanwhile
VOCAB_SIZE = 32_000
ARROW_OPTIONS = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"


# ---- CPU time


def cpu_of(pid: int) -> float:
    """Seconds of a process and of its children that ended, by Linux's books."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def cpu_below(pid: int) -> dict[int, float]:
    """Seconds of a process and all its descendants, by their ids."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(path.parent.name)] = int(fields[1])
    family = {pid}
    while new := {child for child, parent in parents.items() if parent in family} - family:
        family |= new
    return {member: cpu_of(member) for member in family}


def noted(folder: str, what: str, begin: float, end: float, bare: float = 0.0) -> None:
    """Workers say what they used."""
    with open(f"{folder}/{what}-{os.getpid()}", "a") as stream:
        stream.write(json.dumps([begin, end, bare]) + "\n")


class Noted(NamedTuple):
    """What workers said.

    Args:
        between: Seconds from their first call to the end of the last.
        bare: Those of the bare functions.
        ends: What each had used at the end of its last call, by its id.
    """

    between: float
    bare: float
    ends: dict[int, float]


def of_workers(folder: str, what: str) -> Noted:
    between = bare = 0.0
    ends = {}
    for path in Path(folder).glob(f"{what}-*"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        end = max(row[1] for row in rows)
        between += end - min(row[0] for row in rows)
        bare += sum(row[2] for row in rows)
        ends[int(path.name.rpartition("-")[2])] = end
    return Noted(between, bare, ends)


def used(before: dict[int, float], after: dict[int, float], ends: dict[int, float]) -> float:
    """The seconds of all processes. Of Ray's workers that are gone, only they themselves have kept books."""
    return sum(seconds - before.get(pid, 0.0) for pid, seconds in (ends | after).items())


class Bare:
    """Calls what one calls without any engine, and notes its time.

    Args:
        what: "bare_count" or "bare_tokenize".
    """

    def __init__(self, what: str, tokenizer: str, folder: str) -> None:
        self._what, self._folder = what, folder
        self._waiting: list[str] = []
        self._encoder = hs.Encoder.from_pretrained(tokenizer)
        self._encoder.encode("the first call")

    def add(self, texts: list[str]) -> None:
        """Encode the texts of a batch, or keep them, to be counted at the end."""
        if self._what == "bare_count":
            self._waiting += texts
        else:
            self._timed(lambda: self._encoder.encode_batch_to_arrays(texts, num_threads=1))

    def end(self) -> None:
        """The task is over."""
        if self._waiting:
            path = f"{self._folder}/bare-{os.getpid()}.parquet"
            self._timed(lambda: hs.count(self._waiting, num_workers=1).save(path))
        self._waiting = []

    def _timed(self, call: Callable[[], object]) -> None:
        begin = time.process_time()
        call()
        end = time.process_time()
        noted(self._folder, self._what, begin, end, end - begin)


# ---- the engines: each gives a function that does a step


@contextmanager
def spark(tokenizer: str, folder: str, rows: int) -> Iterator[Callable[[str, str], None]]:
    from pyspark.sql import SparkSession

    from hf_scaffold.scale import spark as scale
    from hf_scaffold.scale.arrow import load

    settings = {
        "spark.driver.extraJavaOptions": ARROW_OPTIONS,
        "spark.sql.execution.arrow.maxRecordsPerBatch": rows,
        "spark.sql.shuffle.partitions": 4,
        "spark.ui.enabled": False,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
    }
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    builder = SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")

    def timed(what: str, function: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        def run(batches: Any, **options: Any) -> Iterator[Any]:
            if encoding := options.get("encoding"):
                load.cache_clear()  # else it knows the text: Spark keeps its workers
                load(encoding.tokenizer, encoding.digest)
            begin = time.process_time()
            yield from function(batches, **options)
            noted(folder, what, begin, time.process_time())

        return run

    def bare_of(what: str) -> Callable[[Any], Iterator[Any]]:
        def run(batches: Any) -> Iterator[Any]:
            bare = Bare(what, tokenizer, folder)
            for batch in batches:
                bare.add(batch.column("text").to_pylist())
                yield batch.slice(0, 0)
            bare.end()

        return run

    scale._count, scale._encode = timed("count", scale._count), timed("tokenize", scale._encode)

    def step(what: str, corpus: str) -> None:
        df = session.read.parquet(corpus)
        if what == "count":
            scale.count(df, f"{folder}/counts.parquet")
            return
        if what == "tokenize":
            made = scale.tokenize(df, tokenizer, remove_columns=["text"])
        else:
            made = df if what == "read" else df.mapInArrow(bare_of(what), df.schema)
        made.write.format("noop").mode("overwrite").save()

    yield step
    session.stop()


@contextmanager
def ray(tokenizer: str, folder: str, rows: int) -> Iterator[Callable[[str, str], None]]:
    import ray

    from hf_scaffold.scale import ray as scale

    # Otherwise workers give way to all else on the machine; and end after a second without work, when nobody
    # keeps their books.
    os.environ |= {"RAY_worker_niceness": "0", "RAY_idle_worker_killing_time_threshold_ms": "600000"}
    ray.init(num_cpus=2, object_store_memory=1 << 30, include_dashboard=False, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False

    count, encode = scale._count, scale.Tokenize.__call__

    def timed_count(*arguments: Any) -> Any:
        begin = time.process_time()
        result = count(*arguments)
        noted(folder, "count", begin, time.process_time())
        return result

    class Timed(scale.Tokenize):
        def __call__(self, batch: Any) -> Any:
            begin = time.process_time()
            result = encode(self, batch)
            noted(folder, "tokenize", begin, time.process_time())
            return result

    class BareActor:
        def __init__(self, what: str) -> None:
            self.bare = Bare(what, tokenizer, folder)

        def __call__(self, batch: Any) -> Any:
            self.bare.add(batch["text"].to_pylist())
            self.bare.end()  # a block is a task's
            return batch.slice(0, 0)

    scale._count, scale.Tokenize = timed_count, Timed
    options = {"batch_size": rows, "batch_format": "pyarrow"}

    def step(what: str, corpus: str) -> None:
        dataset = ray.data.read_parquet(corpus)
        if what == "count":
            scale.count(dataset, f"{folder}/counts.parquet", batch_size=rows)
        elif what == "tokenize":
            made = scale.tokenize(dataset, tokenizer, remove_columns=["text"], batch_size=rows, concurrency=1)
            made.materialize()
        elif what == "read":
            # Texts are not kept, as where they become counts or ids.
            dataset.map_batches(lambda batch: batch.slice(0, 0), **options).materialize()
        else:
            dataset.map_batches(
                BareActor, fn_constructor_args=(what,), concurrency=1, **options
            ).materialize()

    yield step
    ray.shutdown()


@contextmanager
def datatrove(tokenizer: str, folder: str, rows: int) -> Iterator[Callable[[str, str], None]]:
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.readers import ParquetReader

    from hf_scaffold.scale.datatrove import CountPretokens, MergeCounts, ScaffoldTokenizer

    def timed(what: str) -> Callable[..., Iterator[Any]]:
        def run(data: Any, rank: int, world_size: int) -> Iterator[Any]:
            bare, texts = Bare(what, tokenizer, folder), []
            for document in data:
                texts.append(document.text)
                if len(texts) == rows:
                    bare.add(texts)
                    texts = []
            bare.add(texts)
            bare.end()
            yield from ()

        return run

    n_runs = 0

    def step(what: str, corpus: str) -> None:
        nonlocal n_runs
        n_runs += 1
        ranks, logs = f"{folder}/ranks-{n_runs}", f"{folder}/logs-{n_runs}"
        steps = {
            "read": [],
            "count": [CountPretokens(ranks)],
            "tokenize": [
                ScaffoldTokenizer(f"{folder}/ids", tokenizer, batch_size=rows, shuffle_documents=False)
            ],
        }
        pipeline = [ParquetReader(corpus), *steps.get(what, [timed(what)])]
        begin = time.process_time()
        n_tasks = len(os.listdir(corpus))
        LocalPipelineExecutor(pipeline, tasks=n_tasks, workers=1, logging_dir=logs).run()
        if not what.startswith("bare"):
            noted(folder, what, begin, time.process_time())
        if what == "count":
            merging = [MergeCounts(ranks, folder)]
            LocalPipelineExecutor(merging, tasks=1, workers=1, logging_dir=f"{logs}-merge").run()

    yield step


# ---- measuring


def child(spec: dict[str, Any]) -> None:
    """One engine: prints the seconds of each step on each corpus, the median of all rounds."""
    engine = {"spark": spark, "ray": ray, "datatrove": datatrove}[spec["engine"]]
    seconds: dict[str, list[Any]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # workers import from here, too, and the sources are not compiled
        with engine(spec["tokenizer"], folder, spec["rows"]) as step:
            for number in range(WARM_UPS + spec["rounds"]):
                for what, name in product(STEPS, CORPORA):
                    for path in Path(folder).glob(f"{what}-*"):
                        path.unlink()
                    begin, before = time.perf_counter(), cpu_below(os.getpid())
                    step(what, f"{spec['corpora']}/{name}")
                    wall, after = time.perf_counter() - begin, cpu_below(os.getpid())
                    worker, bare, ends = of_workers(folder, what)
                    if number >= WARM_UPS:
                        row = [wall, used(before, after, ends), worker, bare]
                        seconds[f"{name} {what}"].append(row)
    medians = {
        what: [sorted(column)[len(column) // 2] for column in zip(*rows, strict=True)]
        for what, rows in seconds.items()
    }
    print(json.dumps(medians))


def written(text: str, size: int, folder: Path) -> int:
    """Write the corpora as Parquet; returns the rows of a batch."""
    import pyarrow
    import pyarrow.parquet

    documents = [text[start : start + size] for start in range(0, len(text), size)]
    rows = max(BATCH * len(documents) // len(text.encode()), 1)
    for name, part in CORPORA.items():
        (folder / name).mkdir()
        for i in range(N_FILES):
            table = pyarrow.table({"text": documents[i * part :: N_FILES * part]})
            pyarrow.parquet.write_table(table, folder / name / f"{i}.parquet", row_group_size=rows)
    return rows


START = """
import sys, time
import {engine}
begin = time.process_time()
{ours}
print(1000 * (time.process_time() - begin))
"""
LOADS = "from hf_scaffold.scale import arrow; arrow.read_encoder(sys.argv[1])"
OURS = {
    "spark": ("pyspark.worker, pandas, pyarrow", f"import hf_scaffold.scale.spark; {LOADS}"),
    "ray": ("ray.data, pandas, pyarrow", f"import hf_scaffold.scale.ray; {LOADS}"),
    "datatrove": (
        "datatrove.executor, datatrove.pipeline.tokens, pyarrow",
        f"import hf_scaffold.scale.datatrove; {LOADS}",
    ),
}


def start_of(engine: str, tokenizer: str, rounds: int) -> float:
    """The ms of a worker's import and load, at best."""
    imports, ours = OURS[engine]
    command = [sys.executable, "-c", START.format(engine=imports, ours=ours), os.path.abspath(tokenizer)]
    elsewhere = os.path.dirname(sys.executable)  # where no sources are imported
    runs = [subprocess.run(command, cwd=elsewhere, capture_output=True, check=True) for _ in range(rounds)]
    return min(float(run.stdout) for run in runs)


COLUMNS = [
    "engine",
    "work",
    "bare",
    "worker",
    "to bare",
    "step",
    "to bare",
    "fixed, s",
    "reading",
    "wall",
    "start, ms",
]


def lines_of(engine: str, found: dict[str, Any], megabytes: float) -> Iterator[list[str]]:
    """The table's lines of an engine."""
    start = start_of(engine, found["tokenizer"], 5)
    more = megabytes * (1 - 1 / CORPORA["quarter"])  # in the whole than in a quarter
    cpu = [{what: found[f"{name} {what}"][1] for what in STEPS} for name in CORPORA]
    reading = rate(more, cpu[1]["read"] - cpu[0]["read"])
    for what in ("count", "tokenize"):
        wall, _, worker, _ = found[f"whole {what}"]
        bare, worker = rate(megabytes, found[f"whole bare_{what}"][3]), rate(megabytes, worker)
        quarter, whole = (seconds[what] - seconds["read"] for seconds in cpu)
        step, fixed = rate(more, whole - quarter), quarter - (whole - quarter) / (CORPORA["quarter"] - 1)
        rates = [f"{bare:.0f}", f"{worker:.0f}", f"{worker / bare:.2f}", f"{step:.0f}", f"{step / bare:.2f}"]
        yield [
            engine,
            what,
            *rates,
            f"{fixed:.1f}",
            f"{reading:.0f}",
            f"{megabytes / wall:.0f}",
            f"{start:.0f}",
        ]


def rate(megabytes: float, seconds: float) -> float:
    """MB/s; nan where less time went by than can be measured."""
    return megabytes / seconds if seconds > 0 else math.nan


def main(
    sources: Annotated[list[str] | None, typer.Argument(help="Files; by default Python's own.")] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="A saved tokenizer; by default one is trained.")
    ] = None,
    engine: Annotated[list[str] | None, typer.Option(help="Only these.")] = None,
    size: Annotated[int, typer.Option(help="Characters of a document.")] = 4000,
    rounds: Annotated[int, typer.Option(min=1)] = 3,
    spec: Annotated[str | None, typer.Option("--child", hidden=True)] = None,
) -> None:
    """Print a table of MB/s."""
    if spec:
        child(json.loads(spec))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        text = fetch(sources or [], temporary).read_text(encoding="utf-8", errors="ignore")
        if tokenizer is None:
            tokenizer = f"{temporary}/tokenizer"
            hs.train_tokenizer([text], VOCAB_SIZE).save_pretrained(tokenizer)
        rows = written(text, size, folder)
        megabytes = len(text.encode()) / 1e6
        tokenizer = os.path.abspath(tokenizer)
        given = {"corpora": str(folder), "tokenizer": tokenizer, "rows": rows, "rounds": rounds}
        print(
            f"{megabytes:.0f} MB, {len(text) // size + 1:,} documents, batches of {rows} rows\n", flush=True
        )
        lines = [
            line
            for name in engine or ENGINES
            for line in lines_of(name, measure(__file__, {"engine": name, "threads": 1, **given}), megabytes)
        ]
        print("\n".join(markdown(COLUMNS, lines)))


if __name__ == "__main__":
    typer.run(main)
