"""Training shards: every format gives back the ids; a run that was stopped goes on to the same bytes."""

import errno
import gc
import hashlib
import json
import os
import re
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import datasets
import numpy as np
import pyarrow.parquet
import pytest
import toys
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

import hf_scaffold as hs
from hf_scaffold.shards import encoding, files, writing
from hf_scaffold.shards.files import FORMATS, Tokens
from hf_scaffold.shards.writing import INDEX_FILE, ShardIndex, write_shards

DOCUMENTS = [
    f"international bananas {n}: été 日本語本日\nnationality zone " + "hugs " * (n * 7 % 23)
    for n in range(40)
]
EOS = 1


@pytest.fixture(scope="module")
def tokenizer():
    return toys.tokenizer()


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.jsonl"
    write_rows(path, DOCUMENTS)
    return path


@pytest.fixture(autouse=True)
def many_batches(monkeypatch):
    """Several batches a shard, several shards a batch, several groups of rows a shard."""
    monkeypatch.setattr(writing, "BATCH_SIZE", 1000)
    monkeypatch.setattr(files, "ROW_GROUP", 60)


def write_rows(path, texts):
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")


def ids_of(tokenizer, texts, end=(EOS,)):
    rows = tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else []
    return [[*row, *end] for row in rows]


def grouped(rows, shard_size):
    """The rule, by hand: documents until there are shard_size tokens or more."""
    groups, n_tokens = [[]], 0
    for row in rows:
        if n_tokens >= shard_size:
            groups.append([])
            n_tokens = 0
        groups[-1].append(row)
        n_tokens += len(row)
    return groups


def flat(rows):
    return [token_id for row in rows for token_id in row]


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def states(folder):
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.glob("shard-*")}


def no_leftovers(folder):
    return not [path.name for path in folder.iterdir() if path.name.startswith(".")]


class Megatron:
    """Reads a .bin with its .idx, as the layout of Megatron's IndexedDataset says."""

    def __init__(self, prefix):
        data = prefix.with_suffix(".idx").read_bytes()
        assert data[:9] == b"MMIDIDX\x00\x00"
        version, code, n_sequences, n_documents = struct.unpack_from("<QBQQ", data, 9)
        assert version == 1
        offset = 34
        self.lengths = np.frombuffer(data, "<i4", n_sequences, offset)
        self.pointers = np.frombuffer(data, "<i8", n_sequences, offset := offset + self.lengths.nbytes)
        self.bounds = np.frombuffer(data, "<i8", n_documents, offset := offset + self.pointers.nbytes)
        assert len(data) == offset + self.bounds.nbytes
        self.dtype = {4: np.int32, 8: np.uint16}[code]
        self.tokens = prefix.with_suffix(".bin").read_bytes()

    def sequence(self, i):
        return np.frombuffer(self.tokens, self.dtype, self.lengths[i], self.pointers[i]).tolist()

    def documents(self):
        return [
            flat(map(self.sequence, range(first, last)))
            for first, last in zip(self.bounds[:-1], self.bounds[1:], strict=True)
        ]


def read_rows(path):
    """The documents of a shard; of .npy, which has no bounds, all in one."""
    if path.suffix == ".bin":
        return Megatron(path).documents()
    if path.suffix == ".npy":
        return [np.load(path, mmap_mode="r").tolist()]
    if path.suffix == ".parquet":
        return pyarrow.parquet.read_table(path)["input_ids"].to_pylist()
    return datasets.Dataset.from_file(str(path))["input_ids"][:]


# ---- formats


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("shard_size", [1, 150, 10**9])
def test_every_format_holds_the_documents_in_order(format, shard_size, tokenizer, corpus, tmp_path):
    index = write_shards(corpus, tokenizer, tmp_path / "out", format=format, shard_size=shard_size)
    expected = grouped(ids_of(tokenizer, DOCUMENTS), shard_size)
    assert [shard.name for shard in index.shards] == [f"shard-{n:05d}.{format}" for n in range(len(expected))]
    for shard, rows in zip(index.shards, expected, strict=True):
        found = read_rows(tmp_path / "out" / shard.name)
        assert found == ([flat(rows)] if format == "npy" else rows)
    assert no_leftovers(tmp_path / "out")


@pytest.mark.parametrize("format", FORMATS)
def test_the_index_is_true(format, tokenizer, corpus, tmp_path):
    out = tmp_path / "out"
    index = write_shards(corpus, tokenizer, out, format=format, shard_size=150)
    assert ShardIndex.load(out) == index == hs.ShardIndex.load(str(out))
    content = json.loads((out / INDEX_FILE).read_bytes())
    lines = [line.strip(b" ,") for line in (out / INDEX_FILE).read_bytes().splitlines()]
    for entry in content["corpus"] + content["shards"]:
        assert json.dumps(entry).encode() in lines
    expected = grouped(ids_of(tokenizer, DOCUMENTS), 150)
    for shard, rows in zip(content["shards"], expected, strict=True):
        data = (out / shard["name"]).read_bytes()
        assert (shard["n_documents"], shard["n_tokens"]) == (len(rows), len(flat(rows)))
        assert (shard["n_bytes"], shard["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
        idx = (out / shard["name"]).with_suffix(".idx")
        assert shard["idx_sha256"] == (
            hashlib.sha256(idx.read_bytes()).hexdigest() if format == "bin" else None
        )
    assert content["n_documents"] == index.n_documents == len(DOCUMENTS)
    assert content["n_tokens"] == index.n_tokens == len(flat(ids_of(tokenizer, DOCUMENTS)))
    assert index.n_bytes == sum(shard["n_bytes"] for shard in content["shards"])
    assert (index.complete, index.vocab_size, index.eos_token_id) == (True, len(tokenizer), EOS)
    assert index.corpus == (("corpus.jsonl", corpus.stat().st_size),)


def test_bin_reads_as_nanogpt_does(tokenizer, corpus, tmp_path):
    index = write_shards(corpus, tokenizer, tmp_path / "out")
    data = np.memmap(tmp_path / "out" / index.shards[0].name, dtype=np.uint16, mode="r")
    assert data.tolist() == flat(ids_of(tokenizer, DOCUMENTS))


def test_a_group_of_rows_has_documents_until_it_is_full(tokenizer, corpus, tmp_path):
    index = write_shards(corpus, tokenizer, tmp_path / "out", format="parquet", shard_size=10**9)
    metadata = pyarrow.parquet.read_metadata(tmp_path / "out" / index.shards[0].name)
    n_rows = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    assert n_rows == [len(rows) for rows in grouped(ids_of(tokenizer, DOCUMENTS), files.ROW_GROUP)]


def test_rows_load_with_datasets(tokenizer, corpus, tmp_path):
    expected = ids_of(tokenizer, DOCUMENTS)
    write_shards(corpus, tokenizer, tmp_path / "parquet", format="parquet", shard_size=150)
    loaded = datasets.load_dataset(
        "parquet", data_files=str(tmp_path / "parquet" / "*.parquet"), cache_dir=str(tmp_path), split="train"
    )
    assert loaded["input_ids"][:] == expected
    index = write_shards(corpus, tokenizer, tmp_path / "arrow", format="arrow", shard_size=150)
    parts = [datasets.Dataset.from_file(str(tmp_path / "arrow" / shard.name)) for shard in index.shards]
    assert datasets.concatenate_datasets(parts)["input_ids"][:] == expected


@pytest.mark.parametrize(("size", "dtype"), [(1 << 16, "uint16"), ((1 << 16) + 1, "uint32")])
def test_ids_are_as_wide_as_the_vocabulary_needs(size, dtype, tmp_path):
    tokenizer = toys.tokenizer()
    tokenizer.add_tokens([f"<{n}>" for n in range(size - len(tokenizer))])
    assert len(tokenizer) == size
    last = tokenizer.convert_ids_to_tokens(size - 1)
    (tmp_path / "text.txt").write_text(f"hug{last}hug", encoding="utf-8")
    expected = ids_of(tokenizer, [f"hug{last}hug"])
    assert expected[0][1] == size - 1
    for format in FORMATS:
        index = write_shards(tmp_path / "text.txt", tokenizer, tmp_path / format, format=format)
        assert (index.dtype, index.vocab_size) == (dtype, size)
        assert read_rows(tmp_path / format / index.shards[0].name) == expected


def test_the_largest_id_counts_and_not_the_number_of_tokens(tmp_path):
    backend = Tokenizer(models.BPE({**{chr(0x4E00 + i): i for i in range(20_000)}, "b": 1 << 16}, []))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = hs.ScaffoldTokenizerFast(
        tokenizer_object=backend, scaffold={"version": 1, "merges": [], "demolish": {}}
    )
    (tmp_path / "text.txt").write_text("一b", encoding="utf-8")
    index = write_shards(tmp_path / "text.txt", tokenizer, tmp_path / "out")
    assert (index.dtype, index.vocab_size) == ("uint32", (1 << 16) + 1)
    assert read_rows(tmp_path / "out" / index.shards[0].name) == [[0, 1 << 16]]


def test_a_document_too_long_for_int32(tokenizer, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_LENGTH", 25)
    index = write_shards(corpus, tokenizer, tmp_path / "out")
    reader = Megatron(tmp_path / "out" / index.shards[0].name)
    assert max(reader.lengths) <= 25
    assert reader.documents() == ids_of(tokenizer, DOCUMENTS)
    monkeypatch.setattr(files, "ROW_GROUP", 1)
    with pytest.raises(hs.CorpusError, match="too long for a row"):
        write_shards(corpus, tokenizer, tmp_path / "rows", format="parquet")
    assert not (tmp_path / "rows").exists()


# ---- documents


def test_a_plain_text_file_is_a_document_and_with_lines_each_line(tokenizer, tmp_path):
    texts = ["hugs\n\nbananas\n", "nation"]
    for name, text in zip("ab", texts, strict=True):
        (tmp_path / f"{name}.txt").write_bytes(text.encode())
    whole = write_shards(tmp_path / "*.txt", tokenizer, tmp_path / "whole")
    assert read_rows(tmp_path / "whole" / whole.shards[0].name) == ids_of(tokenizer, texts)
    paths = [tmp_path / "b.txt", str(tmp_path / "a.txt")]
    lines = write_shards(paths, tokenizer, tmp_path / "lines", lines=True)
    expected = ids_of(tokenizer, ["nation", "hugs\n", "\n", "bananas\n"])
    assert read_rows(tmp_path / "lines" / lines.shards[0].name) == expected


def test_eos_is_added_unless_it_is_not_wanted_or_not_there(tokenizer, corpus, tmp_path):
    plain = ids_of(tokenizer, DOCUMENTS, end=())
    index = write_shards(corpus, tokenizer, tmp_path / "without", add_eos=False)
    assert index.eos_token_id is None
    assert read_rows(tmp_path / "without" / index.shards[0].name) == plain
    nameless = toys.tokenizer()
    nameless.eos_token = None
    index = write_shards(corpus, nameless, tmp_path / "nameless")
    assert read_rows(tmp_path / "nameless" / index.shards[0].name) == plain
    with pytest.raises(hs.ConfigurationError, match="no eos_token"):
        write_shards(corpus, nameless, tmp_path / "wanted", add_eos=True)
    assert not (tmp_path / "wanted").exists()


@pytest.mark.parametrize("add_eos", [True, False])
@pytest.mark.parametrize("n_more", [0, 1 << 16])
def test_shards_are_the_same_where_only_the_backend_can_encode(n_more, add_eos, tmp_path, monkeypatch):
    """Only the backend knows whether a word stands alone beside a combining mark."""
    tokenizer = toys.tokenizer()
    tokenizer.add_tokens([AddedToken("hug", single_word=True), *(f"<{n}>" for n in range(n_more))])
    texts = ["hug", "a hug\u0301 hug", "\u0301hug", "hugs " * 900, "hug\u200d"]
    write_rows(tmp_path / "a.jsonl", texts)
    (tmp_path / "b.txt").write_text("hugs\nbananas hug\u0301 hug zone " * 300, encoding="utf-8")
    corpus = [tmp_path / "a.jsonl", tmp_path / "b.txt"]
    native = write_shards(corpus, tokenizer, tmp_path / "native", add_eos=add_eos)
    monkeypatch.setattr(encoding, "session_for", lambda tokenizer: None)
    monkeypatch.setattr(tokenizer, "native", False)
    general = write_shards(corpus, tokenizer, tmp_path / "general", add_eos=add_eos)
    assert contents(tmp_path / "native") == contents(tmp_path / "general")
    assert native == general
    end = [EOS] if add_eos else []
    found = read_rows(tmp_path / "native" / native.shards[0].name)
    assert found == ids_of(tokenizer, [*texts, (tmp_path / "b.txt").read_text(encoding="utf-8")], end)


def test_no_template_is_applied(corpus, tmp_path):
    framed = toys.tokenizer(post_processor="bos and eos")
    index = write_shards(corpus, framed, tmp_path / "out")
    assert read_rows(tmp_path / "out" / index.shards[0].name) == ids_of(framed, DOCUMENTS)


@pytest.mark.parametrize("split_special_tokens", [False, True])
def test_special_tokens_in_text_are_as_in_a_call(split_special_tokens, corpus, tmp_path):
    tokenizer = toys.tokenizer(split_special_tokens=split_special_tokens)
    write_rows(corpus, ["hug<|bos|>hug"])
    index = write_shards(corpus, tokenizer, tmp_path / "out")
    found = read_rows(tmp_path / "out" / index.shards[0].name)
    assert found == ids_of(tokenizer, ["hug<|bos|>hug"])
    assert (0 in found[0]) is not split_special_tokens


def test_a_long_document_fills_a_shard_alone(tokenizer, corpus, tmp_path):
    texts = ["hugs " * 500, "nation " * 300, "hug", "hug"]
    write_rows(corpus, texts)
    index = write_shards(corpus, tokenizer, tmp_path / "out", shard_size=100)
    assert [shard.n_documents for shard in index.shards] == [1, 1, 2]


@pytest.mark.parametrize("row_group", [60, 5])
def test_documents_without_tokens_count(row_group, tmp_path, monkeypatch):
    """As where a limited alphabet drops all characters. The last one may be all that is left of a part."""
    monkeypatch.setattr(files, "ROW_GROUP", row_group)
    part = Tokens(np.arange(5, dtype=np.int32), np.array([0, 2, 2, 5, 5]))
    assert [[len(first), len(rest), full] for first, rest, full in [sizes(part.split(2))]] == [[2, 3, True]]
    for format in FORMATS:
        writer = files.open_shard(tmp_path, 0, format, "uint16")
        writer.add(part)
        shard = writer.finish()
        assert (shard.n_documents, shard.n_tokens) == (5, 5)
        if format != "npy":
            assert read_rows(tmp_path / shard.name) == [[], [0, 1], [], [2, 3, 4], []]


def sizes(split):
    first, rest, is_full = split
    return first.ends, rest.ends, is_full


@pytest.mark.parametrize("pre_tokenizer", ["digits", "prefix space"])
def test_cutting_a_long_text_changes_no_id(pre_tokenizer, tmp_path):
    tokenizer = toys.tokenizer(pre_tokenizer=pre_tokenizer)
    text = "international<|bos|>hugs été<|pad|> 日本語\n<|eos|>... hug-zone 12,5  \n\t" * 30_000
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    index = write_shards(tmp_path / "text.txt", tokenizer, tmp_path / "out")
    assert read_rows(tmp_path / "out" / index.shards[0].name) == ids_of(tokenizer, [text])


ADDED = {
    "plain": {},
    "lstrip": {"lstrip": True},
    "rstrip": {"rstrip": True},
    "single word": {"single_word": True},
    "not normalized": {"normalized": False},
}


@pytest.mark.parametrize("content", ["<|end|>", "one two", "zone", "\n\n", "..."])
@pytest.mark.parametrize("flags", ADDED)
@pytest.mark.parametrize("preset", hs.PRESETS)
def test_every_cut_is_safe(content, flags, preset):
    tokenizer = toys.tokenizer()
    tokenizer.backend_tokenizer.pre_tokenizer = hs.get_pre_tokenizer(preset).pre_tokenizer
    tokenizer.add_tokens([AddedToken(content, **ADDED[flags])])
    text = (
        f"hugs {content} 12 {content}zone.{content}\n{content}\n\n  one two' {content} été,one two\n日本 語"
    )
    data = text.encode()
    cut = writing._cut_for(tokenizer)
    cuts = {cut(data[:end]) for end in range(len(data))} - {0}
    may_cut = not ADDED[flags].keys() & {"lstrip", "rstrip"} and content not in ("one two", "\n\n")
    assert bool(cuts) == may_cut
    (expected,) = ids_of(tokenizer, [text], end=())
    for position in cuts:
        halves = [data[:position].decode(), data[position:].decode()]
        assert flat(ids_of(tokenizer, halves, end=())) == expected, halves


def test_other_pre_tokenizers_are_never_cut():
    tokenizer = toys.tokenizer()
    for other in (None, pre_tokenizers.Whitespace(), pre_tokenizers.ByteLevel(add_prefix_space=True)):
        tokenizer.backend_tokenizer.pre_tokenizer = other
        assert writing._cut_for(tokenizer)(b"one two three") == 0


# ---- the same bytes, whatever happens


@pytest.mark.parametrize("format", FORMATS)
def test_a_stopped_run_goes_on(format, tokenizer, corpus, tmp_path, monkeypatch):
    write_shards(corpus, tokenizer, tmp_path / "whole", format=format, shard_size=150)
    expected = contents(tmp_path / "whole")
    out = tmp_path / "out"
    add, n_calls = files.ShardWriter.add, 0
    for run, last_call in enumerate((1, 4, 9, 1)):

        def add_some(writer, part, last_call=last_call):
            nonlocal n_calls
            n_calls += 1
            add(writer, part)
            if n_calls == last_call:
                raise KeyboardInterrupt

        n_calls = 0
        with monkeypatch.context() as patched:
            patched.setattr(files.ShardWriter, "add", add_some)
            with pytest.raises(KeyboardInterrupt):
                write_shards(corpus, tokenizer, out, format=format, shard_size=150)
        if run == 0:  # nothing is finished that could be gone on with
            assert not out.exists()
            continue
        index = ShardIndex.load(out)
        assert not index.complete
        assert no_leftovers(out)
        assert {path.stem for path in out.glob("shard-*")} == {Path(s.name).stem for s in index.shards}
    assert index.shards
    before = states(out)
    index = write_shards(corpus, tokenizer, out, format=format, shard_size=150)
    assert index.complete
    assert contents(out) == expected
    assert before.items() <= states(out).items()
    before = states(out)
    assert write_shards(corpus, tokenizer, out, format=format, shard_size=150) == index
    assert states(out) == before


def test_a_killed_run_goes_on(tokenizer, corpus, tmp_path):
    write_shards(corpus, tokenizer, tmp_path / "whole", shard_size=150)
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    code = f"""
import os, signal
from hf_scaffold import ScaffoldTokenizerFast
from hf_scaffold.shards import encoding, files, writing
writing.BATCH_SIZE, files.ROW_GROUP = 1000, 60
finish, n_calls = files.ShardWriter.finish, 0
def finish_some(writer):
    global n_calls
    n_calls += 1
    if n_calls == 3:
        writer.stream.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    return finish(writer)
files.ShardWriter.finish = finish_some
tokenizer = ScaffoldTokenizerFast.from_pretrained({str(tmp_path / "tokenizer")!r})
writing.write_shards({str(corpus)!r}, tokenizer, {str(tmp_path / "out")!r}, shard_size=150)
"""
    killed = subprocess.run([sys.executable, "-c", code], timeout=120, cwd=tmp_path)
    assert killed.returncode == -signal.SIGKILL
    out = tmp_path / "out"
    assert len(ShardIndex.load(out).shards) == 2
    assert [path.name for path in out.glob("*shard-00002*")] == [".shard-00002.bin.tmp"]
    before = states(out)
    write_shards(corpus, tokenizer, out, shard_size=150)
    assert contents(out) == contents(tmp_path / "whole")
    assert before.items() <= states(out).items()


def test_a_shard_that_is_missing_or_cut_short_is_made_again(tokenizer, corpus, tmp_path):
    out = tmp_path / "out"
    index = write_shards(corpus, tokenizer, out, shard_size=150)
    expected = contents(out)
    (out / index.shards[2].name).unlink()
    write_shards(corpus, tokenizer, out, shard_size=150)
    assert contents(out) == expected
    os.truncate(out / index.shards[1].name, 10)
    write_shards(corpus, tokenizer, out, shard_size=150)
    assert contents(out) == expected
    (out / index.shards[2].name).with_suffix(".idx").unlink()
    write_shards(corpus, tokenizer, out, shard_size=150)
    assert contents(out) == expected


def test_a_second_run_at_the_same_time_is_refused(tokenizer, corpus, tmp_path):
    """It would remove the first one's files, and write its own under their names."""
    out = tmp_path / "out"

    def second(*_):
        with pytest.raises(hs.ConfigurationError, match=r"another run is writing shards into .*out"):
            write_shards(corpus, tokenizer, out, shard_size=150, overwrite=True)
        refused.append(True)

    refused = []
    index = write_shards(corpus, tokenizer, out, shard_size=150, show_progress=second)
    assert refused
    assert contents(out).keys() >= {INDEX_FILE, *(shard.name for shard in index.shards)}
    assert no_leftovers(out)
    assert write_shards(corpus, tokenizer, out, shard_size=150, overwrite=True) == index


def refuse_locks(monkeypatch, number):
    def flock(descriptor, operation):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", flock)


# What NFS without a lock daemon answers, and what others do that don't implement locks.
@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_file_systems_without_locks_will_do(number, tokenizer, corpus, tmp_path, monkeypatch):
    refuse_locks(monkeypatch, number)
    assert write_shards(corpus, tokenizer, tmp_path / "out", shard_size=150).complete


def test_other_errors_of_the_lock_are_not_hidden(tokenizer, corpus, tmp_path, monkeypatch):
    refuse_locks(monkeypatch, errno.EIO)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        write_shards(corpus, tokenizer, tmp_path / "out", shard_size=150)
    assert not list(tmp_path.rglob("shard*"))


def test_threads_and_blocks_change_nothing(tokenizer, corpus, tmp_path, monkeypatch):
    write_shards(corpus, tokenizer, tmp_path / "one", format="parquet", shard_size=150)
    monkeypatch.setattr(writing, "BATCH_SIZE", 1 << 24)
    monkeypatch.setattr("hf_scaffold.engine.inputs.LEAST_FOR_THREADS", 0)
    monkeypatch.setenv("RAYON_NUM_THREADS", "4")
    write_shards(corpus, tokenizer, tmp_path / "four", format="parquet", shard_size=150)
    assert contents(tmp_path / "four") == contents(tmp_path / "one")


def test_the_general_path_gives_the_same_bytes(tokenizer, corpus, tmp_path):
    write_shards(corpus, tokenizer, tmp_path / "native", shard_size=150)
    general = toys.tokenizer(native=False)
    write_shards(corpus, general, tmp_path / "general", shard_size=150)
    assert contents(tmp_path / "general") == contents(tmp_path / "native")


def test_memory_holds_few_batches(tokenizer, tmp_path, monkeypatch):
    """The reader is never more than a batch ahead of the one that is encoded ahead."""
    write_rows(tmp_path / "corpus.jsonl", DOCUMENTS * 5)
    n_read, lead = 0, []

    def counted(texts):
        nonlocal n_read
        for some in texts:
            n_read += some.n_bytes
            yield some

    add, n_written = files.ShardWriter.add, 0

    def add_and_look(writer, part):
        nonlocal n_written
        time.sleep(0.001)
        add(writer, part)
        n_written += len(tokenizer.decode(part.ids[part.ids > 2]).encode())
        lead.append(n_read - n_written)

    joined = writing.joined
    monkeypatch.setattr(writing, "joined", lambda texts, size: joined(counted(texts), size))
    monkeypatch.setattr(files.ShardWriter, "add", add_and_look)
    write_shards(tmp_path / "corpus.jsonl", tokenizer, tmp_path / "out")
    assert n_read == n_written > 20_000
    assert max(lead) < 3 * 1200  # a batch ends with a document


def test_what_was_measured_of_a_tokenizer_changes_no_shard(tokenizer, corpus, tmp_path):
    scaffold = {**tokenizer.scaffold, "raw_agreement_merges_only": 0.25, "raw_agreement_unseen": 0.5}
    other = hs.ScaffoldTokenizerFast(
        tokenizer_object=tokenizer.backend_tokenizer, scaffold=scaffold, **toys.NAMED
    )
    first, second = (write_shards(corpus, each, tmp_path / "out") for each in (tokenizer, other))
    assert first.tokenizer_sha256 == second.tokenizer_sha256


# ---- what is refused


def test_other_shards_are_refused_and_overwritten_only_when_asked(tokenizer, corpus, tmp_path):
    out = tmp_path / "out"
    options = {"shard_size": 150}
    write_shards(corpus, tokenizer, out, **options)
    before = contents(out)
    other = tmp_path / "other.jsonl"
    write_rows(other, DOCUMENTS[:3])
    changed = toys.tokenizer()
    changed.add_tokens(["zone"])
    cases = [
        ((corpus, changed), options, "vocab_size"),
        ((corpus, toys.tokenizer(split_special_tokens=True)), options, "tokenizer_sha256"),
        ((other, tokenizer), options, "corpus"),
        (([corpus, other], tokenizer), options, "corpus"),
        ((corpus, tokenizer), {"shard_size": 151}, "shard_size is 150, not 151"),
        ((corpus, tokenizer), {**options, "format": "npy"}, "format is 'bin', not 'npy'"),
        ((corpus, tokenizer), {**options, "add_eos": False}, "eos_token_id is 1, not None"),
        ((corpus, tokenizer), {**options, "lines": True}, "lines is False, not True"),
        ((corpus, tokenizer), {**options, "text_field": "body"}, "field is 'text', not 'body'"),
    ]
    for arguments, wanted, reason in cases:
        with pytest.raises(hs.ConfigurationError, match=re.escape(reason)) as caught:
            write_shards(*arguments, out, **wanted)
        assert "overwrite" in str(caught.value)
        assert contents(out) == before
    (out / ".shard-00003.bin.tmp").write_bytes(b"half of a shard")
    write_shards(other, tokenizer, out, format="npy", overwrite=True)
    assert {*contents(out)} == {"index.json", "shard-00000.npy"}
    assert read_rows(out / "shard-00000.npy") == [flat(ids_of(tokenizer, DOCUMENTS[:3]))]


def test_a_corpus_of_another_size_is_another_one(tokenizer, corpus, tmp_path):
    write_shards(corpus, tokenizer, tmp_path / "out")
    write_rows(corpus, [*DOCUMENTS, "hug"])
    with pytest.raises(hs.ConfigurationError, match="their corpus is"):
        write_shards(corpus, tokenizer, tmp_path / "out")


def test_a_tokenizer_of_other_merges_is_another_one(tokenizer, corpus, tmp_path):
    """Though its vocabulary and its tokenizer.json are the same."""
    write_shards(corpus, tokenizer, tmp_path / "out")
    scaffold = {
        **tokenizer.scaffold,
        "merges": [*tokenizer.scaffold["merges"], ["q", "z"]],
        "demolish": {**tokenizer.scaffold["demolish"], "qz": ["q", "z"]},
    }
    other = hs.ScaffoldTokenizerFast(
        tokenizer_object=tokenizer.backend_tokenizer, scaffold=scaffold, **toys.NAMED
    )
    with pytest.raises(hs.ConfigurationError, match="their tokenizer_sha256 is"):
        write_shards(corpus, other, tmp_path / "out")


def test_a_tokenizer_that_changed_is_another_one(corpus, tmp_path):
    changing = toys.tokenizer()
    write_shards(corpus, changing, tmp_path / "out")
    assert write_shards(corpus, changing, tmp_path / "out").complete
    changing.backend_tokenizer.normalizer = toys.NORMALIZERS["lowercase"]
    with pytest.raises(hs.ConfigurationError, match="their tokenizer_sha256 is"):
        write_shards(corpus, changing, tmp_path / "out")


def test_shards_of_the_first_release_are_resumed(tokenizer, corpus, tmp_path):
    out = tmp_path / "out"
    write_shards(corpus, tokenizer, out, shard_size=150)
    data = contents(out)
    scaffold = {name: part for name, part in tokenizer.scaffold.items() if name[:13] != "raw_agreement"}
    parts = [
        tokenizer.backend_tokenizer.to_str(),
        json.dumps({**scaffold, "raw_agreement": None}, sort_keys=True),
        "false",
    ]
    index = json.loads(data[INDEX_FILE])
    index["tokenizer_sha256"] = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    index["complete"] = False
    (out / INDEX_FILE).write_text(json.dumps(index))
    (out / "shard-00001.bin").unlink()
    assert write_shards(corpus, tokenizer, out, shard_size=150).complete
    assert {**contents(out), INDEX_FILE: b""} == {**data, INDEX_FILE: b""}


def test_overwriting_makes_all_shards_anew(tokenizer, corpus, tmp_path):
    out = tmp_path / "out"
    write_shards(corpus, tokenizer, out, shard_size=150)
    data = contents(out)
    (out / "shard-00001.bin").write_bytes(data["shard-00001.bin"][::-1])
    write_shards(corpus, tokenizer, out, shard_size=150, overwrite=True)
    assert contents(out) == data


def test_shards_without_an_index_are_someone_elses(tokenizer, corpus, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "shard-00007.parquet").write_bytes(b"precious")
    with pytest.raises(hs.ConfigurationError, match=r"holds shards, but no index\.json"):
        write_shards(corpus, tokenizer, out)
    assert contents(out) == {"shard-00007.parquet": b"precious"}


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"version": 1}', b'{"version": 2}', b"\xff"])
def test_an_index_that_is_none(data, tokenizer, corpus, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / INDEX_FILE).write_bytes(data)
    with pytest.raises(hs.ArtifactError, match=r"out/index\.json"):
        write_shards(corpus, tokenizer, out)
    assert write_shards(corpus, tokenizer, out, overwrite=True).complete


def test_other_files_in_the_folder_stay(tokenizer, corpus, tmp_path):
    names = {"README.md", "shard-1.bin", "shards.bin", ".shard-00000.bin.tmp~", "my-shard-00000.bin"}
    for name in names:
        (tmp_path / name).write_bytes(b"kept")
    write_shards(corpus, tokenizer, tmp_path, overwrite=True)
    assert {name for name, data in contents(tmp_path).items() if data == b"kept"} == names


def test_empty_corpus(tokenizer, tmp_path):
    (tmp_path / "empty.txt").write_bytes(b"")
    with pytest.raises(hs.CorpusError, match=r"nothing to encode in '.*empty\.txt'"):
        write_shards(tmp_path / "empty.txt", tokenizer, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "text.txt").write_bytes(b"hug")
    assert write_shards(tmp_path / "text.txt", tokenizer, tmp_path / "out").n_documents == 1


def test_bad_text_is_named_and_what_is_finished_stays(tokenizer, corpus, tmp_path):
    (tmp_path / "latin1.txt").write_bytes(b"good\nna\xefve\n")
    out = tmp_path / "out"
    paths = [corpus, tmp_path / "latin1.txt"]
    with pytest.raises(hs.CorpusError, match=r"latin1\.txt is not UTF-8: byte 0xef at offset 7"):
        write_shards(paths, tokenizer, out, shard_size=150)
    assert no_leftovers(out)
    assert len(ShardIndex.load(out).shards) > 3
    (tmp_path / "latin1.txt").write_bytes(b"good\nnaive\n")
    before = states(out)
    write_shards(paths, tokenizer, out, shard_size=150)
    assert before.items() <= states(out).items()
    found = [row for shard in ShardIndex.load(out).shards for row in read_rows(out / shard.name)]
    assert found == ids_of(tokenizer, [*DOCUMENTS, "good\nnaive\n"])


def test_a_corpus_that_shrank_unnoticed(tokenizer, corpus, tmp_path, monkeypatch):
    out = tmp_path / "out"
    write_shards(corpus, tokenizer, out, shard_size=150)
    (out / ShardIndex.load(out).shards[-1].name).unlink()
    size = corpus.stat().st_size
    write_rows(corpus, ["h" * (size - len('{"text": ""}\n'))])
    assert corpus.stat().st_size == size
    with pytest.raises(hs.CorpusError, match="fewer documents"):
        write_shards(corpus, tokenizer, out, shard_size=150)


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"format": "hdf5"}, "choose bin, npy"), ({"shard_size": 0}, "shard_size is 0; it must be at least 1")],
)
def test_bad_options(options, reason, tokenizer, corpus, tmp_path):
    with pytest.raises(hs.ConfigurationError, match=reason):
        write_shards(corpus, tokenizer, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be(tokenizer, corpus, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotADirectoryError):
        write_shards(corpus, tokenizer, tmp_path / "file")
    with pytest.raises(hs.CorpusError, match=r"missing\.txt"):
        write_shards(tmp_path / "missing.txt", tokenizer, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_missing_pyarrow_is_said_first(tokenizer, corpus, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(hs.ConfigurationError, match=r"hf_scaffold\[parquet\]"):
        write_shards(corpus, tokenizer, tmp_path / "out", format="arrow")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("format", FORMATS)
def test_a_shard_that_is_discarded_leaves_no_file(format, tmp_path):
    writer = files.open_shard(tmp_path, 0, format, "uint16")
    writer.add(Tokens(np.arange(100, dtype=np.int32), np.array([70, 100])))
    assert [path.name for path in tmp_path.iterdir()] == [f".shard-00000.{format}.tmp"]
    writer.discard()
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("answer", ["done", "refused", "unknown"])
def test_the_disk_is_asked_early_and_may_refuse(answer, tokenizer, corpus, tmp_path, monkeypatch):
    write_shards(corpus, tokenizer, tmp_path / "expected")
    asked = []

    def advise(descriptor, begin, size, advice):
        asked.append((begin, begin + size))
        if answer == "refused":
            raise OSError(errno.EINVAL, "not on this disk")

    monkeypatch.setattr(files, "WRITE_BACK", 500)
    monkeypatch.setattr(os, "posix_fadvise", advise, raising=False)
    if answer == "unknown":
        monkeypatch.delattr(os, "posix_fadvise")
    write_shards(corpus, tokenizer, tmp_path / "out")
    assert contents(tmp_path / "out") == contents(tmp_path / "expected")
    n_bytes = (tmp_path / "out/shard-00000.bin").stat().st_size
    if answer == "unknown":
        assert not asked
    else:  # for one range after another
        assert [begin for begin, _ in asked] == [0, *(end for _, end in asked[:-1])]
        assert n_bytes - 500 < asked[-1][1] <= n_bytes


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_failure_leaves_no_file_and_no_thread(format, tokenizer, corpus, tmp_path, monkeypatch):
    n_threads = threading.active_count()
    for owner, name in ((files, "publish"), (files.WRITERS[format], "sha256")):
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, lambda *_: 1 // 0)
            with pytest.raises(ZeroDivisionError):
                write_shards(corpus, tokenizer, tmp_path / "out", format=format, shard_size=150)
        gc.collect()
    assert threading.active_count() == n_threads
    assert not (tmp_path / "out").exists()


def test_progress_goes_to_the_end(tokenizer, corpus, tmp_path):
    seen = []
    write_shards(corpus, tokenizer, tmp_path / "out", show_progress=lambda *report: seen.append(report))
    size = corpus.stat().st_size
    assert seen[-1] == (size, size)


@pytest.mark.parametrize("format", FORMATS)
def test_a_full_disk_names_the_path_and_leaves_only_what_is_finished(format, tokenizer, corpus, tmp_path):
    write_shards(corpus, tokenizer, tmp_path / "whole", format=format, shard_size=600)
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    code = f"""
import errno, pathlib, resource, shutil, signal
from hf_scaffold import ScaffoldTokenizerFast
from hf_scaffold.shards import encoding, files, writing
writing.BATCH_SIZE, files.ROW_GROUP = 1000, 60
tokenizer = ScaffoldTokenizerFast.from_pretrained({str(tmp_path / "tokenizer")!r})
out = pathlib.Path({str(tmp_path / "new" / "out")!r})
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
failed = 0
for limit in (0, 60, 300, 700, 800, 900, 1000, 1100, 1200, 1300, 1500):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        writing.write_shards({str(corpus)!r}, tokenizer, out, format={format!r}, shard_size=600)
    except OSError as error:
        failed += 1
        assert error.errno == errno.EFBIG, error
        assert str(error.filename).startswith(str(out)), error
    if out.parent.exists():
        listed = [pathlib.Path(shard.name).stem for shard in writing.ShardIndex.load(out).shards]
        assert listed
        assert {{path.stem for path in out.iterdir()}} == {{"index", *listed}}, sorted(out.iterdir())
        shutil.rmtree(out.parent)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
writing.write_shards({str(corpus)!r}, tokenizer, out, format={format!r}, shard_size=600)
print(failed)
"""
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 3
    assert "Exception ignored" not in done.stderr
    assert contents(tmp_path / "new" / "out") == contents(tmp_path / "whole")


def test_what_a_run_left_that_was_killed_at_its_end_goes(tokenizer, corpus, tmp_path):
    out = tmp_path / "out"
    index = write_shards(corpus, tokenizer, out)
    before = contents(out)
    (out / writing.LOCK_FILE).touch()
    (out / ".saving.lock").touch()
    (out / ".saving-0123").mkdir()
    (out / ".saving-0123" / INDEX_FILE).write_text("half of")
    assert write_shards(corpus, tokenizer, out) == index
    assert contents(out) == before
    assert {path.name for path in out.iterdir()} == set(map(str, before))


def test_a_pipe_is_no_corpus_to_go_on_with(tokenizer, tmp_path):
    """Nothing tells its text from another; the shards of the first were taken for those of the second."""

    def piped(text, **options):
        writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=(text,))
        writer.start()
        try:
            return write_shards(tmp_path / "pipe", tokenizer, tmp_path / "out", **options)
        finally:
            (tmp_path / "pipe").read_text() if writer.is_alive() else None
            writer.join()

    os.mkfifo(tmp_path / "pipe")
    assert piped("hugs").n_tokens == len(ids_of(tokenizer, ["hugs"])[0])
    with pytest.raises(hs.ConfigurationError, match=r"out holds shards, and .*pipe is a pipe"):
        piped("bananas and hugs")
    text = "bananas and hugs"
    assert piped(text, overwrite=True).n_tokens == len(ids_of(tokenizer, [text])[0])
