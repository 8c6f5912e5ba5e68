"""Corpora and counts behind URLs give what the same local files give. Here the store is memory://.

tests/scale/stores runs these tests again, on an S3 server.
"""

import gzip
import json
import lzma
import random
import subprocess
import sys
import uuid
from glob import glob
from pathlib import Path

import fsspec
import pyarrow
import pyarrow.parquet
import pytest

import hf_scaffold as hs
from hf_scaffold._utils import urls
from hf_scaffold.cli.commands import main
from hf_scaffold.text.corpus import describe_corpus, iter_documents

PATTERNS = ["*", "**", "**/*.txt", "*.txt", "a.txt", "b.txt.xz", "?.json*", "[ef].parquet", ".h*", "*/*"]
WORDS = ["the", "cat", "Käse", "sat", "\n", "1234", "a.b"]
LINES = {"pre_tokenizer": "whitespace", "alphabet": "chars"}


@pytest.fixture
def store():
    """The URL of an empty folder in a store."""
    return f"memory://{uuid.uuid4()}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of all formats, in a local folder."""
    folder = tmp_path_factory.mktemp("corpus")
    draw = random.Random(0)

    def text(n_words):
        return " ".join(draw.choice(WORDS) for _ in range(n_words))

    (folder / "a.txt").write_text(text(3000), encoding="utf-8")
    (folder / "b.txt.xz").write_bytes(lzma.compress(text(2000).encode()))
    rows = "".join(json.dumps({"text": text(20)}) + "\n" for _ in range(300))
    (folder / "c.jsonl").write_text(rows, encoding="utf-8")
    (folder / "d.jsonl.gz").write_bytes(gzip.compress(rows.encode()))
    table = pyarrow.table({"text": [text(20) for _ in range(200)], "other": [*range(200)]})
    pyarrow.parquet.write_table(table, folder / "e.parquet", row_group_size=50)
    (folder / ".hidden.txt").write_text("hidden", encoding="utf-8")
    (folder / "a").mkdir()
    (folder / "a" / "z.txt").write_text(text(100), encoding="utf-8")
    (folder / "a" / ".h").mkdir()
    (folder / "a" / ".h" / "h.txt").write_text("hidden, too", encoding="utf-8")
    return folder


@pytest.fixture
def corpus(folder, store):
    """The URL of the same files."""
    for path in folder.rglob("*"):
        if path.is_file():
            put(f"{store}/{path.relative_to(folder).as_posix()}", path.read_bytes())
    return store


def put(url, data):
    fs, path = fsspec.core.url_to_fs(url)
    fs.pipe_file(path, data)


def content(url):
    fs, path = fsspec.core.url_to_fs(url)
    return fs.cat_file(path)


def names_in(url):
    fs, path = fsspec.core.url_to_fs(url)
    fs.invalidate_cache()
    return sorted(found.rpartition("/")[2] for found in fs.find(path))


# ---- corpora


@pytest.mark.parametrize("pattern", PATTERNS)
def test_documents_of_files_that_match(corpus, folder, pattern):
    assert [*iter_documents(f"{corpus}/{pattern}")] == [*iter_documents(f"{folder}/{pattern}")]


def test_counts(corpus, folder):
    assert hs.count(f"{corpus}/**", num_workers=2) == hs.count(f"{folder}/**")
    assert hs.count(f"{corpus}/**", **LINES) == hs.count(f"{folder}/**", **LINES)


def test_a_tokenizer(corpus, folder):
    trained, wanted = (hs.train_tokenizer(f"{root}/*.txt", 262) for root in (corpus, folder))
    assert trained.get_vocab() == wanted.get_vocab()


@pytest.mark.parametrize("n_parts", [1, 3, 64])
@pytest.mark.parametrize("settings", [{}, LINES])
def test_parts(corpus, folder, n_parts, settings):
    parts, wanted = (
        [hs.count(f"{root}/**", part=(number, n_parts), **settings) for number in range(n_parts)]
        for root in (corpus, folder)
    )
    assert parts == wanted
    assert parts[0].merge(*parts[1:]) == hs.count(f"{folder}/**", **settings)


def test_a_part_reads_its_range_alone(store, monkeypatch):
    n_bytes = 40 << 20
    put(f"{store}/large.jsonl", b'{"text": "the cat sat"}\n' * (n_bytes // 24))
    reads = []

    class Metered:
        def __init__(self, file):
            self.file, self.tell, self.seek, self.close = file, file.tell, file.seek, file.close

        def read(self, n):
            data = self.file.read(n)
            reads.append(len(data))
            return data

    blocks = urls._Blocks
    monkeypatch.setattr(urls, "_Blocks", lambda url, file, *more: blocks(url, Metered(file), *more))
    hs.count(f"{store}/large.jsonl", part=(7, 20))
    assert n_bytes // 20 < sum(reads) < n_bytes // 20 * 3
    assert len(reads) < 16
    reads.clear()
    hs.count(f"{store}/large.jsonl")
    assert n_bytes - 24 < sum(reads) < n_bytes + 3 * urls.MOST_BYTES
    assert len(reads) < 20


def test_progress(corpus, folder):
    shown = []
    hs.count(f"{corpus}/**", show_progress=lambda *progress: shown.append(progress))
    paths = [path for path in map(Path, glob(f"{folder}/**", recursive=True)) if path.is_file()]
    total = sum(path.stat().st_size for path in paths)
    assert shown[-1] == (total, total)


def test_several_sources(corpus, folder):
    files = fsspec.open_files([f"{corpus}/c.jsonl", f"{corpus}/a.txt"])
    assert [*iter_documents(files)] == [*iter_documents([folder / "c.jsonl", folder / "a.txt"])]
    assert [*iter_documents([folder / "c.jsonl", files[1]])] == [*iter_documents(files)]
    assert [*iter_documents(files[0])] == [*iter_documents(folder / "c.jsonl")]
    assert describe_corpus([files[1], files[0]]) == f"'{files[1].full_name!s}' and 1 more"


def test_files_that_others_wrote_since(corpus):
    before = hs.count(f"{corpus}/*.txt")
    fs, path = fsspec.core.url_to_fs(corpus)
    other = type(fs)(skip_instance_cache=True)
    other.pipe_file(f"{path}/new.txt", b"unheard-of")
    assert hs.count(f"{corpus}/*.txt").total > before.total


def test_local_urls(folder):
    assert hs.count(f"file://{folder}/a.txt") == hs.count(folder / "a.txt")
    assert hs.count(f"file://{folder}/*.txt") == hs.count(f"{folder}/*.txt")


def test_a_document_that_is_a_url():
    with pytest.warns(UserWarning, match=r"give fsspec.open_files\(\['memory://a/b.txt'\]\)"):
        assert hs.count(["memory://a/b.txt"]).total > 1


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("missing.txt", "can't open {corpus}/missing.txt: No such file or directory"),
        ("*.missing", "no file matches the pattern '{corpus}/*.missing'"),
        ("a", "{corpus}/a is a directory; for the files in it, give a pattern such as {corpus}/a/*"),
        ("bad.txt", "{corpus}/bad.txt is not UTF-8: byte 0xff at offset 2"),
        ("bad.jsonl", "{corpus}/bad.jsonl, line 2: not JSON"),
        ("bad.txt.gz", "can't read {corpus}/bad.txt.gz: "),
        ("empty.txt.xz", "{corpus}/empty.txt.xz is truncated"),
        ("bad.parquet", "can't read {corpus}/bad.parquet: "),
    ],
)
def test_errors_name_the_url(corpus, name, why):
    put(f"{corpus}/bad.txt", b"ok\xff")
    put(f"{corpus}/bad.jsonl", b'{"text": "a"}\n{\n')
    put(f"{corpus}/bad.txt.gz", b"not compressed")
    put(f"{corpus}/empty.txt.xz", b"")
    put(f"{corpus}/bad.parquet", b"PAR1 or not")
    with pytest.raises(hs.CorpusError) as caught:
        hs.count(f"{corpus}/{name}")
    assert why.format(corpus=corpus) in str(caught.value)


def test_the_line_of_an_error_in_a_part(store):
    put(f"{store}/a.jsonl", b'{"text": "a"}\n' * 500 + b"{\n" + b'{"text": "a"}\n' * 500)
    with pytest.raises(hs.CorpusError, match=rf"^{store}/a.jsonl, line 501: not JSON"):
        hs.count(f"{store}/a.jsonl", part=(2, 5))


def test_a_failing_store(corpus, monkeypatch):
    def fail(self, n):
        raise ConnectionResetError(104, "Connection reset by peer")

    fs, path = fsspec.core.url_to_fs(f"{corpus}/a.txt")
    with fs.open(path) as file:
        monkeypatch.setattr(type(file), "read", fail)
    with pytest.raises(hs.CorpusError, match=f"^can't read {corpus}/a.txt: Connection reset by peer$"):
        hs.count(f"{corpus}/a.txt")


def test_unknown_protocols():
    with pytest.raises(hs.ConfigurationError, match=r"^foo://bar: Protocol not known: foo"):
        hs.count("foo://bar")
    with pytest.raises(hs.ConfigurationError, match=r"^foo://bar: Protocol not known: foo"):
        hs.PreTokenCounts.from_mapping({"a": 1}).save("foo://bar")


def test_a_package_that_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(hs.ConfigurationError, match=r"^gs:// paths need gcsfs: pip install gcsfs$"):
        hs.count("gs://bucket/a.txt")


def test_a_url_that_was_a_path():
    with pytest.raises(hs.ConfigurationError, match=r"^s3:/bucket/a.txt was a URL until pathlib"):
        hs.count(Path("s3://bucket/a.txt"))


def test_passwords_are_not_shown():
    fs, path = fsspec.core.url_to_fs("memory://a")
    assert str(urls.Url(fs, path, "sftp://me:secret@host")) == "sftp://me:***@host/a"


def test_local_files_need_no_fsspec(folder, tmp_path):
    code = (
        "import sys, hf_scaffold as hs\n"
        "hs.count(sys.argv[1]).save(sys.argv[2]); hs.PreTokenCounts.load(sys.argv[2])\n"
        "from hf_scaffold.cli import commands, options\n"
        "assert 'fsspec' not in sys.modules\n"
    )
    arguments = [folder / "a.txt", tmp_path / "counts.parquet"]
    subprocess.run([sys.executable, "-c", code, *map(str, arguments)], check=True, cwd=tmp_path)


# ---- counts


@pytest.fixture
def counts(folder):
    return hs.count(f"{folder}/**")


def saved(counts, tmp_path):
    counts.save(tmp_path / "saved.parquet")
    return (tmp_path / "saved.parquet").read_bytes()


def test_saving_and_loading(store, counts, tmp_path):
    url = f"{store}/new/counts.parquet"
    counts.save(url)
    assert content(url) == saved(counts, tmp_path)
    assert hs.PreTokenCounts.load(url) == counts
    with pytest.warns(UserWarning, match="below min_count 50"):
        assert hs.PreTokenCounts.load(url, min_count=50) == counts.at_least(50)
    assert names_in(store) == ["counts.parquet"]


@pytest.mark.parametrize("max_memory", [None, "512M"])
def test_counting_to_a_url(corpus, store, counts, tmp_path, max_memory):
    size = hs.count(f"{corpus}/**", output=f"{store}-out/counts.parquet", max_memory=max_memory)
    assert size.n_distinct == len(counts)
    assert content(f"{store}-out/counts.parquet") == saved(counts, tmp_path)
    assert names_in(f"{store}-out") == ["counts.parquet"]


def test_merging(corpus, store, counts, tmp_path):
    for number in range(5):
        hs.count(f"{corpus}/**", part=(number, 5), output=f"{store}-parts/{number}.parquet")
    hs.merge_counts(f"{store}-parts/*.parquet", f"{store}-parts/all/all.parquet")
    assert content(f"{store}-parts/all/all.parquet") == saved(counts, tmp_path)
    hs.merge_counts(f"{store}-parts/*.parquet", tmp_path / "all.parquet")
    assert (tmp_path / "all.parquet").read_bytes() == saved(counts, tmp_path)
    with pytest.raises(hs.ConfigurationError, match=f"^{store}-parts/0.parquet and .* are one file"):
        hs.merge_counts([f"{store}-parts/0.parquet"] * 2, tmp_path / "all.parquet")
    with pytest.raises(hs.ConfigurationError, match=f"^{store}-parts/0.parquet and .* are one file"):
        hs.merge_counts(f"{store}-parts/0.parquet", f"{store}-parts/0.parquet")


def test_merging_more_tables_than_are_read_at_a_time(store, monkeypatch, tmp_path):
    from hf_scaffold.tables import merging

    monkeypatch.setattr(merging, "_MOST_FILES", 2)
    tables = [hs.count([f"the cat {number}"]) for number in range(7)]
    for number, table in enumerate(tables):
        table.save(f"{store}/{number}.parquet")
    hs.merge_counts(f"{store}/*.parquet", f"{store}/all.parquet")
    assert content(f"{store}/all.parquet") == saved(tables[0].merge(*tables[1:]), tmp_path)
    assert names_in(store) == [*(f"{number}.parquet" for number in range(7)), "all.parquet"]


def test_mixing(store, counts, tmp_path):
    counts.save(f"{store}/a.parquet")
    counts.save(tmp_path / "b.parquet")
    mixed = hs.mix({f"{store}/a.parquet": 2, f"{tmp_path}/b.parquet": 1})
    assert [*mixed.counts] == [*(3 * counts.counts)]
    hs.mix_counts({f"{store}/*.parquet": 1}, f"{store}/out/mixed.parquet")
    assert content(f"{store}/out/mixed.parquet") == saved(counts, tmp_path)


def test_a_failed_write_leaves_the_older_table(store, counts, monkeypatch):
    url = f"{store}/counts.parquet"
    counts.save(url)
    before = content(url)

    def fail(*args, **kwargs):
        raise ConnectionResetError(104, "Connection reset by peer")

    fs, _ = fsspec.core.url_to_fs(url)
    monkeypatch.setattr(fs, "put_file", fail)
    other = hs.count(["another text"])
    with pytest.raises(OSError, match="Connection reset by peer") as caught:
        other.save(url)
    assert caught.value.filename == url
    with pytest.raises(OSError, match="Connection reset by peer"):
        hs.merge_counts(url, f"{store}/other.parquet")
    assert content(url) == before
    assert names_in(store) == ["counts.parquet"]


def test_what_is_no_table(store, tmp_path):
    url = f"{store}/counts.parquet"
    with pytest.raises(FileNotFoundError) as caught:
        hs.PreTokenCounts.load(url)
    assert caught.value.filename == url
    put(url, b"not Parquet")
    with pytest.raises(hs.ArtifactError, match=f"^{url} is not a Parquet file"):
        hs.PreTokenCounts.load(url)


# ---- shards


@pytest.fixture(scope="module")
def tokenizer(folder):
    specials = {"special_tokens": ["</s>"], "eos_token": "</s>"}
    return hs.train_tokenizer(f"{folder}/a.txt", 262, **specials)


def contents(folder):
    """The files in a local folder, or a store's: name to bytes."""
    fs, path = fsspec.core.url_to_fs(str(folder))
    fs.invalidate_cache()
    return {found.rpartition("/")[2]: fs.cat_file(found) for found in fs.find(path)}


@pytest.mark.parametrize("form", ["bin", "npy", "parquet", "arrow"])
def test_shards(corpus, store, folder, tokenizer, tmp_path, form):
    settings = {"format": form, "shard_size": 20_000}
    wanted = hs.write_shards(f"{folder}/**", tokenizer, tmp_path / "shards", **settings)
    index = hs.write_shards(f"{corpus}/**", tokenizer, f"{store}-s/shards", **settings)
    assert index == wanted == hs.ShardIndex.load(f"{store}-s/shards")
    assert len(index.shards) == 3
    assert contents(f"{store}-s/shards") == contents(tmp_path / "shards")
    assert hs.write_shards(f"{corpus}/**", tokenizer, f"{store}-s/shards", **settings) == wanted


class KilledError(BaseException):
    """Ends a run as a kill would: nothing is tidied."""


@pytest.fixture
def killed_at(monkeypatch):
    """Makes a run end before its n-th upload, and leave everything as it is then."""

    def kill(n):
        upload, left = urls.Url.upload, [n]

        def dying(self, source):
            left[0] -= 1
            if left[0] == 0:
                patch.setattr(urls.Url, "unlink", fail)
                patch.setattr(urls.Url, "write", fail)
                raise KilledError
            upload(self, source)

        def fail(self, *args, **kwargs):
            raise KilledError

        patch.setattr(urls.Url, "upload", dying)

    with monkeypatch.context() as patch:
        kill.undo = patch.undo
        yield kill


@pytest.mark.parametrize("moment", [1, 2, 5])
def test_shards_of_a_run_that_was_killed(corpus, store, folder, tokenizer, tmp_path, killed_at, moment):
    killed_at(moment)
    with pytest.raises(KilledError):
        hs.write_shards(f"{corpus}/**", tokenizer, f"{store}-s", shard_size=20_000)
    killed_at.undo()
    left = hs.ShardIndex.load(f"{store}-s")
    assert not left.complete
    assert len(left.shards) == (moment - 1) // 2
    assert {shard.name for shard in left.shards} <= {*names_in(f"{store}-s")}
    hs.write_shards(f"{corpus}/**", tokenizer, f"{store}-s", shard_size=20_000)
    hs.write_shards(f"{folder}/**", tokenizer, tmp_path / "shards", shard_size=20_000)
    assert contents(f"{store}-s") == contents(tmp_path / "shards")


def test_other_shards_are_refused(corpus, store, tokenizer):
    hs.write_shards(f"{corpus}/a.txt", tokenizer, f"{store}-s")
    with pytest.raises(hs.ConfigurationError, match=f"^{store}-s holds other shards: their corpus is"):
        hs.write_shards(f"{corpus}/c.jsonl", tokenizer, f"{store}-s")
    index = hs.write_shards(f"{corpus}/c.jsonl", tokenizer, f"{store}-s", overwrite=True)
    assert names_in(f"{store}-s") == ["index.json", "shard-00000.bin", "shard-00000.idx"]
    assert [*index.corpus] == [("c.jsonl", index.corpus[0][1])]


def test_of_two_runs_the_later_one_goes_on(corpus, store, tokenizer, tmp_path):
    def start_another(done, total):
        if not started:
            started.append(hs.write_shards(f"{corpus}/c.jsonl", tokenizer, f"{store}-s"))

    started = []
    with pytest.raises(hs.ConfigurationError, match=f"^another run has begun to write shards into {store}-s"):
        hs.write_shards(f"{corpus}/a.txt", tokenizer, f"{store}-s", show_progress=start_another)
    hs.write_shards(f"{corpus}/c.jsonl", tokenizer, tmp_path / "shards")
    assert contents(f"{store}-s") == contents(tmp_path / "shards")


def test_joined_shards(corpus, store, tokenizer, tmp_path, killed_at):
    settings = {"shard_size": 20_000}
    for number in range(3):
        part = {"part": (number, 3), **settings}
        hs.write_shards(f"{corpus}/*", tokenizer, f"{store}-p/part-{number}", **part)
        hs.write_shards(f"{corpus}/*", tokenizer, tmp_path / f"part-{number}", **part)
    hs.join_shards(f"{tmp_path}/part-*", tmp_path / "joined")
    wanted = contents(tmp_path / "joined")
    hs.join_shards(f"{store}-p/part-*", f"{store}-p/joined")
    assert contents(f"{store}-p/joined") == wanted
    hs.join_shards(f"{store}-p/part-*", tmp_path / "from-store")
    assert contents(tmp_path / "from-store") == wanted
    killed_at(3)
    with pytest.raises(KilledError):
        hs.join_shards(f"{tmp_path}/part-*", f"{store}-p/new")
    killed_at.undo()
    left = hs.ShardIndex.load(f"{store}-p/new")
    assert (left.complete, left.shards) == (False, ())
    hs.join_shards(f"{tmp_path}/part-*", f"{store}-p/new")
    assert contents(f"{store}-p/new") == wanted
    with pytest.raises(hs.ConfigurationError, match=f"^there is no folder {store}-p/nothing"):
        hs.join_shards(f"{store}-p/nothing*", tmp_path / "joined")


# ---- the command line


def run(*arguments):
    assert main([*map(str, arguments)]) == 0


def test_commands(corpus, store, folder, tmp_path, capsys):
    run("count", f"{corpus}/**", "-o", f"{store}-c/counts.parquet")
    run("count", f"{corpus}/**", "-o", f"{store}-c/spilled.parquet", "--max-memory", "1G")
    run("count", f"{folder}/**", "-o", tmp_path / "counts.parquet")
    wanted = (tmp_path / "counts.parquet").read_bytes()
    assert content(f"{store}-c/counts.parquet") == wanted == content(f"{store}-c/spilled.parquet")
    for number in range(2):
        run("count", f"{corpus}/**", "--part", f"{number}/2", "-o", f"{store}-c/part-{number}.parquet")
    run("merge-counts", f"{store}-c/part-*.parquet", "-o", f"{store}-c/all.parquet")
    assert content(f"{store}-c/all.parquet") == wanted
    run("mix-counts", f"{store}-c/all.parquet=1", "-o", f"{store}-c/mixed.parquet")
    assert content(f"{store}-c/mixed.parquet") == wanted
    for source, output in [(f"{store}-c/all.parquet", "a"), (tmp_path / "counts.parquet", "b")]:
        run("train", source, "--vocab-size", "300", "-o", tmp_path / output)
    run("train", f"{corpus}/**", "--vocab-size", "300", "-o", tmp_path / "c")
    trained = [(tmp_path / name / "artifact" / "merges.txt").read_bytes() for name in "abc"]
    assert trained[0] == trained[1] == trained[2]
    shards = ["-t", tmp_path / "a", "--to", "bin", "--part", "0/1", "-o"]
    run("tokenize", f"{corpus}/**", *shards, f"{store}-s/shards")
    run("tokenize", f"{folder}/**", *shards, tmp_path / "shards")
    assert contents(f"{store}-s/shards") == contents(tmp_path / "shards")
    capsys.readouterr()
    run("tokenize", "--file", f"{corpus}/a/z.txt", "-t", tmp_path / "a", "--to", "ids")
    lines = capsys.readouterr().out
    run("tokenize", "--file", folder / "a" / "z.txt", "-t", tmp_path / "a", "--to", "ids")
    assert lines == capsys.readouterr().out != ""


def test_command_errors(store, capsys, tmp_path):
    assert main(["train", f"{store}/a.txt", "-o", f"{store}/tokenizer"]) == 2
    assert f"{store}/tokenizer: tokenizers are saved to local folders" in capsys.readouterr().err
    assert main(["count", f"{store}/missing.txt", "-o", str(tmp_path / "a.parquet")]) == 2
    assert f"error: can't open {store}/missing.txt: No such file or directory" in capsys.readouterr().err
    assert main(["count", "foo://a", "-o", str(tmp_path / "a.parquet")]) == 2
    assert "foo://a: Protocol not known: foo" in capsys.readouterr().err
