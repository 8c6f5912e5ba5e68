"""Steps of datatrove's pipelines: counting, merging counts, and `DocumentTokenizer` with exact ids."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hf_scaffold._core.text_encoder import framed
from hf_scaffold._utils.files import saving
from hf_scaffold.engine.encoder import Encoder
from hf_scaffold.errors import ConfigurationError, CorpusError
from hf_scaffold.scale.arrow import (
    LEFT_OUT,
    Counting,
    Tally,
    folder_of,
    path_of,
    read_encoder,
    splits_special_tokens,
)
from hf_scaffold.tables.files import TableFile
from hf_scaffold.tables.merging import merge_counts, write_table
from hf_scaffold.tables.parts import Parts, join_parts, some_missing
from hf_scaffold.tables.rows import left_out
from hf_scaffold.text.files import encode, import_extra
from hf_scaffold.text.pre_tokenizers import PreTokenizer
from hf_scaffold.text.presets import MAX_PRETOKEN_LENGTH

import_extra("datatrove", "datatrove")  # says how to install it

from datatrove.io import DataFolderLike, get_datafolder  # noqa: E402
from datatrove.pipeline.base import PipelineStep  # noqa: E402
from datatrove.pipeline.tokens.tokenizer import DocumentTokenizer, TokenizedFile  # noqa: E402
from datatrove.utils.batching import batched  # noqa: E402
from datatrove.utils.logging import logger  # noqa: E402
from datatrove.utils.stats import MetricStats  # noqa: E402

if TYPE_CHECKING:
    from datatrove.data import Document, DocumentsPipeline
    from numpy.typing import NDArray
    from tokenizers.normalizers import Normalizer

    from hf_scaffold.counting.counts import PreTokenizerLike

TABLE_NAME = "counts.parquet"
_BATCH = 1 << 20  # bytes of text counted at a time


class CountPretokens(PipelineStep):  # type: ignore[misc]  # datatrove is not there for mypy
    """Count the pre-tokens of the documents that pass, into a table a rank: `00000_counts.parquet` and so on.

    `MergeCounts`, in a pipeline of one task that depends on this one, makes one table of them. It knows which
    ranks there are, so that none is forgotten or counted twice. A rank that runs again writes its table anew.

    Args:
        output_folder: Where the tables go; any that datatrove can write to.
        save_filename: What the tables' names begin with.
        pre_tokenizer, normalizer, alphabet, max_pretoken_length: As for `hs.count`.
    Raises:
        CorpusError: a document has no text, or a lone surrogate in it; names its id.
        ConfigurationError: as `hs.count`.
    Cost: memory O(distinct pre-tokens of a rank).
    """

    name = "📊 Pre-tokens"
    type = "🔢 - TOKENIZER"

    def __init__(
        self,
        output_folder: DataFolderLike,
        save_filename: str | None = None,
        *,
        pre_tokenizer: PreTokenizerLike | None = None,
        normalizer: Normalizer | None = None,
        alphabet: str | None = None,
        max_pretoken_length: int | None = MAX_PRETOKEN_LENGTH,
    ) -> None:
        super().__init__()
        self.output_folder = get_datafolder(output_folder)
        self.save_filename = save_filename
        self.counting = Counting.of(pre_tokenizer, normalizer, alphabet, max_pretoken_length)

    def run(self, data: DocumentsPipeline, rank: int = 0, world_size: int = 1) -> DocumentsPipeline:
        """Count the documents, and hand them on."""
        tally = Tally(self.counting)
        waiting: list[bytes] = []
        n_bytes = 0
        for document in data or ():
            text = encode(document.text, "document", document.id)
            waiting.append(text)
            n_bytes += len(text)
            if n_bytes >= _BATCH:
                with self.track_time(unit="batch"):
                    tally.add(waiting)
                waiting, n_bytes = [], 0
            yield document
        tally.add(waiting)
        self._save(tally.take(), rank, world_size)

    def _save(self, table: Any, rank: int, world_size: int) -> None:
        if len(table) and table["pretoken"][0].as_py() == LEFT_OUT:
            n_left_out, table = table["count"][0].as_py(), table.slice(1)
            self.stat_update("pretokens_left_out", value=n_left_out, unit="task")
            logger.warning(left_out(n_left_out, self.counting.max_pretoken_length))
        place = self.output_folder.resolve_paths("")
        corpus = f"datatrove {hashlib.sha256(place.encode()).hexdigest()[:16]}"
        parts = [Parts(corpus, world_size, (rank,))] if world_size > 1 else []
        name = "_".join(filter(None, [self.save_filename, f"{rank:05d}", TABLE_NAME]))
        pre_tokenizer = PreTokenizer.from_json(self.counting.pre_tokenizer)
        with placed(self.output_folder, name) as path:
            size = write_table([table], path, pre_tokenizer, parts)
        self.stat_update("pretokens", value=size.n_pretokens, unit="task")
        self.stat_update("distinct_pretokens", value=size.n_distinct, unit="task")


class MergeCounts(PipelineStep):  # type: ignore[misc]
    """Add up the tables of `CountPretokens` into one: byte for byte that of the whole corpus.

    Args:
        input_folder: Where the ranks' tables are.
        output_folder: Where the result goes; None: the same.
        save_filename: The name of the result.
        max_memory: As for `hs.merge_counts`.
    Raises:
        ConfigurationError: the pipeline has more than one task; ranks have no table yet, or it is of another
            run, with another number of tasks or pre-tokenizer; names them.
        CorpusError: no document had a pre-token.
        CountOverflowError: a sum is beyond 2**63 - 1; names the pre-token.
    """

    name = "🗃 Pre-token merger"
    type = "🔢 - TOKENIZER"

    def __init__(
        self,
        input_folder: DataFolderLike,
        output_folder: DataFolderLike | None = None,
        save_filename: str = TABLE_NAME,
        *,
        max_memory: int | str = "1G",
    ) -> None:
        super().__init__()
        self.input_folder = get_datafolder(input_folder)
        self.output_folder = get_datafolder(output_folder or input_folder)
        self.save_filename = save_filename
        self.max_memory = max_memory

    def run(self, data: DocumentsPipeline = None, rank: int = 0, world_size: int = 1) -> DocumentsPipeline:
        """Merge the tables; documents pass."""
        if world_size != 1:
            raise ConfigurationError(f"merging is one task, not {world_size}: give its executor tasks=1")
        yield from data or ()
        names = self.input_folder.list_files(glob_pattern=f"*_{TABLE_NAME}", recursive=False)
        with tempfile.TemporaryDirectory() as folder, self.track_time(unit="merge"):
            paths = self._local(names, folder)
            self._check(paths)
            with placed(self.output_folder, self.save_filename) as path:
                size = merge_counts(paths, path, max_memory=self.max_memory)
        self.stat_update("pretokens", value=size.n_pretokens, unit="table")
        self.stat_update("distinct_pretokens", value=size.n_distinct, unit="table")

    def _local(self, names: Sequence[str], folder: str) -> list[Path]:
        if self.input_folder.is_local():
            return [*map(Path, self.input_folder.resolve_paths(names))]
        paths = [Path(folder, name) for name in names]
        for name, path in zip(names, paths, strict=True):
            self.input_folder.get_file(name, str(path))
        return paths

    def _check(self, paths: Sequence[Path]) -> None:
        place = self.input_folder.resolve_paths("")
        if not paths:
            raise ConfigurationError(f"{place} has no tables; run a pipeline with CountPretokens first")
        files = [TableFile(path) for path in paths]
        for parts in join_parts([(str(file.path), file.parts) for file in files]):
            some = some_missing(parts.numbers, parts.of)
            raise ConfigurationError(
                f"{place} has no tables of {parts.n_missing} of the {parts.of} ranks: {some}; run the "
                "pipeline that counts again: it takes up these alone"
            )
        if not any(file.n_rows for file in files):
            raise CorpusError(f"nothing to count: the tables in {place} are empty")


@contextmanager
def placed(folder: Any, name: str) -> Iterator[Path]:
    """Where to write a file that takes its place in one of datatrove's folders once it is complete."""
    if folder.is_local():
        target = Path(folder.resolve_paths(name))
        with saving(str(target.parent)) as staging:
            yield Path(staging, target.name)
    else:
        with tempfile.TemporaryDirectory() as local:
            yield Path(local, "file")
            folder.makedirs("", exist_ok=True)
            folder.put_file(os.path.join(local, "file"), name)


class _Encoded(NamedTuple):
    """As far as `DocumentTokenizer.get_loss_values` looks at an `Encoding`."""

    ids: NDArray[np.int32]
    offsets: Sequence[tuple[int, int]]

    def char_to_token(self, place: int) -> int | None:
        return next((i for i, (begin, end) in enumerate(self.offsets) if begin <= place < end), None)


class ScaffoldTokenizer(DocumentTokenizer):  # type: ignore[misc]
    """`DocumentTokenizer` with exact ids: the same arguments, files, order and shuffling.

    `DocumentTokenizer` reads a saved tokenizer's tokenizer.json alone, whose model is plain BPE: raw ids.

    Args:
        tokenizer_name_or_path: The folder of a saved tokenizer, or its tokenizer.json, which all machines
            must find under the same path; or a name on the Hub. Each task loads it once.
        eos_token: Added after each document, in place of what the tokenizer's template adds; None: as in the
            tokenizer's calls.
    Raises:
        CorpusError: a document has no text; names its id.
        ConfigurationError: the tokenizer has no such eos_token.
        FileNotFoundError, ArtifactError: there is no tokenizer, or a damaged one.
    """

    name = "✍️ Scaffold-BPE writer"

    def __init__(
        self, output_folder: DataFolderLike, tokenizer_name_or_path: str, *args: Any, **kwargs: Any
    ) -> None:
        path = path_of(tokenizer_name_or_path)
        if os.path.basename(path) == "tokenizer.json" and os.path.isfile(path):
            path = os.path.dirname(os.path.abspath(path))
        super().__init__(output_folder, path, *args, **kwargs)

    @cached_property
    def encoder(self) -> Encoder:
        """What gives the ids."""
        return read_encoder(self._folder)[0]

    @cached_property
    def _folder(self) -> str:
        return folder_of(self.tokenizer_name_or_path)

    @cached_property
    def token_size(self) -> int:
        """Bytes of an id."""
        return 4 if self.encoder.n_ids > 1 << 16 else 2

    @cached_property
    def _specials(self) -> dict[str, Any]:
        """How special tokens are read and added, as `Encoder` takes it."""
        splits = splits_special_tokens(self._folder)
        return {
            "add_special_tokens": not self.eos_token,
            "allowed_special": () if splits else "all",
            "disallowed_special": (),
        }

    @cached_property
    def _end(self) -> NDArray[np.int32]:
        """The ids that are added after each document."""
        if not self.eos_token:
            return np.array([], np.int32)
        eos = self.encoder.token_to_id(self.eos_token)
        if eos is None:
            raise ConfigurationError(
                f"the tokenizer {self.tokenizer_name_or_path} has no token {self.eos_token!r} for eos_token; "
                f"its special tokens are {', '.join(map(repr, self.encoder.special_tokens)) or 'none'}"
            )
        return np.array([eos], np.int32)

    def write_unshuffled(self, data: DocumentsPipeline, filename: str) -> TokenizedFile:
        """Write the ids of the documents, in their order."""
        shuffles = self.shuffle_documents or self.shuffle_chunk_size
        file = TokenizedFile(
            self.local_working_dir if shuffles and self.local_working_dir else self.output_folder,
            filename,
            save_index=self.save_index or shuffles,
            save_loss_metadata=self.save_loss_metadata,
            upload_block_size=self.upload_block_size,
            tokenizer_name_or_path=self.tokenizer_name_or_path,
            save_final_metadata=self.save_final_metadata,
            token_size=self.token_size,
        )
        dtype = np.dtype(f"<u{self.token_size}")
        for batch in batched(data or (), self.batch_size):
            with self.track_time(unit="batch"):
                if self.save_loss_metadata:
                    ids, ends = self._with_losses(batch, file)
                else:
                    ids, ends = self._encode(batch)
                file.write_bytes(ids.astype(dtype).tobytes(), ends[1:].tolist())
            self.stats["tokens"] += statistics_of(np.diff(ends))
        file.close()
        return file

    def _encode(self, batch: Sequence[Document]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        texts = [text_of(document) for document in batch]
        # Those of Slurm and Ray say how many processors a task has.
        n_cpus = int(os.environ.get("DATATROVE_CPUS_PER_TASK", "-1"))
        threads = n_cpus if n_cpus > 0 else None
        ids, ends = self.encoder.encode_batch_to_arrays(texts, num_threads=threads, **self._specials)
        return framed(ids, ends, np.array([], np.int32), self._end) if len(self._end) else (ids, ends)

    def _with_losses(
        self, batch: Sequence[Document], file: TokenizedFile
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """As `_encode`, with the losses written. Ids at a document's end that have none are cut off."""
        rows = []
        for document in batch:
            found = self.encoder.encode_with_offsets(text_of(document), **self._specials)
            end = len(document.text)
            ids = np.array([*found.ids, *self._end], np.int32)
            offsets = [*found.offsets, *[(end, end)] * len(self._end)]
            losses = self.get_loss_values(document, _Encoded(ids, offsets))
            file.write_loss_bytes(np.asarray(losses).astype(bool).tobytes())
            rows.append(ids[: len(losses)])
        return np.concatenate(rows), np.cumsum([0, *map(len, rows)], dtype=np.int64)


def statistics_of(values: NDArray[np.int64]) -> MetricStats:
    """What `stat_update` makes of values one by one, which costs some µs each."""
    return MetricStats.from_dict(
        {
            "total": int(values.sum()),
            "n": len(values),
            "mean": float(values.mean()),
            "variance": float(values.var(ddof=1)) if len(values) > 1 else 0.0,
            "min": int(values.min()),
            "max": int(values.max()),
        }
    )


def text_of(document: Document) -> str:
    """Raises CorpusError, with the document's id, if it has none."""
    text = document.text
    if not isinstance(text, str):
        raise CorpusError(f"document {document.id!r} has no text, but {type(text).__name__}")
    return text
