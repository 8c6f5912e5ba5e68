"""Pre-token counts: the one thing about a corpus that training looks at."""

import heapq
import multiprocessing
import operator
import os
import signal
import sys
from array import array
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache, partial
from io import BytesIO
from itertools import groupby, pairwise
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer
from tokenizers.normalizers import Normalizer
from tokenizers.pre_tokenizers import PreTokenizer

from hf_scaffold._core.counter import PretokenCounter, first_out_of_order, last_cut
from hf_scaffold._utils.arguments import function, knows_its_arguments, shortened, string, warn, whole
from hf_scaffold._utils.cpus import n_cpus
from hf_scaffold._utils.files import write_files
from hf_scaffold.errors import ArtifactError, ConfigurationError, CorpusError, CountOverflowError
from hf_scaffold.text.corpus import (
    MAX_PRETOKEN_LENGTH,
    Progress,
    Source,
    batches,
    describe_source,
    iter_documents,
)
from hf_scaffold.text.files import import_extra
from hf_scaffold.text.pretokenizers import Pretokenizer, get_pretokenizer

__all__ = ["PreTokenCounts", "count"]

Int64Array: TypeAlias = npt.NDArray[np.int64]
PretokenizerLike: TypeAlias = str | PreTokenizer | Tokenizer | Pretokenizer
_Result = TypeVar("_Result")

_MAX_COUNT = 2**63 - 1
_MOST_WORKERS = 1024  # that may be asked for
_MAX_WORKERS = 16  # one thread reads and checks the text; more workers than this would wait for it
_THREAD_BATCH = 1 << 20  # bytes; big enough that handing it over costs nothing
_PROCESS_BATCH = 1 << 16  # bytes; small enough that workers end soon after an error
_FORMAT_VERSION = 1
_VERSION_KEY = b"hf_scaffold.format_version"
_PRETOKENIZER_KEY = b"hf_scaffold.pretokenizer"


class PreTokenCounts(Mapping[bytes, int]):
    """How often each distinct pre-token occurs: an immutable mapping of bytes to int64 counts > 0.

    The pre-tokens are sorted, so that equal tables are equal byte for byte, however they came to be.

    Args:
        data: All distinct pre-tokens, sorted and joined.
        offsets: int64, n + 1 rows: pre-token i is data[offsets[i]:offsets[i + 1]].
        counts: int64 > 0, n rows.
        pretokenizer: What cut the text: a preset's name, a `Pretokenizer` or a `tokenizers` object.
    Raises:
        CorpusError: the table is not sorted, has an empty pre-token or one twice, or a count below 1; or the
            alphabet is characters and a pre-token is not UTF-8.
    Example:
        >>> counts = PreTokenCounts.from_mapping({"the": 10, " cat": 2})
        >>> counts["the"], counts.get(b"dog"), len(counts), counts.total, counts.n_bytes
        (10, None, 2, 12, 38)
        >>> list(counts)
        [b' cat', b'the']
    """

    data: bytes
    offsets: Int64Array
    counts: Int64Array
    pretokenizer: Pretokenizer

    def __init__(
        self, data: bytes, offsets: Int64Array, counts: Int64Array, pretokenizer: PretokenizerLike
    ) -> None:
        self.data = data
        self.offsets = _read_only(offsets)
        self.counts = _read_only(counts)
        self.pretokenizer = get_pretokenizer(pretokenizer)
        self._validate()

    @classmethod
    def from_mapping(
        cls,
        mapping: Mapping[bytes, int] | Mapping[str, int],
        *,
        pretokenizer: PretokenizerLike | None = None,
        alphabet: str | None = None,
    ) -> "PreTokenCounts":
        """Take counts that were made elsewhere; the order doesn't matter.

        Args:
            mapping: Pre-token to count. A str means its UTF-8 bytes.
            pretokenizer, alphabet: What cut the text, as for `count`; they are taken at their word.
        Raises:
            CorpusError: an empty pre-token, one given as str and as bytes, a count that is no int or below 1.
            CountOverflowError: a count is beyond 2**63 - 1.
        Example:
            >>> PreTokenCounts.from_mapping({"hug": 10, "pug": 5}, pretokenizer="gpt2")
            PreTokenCounts(2 distinct pre-tokens, 15 in all, pretokenizer='gpt2')
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
                raise CorpusError(f"pre-token {pretoken!r} is there twice, as str and as bytes")
            counts[pretoken] = _to_count(pretoken, value)
        return cls._from_sorted(sorted(counts.items()), get_pretokenizer(pretokenizer, alphabet=alphabet))

    @classmethod
    def _from_sorted(cls, items: Iterable[tuple[bytes, int]], pretokenizer: Pretokenizer) -> "PreTokenCounts":
        data, offsets, counts = bytearray(), array("q", [0]), array("q")
        for pretoken, value in items:
            data += pretoken
            offsets.append(len(data))
            counts.append(value)
        return cls(bytes(data), np.array(offsets), np.array(counts), pretokenizer)

    @property
    def total(self) -> int:
        """Number of pre-tokens in the corpus."""
        return sum(self.counts.tolist())

    @property
    def n_bytes(self) -> int:
        """Number of bytes of all these."""
        return sum(map(operator.mul, np.diff(self.offsets).tolist(), self.counts.tolist()))

    def merge(self, *others: "PreTokenCounts") -> "PreTokenCounts":
        """Add tables up; the result depends neither on their order nor on their grouping.

        Raises:
            ConfigurationError: the tables are of different pre-tokenizers.
            CountOverflowError: a sum is beyond 2**63 - 1; the message names the pre-token.
        Cost: O(rows of all tables) beside the result.
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
            if other.pretokenizer != self.pretokenizer:
                raise ConfigurationError(
                    "can't merge counts of different pre-tokenizers: "
                    f"{_name(self.pretokenizer)} and {_name(other.pretokenizer)}"
                )
        rows = heapq.merge(*(table.items() for table in (self, *others)))
        sums = (
            (pretoken, _sum_counts(pretoken, group))
            for pretoken, group in groupby(rows, operator.itemgetter(0))
        )
        return self._from_sorted(sums, self.pretokenizer)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table as Parquet: columns `pretoken` (binary) and `count` (int64), sorted by pre-token.

        The pre-tokenizer and a format version are in the file's metadata. Equal tables give equal bytes with
        one version of pyarrow. A failed write leaves an older file of that name as it was.

        Raises:
            OSError: the file can't be written.
            ConfigurationError: pyarrow is not installed.
        """
        pyarrow = import_extra("pyarrow", "parquet")
        parquet = import_extra("pyarrow.parquet", "parquet")
        buffers = [None, pyarrow.py_buffer(self.offsets), pyarrow.py_buffer(self.data)]
        pretokens = pyarrow.Array.from_buffers(pyarrow.large_binary(), len(self), buffers)
        metadata = {
            _VERSION_KEY: str(_FORMAT_VERSION).encode(),
            _PRETOKENIZER_KEY: self.pretokenizer.to_json().encode(),
        }
        table = pyarrow.table({"pretoken": pretokens, "count": self.counts}).replace_schema_metadata(metadata)
        stream = BytesIO()
        parquet.write_table(table, stream, compression="zstd", use_dictionary=False)
        path = Path(path)
        write_files(path.parent, {path.name: stream.getvalue()})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "PreTokenCounts":
        """Read a table that `save` wrote.

        Raises:
            OSError: the file can't be opened.
            ArtifactError: the file is truncated, not such a table, of a later format version, or has a row
                that can't be; the message names file and row.
            ConfigurationError: pyarrow is not installed.
        """
        pyarrow = import_extra("pyarrow", "parquet")
        parquet = import_extra("pyarrow.parquet", "parquet")
        with open(path, "rb") as stream:
            try:
                table = parquet.read_table(stream)
            except (pyarrow.ArrowException, OSError) as error:
                raise ArtifactError(f"{path} is not a Parquet file or is truncated: {error}") from error
        pretokenizer = _parse_metadata(path, table.schema.metadata or {})
        try:
            columns = {
                name: _column(path, table, name, type_)
                for name, type_ in (("pretoken", pyarrow.large_binary()), ("count", pyarrow.int64()))
            }
        except UnicodeDecodeError as error:
            raise ArtifactError(f"{path}: the name of a column is not UTF-8: {error}") from None
        data, offsets = _join(columns["pretoken"])
        try:
            return cls(data, offsets, columns["count"].to_numpy(), pretokenizer)
        except CorpusError as error:
            raise ArtifactError(f"{path}: {error}") from None

    def __len__(self) -> int:
        return len(self.counts)

    def __iter__(self) -> Iterator[bytes]:
        for start, end in pairwise(self.offsets.tolist()):
            yield self.data[start:end]

    def __getitem__(self, pretoken: bytes | str) -> int:
        key = pretoken.encode(errors="surrogatepass") if isinstance(pretoken, str) else pretoken
        row = bisect_left(range(len(self)), key, key=self._pretoken)
        if row == len(self) or self._pretoken(row) != key:
            raise KeyError(pretoken)
        return int(self.counts[row])

    def items(self) -> ItemsView[bytes, int]:
        return _Items(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PreTokenCounts):
            return NotImplemented
        return (
            self.pretokenizer == other.pretokenizer
            and self.data == other.data
            and np.array_equal(self.offsets, other.offsets)
            and np.array_equal(self.counts, other.counts)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.data, self.offsets, self.counts, self.pretokenizer)

    def __repr__(self) -> str:
        return (
            f"PreTokenCounts({len(self)} distinct pre-tokens, {self.total} in all, "
            f"pretokenizer={_name(self.pretokenizer)})"
        )

    def _pretoken(self, row: int) -> bytes:
        return self.data[self.offsets[row] : self.offsets[row + 1]]

    def _validate(self) -> None:
        n_rows = len(self.counts)
        if len(self.offsets) != n_rows + 1 or self.offsets[0] != 0 or self.offsets[-1] != len(self.data):
            raise CorpusError(
                f"offsets must be {n_rows + 1} positions from 0 to {len(self.data)}, one more than counts"
            )
        for row in np.flatnonzero(np.diff(self.offsets) < 1)[:1]:
            raise CorpusError(f"row {row}: the pre-token is empty")
        for row in np.flatnonzero(self.counts < 1)[:1]:
            raise CorpusError(
                f"row {row}: pre-token {self._pretoken(row)!r} has count {self.counts[row]}, not 1 or more"
            )
        row = first_out_of_order(self.data, self.offsets)
        if row < n_rows:
            before, pretoken = self._pretoken(row - 1), self._pretoken(row)
            problem = "is there twice" if pretoken == before else f"is not sorted: it follows {before!r}"
            raise CorpusError(f"row {row}: pre-token {pretoken!r} {problem}")
        if self.pretokenizer.alphabet == "chars":
            self._require_utf8()

    def _require_utf8(self) -> None:
        starts = np.frombuffer(self.data, np.uint8)[self.offsets[:-1]]
        try:
            self.data.decode()
            broken = np.flatnonzero(starts & 0xC0 == 0x80)  # the second part of a character
            row = int(broken[0]) if len(broken) else len(self)
        except UnicodeDecodeError as error:
            row = int(np.searchsorted(self.offsets, error.start, side="right")) - 1
        if row < len(self):
            raise CorpusError(
                f"row {row}: pre-token {self._pretoken(row)!r} is not UTF-8, so it has no characters"
            )


class _Items(ItemsView[bytes, int]):
    """Rows in order, without the look-up of each that a mapping's items take."""

    _mapping: PreTokenCounts

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        yield from zip(self._mapping, self._mapping.counts.tolist(), strict=True)


def _read_only(values: npt.ArrayLike) -> Int64Array:
    """A copy that no one can write to."""
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
    if value > _MAX_COUNT:
        raise CountOverflowError(f"pre-token {pretoken!r} has count {value}, beyond 2**63 - 1")
    return operator.index(value)


def _sum_counts(pretoken: bytes, rows: Iterable[tuple[bytes, int]]) -> int:
    total = sum(value for _, value in rows)
    if total > _MAX_COUNT:
        raise CountOverflowError(f"pre-token {pretoken!r} has {total} occurrences in all, beyond 2**63 - 1")
    return total


def _name(pretokenizer: Pretokenizer) -> str:
    return repr(pretokenizer.preset) if pretokenizer.preset else pretokenizer.to_json()


# Reading Parquet


def _parse_metadata(path: str | os.PathLike[str], metadata: Mapping[bytes, bytes]) -> Pretokenizer:
    version = metadata.get(_VERSION_KEY)
    if version is None or _PRETOKENIZER_KEY not in metadata:
        raise ArtifactError(
            f"{path}: not a table of pre-token counts: its metadata don't say how the text was cut"
        )
    if version != str(_FORMAT_VERSION).encode():
        raise ArtifactError(
            f"{path} has format version {version.decode(errors='replace')}; this hf_scaffold reads "
            f"{_FORMAT_VERSION}; update it"
        )
    try:
        return Pretokenizer.from_json(metadata[_PRETOKENIZER_KEY].decode())
    except ValueError as error:
        raise ArtifactError(f"{path}: the pre-tokenizer in its metadata can't be read: {error}") from error


def _column(path: str | os.PathLike[str], table: Any, name: str, type_: Any) -> Any:
    """A column of that type as one array, without nulls."""
    if name not in table.column_names or table[name].type != type_:
        raise ArtifactError(
            f"{path}: expected columns pretoken: large_binary and count: int64, not "
            + ", ".join(f"{column.name}: {column.type}" for column in table.schema)
        )
    column = table[name].combine_chunks()
    if column.null_count:
        raise ArtifactError(f"{path}: row {column.is_null().index(True).as_py()}: {name} is null")
    return column


def _join(pretokens: Any) -> tuple[bytes, Int64Array]:
    """The joined values and offsets that lie in an Arrow large_binary array."""
    _, offsets_buffer, data_buffer = pretokens.buffers()
    if not len(pretokens):
        return b"", np.zeros(1, np.int64)
    offsets = np.frombuffer(offsets_buffer, np.int64)[pretokens.offset :][: len(pretokens) + 1]
    return data_buffer[int(offsets[0]) : int(offsets[-1])].to_pybytes(), offsets - offsets[0]


# Counting


@knows_its_arguments
def count(
    source: Source,
    *,
    pretokenizer: PretokenizerLike | None = None,
    normalizer: Normalizer | None = None,
    alphabet: str | None = None,
    field: str = "text",
    num_workers: int | None = None,
    max_pretoken_length: int | None = MAX_PRETOKEN_LENGTH,
    progress: Progress | None = None,
) -> PreTokenCounts:
    """Count the pre-tokens of a corpus.

    The table depends on the documents and the pre-tokenizer alone: not on the documents' order, on how
    they are spread over files, or on num_workers.

    With the presets a plain-text file is one document. With any other pre-tokenizer each of its lines,
    with its line end, is one, as in `tokenizers.Tokenizer.train`. A byte-order mark at a file's start is
    dropped.

    Args:
        source: A path or glob pattern (plain text, `.jsonl`, `.parquet`; also `.gz`, `.xz`, `.zst`), an
            iterable of `pathlib.Path`, a `datasets.Dataset` or `IterableDataset`, or an iterable of str or of
            batches of str. In an iterable a str is a document, never a path.
        pretokenizer: `"gpt2"`, `"gpt2-digits"` (the default), `"llama3"`, `"gpt4o"`, a `tokenizers`
            pre-tokenizer, or a `tokenizers.Tokenizer` for its normalizer and pre-tokenizer. For characters:
            `"metaspace"` (the default), `"metaspace-unsplit"`, `"whitespace"`, `"whitespace-split"`,
            `"bert"`, or such an object.
        normalizer: A `tokenizers` normalizer that the text goes through first.
        alphabet: What merges start from: `"bytes"` (the default), or `"chars"`, the characters that the
            pre-tokenizer writes.
        field: The field of JSON Lines, or column of Parquet and `datasets`, that holds the text.
        num_workers: Threads for the presets, processes for any other pre-tokenizer. None: one a CPU, 16 at
            most; one process where processes are spawned, since these import the calling script again.
        max_pretoken_length: Bytes. Longer pre-tokens, which are data rather than words, are left out with a
            warning: training on one takes some 80 bytes of memory for each of its own. None keeps all.
        progress: Called in this thread now and then as progress(bytes_read, bytes_total); None for the total
            when the source has no known size. Bytes are as they lie on disk.
    Returns:
        PreTokenCounts. Never empty.
    Raises:
        CorpusError: the corpus is empty or all whitespace, or a file or document can't be read; the message
            names it and the place.
        ConfigurationError: an unknown preset, or a package that is not installed.
        CountOverflowError: a count is beyond 2**63 - 1.
    Cost: memory O(distinct pre-tokens * num_workers), whatever the size of the corpus; a long document
        without a place to cut is held whole. The presets release the GIL.
    Example:
        >>> counts = count(["the cat", "the dog"])
        >>> dict(counts)
        {b' cat': 1, b' dog': 1, b'the': 2}
    """
    string("field", field)
    function("progress", progress, "bytes_read, bytes_total")
    if max_pretoken_length is not None:
        max_pretoken_length = whole("max_pretoken_length", max_pretoken_length, 1, reason="None keeps all")
    cutter = get_pretokenizer(pretokenizer, normalizer, alphabet)
    num_workers = _resolve_workers(num_workers, in_threads=cutter.preset is not None)
    if cutter.preset is not None:
        cut = partial(_last_cut, cutter.preset)
        documents = iter_documents(source, field=field, cut=cut, progress=progress)
        counts = _count_in_threads(documents, cutter, cutter.preset, num_workers)
    else:
        documents = iter_documents(source, field=field, progress=progress)
        counts = _count_in_processes(documents, cutter, num_workers)
    if max_pretoken_length is not None:
        counts = _without_longer(counts, max_pretoken_length)
    if not counts:
        raise CorpusError(f"nothing to count in {describe_source(source)}: it gave no pre-tokens")
    if all(pretoken.decode(errors="replace").isspace() for pretoken in counts):
        raise CorpusError(f"nothing to count in {describe_source(source)}: it is all whitespace")
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
    return PreTokenCounts._from_sorted(rows, counts.pretokenizer)


def _last_cut(preset: str, text: bytes) -> int:
    return last_cut(text, preset)


def _resolve_workers(num_workers: int | None, in_threads: bool) -> int:
    if num_workers is None:
        return min(n_cpus(), _MAX_WORKERS) if in_threads or _forks() else 1
    return whole("num_workers", num_workers, least=1, most=_MOST_WORKERS)


def _forks() -> bool:
    """Whether processes start as copies of this one, without importing the calling script again."""
    chosen = multiprocessing.get_start_method(allow_none=True)
    return (chosen or multiprocessing.get_all_start_methods()[0]) == "fork"  # the first is the default


def _count_in_threads(
    documents: Iterator[bytes], pretokenizer: Pretokenizer, preset: str, num_workers: int
) -> PreTokenCounts:
    counters = [PretokenCounter(preset) for _ in range(num_workers)]
    free: SimpleQueue[PretokenCounter] = SimpleQueue()
    for counter in counters:
        free.put(counter)

    def add(texts: list[bytes]) -> None:
        counter = free.get()
        try:
            counter.add(texts)
        finally:
            free.put(counter)

    pool = ThreadPoolExecutor(num_workers) if num_workers > 1 else None
    for _ in _map(pool, add, batches(documents, _THREAD_BATCH), num_workers):
        pass
    merged = counters.pop()
    while counters:
        merged.merge(counters.pop())
    return PreTokenCounts(*merged.table(), pretokenizer)


def _count_in_processes(
    documents: Iterator[bytes], pretokenizer: Pretokenizer, num_workers: int
) -> PreTokenCounts:
    # Ctrl-C reaches every process of the terminal; the workers leave it to this one, which stops them.
    ignore_interrupts = partial(signal.signal, signal.SIGINT, signal.SIG_IGN)
    pool = ProcessPoolExecutor(num_workers, initializer=ignore_interrupts) if num_workers > 1 else None
    count_batch = partial(_count_texts, pretokenizer.to_json())
    total: Counter[bytes] = Counter()
    try:
        for counts in _map(pool, count_batch, batches(documents, _PROCESS_BATCH), num_workers):
            total.update(counts)
    except BrokenProcessPool as error:
        raise ConfigurationError(
            "a counting process died: out of memory, or started by a script that calls count() outside "
            "`if __name__ == '__main__':`; num_workers=1 needs no processes"
        ) from error
    return PreTokenCounts._from_sorted(sorted(total.items()), pretokenizer)


def _count_texts(pretokenizer_json: str, texts: list[bytes]) -> Counter[bytes]:
    pretokenize = _parse_pretokenizer(pretokenizer_json).pretokenize
    counts: Counter[bytes] = Counter()
    for text in texts:
        counts.update(pretokenize(text.decode()))
    return counts


_parse_pretokenizer = lru_cache(maxsize=1)(Pretokenizer.from_json)  # once a process


def _map(
    pool: Executor | None,
    work: Callable[[list[bytes]], _Result],
    batches: Iterator[list[bytes]],
    num_workers: int,
) -> Iterator[_Result]:
    """work(batch) of every batch in order, with at most two batches a worker in memory.

    Whatever ends the iteration early (an error, Ctrl-C) also ends the pool, after the batches at work.
    """
    if pool is None:
        yield from map(work, batches)
        return
    pending: deque[Future[_Result]] = deque()
    try:
        for batch in batches:
            if len(pending) == 2 * num_workers:
                yield pending.popleft().result()
            pending.append(pool.submit(work, batch))
        while pending:
            yield pending.popleft().result()
    except BrokenProcessPool:
        if sys.version_info < (3, 11, 5):  # it would wait for ever to hand on a batch that no process takes
            cast(Any, pool)._call_queue._reader.close()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
