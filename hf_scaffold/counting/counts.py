"""Pre-token counts: the one thing about a corpus that training looks at."""

import heapq
import operator
import os
from array import array
from bisect import bisect_left
from collections.abc import ItemsView, Iterable, Iterator, Mapping
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer
from tokenizers.normalizers import Normalizer
from tokenizers.pre_tokenizers import PreTokenizer as StockPreTokenizer

from hf_scaffold._core.counter import last_cut
from hf_scaffold._utils.arguments import (
    knows_its_arguments,
    progress,
    progress_shown,
    shortened,
    string,
    warn,
    whole,
)
from hf_scaffold._utils.files import naming, saving
from hf_scaffold.counting.workers import (
    count_in_processes,
    count_in_threads,
    resolve_workers,
    splitting_for,
)
from hf_scaffold.errors import ArtifactError, ConfigurationError, CorpusError, CountOverflowError
from hf_scaffold.tables.files import TableFile, TableWriter, arrow_table
from hf_scaffold.tables.parts import Parts, join_parts
from hf_scaffold.tables.rows import Int64Array, check_rows
from hf_scaffold.tables.sums import exact_sum
from hf_scaffold.text.corpus import Corpus, Progress, describe_corpus, iter_documents
from hf_scaffold.text.pre_tokenizers import PreTokenizer, get_pre_tokenizer
from hf_scaffold.text.presets import MAX_PRETOKEN_LENGTH

PreTokenizerLike: TypeAlias = str | StockPreTokenizer | Tokenizer | PreTokenizer

_MAX_COUNT = 2**63 - 1
_ROWS = 1 << 12  # made Python objects at a time


class PreTokenCounts(Mapping[bytes, int]):
    """How often each distinct pre-token occurs: an immutable mapping of bytes to int64 counts > 0.

    The pre-tokens are sorted, so equal tables are equal byte for byte, however they were made.

    Args:
        data: All distinct pre-tokens, sorted and joined.
        offsets: int64, n + 1 rows: pre-token i is data[offsets[i]:offsets[i + 1]].
        counts: int64 > 0, n rows.
        pre_tokenizer: What cut the text: a preset's name, a `PreTokenizer` or a `tokenizers` object.
        parts: The parts of corpora that are counted here, where others are not: see `merge`.
    Raises:
        CorpusError: the table is not sorted, has an empty or repeated pre-token or a count below 1; or the
            alphabet is characters and a pre-token is not UTF-8.
    Example:
        >>> counts = PreTokenCounts.from_mapping({"the": 10, " cat": 2})
        >>> counts["the"], counts.get(b"dog"), len(counts), counts.total, counts.n_bytes
        (10, None, 2, 12, 38)
        >>> list(counts)
        [b' cat', b'the']
    """

    def __init__(
        self,
        data: bytes,
        offsets: Int64Array,
        counts: Int64Array,
        pre_tokenizer: PreTokenizerLike,
        parts: Iterable[Parts] = (),
    ) -> None:
        self.data = data
        self.offsets = _read_only(offsets)
        self.counts = _read_only(counts)
        self.pre_tokenizer = get_pre_tokenizer(pre_tokenizer)
        self.parts = tuple(parts)
        n_rows = len(self.counts)
        if len(self.offsets) != n_rows + 1 or self.offsets[0] != 0 or self.offsets[-1] != len(self.data):
            raise CorpusError(
                f"offsets must be {n_rows + 1} positions from 0 to {len(self.data)}, one more than counts"
            )
        check_rows((self.data, self.offsets, self.counts), self.pre_tokenizer.alphabet)

    @classmethod
    def from_mapping(
        cls,
        mapping: Mapping[bytes, int] | Mapping[str, int],
        *,
        pre_tokenizer: PreTokenizerLike | None = None,
        alphabet: str | None = None,
    ) -> "PreTokenCounts":
        """Take counts made elsewhere, in any order.

        Args:
            mapping: Pre-token to count. A str means its UTF-8 bytes.
            pre_tokenizer, alphabet: What cut the text, as for `count`; not checked.
        Raises:
            CorpusError: an empty pre-token, one given as str and as bytes, or a count that is not an int > 0.
            CountOverflowError: a count is beyond 2**63 - 1.
        Example:
            >>> PreTokenCounts.from_mapping({"hug": 10, "pug": 5}, pre_tokenizer="gpt2")
            PreTokenCounts(2 distinct pre-tokens, 15 in all, pre_tokenizer='gpt2')
        """
        if not isinstance(mapping, Mapping):
            raise TypeError(
                f"mapping must be pre-tokens with their counts, not {shortened(mapping)}; "
                "hs.count(…) counts texts"
            )
        counts: dict[bytes, int] = {}
        for key, value in mapping.items():
            pretoken = _to_bytes(key)
            if pretoken in counts:
                raise CorpusError(f"pre-token {pretoken!r} is given twice, as str and as bytes")
            counts[pretoken] = _to_count(pretoken, value)
        return cls._from_sorted(sorted(counts.items()), get_pre_tokenizer(pre_tokenizer, alphabet=alphabet))

    @classmethod
    def _from_sorted(
        cls, items: Iterable[tuple[bytes, int]], pre_tokenizer: PreTokenizer, parts: Iterable[Parts] = ()
    ) -> "PreTokenCounts":
        data, offsets, counts = bytearray(), array("q", [0]), array("q")
        for pretoken, value in items:
            if value > _MAX_COUNT:
                raise CountOverflowError(f"pre-token {pretoken!r} has count {value}, beyond 2**63 - 1")
            data += pretoken
            offsets.append(len(data))
            counts.append(value)
        return cls(bytes(data), np.array(offsets), np.array(counts), pre_tokenizer, parts)

    @property
    def total(self) -> int:
        """Pre-tokens in the corpus."""
        return exact_sum(self.counts)

    @property
    def n_bytes(self) -> int:
        """Bytes of all these."""
        return exact_sum(self.counts, np.diff(self.offsets))

    def merge(self, *others: "PreTokenCounts") -> "PreTokenCounts":
        """Add up tables, in any order and grouping.

        Parts of a corpus, as `hf-scaffold count --part` counts them, are added once each: together they are
        the table of the corpus, and `parts` says which are here as long as some are missing. `merge_counts`
        adds up tables that don't fit into memory.

        Raises:
            ConfigurationError: the tables are of different pre-tokenizers, or two count the same part.
            CountOverflowError: a sum is beyond 2**63 - 1; names the pre-token.
        Cost: O(rows of all tables).
        Example:
            >>> monday = PreTokenCounts.from_mapping({"a": 1, "b": 2})
            >>> dict(monday.merge(PreTokenCounts.from_mapping({"b": 3})))
            {b'a': 1, b'b': 5}
        """
        for other in others:
            if not isinstance(other, PreTokenCounts):
                raise TypeError(
                    f"merge takes tables one by one, as in merge(*tables), not {shortened(other)}"
                )
            if other.pre_tokenizer != self.pre_tokenizer:
                raise ConfigurationError(
                    "can't merge counts of different pre-tokenizers: "
                    f"{_name(self.pre_tokenizer)} and {_name(other.pre_tokenizer)}"
                )
        tables = (self, *others)
        parts = join_parts([(f"table {i}", table.parts) for i, table in enumerate(tables)])
        rows = heapq.merge(*(table.items() for table in tables))
        groups = groupby(rows, operator.itemgetter(0))
        sums = ((pretoken, sum(value for _, value in group)) for pretoken, group in groups)
        return self._from_sorted(sums, self.pre_tokenizer, parts)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table as Parquet: columns `pretoken` (binary) and `count` (int64), sorted by pre-token.

        The metadata hold the pre-tokenizer, the parts and a format version. Equal tables give equal bytes
        with one version of pyarrow. A failed write leaves an older file of that name as it was.

        Raises:
            OSError: the file can't be written.
            ConfigurationError: pyarrow is not installed.
        """
        path = Path(path)
        rows = arrow_table((self.data, self.offsets, self.counts))
        with (
            saving(str(path.parent)) as staging,
            naming(path),
            TableWriter(Path(staging, path.name), self.pre_tokenizer, self.parts) as writer,
        ):
            writer.write(rows)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "PreTokenCounts":
        """Read a table that `save` wrote.

        Raises:
            OSError: the file can't be opened.
            ArtifactError: the file is truncated, not such a table, of a later format version, or has a row
                that breaks a rule of tables; names file and row.
            ConfigurationError: pyarrow is not installed.
        """
        file = TableFile(path)
        rows = file.read()
        try:
            return cls(*rows, file.pre_tokenizer, file.parts)
        except CorpusError as error:
            raise ArtifactError(f"{path}: {error}") from None

    def __len__(self) -> int:
        return len(self.counts)

    def __iter__(self) -> Iterator[bytes]:
        for first in range(0, len(self), _ROWS):
            for start, end in pairwise(self.offsets[first : first + _ROWS + 1].tolist()):
                yield self.data[start:end]

    def __getitem__(self, pretoken: bytes | str) -> int:
        key = pretoken.encode(errors="surrogatepass") if isinstance(pretoken, str) else pretoken
        row = self.row_of(key)
        if row < 0:
            raise KeyError(pretoken)
        return int(self.counts[row])

    def row_of(self, pretoken: bytes) -> int:
        """The pre-token's number in the order of the table; -1 if it is not there."""
        row = bisect_left(range(len(self)), pretoken, key=self._pretoken)
        return row if row < len(self) and self._pretoken(row) == pretoken else -1

    def items(self) -> ItemsView[bytes, int]:
        return _Items(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PreTokenCounts):
            return NotImplemented
        return (
            self.pre_tokenizer == other.pre_tokenizer
            and self.parts == other.parts
            and self.data == other.data
            and np.array_equal(self.offsets, other.offsets)
            and np.array_equal(self.counts, other.counts)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.data, self.offsets, self.counts, self.pre_tokenizer, self.parts)

    def __repr__(self) -> str:
        return (
            f"PreTokenCounts({len(self)} distinct pre-tokens, {self.total} in all, "
            f"pre_tokenizer={_name(self.pre_tokenizer)})"
        )

    def _pretoken(self, row: int) -> bytes:
        return self.data[self.offsets[row] : self.offsets[row + 1]]


class _Items(ItemsView[bytes, int]):
    """Rows in order; a mapping's own items look each one up."""

    _mapping: PreTokenCounts

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        return zip(self._mapping, self._mapping.counts.tolist(), strict=True)


def _read_only(values: npt.ArrayLike) -> Int64Array:
    given = np.asarray(values)
    if given.dtype != np.int64 or given.ndim != 1:
        raise CorpusError(
            f"offsets and counts are rows of int64, not of {given.dtype}, {given.ndim}-dimensional"
        )
    copy = given.astype(np.int64)
    copy.setflags(write=False)
    return copy


def _to_bytes(pretoken: bytes | str) -> bytes:
    if isinstance(pretoken, bytes):
        return pretoken
    if not isinstance(pretoken, str):
        raise CorpusError(f"pre-token {pretoken!r} is neither bytes nor str")
    try:
        return pretoken.encode()
    except UnicodeEncodeError:
        raise CorpusError(f"pre-token {pretoken!r} has a lone surrogate, which has no UTF-8 form") from None


def _to_count(pretoken: bytes, value: Any) -> int:
    if not pretoken:
        raise CorpusError(f"the empty pre-token can't be counted (it has count {value!r})")
    if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__") or operator.index(value) < 1:
        raise CorpusError(f"pre-token {pretoken!r} has count {value!r}; counts are whole numbers from 1")
    return operator.index(value)


def _name(pre_tokenizer: PreTokenizer) -> str:
    return repr(pre_tokenizer.preset) if pre_tokenizer.preset else pre_tokenizer.to_json()


@knows_its_arguments
def count(
    corpus: Corpus,
    *,
    pre_tokenizer: PreTokenizerLike | None = None,
    normalizer: Normalizer | None = None,
    alphabet: str | None = None,
    text_field: str = "text",
    num_workers: int | None = None,
    max_pretoken_length: int | None = MAX_PRETOKEN_LENGTH,
    show_progress: bool | Progress = False,
) -> PreTokenCounts:
    """Count the pre-tokens of a corpus.

    The table depends on the documents and the pre-tokenizer alone: not on the documents' order, on how
    they are spread over files, or on num_workers.

    With the presets a plain-text file is one document. With any other pre-tokenizer each of its lines,
    with its line end, is one, as in `tokenizers.Tokenizer.train`. A byte-order mark at its start is dropped.

    Args:
        corpus: A path or glob pattern (plain text, `.jsonl`, `.parquet`; also `.gz`, `.xz`, `.zst`), an
            iterable of `pathlib.Path`, a `datasets.Dataset` or `IterableDataset`, or an iterable of str or of
            batches of str. In an iterable a str is a document, never a path.
        pre_tokenizer: `"gpt2"`, `"gpt2-digits"` (the default), `"llama3"`, `"gpt4o"`, a `tokenizers`
            pre-tokenizer, or a `tokenizers.Tokenizer` for its normalizer and pre-tokenizer. For characters:
            `"metaspace"` (the default), `"metaspace-unsplit"`, `"whitespace"`, `"whitespace-split"`,
            `"bert"`, or such an object.
        normalizer: A `tokenizers` normalizer that the text goes through first.
        alphabet: What merges start from: `"bytes"` (the default), or `"chars"`, the characters that the
            pre-tokenizer writes.
        text_field: The field of JSON Lines, or column of Parquet and `datasets`, that holds the text.
        num_workers: Threads where native code splits, processes for other pre-tokenizers. None: one a CPU,
            16 at most; one process where processes are spawned, since these import the calling script again.
        max_pretoken_length: Bytes. Longer pre-tokens, which are data rather than words, are left out with a
            warning: training on one takes some 80 times its size in memory. None keeps all.
        show_progress: True for a bar; or a function called in this thread as f(bytes_read, bytes_total):
            bytes on disk, and None for the total if the corpus has no known size.
    Returns:
        PreTokenCounts, never empty.
    Raises:
        CorpusError: the corpus is empty or all whitespace, or a file or document can't be read; names it and
            the place.
        ConfigurationError: an unknown preset, or a package that is not installed.
        CountOverflowError: a count is beyond 2**63 - 1.
    Cost: memory O(distinct pre-tokens * num_workers), whatever the size of the corpus; a long document
        that can't be cut is held whole. Native code releases the GIL.
    Example:
        >>> dict(count(["the cat", "the dog"]))
        {b' cat': 1, b' dog': 1, b'the': 2}
    """
    string("text_field", text_field)
    show_progress = progress(show_progress, "bytes_read, bytes_total")
    if max_pretoken_length is not None:
        max_pretoken_length = whole("max_pretoken_length", max_pretoken_length, 1, reason="None keeps all")
    cutter = get_pre_tokenizer(pre_tokenizer, normalizer, alphabet)
    preset, splitting = cutter.preset, splitting_for(cutter)
    num_workers = resolve_workers(num_workers, in_threads=splitting is not None)
    cut = None if preset is None else partial(last_cut, splitting=preset)
    with progress_shown(show_progress, "Counting", "B") as report:
        documents = iter_documents(corpus, text_field=text_field, cut=cut, progress=report)
        if splitting is not None:
            counts = PreTokenCounts(*count_in_threads(documents, splitting, num_workers), cutter)
        else:
            total = count_in_processes(documents, cutter, num_workers)
            counts = PreTokenCounts._from_sorted(sorted(total.items()), cutter)
    if max_pretoken_length is not None:
        counts = _without_longer(counts, max_pretoken_length)
    if not counts:
        raise CorpusError(f"nothing to count in {describe_corpus(corpus)}: it gave no pre-tokens")
    if all(pretoken.decode(errors="replace").isspace() for pretoken in counts):
        raise CorpusError(f"nothing to count in {describe_corpus(corpus)}: it is all whitespace")
    return counts


def _without_longer(counts: PreTokenCounts, max_length: int) -> PreTokenCounts:
    """The table without the pre-tokens of more than max_length bytes; warns if there are any."""
    too_long = np.diff(counts.offsets) > max_length
    if not too_long.any():
        return counts
    warn(
        f"left out {sum(counts.counts[too_long].tolist()):,} pre-tokens of more than {max_length:,} bytes "
        "(max_pretoken_length)"
    )
    rows = ((pretoken, value) for pretoken, value in counts.items() if len(pretoken) <= max_length)
    return PreTokenCounts._from_sorted(rows, counts.pre_tokenizer)
