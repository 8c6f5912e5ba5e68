"""Spark on a standalone master with two workers, each a process: the same table and ids, whatever happens."""

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import NamedTuple

import corpora
import fsspec
import processes
import pyarrow.parquet
import pyspark
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from tokenizers.normalizers import NFKD
from tokenizers.pre_tokenizers import BertPreTokenizer
from transformers import AutoTokenizer

import hf_scaffold as hs
from hf_scaffold.scale import spark as scale
from hf_scaffold.scale.arrow import Encoding
from hf_scaffold.scale.tallies import packed_by_bucket
from hf_scaffold.tables.files import arrow_table
from hf_scaffold.tables.rows import rows_of

SPARK = Path(pyspark.__file__).parent
PYTHONS = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}


@contextlib.contextmanager
def started(log, *arguments):
    """A process of the cluster."""
    environment = {**os.environ, **PYTHONS, "SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": "127.0.0.1"}
    environment["SPARK_MASTER_OPTS"] = "-Dspark.deploy.maxExecutorRetries=-1"
    command = [SPARK / "bin" / "spark-class", *map(str, arguments)]
    with open(log, "wb") as stream:
        process = subprocess.Popen(
            command, stdout=stream, stderr=stream, env=environment, start_new_session=True
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def found_in(log, pattern, times=1):
    """What a pattern finds in a log, once it is there so many times."""
    for _ in range(600):
        found = re.findall(pattern, Path(log).read_text(errors="replace"))
        if len(found) >= times:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{pattern} is not in {Path(log).read_text()[-3000:]}")


class Cluster(NamedTuple):
    address: str
    workers: list[int]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The address of a master that has two workers."""
    folder = tmp_path_factory.mktemp("spark")
    log = folder / "master.log"
    master = ("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", 0, "--webui-port", 0)
    with contextlib.ExitStack() as stack:
        stack.enter_context(started(log, *master))
        [address] = set(found_in(log, r"Starting Spark master at (spark://\S+)"))
        workers = []
        for i in range(2):
            worker = (
                "org.apache.spark.deploy.worker.Worker",
                "--cores",
                1,
                "--memory",
                "1g",
                "--webui-port",
                0,
            )
            where = ("--host", f"127.0.0.{i + 1}", "--work-dir", folder / f"work-{i}", address)
            workers.append(stack.enter_context(started(folder / f"worker-{i}.log", *worker, *where)))
        found_in(log, r"Registering worker", 2)
        yield Cluster(address, [worker.pid for worker in workers])


@pytest.fixture(scope="module")
def spark(cluster):
    os.environ.update(PYTHONS)
    settings = {
        "spark.executor.memory": "700m",
        "spark.executor.cores": 1,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": 5,
        "spark.task.maxFailures": 8,
        "spark.stage.maxConsecutiveAttempts": 100,
        "spark.excludeOnFailure.enabled": False,
        "spark.speculation": True,
        "spark.speculation.quantile": 0.5,
        "spark.speculation.minTaskRuntime": "3s",
        "spark.ui.enabled": False,
        "spark.sql.files.maxPartitionBytes": "256k",  # several partitions of so little text
        "spark.sql.files.openCostInBytes": 0,
        "spark.sql.execution.arrow.maxRecordsPerBatch": 30,
    }
    builder = SparkSession.builder.master(cluster.address).appName("hf_scaffold")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def read(spark, corpus, form):
    """A row a document, with the text as `text`."""
    if form == "plain":
        return spark.read.text(str(corpus["plain"]), wholetext=True).withColumnRenamed("value", "text")
    return spark.read.format({"jsonl": "json"}.get(form, form)).load(str(corpus[form]))


@pytest.mark.parametrize(("form", "n_partitions"), corpora.DIVIDED)
def test_counts_are_those_of_one_machine(spark, corpus, form, n_partitions, same, tmp_path):
    df = read(spark, corpus, form).repartition(n_partitions)
    size = scale.count(df, tmp_path / "counts.parquet")
    same(tmp_path / "counts.parquet")
    counts = hs.PreTokenCounts.load(tmp_path / "counts.parquet")
    assert size[:3] == (len(counts), counts.total, counts.n_bytes)


@pytest.mark.parametrize(("form", "n_partitions"), corpora.DIVIDED)
def test_ids_are_those_of_the_tokenizer(spark, corpus, form, n_partitions, saved, ids, tmp_path):
    df = scale.tokenize(read(spark, corpus, form).repartition(n_partitions), saved)
    assert df.rdd.getNumPartitions() == n_partitions
    assert dict(df.dtypes)["input_ids"] == "array<int>"
    df.select("text", "input_ids").write.parquet(str(tmp_path / "ids"))  # a small JVM can't collect a corpus
    rows = pyarrow.parquet.read_table(tmp_path / "ids").to_pylist()
    expected = {text: row for text, row in ids.items() if text or form != "plain"}  # Spark skips empty files
    assert len(rows) == len(expected)
    assert {row["text"]: row["input_ids"] for row in rows} == expected


def test_settings_of_both_are_those_of_one_machine(spark, texts, saved, tmp_path):
    df = spark.createDataFrame(
        [(i, text.encode()) for i, text in enumerate(texts)], "n int, `of text` binary"
    )
    options = {"pre_tokenizer": BertPreTokenizer(), "normalizer": NFKD(), "alphabet": "chars"}
    with pytest.warns(UserWarning, match="left out .* pre-tokens of more than 3 bytes"):
        scale.count(df, tmp_path / "a.parquet", column="of text", max_pretoken_length=3, **options)
    with pytest.warns(UserWarning, match="left out"):
        expected = corpora.counts_of(texts, tmp_path / "b.parquet", max_pretoken_length=3, **options)
    assert (tmp_path / "a.parquet").read_bytes() == expected
    special = {"add_special_tokens": False, "split_special_tokens": True}
    names = {"column": "of text", "output_column": "ids", "remove_columns": ["of text"]}
    rows = scale.tokenize(df, str(saved), **names, **special).collect()
    assert rows[0].asDict().keys() == {"n", "ids"}
    tokenizer = AutoTokenizer.from_pretrained(saved)
    assert {row["n"]: row["ids"] for row in rows} == dict(enumerate(tokenizer(texts, **special)["input_ids"]))


def test_the_table_may_go_to_a_store(spark, corpus, counted):
    url = f"memory://{uuid.uuid4()}/counts.parquet"
    scale.count(read(spark, corpus, "parquet"), url)
    assert fsspec.filesystem("memory").cat_file(url) == counted


# ---- what goes wrong


def test_columns_that_hold_no_text_are_named(spark, saved, tmp_path):
    df = spark.createDataFrame([("a", 1), (None, 2)], "text string, n int")
    for call in (
        lambda **more: scale.count(df, tmp_path / "x", **more),
        lambda **more: scale.tokenize(df, saved, **more),
    ):
        with pytest.raises(hs.CorpusError, match="no column 'txt', but 'text', 'n'; name one with column="):
            call(column="txt")
        with pytest.raises(hs.CorpusError, match=r"column 'n' holds integer, not text: .*cast"):
            call(column="n")
    nulls = "column 'text' is null in 1 of . rows of a batch; first drop these rows"
    with pytest.raises(PythonException, match=nulls):
        scale.count(df, tmp_path / "x")
    with pytest.raises(PythonException, match=nulls):
        scale.tokenize(df, saved).collect()
    broken = spark.createDataFrame([(bytearray(b"ab\xff"),)], "text binary")
    with pytest.raises(PythonException, match="column 'text' has a row that is not UTF-8, at byte 2"):
        scale.count(broken, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_nothing_to_count(spark, tmp_path):
    for rows in ([], [("",)], [(" ",), ("\n",)]):
        with pytest.raises(hs.CorpusError, match="nothing to count"):
            scale.count(spark.createDataFrame(rows, "text string"), tmp_path / "x")


def test_tokenizers_that_do_not_travel(spark, saved, tmp_path):
    df = spark.createDataFrame([("a",)], "text string")
    with pytest.raises(TypeError, match=r"not a ScaffoldTokenizerFast: workers load it.*save_pretrained"):
        scale.tokenize(df, AutoTokenizer.from_pretrained(saved))
    with pytest.raises(hs.ConfigurationError, match="there is a column 'text' already"):
        scale.tokenize(df, saved, output_column="text")
    copy = shutil.copytree(saved, tmp_path / "copy")
    made = scale.tokenize(df, copy)
    shutil.rmtree(copy)
    with pytest.raises(PythonException, match=r"has no tokenizer .*copy.*all machines"):
        made.collect()
    corpora.save_tokenizer(copy, normalizer="NFC")
    with pytest.raises(PythonException, match="is not the one that the driver found"):
        made.collect()


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_sums_that_overflow_are_refused(spark, monkeypatch, ansi, tmp_path):
    def huge(batches, column, counting):
        for _ in batches:
            yield from packed_by_bucket(arrow_table(rows_of({b"zone": 2**61}))).to_batches()

    df = spark.range(4, numPartitions=4).selectExpr("cast(id as string) as text")
    monkeypatch.setattr(scale, "_count", huge)
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    scale.count(df.limit(3).repartition(3), tmp_path / "counts.parquet")
    assert dict(hs.PreTokenCounts.load(tmp_path / "counts.parquet")) == {b"zone": 3 * 2**61}
    with pytest.raises(Py4JJavaError, match=r"b'zone' has count 9223372036854775808, beyond 2\*\*63 - 1"):
        scale.count(df, tmp_path / "counts.parquet")
    assert dict(hs.PreTokenCounts.load(tmp_path / "counts.parquet")) == {b"zone": 3 * 2**61}


def test_a_part_that_two_tasks_count_is_counted_once(spark, corpus, same, monkeypatch, tmp_path):
    """Spark gives a task that lasts too long to another worker, too."""
    count = scale._count

    def slow(batches, column, counting):
        task = pyspark.TaskContext.get()
        Path(tmp_path, f"{task.partitionId()}-{task.attemptNumber()}").touch()
        yield from count(batches, column, counting)
        if task.partitionId() == 0 and task.attemptNumber() == 0:
            time.sleep(120)

    monkeypatch.setattr(scale, "_count", slow)
    scale.count(read(spark, corpus, "parquet").repartition(4), tmp_path / "counts.parquet")
    same(tmp_path / "counts.parquet")
    assert {"0-0", "0-1"} <= {path.name for path in tmp_path.iterdir()}


def test_the_driver_has_few_rows_at_a_time(spark, monkeypatch, tmp_path):
    lengths = []

    def many(batches, column, counting):
        for batch in batches:
            for first in batch.column("text").to_pylist():
                names = [b"%08d" % (int(first) * 100_000 + i) for i in range(100_000)]
                yield from packed_by_bucket(arrow_table(rows_of(dict.fromkeys(names, 1)))).to_batches()

    def save(tables, *arguments):
        return save_counts(map(seen, tables), *arguments)

    def seen(table):
        lengths.append(len(table))
        return table

    save_counts = scale.save_counts
    monkeypatch.setattr(scale, "_count", many)
    monkeypatch.setattr(scale, "save_counts", save)
    df = spark.range(10, numPartitions=4).selectExpr("cast(id as string) as text")
    assert scale.count(df, tmp_path / "counts.parquet").n_distinct == sum(lengths) == 1_000_000
    assert max(lengths) < 500_000


def test_workers_import_neither_transformers_nor_engines_of_others(spark, saved):
    encoding = Encoding.of(saved, "text", "input_ids", (), True, None)

    def modules(batches):
        import sys

        import pyarrow

        assert [*scale._encode(batches, encoding)]
        names = sorted({name.partition(".")[0] for name in sys.modules})
        yield pyarrow.RecordBatch.from_pydict({"name": names})

    df = spark.createDataFrame([("hug",)], "text string").repartition(1)
    found = {row["name"] for row in df.mapInArrow(modules, "name string").collect()}
    assert "hf_scaffold" in found
    assert not found & {"transformers", "torch", "ray", "datatrove"}


@pytest.mark.long
@pytest.mark.parametrize("seed", processes.SEEDS)
def test_workers_may_be_killed(spark, cluster, corpus, counted, saved, ids, seed, tmp_path):
    """Executors and their Python processes."""
    df = read(spark, corpus, "parquet").repartition(16)

    def workers():  # executors, and their Python processes
        return [pid for parent in cluster.workers for pid in processes.descendants(parent)]

    with processes.killing("Spark", workers, random.Random(seed)) as killed:
        while len(killed) < processes.N_KILLS:
            scale.count(df, tmp_path / "counts.parquet")
            assert (tmp_path / "counts.parquet").read_bytes() == counted
            rows = scale.tokenize(df, saved).select("text", "input_ids").collect()
            assert len(rows) == len(ids)
            assert {row["text"]: row["input_ids"] for row in rows} == ids
            processes.results["Spark"] += 2
