"""Tables of pre-token counts as Parquet, read and written some rows at a time."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from hf_scaffold._utils.urls import Place, Source, Url, open_place, place
from hf_scaffold.errors import ArtifactError, CorpusError
from hf_scaffold.tables.parts import Parts, parts_from_json, parts_to_json
from hf_scaffold.tables.rows import Rows, check_rows, joined
from hf_scaffold.tables.sums import exact_sum
from hf_scaffold.text.files import import_extra
from hf_scaffold.text.pre_tokenizers import PreTokenizer

FORMAT_VERSION = b"1"
VERSION_KEY = b"hf_scaffold.format_version"
PRE_TOKENIZER_KEY = b"hf_scaffold.pretokenizer"
PARTS_KEY = b"hf_scaffold.parts"
MIN_COUNT_KEY = b"hf_scaffold.min_count"

ROWS_PER_GROUP = 1 << 18  # how a table is grouped decides its bytes, so this is part of the format
_BUFFER = 1 << 16  # bytes read from a file at a time
_BLOCK = 1 << 20  # from a store
_ROWS_READ = 1 << 16  # at a time


class TableWriter:
    """Writes a table's rows as they come: the columns `pretoken` (binary) and `count` (int64).

    The metadata say how the text was cut, which parts of a corpus are there if some are not, and whether
    rare pre-tokens are missing. How the rows were handed over leaves no trace in the file.

    Args:
        sink: A path, or a file open for writing.
        min_count: Pre-tokens that occur less often were left out; 1 if none was.
    Raises:
        ConfigurationError: pyarrow is not installed.
    """

    def __init__(
        self, sink: Any, pre_tokenizer: PreTokenizer, parts: Sequence[Parts] = (), min_count: int = 1
    ) -> None:
        self._arrow = import_extra("pyarrow", "parquet")
        metadata = {VERSION_KEY: FORMAT_VERSION, PRE_TOKENIZER_KEY: pre_tokenizer.to_json().encode()}
        if parts:
            metadata[PARTS_KEY] = parts_to_json(parts)
        if min_count > 1:
            metadata[MIN_COUNT_KEY] = b"%d" % min_count
        schema = self._arrow.schema(columns(), metadata=metadata)
        self._rest = schema.empty_table()
        parquet = import_extra("pyarrow.parquet", "parquet")
        self._writer = parquet.ParquetWriter(sink, schema, compression="zstd", use_dictionary=False)

    def __enter__(self) -> "TableWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and len(self._rest):
            self._write_group(self._rest)
        self._writer.close()

    def write(self, rows: Any) -> None:
        """Append rows, as an Arrow table with these columns."""
        rows = self._arrow.concat_tables([self._rest, rows.cast(self._rest.schema)])
        n_full = len(rows) - len(rows) % ROWS_PER_GROUP
        for first in range(0, n_full, ROWS_PER_GROUP):
            self._write_group(rows.slice(first, ROWS_PER_GROUP))
        self._rest = rows.slice(n_full)

    def _write_group(self, rows: Any) -> None:
        # In one chunk each: where chunks end would show in the pages.
        self._writer.write_table(rows.combine_chunks(), row_group_size=ROWS_PER_GROUP)


class TableFile:
    """A file that holds a table of counts; its rows are read, and checked, as they are asked for.

    Args:
        path: Or URL, of a Parquet file that `TableWriter` wrote.
    Raises:
        OSError: the file can't be opened.
        ArtifactError: it is not Parquet, is truncated, has other columns, or metadata that don't fit.
        ConfigurationError: pyarrow is not installed.
    """

    def __init__(self, path: Source) -> None:
        self.path = place(path)
        self._arrow = import_extra("pyarrow", "parquet")
        self._parquet = import_extra("pyarrow.parquet", "parquet")
        with open_place(self.path) as stream:
            try:
                found = self._parquet.ParquetFile(stream)
                schema, self.n_rows = found.schema_arrow, found.metadata.num_rows
            except (self._arrow.ArrowException, OSError) as error:
                raise self._damaged(error) from error
        metadata = schema.metadata or {}
        self.pre_tokenizer = _pre_tokenizer(self.path, metadata)
        self.parts = _parts(self.path, metadata)
        self.min_count = _min_count(self.path, metadata)
        _check_columns(self.path, schema)

    def read(self, min_count: int = 1) -> tuple[Rows, int]:
        """The rows of that count or more, and the bytes of text that the others stand for.

        Raises:
            As `batches`.
        """
        tables, n_bytes_left_out = [], 0
        for table in self.batches(_ROWS_READ):
            if min_count > 1:
                _, offsets, values = self._rows_of(table, 0)
                kept = values >= min_count
                n_bytes_left_out += exact_sum(values[~kept], np.diff(offsets)[~kept])
                table = table.filter(kept)
            data, offsets, values = self._rows_of(table, 0)
            tables.append((data, offsets, values.copy()))  # which keeps none of Arrow's memory
        return joined(tables), n_bytes_left_out

    def batches(self, n_rows: int) -> Iterator[Any]:
        """The rows in order, as Arrow tables of at most n_rows; each is checked.

        Raises:
            OSError: the file can't be opened.
            ArtifactError: it is damaged, or has a row that no table has; names file and row.
        """
        first, before = 0, b""
        buffer = _BLOCK if isinstance(self.path, Url) else _BUFFER
        with open_place(self.path, most=0) as stream:
            try:
                found = self._parquet.ParquetFile(stream, buffer_size=buffer, pre_buffer=False)
                batches = found.iter_batches(n_rows, columns=["pretoken", "count"], use_threads=False)
                for batch in batches:
                    table = self._arrow.Table.from_batches([batch])
                    try:
                        check_rows(self._rows_of(table, first), self.pre_tokenizer.alphabet, first, before)
                    except CorpusError as error:
                        raise ArtifactError(f"{self.path}: {error}") from None
                    first, before = first + len(table), table["pretoken"][-1].as_py()
                    yield table
            except (self._arrow.ArrowException, OSError) as error:
                raise self._damaged(error) from error

    def _rows_of(self, table: Any, first: int) -> Rows:
        for name in ("pretoken", "count"):
            if table[name].null_count:
                row = first + table[name].is_null().index(True).as_py()
                raise ArtifactError(f"{self.path}: row {row}: {name} is null")
        return rows_of_arrow(table)

    def _damaged(self, error: Exception) -> Exception:
        if isinstance(error, OSError) and error.filename is not None:
            return error  # of a store
        return ArtifactError(f"{self.path} is not a Parquet file, or is truncated or damaged")


def columns() -> Any:
    arrow = import_extra("pyarrow", "parquet")
    return [("pretoken", arrow.large_binary()), ("count", arrow.int64())]


def arrow_table(rows: Rows) -> Any:
    """Rows as an Arrow table, without a copy."""
    arrow = import_extra("pyarrow", "parquet")
    data, offsets, counts = rows
    buffers = [None, arrow.py_buffer(offsets), arrow.py_buffer(data)]
    pretokens = arrow.Array.from_buffers(arrow.large_binary(), len(counts), buffers)
    return arrow.table([pretokens, counts], arrow.schema(columns()))


def _pre_tokenizer(path: Place, metadata: Mapping[bytes, bytes]) -> PreTokenizer:
    version = metadata.get(VERSION_KEY)
    if version is None or PRE_TOKENIZER_KEY not in metadata:
        raise ArtifactError(
            f"{path}: not a table of pre-token counts: its metadata don't say how the text was cut"
        )
    if version != FORMAT_VERSION:
        raise ArtifactError(
            f"{path} has format version {version.decode(errors='replace')}; this hf_scaffold reads "
            f"{FORMAT_VERSION.decode()}; update it"
        )
    try:
        return PreTokenizer.from_json(metadata[PRE_TOKENIZER_KEY].decode())
    except ValueError as error:
        raise ArtifactError(f"{path}: the pre-tokenizer in its metadata can't be read: {error}") from error


def _parts(path: Place, metadata: Mapping[bytes, bytes]) -> tuple[Parts, ...]:
    try:
        return parts_from_json(metadata.get(PARTS_KEY, b"[]"))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ArtifactError(f"{path}: the parts in its metadata can't be read: {error}") from error


def _min_count(path: Place, metadata: Mapping[bytes, bytes]) -> int:
    found = metadata.get(MIN_COUNT_KEY, b"1")
    if not re.fullmatch(rb"[1-9]\d{0,18}", found):
        raise ArtifactError(f"{path}: the min_count in its metadata is {found[:40]!r}, not a number from 1")
    return int(found)


def _check_columns(path: Place, schema: Any) -> None:
    try:
        found = [(column.name, column.type) for column in schema]
    except UnicodeDecodeError as error:
        raise ArtifactError(f"{path}: the name of a column is not UTF-8: {error}") from None
    if not {*columns()} <= {*found}:
        raise ArtifactError(
            f"{path}: expected columns pretoken: large_binary and count: int64, not "
            + ", ".join(f"{name}: {type_}" for name, type_ in found)
        )


def rows_of_arrow(table: Any) -> Rows:
    """The rows of an Arrow table without nulls."""
    pretokens, counts = table["pretoken"].combine_chunks(), table["count"].to_numpy()
    _, offsets_buffer, data_buffer = pretokens.buffers()
    if not len(pretokens):
        return b"", np.zeros(1, np.int64), counts
    offsets = np.frombuffer(offsets_buffer, np.int64)[pretokens.offset :][: len(pretokens) + 1]
    data = data_buffer[int(offsets[0]) : int(offsets[-1])].to_pybytes()
    return data, offsets - offsets[0], counts
