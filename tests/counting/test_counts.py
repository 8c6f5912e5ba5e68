"""A corpus has one table, however it is stored, cut, spread over workers or merged; bad input is named."""

import gzip
import json
import lzma
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections import Counter
from fractions import Fraction
from functools import partial, reduce
from pathlib import Path

import datasets
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex
from tokenizers.normalizers import NFD, Lowercase, Sequence
from tokenizers.pre_tokenizers import Metaspace, Split, Whitespace

from hf_scaffold._core.counter import PretokenCounter, last_cut
from hf_scaffold.counting.counting import count
from hf_scaffold.counting.counts import PreTokenCounts
from hf_scaffold.errors import ArtifactError, ConfigurationError, CorpusError, CountOverflowError
from hf_scaffold.tables import files
from hf_scaffold.text.corpus import iter_documents
from hf_scaffold.text.files import import_zstd
from hf_scaffold.text.pre_tokenizers import get_pre_tokenizer

PRESETS = ["gpt2", "gpt2-digits", "llama3", "gpt4o"]
MAX = 2**63 - 1

NASTY = (
    "  The cat's   tail, they'll  say'S\tdon't\t\t 'tis \r\n\r\nIt's 12 345,678.9\r \r  \n"
    "cafe\u0301 na\u0131\u0308ve \u00a0nbsp\u00a0\u00a0 \u2003em\u3000ideographic \u200bzwsp\n \n"
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001d7d8\U0001d7d9 \U00020000\U00020001 ١٢٣٤ Ⅷ½ "
    "//path/to//file.txt!!\n\n?!\r\n...\n/\n \u0301alone 我喜歡你們三個人、真的。\n"
    "ǅungla ŉ'S İ'LL O'Re HTMLParser camelCase \u02bcn x\u0300\u0301y'd've    "
)


def whole(text: str, pre_tokenizer="gpt2-digits", normalizer=None) -> Counter[bytes]:
    return Counter(get_pre_tokenizer(pre_tokenizer, normalizer).pre_tokenize(text))


def write_all_kinds(folder: Path, text: str) -> list[Path]:
    """The text as one document, in every kind of file."""
    data, row = text.encode(), (json.dumps({"text": text}) + "\n").encode()
    compressors = {
        "": bytes,
        ".gz": gzip.compress,
        ".xz": lzma.compress,
        ".zst": import_zstd().compress,
    }
    paths = []
    for suffix, compress in compressors.items():
        for name, content in (("text.txt", data), ("rows.jsonl", row)):
            paths.append(folder / (name + suffix))
            paths[-1].write_bytes(compress(content))
    paths.append(folder / "rows.parquet")
    pyarrow.parquet.write_table(pyarrow.table({"text": [text]}), paths[-1])
    return paths


# Cutting


@pytest.mark.parametrize("preset", PRESETS)
def test_blocks_of_every_size_give_the_pretokens_of_the_whole_file(tmp_path, preset):
    pre_tokenize = get_pre_tokenizer(preset).pre_tokenize
    expected = pre_tokenize(NASTY)
    paths = [path for path in write_all_kinds(tmp_path, NASTY) if path.name.startswith("text")]

    def blocks_of(source, block_size):
        return list(iter_documents(source, cut=lambda text: last_cut(text, preset), block_size=block_size))

    n_cut = 0
    for block_size in range(1, len(NASTY.encode()) + 2):
        blocks = blocks_of(paths[0], block_size)
        for pieces in (blocks, blocks_of([NASTY], block_size)):
            assert [pretoken for piece in pieces for pretoken in pre_tokenize(piece.decode())] == expected
        assert all(blocks_of(path, block_size) == blocks for path in paths[1:])
        n_cut += len(blocks) > 1
    assert n_cut > len(NASTY) // 2


@pytest.mark.parametrize("preset", PRESETS)
@given(
    text=st.text(st.sampled_from(" \n\r\tas'\u2019lS/1٣.!é\u0301\u00a0\u3000三😀\u200d"), max_size=40),
    data=st.data(),
)
@settings(max_examples=200)
def test_random_text_is_cut_where_no_pretoken_changes(preset, text, data):
    block_size = data.draw(st.integers(1, len(text.encode()) + 1))
    counter = PretokenCounter(preset)
    counter.add(list(iter_documents([text], cut=lambda text: last_cut(text, preset), block_size=block_size)))
    table = PreTokenCounts(*counter.table(), preset)
    assert dict(table) == whole(text, preset)


def test_a_file_longer_than_a_block_equals_its_text(tmp_path):
    text = NASTY * 2500  # 1.4 MB
    path = tmp_path / "text.txt"
    path.write_bytes(text.encode())
    counts = count(path, num_workers=2)
    assert counts == count([text], num_workers=1)
    assert dict(counts) == whole(text)


# Sources


@pytest.mark.parametrize("pre_tokenizer", [*PRESETS, Metaspace()])
def test_every_kind_of_source_gives_the_same_table(tmp_path, pre_tokenizer):
    text = NASTY.replace("\n", " ") if isinstance(pre_tokenizer, Metaspace) else NASTY
    dataset = datasets.Dataset.from_dict({"text": [text]})
    iterable = [[text], iter([text]), [[text]], dataset, dataset.to_iterable_dataset(), dataset["text"]]
    expected = whole(text, pre_tokenizer)
    for source in (*write_all_kinds(tmp_path, text), *iterable):
        counts = count(source, pre_tokenizer=pre_tokenizer, num_workers=1)
        assert dict(counts) == expected
        assert counts.pre_tokenizer == get_pre_tokenizer(pre_tokenizer)


def test_many_files_equal_their_documents(tmp_path):
    for i in range(5):
        (tmp_path / f"{i}.txt").write_text(f"file {i}\nwith a line")
    documents = [f"file {i}\nwith a line" for i in range(5)]
    assert count(tmp_path / "*.txt") == count(sorted(tmp_path.iterdir())) == count(documents)
    assert count(documents) == count(reversed(documents))


def test_other_pre_tokenizers_read_text_files_by_line(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("a b\nb\n")
    lines = Split(Regex(r"\s+$"), behavior="isolated")
    assert dict(count(path, pre_tokenizer=lines)) == {b"a b": 1, b"b": 1, b"\n": 2}
    assert dict(count(["a b\nb\n"], pre_tokenizer=lines)) == {b"a b\nb": 1, b"\n": 1}


def test_the_normalizer_comes_first():
    normalizer = Sequence([NFD(), Lowercase()])
    expected = {"cafe\u0301".encode(): 2, b" ": 1}
    counts = count(["CAFÉ ", "café"], pre_tokenizer=Split(" ", "isolated"), normalizer=normalizer)
    assert dict(counts) == expected
    assert dict(count(["Á a"], normalizer=Lowercase())) == {"á".encode(): 1, b" a": 1}


def test_field(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"body": "a b"}')
    assert count(path, text_field="body") == count(["a b"])


# Workers


def lines_of_text(n: int) -> list[str]:
    return [f"line {i % 97}, {NASTY[i % 97 :]}" for i in range(n)]


@pytest.mark.parametrize("pre_tokenizer", ["gpt2-digits", "gpt4o", Metaspace()])
def test_any_number_of_workers_gives_the_same_table(pre_tokenizer):
    documents = lines_of_text(700 if pre_tokenizer == Metaspace() else 5000)
    expected = count(documents, pre_tokenizer=pre_tokenizer, num_workers=1)
    for num_workers in (2, 3, 8, None):
        assert count(documents, pre_tokenizer=pre_tokenizer, num_workers=num_workers) == expected
    assert expected.total == sum(
        sum(whole(text, pre_tokenizer).values()) * n for text, n in Counter(documents).items()
    )


def test_spawned_workers_give_the_same_table(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import multiprocessing, sys\n"
        "from tokenizers.pre_tokenizers import Metaspace\n"
        "from hf_scaffold.counting.counting import count\n"
        "if __name__ == '__main__':\n"
        "    multiprocessing.set_start_method(sys.argv[1])\n"
        "    documents = [f'document {i % 7}' for i in range(20_000)]\n"
        "    counts = count(documents, pre_tokenizer=Metaspace(), num_workers=2)\n"
        "    assert counts == count(documents, pre_tokenizer=Metaspace(), num_workers=1)\n"
        "    print(counts.total)\n"
    )
    for method in ("spawn", "fork"):
        result = subprocess.run([sys.executable, "-I", script, method], capture_output=True, text=True)
        assert (result.stdout, result.returncode) == ("40000\n", 0), result.stderr


def test_an_unguarded_script_with_spawned_workers_is_told_why_it_fails(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import multiprocessing\n"
        "from tokenizers.pre_tokenizers import Metaspace\n"
        "from hf_scaffold.counting.counting import count\n"
        "multiprocessing.set_start_method('spawn', force=True)\n"
        "count(['text'] * 100_000, pre_tokenizer=Metaspace(), num_workers=2)\n"
    )
    result = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert result.returncode == 1
    assert "num_workers=1 needs no processes" in result.stderr


@pytest.mark.parametrize("pre_tokenizer", ["gpt2", Metaspace()])
@pytest.mark.parametrize("error", [RuntimeError("the stream broke"), KeyboardInterrupt()])
def test_an_error_in_the_stream_stops_the_workers(pre_tokenizer, error):
    def documents():
        yield from lines_of_text(2000)
        raise error

    threads = threading.active_count()
    with pytest.raises(type(error)):
        count(documents(), pre_tokenizer=pre_tokenizer, num_workers=3)
    assert threading.active_count() == threads
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("pre_tokenizer", ["'gpt2'", "Metaspace()"])
def test_ctrl_c_stops_all_workers(pre_tokenizer):
    program = (
        "import itertools\n"
        "from tokenizers.pre_tokenizers import Metaspace\n"
        "from hf_scaffold.counting.counting import count\n"
        "def documents():\n"
        "    for i in itertools.count():\n"
        "        if i == 1000: print('at work', flush=True)\n"
        "        yield 'a document of some words ' * 40\n"
        f"count(documents(), pre_tokenizer={pre_tokenizer}, num_workers=2)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "at work\n"
    os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to the workers too
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert stderr.count("Traceback") == 1
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_memory_does_not_grow_with_the_corpus(tmp_path):
    text = (NASTY * 2500).encode()  # 1.4 MB
    path = tmp_path / "text.zst"
    path.write_bytes(import_zstd().compress(text) * 70)
    program = (
        "import sys\n"
        "from hf_scaffold.counting.counting import count\n"
        "def peak():\n"  # of this program; ru_maxrss knows that of the one that started it
        "    lines = open('/proc/self/status').read().splitlines()\n"
        "    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith('VmHWM'))\n"
        "text = open(sys.argv[1], encoding='utf-8', newline='').read()\n"
        "count([text] * 3, num_workers=2)\n"
        "count((f'{text} {i % 10}' for i in range(3)), num_workers=2)\n"
        "start = peak()\n"
        "count((f'{text} {i % 10}' for i in range(75)), num_workers=2)\n"
        "count(sys.argv[2], num_workers=2)\n"
        "print(peak() - start)\n"
    )
    (tmp_path / "text.txt").write_bytes(text)
    arguments = [sys.executable, "-I", "-c", program, tmp_path / "text.txt", path]
    result = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert int(result.stdout) < 40  # MB, of 200 that were counted


@pytest.mark.parametrize("num_workers", [0, -1, 1.5, True, "2"])
def test_a_bad_number_of_workers(num_workers):
    with pytest.raises(
        (ConfigurationError, TypeError), match=r"num_workers (must be a whole number|.* at least 1)"
    ):
        count(["text"], num_workers=num_workers)


@pytest.mark.parametrize("pre_tokenizer", ["gpt2", Metaspace()])
def test_progress_reaches_the_end(tmp_path, pre_tokenizer):
    path = tmp_path / "text.txt"
    path.write_text("some text\n" * 500_000)
    reports: list[tuple[int, int | None]] = []
    count(
        path, pre_tokenizer=pre_tokenizer, num_workers=2, show_progress=lambda *report: reports.append(report)
    )
    assert reports == sorted(reports)
    assert len(reports) > 2
    assert reports[-1] == (5_000_000, 5_000_000)


# Bad corpora


def test_a_corpus_without_text(tmp_path):
    empty = tmp_path / "empty.txt"
    empty.write_bytes(b"")
    blank = tmp_path / "blank.txt"
    blank.write_bytes(" \r\n\t\u00a0\u3000\n".encode())
    for pre_tokenizer in ("gpt2-digits", "llama3", Metaspace()):
        for source, name in (
            (empty, r"'.*/empty\.txt': it gave no pre-tokens"),
            ([], "a list: it gave no pre-tokens"),
            (["", ""], "a list: it gave no pre-tokens"),
        ):
            with pytest.raises(CorpusError, match=f"nothing to count in {name}"):
                count(source, pre_tokenizer=pre_tokenizer, num_workers=2)
    for pre_tokenizer in ("gpt2-digits", "llama3", Split(" ", "isolated")):
        with pytest.raises(CorpusError, match=r"nothing to count in '.*/blank\.txt': it is all whitespace"):
            count(blank, pre_tokenizer=pre_tokenizer)


def test_an_unknown_preset_is_refused_before_anything_is_read():
    with pytest.raises(ConfigurationError, match="gpt2-digits"):
        count("nowhere.txt", pre_tokenizer="gpt3")


def test_errors_of_the_corpus_pass_through_the_workers(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"text " * 600_000 + b"\xff")
    for pre_tokenizer in ("gpt2", Whitespace()):
        with pytest.raises(CorpusError, match="byte 0xff at offset 3000000"):
            count(path, pre_tokenizer=pre_tokenizer, num_workers=2)


# The table

tables = st.dictionaries(st.binary(min_size=1, max_size=3), st.integers(1, 2**60), max_size=20)


@given(tables)
def test_a_table_is_the_mapping_sorted_by_bytes(mapping):
    table = PreTokenCounts.from_mapping(mapping)
    assert list(table) == sorted(mapping)
    assert list(table.items()) == sorted(mapping.items())
    assert list(table.values()) == [mapping[pretoken] for pretoken in sorted(mapping)]
    assert all(table[pretoken] == n for pretoken, n in mapping.items())
    assert dict(table) == mapping
    assert len(table) == len(mapping)
    assert table.total == sum(mapping.values())
    assert table.n_bytes == sum(len(pretoken) * n for pretoken, n in mapping.items())
    assert table.data == b"".join(sorted(mapping))
    assert table.offsets.dtype == table.counts.dtype == np.int64
    assert table == PreTokenCounts.from_mapping(dict(reversed(mapping.items())))
    assert pickle.loads(pickle.dumps(table)) == table


def test_look_up_by_bytes_or_str():
    table = PreTokenCounts.from_mapping({"é": 3, b"\xff": np.int64(2), "a": 1})
    assert table["é"] == table["é".encode()] == 3
    assert table[b"\xff"] == 2
    assert "a" in table
    for missing in ("b", b"", b"\xff\xff", "\udcff", ""):
        assert missing not in table
        assert table.get(missing) is None
        with pytest.raises(KeyError, match=r"b|'|x"):
            table[missing]


def test_tables_differ_by_pretokens_counts_and_pre_tokenizer():
    table = PreTokenCounts.from_mapping({"ab": 1, "c": 1})
    assert table != PreTokenCounts.from_mapping({"a": 1, "bc": 1})
    assert table != PreTokenCounts.from_mapping({"ab": 1, "c": 2})
    assert table != PreTokenCounts.from_mapping({"ab": 1, "c": 1}, pre_tokenizer="gpt2")
    assert table != {b"ab": 1, b"c": 1}


def test_arrays_are_read_only():
    table = pickle.loads(pickle.dumps(PreTokenCounts.from_mapping({"a": 1})))
    for array in (table.offsets, table.counts):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"a": 0}, "pre-token b'a' has count 0; counts are whole numbers from 1"),
        ({"a": 1, "b": -3}, "pre-token b'b' has count -3"),
        ({"a": 1.0}, r"pre-token b'a' has count 1\.0"),
        ({"a": True}, "pre-token b'a' has count True"),
        ({"a": np.bool_(True)}, "pre-token b'a' has count"),
        ({"a": "1"}, "pre-token b'a' has count '1'"),
        ({"a": None}, "pre-token b'a' has count None"),
        ({b"": 5}, "the empty pre-token"),
        ({"": 5}, "the empty pre-token"),
        ({"a": 1, b"a": 1}, "pre-token b'a' is given twice"),
        ({"a\ud800": 1}, "has a lone surrogate"),
        ({7: 1}, "pre-token 7 is neither bytes nor str"),
    ],
)
def test_bad_mappings_are_named(mapping, message):
    with pytest.raises(CorpusError, match=message):
        PreTokenCounts.from_mapping(mapping)


def test_counts_beyond_int64_overflow():
    assert PreTokenCounts.from_mapping({"a": MAX, "b": MAX}).total == 2 * MAX
    with pytest.raises(CountOverflowError, match="pre-token b'a' has count 9223372036854775808, beyond 2"):
        PreTokenCounts.from_mapping({"a": MAX + 1})


@pytest.mark.parametrize(
    ("data", "offsets", "counts", "message"),
    [
        (b"ab", [0, 1, 2], [1, 0], "row 1: pre-token b'b' has count 0"),
        (b"ab", [0, 0, 2], [1, 1], "row 0: the pre-token is empty"),
        (b"aab", [0, 2, 1, 3], [1, 1, 1], "row 1: the pre-token is empty"),
        (b"ba", [0, 1, 2], [1, 1], "row 1: pre-token b'a' is not sorted: it follows b'b'"),
        (b"aa", [0, 1, 2], [1, 1], "row 1: pre-token b'a' appears twice"),
        (b"ab", [0, 1], [1], "offsets must be 2 positions from 0 to 2"),
        (b"ab", [0, 1, 2], [1], "offsets must be 2 positions"),
        (b"ab", [0, 1, 2], [1.0, 2.0], "rows of int64, not of float64, 1-dimensional"),
        (b"ab", [[0, 1, 2]], [1, 2], "not of int64, 2-dimensional"),
    ],
)
def test_an_invalid_table_cannot_be_made(data, offsets, counts, message):
    with pytest.raises(CorpusError, match=message):
        PreTokenCounts(data, offsets, counts, "gpt2")


# Merging


@given(st.lists(tables, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_merging_adds_up_in_any_order_and_grouping(mappings, random):
    parts = [PreTokenCounts.from_mapping(mapping) for mapping in mappings]
    expected = PreTokenCounts.from_mapping(sum(map(Counter, mappings), Counter()))
    assert parts[0].merge(*parts[1:]) == expected
    random.shuffle(parts)
    assert reduce(PreTokenCounts.merge, parts) == expected
    assert reduce(lambda merged, part: part.merge(merged), parts) == expected
    assert parts[0].merge() == parts[0]


def test_merging_shards_equals_counting_them_together():
    shards = [lines_of_text(5), ["one more"], ["and more"]]
    together = [text for shard in shards for text in shard]
    assert reduce(PreTokenCounts.merge, map(count, shards)) == count(together)


def test_merge_refuses_other_pre_tokenizers_and_names_both():
    table = PreTokenCounts.from_mapping({"a": 1}, pre_tokenizer="gpt2")
    other = PreTokenCounts.from_mapping({"a": 1}, pre_tokenizer=Whitespace())
    with pytest.raises(ConfigurationError, match=r"different pre-tokenizers: 'gpt2' and \{.*Whitespace"):
        table.merge(table, other)


def test_merge_refuses_an_overflow_and_names_the_pretoken():
    table = PreTokenCounts.from_mapping({"a": MAX, "b": 2**62})
    one = PreTokenCounts.from_mapping({"b": 2**62 - 1})
    assert table.merge(one)["b"] == MAX
    with pytest.raises(CountOverflowError, match=r"pre-token b'b' .* 9223372036854775808"):
        table.merge(PreTokenCounts.from_mapping({"b": 2**62}))


# Files


@given(tables, st.sampled_from([*PRESETS, Whitespace()]))
@settings(max_examples=30)
def test_save_and_load(tmp_path_factory, mapping, pre_tokenizer):
    path = tmp_path_factory.mktemp("counts") / "counts.parquet"
    table = PreTokenCounts.from_mapping(mapping, pre_tokenizer=pre_tokenizer)
    table.save(path)
    assert PreTokenCounts.load(path) == table
    data = path.read_bytes()
    PreTokenCounts.load(str(path)).save(str(path))
    assert path.read_bytes() == data


def test_the_file_is_plain_parquet(tmp_path):
    path = tmp_path / "new folder" / "counts.parquet"
    count(["the cat, the dog"]).save(path)
    table = pyarrow.parquet.read_table(path)
    assert table.to_pydict() == {
        "pretoken": [b" cat", b" dog", b" the", b",", b"the"],
        "count": [1, 1, 1, 1, 1],
    }
    assert table.schema.metadata[b"hf_scaffold.format_version"] == b"1"
    assert json.loads(table.schema.metadata[b"hf_scaffold.pretokenizer"])


def test_the_file_does_not_depend_on_hash_seed_order_or_workers(tmp_path):
    program = (
        "import sys\n"
        "from tokenizers.pre_tokenizers import Metaspace\n"
        "from hf_scaffold.counting.counting import count\n"
        "seed, folder = int(sys.argv[1]), sys.argv[2]\n"
        "documents = [f'document {i} of {i * i}' for i in range(20_000)]\n"
        "documents = documents[seed:] + documents[:seed]\n"
        "count(documents, num_workers=seed).save(f'{folder}/{seed}-preset')\n"
        "count(documents, num_workers=seed, pre_tokenizer=Metaspace()).save(f'{folder}/{seed}-other')\n"
    )
    for seed in (1, 2):
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        subprocess.run(
            [sys.executable, "-c", program, str(seed), tmp_path], env=environment, check=True, cwd=tmp_path
        )
    for name in ("preset", "other"):
        assert (tmp_path / f"1-{name}").read_bytes() == (tmp_path / f"2-{name}").read_bytes()


@pytest.mark.parametrize("call", ["replace", "fsync"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch, call, error):
    path = tmp_path / "counts.parquet"
    old = PreTokenCounts.from_mapping({"old": 1})
    old.save(path)

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(type(error)):
        PreTokenCounts.from_mapping({"new": 2}).save(path)
    assert PreTokenCounts.load(path) == old
    assert list(tmp_path.iterdir()) == [path]


def write_table(path: Path, metadata=None, **columns) -> Path:
    good = {
        "hf_scaffold.format_version": "1",
        "hf_scaffold.pretokenizer": get_pre_tokenizer("gpt2").to_json(),
    }
    table = pyarrow.table(columns)
    pyarrow.parquet.write_table(table.replace_schema_metadata({**good, **(metadata or {})}), path)
    return path


def pretokens(*values) -> pyarrow.Array:
    return pyarrow.array(values, pyarrow.large_binary())


@pytest.mark.parametrize(
    ("values", "counts", "message"),
    [
        ([b"b", b"a"], [1, 1], "row 1: pre-token b'a' is not sorted"),
        ([b"a", b"b", b"b"], [1, 1, 1], "row 2: pre-token b'b' appears twice"),
        ([b"a", b"b"], [1, 0], "row 1: pre-token b'b' has count 0, not 1 or more"),
        ([b"a", b"b"], [-5, 1], "row 0: pre-token b'a' has count -5"),
        ([b"", b"b"], [1, 1], "row 0: the pre-token is empty"),
        ([b"a", None], [1, 1], "row 1: pretoken is null"),
        ([b"a", b"b"], [None, 1], "row 0: count is null"),
        ([b"a"], [1.5], "expected columns .* not pretoken: large_binary, count: double"),
    ],
)
def test_files_with_impossible_rows_are_named(tmp_path, values, counts, message):
    path = write_table(tmp_path / "bad.parquet", pretoken=pretokens(*values), count=counts)
    with pytest.raises(ArtifactError, match=rf"bad\.parquet: {message}"):
        PreTokenCounts.load(path)


def test_files_that_are_no_tables_are_named(tmp_path):
    good = {"pretoken": pretokens(b"a"), "count": [1]}
    path = tmp_path / "bad.parquet"
    for columns in ({"pretoken": pretokens(b"a")}, {"pretoken": ["a"], "count": [1]}):
        with pytest.raises(ArtifactError, match=r"bad\.parquet: expected columns pretoken: large_binary and"):
            PreTokenCounts.load(write_table(path, **columns))
    with pytest.raises(ArtifactError, match=r"bad\.parquet has format version 2; this hf_scaffold reads 1"):
        PreTokenCounts.load(write_table(path, {"hf_scaffold.format_version": "2"}, **good))
    with pytest.raises(ArtifactError, match=r"bad\.parquet: the pre-tokenizer in its metadata can't be read"):
        PreTokenCounts.load(write_table(path, {"hf_scaffold.pretokenizer": "{"}, **good))
    pyarrow.parquet.write_table(pyarrow.table(good), path)
    with pytest.raises(ArtifactError, match=r"bad\.parquet: not a table of pre-token counts"):
        PreTokenCounts.load(path)


def test_truncated_and_missing_files(tmp_path):
    path = write_table(tmp_path / "bad.parquet", pretoken=pretokens(b"a"), count=[1])
    data = path.read_bytes()
    for length in (0, 10, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(ArtifactError, match=r"bad\.parquet is not a Parquet file, or is truncated"):
            PreTokenCounts.load(path)
    with pytest.raises(FileNotFoundError, match=r"nowhere\.parquet"):
        PreTokenCounts.load(tmp_path / "nowhere.parquet")


def test_tables_are_read_some_rows_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_ROWS_READ", 3)
    table = PreTokenCounts.from_mapping({f"word {i:03}": i + 1 for i in range(10)})
    table.save(tmp_path / "table.parquet")
    assert PreTokenCounts.load(tmp_path / "table.parquet") == table
    path = tmp_path / "bad.parquet"
    for last, problem in ((b"c", "appears twice"), (b"b", "is not sorted: it follows b'c'")):
        write_table(path, pretoken=pretokens(b"a", b"b", b"c", last), count=[1] * 4)
        with pytest.raises(ArtifactError, match=rf"bad\.parquet: row 3: pre-token {last!r} {problem}"):
            PreTokenCounts.load(path)


@given(st.dictionaries(st.text(min_size=1, max_size=3), st.integers(1, 2**62), min_size=1), st.data())
@settings(max_examples=50)
def test_rare_pretokens_may_be_left_out(mapping, data):
    table = PreTokenCounts.from_mapping(mapping)
    min_count = data.draw(st.sampled_from([1, *table.counts.tolist(), max(mapping.values()) + 1]))
    kept = {text.encode(): n for text, n in mapping.items() if n >= min_count}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "table.parquet")
        table.save(path)
        for leave_out in (
            partial(PreTokenCounts.load, path, min_count=min_count),
            lambda: table.at_least(min_count),
        ):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                if not kept:
                    with pytest.raises(ConfigurationError, match="lower min_count"):
                        leave_out()
                    continue
                found = leave_out()
            assert dict(found) == kept
            assert found.min_count == (1 if len(kept) == len(mapping) else min_count)
            if len(kept) == len(mapping):
                assert not caught
                continue
            [warning] = caught
            share = Fraction(table.n_bytes - found.n_bytes, table.n_bytes)
            assert str(warning.message) == (
                f"left out {len(table) - len(kept):,} of {len(table):,} distinct pre-tokens, those below "
                f"min_count {min_count:,}: {100 * float(share):.2f} % of the text"
            )
            assert warning.filename == __file__


def test_rows_that_are_left_out_are_checked_too(tmp_path):
    path = write_table(tmp_path / "bad.parquet", pretoken=pretokens(b"a", b"b"), count=[0, 9])
    with pytest.raises(ArtifactError, match="row 0: pre-token b'a' has count 0"):
        PreTokenCounts.load(path, min_count=5)
    for value, error in ((0, ConfigurationError), (1.5, TypeError)):
        with pytest.raises(error, match="min_count"):
            PreTokenCounts.load(path, min_count=value)


def test_repr_tells_size_and_pre_tokenizer():
    table = PreTokenCounts.from_mapping({"a": 3, "b": 4}, pre_tokenizer="llama3")
    assert repr(table) == "PreTokenCounts(2 distinct pre-tokens, 7 in all, pre_tokenizer='llama3')"


# ---- text that is no words


@pytest.mark.parametrize("pre_tokenizer", ["gpt2", Whitespace()], ids=["preset", "custom"])
def test_pretokens_beyond_the_limit_are_left_out_and_said_so(pre_tokenizer):
    texts = ["short " + "z" * 13, "x" * 10, "é" * 5 + "x", "y" * 12]
    with pytest.warns(UserWarning, match="left out 2 pre-tokens of more than 11 bytes"):
        counts = count(texts, pre_tokenizer=pre_tokenizer, num_workers=1, max_pretoken_length=11)
    assert max(map(len, counts)) == 11
    assert b"x" * 10 in counts
    assert "ééééé".encode() + b"x" in counts
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert dict(
            count(texts[1:3], pre_tokenizer=pre_tokenizer, num_workers=1, max_pretoken_length=11)
        ) == {
            b"x" * 10: 1,
            "éééééx".encode(): 1,
        }
    everything = count(texts, pre_tokenizer=pre_tokenizer, num_workers=1, max_pretoken_length=None)
    assert b"y" * 12 in everything


def test_a_megabyte_without_a_space_is_left_out_by_default():
    with (
        pytest.warns(UserWarning, match="left out 1 pre-tokens of more than 1,000,000 bytes"),
        pytest.raises(CorpusError, match="nothing to count in a list"),
    ):
        count(["x" * 1_000_001])
    assert dict(count(["x" * 1_000_000])) == {b"x" * 1_000_000: 1}
