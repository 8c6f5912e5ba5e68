"""`Texts`: pieces of documents in one buffer, without a Python object for each; and text in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

_TAIL = 1 << 16  # bytes at the end of a text in which a cut is looked for first


@dataclass(frozen=True, eq=False)
class Texts:
    """Consecutive pieces of documents, as UTF-8; none is empty, and most are whole documents.

    Tokenizers take it as a batch, like a column of an Arrow table.

    Args:
        utf8: `Utf8`, bytes or read-only uint8; piece i is utf8[bounds[i]:bounds[i + 1]].
        bounds: int64, n + 1.
        is_end: bool, n: whether the document ends with the piece.
    Example:
        >>> texts = Texts.of([b"one ", b"two"], [False, True])
        >>> list(texts), list(texts.after(1))
        ([b'one ', b'two'], [b'two'])
        >>> list(Texts.join([texts, Texts.of([b"three"])]))
        [b'one ', b'two', b'three']
    """

    utf8: Any
    bounds: NDArray[np.int64]
    is_end: NDArray[np.bool_]

    @classmethod
    def of(cls, pieces: Sequence[Any], is_end: Sequence[bool] | None = None) -> Texts:
        """Of bytes or the like, by default whole documents. Copies unless there is one."""
        ends = np.ones(len(pieces), bool) if is_end is None else np.array(is_end, bool)
        bounds = np.cumsum([0, *map(len, pieces)], dtype=np.int64)
        return cls(pieces[0] if len(pieces) == 1 else b"".join(pieces), bounds, ends)

    @classmethod
    def whole(cls, utf8: Any, bounds: NDArray[np.int64]) -> Texts:
        """Of whole documents."""
        return cls(utf8, bounds, np.ones(len(bounds) - 1, bool))

    @classmethod
    def join(cls, several: Sequence[Texts]) -> Texts:
        """The pieces of all. Copies unless there is one."""
        if len(several) == 1:
            return several[0]
        lengths = [np.diff(texts.bounds) for texts in several]
        return cls(
            b"".join(memoryview(texts.utf8)[texts.bounds[0] : texts.bounds[-1]] for texts in several),
            np.concatenate([[0], *lengths]).cumsum(),
            np.concatenate([texts.is_end for texts in several]),
        )

    def after(self, n: int) -> Texts:
        """All but the first n pieces, without a copy."""
        return Texts(self.utf8, self.bounds[n:], self.is_end[n:])

    @property
    def n_bytes(self) -> int:
        return int(self.bounds[-1] - self.bounds[0])

    def __len__(self) -> int:
        return len(self.is_end)

    def __iter__(self) -> Iterator[bytes]:
        view = memoryview(self.utf8)
        return (bytes(view[begin:end]) for begin, end in pairwise(self.bounds.tolist()))

    def to_pylist(self) -> list[bytes]:
        """The pieces, as Arrow columns give theirs."""
        return list(self)


def joined(texts: Iterable[Texts], size: int) -> Iterator[Texts]:
    """Consecutive pieces together, each time once they have `size` bytes.

    Example:
        >>> texts = [Texts.of([b"one"]), Texts.of([b"two", b"three"]), Texts.of([b"four"])]
        >>> [list(batch) for batch in joined(texts, 6)]
        [[b'one', b'two', b'three'], [b'four']]
    """
    waiting: list[Texts] = []
    n_bytes = 0
    for some in texts:
        waiting.append(some)
        n_bytes += some.n_bytes
        if n_bytes >= size:
            yield Texts.join(waiting)
            waiting, n_bytes = [], 0
    if waiting:
        yield Texts.join(waiting)


def column_utf8(column: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes of an Arrow array of strings or binary without nulls, read-only, and bounds in them."""
    import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types

    if not len(column):  # it may have no buffers
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    column = column.cast(pa.large_binary())
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, np.int64, len(column) + 1, column.offset * 8)
    utf8 = np.frombuffer(data or b"", np.uint8)
    utf8.flags.writeable = False
    return utf8, bounds


# ---- blocks


def blocks_of(stream: Any, size: int, cut: Callable[[bytes], int]) -> Iterator[NDArray[np.uint8]]:
    """What is read from a stream, in blocks of about `size` bytes that end where `cut` allows; read-only.

    After a vain search the text doubles before the next, so that a long run without any cut (a megabyte of
    one letter) costs linear time. If reading fails, the blocks before that come first.

    Args:
        stream: As `open_file` gives it.
        cut: As for `iter_documents`.
    """
    rest, n_more, is_last = np.empty(0, np.uint8), size, False
    while not is_last:
        text = np.empty(len(rest) + n_more, np.uint8)
        text[: len(rest)] = rest
        n_read, failure = _fill(text.data[len(rest) :], stream)
        text = text[: len(rest) + n_read]
        text.flags.writeable = False
        is_last = n_read < n_more
        end = len(text) if is_last and failure is None else _end_in(text, cut)
        if end:
            yield text[:end]
        if failure is not None:
            raise failure
        rest, n_more = text[end:], size if end else len(text)


def _fill(view: memoryview, stream: Any) -> tuple[int, Exception | None]:
    """How many bytes could be read, fewer only where the stream ends; and what failed."""
    n_bytes = 0
    try:
        while n_bytes < len(view) and (n_read := stream.readinto1(view[n_bytes:])):
            n_bytes += n_read
    except Exception as error:  # reading from the disk, or decompression
        return n_bytes, error
    return n_bytes, None


def pieces_of(document: bytes, size: int, cut: Callable[[bytes], int]) -> Iterator[memoryview]:
    """A document in blocks as `blocks_of` has them, without a copy."""
    view = memoryview(document)
    begin, stop = 0, size
    while stop < len(view):
        n = _end_in(view[begin:stop], cut)
        if n:
            yield view[begin : begin + n]
        stop += size if n else stop - begin
        begin += n
    if begin < len(view):
        yield view[begin:]


def _end_in(text: Any, cut: Callable[[bytes], int]) -> int:
    """The last cut, looked for near the end first, since what `cut` is given is copied."""
    begin = max(0, len(text) - _TAIL)
    end = cut(bytes(text[begin:]))
    return begin + end if end or not begin else cut(bytes(text))
