"""Files of documents: found, checked before any is read, decompressed."""

import errno
import glob
import gzip
import importlib
import io
import lzma
import os
import re
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from hf_scaffold.errors import ConfigurationError, CorpusError

_READ_SIZE = 1 << 17  # bytes asked of the system at a time
_COMPRESSED = (".gz", ".xz", ".zst")
JSON_LINES = (".jsonl", ".ndjson", ".json")
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
    suffixes = (*_COMPRESSED, *JSON_LINES, ".parquet", ".txt")
    return text.lower().endswith(suffixes) and not any(map(str.isspace, text))


def check_file(path: Path) -> int | None:
    """The file's size in bytes; None for a pipe, which has none.

    Raises:
        CorpusError: the file can't be read, as far as can be told without reading it.
        ConfigurationError: that takes an optional package that is not installed.
    """
    form, compression = format_of(path)
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


def format_of(path: Path) -> tuple[str, str]:
    """The suffixes of format and compression, or ''.

    Example:
        >>> format_of(Path("rows.jsonl.GZ")), format_of(Path("text"))
        (('.jsonl', '.gz'), ('', ''))
    """
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
    compression = format_of(path)[1]
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
