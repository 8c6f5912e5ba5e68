"""Documents from files, `datasets` and iterators, streamed as UTF-8 bytes.

Memory holds one document, or one block of a long text, at a time: it doesn't grow with the corpus.
"""

import codecs
import errno
import glob
import gzip
import importlib
import io
import json
import lzma
import os
import shutil
import stat
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, TypeVar

from hf_scaffold._utils.arguments import warn
from hf_scaffold.errors import ConfigurationError, CorpusError

__all__ = [
    "BLOCK_SIZE",
    "MAX_PRETOKEN_LENGTH",
    "Cut",
    "Progress",
    "Source",
    "batches",
    "describe_source",
    "find_files",
    "import_extra",
    "iter_documents",
    "source_names",
    "without_pipes",
]

Source: TypeAlias = str | os.PathLike[str] | Iterable[Any]
Cut: TypeAlias = Callable[[bytes], int]
Progress: TypeAlias = Callable[[int, int | None], None]
_Item = TypeVar("_Item", bound=Sized)

MAX_PRETOKEN_LENGTH = 1_000_000  # bytes; what is longer is no word
BLOCK_SIZE = 1 << 20  # bytes read at a time, and the length from which a document is cut
_READ_SIZE = 1 << 17  # bytes asked of the system at a time
_ROWS = 64  # rows of a table held at a time: documents of 1 MB still fit
_COMPRESSED = (".gz", ".xz", ".zst")
_JSON_LINES = (".jsonl", ".ndjson", ".json")
_MAX_PATH = 4096
_TEXT_HINT = "to count a text itself, give a list: [text]"


def iter_documents(
    source: Source,
    *,
    field: str = "text",
    cut: Cut | None = None,
    block_size: int = BLOCK_SIZE,
    mark_ends: bool = False,
    progress: Progress | None = None,
) -> Iterator[bytes]:
    """Yield the documents of a corpus as UTF-8 bytes, in the source's order; empty ones are left out.

    Every path is opened once before the first document, so that a bad one among many costs no work.

    A plain-text file is one document, however long, taken byte for byte: newlines stay as they are; only
    a byte-order mark at its start is dropped. With `cut`, it and every document longer than `block_size`
    come in blocks that end where `cut` allows. Without, documents come whole and a plain-text file comes
    line by line, each with its line end, as `tokenizers.Tokenizer.train` reads files.

    Args:
        source: One of

            - a str or path: a file, or a glob pattern (`**` for any depth), whose files are read in sorted
              order. The suffix tells the format: `.jsonl`, `.ndjson`, `.json` (JSON Lines), `.parquet`,
              anything else plain text; with a further `.gz`, `.xz` or `.zst`, compressed;
            - an iterable of `pathlib.Path`: those, in the order given;
            - a `datasets.Dataset` or `IterableDataset`;
            - any other iterable of str, or of batches (lists) of str: each str is a document, never a path.
        field: The field of JSON Lines, or column of Parquet and `datasets`, that holds the text.
        cut: `cut(text)` gives a position p such that text[:p] and whatever follows can be counted
            separately, or 0 where it knows none; text may end inside a character.
        block_size: Bytes; but for the blocks' own length, no result depends on it.
        mark_ends: Yield b"" behind the last block of each document.
        progress: Called now and then as progress(bytes_done, bytes_total): of the files as they lie on disk,
            or of text and None when the source has no known size.
    Raises:
        CorpusError: a path that is missing, a directory, unreadable, truncated, corrupt or not UTF-8; a
            record without text in `field`; a str with a lone surrogate. The message names file and place.
        ConfigurationError: the source needs an optional package that is not installed.
    Cost: memory O(block_size + longest document without a cut).
    Example:
        >>> list(iter_documents(["one", ["two", ""], ["three"]]))
        [b'one', b'two', b'three']
    """
    reader = _Reader(field, cut, block_size, mark_ends)
    documents = reader.open(source)
    return documents if progress is None else _reported(documents, reader, progress)


def describe_source(source: Source) -> str:
    """Name a source in a few words, for messages.

    Example:
        >>> describe_source("books/*.txt"), describe_source(["a text"])
        ("'books/*.txt'", 'a list')
        >>> describe_source([Path("a.txt"), Path("b.txt")])
        "'a.txt' and 1 more"
    """
    if names := source_names(source):
        more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
        return f"{names[0]!r}{more}"
    name = type(source).__name__
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def source_names(source: Source) -> list[str]:
    """The paths and patterns in a source, as given; none where it has no names, such as texts in memory.

    Example:
        >>> source_names("books/*.txt"), source_names([Path("a.txt")]), source_names(["a text"])
        (['books/*.txt'], ['a.txt'], [])
    """
    if isinstance(source, str | os.PathLike):
        return [os.fspath(source)]
    if not isinstance(source, list | tuple):
        return []
    return [os.fspath(path) for path in source if isinstance(path, os.PathLike)]


def without_pipes(source: Source) -> tuple[Source, Any]:
    """A source that may be read again and again: of a pipe, such as a shell's `<(…)`, what it gives is kept.

    Returns:
        The source with files in the places of pipes; and what removes these files when nobody holds it.
    Raises:
        CorpusError: a pipe can't be read.
    """
    paths = [Path(source)] if isinstance(source, str | os.PathLike) else source
    if not isinstance(paths, list | tuple) or not any(map(_is_pipe, paths)):
        return source, None
    folder = tempfile.TemporaryDirectory(prefix="hf-scaffold-")
    kept: list[Any] = []
    for number, path in enumerate(paths):
        if _is_pipe(path):
            copy = Path(folder.name, f"{number}-{Path(path).name}")
            try:
                with open(path, "rb") as stream, open(copy, "wb") as file:
                    shutil.copyfileobj(stream, file)
            except OSError as error:
                raise CorpusError(f"can't read {path}: {error}") from error
            path = copy
        kept.append(path)
    return kept, folder


def _is_pipe(path: object) -> bool:
    """Whether this is the path of something to be read once, neither file nor folder."""
    if not isinstance(path, os.PathLike):  # among others, each str is a text
        return False
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def batches(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    """Consecutive items in lists, each complete once its items' lengths reach `size` together.

    Example:
        >>> list(batches([b"one", b"two", b"", b"three"], 6))
        [[b'one', b'two'], [b'', b'three']]
    """
    batch: list[_Item] = []
    length = 0
    for item in items:
        batch.append(item)
        length += len(item)
        if length >= size:
            yield batch
            batch, length = [], 0
    if batch:
        yield batch


def import_extra(module: str, extra: str) -> Any:
    """Import an optional package, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ConfigurationError(
            f"this needs the package {package}: pip install 'hf_scaffold[{extra}]'"
        ) from error


class _Reader:
    """Reads one source and knows how far it is."""

    def __init__(self, field: str, cut: Cut | None, block_size: int, mark_ends: bool) -> None:
        self.field = field
        self.cut = cut
        self.block_size = block_size
        self.ends = [b""] if mark_ends else []
        self.bytes_done = 0
        self.bytes_total: int | None = None

    def open(self, source: Source) -> Iterator[bytes]:
        """Check the source at once; read it as the result is iterated."""
        if isinstance(source, str | os.PathLike):
            return self._read_files(_find_files(source))
        if isinstance(source, Mapping):
            raise CorpusError(
                f"can't read documents from {describe_source(source)} of {_names(source)}; "
                f"choose one, as in source[{next(iter(source), self.field)!r}]"
            )
        if isinstance(source, bytes | bytearray | memoryview) or not isinstance(source, Iterable):
            raise CorpusError(
                f"can't read documents from {describe_source(source)}; give a path, a glob pattern, "
                "a datasets.Dataset or an iterable of str"
            )
        if _is_dataset(source):
            return self._read_texts(_dataset_texts(source, self.field))
        elements = iter(source)
        first = next(elements, "")
        elements = chain([first], elements)
        if isinstance(first, os.PathLike):
            return self._read_files(find_files(elements))
        if isinstance(first, str) and os.path.isfile(first):
            raise CorpusError(
                f"the first str of {describe_source(source)}, {first!r}, is the name of a file, but each str "
                "of an iterable is a document; to read files, give pathlib.Path objects"
            )
        if isinstance(first, str) and _looks_like_a_path(first):
            warn(f"the first document is {first!r}; if that is to be a path, give pathlib.Path({first!r})")
        return self._read_texts(_iterable_texts(elements))

    def _read_texts(self, texts: Iterator[Any]) -> Iterator[bytes]:
        for number, text in enumerate(texts):
            document = _encode(text, "document", number)
            self.bytes_done += len(document)
            yield from self._blocks(document)

    def _read_files(self, paths: list[Path]) -> Iterator[bytes]:
        sizes = [_check_file(path) for path in paths]
        known = [size for size in sizes if size is not None]
        self.bytes_total = sum(known) if len(known) == len(sizes) else None
        return chain.from_iterable(map(self._read_file, paths, sizes))

    def _read_file(self, path: Path, size: int | None) -> Iterator[bytes]:
        end = self.bytes_done + (sys.maxsize if size is None else size)

        def advance(n_bytes: int) -> None:
            self.bytes_done = min(self.bytes_done + n_bytes, end)

        try:
            with _open(path, advance) as stream:
                yield from self._read_stream(stream, path)
        except EOFError as error:
            raise CorpusError(f"{path} is truncated: its compressed data ends too early") from error
        except (OSError, lzma.LZMAError, zlib.error) as error:
            raise CorpusError(f"can't read {path}: {error}") from error
        if size is not None:
            self.bytes_done = end  # of a Parquet file only one column's share was read

    def _read_stream(self, stream: BinaryIO, path: Path) -> Iterator[bytes]:
        form, _ = _format(path)
        if form == ".parquet":
            for document in _parquet_texts(stream, path, self.field):
                yield from self._blocks(document)
        elif form in _JSON_LINES:
            for document in _json_lines_texts(stream, path, self.field):
                yield from self._blocks(document)
        elif self.cut is None:
            for line, _ in _lines(stream, path):
                yield from self._blocks(line)
        else:
            yield from self._ended(_cut_reads(_reads(stream, path, self.block_size), self.cut))

    def _blocks(self, document: bytes) -> Iterator[bytes]:
        if self.cut is not None and len(document) > self.block_size:
            starts = range(0, len(document), self.block_size)
            reads = (document[start : start + self.block_size] for start in starts)
            yield from self._ended(_cut_reads(reads, self.cut))
        elif document:
            yield document
            yield from self.ends

    def _ended(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        block = b""
        for block in blocks:
            yield block
        if block:
            yield from self.ends


def _reported(documents: Iterator[bytes], reader: _Reader, progress: Progress) -> Iterator[bytes]:
    """The documents, with a report at most once a block and once at the end."""
    next_report = 0
    for document in documents:
        yield document
        if reader.bytes_done >= next_report:
            progress(reader.bytes_done, reader.bytes_total)
            next_report = reader.bytes_done + reader.block_size
    progress(reader.bytes_done, reader.bytes_total)


# Documents in memory


def _iterable_texts(elements: Iterable[Any]) -> Iterator[Any]:
    for element in elements:
        if isinstance(element, list | tuple):
            yield from element
        else:
            yield element


def _is_dataset(source: object) -> bool:
    datasets = sys.modules.get("datasets")  # not imported: then nobody can have made one
    return datasets is not None and isinstance(source, datasets.Dataset | datasets.IterableDataset)


def _dataset_texts(dataset: Any, field: str) -> Iterator[Any]:
    columns = dataset.column_names  # None: an IterableDataset that learns them as it runs
    if columns is not None:
        if field not in columns:
            raise CorpusError(f"the dataset has no column {field!r}; it has {_names(columns)}")
        dataset = dataset.select_columns([field])
    return _rows_of_batches(dataset.with_format(None), field)


def _rows_of_batches(dataset: Any, field: str) -> Iterator[Any]:
    for batch in dataset.iter(batch_size=_ROWS):
        if field not in batch:
            raise CorpusError(f"the dataset has no column {field!r}; it has {_names(batch)}")
        yield from batch[field]


def _encode(text: object, origin: str, number: int) -> bytes:
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


def _names(names: Iterable[object]) -> str:
    return ", ".join(map(repr, names)) or "none"


# Cutting


def _cut_reads(reads: Iterable[bytes], cut: Cut) -> Iterator[bytes]:
    """Join reads into blocks that end where `cut` allows.

    After a vain search the text must double before the next, so that a long run without any cut (a
    megabyte of one letter) costs linear time.
    """
    pending: list[bytes] = []
    size = enough = 0
    for data in reads:
        pending.append(data)
        size += len(data)
        if size < enough:
            continue
        text = b"".join(pending)
        position = cut(text)
        if position:
            yield text[:position]
        pending = [text[position:]]
        size = len(pending[0])
        enough = 2 * size
    if size:
        yield b"".join(pending)


# Files


def _find_files(source: str | os.PathLike[str]) -> list[Path]:
    """The file of that name or, if there is none, the files that match it as a glob pattern."""
    name = os.fspath(source)
    path = Path(name)
    if os.path.lexists(path):
        return [path]
    if len(name) > _MAX_PATH or "\n" in name or not _is_encodable(name):
        raise CorpusError(f"{name[:40]!r}… looks like text, not like a path or glob pattern; {_TEXT_HINT}")
    if not glob.has_magic(name):
        if isinstance(source, str):
            raise CorpusError(f"can't open {name}: {os.strerror(errno.ENOENT)}; {_TEXT_HINT}")
        return [path]
    paths = [Path(match) for match in sorted(glob.glob(name, recursive=True)) if not os.path.isdir(match)]
    if not paths:
        raise CorpusError(f"no file matches the pattern {name!r}")
    return paths


def find_files(elements: Iterable[Any]) -> list[Path]:
    """The files that paths and glob patterns mean, in order.

    Raises:
        CorpusError: one is no path, or matches nothing.
    """
    paths: list[Path] = []
    for element in elements:
        if not isinstance(element, os.PathLike):
            raise CorpusError(
                f"{element!r} among paths: give only pathlib.Path objects, or only str documents"
            )
        paths += _find_files(element)
    return paths


def _looks_like_a_path(text: str) -> bool:
    suffixes = (*_COMPRESSED, *_JSON_LINES, ".parquet", ".txt")
    return text.lower().endswith(suffixes) and not any(map(str.isspace, text))


def _is_encodable(name: str) -> bool:
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        return False
    return "\0" not in name


def _check_file(path: Path) -> int | None:
    """The file's size, or None where it has none (a pipe); refuses what can't be read."""
    form, compression = _format(path)
    if form == ".parquet":
        import_extra("pyarrow.parquet", "parquet")
        if compression:
            raise CorpusError(f"{path}: Parquet is compressed inside; unpack the {compression} around it")
    if compression == ".zst":
        import_extra("zstandard", "zstd")
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
    """The suffix that tells the format, and the one of the compression, or ''."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compression = suffixes.pop() if suffixes and suffixes[-1] in _COMPRESSED else ""
    return (suffixes[-1] if suffixes else ""), compression


@contextmanager
def _open(path: Path, on_read: Callable[[int], None]) -> Iterator[BinaryIO]:
    """The file's bytes, decompressed."""
    _, compression = _format(path)
    with ExitStack() as stack:
        stream: Any = stack.enter_context(io.BufferedReader(_MeteredFile(path, on_read), _READ_SIZE))
        if compression == ".gz":
            stream = stack.enter_context(gzip.GzipFile(fileobj=stream, mode="rb"))
        elif compression == ".xz":
            stream = stack.enter_context(lzma.LZMAFile(stream))
        elif compression == ".zst":
            stream = stack.enter_context(io.BufferedReader(_ZstdFile(stream), _READ_SIZE))
        yield stream


class _MeteredFile(io.FileIO):
    """A file that tells how many bytes are read from it."""

    def __init__(self, path: Path, on_read: Callable[[int], None]) -> None:
        super().__init__(path)
        self._on_read = on_read

    def readinto(self, buffer: Any) -> int:
        n_bytes = super().readinto(buffer) or 0
        self._on_read(n_bytes)
        return n_bytes


class _ZstdFile(io.RawIOBase):
    """The decompressed bytes of any number of Zstandard frames.

    Unlike zstandard's own stream reader it tells a truncated file from a complete one.
    """

    _INPUT = 1 << 13  # bytes decompressed at a time: all they hold is in memory at once

    def __init__(self, compressed: BinaryIO) -> None:
        zstandard = import_extra("zstandard", "zstd")
        self._error: type[Exception] = zstandard.ZstdError
        # 2 GiB: the widest window of `zstd --long`
        self._new_frame = zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj
        self._blocks = self._decompress(compressed)
        self._block = memoryview(b"")

    def _decompress(self, compressed: BinaryIO) -> Iterator[bytes]:
        frame = None
        while data := compressed.read(self._INPUT):
            while data:
                frame = frame or self._new_frame()
                try:
                    yield frame.decompress(data)
                except self._error as error:
                    raise OSError(str(error)) from error
                data = frame.unused_data
                if frame.eof:
                    frame = None
        if frame is not None:
            raise EOFError

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._block:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._block = memoryview(block)
        n_bytes = min(len(buffer), len(self._block))
        buffer[:n_bytes] = self._block[:n_bytes]
        self._block = self._block[n_bytes:]
        return n_bytes


# Formats


def _reads(stream: BinaryIO, path: Path, size: int) -> Iterator[bytes]:
    """Reads of at most `size` bytes, checked to be UTF-8 together, without the byte-order mark."""
    check = _Utf8Check(path)
    head = stream.read(max(size, len(codecs.BOM_UTF8)))
    check(head)
    yield head.removeprefix(codecs.BOM_UTF8)
    while data := stream.read(size):
        check(data)
        yield data
    check(b"", final=True)


def _lines(stream: BinaryIO, path: Path) -> Iterator[tuple[bytes, str]]:
    """Lines with their ends, as they are and decoded, without the byte-order mark."""
    offset = 0
    for line in stream:
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise _not_utf8(path, offset, error) from None
        if offset == 0 and line.startswith(codecs.BOM_UTF8):
            yield line.removeprefix(codecs.BOM_UTF8), text[1:]
        else:
            yield line, text
        offset += len(line)


def _not_utf8(path: Path, offset: int, error: UnicodeDecodeError) -> CorpusError:
    """The error of data that begins at an offset in a file."""
    return CorpusError(
        f"{path} is not UTF-8: byte 0x{error.object[error.start]:02x} at offset {offset + error.start}, "
        f"{error.reason}; convert the file to UTF-8 first"
    )


class _Utf8Check:
    """Checks that the data given to it call after call is UTF-8."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._offset = 0  # bytes of the file decoded, up to the last whole character

    def __call__(self, data: bytes, final: bool = False) -> None:
        """Check the next bytes; `final`: no character may go on after them."""
        n_held = len(self._decoder.getstate()[0])
        try:
            self._decoder.decode(data, final)
        except UnicodeDecodeError as error:
            raise _not_utf8(self._path, self._offset, error) from None
        self._offset += n_held + len(data) - len(self._decoder.getstate()[0])


def _json_lines_texts(stream: BinaryIO, path: Path, field: str) -> Iterator[bytes]:
    for number, (line, text) in enumerate(_lines(stream, path), 1):
        if line.isspace():
            continue
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise CorpusError(f"{path}, line {number}: not JSON: {error}") from None
        if not isinstance(record, dict):
            raise CorpusError(
                f"{path}, line {number}: expected an object, not {_type_name(record)}; "
                "JSON files are read as JSON Lines, one object a line"
            )
        if field not in record:
            raise CorpusError(f"{path}, line {number}: no field {field!r}; it has {_names(record)}")
        yield _encode(record[field], f"{path}, field {field!r} of line", number)


def _parquet_texts(stream: BinaryIO, path: Path, field: str) -> Iterator[bytes]:
    pyarrow = import_extra("pyarrow", "parquet")
    parquet = import_extra("pyarrow.parquet", "parquet")
    try:
        file = parquet.ParquetFile(stream, buffer_size=BLOCK_SIZE)
        names = file.schema_arrow.names
        if field not in names:
            raise CorpusError(f"{path}: no column {field!r}; it has {_names(names)}")
        row = 0
        for batch in file.iter_batches(_ROWS, columns=[field], use_threads=False):
            for text in batch.column(0).to_pylist():
                yield _encode(text, f"{path}, column {field!r} of row", row)
                row += 1
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path}, column {field!r}: a row from {row} on is not UTF-8: {error}") from None
    except pyarrow.ArrowException as error:
        raise CorpusError(f"can't read {path}: {error}") from error
