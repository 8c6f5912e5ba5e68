"""Counting and tokenizing the columns of Ray Data's datasets."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hf_scaffold._utils.arguments import knows_its_arguments, string
from hf_scaffold.scale.arrow import (
    Counting,
    Encoding,
    count_batches,
    encode_batch,
    load,
    refuse_missing,
)
from hf_scaffold.scale.tallies import no_rows, packed, save_counts, sums
from hf_scaffold.text.files import import_extra
from hf_scaffold.text.presets import MAX_PRETOKEN_LENGTH

if TYPE_CHECKING:
    from ray.data import Dataset
    from tokenizers.normalizers import Normalizer

    from hf_scaffold._utils.urls import Source
    from hf_scaffold.counting.counts import PreTokenizerLike
    from hf_scaffold.tables.merging import TableSize

_BYTES = 1 << 24  # of counts in a block: adding them up takes a tenth of a second


@knows_its_arguments
def count(
    dataset: Dataset,
    output: Source,
    *,
    column: str = "text",
    pre_tokenizer: PreTokenizerLike | None = None,
    normalizer: Normalizer | None = None,
    alphabet: str | None = None,
    max_pretoken_length: int | None = MAX_PRETOKEN_LENGTH,
    **map_batches: Any,
) -> TableSize:
    """Count the pre-tokens of a column of text into a table.

    The table is, byte for byte, the one that `hs.count` makes of the same documents, however they are
    divided into blocks. Tasks that Ray retries are counted once.

    Args:
        dataset: A row is a document.
        output: The Parquet file to write, a path or URL, for `PreTokenCounts.load` and `hs.merge_counts`.
        column: That of the text: strings, or UTF-8 as binary, without nulls.
        pre_tokenizer, normalizer, alphabet, max_pretoken_length: As for `hs.count`.
        map_batches: What `Dataset.map_batches` takes, for the tasks that count: num_cpus, memory,
            concurrency, batch_size, … By default a task counts a block at a time.
    Raises:
        ray.exceptions.RayTaskError: a task failed; it quotes why: a CorpusError, as there is no such column,
            a null, or bytes that are not UTF-8; a CountOverflowError.
        CorpusError: Ray knows the columns, and there is no such one; or there is nothing to count.
        ConfigurationError: as `hs.count`.
        OSError: the output can't be written.
    Cost: one sort of the distinct pre-tokens of each block, in cells of thousands, which the object store
        holds meanwhile. The driver holds one block of their sums at a time, and merges these on its disk,
        which takes the size of the table once more.
    """
    counting = Counting.of(pre_tokenizer, normalizer, alphabet, max_pretoken_length)
    string("column", column)
    schema = dataset.schema(fetch_if_missing=False)  # of what is not read yet the workers tell
    if schema is not None:
        refuse_missing(column, schema.names)
    options = {"batch_size": None, **map_batches}
    counts = dataset.select_columns([column]).map_batches(
        _count, fn_args=(column, counting), batch_format="pyarrow", **options
    )
    rows = _few(counts.materialize()).sort("first").map_batches(_sum, batch_format="pyarrow", batch_size=None)
    tables = rows.iter_batches(batch_format="pyarrow", batch_size=None)
    return save_counts(tables, output, counting)


def _count(batch: Any, column: str, counting: Counting) -> Any:
    pyarrow = import_extra("pyarrow", "ray")
    tables = count_batches([batch], column, counting)
    return pyarrow.concat_tables([packed(no_rows()), *map(packed, tables)])


def _few(counts: Any) -> Any:
    """Counts in no more blocks than are worth a task each: Ray sorts into as many as there are."""
    n_blocks = min(counts.size_bytes() // _BYTES + 1, counts.context.default_hash_shuffle_parallelism)
    return counts.repartition(n_blocks) if n_blocks < counts.num_blocks() else counts


def _sum(cells: Any) -> Any:
    return import_extra("pyarrow", "ray").concat_tables(sums([cells]))


@knows_its_arguments
def tokenize(
    dataset: Dataset,
    tokenizer: str | os.PathLike[str],
    *,
    column: str = "text",
    output_column: str = "input_ids",
    remove_columns: Sequence[str] = (),
    add_special_tokens: bool = True,
    split_special_tokens: bool | None = None,
    **map_batches: Any,
) -> Dataset:
    """A dataset with a column of ids besides: lists of int32, the `input_ids` of the tokenizer's own calls.

    Args:
        dataset: A row is a document.
        tokenizer: The folder of a saved tokenizer, which all machines must find under the same path, or a
            name on the Hub. Each actor loads it once.
        column: That of the text: strings, or UTF-8 as binary, without nulls.
        output_column: The name of the column of ids.
        remove_columns: Columns that the result lacks.
        add_special_tokens, split_special_tokens: As in a tokenizer's calls.
        map_batches: What `Dataset.map_batches` takes: num_cpus, memory, concurrency, batch_size, … By default
            an actor, of which there are as many as there is work for, takes a block at a time, on one thread;
            with num_cpus=4 on four.
    Raises:
        FileNotFoundError, ArtifactError: the driver finds no tokenizer there, or a damaged one.
        TypeError: tokenizer is a tokenizer itself.
    Cost: lazy; nothing is encoded before the dataset is consumed.
    """
    num_threads = max(int(map_batches.get("num_cpus") or 1), 1)
    encoding = Encoding.of(
        tokenizer,
        column,
        output_column,
        remove_columns,
        add_special_tokens,
        split_special_tokens,
        num_threads,
    )
    options = {"batch_size": None, **map_batches}
    return dataset.map_batches(Tokenize, fn_constructor_args=(encoding,), batch_format="pyarrow", **options)


class Tokenize:
    """What `tokenize` hands to `Dataset.map_batches`: an actor that loads the tokenizer once."""

    def __init__(self, encoding: Encoding) -> None:
        self._encoding = encoding
        load(encoding.tokenizer, encoding.digest)

    def __call__(self, batch: Any) -> Any:
        return encode_batch(batch, self._encoding)
