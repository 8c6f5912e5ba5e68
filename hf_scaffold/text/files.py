"""Files of documents: found, checked before any is read, decompressed, and read in each format."""

import codecs
import errno
import glob
import gzip
import importlib
import io
import json
import lzma
import os
import re
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from hf_scaffold._core.text_reader import checked_utf8, json_texts, line_bounds, n_valid
from hf_scaffold._utils.arguments import warn
from hf_scaffold._utils.urls import STDIN, Place, Url, is_place, place
from hf_scaffold.errors import ConfigurationError, CorpusError
from hf_scaffold.text.parts import LineNumber
from hf_scaffold.text.texts import Texts, blocks_of, column_utf8

_READ_SIZE = 1 << 17  # bytes asked of the system at a time
_ROWS = 64  # rows of a table held at a time: documents of 1 MB still fit
_PAGE = 1 << 20  # bytes of a Parquet file held at a time
_COMPRESSED = (".gz", ".xz", ".zst")
_JSON_LINES = (".jsonl", ".ndjson", ".json")
_MAX_PATH = 4096
_NOT_IN_PATHS = re.compile("[\0\n\ud800-\udc7f\udd00-\udfff]")  # the other surrogates stand for odd bytes
_TEXT_HINT = "to count a text itself, give a list: [text]"


def import_extra(module: str, extra: str) -> Any:
    """Import an optional package, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.removesuffix(".parquet")
        raise ConfigurationError(
            f"this needs the package {package}: pip install 'hf_scaffold[{extra}]'"
        ) from error


def import_zstd() -> Any:
    return import_extra("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd", "zstd")


# ---- finding


def matching_files(source: Any) -> list[Place]:
    """The file of that name or, if there is none, the files that match it as a glob pattern, sorted.

    Raises:
        CorpusError: nothing matches.
        ConfigurationError: nothing knows a URL's protocol, or a package for it is not installed.
    """
    name = os.fspath(source) if isinstance(source, str | os.PathLike) else ""
    if (len(name) > _MAX_PATH or _NOT_IN_PATHS.search(name)) and not os.path.lexists(name):
        raise CorpusError(f"{name[:40]!r}… looks like text, not like a path or glob pattern; {_TEXT_HINT}")
    found = place(source)
    if isinstance(found, Url):
        return _matching_urls(found)
    name = os.fspath(found)
    if os.path.lexists(name):
        return [found]
    if not glob.has_magic(name):
        if isinstance(source, str):
            raise CorpusError(f"can't open {name}: {os.strerror(errno.ENOENT)}; {_TEXT_HINT}")
        return [found]
    matches = sorted(glob.glob(name, recursive=True))
    paths: list[Place] = [Path(match) for match in matches if not os.path.isdir(match)]
    if not paths:
        raise CorpusError(f"no file matches the pattern {name!r}")
    return paths


def _matching_urls(url: Url) -> list[Place]:
    try:
        urls: list[Place] = [*url.matches()]
        if not urls:
            url.require_root()
    except OSError as error:
        raise CorpusError(f"can't open {error.filename}: {error.strerror}") from error
    if not urls:
        raise CorpusError(f"no file matches the pattern {str(url)!r}")
    return urls


def find_files(paths: Iterable[Any]) -> list[Place]:
    """The files that paths and glob patterns name, in order.

    Warns of a file that they name twice.

    Raises:
        CorpusError: one is not a path, or matches nothing; or standard input is there twice.
    """
    found: list[Place] = []
    for path in paths:
        if not is_place(path):
            raise CorpusError(f"{path!r} among paths: give only pathlib.Path objects, or only str documents")
        found += matching_files(path)
    if found.count(STDIN) > 1:
        raise CorpusError("standard input is given twice; it can be read only once")
    known: set[object] = set()
    for path in found:
        if (file := identity(path)) in known:
            warn(f"{path} is given twice, and is read twice")
            break
        known.add(file)
    return found


def identity(path: Place) -> object:
    """What is equal for two names of one file, and only then."""
    if isinstance(path, Url) or path == STDIN:
        return str(path)
    try:
        status = path.stat()
    except OSError:
        return path
    return (status.st_dev, status.st_ino) if status.st_ino and stat.S_ISREG(status.st_mode) else path


def looks_like_a_path(text: str) -> bool:
    suffixes = (*_COMPRESSED, *_JSON_LINES, ".parquet", ".txt")
    return text.lower().endswith(suffixes) and not any(map(str.isspace, text))


def check_file(path: Place) -> int | None:
    """The file's size in bytes; None for a pipe, which has none, or if a store doesn't know.

    Raises:
        CorpusError: the file can't be read, as far as can be told without reading it.
        ConfigurationError: that takes an optional package that is not installed.
    """
    form, compression = _format(path)
    if form == ".parquet":
        import_extra("pyarrow.parquet", "parquet")
        if compression:
            raise CorpusError(f"{path}: Parquet is compressed inside; unpack the {compression} around it")
    if compression == ".zst":
        import_zstd()
    try:
        is_folder, size = _status(path)
    except OSError as error:
        raise CorpusError(f"can't open {path}: {error.strerror}") from error
    if is_folder:
        raise CorpusError(f"{path} is a directory; for the files in it, give a pattern such as {path / '*'}")
    if compression and size == 0:
        raise CorpusError(f"{path} is truncated: it has 0 bytes, too few for a {compression} file")
    return size


def _status(path: Place) -> tuple[bool, int | None]:
    """Whether it is a folder, and the size of a file that has one."""
    if isinstance(path, Url):
        return path.is_folder, path.size
    if path == STDIN:  # even a file is read from where it stands
        return False, None
    status = path.stat()
    is_file = stat.S_ISREG(status.st_mode)
    if is_file:  # opening a pipe twice would lose its text
        path.open("rb").close()
    return stat.S_ISDIR(status.st_mode), status.st_size if is_file else None


def holds_lines(path: Place) -> bool:
    """Whether this is plain text, maybe compressed."""
    return _format(path)[0] not in (*_JSON_LINES, ".parquet")


def is_divisible(path: Place) -> bool:
    """Whether reading may begin inside the file."""
    form, compression = _format(path)
    return not compression and form != ".parquet"


def is_json_lines(path: Place) -> bool:
    return _format(path)[0] in _JSON_LINES


def _format(path: Place) -> tuple[str, str]:
    """The suffixes of format and compression, or ''."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compression = suffixes.pop() if suffixes and suffixes[-1] in _COMPRESSED else ""
    return (suffixes[-1] if suffixes else ""), compression


# ---- opening


@contextmanager
def open_file(path: Place, on_read: Callable[[int], None]) -> Iterator[BinaryIO]:
    """The file's bytes, decompressed.

    Args:
        on_read: Called with the number of bytes of each read from the disk or store.
    Raises:
        CorpusError: opening or reading fails, here or in the block.
    """
    compression = _format(path)[1]
    other_data: tuple[type[Exception], ...] = (gzip.BadGzipFile, lzma.LZMAError, zlib.error)
    try:
        with ExitStack() as stack:
            stream: Any = stack.enter_context(_metered(path, on_read))
            if compression == ".gz":
                stream = stack.enter_context(gzip.GzipFile(fileobj=stream, mode="rb"))
            elif compression == ".xz":
                stream = stack.enter_context(lzma.LZMAFile(stream))
            elif compression == ".zst":
                zstd = import_zstd()
                other_data += (zstd.ZstdError,)
                # 2 GiB: the widest window of `zstd --long`
                options = {zstd.DecompressionParameter.window_log_max: 31}
                stream = stack.enter_context(zstd.ZstdFile(stream, options=options))
            yield stream
    except EOFError as error:
        raise CorpusError(f"{path} is truncated: its compressed data ends too early") from error
    except other_data as error:
        raise CorpusError(f"can't read {path}: it is not a {compression} file, or is damaged") from error
    except OSError as error:
        reason = getattr(error, "strerror", None) if getattr(error, "filename", None) else error
        raise CorpusError(f"can't read {path}: {reason}") from error


def _metered(path: Place, on_read: Callable[[int], None]) -> io.BufferedReader:
    if isinstance(path, Url):
        return path.open(on_read=on_read)
    return io.BufferedReader(_MeteredFile(path, on_read), _READ_SIZE)


class _MeteredFile(io.FileIO):
    """A file that reports how many bytes are read from it."""

    def __init__(self, path: Path, on_read: Callable[[int], None]) -> None:
        super().__init__(os.dup(0) if path == STDIN else path)
        self._on_read = on_read

    def readinto(self, buffer: Any) -> int:
        n_bytes = super().readinto(buffer) or 0
        self._on_read(n_bytes)
        return n_bytes


# ---- reading


def rows_of(stream: Any, path: Place, field: str, block_size: int, start: int = 0) -> Iterator[Texts] | None:
    """The documents of JSON Lines or Parquet, without empty ones; None for plain text.

    Args:
        start: Where in a file of JSON Lines the stream begins.
    Raises:
        CorpusError: when iterated; a row can't be read, or has no text in `field`.
    """
    if is_json_lines(path):
        return _json_lines(stream, path, field, block_size, start)
    return _parquet(stream, path, field) if _format(path)[0] == ".parquet" else None


def checked(blocks: Iterable[Any], path: Place, offset: int = 0) -> Iterator[Any]:
    """Blocks of a file without a byte-order mark at its start; as `Utf8` unless cut inside a character.

    Args:
        blocks: Bytes or read-only uint8, in order; the file's first three bytes in one.
        offset: Where in the file they begin.
    Raises:
        CorpusError: they are not UTF-8; with the offset.
    Example:
        >>> [bytes(block) for block in checked(["one".encode("utf-8-sig"), b" two"], Path("a.txt"))]
        [b'one', b' two']
    """
    decoder = codecs.getincrementaldecoder("utf-8")()

    def decode(data: memoryview, offset: int, *, final: bool) -> None:
        held, _ = decoder.getstate()  # the start of a character
        try:
            decoder.decode(data, final=final)
        except UnicodeDecodeError as error:
            raise CorpusError(
                f"{path} is not UTF-8: byte 0x{error.object[error.start]:02x} at offset "
                f"{offset - len(held) + error.start}, {error.reason}; convert the file to UTF-8 first"
            ) from None

    for block in chain(blocks, [b""]):
        data = memoryview(block)
        # The decoder makes a str of what it is given: the rest of a character, the start of one, or an error.
        begin = _n_missing(decoder.getstate()[0])
        decode(data[:begin], offset, final=not data)
        utf8 = checked_utf8(data[begin:])
        if utf8 is None:
            begin += n_valid(data[begin:])
            decode(data[begin:], offset + begin, final=False)
        elif not begin:
            block = utf8
        if data:
            yield block if offset else without_mark(block)
        offset += len(data)


def without_mark(block: Any) -> Any:
    """What a file begins with, without a byte-order mark."""
    view = memoryview(block)
    return view[3:] if bytes(view[:3]) == codecs.BOM_UTF8 else block


def _n_missing(start: bytes) -> int:
    """How many bytes a character lacks of which the start is there."""
    return (4 if start[0] >= 0xF0 else 3 if start[0] >= 0xE0 else 2) - len(start) if start else 0


def text_of(
    stream: Any, path: Place, size: int, cut: Callable[[bytes], int], start: int = 0
) -> Iterator[Any]:
    """The text of a file in blocks as `blocks_of` has them, without a byte-order mark at its start.

    Args:
        start: Where in the file the stream begins.
    Raises:
        CorpusError: it is not UTF-8; with the offset.
    """
    blocks = checked(blocks_of(stream, max(size, 3), cut), path, start)
    return (block for block in blocks if len(block))  # a mark may be all there is


def lines_of(stream: Any, path: Place, size: int, start: int = 0) -> Iterator[Texts]:
    """The lines of a file with their ends; a byte-order mark at its start is dropped.

    Args:
        start: Where in the file the stream begins.
    Raises:
        CorpusError: it is not UTF-8; with the offset.
    """
    for block, offset in _line_blocks(stream, size, start):
        utf8, bounds = checked_utf8(block), line_bounds(block)
        if utf8 is not None and (offset or without_mark(block) is block):
            yield Texts.whole(utf8, bounds)
        else:
            lines = checked(Texts.whole(block, bounds), path, offset)
            yield from (Texts.of([line]) for line in lines if line)


def _line_blocks(stream: Any, size: int, offset: int) -> Iterator[tuple[NDArray[np.uint8], int]]:
    """Whole lines, some `size` bytes together, and where they begin; the last may lack its end."""
    for block in blocks_of(stream, size, lambda text: text.rfind(b"\n") + 1):
        yield block, offset
        offset += len(block)


def _json_lines(stream: Any, path: Place, field: str, block_size: int, start: int) -> Iterator[Texts]:
    key = field.encode(errors="surrogatepass")  # a name that is no UTF-8 is left to Python's reader
    number = 1
    for block, offset in _line_blocks(stream, block_size, start):
        begin, ends = 0, None
        while begin < len(block):
            utf8, bounds, n_lines, n_bytes = json_texts(block[begin:], key)
            if len(bounds) > 1:
                yield Texts.whole(utf8, bounds)
            number, begin = number + n_lines, begin + n_bytes
            if begin < len(block):
                ends = line_bounds(block) if ends is None else ends
                end = int(ends[np.searchsorted(ends, begin, "right")])
                line = LineNumber(path, start, number)
                yield from _json_line(bytes(block[begin:end]), line, offset + begin, path, field)
                number, begin = number + 1, end


def _json_line(line: bytes, number: LineNumber, offset: int, path: Place, field: str) -> Iterator[Texts]:
    """The text of one line, by Python's reader."""
    for data in map(bytes, checked([line], path, offset)):
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


def _parquet(stream: BinaryIO, path: Place, field: str) -> Iterator[Texts]:
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
    except pyarrow.ArrowInvalid as error:
        raise CorpusError(
            f"can't read {path}: it is not a Parquet file, or is truncated or damaged"
        ) from error
    except pyarrow.ArrowException as error:
        raise CorpusError(f"can't read {path}: {error}") from error


def _texts_of(column: Any) -> Texts | None:
    """The texts of a column that aren't empty; None if it has something else, too."""
    pyarrow = import_extra("pyarrow", "parquet")
    if column.type not in (pyarrow.string(), pyarrow.large_string()) or column.null_count:
        return None
    utf8, bounds = column_utf8(column)
    bounds = np.concatenate([bounds[:1], bounds[1:][np.diff(bounds) > 0]])
    used = checked_utf8(utf8[bounds[0] : bounds[-1]])
    begins_inside = (utf8[bounds[:-1]] & 0xC0) == 0x80
    if used is None or begins_inside.any():
        return None
    return Texts.whole(used, bounds - bounds[0])


def encode(text: object, origin: str, number: object) -> bytes:
    """A document as UTF-8.

    Args:
        origin, number: Name it in messages.
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
