"""The scripts of examples/scale, and the benchmark of the engines, each as a program of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest

import hf_scaffold as hs

SCRIPTS = Path(__file__).parents[3] / "examples" / "scale"
BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "engines.py"
# As docs/engines.md recommends for Spark.
ARROW_OPTIONS = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"


def run(tmp_path, script, *arguments):
    environment = {
        **os.environ,
        "JDK_JAVA_OPTIONS": ARROW_OPTIONS,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "RAY_ADDRESS": "local",  # not the last cluster of this machine, which may have been killed
        "RAY_OVERRIDE_RESOURCES": '{"CPU": 2}',
        "RAY_worker_niceness": "0",
        "PYTHONSAFEPATH": "",
    }
    command = [sys.executable, SCRIPTS / f"{script}.py", *map(str, arguments)]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@pytest.mark.long
@pytest.mark.parametrize("engine", ["spark", "ray"])
def test_counts_and_ids_of_parquet(engine, corpus, counted, saved, ids, tmp_path):
    output = run(tmp_path, f"{engine}_count", corpus["parquet"], tmp_path / "counts.parquet")
    assert (tmp_path / "counts.parquet").read_bytes() == counted
    assert f"{len(hs.PreTokenCounts.load(tmp_path / 'counts.parquet')):,} distinct pre-tokens" in output
    run(tmp_path, f"{engine}_tokenize", corpus["parquet"], saved, tmp_path / "ids")
    table = pyarrow.parquet.read_table(tmp_path / "ids")
    assert table.column_names == ["id", "input_ids"]
    assert sorted(table["input_ids"].to_pylist()) == sorted(ids.values())


@pytest.mark.long
def test_spark_reads_files_as_documents(corpus, counted, tmp_path):
    run(tmp_path, "spark_count", corpus["plain"], tmp_path / "counts.parquet", "--format", "text")
    assert (tmp_path / "counts.parquet").read_bytes() == counted


def test_datatrove(corpus, counted, saved, tmp_path):
    output = tmp_path / "made"
    run(tmp_path, "datatrove_count", corpus["jsonl"], output, "--workers", 2)
    assert (output / "counts.parquet").read_bytes() == counted
    settings = ("--workers", 2, "--eos-token", "<|eos|>")
    run(tmp_path, "datatrove_tokenize", corpus["jsonl"], saved, output, *settings)
    assert len(list((output / "ids").glob("*.ds"))) == 8


def test_the_benchmark(english_text, saved, tmp_path):
    (tmp_path / "text.txt").write_text(english_text, encoding="utf-8")
    options = ("--tokenizer", saved, "--engine", "datatrove", "--rounds", 1)
    *_, counting, tokenizing = run(tmp_path, BENCHMARK.with_suffix(""), "text.txt", *options).splitlines()
    for line, name in ((counting, "count"), (tokenizing, "tokenize")):
        engine, step, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        assert (engine, step, len(cells)) == ("datatrove", name, 9)
        bare, worker, *_, start = map(float, cells)
        assert min(bare, worker, start) > 0
