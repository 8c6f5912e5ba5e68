"""Tables added up on disk, in memory that doesn't depend on their size."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from hf_scaffold._core.counter import sum_rows
from hf_scaffold._utils.arguments import knows_its_arguments, memory, progress, progress_shown, strings
from hf_scaffold._utils.files import folders_in, locked, made, naming, remove, saving, sync
from hf_scaffold._utils.process import most_open_files
from hf_scaffold._utils.urls import Place, Source, Url, place, temporary_folder
from hf_scaffold.errors import ConfigurationError
from hf_scaffold.tables.files import TableFile, TableWriter, arrow_table, rows_of_arrow
from hf_scaffold.tables.parts import Parts, join_parts
from hf_scaffold.tables.rows import join_min_counts
from hf_scaffold.tables.sums import exact_sum
from hf_scaffold.text.files import find_files, import_extra
from hf_scaffold.text.pre_tokenizers import PreTokenizer

_ROWS = 1 << 19  # in memory at a time, of all tables together: sorting them takes half a second
_BYTES = 1 << 26  # likewise, but for long pre-tokens
_LEAST_ROWS = 1 << 10  # in memory of each table
_READ_ROWS = 1 << 14  # read at a time
_OWN_MEMORY = 320 << 20  # bytes: Python, NumPy, Arrow, those rows and the group that is written
_FILE_MEMORY = 4 << 20  # bytes: pages of a file that is read
_MOST_FILES = 256  # open at a time, where the system allows twice as many

LEAST_MEMORY = 1 << 29


class TableSize(NamedTuple):
    """How large a table of counts is, and what it lacks.

    Args:
        n_distinct: Rows.
        n_pretokens, n_bytes: Of the corpus.
        parts: Those of a corpus that was divided, if some are not there.
    """

    n_distinct: int
    n_pretokens: int
    n_bytes: int
    parts: tuple[Parts, ...]


@knows_its_arguments
def merge_counts(
    tables: Source | Iterable[Source],
    output: Source,
    *,
    max_memory: int | str = "1G",
    show_progress: bool | Callable[[int, int | None], object] = False,
) -> TableSize:
    """Add up tables of counts on disk into one.

    The result is, byte for byte, the table of the whole corpus, however the corpus was divided, and however
    parts were merged before. It takes its place once it is complete.

    Args:
        tables: A path, URL or glob pattern, or several, of Parquet files that `PreTokenCounts.save`,
            `hf-scaffold count` or `merge_counts` wrote.
        output: The Parquet file to write. Its folder, or for a URL the system's temporary one, also takes
            what doesn't fit into memory meanwhile: at most the size of all tables.
        max_memory: Bytes, or a string such as "4G", that the process takes; 512M at least. More files are
            then read at a time, and fewer times over.
        show_progress: True for a bar; or a function called as f(rows_read, rows_total).
    Raises:
        ConfigurationError: the tables are of different pre-tokenizers, two count the same part of a corpus,
            one is given twice, or is the output.
        ArtifactError: a file is truncated, not such a table, or has a row that no table has; names both.
        CountOverflowError: a sum is beyond 2**63 - 1; names the pre-token.
        OSError: a file can't be read or written.
    Cost: O(rows · log(files)), each row read once for up to some 170 tables at "1G"; then twice, and so on.
    Example:
        >>> import hf_scaffold as hs, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for day, text in [("monday", "the cat"), ("tuesday", "the dog")]:
        ...         hs.count([text]).save(f"{folder}/{day}.parquet")
        ...     _ = hs.merge_counts(f"{folder}/*day.parquet", f"{folder}/all.parquet")
        ...     dict(hs.PreTokenCounts.load(f"{folder}/all.parquet"))
        {b' cat': 1, b' dog': 1, b'the': 2}
    """
    kinds = (str, os.PathLike, Url)
    names = [tables] if isinstance(tables, kinds) else strings("tables", tables, kinds)
    files = [TableFile(path) for path in find_files(map(place, names))]
    return merge_files(files, place(output), max_memory, show_progress)


def merge_files(
    files: Sequence[TableFile],
    output: Place,
    max_memory: int | str,
    show_progress: bool | Callable[[int, int | None], object],
) -> TableSize:
    """What `merge_counts` does, once the tables are found."""
    n_bytes = memory_for_rows(max_memory)
    _refuse_repeated([*(file.path for file in files), output])
    pre_tokenizer = _one_pre_tokenizer(files)
    parts = join_parts([(str(file.path), file.parts) for file in files])
    min_count = join_min_counts([(str(file.path), file.min_count) for file in files])
    show_progress = progress(show_progress, "rows_read, rows_total")
    if any(isinstance(file.path, Url) for file in files):
        n_bytes //= 2  # of a file in a store, larger blocks are in memory
    with progress_shown(show_progress, "Merging", " rows") as report, workplace(output) as folder:
        return _Merger(pre_tokenizer, folder, n_bytes, report).merge(files, output, parts, min_count)


def write_sum(
    tables: Iterable[Iterable[Any]],
    output: Place,
    pre_tokenizer: PreTokenizer,
    parts: Sequence[Parts] = (),
    *,
    n_bytes: int,
) -> TableSize:
    """Add up tables, each on the disk meanwhile, into a file that is there once it is complete.

    Args:
        tables: For each its rows, in order and each once, as Arrow tables of some rows at a time.
        n_bytes: Memory to merge in, as `memory_for_rows` gives it.
    Raises:
        CountOverflowError, OSError: as `merge_counts`.
    """
    with workplace(output) as folder:
        paths: list[Path] = []
        for rows in tables:
            paths.append(Path(folder, f"table-{len(paths)}"))
            size = write_table(rows, paths[-1], pre_tokenizer, parts)
        if len(paths) == 1:  # as nothing is to be added, these are the bytes of the sum
            put(paths[0], output)
            return size
        return _Merger(pre_tokenizer, folder, n_bytes, None).merge(list(map(TableFile, paths)), output, parts)


def memory_for_rows(max_memory: int | str) -> int:
    """What is left for rows of the bytes that the process takes.

    Raises:
        TypeError, ConfigurationError: max_memory is no such number, or too small.
    """
    return memory("max_memory", max_memory, LEAST_MEMORY) - _OWN_MEMORY


def _refuse_repeated(paths: Sequence[Place]) -> None:
    found: dict[Any, Place] = {}
    for path in paths:
        if isinstance(path, Url) or path.exists():
            other = found.setdefault(_identity(path), path)
            if other is not path:
                raise ConfigurationError(
                    f"{other} and {path} are one file, whose counts would be added twice"
                )


def _identity(path: Place) -> Any:
    if isinstance(path, Url):
        return path
    status = path.stat()
    return status.st_dev, status.st_ino


def _one_pre_tokenizer(files: Sequence[TableFile]) -> PreTokenizer:
    first = files[0]
    for file in files:
        if file.pre_tokenizer != first.pre_tokenizer:
            raise ConfigurationError(
                f"{first.path} and {file.path} count pre-tokens of different pre-tokenizers; "
                "count the text again with one of them"
            )
    return first.pre_tokenizer


@contextmanager
def workplace(output: Place) -> Iterator[str]:
    """A folder for what is not complete, gone at the end: beside the output, unless that is in a store.

    What dead processes left beside it goes, too. Any number of processes may have one at a time. An OSError
    without a path gets that of the output or, of a store, of the folder.
    """
    if isinstance(output, Url):
        with temporary_folder() as own:
            yield own
        return
    folder = output.parent
    with made(str(folder)), ExitStack() as stack:
        with locked(str(folder / ".merging.lock"), 60):
            for other in folders_in(str(folder), ".merging-"):
                _remove_if_dead(other)
            own = str(folder / f".merging-{os.urandom(8).hex()}")
            os.mkdir(own)
            stack.callback(remove, own)
            stack.enter_context(locked(os.path.join(own, ".lock"), 0))
        with naming(output):
            yield own


def put(written: Path, output: Place) -> None:
    """Bring a file from a workplace to where it belongs. Others that save there wait for the move alone."""
    if isinstance(output, Url):
        output.upload(written)
        return
    sync(str(written))
    with saving(str(output.parent)) as staging:
        os.replace(written, Path(staging, output.name))


def _remove_if_dead(folder: str) -> None:
    try:
        with locked(os.path.join(folder, ".lock"), 0) as is_alone:
            is_dead = is_alone
    except OSError:  # it is at work, or just going
        return
    if is_dead:
        remove(folder)


class _Merger:
    """Merges tables of one pre-tokenizer.

    Args:
        folder: For tables that are merged again.
        n_bytes: Memory, which decides how many tables are read at a time.
    """

    def __init__(
        self,
        pre_tokenizer: PreTokenizer,
        folder: str,
        n_bytes: int,
        report: Callable[[int, int | None], object] | None,
    ) -> None:
        self.pre_tokenizer, self.folder, self.report = pre_tokenizer, folder, report
        self.n_files = max(min(n_bytes // _FILE_MEMORY, _MOST_FILES, most_open_files() // 2), 2)
        self.n_to_read = self.n_read = self.n_made = 0

    def merge(
        self, files: Sequence[TableFile], output: Place, parts: Sequence[Parts], min_count: int = 1
    ) -> TableSize:
        """Write the sum of tables to where it belongs."""
        self.n_to_read = sum(file.n_rows for file in files)
        last = self.reduce(files)
        merged = Path(self.folder, "merged")  # none that `last` are read from has that name
        size = self.write(last, merged, parts, min_count)
        put(merged, output)
        return size

    def reduce(self, files: Sequence[TableFile]) -> Sequence[TableFile]:
        """Merge tables until few enough are left to be read at a time."""
        while len(files) > self.n_files:
            # The smallest number of rows read again: as few tables as it takes, the smallest ones.
            files = sorted(files, key=lambda file: file.n_rows)
            n = min(self.n_files, len(files) - self.n_files + 1)
            path = Path(self.folder, f"{self.n_made}.parquet")
            self.n_made += 1
            self.write(files[:n], path)
            for file in files[:n]:
                if isinstance(file.path, Path) and file.path.parent == Path(self.folder):
                    file.path.unlink()
            merged = TableFile(path)
            self.n_to_read += merged.n_rows
            files = [*files[n:], merged]
        return files

    def write(
        self, files: Sequence[TableFile], path: Path, parts: Sequence[Parts] = (), min_count: int = 1
    ) -> TableSize:
        """Write the sum of tables."""
        sums = self._sums([_Source(file, len(files)) for file in files])
        return write_table(sums, path, self.pre_tokenizer, parts, min_count)

    def _sums(self, sources: list[_Source]) -> Iterator[Any]:
        """The sum, in order, some rows at a time."""
        arrow = import_extra("pyarrow", "parquet")
        while sources := [source for source in sources if source.refill()]:
            bound = min(source.last for source in sources)
            taken = [source.take(bound) for source in sources]
            rows = arrow.concat_tables(taken)
            self.n_read += len(rows)
            if self.report is not None:
                self.report(self.n_read, self.n_to_read)
            yield summed(rows)


class _Source:
    """A table of which some rows are in memory."""

    def __init__(self, file: TableFile, n_sources: int) -> None:
        n_rows = max(_LEAST_ROWS, _ROWS // n_sources)
        self._batches = file.batches(min(n_rows, _READ_ROWS))
        self._n_rows, self._n_bytes = n_rows, _BYTES // n_sources
        self._rows: Any = None

    def refill(self) -> bool:
        """Read on if no rows are left; False at the end."""
        if self._rows is None or not len(self._rows):
            batches, n_rows, n_bytes = [], 0, 0
            for batch in self._batches:
                batches.append(batch)
                n_rows, n_bytes = n_rows + len(batch), n_bytes + batch.nbytes
                if n_rows >= self._n_rows or n_bytes >= self._n_bytes:
                    break
            if not batches:
                return False
            self._rows = import_extra("pyarrow", "parquet").concat_tables(batches).combine_chunks()
        return True

    @property
    def last(self) -> bytes:
        last: bytes = self._rows["pretoken"][-1].as_py()
        return last

    def take(self, bound: bytes) -> Any:
        """The rows up to a pre-token, which are then no longer here."""
        pretokens = self._rows["pretoken"]
        n = bisect_right(range(len(pretokens)), bound, key=lambda row: pretokens[row].as_py())
        taken, self._rows = self._rows.slice(0, n), self._rows.slice(n)
        return taken


def write_table(
    tables: Iterable[Any],
    path: Path,
    pre_tokenizer: PreTokenizer,
    parts: Sequence[Parts],
    min_count: int = 1,
) -> TableSize:
    """Write rows, in order and each once, as they come.

    Args:
        tables: Arrow tables of rows.
    """
    n_distinct = n_pretokens = n_bytes = 0
    with TableWriter(path, pre_tokenizer, parts, min_count) as writer:
        for rows in tables:
            writer.write(rows)
            counts, lengths = rows["count"].to_numpy(), _lengths(rows)
            n_distinct += len(rows)
            n_pretokens += exact_sum(counts)
            n_bytes += exact_sum(counts, lengths)
    return TableSize(n_distinct, n_pretokens, n_bytes, tuple(parts))


def summed(rows: Any) -> Any:
    """Rows sorted, with the counts of equal pre-tokens added up.

    Args:
        rows: An Arrow table, in any order.
    Raises:
        CountOverflowError: a sum is beyond 2**63 - 1; names the pre-token.
    """
    return arrow_table(sum_rows(*rows_of_arrow(rows)))


def _lengths(rows: Any) -> Any:
    compute = import_extra("pyarrow.compute", "parquet")
    return compute.binary_length(rows["pretoken"]).to_numpy()
