"""Documents from files, `datasets` and iterators, streamed as UTF-8 bytes.

Memory holds one document, or one block of a long text, at a time: it doesn't grow with the corpus.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass
from functools import partial
from itertools import chain, starmap
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias, TypeVar

import numpy as np

from hf_scaffold._utils.arguments import warn
from hf_scaffold._utils.urls import STDIN, Place, Source, Url, is_place, is_source, place
from hf_scaffold.errors import ConfigurationError, CorpusError
from hf_scaffold.text.files import (
    check_file,
    encode,
    find_files,
    identity,
    is_divisible,
    is_json_lines,
    lines_of,
    listed,
    looks_like_a_path,
    matching_files,
    open_file,
    rows_of,
    text_of,
)
from hf_scaffold.text.parts import Part, first_cut, line_end, section
from hf_scaffold.text.texts import Texts, pieces_of

Corpus: TypeAlias = Source | Iterable[Any]
Cut: TypeAlias = Callable[[bytes], int]
Progress: TypeAlias = Callable[[int, int | None], object]
_OpenSection: TypeAlias = Callable[[Any], tuple[Any, int]]
# With how many bytes are read, if that is known, and which; None: all.
_File: TypeAlias = tuple[Place, int | None, _OpenSection | None]
_Item = TypeVar("_Item")
_Sized = TypeVar("_Sized", bound=Sized)

BLOCK_SIZE = 1 << 20  # bytes read at a time, and the length from which a document is cut
_ROWS = 64  # rows of a dataset held at a time: documents of 1 MB still fit


def iter_documents(
    corpus: Corpus,
    *,
    text_field: str = "text",
    cut: Cut | None = None,
    block_size: int = BLOCK_SIZE,
    part: Part | None = None,
    progress: Progress | None = None,
) -> Iterator[bytes]:
    """Yield the documents of a corpus as UTF-8 bytes, in its order, without empty ones.

    Every path is opened once before the first document, so that a bad one among many costs no work.

    With `cut`, a plain-text file is one document; it and every document longer than `block_size` come in
    blocks that end where `cut` allows. Without, documents come whole, and a plain-text file line by line with
    line ends, as `tokenizers.Tokenizer.train` reads it. A byte-order mark at its start is dropped.

    Args:
        corpus: One of

            - a str or path: a file, or a glob pattern (`**` for any depth), whose files are read in sorted
              order: `.jsonl`, `.ndjson`, `.json` (JSON Lines), `.parquet`, anything else plain text; with a
              further `.gz`, `.xz` or `.zst`, compressed. A str may be a URL that fsspec knows, such as
              `s3://bucket/*.txt`;
            - an iterable of `pathlib.Path`, or of fsspec's files, `fsspec.open_files(urls)`, in its order;
            - a `datasets.Dataset` or `IterableDataset`;
            - any other iterable of str, or of batches (lists) of str: documents, never paths.
        text_field: The field of JSON Lines, or column of Parquet and `datasets`, that holds the text.
        cut: `cut(text)` gives a position p such that all before it and whatever follows can be counted
            separately, or 0 if it finds none; text is what was read last, and may begin and end inside a
            character.
        block_size: Bytes; no result but the blocks' own length depends on it.
        part: Read only this part of the files. Plain text is divided where `cut` allows, which must then go
            by the two characters around a place alone, or else between lines, as JSON Lines are; a file of
            another format is in the part where it begins.
        progress: Called now and then as progress(bytes_done, bytes_total): bytes of the files on disk, or of
            text and None if the corpus has no known size.
    Raises:
        CorpusError: something can't be read as text; says what and where.
        ConfigurationError: the corpus needs an optional package that is not installed.
    Cost: memory O(block_size + longest document without a cut).
    Example:
        >>> list(iter_documents(["one", ["two", ""], ["three"]]))
        [b'one', b'two', b'three']
    """
    reader = _Reader(text_field, cut, block_size, part)
    documents = reader.open(corpus)
    return documents if progress is None else _reported(documents, reader, progress)


def iter_texts(
    paths: Iterable[Any],
    *,
    text_field: str = "text",
    cut: Cut | None = None,
    block_size: int = BLOCK_SIZE,
    part: Part | None = None,
    progress: Progress | None = None,
) -> Iterator[Texts]:
    """The documents of files, as `iter_documents` yields them, but many at a time and with their ends known.

    Args: As for `iter_documents`; but a part has whole documents, so that with `cut`, plain text is not
        divided.
    Cost: A few times less than `iter_documents` where documents are short.
    """
    reader = _Reader(text_field, cut, block_size, part, whole_documents=True)
    texts = reader.read_files(find_files(paths))
    return texts if progress is None else _reported(texts, reader, progress)


def files_of(corpus: Corpus) -> list[Place]:
    """The files of a corpus, in the order of their paths, which are compared folder by folder.

    Raises:
        CorpusError: a pattern matches nothing.
        ConfigurationError: the corpus is something else than files.
    """
    if is_source(corpus):
        return sorted(matching_files(corpus), key=_order)
    elements = iter(corpus) if isinstance(corpus, Iterable) and not _is_dataset(corpus) else iter([])
    first = next(elements, None)
    if not is_place(first):
        raise ConfigurationError(
            f"{describe_corpus(corpus)} has no parts; give a path, a glob pattern, or pathlib.Path objects"
        )
    return sorted(find_files(chain([first], elements)), key=_order)


def _order(path: Place) -> tuple[str, ...]:
    return PurePosixPath(path.path).parts if isinstance(path, Url) else path.parts


def describe_corpus(corpus: Corpus) -> str:
    """Name a corpus in a few words, for messages.

    Example:
        >>> describe_corpus(["a text"]), describe_corpus([Path("a.txt"), Path("b.txt")])
        ('a list', "'a.txt' and 1 more")
    """
    if names := corpus_names(corpus):
        more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
        return f"{names[0]!r}{more}"
    name = type(corpus).__name__
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def corpus_names(corpus: Corpus) -> list[str]:
    """The paths and patterns in a corpus, as given; none for texts in memory.

    Example:
        >>> corpus_names("books/*.txt"), corpus_names([Path("a.txt")]), corpus_names(["a text"])
        (['books/*.txt'], ['a.txt'], [])
    """
    if is_source(corpus):
        return [corpus if isinstance(corpus, str) else str(place(corpus))]
    if not isinstance(corpus, list | tuple):
        return []
    return [str(place(path)) for path in corpus if is_place(path)]


def shared_files(corpus: Corpus, other: Corpus) -> list[Place]:
    """The files that two corpora both have, as the second names them; none of what isn't files."""
    if not corpus_names(corpus) or not corpus_names(other):
        return []
    known = {*map(identity, files_of(corpus))}
    return [path for path in files_of(other) if identity(path) in known]


def without_pipes(corpus: Corpus) -> tuple[Corpus, Any]:
    """A corpus that can be read more than once: what its pipes give, such as a shell's `<(…)`, is kept.

    Returns:
        The corpus with files in place of pipes; and an object that removes them once nothing holds it.
    Raises:
        CorpusError: a pipe can't be read.
    """
    paths = [place(corpus)] if is_source(corpus) else corpus
    if not isinstance(paths, list | tuple) or not any(map(_is_pipe, paths)):
        return corpus, None
    folder = tempfile.TemporaryDirectory(prefix="hf-scaffold-")
    kept: list[Any] = []
    for number, path in enumerate(paths):
        if _is_pipe(path):
            copy = Path(folder.name, f"{number}-{Path(path).name}")
            try:
                with open(os.dup(0) if path == STDIN else path, "rb") as stream, open(copy, "wb") as file:
                    shutil.copyfileobj(stream, file)
            except OSError as error:
                raise CorpusError(f"can't read {path}: {error}") from error
            path = copy
        kept.append(path)
    return kept, folder


def _is_pipe(path: object) -> bool:
    """Whether this is the path of something that can be read only once; a str among others is a text."""
    if not isinstance(path, os.PathLike) or path == STDIN:
        return path == STDIN
    return os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path))


def batches(items: Iterable[_Sized], size: int) -> Iterator[list[_Sized]]:
    """Consecutive items in lists, each complete once its items' lengths add up to `size`.

    Example:
        >>> list(batches([b"one", b"two", b"", b"three"], 6))
        [[b'one', b'two'], [b'', b'three']]
    """
    batch: list[_Sized] = []
    length = 0
    for item in items:
        batch.append(item)
        length += len(item)
        if length >= size:
            yield batch
            batch, length = [], 0
    if batch:
        yield batch


@dataclass
class _Reader:
    """Reads one corpus and knows how far it is."""

    text_field: str
    cut: Cut | None
    block_size: int
    part: Part | None = None
    whole_documents: bool = False
    bytes_done: int = 0
    bytes_total: int | None = None

    def open(self, corpus: Corpus) -> Iterator[bytes]:
        """Check the corpus at once; read it as the result is iterated."""
        if is_source(corpus):
            return chain.from_iterable(self.read_files(matching_files(corpus)))
        if isinstance(corpus, Mapping):
            raise CorpusError(
                f"can't read documents from {describe_corpus(corpus)} of {listed(corpus)}; "
                f"choose one, as in corpus[{next(iter(corpus), self.text_field)!r}]"
            )
        if isinstance(corpus, bytes | bytearray | memoryview) or not isinstance(corpus, Iterable):
            raise CorpusError(
                f"can't read documents from {describe_corpus(corpus)}; give a path, a glob pattern, "
                "a datasets.Dataset or an iterable of str"
            )
        if _is_dataset(corpus):
            return self._read_texts(_dataset_texts(corpus, self.text_field))
        elements = iter(corpus)
        first = next(elements, "")
        elements = chain([first], elements)
        if is_place(first):
            return chain.from_iterable(self.read_files(find_files(elements)))
        if isinstance(first, str) and os.path.isfile(first):
            raise CorpusError(
                f"the first str of {describe_corpus(corpus)}, {first!r}, is the name of a file, but each str "
                "of an iterable is a document; to read files, give pathlib.Path objects"
            )
        if isinstance(first, str) and looks_like_a_path(first):
            instead = f"fsspec.open_files([{first!r}])" if "://" in first else f"pathlib.Path({first!r})"
            warn(f"the first document is {first!r}; if that is to be a path, give {instead}")
        return self._read_texts(
            text for texts in elements for text in (texts if isinstance(texts, list | tuple) else [texts])
        )

    def _read_texts(self, texts: Iterable[Any]) -> Iterator[bytes]:
        for number, text in enumerate(texts):
            document = encode(text, "document", number)
            self.bytes_done += len(document)
            yield from map(bytes, self._blocks(document))

    def read_files(self, paths: list[Place]) -> Iterator[Texts]:
        """Check the files at once; read them as the result is iterated."""
        files: list[_File] = [(path, check_file(path), None) for path in paths]
        if self.part is not None:
            files = [*self._in_part(files, self.part)]
        lengths = [length for _, length, _ in files]
        self.bytes_total = None if None in lengths else sum(filter(None, lengths))
        return chain.from_iterable(starmap(self._read_file, files))

    def _in_part(self, files: list[_File], part: Part) -> Iterator[_File]:
        """What a part has of the files: some whole, of others a section."""
        for path, size, _ in files:
            if size is None:
                raise ConfigurationError(
                    f"{path} is a pipe, or of unknown size, and has no parts; write it to a file first"
                )
        spans = part.spans([size or 0 for _, size, _ in files])
        for (path, size, _), span in zip(files, spans, strict=True):
            find = self._first_cut(path)
            if find is None:
                if span.has_start:
                    yield path, size, None
            elif span.begin < span.end:
                yield path, span.end - span.begin, partial(section, path=path, span=span, find=find)

    def _first_cut(self, path: Place) -> Cut | None:
        """What finds the first place in a text where the file may be divided; None if it may not."""
        if not is_divisible(path):
            return None
        if self.cut is None or is_json_lines(path):
            return line_end
        return None if self.whole_documents else partial(first_cut, cut=self.cut)

    def _read_file(self, path: Place, length: int | None, part: _OpenSection | None) -> Iterator[Texts]:
        end = self.bytes_done + (sys.maxsize if length is None else length)

        def advance(n_bytes: int) -> None:
            self.bytes_done = min(self.bytes_done + n_bytes, end)

        with open_file(path, advance) as file:
            stream, begin = (file, 0) if part is None else part(file)
            rows = rows_of(stream, path, self.text_field, self.block_size, begin)
            if rows is None and self.cut is not None:
                yield from _with_end(text_of(stream, path, self.block_size, self.cut, begin))
            else:
                for texts in lines_of(stream, path, self.block_size, begin) if rows is None else rows:
                    yield from self._cut_texts(texts)
        if length is not None:
            self.bytes_done = end  # only one column's share of a Parquet file was read

    def _cut_texts(self, texts: Texts) -> Iterator[Texts]:
        if self.cut is None or np.diff(texts.bounds).max(initial=0) <= self.block_size:
            yield texts
        else:
            yield from chain.from_iterable(_with_end(self._blocks(document)) for document in texts)

    def _blocks(self, document: bytes) -> Iterator[bytes | memoryview]:
        if self.cut is not None and len(document) > self.block_size:
            yield from pieces_of(document, self.block_size, self.cut)
        elif document:
            yield document


def _with_end(blocks: Iterable[Any]) -> Iterator[Texts]:
    """The blocks of one document; the last is known once there is no other."""
    last: list[Any] = []
    for block in blocks:
        if last:
            yield Texts.of(last, [False])
        last = [block]
    if last:
        yield Texts.of(last)


def _reported(documents: Iterator[_Item], reader: _Reader, progress: Progress) -> Iterator[_Item]:
    """The documents, with a report at most once a block and once at the end."""
    next_report = 0
    for document in documents:
        yield document
        if reader.bytes_done >= next_report:
            progress(reader.bytes_done, reader.bytes_total)
            next_report = reader.bytes_done + reader.block_size
    progress(reader.bytes_done, reader.bytes_total)


def _is_dataset(corpus: object) -> bool:
    datasets = sys.modules.get("datasets")  # not imported: then this is none
    return datasets is not None and isinstance(corpus, datasets.Dataset | datasets.IterableDataset)


def _dataset_texts(dataset: Any, text_field: str) -> Iterator[Any]:
    if text_field in (dataset.column_names or ()):  # None: an IterableDataset that learns them as it runs
        dataset = dataset.select_columns([text_field])
    for batch in dataset.with_format(None).iter(batch_size=_ROWS):
        if text_field not in batch:
            raise CorpusError(f"the dataset has no column {text_field!r}; it has {listed(batch)}")
        yield from batch[text_field]
