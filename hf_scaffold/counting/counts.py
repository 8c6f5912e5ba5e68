"""Pre-token counts: the one thing about a corpus that training looks at."""

import operator
import tempfile
from bisect import bisect_left
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer
from tokenizers.pre_tokenizers import PreTokenizer as StockPreTokenizer

from hf_scaffold._core.counter import sum_rows
from hf_scaffold._utils.arguments import knows_its_arguments, shortened, warn, whole
from hf_scaffold._utils.urls import Source, place
from hf_scaffold.errors import ConfigurationError, CorpusError, CountOverflowError
from hf_scaffold.tables.files import TableFile, arrow_table
from hf_scaffold.tables.merging import TableSize, put, workplace, write_table
from hf_scaffold.tables.mixing import Weights, mix_counts
from hf_scaffold.tables.parts import Parts, join_parts
from hf_scaffold.tables.rows import Int64Array, check_rows, join_min_counts, joined, rows_of
from hf_scaffold.tables.sums import exact_sum
from hf_scaffold.text.pre_tokenizers import PreTokenizer, get_pre_tokenizer

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
        min_count: Pre-tokens that occur less often were left out; 1 if none was. See `at_least`.
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
        min_count: int = 1,
    ) -> None:
        self.data = data
        self.offsets = _read_only(offsets)
        self.counts = _read_only(counts)
        self.pre_tokenizer = get_pre_tokenizer(pre_tokenizer)
        self.parts = tuple(parts)
        self.min_count = min_count
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
        return cls(*rows_of(counts), get_pre_tokenizer(pre_tokenizer, alphabet=alphabet))

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
        names = [f"table {i}" for i in range(len(tables))]
        parts = join_parts([(name, table.parts) for name, table in zip(names, tables, strict=True)])
        lacking = [(name, table.min_count) for name, table in zip(names, tables, strict=True)]
        rows = sum_rows(*joined([(table.data, table.offsets, table.counts) for table in tables]))
        return PreTokenCounts(*rows, self.pre_tokenizer, parts, join_min_counts(lacking))

    def save(self, path: Source) -> None:
        """Write the table as Parquet: columns `pretoken` (binary) and `count` (int64), sorted by pre-token.

        The metadata hold the pre-tokenizer, parts, min_count and a format version. Equal tables give equal
        bytes with one version of pyarrow. A failed write leaves an older file of that name as it was.

        Args:
            path: Or URL.
        Raises:
            OSError: the file can't be written.
            ConfigurationError: pyarrow is not installed.
        """
        rows = arrow_table((self.data, self.offsets, self.counts))
        with workplace(output := place(path)) as folder:
            written = Path(folder, "table")
            write_table([rows], written, self.pre_tokenizer, self.parts, self.min_count)
            put(written, output)

    @classmethod
    def load(cls, path: Source, *, min_count: int = 1) -> "PreTokenCounts":
        """Read a table that `save` wrote.

        Args:
            path: Or URL.
            min_count: Leave out pre-tokens that occur less often, as `at_least` does, but as they are read.
        Raises:
            OSError: the file can't be opened.
            ArtifactError: the file is truncated, not such a table, of a later format version, or has a row
                that breaks a rule of tables; names file and row.
            ConfigurationError: pyarrow is not installed, or no pre-token occurs min_count times.
        Cost: memory of twice the table that is returned.
        """
        min_count = whole("min_count", min_count, 1)
        file = TableFile(path)
        rows, n_bytes_left_out = file.read(min_count)
        found = cls(*rows, file.pre_tokenizer, file.parts, file.min_count)
        return found._left_of(file.n_rows, n_bytes_left_out, min_count)

    def at_least(self, min_count: int) -> "PreTokenCounts":
        """The pre-tokens that occur so often, with a warning that says how much of the text the others are.

        Training on them takes less time and memory, and what it learns may differ. The table remembers that
        some are missing, also once it is saved; tables merged with it may get counts that are too small.

        Raises:
            ConfigurationError: none does.
        Cost: memory of about the table.
        Example:
            >>> import warnings
            >>> with warnings.catch_warnings(record=True) as caught:
            ...     dict(PreTokenCounts.from_mapping({"the": 9, " cat": 2}).at_least(3))
            {b'the': 9}
            >>> print(caught[0].message)
            left out 1 of 2 distinct pre-tokens, those below min_count 3: 22.86 % of the text
        """
        kept = self.counts >= whole("min_count", min_count, 1)
        lengths = np.diff(self.offsets)
        data = np.frombuffer(self.data, np.uint8)[np.repeat(kept, lengths)].tobytes()
        offsets = np.concatenate([[0], np.cumsum(lengths[kept])])
        rows = data, offsets, self.counts[kept]
        found = PreTokenCounts(*rows, self.pre_tokenizer, self.parts, self.min_count)
        return found._left_of(len(self), exact_sum(self.counts[~kept], lengths[~kept]), min_count)

    def _left_of(self, n_rows: int, n_bytes_left_out: int, min_count: int) -> "PreTokenCounts":
        """This table; it says so, and warns, if rarer pre-tokens of a table of n_rows are not in it."""
        if n_rows and not len(self):
            raise ConfigurationError(f"no pre-token occurs {min_count:,} times; lower min_count")
        if n_bytes_left_out:
            self.min_count = max(self.min_count, min_count)
            share = n_bytes_left_out / (n_bytes_left_out + self.n_bytes)
            warn(
                f"left out {n_rows - len(self):,} of {n_rows:,} distinct pre-tokens, those below "
                f"min_count {min_count:,}: {100 * share:.2f} % of the text"
            )
        return self

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
            and self.min_count == other.min_count
            and self.data == other.data
            and np.array_equal(self.offsets, other.offsets)
            and np.array_equal(self.counts, other.counts)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        rows = self.data, self.offsets, self.counts
        return type(self), (*rows, self.pre_tokenizer, self.parts, self.min_count)

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


@knows_its_arguments
def mix(
    weights: Weights, *, show_progress: bool | Callable[[int, int | None], object] = False
) -> PreTokenCounts:
    """Add up tables of counts on disk, each with a weight.

    Args:
        weights, show_progress: As for `mix_counts`, which writes a table of any size.
    Returns:
        The same table.
    Raises: As `mix_counts`.
    Cost: memory of the result, or 1 GB if that is more; the tables are read some rows at a time.
    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     web, code = f"{folder}/web.parquet", f"{folder}/code.parquet"
        ...     PreTokenCounts.from_mapping({"the": 10, " cat": 2}).save(web)
        ...     PreTokenCounts.from_mapping({"the": 2, " int": 7}).save(code)
        ...     dict(mix({web: 1, code: 0.5}))
        {b' cat': 4, b' int': 7, b'the': 22}
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "mixed.parquet")
        mix_counts(weights, path, show_progress=show_progress)
        return PreTokenCounts.load(path)


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
    if (count := operator.index(value)) > _MAX_COUNT:
        raise CountOverflowError(f"pre-token {pretoken!r} has count {count}, beyond 2**63 - 1")
    return count


def save_table(counts: PreTokenCounts, path: Source) -> TableSize:
    """Save a table, and say how large it is."""
    counts.save(path)
    return TableSize(len(counts), counts.total, counts.n_bytes, counts.parts)


def _name(pre_tokenizer: PreTokenizer) -> str:
    return repr(pre_tokenizer.preset) if pre_tokenizer.preset else pre_tokenizer.to_json()
