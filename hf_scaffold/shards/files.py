"""The files of training shards, format by format."""

from __future__ import annotations

import hashlib
import io
import os
import re
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from hf_scaffold._utils.files import naming, sync
from hf_scaffold._utils.urls import Place, Url
from hf_scaffold.errors import CorpusError
from hf_scaffold.text.files import import_extra

COLUMN = "input_ids"
WRITE_BACK = 1 << 22  # bytes of a shard written before the disk is asked to take them
ROW_GROUP = 1 << 20  # tokens, about, of a Parquet row group or an Arrow batch
MAX_LENGTH = (1 << 31) - 1  # tokens of a row, or of one of Megatron's sequences: int32 holds no more
# Megatron's IndexedDataset: magic, version, and its codes of the types; it has int32 where we have uint32.
MEGATRON_MAGIC = b"MMIDIDX\x00\x00"
MEGATRON_CODES = {"uint16": 8, "uint32": 4}
FILE_NAME = re.compile(r"\.?(shard-\d{5,})\.(bin|idx|npy|parquet|arrow)(\.tmp)?")


@dataclass(frozen=True)
class Shard:
    """A finished file. A document lies in one shard whole, its EOS included.

    Args:
        idx_sha256: Of the `.idx` beside a `.bin`.
    """

    name: str
    n_documents: int
    n_tokens: int
    n_bytes: int
    sha256: str
    idx_sha256: str | None = None


@dataclass(frozen=True)
class Tokens:
    """Consecutive tokens of a corpus; `ends` are the positions after the last token of each document."""

    ids: NDArray[Any]
    ends: NDArray[np.int64]

    def __bool__(self) -> bool:
        """Whether it is not empty: a document may have no token, and a piece of one has no end."""
        return bool(len(self.ids) or len(self.ends))

    def split(self, room: int) -> tuple[Tokens, Tokens, bool]:
        """Split after the first end of a document at `room` tokens or more.

        Returns:
            What comes before it, the rest, and whether there is such an end; if not, the first part has all.
        """
        n = int(np.searchsorted(self.ends, room))
        if n == len(self.ends):
            return self, Tokens(self.ids[:0], self.ends[:0]), False
        end = self.ends[n]
        first = Tokens(self.ids[:end], self.ends[: n + 1])
        return first, Tokens(self.ids[end:], self.ends[n + 1 :] - end), True


class DigestingFile(io.BufferedWriter):
    """A new file, and the SHA-256 of what is written to it.

    The system is asked to send to the disk what was written, now and then, so that little is left to wait for
    at the end.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path, "wb"))
        self.digest = hashlib.sha256()
        self._n_waiting = 0

    def write(self, data: Any) -> int:
        n_bytes = super().write(data)
        self.digest.update(data)
        self._n_waiting += n_bytes
        if self._n_waiting >= WRITE_BACK:
            self._write_back()
        return n_bytes

    def _write_back(self) -> None:
        # Linux starts to write such pages and, as they are not yet written, keeps them. Best effort.
        if hasattr(os, "posix_fadvise"):
            begin = self.tell() - self._n_waiting
            with suppress(OSError):
                os.posix_fadvise(self.fileno(), begin, self._n_waiting, os.POSIX_FADV_DONTNEED)
        self._n_waiting = 0


class ShardWriter(ABC):
    """One shard on its way to the disk, under a temporary name until it is finished."""

    suffix: str

    def __init__(self, folder: Path, stem: str, dtype: str) -> None:
        self.path = folder / f"{stem}{self.suffix}"
        self.dtype = np.dtype(dtype).newbyteorder("<")
        self.n_documents = 0
        self.n_tokens = 0
        self.stream = DigestingFile(temporary(self.path))
        try:
            with naming(self.path):
                self.begin()
        except BaseException:
            self.discard()
            raise

    def add(self, part: Tokens) -> None:
        """Append tokens."""
        with naming(self.path):
            self.write(Tokens(part.ids.astype(self.dtype, copy=False), part.ends))
        self.n_tokens += len(part.ids)
        self.n_documents += len(part.ends)

    def finish(self) -> Shard:
        """Complete the file and give it its name."""
        with naming(self.path):
            self.end()
            publish(self.stream, self.path)
        return Shard(
            name=self.path.name,
            n_documents=self.n_documents,
            n_tokens=self.n_tokens,
            n_bytes=self.path.stat().st_size,
            sha256=self.sha256(),
        )

    def sha256(self) -> str:
        """Of the finished file."""
        return self.stream.digest.hexdigest()

    def discard(self) -> None:
        """Remove a shard that can't be finished."""
        with suppress(OSError):  # closing writes what is buffered, and the disk may be full
            self.stream.close()
        temporary(self.path).unlink(missing_ok=True)

    @abstractmethod
    def begin(self) -> None:
        """Write what precedes the tokens."""

    @abstractmethod
    def write(self, part: Tokens) -> None: ...

    @abstractmethod
    def end(self) -> None:
        """Write what follows the tokens."""


class BinWriter(ShardWriter):
    """The ids alone; the `.idx` beside them tells Megatron where each document lies."""

    suffix = ".bin"

    def begin(self) -> None:
        self.ends: list[NDArray[np.int64]] = []

    def write(self, part: Tokens) -> None:
        self.stream.write(part.ids.data)
        self.ends.append(part.ends + self.n_tokens)

    def end(self) -> None:
        starts = np.concatenate([np.zeros(1, np.int64), *self.ends])
        bounds, places = sequences(starts)
        header = struct.pack("<QBQQ", 1, MEGATRON_CODES[self.dtype.name], len(bounds) - 1, len(starts))
        path = self.path.with_suffix(".idx")
        with open(temporary(path), "wb") as stream:
            stream.write(MEGATRON_MAGIC + header)
            stream.write(np.diff(bounds).astype("<i4").data)
            stream.write((bounds[:-1] * self.dtype.itemsize).astype("<i8").data)
            stream.write(places.astype("<i8").data)
            publish(stream, path)  # before the .bin: none is without its .idx

    def finish(self) -> Shard:
        return replace(super().finish(), idx_sha256=sha256(self.path.with_suffix(".idx")))

    def discard(self) -> None:
        super().discard()
        temporary(self.path.with_suffix(".idx")).unlink(missing_ok=True)
        if not self.path.exists():
            self.path.with_suffix(".idx").unlink(missing_ok=True)


def sequences(starts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where Megatron's sequences begin and the last ends; with which of them each document begins.

    A document too long for a sequence is several; one without tokens is none.

    Args:
        starts: Where documents begin, from 0 on, and the last ends.
    Example:
        >>> sequences(np.array([0, 0, 3, 5]))
        (array([0, 3, 5]), array([0, 0, 1, 2]))
    """
    if starts[-1] > MAX_LENGTH:
        bounds = np.union1d(starts, np.arange(0, starts[-1], MAX_LENGTH))
        return bounds, np.searchsorted(bounds, starts)
    is_new = np.diff(starts, prepend=-1) > 0  # without a sort: there may be many
    return starts[is_new], np.cumsum(is_new) - 1


class NpyWriter(ShardWriter):
    suffix = ".npy"

    def begin(self) -> None:
        # numpy pads the header so that the number of rows can grow in place.
        header = {"descr": npy.dtype_to_descr(self.dtype), "fortran_order": False, "shape": (self.n_tokens,)}
        npy.write_array_header_1_0(self.stream, header)

    def write(self, part: Tokens) -> None:
        self.stream.write(part.ids.data)

    def end(self) -> None:
        self.stream.seek(0)
        self.begin()

    def sha256(self) -> str:
        return sha256(self.path)  # the header was written twice


class RowWriter(ShardWriter):
    """A row a document, in groups of rows that depend on the shard's documents alone."""

    def begin(self) -> None:
        self.pyarrow = import_extra("pyarrow", "parquet")
        ids = self.pyarrow.list_(self.pyarrow.from_numpy_dtype(self.dtype))
        self.schema = self.pyarrow.schema([(COLUMN, ids)])
        self.table = self.open_table()
        self.waiting: list[Tokens] = []
        self.n_waiting = 0

    @abstractmethod
    def open_table(self) -> Any:
        """A writer into the stream."""

    def write(self, part: Tokens) -> None:
        while part:
            first, part, is_full = part.split(ROW_GROUP - self.n_waiting)
            self.waiting.append(first)
            self.n_waiting += len(first.ids)
            if self.n_waiting > MAX_LENGTH:
                raise CorpusError(
                    f"a document has more than {MAX_LENGTH - ROW_GROUP:,} tokens, too long for a row; "
                    "take its lines as documents, or another format"
                )
            if is_full:
                self.write_group()

    def write_group(self) -> None:
        starts = np.cumsum([0, *(len(part.ids) for part in self.waiting[:-1])])
        ends = [part.ends + start for part, start in zip(self.waiting, starts, strict=True)]
        offsets = np.concatenate([[0], *ends]).astype(np.int32)
        ids = np.concatenate([part.ids for part in self.waiting])
        rows = self.pyarrow.ListArray.from_arrays(offsets, ids)
        self.table.write_table(self.pyarrow.table([rows], schema=self.schema))
        self.waiting, self.n_waiting = [], 0

    def end(self) -> None:
        if self.waiting:
            self.write_group()
        self.table.close()

    def discard(self) -> None:
        # Else pyarrow closes it later, and writes to a closed stream.
        with suppress(OSError, AttributeError):  # a full disk; or there is no table yet
            if not self.stream.closed:
                self.table.close()
        super().discard()


class ParquetWriter(RowWriter):
    suffix = ".parquet"

    def open_table(self) -> Any:
        parquet = import_extra("pyarrow.parquet", "parquet")
        return parquet.ParquetWriter(self.stream, self.schema, compression="zstd")


class ArrowWriter(RowWriter):
    """An Arrow stream, as `datasets.Dataset.from_file` reads it."""

    suffix = ".arrow"

    def open_table(self) -> Any:
        return self.pyarrow.ipc.new_stream(self.stream, self.schema)


WRITERS: Mapping[str, Callable[[Path, str, str], ShardWriter]] = {
    "bin": BinWriter,
    "npy": NpyWriter,
    "parquet": ParquetWriter,
    "arrow": ArrowWriter,
}
FORMATS = tuple(WRITERS)


def open_shard(folder: Path, number: int, format: str, dtype: str) -> ShardWriter:
    """A writer for `shard-00000.bin` or the like, to be finished or discarded."""
    return WRITERS[format](folder, f"shard-{number:05d}", dtype)


def find_shard_files(folder: Place) -> Iterator[tuple[Place, str, bool]]:
    """The files of shards in a folder: path, stem of the shard's name, whether the file is finished."""
    for path in folder.children() if isinstance(folder, Url) else folder.iterdir():
        if match := FILE_NAME.fullmatch(path.name):
            yield path, match[1], not match[3]


def sizes_in(folder: Place) -> dict[str, int]:
    """The names of the files in a folder with their sizes in bytes; none if there is no such folder."""
    if isinstance(folder, Url):
        return {url.name: url.size or 0 for url in folder.children() if not url.is_folder}
    try:
        with os.scandir(folder) as entries:
            return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}
    except FileNotFoundError:
        return {}


def is_whole(shard: Shard, sizes: Mapping[str, int]) -> bool:
    """Whether the files of a shard are among those of a folder."""
    has_companion = shard.idx_sha256 is None or str(Path(shard.name).with_suffix(".idx")) in sizes
    return sizes.get(shard.name) == shard.n_bytes and has_companion


def names_of(shard: Shard) -> Iterator[str]:
    """Its files, the one last by which it is known."""
    if shard.idx_sha256 is not None:
        yield str(Path(shard.name).with_suffix(".idx"))
    yield shard.name


def is_shard_name(name: object) -> bool:
    """Whether a finished shard could have this name."""
    match = FILE_NAME.fullmatch(name) if isinstance(name, str) else None
    return match is not None and not match[3] and not match[0].startswith(".")


def sha256(path: Path) -> str:
    """In hex."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while data := stream.read(1 << 20):
            digest.update(data)
    return digest.hexdigest()


def temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.tmp")


def publish(stream: IO[bytes], path: Path) -> None:
    """Close a complete file and give it its name."""
    stream.flush()
    os.fsync(stream.fileno())
    stream.close()
    os.replace(temporary(path), path)
    sync(str(path.parent))
