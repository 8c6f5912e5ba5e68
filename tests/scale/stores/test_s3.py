"""The tests of URLs on an S3 server; and what only such a store does."""

import os
import signal
import subprocess
import sys
import uuid

import pytest
from test_urls import *  # noqa: F403  # its tests ask for `store`, which is another one here
from test_urls import contents, iter_documents, names_in, put

import hf_scaffold as hs
from hf_scaffold.scale.arrow import Counting
from hf_scaffold.scale.tallies import save_counts
from hf_scaffold.tables.files import arrow_table
from hf_scaffold.tables.rows import rows_of


@pytest.fixture
def store(endpoint):
    """The URL of an empty folder in a bucket."""
    return f"s3://bucket/{uuid.uuid4()}"


def test_a_bucket_that_is_missing(endpoint, tmp_path):
    with pytest.raises(hs.CorpusError, match=r"^can't open s3://nobody/a.txt: .* bucket does not exist$"):
        hs.count("s3://nobody/a.txt")
    with pytest.raises(hs.CorpusError, match=r"^can't open s3://nobody/\*.txt: there is no s3://nobody$"):
        hs.count("s3://nobody/*.txt")
    (tmp_path / "a.txt").write_text("the cat")
    read = []
    with pytest.raises(FileNotFoundError) as caught:
        hs.count(tmp_path / "a.txt", output="s3://nobody/a.parquet", show_progress=lambda *_: read.append(1))
    assert caught.value.filename == "s3://nobody/a.parquet"
    assert caught.value.strerror == "there is no s3://nobody"
    assert not read


def fails(tmp_path, code, **environment):
    """The last line of what a script says that fails."""
    done = subprocess.run(
        [sys.executable, "-c", f"import hf_scaffold as hs\n{code}"],
        env={**os.environ, "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path), "AWS_CONFIG_FILE": str(tmp_path)}
        | environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    return done.stderr.splitlines()[-1]


def test_credentials_that_are_missing(endpoint, store, tmp_path, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    (tmp_path / "a.txt").write_text("the cat")
    error = f"{store}/a.txt: NoCredentialsError: Unable to locate credentials"
    assert fails(tmp_path, f"hs.count('{store}/a.txt')").endswith(f"can't open {error}")
    failed = fails(tmp_path, f"hs.count('a.txt', output='{store}/a.parquet')")
    assert f"Unable to locate credentials: '{store}/a.parquet'" in failed


def test_a_server_that_is_not_there(store, tmp_path):
    error = fails(tmp_path, f"hs.count('{store}/a.txt')", AWS_ENDPOINT_URL="http://127.0.0.1:9")
    assert f"can't open {store}/a.txt: EndpointConnectionError: Could not connect" in error


def test_a_file_that_changes_while_it_is_read(store):
    put(f"{store}/a.txt", b"the cat " * 100_000)
    documents = iter_documents(f"{store}/a.txt", block_size=1 << 14, cut=lambda text: text.rfind(b" "))
    next(documents)
    put(f"{store}/a.txt", b"the dog " * 100_000)
    with pytest.raises(hs.CorpusError, match=f"^can't read {store}/a.txt: .*no longer exists"):
        list(documents)


KILLED = """
import os, signal, sys
import s3fs
import hf_scaffold as hs
from transformers import AutoTokenizer

real, n = s3fs.S3FileSystem._call_s3, [int(sys.argv[4])]

async def call(self, method, *args, **kwargs):
    n[0] -= method in ("put_object", "upload_part", "complete_multipart_upload")
    if n[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return await real(self, method, *args, **kwargs)

s3fs.S3FileSystem._call_s3 = call
corpus, tokenizer, output = sys.argv[1:4]
if tokenizer == "-":
    hs.count(corpus, output=output)
else:
    hs.write_shards(corpus, AutoTokenizer.from_pretrained(tokenizer), output, shard_size=20_000)
"""


def killed(tmp_path, *arguments):
    command = [sys.executable, "-c", KILLED, *map(str, arguments)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


def test_a_table_whose_writer_is_killed(corpus, store, tmp_path):
    url = f"{store}-out/counts.parquet"
    killed(tmp_path, f"{corpus}/*.txt", "-", url, 1)
    assert names_in(f"{store}-out") == []
    hs.count(["older"]).save(url)
    killed(tmp_path, f"{corpus}/*.txt", "-", url, 1)
    assert hs.PreTokenCounts.load(url) == hs.count(["older"])
    assert names_in(f"{store}-out") == ["counts.parquet"]


def test_what_workers_counted(store, tmp_path):
    texts = ["the cat", "the dog"]
    tables, counting = [arrow_table(rows_of(hs.count([text]))) for text in texts], Counting.of(*[None] * 4)
    save_counts(tables, f"{store}/counts.parquet", counting)
    hs.count(texts).save(tmp_path / "counts.parquet")
    assert contents(store) == {"counts.parquet": (tmp_path / "counts.parquet").read_bytes()}
    with pytest.raises(FileNotFoundError, match="there is no s3://nobody"):
        save_counts(
            iter(lambda: 1 / 0, None), "s3://nobody/counts.parquet", Counting.of(None, None, None, None)
        )


@pytest.mark.parametrize("moment", [2, 4, 6])
def test_shards_whose_writer_is_killed(corpus, store, folder, tokenizer, tmp_path, moment):
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    killed(tmp_path, f"{corpus}/**", tmp_path / "tokenizer", f"{store}-s", moment)
    left = [name for name in names_in(f"{store}-s") if name == "index.json"]
    if left:
        index = hs.ShardIndex.load(f"{store}-s")
        assert not index.complete
        assert {shard.name for shard in index.shards} <= {*names_in(f"{store}-s")}
    hs.write_shards(f"{corpus}/**", tokenizer, f"{store}-s", shard_size=20_000)
    hs.write_shards(f"{folder}/**", tokenizer, tmp_path / "shards", shard_size=20_000)
    assert contents(f"{store}-s") == contents(tmp_path / "shards")
