"""The parts of a corpus have all of it, each byte once, whoever lays them out; and no pre-token is cut."""

import json
import os
import random
from collections import Counter
from functools import partial
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_scaffold._core.counter import last_cut, pretoken_offsets
from hf_scaffold.errors import ConfigurationError, CorpusError
from hf_scaffold.text import parts
from hf_scaffold.text.corpus import files_of, iter_documents, iter_texts
from hf_scaffold.text.parts import Part, cut_after, first_cut, line_end

PRESETS = ["gpt2", "gpt2-digits", "llama3", "gpt4o"]
BOM = b"\xef\xbb\xbf"
# Characters of one to four bytes; what a preset keeps together with what comes before or after it.
PIECES = [
    "a",
    "B",
    "é",
    "漢",
    "😀",
    "\u0301",
    " ",
    "   ",
    "\t",
    "\r\n",
    "\n",
    "'s",
    "'",
    "1",
    "12345",
    "!",
    "/",
    "…",
]

texts = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


def cuts_in(text: bytes, preset: str) -> list[tuple[int, int]]:
    """All places to cut, each after where the character before it begins: slowly."""
    characters = text.decode()
    ends = [len(characters[:i].encode()) for i in range(len(characters) + 1)]
    pairs = zip(ends, ends[1:], ends[2:], strict=False)
    return [(start, cut) for start, cut, end in pairs if last_cut(text[start:end], preset) == cut - start]


def cut(text: bytes, offset: int, preset: str) -> int:
    find = partial(first_cut, cut=partial(last_cut, splitting=preset))
    return cut_after(BytesIO(text), offset, len(text), find)


def after_each_offset(cuts: list[tuple[int, int]], size: int) -> list[int]:
    """The first of the cuts after characters that begin at each offset, or later; the ends are cuts, too."""
    inside = [min((cut for start, cut in cuts if start >= i), default=size) for i in range(1, size)]
    return [0, *inside, size][: size + 1]


@pytest.fixture(params=[9, 11, 1 << 12])
def window(request, monkeypatch):
    """Bytes searched at a time; nothing depends on it."""
    monkeypatch.setattr(parts, "_WINDOW", request.param)


# Cuts


@pytest.mark.parametrize("preset", PRESETS)
@given(text=texts, size=st.sampled_from([1, 2, 9, 4096]))
def test_a_cut_is_the_first_of_all_that_follow(preset, text, size):
    data = text.encode()
    cuts = cuts_in(data, preset)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "_WINDOW", size)
        found = [cut(data, offset, preset) for offset in range(len(data) + 1)]
    assert found == after_each_offset(cuts, len(data))
    assert found == sorted(found)


@pytest.mark.parametrize("preset", PRESETS)
@given(text=texts, offsets=st.lists(st.integers(0, 200), max_size=6))
def test_pretokens_of_what_lies_between_cuts_are_those_of_the_whole(preset, text, offsets):
    data = text.encode()
    bounds = [cut(data, min(offset, len(data)), preset) for offset in sorted([0, *offsets, len(data)])]
    between = [data[begin:end] for begin, end in pairwise(bounds)]
    assert b"".join(between) == data
    pretokens = [piece[a:b] for piece in between for a, b in pretoken_offsets(piece, preset).tolist()]
    assert pretokens == [data[a:b] for a, b in pretoken_offsets(data, preset).tolist()]


@given(data=st.binary(max_size=60), offset=st.integers(0, 60))
def test_a_cut_is_found_in_any_bytes(data, offset):
    """What is not UTF-8 is refused by whoever reads it."""
    offset = min(offset, len(data))
    assert offset <= cut(data, offset, "gpt4o") <= len(data)


@given(data=st.lists(st.sampled_from([b"a", b"\n", b"\r\n", "é".encode()]), max_size=30).map(b"".join))
def test_lines_are_cut_after_their_ends(data):
    found = [cut_after(BytesIO(data), offset, len(data), line_end) for offset in range(len(data) + 1)]
    cuts = [(i, i + 1) for i, byte in enumerate(data) if byte == ord("\n")]
    assert found == after_each_offset(cuts, len(data))


def test_a_long_run_without_a_cut_takes_linear_time_and_no_memory():
    class Spaces(BytesIO):
        read_bytes = 0

        def read(self, size=-1):
            self.read_bytes += size
            assert size <= 1 << 12
            return b" " * size

    stream = Spaces()
    find = partial(first_cut, cut=partial(last_cut, splitting="gpt2"))
    assert cut_after(stream, 5, 1 << 24, find) == 1 << 24
    assert stream.read_bytes == (1 << 24) - 5


# Which part


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ((64, 64), ConfigurationError, r"there is no part 64/64: they are numbered 0/64 to 63/64"),
        ("1/1", ConfigurationError, r"there is no part 1/1"),
        ((0, 0), ConfigurationError, r"part\[1\] is 0; it must be at least 1"),
        ((-1, 2), ConfigurationError, r"part\[0\] is -1"),
        (("0", 2), TypeError, r"part\[0\] must be a whole number"),
        ((True, 2), TypeError, r"part\[0\] must be a whole number"),
        ("3-64", TypeError, r"part must be two numbers such as \(3, 64\), not the string '3-64'"),
        (3, TypeError, r"part must be two numbers"),
        ((1, 2, 3), TypeError, r"part must be two numbers"),
    ],
)  # fmt: skip
def test_what_is_no_part_is_refused(value, error, message):
    with pytest.raises(error, match=message):
        Part.checked(value)


@given(sizes=st.lists(st.integers(0, 20), max_size=8), of=st.integers(1, 200))
def test_spans_tile_the_files_and_each_start_is_in_one_part(sizes, of):
    spans = [[*Part(number, of).spans(sizes)] for number in range(of)]
    for i, size in enumerate(sizes):
        mine = [each[i] for each in spans]
        filled = [(span.begin, span.end) for span in mine if span.begin < span.end]
        assert [0, *(end for _, end in filled)] == [*(begin for begin, _ in filled), size]
        assert sum(span.has_start for span in mine) == 1
    lengths = [sum(span.end - span.begin for span in each) for each in spans]
    assert max(lengths) - min(lengths) <= 1


# Documents


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def read_parts(paths: list[Path], of: int, **options) -> list[list[bytes]]:
    return [[*iter_documents(paths, part=Part(number, of), **options)] for number in range(of)]


@pytest.mark.parametrize("of", [1, 2, 7, 64, 1000])
def test_lines_and_rows_come_whole_and_once(tmp_path, of, window):
    rng = random.Random(of)
    rows = [f"{i} {'é' * rng.randrange(30)}\n漢" for i in range(60)]
    lines = "".join(json.dumps({"text": row}, ensure_ascii=False) + "\r\n" for row in rows).encode()
    plain = BOM + "".join(f"{row}\r\n" for row in rows).encode()
    table = tmp_path / "c.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": rows}), table)
    paths = [
        write(tmp_path / "a.jsonl", BOM + lines),
        write(tmp_path / "b.txt", plain),
        table,
        write(tmp_path / "d.txt", b""),
        write(tmp_path / "e.ndjson", lines.rstrip()),
        write(tmp_path / "f.txt", plain.rstrip()),
    ]
    expected = [*iter_documents(paths)]
    found = read_parts(paths, of)
    assert [document for documents in found for document in documents] == expected
    assert sum(map(bool, found)) >= min(of, 7)
    for block_size in (1, 50):
        assert read_parts(paths, of, block_size=block_size) == found


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("of", [1, 3, 64, 500])
def test_plain_text_is_divided_where_no_pretoken_changes(tmp_path, preset, of, window):
    rng = random.Random(of)
    found, expected = Counter(), Counter()
    paths = []
    for i in range(4):
        text = BOM * (i % 2) + "".join(rng.choices(PIECES, k=60)).encode()
        paths.append(write(tmp_path / f"{i}.txt", text))
        text = text.removeprefix(BOM)
        expected.update(text[a:b] for a, b in pretoken_offsets(text, preset).tolist())
    pieces = read_parts(paths, of, cut=partial(last_cut, splitting=preset), block_size=16)
    for piece in (piece for part in pieces for piece in part):
        found.update(piece[a:b] for a, b in pretoken_offsets(piece, preset).tolist())
    assert found == expected
    assert sum(map(bool, pieces)) >= min(of, 3)


def test_documents_of_a_part_are_whole(tmp_path):
    """That is what shards have: plain text is not divided, but where each line is a document."""
    texts = [f"{i} " * 40 + "\n" for i in range(5)]
    paths = [write(tmp_path / f"{i}.txt", text.encode()) for i, text in enumerate(texts)]
    paths.append(write(tmp_path / "x.jsonl", b"".join(b'{"text": "%d"}\n' % i for i in range(50))))
    for of in (1, 2, 7, 64):
        read = [[*iter_texts(paths, part=Part(i, of), cut=lambda text: len(text) // 2)] for i in range(of)]
        whole = [bytes(b"".join(each)) for part in read for each in part if not each.is_end.all()]
        assert not whole
        found = [document for part in read for each in part for document in each]
        assert found == [*(text.encode() for text in texts), *(b"%d" % i for i in range(50))]
        if of == 64:
            assert sum(map(bool, read)) > 20


def test_progress_of_a_part_ends_at_its_own_size(tmp_path):
    path = write(tmp_path / "a.txt", b"one two three\n" * 1000)
    totals = []
    for number in range(7):
        reports: list[tuple[int, int | None]] = []
        [*iter_documents(path, part=Part(number, 7), progress=lambda *each, told=reports: told.append(each))]
        assert reports == sorted(reports)
        assert reports[-1][0] == reports[-1][1]
        totals.append(reports[-1][0])
    assert sum(totals) == 14000
    assert max(totals) - min(totals) <= 1


def test_files_of_a_corpus_come_in_the_order_of_their_paths(tmp_path):
    paths = [write(tmp_path / f"{name}.txt", b"x") for name in "cab"]
    in_order = sorted(paths)
    assert files_of(paths) == files_of(iter(paths)) == files_of(str(tmp_path / "*")) == in_order
    assert files_of(paths[0]) == [paths[0]]
    for corpus in (["a text"], [], 7, {"text": ["a"]}, b"text"):
        with pytest.raises(ConfigurationError, match="has no parts; give a path"):
            files_of(corpus)
    with pytest.raises(CorpusError, match="among paths"):
        files_of([paths[0], "text"])


# What is wrong, and where


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (b'{"text": 7}', "field 'text' of line 41: expected a str, not int"),
        (b'{"txt": "a"}', "line 41: no field 'text'"),
        (b"{", "line 41: not JSON"),
        (b'{"text": "\xff"}', "byte 0xff at offset 650, "),
    ],
)
@pytest.mark.parametrize("of", [1, 2, 7, 64])
def test_errors_name_the_line_and_byte_in_the_file(tmp_path, bad, message, of):
    line = b'{"text": "abc"}\n'
    path = write(tmp_path / "a.jsonl", line * 40 + bad + b"\n" + line * 40)
    errors = []
    for number in range(of):
        try:
            list(iter_documents(path, part=Part(number, of)))
        except CorpusError as error:
            errors.append(str(error))
    assert len(errors) == 1
    assert message in errors[0]


@pytest.mark.parametrize("of", [1, 2, 7, 64])
@pytest.mark.parametrize("preset", [None, "gpt2"])
def test_a_byte_that_is_no_utf8_is_named_by_its_place_in_the_file(tmp_path, of, preset):
    path = write(tmp_path / "a.txt", b"one two\n" * 40 + b"\xff" + b" one two\n" * 40)
    errors = []
    for number in range(of):
        cut = None if preset is None else partial(last_cut, splitting=preset)
        try:
            list(iter_documents(path, part=Part(number, of), cut=cut))
        except CorpusError as error:
            errors.append(str(error))
    assert len(errors) == 1
    assert "byte 0xff at offset 320" in errors[0]


def test_pipes_have_no_parts(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigurationError, match=r"pipe is a pipe, or of unknown size, and has no parts;"):
        iter_documents(tmp_path / "pipe", part=Part(0, 2))


def test_a_file_that_becomes_shorter_is_refused(tmp_path):
    path = write(tmp_path / "a.txt", b"one two\n" * 1000)
    documents = iter_documents(path, part=Part(0, 2))
    os.truncate(path, 2000)
    with pytest.raises(CorpusError, match=r"a\.txt has become shorter since its parts were laid out"):
        list(documents)
