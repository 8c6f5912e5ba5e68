import os
import shutil
from importlib.util import find_spec

import corpora
import processes
import pytest

import hf_scaffold as hs

# One environment has all engines; that of an older Spark has no other.
NEEDS = {
    "datatrove": ["datatrove", "slurm", "examples"],
    "pyspark": ["spark", "examples"],
    "ray": ["ray", "examples"],
}
NO_JAVA = shutil.which("java") is None
collect_ignore = [
    f"test_{name}.py" for engine, names in NEEDS.items() if find_spec(engine) is None for name in names
]
if NO_JAVA:
    collect_ignore += ["test_spark.py", "test_examples.py"]


def pytest_terminal_summary(terminalreporter):
    if NO_JAVA:
        terminalreporter.write_line(
            "test_spark.py and test_examples.py left out: no java (openjdk-17-jre-headless)"
        )
    for engine, n_kills in processes.kills.items():
        terminalreporter.write_line(
            f"{engine}: {n_kills} workers killed, {processes.results[engine]} results compared"
        )


@pytest.fixture(scope="session")
def texts(english_text):
    """Those of a novel, or of the files that SCALE_CORPUS names by a path or a pattern."""
    given = os.environ.get("SCALE_CORPUS")
    return corpora.pages(given) if given else corpora.documents(english_text)


@pytest.fixture(scope="session")
def corpus(texts, tmp_path_factory):
    """The folder of each format."""
    return corpora.write(tmp_path_factory.mktemp("corpus"), texts)


@pytest.fixture(scope="session")
def counted(texts, tmp_path_factory):
    """The table that `hs.count` makes."""
    return corpora.counts_of(texts, tmp_path_factory.mktemp("counted") / "counts.parquet")


@pytest.fixture(scope="session")
def same(texts, counted):
    """Checks that a table has the bytes of `counted` and gives the same merges."""
    merges = hs.train(hs.count(texts), 400).merges

    def check(path):
        assert path.read_bytes() == counted
        assert corpora.merges_of(path) == merges

    return check


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """The folder of a tokenizer."""
    folder = tmp_path_factory.mktemp("tokenizer")
    corpora.save_tokenizer(folder)
    return folder


@pytest.fixture(scope="session")
def ids(saved, texts):
    """What the tokenizer's own call gives each text."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(saved)
    return dict(zip(texts, tokenizer(texts)["input_ids"], strict=True))
