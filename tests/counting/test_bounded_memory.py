"""Counting in bounded memory: the bytes of a run without a bound, whatever goes to the disk meanwhile."""

import errno
import gzip
import json
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tokenizers.pre_tokenizers import Metaspace

import hf_scaffold as hs
from hf_scaffold.counting import counting, workers
from hf_scaffold.errors import ConfigurationError, CorpusError
from hf_scaffold.tables import files


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    """Files with more distinct pre-tokens than fit into the memory of `little_memory`."""
    folder = tmp_path_factory.mktemp("corpus")
    rng = random.Random(0)

    def text(n: int) -> str:
        return " ".join(f"{'ab' * rng.randrange(2)}{rng.randrange(9999)}é\u0301" for _ in range(n))

    rows = b"".join(json.dumps({"text": text(20)}).encode() + b"\n" for _ in range(500))
    (folder / "a.txt").write_bytes(text(9000).encode())
    (folder / "b.jsonl").write_bytes(rows)
    (folder / "c.txt.gz").write_bytes(gzip.compress(text(5000).encode()))
    return folder


@pytest.fixture
def little_memory(monkeypatch):
    """Tables go to the disk every few thousand pre-tokens; the list tells how many rows each had."""
    written: list[int] = []

    class Writer(files.TableWriter):
        def write(self, rows):
            written.append(len(rows))
            super().write(rows)

    monkeypatch.setattr(counting, "memory_for_rows", lambda max_memory: 1 << 19)
    monkeypatch.setattr(workers, "_THREAD_BATCH", 1 << 13)
    monkeypatch.setattr(workers, "_PROCESS_BATCH", 1 << 13)
    monkeypatch.setattr("hf_scaffold.tables.merging.TableWriter", Writer)
    monkeypatch.setattr("hf_scaffold.tables.merging._FILE_MEMORY", 1 << 17)  # so they are merged twice, too
    return written


@pytest.mark.parametrize("num_workers", [1, 3])
@pytest.mark.parametrize("part", [None, (1, 2), (0, 1)])
@pytest.mark.parametrize("pre_tokenizer", ["gpt2", "gpt4o", Metaspace()])
def test_the_table_has_the_bytes_of_one_in_memory(
    corpus, tmp_path, little_memory, pre_tokenizer, num_workers, part
):
    options = {"pre_tokenizer": pre_tokenizer, "num_workers": num_workers, "part": part}
    table = hs.count(f"{corpus}/*", **options)
    table.save(tmp_path / "table.parquet")
    output = tmp_path / "made" / "output.parquet"
    size = hs.count(f"{corpus}/*", **options, output=output, max_memory="1G")
    assert size == (len(table), table.total, table.n_bytes, table.parts)
    assert output.read_bytes() == (tmp_path / "table.parquet").read_bytes()
    assert len(little_memory) > 4
    assert [path.name for path in output.parent.iterdir()] == ["output.parquet"]


@pytest.mark.parametrize("part", [None, (1, 2)])
def test_so_it_has_where_all_fits_into_memory(corpus, tmp_path, part):
    options = {"num_workers": 1, "part": part}  # a worker's table goes to the disk once
    table = hs.count(f"{corpus}/*", **options)
    table.save(tmp_path / "table.parquet")
    size = hs.count(f"{corpus}/*", **options, output=tmp_path / "output.parquet", max_memory="1G")
    assert size == (len(table), table.total, table.n_bytes, table.parts)
    assert (tmp_path / "output.parquet").read_bytes() == (tmp_path / "table.parquet").read_bytes()


def test_an_output_needs_no_bound(corpus, tmp_path, little_memory):
    size = hs.count(f"{corpus}/*", output=tmp_path / "output.parquet")
    assert len(little_memory) == 1  # written once, with nothing to merge
    table = hs.PreTokenCounts.load(tmp_path / "output.parquet")
    assert table == hs.count(f"{corpus}/*")
    assert size.n_distinct == len(table)


@pytest.mark.parametrize("bound", [None, "1G"])
def test_an_output_that_cannot_be_written_is_refused_before_anything_is_read(tmp_path, bound):
    (tmp_path / "file").write_text("")
    never = (pytest.fail("this was read") for _ in range(1))
    with pytest.raises(NotADirectoryError, match="file"):
        hs.count(never, output=tmp_path / "file" / "counts.parquet", max_memory=bound)
    with pytest.raises(IsADirectoryError, match=tmp_path.name):
        hs.count(never, output=tmp_path, max_memory=bound)


def test_pretokens_too_long_are_counted_as_left_out_over_all_tables(corpus, tmp_path, little_memory):
    with pytest.warns(UserWarning, match="left out") as in_memory:
        table = hs.count(f"{corpus}/*", max_pretoken_length=2)
    with pytest.warns(UserWarning, match="left out") as on_disk:
        hs.count(f"{corpus}/*", max_pretoken_length=2, output=tmp_path / "a.parquet", max_memory="1G")
    assert [str(each.message) for each in on_disk] == [str(each.message) for each in in_memory]
    assert hs.PreTokenCounts.load(tmp_path / "a.parquet") == table
    assert len(little_memory) > 4


def test_what_is_blank_or_empty_or_unreadable_leaves_no_table(tmp_path, little_memory):
    folder = tmp_path / "output"
    for text, message in (
        (b" \n" * 99999, "all whitespace"),
        (b"", "no pre-tokens"),
        (b"a \xff", "not UTF-8"),
    ):
        (tmp_path / "a.txt").write_bytes(text)
        with pytest.raises(CorpusError, match=message):
            hs.count(tmp_path / "a.txt", output=folder / "table.parquet", max_memory="1G")
        assert not folder.exists()


def test_only_the_first_table_may_be_blank(tmp_path, little_memory):
    (tmp_path / "a.txt").write_bytes(b" \n" * 99999)
    (tmp_path / "b.txt").write_bytes(b"word")
    hs.count(f"{tmp_path}/*", output=tmp_path / "table.parquet", max_memory="1G")
    assert hs.PreTokenCounts.load(tmp_path / "table.parquet")["word"] == 1


def test_a_bound_takes_an_output(tmp_path):
    with pytest.raises(ConfigurationError, match="max_memory takes an output"):
        hs.count(["the cat"], max_memory="1G")
    with pytest.raises(ConfigurationError, match="max_memory is 1073741; it must be at least"):
        hs.count(["the cat"], max_memory=1073741, output=tmp_path / "a.parquet")


PROGRAM = """
import resource, signal, sys
import hf_scaffold as hs
from hf_scaffold.counting import counting, workers
from hf_scaffold.tables import merging
counting.memory_for_rows = lambda max_memory: 1 << 19
workers._THREAD_BATCH = 1 << 14
merging._FILE_MEMORY = 1 << 17
corpus, output, limit = sys.argv[1:]
def told(done, total):
    print(done, flush=True)
if limit != "none":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))
hs.count(corpus, pre_tokenizer="gpt2", output=output, max_memory="1G", num_workers=2, show_progress=told)
"""


def start(*arguments: object, **options) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-I", "-c", PROGRAM, *map(str, arguments)],
        text=True,
        stdout=subprocess.PIPE,
        **options,
    )


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("n_reports", [1, 3, 40])
def test_a_run_cut_off_leaves_the_old_table_and_the_next_tidies_up(tmp_path, corpus, sent, n_reports):
    output = tmp_path / "output.parquet"
    output.write_bytes(b"the old table")
    for _ in range(2):
        with start(f"{corpus}/*", output, "none", stderr=subprocess.DEVNULL) as process:
            assert process.stdout is not None
            for _ in range(n_reports):
                process.stdout.readline()
            process.send_signal(sent)
        if process.returncode != 0:  # it may have been done
            assert output.read_bytes() == b"the old table"
            if sent == signal.SIGINT:
                assert [path.name for path in tmp_path.iterdir()] == ["output.parquet"]
    hs.count(f"{corpus}/*", pre_tokenizer="gpt2", output=output, max_memory="1G")
    assert [path.name for path in tmp_path.iterdir()] == ["output.parquet"]
    assert hs.PreTokenCounts.load(output) == hs.count(f"{corpus}/*", pre_tokenizer="gpt2")


@pytest.mark.parametrize("limit", [10, 5000, 30000])
def test_a_full_disk_is_named_and_leaves_the_old_table(tmp_path, corpus, limit):
    output = tmp_path / "output.parquet"
    output.write_bytes(b"the old table")
    with start(f"{corpus}/*", output, limit, stderr=subprocess.PIPE) as process:
        _, errors = process.communicate()
    assert process.returncode == 1
    assert f"[Errno {errno.EFBIG}]" in errors.splitlines()[-1]
    assert str(output) in errors.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["output.parquet"]
    assert output.read_bytes() == b"the old table"


def test_memory_stays_below_the_bound(tmp_path):
    """Some three million pre-tokens, which take more than that in memory."""
    rng = random.Random(0)
    with open(tmp_path / "a.txt", "w", encoding="utf-8") as stream:
        for _ in range(32):
            words = "".join(f" {rng.getrandbits(64):x}" for _ in range(100_000))
            stream.write(words.translate(str.maketrans("0123456789", "ghijklmnop")))
    program = (
        "import sys\n"
        "import hf_scaffold as hs\n"
        "text, output, options = sys.argv[1:]\n"
        "size = hs.count(text, pre_tokenizer='gpt2', num_workers=2, output=output, **eval(options))\n"
        "lines = open('/proc/self/status').read().splitlines()\n"
        "print(size.n_distinct, *(int(line.split()[1]) // 1024 for line in lines if line[:5] == 'VmHWM'))\n"
    )
    found = []
    for options in ("{'max_memory': '512M'}", "{}"):
        result = subprocess.run(
            [sys.executable, "-I", "-c", program, tmp_path / "a.txt", tmp_path / "a.parquet", options],
            capture_output=True,
            text=True,
            check=True,
        )
        found.append([*map(int, result.stdout.split())])
    (n_bound, bound), (n_free, free) = found
    assert n_bound == n_free > 3_000_000
    assert bound < 512 < free
