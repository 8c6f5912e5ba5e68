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

from hf_scaffold.errors import ConfigurationError, CorpusError

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


def matching_files(source: str | os.PathLike[str]) -> list[Path]:
    """The file of that name or, if there is none, the files that match it as a glob pattern, sorted.

    Raises:
        CorpusError: nothing matches.
    """
    name = os.fspath(source)
    if os.path.lexists(name):
        return [Path(name)]
    if len(name) > _MAX_PATH or _NOT_IN_PATHS.search(name):
        raise CorpusError(f"{name[:40]!r}… looks like text, not like a path or glob pattern; {_TEXT_HINT}")
    if not glob.has_magic(name):
        if isinstance(source, str):
            raise CorpusError(f"can't open {name}: {os.strerror(errno.ENOENT)}; {_TEXT_HINT}")
        return [Path(name)]
    paths = [Path(match) for match in sorted(glob.glob(name, recursive=True)) if not os.path.isdir(match)]
    if not paths:
        raise CorpusError(f"no file matches the pattern {name!r}")
    return paths


def find_files(paths: Iterable[Any]) -> list[Path]:
    """The files that paths and glob patterns name, in order.

    Raises:
        CorpusError: one is not a path, or matches nothing.
    """
    found: list[Path] = []
    for path in paths:
        if not isinstance(path, os.PathLike):
            raise CorpusError(f"{path!r} among paths: give only pathlib.Path objects, or only str documents")
        found += matching_files(path)
    return found


def looks_like_a_path(text: str) -> bool:
    suffixes = (*_COMPRESSED, *_JSON_LINES, ".parquet", ".txt")
    return text.lower().endswith(suffixes) and not any(map(str.isspace, text))


def check_file(path: Path) -> int | None:
    """The file's size in bytes; None for a pipe, which has none.

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
        status = path.stat()
        if stat.S_ISREG(status.st_mode):  # opening a pipe twice would lose its text
            path.open("rb").close()
    except OSError as error:
        raise CorpusError(f"can't open {path}: {error.strerror}") from error
    if stat.S_ISDIR(status.st_mode):
        raise CorpusError(f"{path} is a directory; for the files in it, give a pattern such as {path / '*'}")
    if not stat.S_ISREG(status.st_mode):
        return None
    if compression and not status.st_size:
        raise CorpusError(f"{path} is truncated: it has 0 bytes, too few for a {compression} file")
    return status.st_size


def _format(path: Path) -> tuple[str, str]:
    """The suffixes of format and compression, or ''."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compression = suffixes.pop() if suffixes and suffixes[-1] in _COMPRESSED else ""
    return (suffixes[-1] if suffixes else ""), compression


# ---- opening


@contextmanager
def open_file(path: Path, on_read: Callable[[int], None]) -> Iterator[BinaryIO]:
    """The file's bytes, decompressed.

    Args:
        on_read: Called with the number of bytes of each read from the disk.
    Raises:
        CorpusError: opening or reading fails, here or in the block.
    """
    compression = _format(path)[1]
    unreadable: tuple[type[Exception], ...] = (OSError, lzma.LZMAError, zlib.error)
    try:
        with ExitStack() as stack:
            stream: Any = stack.enter_context(io.BufferedReader(_MeteredFile(path, on_read), _READ_SIZE))
            if compression == ".gz":
                stream = stack.enter_context(gzip.GzipFile(fileobj=stream, mode="rb"))
            elif compression == ".xz":
                stream = stack.enter_context(lzma.LZMAFile(stream))
            elif compression == ".zst":
                zstd = import_zstd()
                unreadable += (zstd.ZstdError,)
                # 2 GiB: the widest window of `zstd --long`
                options = {zstd.DecompressionParameter.window_log_max: 31}
                stream = stack.enter_context(zstd.ZstdFile(stream, options=options))
            yield stream
    except EOFError as error:
        raise CorpusError(f"{path} is truncated: its compressed data ends too early") from error
    except unreadable as error:
        raise CorpusError(f"can't read {path}: {error}") from error


class _MeteredFile(io.FileIO):
    """A file that reports how many bytes are read from it."""

    def __init__(self, path: Path, on_read: Callable[[int], None]) -> None:
        super().__init__(path)
        self._on_read = on_read

    def readinto(self, buffer: Any) -> int:
        n_bytes = super().readinto(buffer) or 0
        self._on_read(n_bytes)
        return n_bytes


# ---- reading


def rows_of(stream: BinaryIO, path: Path, field: str) -> Iterator[bytes] | None:
    """The documents of JSON Lines or Parquet, empty ones included; None for plain text.

    Raises:
        CorpusError: when iterated; a row can't be read, or has no text in `field`.
    """
    form = _format(path)[0]
    if form in _JSON_LINES:
        return _json_lines(stream, path, field)
    return _parquet(stream, path, field) if form == ".parquet" else None


def checked(reads: Iterable[bytes], path: Path) -> Iterator[bytes]:
    """What is read from a file, without a byte-order mark at its start.

    Args:
        reads: The file's bytes in order; the first three in one read.
    Raises:
        CorpusError: it is not UTF-8; with the offset.
    Example:
        >>> list(checked(["one".encode("utf-8-sig"), b" two"], Path("a.txt")))
        [b'one', b' two']
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    offset = 0
    for data in chain(reads, [b""]):
        held, _ = decoder.getstate()  # the start of a character
        try:
            decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            raise CorpusError(
                f"{path} is not UTF-8: byte 0x{error.object[error.start]:02x} at offset "
                f"{offset - len(held) + error.start}, {error.reason}; convert the file to UTF-8 first"
            ) from None
        if data:
            yield data if offset else data.removeprefix(codecs.BOM_UTF8)
        offset += len(data)


def _json_lines(stream: BinaryIO, path: Path, field: str) -> Iterator[bytes]:
    for number, line in enumerate(checked(stream, path), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line.decode())
        except (ValueError, RecursionError) as error:
            raise CorpusError(f"{path}, line {number}: not JSON: {error}") from None
        if not isinstance(record, dict):
            raise CorpusError(
                f"{path}, line {number}: expected an object, not {_type_name(record)}; "
                "JSON files are read as JSON Lines, one object a line"
            )
        if field not in record:
            raise CorpusError(f"{path}, line {number}: no field {field!r}; it has {listed(record)}")
        yield encode(record[field], f"{path}, field {field!r} of line", number)


def _parquet(stream: BinaryIO, path: Path, field: str) -> Iterator[bytes]:
    pyarrow = import_extra("pyarrow", "parquet")
    parquet = import_extra("pyarrow.parquet", "parquet")
    row = 0
    try:
        file = parquet.ParquetFile(stream, buffer_size=_PAGE)
        names = file.schema_arrow.names
        if field not in names:
            raise CorpusError(f"{path}: no column {field!r}; it has {listed(names)}")
        for batch in file.iter_batches(_ROWS, columns=[field], use_threads=False):
            for text in batch.column(0).to_pylist():
                yield encode(text, f"{path}, column {field!r} of row", row)
                row += 1
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path}, column {field!r}: a row from {row} on is not UTF-8: {error}") from None
    except pyarrow.ArrowException as error:
        raise CorpusError(f"can't read {path}: {error}") from error


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
