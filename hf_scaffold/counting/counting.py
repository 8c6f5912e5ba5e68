"""Counting: from the text of a corpus, or of a part of it, to a table."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import overload

from tokenizers.normalizers import Normalizer

from hf_scaffold._core.counter import last_cut
from hf_scaffold._utils.arguments import (
    knows_its_arguments,
    progress,
    progress_shown,
    string,
    warn,
    whole,
)
from hf_scaffold._utils.urls import Place, Source, place, require_writable_place
from hf_scaffold.counting.counts import PreTokenCounts, PreTokenizerLike, save_table
from hf_scaffold.counting.workers import (
    count_in_processes,
    count_in_threads,
    resolve_workers,
    splitting_for,
)
from hf_scaffold.errors import ConfigurationError, CorpusError
from hf_scaffold.tables.files import arrow_table
from hf_scaffold.tables.merging import TableSize, memory_for_rows, write_sum
from hf_scaffold.tables.parts import Parts, join_parts
from hf_scaffold.tables.rows import Rows, is_blank, left_out, without_longer
from hf_scaffold.text.corpus import Corpus, Progress, describe_corpus, files_of, iter_documents
from hf_scaffold.text.parts import Part, corpus_digest
from hf_scaffold.text.pre_tokenizers import PreTokenizer, get_pre_tokenizer
from hf_scaffold.text.presets import MAX_PRETOKEN_LENGTH


@overload
def count(
    corpus: Corpus,
    *,
    pre_tokenizer: PreTokenizerLike | None = ...,
    normalizer: Normalizer | None = ...,
    alphabet: str | None = ...,
    text_field: str = ...,
    num_workers: int | None = ...,
    max_pretoken_length: int | None = ...,
    part: tuple[int, int] | str | None = ...,
    output: None = ...,
    max_memory: None = ...,
    show_progress: bool | Progress = ...,
) -> PreTokenCounts: ...
@overload
def count(
    corpus: Corpus,
    *,
    pre_tokenizer: PreTokenizerLike | None = ...,
    normalizer: Normalizer | None = ...,
    alphabet: str | None = ...,
    text_field: str = ...,
    num_workers: int | None = ...,
    max_pretoken_length: int | None = ...,
    part: tuple[int, int] | str | None = ...,
    output: Source,
    max_memory: int | str | None = ...,
    show_progress: bool | Progress = ...,
) -> TableSize: ...
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
    part: tuple[int, int] | str | None = None,
    output: Source | None = None,
    max_memory: int | str | None = None,
    show_progress: bool | Progress = False,
) -> PreTokenCounts | TableSize:
    """Count the pre-tokens of a corpus.

    The table depends on the documents and the pre-tokenizer alone: not on the documents' order, on how
    they are spread over files, or on num_workers.

    With the presets a plain-text file is one document. With any other pre-tokenizer each of its lines,
    with its line end, is one, as in `tokenizers.Tokenizer.train`. A byte-order mark at its start is dropped.

    Args:
        corpus: A path, URL or glob pattern (plain text, `.jsonl`, `.parquet`; also `.gz`, `.xz`, `.zst`), an
            iterable of `pathlib.Path` or of fsspec's files (`fsspec.open_files(…)`), a `datasets.Dataset` or
            `IterableDataset`, or an iterable of str or of batches of str. In an iterable a str is a document,
            never a path.
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
        part: Count only this part of the corpus, which must be of files: (3, 64) or "3/64" is the fourth of
            64, numbered from 0. Each has as many bytes on disk: large plain-text and JSON Lines files are
            divided where no pre-token changes, other files are in the part where they begin. `merge_counts`
            and `PreTokenCounts.merge` make the table of the corpus from those of all parts, whoever counted
            them; the corpus counts as the same if the names and sizes of its files are.
        output: The Parquet file to write the table to, as `PreTokenCounts.save` would: a path or URL.
        max_memory: Bytes, or a string such as "4G", that the process takes; 512M at least. What is counted
            then goes to the disk whenever it has become that large, beside the output or, if that is a URL,
            into the system's temporary folder, and is added up at the end: the output has the same bytes.
            Processes come on top. None: no limit.
        show_progress: True for a bar; or a function called in this thread as f(bytes_read, bytes_total):
            bytes on disk, and None for the total if the corpus has no known size.
    Returns:
        PreTokenCounts, never empty unless it is of a part. With an output, how large the table is.
    Raises:
        CorpusError: the corpus is empty or all whitespace, or a file or document can't be read; names it and
            the place.
        ConfigurationError: an unknown preset, or a package that is not installed.
        CountOverflowError: a count is beyond 2**63 - 1.
        OSError: the output, or what goes to the disk, can't be written.
    Cost: memory O(distinct pre-tokens * num_workers), or max_memory, whatever the size of the corpus; a long
        document that can't be cut is held whole. Native code releases the GIL.
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
    if max_memory is not None and output is None:
        raise ConfigurationError("max_memory takes an output: a table in memory may be of any size")
    n_bytes = None if max_memory is None else memory_for_rows(max_memory)
    if output is not None:
        require_writable_place(place(output))
    chosen = None if part is None else Part.checked(part)
    parts: tuple[Parts, ...] = ()
    if chosen is not None:
        corpus = files_of(corpus)
        parts = _parts_of(corpus, chosen, cutter, text_field, max_pretoken_length)
    with progress_shown(show_progress, "Counting", "B") as report:
        documents = iter_documents(corpus, text_field=text_field, cut=cut, part=chosen, progress=report)
        if splitting is not None:
            tables = count_in_threads(documents, splitting, num_workers, n_bytes)
        else:
            tables = count_in_processes(documents, cutter, num_workers, n_bytes)
        tables = _checked(tables, max_pretoken_length, None if parts else describe_corpus(corpus))
        if output is not None and n_bytes is not None:
            in_arrow = ([arrow_table(rows)] for rows in tables)
            return write_sum(in_arrow, place(output), cutter, parts, n_bytes=n_bytes)
        (rows,) = tables
    counts = PreTokenCounts(*rows, cutter, parts)
    return counts if output is None else save_table(counts, output)


def _checked(tables: Iterator[Rows], max_length: int | None, corpus: str | None) -> Iterator[Rows]:
    """Tables without pre-tokens of more than max_length bytes; warns if there were any.

    Args:
        corpus: What to call it; None if it may be empty.
    Raises:
        CorpusError: at the end; the corpus is empty, or all white space.
    """
    n_left_out, n_rows, all_blank = 0, 0, True
    for rows in tables:
        if max_length is not None:
            rows, n = without_longer(rows, max_length)
            n_left_out += n
        n_rows += len(rows[2])
        all_blank = all_blank and is_blank(rows)
        yield rows
    if n_left_out:
        warn(left_out(n_left_out, max_length))
    if corpus is not None and all_blank:
        what = "it is all whitespace" if n_rows else "it gave no pre-tokens"
        raise CorpusError(f"nothing to count in {corpus}: {what}")


def _parts_of(
    paths: Sequence[Place], part: Part, cutter: PreTokenizer, text_field: str, max_pretoken_length: int | None
) -> tuple[Parts, ...]:
    """What the table of a part says of it; nothing if the part is all."""
    settings = {
        "pre_tokenizer": cutter.to_json(),
        "text_field": text_field,
        "max_pretoken_length": max_pretoken_length,
    }
    found = Parts(corpus_digest(paths, settings), part.of, (part.number,))
    return join_parts([("", [found])])
