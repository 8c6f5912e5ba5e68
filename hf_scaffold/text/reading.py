"""What is in a file: plain text, checked; lines; the documents of JSON Lines and Parquet."""

import codecs
import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from hf_scaffold._core.text_reader import json_texts, line_bounds, n_valid
from hf_scaffold.errors import CorpusError
from hf_scaffold.text.files import JSON_LINES, format_of, import_extra
from hf_scaffold.text.texts import Texts, column_utf8

_ROWS = 64  # rows of a table held at a time: documents of 1 MB still fit
_PAGE = 1 << 20  # bytes of a Parquet file held at a time


def rows_of(stream: BinaryIO, path: Path, field: str, block_size: int) -> Iterator[Texts] | None:
    """The documents of JSON Lines or Parquet, without empty ones; None for plain text.

    Raises:
        CorpusError: when iterated; a row can't be read, or has no text in `field`.
    """
    form = format_of(path)[0]
    if form in JSON_LINES:
        return _json_lines(stream, path, field, block_size)
    return _parquet(stream, path, field) if form == ".parquet" else None


# ---- plain text


def checked(reads: Iterable[bytes], path: Path, offset: int = 0) -> Iterator[bytes]:
    """What is read from a file, without a byte-order mark at its start.

    Args:
        reads: The file's bytes in order; the first three in one read.
        offset: Where in the file they begin.
    Raises:
        CorpusError: it is not UTF-8; with the offset.
    Example:
        >>> list(checked(["one".encode("utf-8-sig"), b" two"], Path("a.txt")))
        [b'one', b' two']
    """
    decoder = codecs.getincrementaldecoder("utf-8")()

    def decode(data: bytes, offset: int, *, final: bool) -> None:
        held, _ = decoder.getstate()  # the start of a character
        try:
            decoder.decode(data, final=final)
        except UnicodeDecodeError as error:
            raise CorpusError(
                f"{path} is not UTF-8: byte 0x{error.object[error.start]:02x} at offset "
                f"{offset - len(held) + error.start}, {error.reason}; convert the file to UTF-8 first"
            ) from None

    for data in chain(reads, [b""]):
        # The decoder makes a str of what it is given: the rest of a character, the start of one, or an error.
        begin = _n_missing(decoder.getstate()[0])
        decode(data[:begin], offset, final=not data)
        begin += n_valid(memoryview(data)[begin:])
        decode(data[begin:], offset + begin, final=False)
        if data:
            yield data if offset else data.removeprefix(codecs.BOM_UTF8)
        offset += len(data)


def _n_missing(start: bytes) -> int:
    """How many bytes a character lacks of which the start is there."""
    return (4 if start[0] >= 0xF0 else 3 if start[0] >= 0xE0 else 2) - len(start) if start else 0


def lines_of(stream: BinaryIO, path: Path, block_size: int) -> Iterator[Texts]:
    """The lines of a file with their ends; a byte-order mark at its start is dropped.

    Raises:
        CorpusError: it is not UTF-8; with the offset.
    """
    for block, offset in _line_blocks(stream, block_size):
        lines = Texts.whole(block, line_bounds(block))
        if n_valid(block) == len(block) and (offset or not block.startswith(codecs.BOM_UTF8)):
            yield lines
        else:
            yield from (Texts.of([line]) for line in checked(lines, path, offset) if line)


def _line_blocks(stream: BinaryIO, size: int) -> Iterator[tuple[bytes, int]]:
    """Whole lines, `size` bytes or more together, and where they begin; the last may lack its end."""
    waiting: list[bytes | memoryview] = []
    n_bytes = offset = 0
    try:
        while data := stream.read1(size):  # type: ignore[attr-defined]  # all streams of `open_file` have it
            waiting.append(data)
            n_bytes += len(data)
            if n_bytes >= size and (end := data.rfind(b"\n") + 1):
                waiting[-1] = memoryview(data)[:end]
                block = b"".join(waiting)
                yield block, offset
                offset += len(block)
                waiting, n_bytes = [data[end:]], len(data) - end
    except Exception:  # the lines before it come first
        text = b"".join(waiting)
        if end := text.rfind(b"\n") + 1:
            yield text[:end], offset
        raise
    if n_bytes:
        yield b"".join(waiting), offset


# ---- rows


def _json_lines(stream: BinaryIO, path: Path, field: str, block_size: int) -> Iterator[Texts]:
    key = field.encode(errors="surrogatepass")  # a name that is no UTF-8 is left to Python's reader
    number = 1
    for block, offset in _line_blocks(stream, block_size):
        begin = 0
        while begin < len(block):
            utf8, bounds, n_lines, n_bytes = json_texts(memoryview(block)[begin:], key)
            if len(bounds) > 1:
                yield Texts.whole(utf8, bounds)
            number, begin = number + n_lines, begin + n_bytes
            if begin < len(block):
                end = block.find(b"\n", begin) + 1 or len(block)
                yield from _json_line(block[begin:end], number, offset + begin, path, field)
                number, begin = number + 1, end


def _json_line(line: bytes, number: int, offset: int, path: Path, field: str) -> Iterator[Texts]:
    """The text of one line, by Python's reader."""
    for data in checked([line], path, offset):
        if not data.strip():
            continue
        try:
            record = json.loads(data.decode())
        except (ValueError, RecursionError) as error:
            raise CorpusError(f"{path}, line {number}: not JSON: {error}") from None
        if not isinstance(record, dict):
            raise CorpusError(
                f"{path}, line {number}: expected an object, not {_type_name(record)}; "
                "JSON files are read as JSON Lines, one object a line"
            )
        if field not in record:
            raise CorpusError(f"{path}, line {number}: no field {field!r}; it has {listed(record)}")
        if document := encode(record[field], f"{path}, field {field!r} of line", number):
            yield Texts.of([document])


def _parquet(stream: BinaryIO, path: Path, field: str) -> Iterator[Texts]:
    pyarrow = import_extra("pyarrow", "parquet")
    parquet = import_extra("pyarrow.parquet", "parquet")
    row = 0
    try:
        file = parquet.ParquetFile(stream, buffer_size=_PAGE)
        names = file.schema_arrow.names
        if field not in names:
            raise CorpusError(f"{path}: no column {field!r}; it has {listed(names)}")
        for batch in file.iter_batches(_ROWS, columns=[field], use_threads=False):
            column = batch.column(0)
            if texts := _texts_of(column):
                yield texts
            else:  # there is none, or something else than text: it is named
                for number, text in enumerate(column.to_pylist(), row):
                    if document := encode(text, f"{path}, column {field!r} of row", number):
                        yield Texts.of([document])
            row += len(column)
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path}, column {field!r}: a row from {row} on is not UTF-8: {error}") from None
    except pyarrow.ArrowException as error:
        raise CorpusError(f"can't read {path}: {error}") from error


def _texts_of(column: Any) -> Texts | None:
    """The texts of a column that aren't empty; None if it has something else, too."""
    pyarrow = import_extra("pyarrow", "parquet")
    if column.type not in (pyarrow.string(), pyarrow.large_string()) or column.null_count:
        return None
    utf8, bounds = column_utf8(column)
    bounds = np.concatenate([bounds[:1], bounds[1:][np.diff(bounds) > 0]])
    used = utf8[bounds[0] : bounds[-1]]
    begins_inside = (utf8[bounds[:-1]] & 0xC0) == 0x80
    if n_valid(used) != len(used) or begins_inside.any():
        return None
    return Texts.whole(utf8, bounds)


def encode(text: object, origin: str, number: int) -> bytes:
    """A document as UTF-8.

    Raises:
        CorpusError: it is not text; named by its origin and number.
    """
    if not isinstance(text, str):
        hint = "; give texts alone, as in (row['text'] for row in rows)" if isinstance(text, Mapping) else ""
        raise CorpusError(f"{origin} {number}: expected a str, not {_type_name(text)}{hint}")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise CorpusError(
            f"{origin} {number}: lone surrogate U+{ord(text[error.start]):04X} at character {error.start}; "
            "it has no UTF-8 form"
        ) from None


def _type_name(value: object) -> str:
    return "null" if value is None else type(value).__name__


def listed(names: Iterable[object]) -> str:
    return ", ".join(map(repr, names)) or "none"
