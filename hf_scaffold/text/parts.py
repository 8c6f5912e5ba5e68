"""A corpus of files divided by bytes, so that machines read a part each without talking to each other."""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

from hf_scaffold._utils.arguments import shortened, whole
from hf_scaffold._utils.urls import Place, open_place, size_of
from hf_scaffold._utils.version import __version__
from hf_scaffold.errors import ConfigurationError, CorpusError

_WINDOW = 1 << 12  # bytes searched at a time
_OVERLAP = 8  # bytes: two characters


class Part(NamedTuple):
    """One of the parts that a corpus is divided into: of its bytes on disk, as even as they can be cut.

    Args:
        number: From 0.
        of: How many parts there are. There may be more than bytes; then some are empty.
    """

    number: int
    of: int

    @classmethod
    def checked(cls, value: Any) -> Part:
        """What is given as `part`: two numbers, or a string such as "3/64".

        Raises:
            TypeError: it is neither.
            ConfigurationError: there is no such part.
        Example:
            >>> Part.checked("3/64"), Part.checked((0, 1))
            (Part(number=3, of=64), Part(number=0, of=1))
            >>> Part.checked((64, 64))
            Traceback (most recent call last):
            hf_scaffold.errors.ConfigurationError: there is no part 64/64: they are numbered 0/64 to 63/64
        """
        if isinstance(value, str) and (found := re.fullmatch(r"(\d{1,18})/(\d{1,18})", value, re.ASCII)):
            value = int(found[1]), int(found[2])
        if not isinstance(value, tuple | list) or len(value) != 2:
            raise TypeError(f"part must be two numbers such as (3, 64), not {shortened(value)}")
        number, of = whole("part[0]", value[0]), whole("part[1]", value[1], least=1)
        if number >= of:
            raise ConfigurationError(
                f"there is no part {number}/{of}: they are numbered 0/{of} to {of - 1}/{of}"
            )
        return cls(number, of)

    def spans(self, sizes: Sequence[int]) -> Iterator[Span]:
        """What this part has of each file, in bytes, before places to cut are looked for.

        Example:
            >>> for number in range(2):
            ...     print([(span.begin, span.end) for span in Part(number, 2).spans([5, 3])])
            [(0, 4), (0, 0)]
            [(4, 5), (0, 3)]
        """
        total = max(sum(sizes), 1)
        low, high = (total * number // self.of for number in (self.number, self.number + 1))
        start = 0
        for size in sizes:
            begin, end = (min(max(bound - start, 0), size) for bound in (low, high))
            yield Span(begin, end, size, low <= min(start, total - 1) < high)
            start += size


class Span(NamedTuple):
    """Bytes of a file.

    Args:
        begin, end: Their offsets; alike if there are none.
        size: Of the file.
        has_start: Whether the file's first byte, or its place if it is empty, is in the part.
    """

    begin: int
    end: int
    size: int
    has_start: bool


def corpus_digest(paths: Sequence[Place], settings: Mapping[str, Any]) -> str:
    """Tells whether parts are of one corpus, divided alike: of the files' names and sizes, and of settings.

    The release is in it, too, since what a pre-tokenizer does could change.
    """
    files = [(path.name, size_of(path)) for path in paths]
    facts = {"files": files, "release": __version__, **settings}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


# ---- cuts


def line_end(text: bytes) -> int:
    """After the first line end; 0 if there is none."""
    return text.find(b"\n") + 1


def first_cut(text: bytes, cut: Callable[[bytes], int]) -> int:
    """The first of the places of which `cut` finds the last; 0 if there is none.

    Args:
        cut: It goes by the two characters around a place alone.
    Example:
        >>> first_cut(b"one two three", lambda text: max(text.rfind(b" "), 0))
        3
    """
    end = bisect_left(range(len(text)), True, key=lambda end: cut(text[:end]) > 0)
    return cut(text[:end])


def cut_after(stream: BinaryIO, offset: int, size: int, find: Callable[[bytes], int]) -> int:
    """Where a file is cut that is to be cut at an offset: the first place after it that allows that.

    It depends on the file and the offset alone, so the parts on both sides find the same; and a greater
    offset gives no smaller one.

    Args:
        size: Of the file. Its start and end are places, too.
        find: Gives the first place in a text, or 0; it goes by at most two characters around it.
    Cost: memory O(1), and reads on to that place.
    """
    if offset in (0, size):
        return offset
    stream.seek(offset)
    text = b""
    while data := stream.read(min(_WINDOW, size - offset - len(text))):
        text += data
        if place := find(text):
            return offset + place
        offset += max(len(text) - _OVERLAP, 0)
        text = text[-_OVERLAP:]
    return size


def section(stream: Any, path: Place, span: Span, find: Callable[[bytes], int]) -> tuple[Section, int]:
    """What a file has from cut to cut, and where that begins."""
    begin, end = (cut_after(stream, offset, span.size, find) for offset in (span.begin, span.end))
    stream.seek(begin)
    return Section(stream, path, end - begin), begin


class Section:
    """A stream that ends before a file does, and refuses one that ends earlier."""

    def __init__(self, stream: Any, path: Place, n_bytes: int) -> None:
        self._stream, self._path, self._n_left = stream, path, n_bytes

    def readinto1(self, buffer: memoryview) -> int:
        n_bytes: int = self._stream.readinto1(buffer[: self._n_left])
        if self._n_left and len(buffer) and not n_bytes:
            raise CorpusError(f"{self._path} has become shorter since its parts were laid out")
        self._n_left -= n_bytes
        return n_bytes


class LineNumber:
    """The number of a line, for messages: the lines before a part are counted only if it is shown.

    Args:
        begin: Where the part begins in the file.
        number: From 1, in the part.
    """

    def __init__(self, path: Place, begin: int, number: int) -> None:
        self._path, self._begin, self._number = path, begin, number

    def __str__(self) -> str:
        number, n_left = self._number, self._begin
        with open_place(self._path) as stream:
            while data := stream.read(min(1 << 20, n_left)):
                number += data.count(b"\n")
                n_left -= len(data)
        return str(number)
