"""Ray on two nodes, each a set of processes: the same table and ids, whatever happens."""

import os
import random
import subprocess
import sys
import uuid

import corpora
import fsspec
import processes
import pyarrow as pa
import pytest
import ray
import ray.data
from datatrove.executor import RayPipelineExecutor
from datatrove.pipeline.readers import ParquetReader
from ray.cluster_utils import Cluster
from tokenizers.normalizers import NFKD
from tokenizers.pre_tokenizers import BertPreTokenizer
from transformers import AutoTokenizer

import hf_scaffold as hs
from hf_scaffold.scale import ray as scale
from hf_scaffold.scale.datatrove import CountPretokens, MergeCounts, ScaffoldTokenizer
from hf_scaffold.scale.tallies import packed
from hf_scaffold.tables.files import arrow_table
from hf_scaffold.tables.rows import rows_of

STORE = 200 << 20


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Two nodes of two processors each, so that reading goes on while actors work."""
    here = os.getcwd()
    os.chdir(
        tmp_path_factory.mktemp("ray")
    )  # workers import from here, too, and the sources have no extensions
    # Otherwise workers give way to all else on the machine, and end after a second without work; a start
    # takes two.
    os.environ |= {"RAY_worker_niceness": "0", "RAY_idle_worker_killing_time_threshold_ms": "600000"}
    node = {"num_cpus": 2, "object_store_memory": STORE}
    made = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    try:
        made.add_node(**node)
        ray.init(address=made.address, log_to_driver=False)
        ray.data.DataContext.get_current().enable_progress_bars = False
        yield made
    finally:
        ray.shutdown()
        made.shutdown()
        os.chdir(here)


def read(corpus, form, n_blocks):
    """A row a document, with the text as `text`."""
    if form == "plain":
        files = ray.data.read_binary_files(str(corpus["plain"]), override_num_blocks=n_blocks)
        return files.rename_columns({"bytes": "text"})
    reader = {"jsonl": ray.data.read_json, "parquet": ray.data.read_parquet}[form]
    return reader(str(corpus[form])).repartition(n_blocks)


@pytest.mark.parametrize(("form", "n_blocks"), corpora.DIVIDED)
def test_counts_are_those_of_one_machine(cluster, corpus, form, n_blocks, same, tmp_path):
    size = scale.count(read(corpus, form, n_blocks), tmp_path / "counts.parquet")
    same(tmp_path / "counts.parquet")
    counts = hs.PreTokenCounts.load(tmp_path / "counts.parquet")
    assert size[:3] == (len(counts), counts.total, counts.n_bytes)


def test_counts_of_batches(cluster, corpus, counted, tmp_path):
    scale.count(read(corpus, "parquet", 64), tmp_path / "counts.parquet", batch_size=10, num_cpus=0.5)
    assert (tmp_path / "counts.parquet").read_bytes() == counted


def test_few_counts_are_sorted_in_few_tasks(cluster):
    """Ray would take 200 for what it has not read yet, and one for each of these blocks."""
    tables = [packed(arrow_table(rows_of({b"%d" % number: 1}))) for number in range(64)]
    counts = ray.data.from_arrow(tables).materialize()
    assert counts.num_blocks() == 64
    few = scale._few(counts)
    assert few.materialize().num_blocks() == 1
    assert few.count() == 64


@pytest.mark.parametrize(("form", "n_blocks"), corpora.DIVIDED)
def test_ids_are_those_of_the_tokenizer(cluster, corpus, form, n_blocks, saved, ids):
    made = scale.tokenize(read(corpus, form, n_blocks), saved, concurrency=2)
    rows = made.take_all()
    assert len(rows) == len(ids)
    assert {text_of(row): [*row["input_ids"]] for row in rows} == ids
    assert made.schema().base_schema.field("input_ids").type == pa.list_(pa.int32())


def text_of(row):
    text = row["text"]
    return text.decode() if isinstance(text, bytes) else text


def test_settings_of_both_are_those_of_one_machine(cluster, texts, saved, tmp_path):
    dataset = ray.data.from_arrow(pa.table({"n": range(len(texts)), "of text": texts}))
    options = {"pre_tokenizer": BertPreTokenizer(), "normalizer": NFKD(), "alphabet": "chars"}
    with pytest.warns(UserWarning, match="left out .* pre-tokens of more than 3 bytes"):
        scale.count(dataset, tmp_path / "a.parquet", column="of text", max_pretoken_length=3, **options)
    with pytest.warns(UserWarning, match="left out"):
        expected = corpora.counts_of(texts, tmp_path / "b.parquet", max_pretoken_length=3, **options)
    assert (tmp_path / "a.parquet").read_bytes() == expected
    special = {"add_special_tokens": False, "split_special_tokens": True}
    names = {"column": "of text", "output_column": "ids", "remove_columns": ["of text"]}
    rows = scale.tokenize(dataset, str(saved), **names, **special, batch_size=10, num_cpus=1).take_all()
    assert rows[0].keys() == {"n", "ids"}
    tokenizer = AutoTokenizer.from_pretrained(saved)
    assert {row["n"]: [*row["ids"]] for row in rows} == dict(
        enumerate(tokenizer(texts, **special)["input_ids"])
    )


def test_the_table_may_go_to_a_store(cluster, corpus, counted):
    url = f"memory://{uuid.uuid4()}/counts.parquet"
    scale.count(read(corpus, "parquet", 3), url)
    assert fsspec.filesystem("memory").cat_file(url) == counted


DRIVER = """
import pathlib
import re
import sys
import threading

import ray

from hf_scaffold.scale import ray as scale

def texts(batch):
    import random
    def text(dice):
        return " ".join("".join(dice.choices("abcdefghij", k=12)) for _ in range(5000))
    return {"text": [text(random.Random(int(number))) for number in batch["id"]]}

def own():  # without the object store, which all processes share
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(r"RssAnon:\\s+(\\d+)", status)[1]) >> 10

def peak(n_documents):
    found, over = [own()], threading.Event()
    def look():
        while not over.wait(0.01):
            found.append(own())
    thread = threading.Thread(target=look)
    thread.start()
    dataset = ray.data.range(n_documents, override_num_blocks=n_documents // 40).map_batches(texts)
    n_rows = scale.count(dataset, sys.argv[2]).n_distinct
    over.set()
    thread.join()
    return n_rows, max(found)

ray.init(address=sys.argv[1], log_to_driver=False)
print(*peak(80), *peak(800))
"""


@pytest.mark.long
def test_the_drivers_memory_does_not_grow_with_the_corpus(cluster, tmp_path):
    script = tmp_path / "driver.py"
    script.write_text(DRIVER, encoding="utf-8")
    command = [sys.executable, script, cluster.address, tmp_path / "counts.parquet"]
    output = subprocess.check_output(command, cwd=tmp_path, text=True).splitlines()[-1]
    n_few, little, n_many, much = map(int, output.split())
    assert n_few > 390_000
    assert n_many > 3_900_000
    assert much - little < 100  # MB, where the table has 120


# ---- datatrove's executor


def by_datatrove(folder, corpus, saved):
    """Eight ranks that count and tokenize, and then a merge."""
    steps = [CountPretokens(f"{folder}/ranks"), ScaffoldTokenizer(f"{folder}/ids", str(saved), seed=0)]
    settings = {"mem_per_cpu_gb": 0.1, "cpus_per_task": 1}
    ranks = RayPipelineExecutor(
        [ParquetReader(str(corpus["parquet"])), *steps], 8, logging_dir=f"{folder}/logs", **settings
    )
    merging = [MergeCounts(f"{folder}/ranks", str(folder))]
    RayPipelineExecutor(merging, 1, depends=ranks, logging_dir=f"{folder}/merge-logs", **settings).run()


def test_datatrove_on_ray(cluster, corpus, same, saved, ids, tmp_path):
    by_datatrove(tmp_path, corpus, saved)
    same(tmp_path / "counts.parquet")
    assert sorted(corpora.ids_in(tmp_path / "ids")) == sorted(row for text, row in ids.items() if text)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("i*/*.ds")}
    rank = sorted(tmp_path.glob("logs/completions/*"))[3]
    rank.unlink()
    (tmp_path / "merge-logs" / "completions" / "00000").unlink()
    by_datatrove(tmp_path, corpus, saved)
    same(tmp_path / "counts.parquet")
    again = {path: path.stat().st_mtime_ns for path in tmp_path.glob("i*/*.ds")}
    assert [path.name[:5] for path in before if before[path] != again[path]] == [rank.name]


# ---- what goes wrong


@pytest.mark.long  # actors that failed hold their processors for a minute or two
def test_columns_that_hold_no_text_are_named(cluster, saved, tmp_path):
    dataset = ray.data.from_arrow(pa.table({"text": ["a", None], "n": [1, 2], "bytes": [b"\xff", b"a"]}))
    for problem, column in [
        ("column 'n' holds int64, not text: .*cast", "n"),
        ("column 'text' is null in 1 of 2 rows of a batch; first drop these rows", "text"),
        ("column 'bytes' has a row that is not UTF-8, at byte 0", "bytes"),
    ]:
        with pytest.raises(Exception, match=problem):
            scale.count(dataset, tmp_path / "x", column=column)
        with pytest.raises(Exception, match=problem):
            scale.tokenize(dataset, saved, column=column).materialize()
    with pytest.raises(
        hs.CorpusError, match="no column 'txt', but 'text', 'n', 'bytes'; name one with column="
    ):
        scale.count(dataset, tmp_path / "x", column="txt")
    with pytest.raises(Exception, match="no column 'txt', but 'text', 'n', 'bytes'; name one with column="):
        scale.tokenize(dataset, saved, column="txt").materialize()
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("texts", [[], [""], [" ", "\n"]])
def test_nothing_to_count(cluster, texts, tmp_path):
    dataset = ray.data.from_arrow(pa.table({"text": pa.array(texts, pa.string())}))
    with pytest.raises(hs.CorpusError, match="nothing to count"):
        scale.count(dataset, tmp_path / "x")


def test_tokenizers_that_do_not_travel(cluster, saved, tmp_path):
    dataset = ray.data.from_arrow(pa.table({"text": ["a"]}))
    with pytest.raises(TypeError, match=r"not a ScaffoldTokenizerFast: workers load it.*save_pretrained"):
        scale.tokenize(dataset, AutoTokenizer.from_pretrained(saved))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        scale.tokenize(dataset, tmp_path / "nowhere")


def test_sums_that_overflow_are_refused(cluster, monkeypatch, tmp_path):
    def huge(batch, column, counting):
        return packed(arrow_table(rows_of({b"zone": 2**61})))

    monkeypatch.setattr(scale, "_count", huge)
    tables = [pa.table({"text": ["a"]})] * 4
    scale.count(ray.data.from_arrow(tables[:3]), tmp_path / "counts.parquet")
    assert dict(hs.PreTokenCounts.load(tmp_path / "counts.parquet")) == {b"zone": 3 * 2**61}
    with pytest.raises(
        ray.exceptions.RayTaskError, match=r"b'zone' has count 9223372036854775808, beyond 2\*\*63 - 1"
    ):
        scale.count(ray.data.from_arrow(tables), tmp_path / "counts.parquet")
    assert dict(hs.PreTokenCounts.load(tmp_path / "counts.parquet")) == {b"zone": 3 * 2**61}


def test_workers_import_neither_transformers_nor_engines_of_others(cluster, saved):
    class Looking(scale.Tokenize):
        def __call__(self, batch):
            import sys

            super().__call__(batch)
            return {"name": sorted({name.partition(".")[0] for name in sys.modules})}

    encoding = scale.Encoding.of(saved, "text", "input_ids", (), True, None)
    dataset = ray.data.from_arrow(pa.table({"text": ["hug"]}))
    rows = dataset.map_batches(Looking, fn_constructor_args=(encoding,), batch_format="pyarrow").take_all()
    found = {row["name"] for row in rows}
    assert "hf_scaffold" in found
    assert not found & {"transformers", "torch", "pyspark", "datatrove"}


@pytest.mark.long
@pytest.mark.parametrize("seed", processes.SEEDS)
def test_workers_may_be_killed(cluster, corpus, counted, saved, ids, seed, tmp_path):
    with processes.killing("Ray", workers, random.Random(seed)) as killed:
        while len(killed) < processes.N_KILLS:
            scale.count(read(corpus, "parquet", 16), tmp_path / "counts.parquet", max_retries=-1)
            assert (tmp_path / "counts.parquet").read_bytes() == counted
            made = scale.tokenize(read(corpus, "parquet", 16), saved, max_restarts=-1, max_task_retries=-1)
            rows = made.take_all()
            assert len(rows) == len(ids)
            assert {row["text"]: [*row["input_ids"]] for row in rows} == ids
            processes.results["Ray"] += 2


def workers():
    """Processes of tasks and actors of Ray Data."""
    return processes.titled(os.getpid(), ("ray::Map", "ray::Read", "ray::Sort"))
