"""Counting and tokenizing the columns of Spark's data frames: pyspark 3.5 and 4."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from hf_scaffold._utils.arguments import knows_its_arguments, string
from hf_scaffold.errors import CorpusError
from hf_scaffold.scale.arrow import (
    Counting,
    Encoding,
    count_batches,
    encode_batch,
    refuse_missing,
)
from hf_scaffold.scale.tallies import in_one_cell, packed_by_bucket, save_counts, sums, unpacked
from hf_scaffold.text.files import import_extra
from hf_scaffold.text.presets import MAX_PRETOKEN_LENGTH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from tokenizers.normalizers import Normalizer

    from hf_scaffold._utils.urls import Source
    from hf_scaffold.counting.counts import PreTokenizerLike
    from hf_scaffold.tables.merging import TableSize

_CELL = "pretokens binary, lengths binary, counts binary"


@knows_its_arguments
def count(
    df: DataFrame,
    output: Source,
    *,
    column: str = "text",
    pre_tokenizer: PreTokenizerLike | None = None,
    normalizer: Normalizer | None = None,
    alphabet: str | None = None,
    max_pretoken_length: int | None = MAX_PRETOKEN_LENGTH,
) -> TableSize:
    """Count the pre-tokens of a column of text into a table.

    The table is, byte for byte, the one that `hs.count` makes of the same documents, however they are
    partitioned. Tasks that Spark retries or runs twice are counted once.

    Args:
        df: A row is a document.
        output: The Parquet file to write, a path or URL, for `PreTokenCounts.load` and `hs.merge_counts`.
        column: That of the text: strings, or UTF-8 as binary, without nulls.
        pre_tokenizer, normalizer, alphabet, max_pretoken_length: As for `hs.count`.
    Raises:
        CorpusError: there is no such column, it is no text, or there is nothing to count.
        pyspark.errors.PythonException, py4j.protocol.Py4JJavaError: a task failed; it quotes why: a null,
            bytes that are not UTF-8, a CountOverflowError.
        ConfigurationError: as `hs.count`.
        OSError: the output can't be written.
    Cost: one shuffle of the distinct pre-tokens of each partition. The driver holds one partition of their
        sums at a time, and merges these on its disk, which takes the size of the table once more.
    """
    import_extra("pyspark", "spark")  # says how to install it
    counting = Counting.of(pre_tokenizer, normalizer, alphabet, max_pretoken_length)
    _check_column(df, column)
    counts = df.select(column).mapInArrow(
        partial(_count, column=column, counting=counting), f"first binary, {_CELL}, bucket int"
    )
    cells = counts.repartition("bucket").drop("bucket").sortWithinPartitions("first")
    return save_counts(_taken(cells.mapInArrow(_sums, _CELL)), output, counting)


def _count(batches: Iterable[Any], column: str, counting: Counting) -> Iterator[Any]:
    for table in count_batches(batches, column, counting):
        yield from packed_by_bucket(table).to_batches()


def _sums(batches: Iterable[Any]) -> Iterator[Any]:
    return map(in_one_cell, sums(batches))


def _taken(df: DataFrame) -> Iterator[Any]:
    pyarrow = import_extra("pyarrow", "spark")
    for row in df.toLocalIterator():
        yield unpacked(pyarrow.Table.from_pylist([row.asDict()]))


@knows_its_arguments
def tokenize(
    df: DataFrame,
    tokenizer: str | os.PathLike[str],
    *,
    column: str = "text",
    output_column: str = "input_ids",
    remove_columns: Sequence[str] = (),
    add_special_tokens: bool = True,
    split_special_tokens: bool | None = None,
) -> DataFrame:
    """A data frame with a column of ids besides: arrays of int, the `input_ids` of the tokenizer's own calls.

    Args:
        df: A row is a document.
        tokenizer: The folder of a saved tokenizer, which all machines must find under the same path, or a
            name on the Hub. Each Python worker loads it once.
        column: That of the text: strings, or UTF-8 as binary, without nulls.
        output_column: The name of the column of ids.
        remove_columns: Columns that the result lacks. Those it keeps travel to Python and back.
        add_special_tokens, split_special_tokens: As in a tokenizer's calls.
    Raises:
        CorpusError: there is no such column, or it is no text.
        ConfigurationError: there is a column of the ids' name already.
        FileNotFoundError, ArtifactError: the driver finds no tokenizer there, or a damaged one.
        TypeError: tokenizer is a tokenizer itself.
    Cost: lazy; nothing is encoded before an action needs it. Tasks take spark.task.cpus threads each.
    """
    import_extra("pyspark", "spark")
    from pyspark.sql import types

    _check_column(df, column)
    num_threads = int(df.sparkSession.conf.get("spark.task.cpus", "1"))
    encoding = Encoding.of(
        tokenizer,
        column,
        output_column,
        remove_columns,
        add_special_tokens,
        split_special_tokens,
        num_threads,
    )
    *kept, ids = encoding.names(df.columns)
    fields = [df.schema[name] for name in kept]
    schema = types.StructType([*fields, types.StructField(ids, types.ArrayType(types.IntegerType(), False))])
    needed = [name for name in df.columns if name in (column, *kept)]
    return df.select(needed).mapInArrow(partial(_encode, encoding=encoding), schema)


def _encode(batches: Iterable[Any], encoding: Encoding) -> Iterator[Any]:
    pyarrow = import_extra("pyarrow", "spark")
    for batch in batches:
        yield from encode_batch(pyarrow.Table.from_batches([batch]), encoding).to_batches()


def _check_column(df: Any, column: Any) -> None:
    refuse_missing(string("column", column), df.columns)
    kind = df.schema[column].dataType.typeName()
    if kind not in ("string", "binary"):
        raise CorpusError(
            f"column {column!r} holds {kind}, not text: string, or UTF-8 as binary; name another one with "
            f"column=, or cast it: df.withColumn({column!r}, df[{column!r}].cast('string'))"
        )
