"""Documents come out whole, in order and as they are, from every kind of source; bad ones are named."""

import codecs
import gzip
import io
import json
import lzma
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import datasets
import pyarrow
import pyarrow.parquet
import pytest

from hf_scaffold._core.text_reader import n_valid
from hf_scaffold.errors import ConfigurationError, CorpusError
from hf_scaffold.text.corpus import describe_corpus, iter_documents, iter_texts
from hf_scaffold.text.files import import_zstd, listed

zstd = import_zstd()
DOCUMENTS = ["the first", "zweites, größer", "三つ目\r\nの文書\n", "", " ", "👩‍👩‍👧 4th\tand last"]
ENCODED = [document.encode() for document in DOCUMENTS if document]
BOM = b"\xef\xbb\xbf"

COMPRESS = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": zstd.compress,
}


def last_space(text: bytes) -> int:
    """A cut that is allowed before spaces only."""
    return max(text.rfind(b" "), 0)


def write(path: Path, data: bytes) -> Path:
    """Write the data in the compression that the suffix names."""
    path.write_bytes(COMPRESS[path.suffix if path.suffix in COMPRESS else ""](data))
    return path


def json_lines(documents: list[str], field: str = "text") -> bytes:
    return "".join(json.dumps({"id": 0, field: document}) + "\n" for document in documents).encode()


def write_parquet(path: Path, **columns: object) -> Path:
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def read(source, **options) -> list[bytes]:
    return list(iter_documents(source, **options))


def read_reports(source, **options) -> list[tuple[int, int | None]]:
    reports = []
    read(source, progress=lambda *report: reports.append(report), **options)
    return reports


# Sources


@pytest.mark.parametrize("suffix", [".jsonl", ".ndjson", ".json", ".jsonl.gz", ".jsonl.xz", ".JSONL.zst"])
def test_json_lines(tmp_path, suffix):
    path = write(tmp_path / f"rows{suffix}", json_lines(DOCUMENTS))
    assert read(path) == ENCODED


def test_json_lines_with_crlf_blank_lines_and_no_last_newline(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(BOM + b'{"text": "a"}\r\n\r\n  \n{"text": "b\\r\\n"}')
    assert read(path) == [b"a", b"b\r\n"]


def test_parquet(tmp_path):
    large = pyarrow.array(DOCUMENTS, pyarrow.large_string())
    assert read(write_parquet(tmp_path / "a.parquet", id=range(6), text=DOCUMENTS)) == ENCODED
    assert read(write_parquet(tmp_path / "b.parquet", text=large)) == ENCODED
    assert read(write_parquet(tmp_path / "c.parquet", text=large.dictionary_encode())) == ENCODED


def test_datasets():
    dataset = datasets.Dataset.from_dict({"text": DOCUMENTS, "id": list(range(6))})
    unknown_columns = datasets.IterableDataset.from_generator(lambda: ({"text": text} for text in DOCUMENTS))
    for source in (
        dataset,
        dataset.with_format("numpy"),
        dataset["text"],
        dataset.to_iterable_dataset(),
        unknown_columns,
    ):
        assert read(source) == ENCODED


@pytest.mark.parametrize(
    "make",
    [
        list,
        tuple,
        iter,
        lambda documents: (document for document in documents),
        lambda documents: [documents[:2], tuple(documents[2:])],
        lambda documents: iter([documents[:1], *documents[1:3], [], documents[3:]]),
    ],
)
def test_iterables_of_str_and_of_batches(make):
    assert read(make(DOCUMENTS)) == ENCODED


def test_field_names_the_text_in_every_format(tmp_path):
    files = [
        write(tmp_path / "rows.jsonl", json_lines(DOCUMENTS, "body")),
        write_parquet(tmp_path / "rows.parquet", body=DOCUMENTS),
    ]
    dataset = datasets.Dataset.from_dict({"body": DOCUMENTS})
    for source in (*files, dataset, dataset.to_iterable_dataset()):
        assert read(source, text_field="body") == ENCODED


def test_an_iterator_is_read_no_faster_than_its_documents_are_taken():
    drawn = []
    documents = iter_documents(drawn.append(i) or f"document {i}" for i in range(1000))
    next(documents)
    assert len(drawn) <= 2


# Text files


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_text_file_comes_line_by_line_without_a_cut(tmp_path, suffix):
    path = write(tmp_path / f"text.txt{suffix}", b"one\r\ntwo\n\n  \nthree\rfour")
    assert read(path) == [b"one\r\n", b"two\n", b"\n", b"  \n", b"three\rfour"]


@pytest.mark.parametrize("suffix", COMPRESS)
def test_blocks_join_to_the_file_and_end_where_the_cut_allows(tmp_path, suffix):
    text = "the cat  größer\r\n 👩‍👩‍👧 sat\n on\t三つ目 a_long_run_without_any_cut_in_it at all".encode()
    path = write(tmp_path / f"text.txt{suffix}", text)
    for block_size in range(1, len(text) + 2):
        blocks = read(path, cut=last_space, block_size=block_size)
        assert b"".join(blocks) == text
        assert all(block.startswith(b" ") for block in blocks[1:])
    assert read(path, cut=last_space, block_size=6)[:3] == [b"the", b" cat ", " größer\r\n".encode()]


def test_long_documents_of_every_kind_are_cut_too(tmp_path):
    document = "word " * 50
    dataset = datasets.Dataset.from_dict({"text": [document]})
    jsonl = write(tmp_path / "rows.jsonl", json_lines([document]))
    parquet = write_parquet(tmp_path / "rows.parquet", text=[document])
    for source in ([document], dataset, jsonl, parquet):
        blocks = read(source, cut=last_space, block_size=16)
        assert b"".join(blocks) == document.encode()
        assert max(map(len, blocks)) <= 32


def test_text_is_cut_where_its_end_has_no_cut(tmp_path):
    text = b"word " * 30_000 + b"x" * 100_000 + b" word" * 30_000
    for source in ([text.decode()], write(tmp_path / "text", text)):
        for block_size in (70_000, 160_000, 200_000):
            blocks = read(source, cut=last_space, block_size=block_size)
            assert b"".join(blocks) == text
            assert all(block.startswith(b" ") for block in blocks[1:])
            assert len(blocks) > 1
            assert max(map(len, blocks)) <= 300_000


def test_text_without_any_cut_costs_linear_time(tmp_path):
    searched = []

    def no_cut(text: bytes) -> int:
        searched.append(len(text))
        return 0

    for source in (["x" * 10_000], write(tmp_path / "text", b"x" * 10_000)):
        searched.clear()
        assert read(source, cut=no_cut, block_size=1) == [b"x" * 10_000]
        assert sum(searched) < 40_000


@pytest.mark.parametrize("suffix", COMPRESS)
def test_an_empty_file_has_no_documents(tmp_path, suffix):
    path = write(tmp_path / f"empty{suffix}", b"")
    assert read(path) == []
    assert read(path, cut=last_space) == []


def test_only_a_byte_order_mark_at_the_start_is_dropped(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(BOM + b"a\n" + BOM + b"b c")
    assert read(path) == [b"a\n", BOM + b"b c"]
    for block_size in range(1, 8):
        assert b"".join(read(path, cut=last_space, block_size=block_size)) == b"a\n" + BOM + b"b c"
    assert read(["\ufeffa"]) == [BOM + b"a"]


def test_compressed_files_may_be_of_several_parts(tmp_path):
    skippable = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
    for suffix, compress in COMPRESS.items():
        path = tmp_path / f"text{suffix}"
        between = skippable if suffix == ".zst" else b""
        path.write_bytes(compress(b"one\n") + between + compress(b"") + compress(b"two\n"))
        assert read(path) == [b"one\n", b"two\n"]


def test_zstd_windows_may_be_as_wide_as_long_makes_them(tmp_path):
    compressor = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: 28})
    (tmp_path / "text.zst").write_bytes(compressor.compress(b"far apart") + compressor.flush())
    assert read(tmp_path / "text.zst") == [b"far apart"]


def test_a_pipe_is_read(tmp_path):
    source, sink = os.pipe()
    os.write(sink, b"one\ntwo\n")
    os.close(sink)
    try:
        assert read(f"/dev/fd/{source}") == [b"one\n", b"two\n"]
    finally:
        os.close(source)


# Paths


def test_globs_are_sorted_and_paths_keep_their_order(tmp_path, monkeypatch):
    for name in ("b.txt", "a.txt", "sub/c.txt", "sub/.hidden.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.chdir(tmp_path)
    assert read("*.txt") == [b"a.txt", b"b.txt"]
    assert read("**") == read("**/*.txt") == [b"a.txt", b"b.txt", b"sub/c.txt"]
    assert read([Path("b.txt"), Path("sub/*.txt"), Path("a.txt")]) == [b"b.txt", b"sub/c.txt", b"a.txt"]
    assert sorted(read(Path().glob("*.txt"))) == [b"a.txt", b"b.txt"]


def test_a_name_with_pattern_characters_is_a_name_where_such_a_file_exists(tmp_path):
    (tmp_path / "a[1].txt").write_text("in brackets")
    (tmp_path / "a1.txt").write_text("matched")
    assert read(tmp_path / "a[1].txt") == [b"in brackets"]
    assert read(str(tmp_path / "a[12].txt")) == [b"matched"]


def test_every_path_is_checked_before_the_first_document(tmp_path):
    good = write(tmp_path / "a.txt", b"text")
    bad = tmp_path / "b.txt"
    bad.symlink_to("nowhere")
    for source in (tmp_path / "*.txt", [good, bad]):
        with pytest.raises(CorpusError, match=r"can't open .*b\.txt: No such file"):
            iter_documents(source)


def test_an_unreadable_file_among_many(tmp_path, monkeypatch):
    for name in "abc":
        write(tmp_path / name, b"text")
    open_file = Path.open

    def refuse_b(path, *arguments, **options):
        if path.name == "b":
            raise PermissionError(13, "Permission denied", str(path))
        return open_file(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", refuse_b)
    with pytest.raises(CorpusError, match=r"can't open .*/b: Permission denied"):
        iter_documents(str(tmp_path / "*"))


# Bad sources


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("nowhere.txt", r"can't open nowhere\.txt: No such file.* give a list: \[text\]"),
        ("no/where/*.txt", r"no file matches the pattern 'no/where/\*\.txt'"),
        ("A text.\nNot a path.", "looks like text"),
        ("text " * 1000, "looks like text"),
        ("nul\0", "looks like text"),
        ("surrogate \ud800", "looks like text"),
        (b"bytes", "can't read documents from a bytes; give a path"),
        (7, "can't read documents from an int"),
        (None, "can't read documents from a NoneType"),
        ({"train": ["a"], "test": ["b"]}, r"a dict of 'train', 'test'; choose one, as in corpus\['train'\]"),
        (["a", b"b"], "document 1: expected a str, not bytes"),
        (["a", ["b", None]], "document 2: expected a str, not null"),
        ([{"text": "a"}], r"document 0: expected a str, not dict; .*row\['text'\]"),
        (["good", "bad \udc80"], r"document 1: lone surrogate U\+DC80 at character 4"),
        ([Path(__file__), "text"], "'text' among paths"),
        ([__file__], "is the name of a file.* give pathlib.Path objects"),
    ],
)
def test_bad_sources_are_named(source, message):
    with pytest.raises(CorpusError, match=message):
        read(source)


def test_a_directory(tmp_path):
    for source in (tmp_path, str(tmp_path), [tmp_path]):
        with pytest.raises(CorpusError, match=r"is a directory; .* pattern such as .*/\*"):
            iter_documents(source)
    (tmp_path / "sub").mkdir()
    with pytest.raises(CorpusError, match="no file matches"):
        iter_documents(tmp_path / "*")


def test_dataset_dicts_ask_for_a_split():
    dataset = datasets.Dataset.from_dict({"text": ["a"]})
    for splits in (
        datasets.DatasetDict(train=dataset),
        datasets.IterableDatasetDict(train=dataset.to_iterable_dataset()),
    ):
        with pytest.raises(CorpusError, match=r"of 'train'; choose one, as in corpus\['train'\]"):
            iter_documents(splits)


def test_missing_columns_name_those_there_are(tmp_path):
    dataset = datasets.Dataset.from_dict({"body": ["a"], "id": [1]})
    unknown = datasets.IterableDataset.from_generator(lambda: iter([{"body": "a", "id": 1}]))
    for source in (dataset, dataset.to_iterable_dataset(), unknown):
        with pytest.raises(CorpusError, match="the dataset has no column 'text'; it has 'body', 'id'"):
            read(source)
    with pytest.raises(CorpusError, match=r"rows\.parquet: no column 'text'; it has 'body', 'id'"):
        read(write_parquet(tmp_path / "rows.parquet", body=["a"], id=[1]))


def test_documents_of_datasets_are_numbered_by_row():
    dataset = datasets.Dataset.from_dict({"text": ["text"] * 100 + [None]})
    with pytest.raises(CorpusError, match="document 100: expected a str, not null"):
        read(dataset)


# Bad files


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"ab\ncd\xffe", "byte 0xff at offset 5, invalid start byte"),
        (b"\xff\xfea\0", "byte 0xff at offset 0"),
        (BOM + "é".encode("latin-1"), "byte 0xe9 at offset 3, unexpected end"),
        ("größer".encode("latin-1"), "byte 0xf6 at offset 2"),
        (b"a" * 2_000_000 + b"\xed\xa0\x80", "byte 0xed at offset 2000000, invalid continuation byte"),
        ("ends inside 😀".encode()[:-1], "byte 0xf0 at offset 12, unexpected end of data"),
    ],
)
def test_text_that_is_not_utf8(tmp_path, suffix, text, message):
    path = write(tmp_path / f"text{suffix}", text)
    for cut in (None, last_space):
        with pytest.raises(CorpusError, match=rf"/text{suffix} is not UTF-8: {message}"):
            read(path, cut=cut)


def test_the_offset_of_a_bad_byte_does_not_depend_on_the_block_size(tmp_path):
    text = "né 😀é ".encode() * 3 + b"\xe2\x82 x"
    path = write(tmp_path / "text", text)
    for block_size in range(1, len(text) + 2):
        with pytest.raises(CorpusError, match=f"byte 0xe2 at offset {len(text) - 4},"):
            read(path, cut=last_space, block_size=block_size)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"text": "a"', "line 3: not JSON: Expecting"),
        (b"[" * 100_000, "line 3: not JSON: "),
        (b'"text"', "line 3: expected an object, not str; JSON files are read as JSON Lines"),
        (b'{"id": 1, "body": "a"}', "line 3: no field 'text'; it has 'id', 'body'"),
        (b"{}", "line 3: no field 'text'; it has none"),
        (b'{"text": null}', "field 'text' of line 3: expected a str, not null"),
        (b'{"text": ["a"]}', "field 'text' of line 3: expected a str, not list"),
        (b'{"text": "\\ud800"}', r"field 'text' of line 3: lone surrogate U\+D800 at character 0"),
        (b'{"text": "\xff"}', "is not UTF-8: byte 0xff at offset 25"),
    ],
)
def test_bad_json_lines_are_named(tmp_path, line, message):
    path = write(tmp_path / "rows.jsonl.gz", b'{"text": "a"}\n\n' + line + b"\n")
    with pytest.raises(CorpusError, match=rf"rows\.jsonl\.gz,? .*{message}"):
        read(path)


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
def test_truncated_and_corrupt_files_are_named(tmp_path, suffix):
    data = COMPRESS[suffix](bytes(range(32, 127)) * 50 + os.urandom(50_000).hex().encode())
    path = tmp_path / f"text{suffix}"
    for length in (0, 5, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(CorpusError, match=rf"/text{suffix} is truncated"):
            read(path, cut=last_space)
    damaged = bytearray(data)
    damaged[len(data) // 2] ^= 255
    for bad in (b"plain text, no header", bytes(damaged[: len(data) // 2 + 1]) + bytes(9) + data[-20_000:]):
        path.write_bytes(bad)
        with pytest.raises(CorpusError, match=rf"(can't read .*/|/)text{suffix}"):
            read(path, cut=last_space)


def test_bad_parquet_files_are_named(tmp_path):
    path = write_parquet(tmp_path / "rows.parquet", text=["some text"] * 100)
    data = path.read_bytes()
    for bad in (b"", b"not Parquet", data[:-20], data[:20] + data[30:]):
        path.write_bytes(bad)
        with pytest.raises(CorpusError, match=r"can't read .*/rows\.parquet: "):
            read(path)
    raw = pyarrow.array([b"good", b"\xff"], pyarrow.binary()).view(pyarrow.string())
    with pytest.raises(CorpusError, match=r"rows\.parquet, column 'text': a row from 0 on is not UTF-8"):
        read(write_parquet(path, text=raw))
    with pytest.raises(
        CorpusError, match=r"rows\.parquet, column 'text' of row 70: expected a str, not null"
    ):
        read(write_parquet(path, text=["a"] * 70 + [None]))
    with pytest.raises(CorpusError, match=r"Parquet is compressed inside; unpack the \.gz around it"):
        read(write(tmp_path / "rows.parquet.gz", data))


@pytest.mark.parametrize(
    ("name", "package", "extra"), [("a.zst", zstd.__name__, "zstd"), ("a.parquet", "pyarrow", "parquet")]
)
def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch, name, package, extra):
    for module in [*sys.modules]:
        if f"{module}.".startswith(f"{package}."):
            monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / name).write_bytes(b"anything")
    with pytest.raises(ConfigurationError, match=rf"needs the package {package}: .*hf_scaffold\[{extra}\]"):
        iter_documents(tmp_path / name)


# Progress and names


def test_progress_of_files_ends_at_their_size_on_disk(tmp_path):
    text = b"some words " * 10_000
    paths = [write(tmp_path / f"text{suffix}", text) for suffix in COMPRESS]
    paths.append(write(tmp_path / "rows.jsonl", json_lines(["text"] * 1000)))
    paths.append(write_parquet(tmp_path / "rows.parquet", text=["text"] * 1000, other=range(1000)))
    total = sum(path.stat().st_size for path in paths)
    for cut in (None, last_space):
        reports = read_reports(paths, cut=cut, block_size=1024)
        assert reports == sorted(reports)
        assert 2 < len(reports) < 200
        assert reports[-1] == (total, total)


def test_progress_of_an_iterator_counts_the_bytes_of_its_text():
    reports = read_reports(["größe"] * 100, block_size=70)
    assert reports == [(7 + 70 * i, None) for i in range(10)] + [(700, None)]


def test_an_error_of_the_callback_or_of_the_iterator_passes_through(tmp_path):
    def fail(*_: object) -> None:
        raise OSError("the terminal is gone")

    with pytest.raises(OSError, match="the terminal is gone"):
        read(write(tmp_path / "a.txt", b"text"), progress=fail)

    def documents():
        yield "one"
        raise EOFError("no more")

    with pytest.raises(EOFError, match="no more"):
        read(documents())


def test_sources_are_described():
    assert describe_corpus(Path("a/b.txt")) == "'a/b.txt'"
    assert describe_corpus(document for document in "ab") == "a generator"
    assert describe_corpus(io.StringIO()) == "a StringIO"


def test_ends_are_known_however_a_document_comes(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one two three\nfour")
    (tmp_path / "b.txt").write_bytes(b"")
    (tmp_path / "c.jsonl").write_bytes(b'{"text": "five six seven"}\n{"text": ""}\n{"text": "eight"}\n')
    options = {"cut": lambda text: text.rfind(b" ") + 1, "block_size": 4}
    found = [*iter_texts([tmp_path / "*"], **options)]
    pieces = [(piece, is_end) for texts in found for piece, is_end in zip(texts, texts.is_end, strict=True)]
    documents = b"".join(piece + b"\0" * bool(is_end) for piece, is_end in pieces).split(b"\0")
    assert documents == [b"one two three\nfour", b"five six seven", b"eight", b""], found
    assert len(pieces) > 3
    assert [piece for piece, _ in pieces] == read(tmp_path / "*", **options)


# Blocks: read natively where lines are as usual, with the result of Python's reader everywhere


def by_python(path: Path) -> list[bytes | str]:
    """The documents, line by line, as Python's own readers have them; then what is wrong."""
    data = path.read_bytes()
    found: list[bytes | str] = []
    offset = 0
    for number, line in enumerate(io.BytesIO(data), 1):
        offset += len(line)
        try:
            codecs.utf_8_decode(data[:offset], "strict", False)
        except UnicodeDecodeError as error:
            where = f"byte 0x{data[error.start]:02x} at offset {error.start}, {error.reason}; "
            return [*found, f"{path} is not UTF-8: {where}"]
        try:
            if (line.removeprefix(BOM) if offset == len(line) else line).strip():
                record = json.loads((line.removeprefix(BOM) if offset == len(line) else line).decode())
                if not isinstance(record, dict):
                    return [*found, f"{path}, line {number}: expected an object, not "]
                if "text" not in record:
                    return [*found, f"{path}, line {number}: no field 'text'; it has {listed(record)}"]
                if not isinstance(record["text"], str):
                    return [*found, f"{path}, field 'text' of line {number}: expected a str, not "]
                found += [record["text"].encode()] if record["text"] else []
        except UnicodeEncodeError as error:
            where = f"U+{ord(error.object[error.start]):04X} at character {error.start}; "
            return [*found, f"{path}, field 'text' of line {number}: lone surrogate {where}"]
        except (ValueError, RecursionError) as error:
            return [*found, f"{path}, line {number}: not JSON: {error}"]
    return found


def until_error(documents: Iterator[bytes]) -> list[bytes | str]:
    found: list[bytes | str] = []
    try:
        found.extend(documents)
    except CorpusError as error:
        return [*found, str(error)]
    return found


NASTY_LINES = [
    b'{"text": "plain"}',
    b' {"id": 7 , "text" :"a" }\t\r',
    b'{"text": "\\ud83d\\ude00 \\u00e9\\n\\"\\\\\\/\\b\\f\\r\\t"}',
    '{"text": "größer 三つ目 👩‍👩‍👧"}'.encode(),
    b'{"text": ""}',
    b"",
    b" \t\x0b\x0c ",
    b'{"text": "first", "text": "second"}',
    b'{"text": 1, "text": "second"}',
    b'{"te\\u0078t": "by an escape"}',
    b'{"text": "nested", "more": {"text": 1, "list": [1, -0.5e+3, true, false, null, {}, []]}}',
    b'{"text": "odd", "number": NaN, "other": [Infinity, -Infinity]}',
    b'{"text": "surrogate in another", "other": "\\ud800", "\\udc00": 1}',
    b'{"text": "large", "number": ' + b"1" * 1000 + b"}",
    b'{"text": "deep", "list": ' + b"[" * 100 + b"]" * 100 + b"}",
    b'{"text": "' + b"long " * 30 + b'\\u00e9"}',
    b'{"text": "\x7f ' + "é".encode() * 20 + b'"}',
    b'{"text": "a\\u0000b"}',
]
BAD_LINES = [
    b'{"text": "\\ud800"}',
    b'{"text": "\\ud800\\u0041"}',
    b'{"text": "\\udc00\\ud800"}',
    b'{"text": "a\tb"}',
    b'{"text": "a", "other": "\x01"}',
    b'{"text": "a tab\tamong many characters that may be in strings"}',
    b'{"text": "a", "other": "a \x1f among many characters that may be in strings"}',
    b'{"text": "\\x"}',
    b'{"text": "\\u12g4"}',
    b'{"text": "\\u+123"}',
    b'{"text": "a"',
    b'{"text": "a"} x',
    b'{"text": "a"}{}',
    b'{"text": "a",}',
    b"{'text': 'a'}",
    b'{"text": 01}',
    b'{"text": "a", "n": 01}',
    b'{"text": "a", "n": 1.}',
    b'{"text": "a", "n": .5}',
    b'{"text": "a", "n": +1}',
    b'{"text": "a", "n": -}',
    b'{"text": "a", "n": 1e}',
    b'{"text": "a", "n": truex}',
    b'{"text": "a", "n": tru}',
    b'{"text": "a", "n": ' + b"1" * 5000 + b"}",
    b'{"text": "a", "n": [1 2]}',
    b'{"text": null}',
    b'["text"]',
    b'"text"',
    b"{}",
    b'{"Text": "a"}',
    b'\x00{"text": "a"}',
    b"\x00",
    BOM + b'{"text": "a"}',
    b'{"text": "\xff"}',
    b'{"text": "a", "other": "\xed\xa0\x80"}',
    b'{"text": "ends inside \xe2\x82',
    b'{"text": "\xe2\x82"}',
]


@pytest.mark.parametrize("seed", range(60))
def test_json_lines_are_those_of_python(tmp_path, seed):
    dice = random.Random(seed)
    lines = dice.choices(NASTY_LINES, k=dice.randrange(30))
    if seed % 3:
        lines.append(BAD_LINES[seed % len(BAD_LINES)])
        lines += dice.choices(NASTY_LINES + BAD_LINES, k=dice.randrange(4))
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\n".join(lines) + dice.choice([b"", b"\n"]))
    expected = by_python(path)
    for block_size in (1, 7, 100, 1 << 20):
        assert_same(until_error(iter_documents(path, block_size=block_size)), expected)


def assert_same(found: list[bytes | str], expected: list[bytes | str]) -> None:
    """The same documents, and the same error, whose advice may follow."""
    if expected and isinstance(expected[-1], str):
        *found, error = found
        *expected, wanted = expected
        assert str(error).startswith(str(wanted))
    assert found == expected


@pytest.mark.parametrize("line", [*NASTY_LINES, *BAD_LINES])
@pytest.mark.parametrize("end", [b"", b"\n", b"\n\n"])
def test_every_nasty_line_is_read_as_python_reads_it(tmp_path, line, end):
    path = tmp_path / "rows.jsonl"
    for before in (b"", b'{"text": "before"}\n', b"\n" * 3):
        path.write_bytes(before + line + end)
        assert_same(until_error(iter_documents(path)), by_python(path))


def test_lines_before_a_truncation_come_first(tmp_path):
    lines = b"".join(b'{"text": "%s"}\n' % os.urandom(40).hex().encode() for _ in range(3000))
    for suffix, data in (("jsonl", lines), ("txt", lines)):
        path = tmp_path / f"rows.{suffix}.gz"
        path.write_bytes(gzip.compress(data)[:-2000])
        found = until_error(iter_documents(path))
        assert "is truncated" in str(found.pop())
        assert len(found) > 2000


def test_lines_are_those_of_python(tmp_path):
    text = BOM + "one\r\ntwo\rthree\x0b\x0c\x85\u2028 four\n\n\né\n".encode() * 20 + b"last"
    (tmp_path / "text").write_bytes(text)
    for block_size in (1, 5, 64, 1 << 20):
        expected = text.removeprefix(BOM).split(b"\n")
        found = read(tmp_path / "text", block_size=block_size)
        assert found == [line + b"\n" for line in expected[:-1]] + [expected[-1]]


def test_rows_of_parquet_are_those_of_python(tmp_path):
    rows = ["", "é", "", "三つ目" * 50, "a", ""] * 40
    for kind in (pyarrow.string(), pyarrow.large_string()):
        path = write_parquet(tmp_path / "a.parquet", text=pyarrow.array(rows, kind))
        assert read(path) == [row.encode() for row in rows if row]
    # Both are UTF-8 together, and neither alone.
    halves = pyarrow.array(["é".encode()[:1], "é".encode()[1:]], pyarrow.binary()).view(pyarrow.string())
    with pytest.raises(CorpusError, match="a row from 0 on is not UTF-8"):
        read(write_parquet(path, text=halves))
    with pytest.raises(CorpusError, match="expected a str, not bytes"):
        read(write_parquet(path, text=pyarrow.array([b"a"])))


# UTF-8


def n_valid_by_python(data: bytes) -> int:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.start
    return len(data)


EDGES = (
    0x7F,
    0x80,
    0x7FF,
    0x800,
    0xFFF,
    0x1000,
    0xCFFF,
    0xD7FF,
    0xE000,
    0xFFFF,
    0x10000,
    0x3FFFF,
    0x40000,
    0x10FFFF,
)
NASTY_BYTES = b"\x00\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0\xc1\xc2\xdf\xe0\xec\xed\xee\xef\xf0\xf1\xf3\xf4\xf5\xff"


@pytest.mark.parametrize("seed", range(8))
def test_utf8_is_what_python_takes(seed):
    """Long runs, looked at 64 bytes at a time, too."""
    dice = random.Random(seed)
    for _ in range(2000):
        kinds = dice.choices([*map(chr, EDGES), "é", "三", "😀", "a", "b" * 20], k=dice.randint(1, 6))
        data = bytearray("".join(dice.choices(kinds, k=dice.randrange(150))).encode())
        change = dice.randrange(3)
        if data and change == 1:
            data[dice.randrange(len(data))] = dice.choice(NASTY_BYTES)
        elif data and change == 2:
            del data[dice.randrange(len(data))]
        assert n_valid(data) == n_valid_by_python(data), bytes(data)


def test_every_two_bytes_in_a_long_run_are_taken_as_python_takes_them():
    for lead in NASTY_BYTES:
        for second in range(256):
            for run in ("三" * 40, "é" * 40):
                data = run.encode() + bytes([lead, second]) + "\x80\x80".encode("latin-1") + run.encode()
                assert n_valid(data) == n_valid_by_python(data), (lead, second)
