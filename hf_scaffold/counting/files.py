"""Tables of pre-token counts as Parquet."""

from collections.abc import Mapping
from io import BytesIO
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from hf_scaffold.errors import ArtifactError
from hf_scaffold.text.files import import_extra
from hf_scaffold.text.pre_tokenizers import PreTokenizer

FORMAT_VERSION = b"1"
VERSION_KEY = b"hf_scaffold.format_version"
PRE_TOKENIZER_KEY = b"hf_scaffold.pretokenizer"

Rows = tuple[bytes, npt.NDArray[np.int64], npt.NDArray[np.int64]]  # data, offsets, counts


def to_parquet(rows: Rows, pre_tokenizer: PreTokenizer) -> bytes:
    """The columns `pretoken` (binary) and `count` (int64); the pre-tokenizer is in the metadata."""
    pyarrow, parquet = import_extra("pyarrow", "parquet"), import_extra("pyarrow.parquet", "parquet")
    data, offsets, counts = rows
    buffers = [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(data)]
    pretokens = pyarrow.Array.from_buffers(pyarrow.large_binary(), len(counts), buffers)
    metadata = {VERSION_KEY: FORMAT_VERSION, PRE_TOKENIZER_KEY: pre_tokenizer.to_json().encode()}
    stream = BytesIO()
    table = pyarrow.table({"pretoken": pretokens, "count": counts}, metadata=metadata)
    parquet.write_table(table, stream, compression="zstd", use_dictionary=False)
    return stream.getvalue()


def read_parquet(path: str | PathLike[str]) -> tuple[Rows, PreTokenizer]:
    """The rows of a file, which may break any rule of a table but that of its columns.

    Raises:
        OSError: the file can't be opened.
        ArtifactError: it is not Parquet, has other columns, nulls, or metadata that don't fit.
    """
    pyarrow, parquet = import_extra("pyarrow", "parquet"), import_extra("pyarrow.parquet", "parquet")
    with open(path, "rb") as stream:
        try:
            table = parquet.read_table(stream)
        except (pyarrow.ArrowException, OSError) as error:
            raise ArtifactError(f"{path} is not a Parquet file or is truncated: {error}") from error
    pre_tokenizer = _pre_tokenizer(path, table.schema.metadata or {})
    expected = {"pretoken": pyarrow.large_binary(), "count": pyarrow.int64()}
    try:
        columns = [(column.name, column.type) for column in table.schema]
    except UnicodeDecodeError as error:
        raise ArtifactError(f"{path}: the name of a column is not UTF-8: {error}") from None
    if not {*expected.items()} <= {*columns}:
        raise ArtifactError(
            f"{path}: expected columns pretoken: large_binary and count: int64, not "
            + ", ".join(f"{name}: {type_}" for name, type_ in columns)
        )
    for name in expected:
        if table[name].null_count:
            row = table[name].is_null().index(True).as_py()
            raise ArtifactError(f"{path}: row {row}: {name} is null")
    data, offsets = _joined(table["pretoken"].combine_chunks())
    return (data, offsets, table["count"].to_numpy()), pre_tokenizer


def _pre_tokenizer(path: str | PathLike[str], metadata: Mapping[bytes, bytes]) -> PreTokenizer:
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


def _joined(pretokens: Any) -> tuple[bytes, npt.NDArray[np.int64]]:
    """The values of an Arrow large_binary array, one after another, and their offsets."""
    _, offsets_buffer, data_buffer = pretokens.buffers()
    if not len(pretokens):
        return b"", np.zeros(1, np.int64)
    offsets = np.frombuffer(offsets_buffer, np.int64)[pretokens.offset :][: len(pretokens) + 1]
    return data_buffer[int(offsets[0]) : int(offsets[-1])].to_pybytes(), offsets - offsets[0]
