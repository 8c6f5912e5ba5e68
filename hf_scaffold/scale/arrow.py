"""What workers of any engine do with text in Arrow: count it, or encode it."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from hf_scaffold._core.counter import PretokenCounter
from hf_scaffold._utils.arguments import flag, shortened, string, strings, whole
from hf_scaffold._utils.files import read_bytes, read_unmixed, refuse_missing_folder
from hf_scaffold.counting.workers import count_texts, splitting_for
from hf_scaffold.engine.encoder import FILES, Encoder
from hf_scaffold.errors import ArtifactError, ConfigurationError, CorpusError
from hf_scaffold.splitting.entries import Splitting
from hf_scaffold.tables.files import arrow_table, columns
from hf_scaffold.tables.rows import rows_of, without_longer
from hf_scaffold.text.files import import_extra, listed
from hf_scaffold.text.pre_tokenizers import PreTokenizer, get_pre_tokenizer
from hf_scaffold.text.texts import column_utf8

if TYPE_CHECKING:
    from hf_scaffold.counting.counts import PreTokenizerLike

# A worker hands on what it counted once it has so many distinct pre-tokens, or bytes of text.
_MOST_DISTINCT = 1 << 20
_MOST_BYTES = 1 << 30
_ROWS = 1 << 16  # handed on at a time

_CONFIG = "tokenizer_config.json"

# The pre-token that no text has: its count is that of the pre-tokens that were left out.
LEFT_OUT = b""


# ---- counting, in workers


class Counting(NamedTuple):
    """How text is counted: what travels to the workers.

    Args:
        pre_tokenizer: As JSON.
        max_pretoken_length: Bytes, or None.
    """

    pre_tokenizer: str
    max_pretoken_length: int | None

    @classmethod
    def of(
        cls,
        pre_tokenizer: PreTokenizerLike | None,
        normalizer: Any,
        alphabet: str | None,
        max_pretoken_length: Any,
    ) -> Counting:
        """Of the arguments of `hs.count`; raises what that raises."""
        if max_pretoken_length is not None:
            max_pretoken_length = whole(
                "max_pretoken_length", max_pretoken_length, 1, reason="None keeps all"
            )
        return cls(get_pre_tokenizer(pre_tokenizer, normalizer, alphabet).to_json(), max_pretoken_length)


class Tally:
    """Counts the texts that it is given, until the rows are taken from it.

    Example:
        >>> tally = Tally(Counting.of("gpt2", None, None, 4))
        >>> tally.add([b"the cats", b"the dog"])
        >>> tally.take().to_pylist()
        [{'pretoken': b'', 'count': 1}, {'pretoken': b' dog', 'count': 1}, {'pretoken': b'the', 'count': 2}]
    """

    def __init__(self, counting: Counting) -> None:
        self._counting = counting
        self._splitting = _splitting(counting.pre_tokenizer)
        self._start()

    def _start(self) -> None:
        self._native = None if self._splitting is None else PretokenCounter(self._splitting)
        self._general: Counter[bytes] = Counter()
        self._n_bytes = 0

    def add(self, texts: Sequence[bytes]) -> None:
        """Count texts.

        Raises:
            UnicodeDecodeError: one is not UTF-8; then none was counted.
        """
        if self._native is not None:
            self._native.add(texts)
        else:
            self._general.update(count_texts(self._counting.pre_tokenizer, [*texts]))
        self._n_bytes += sum(map(len, texts))

    def add_column(self, texts: Any) -> None:
        """Count the texts in an Arrow array of strings or binary without nulls, of which no object is made.

        Raises:
            UnicodeDecodeError: as `add`.
        """
        if self._native is None:
            self.add(texts.cast("large_binary").to_pylist())
            return
        utf8, bounds = column_utf8(texts)
        self._native.add_utf8(utf8, bounds)
        self._n_bytes += int(bounds[-1] - bounds[0])

    @property
    def is_full(self) -> bool:
        n_distinct = len(self._general) if self._native is None else len(self._native)
        return n_distinct >= _MOST_DISTINCT or self._n_bytes >= _MOST_BYTES

    def take(self) -> Any:
        """The rows as an Arrow table, sorted, `LEFT_OUT` among them; they are then no longer here."""
        rows = rows_of(self._general) if self._native is None else self._native.table()
        self._start()
        n_left_out = 0
        if self._counting.max_pretoken_length is not None:
            rows, n_left_out = without_longer(rows, self._counting.max_pretoken_length)
        table = arrow_table(rows)
        if not n_left_out:
            return table
        pyarrow = import_extra("pyarrow", "parquet")
        first = pyarrow.table([[LEFT_OUT], [min(n_left_out, 2**63 - 1)]], schema=pyarrow.schema(columns()))
        return pyarrow.concat_tables([first, table])


@lru_cache(maxsize=1)  # once a process
def _splitting(pre_tokenizer: str) -> Splitting | None:
    return splitting_for(PreTokenizer.from_json(pre_tokenizer))


def count_batches(batches: Iterable[Any], column: str, counting: Counting) -> Iterator[Any]:
    """The counts of the texts of all batches, as Arrow tables. A pre-token may come again, in a later one.

    Args:
        batches: Arrow tables or record batches.
        column: That of the text.
    Raises:
        CorpusError: a batch has no such column, or something else than text in it.
    """
    tally = Tally(counting)
    for batch in batches:
        texts = column_of(batch, column)
        try:
            for chunk in getattr(texts, "chunks", [texts]):
                tally.add_column(chunk)
        except UnicodeDecodeError as error:
            raise _not_utf8(column, error) from None
        if tally.is_full:
            yield from _sliced(tally.take())
    yield from _sliced(tally.take())


def _sliced(table: Any) -> Iterator[Any]:
    return (table.slice(first, _ROWS) for first in range(0, len(table), _ROWS))


# ---- columns of text


def column_of(batch: Any, column: str) -> Any:
    """The texts of a batch, as an Arrow column without nulls.

    Raises:
        CorpusError: there is no such column, or something else than text in it; says what next.
    """
    refuse_missing(column, batch.schema.names)
    texts = batch.column(column)
    if texts.null_count:
        raise CorpusError(
            f"column {column!r} is null in {texts.null_count} of {len(texts)} rows of a batch; "
            "first drop these rows, or fill them with ''"
        )
    if not is_text(texts.type):
        raise CorpusError(
            f"column {column!r} holds {texts.type}, not text: strings, or UTF-8 as binary; "
            "name another one with column=, or cast it"
        )
    return texts


def refuse_missing(column: str, names: Sequence[str]) -> None:
    """Raise a CorpusError if no column has that name."""
    if column not in names:
        raise CorpusError(f"there is no column {column!r}, but {listed(names)}; name one with column=")


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is that of strings or bytes."""
    pyarrow = import_extra("pyarrow", "parquet")
    return kind in (pyarrow.string(), pyarrow.large_string(), pyarrow.binary(), pyarrow.large_binary())


def _not_utf8(column: str, error: UnicodeDecodeError) -> CorpusError:
    begin = max(error.start - 10, 0)
    return CorpusError(
        f"column {column!r} has a row that is not UTF-8, at byte {error.start}, after "
        f"{bytes(error.object[begin : error.start])!r}: {error.reason}; decode it first"
    )


# ---- ids, in workers


class Encoding(NamedTuple):
    """How text is encoded: what travels to the workers, where a path stands for the tokenizer.

    Args:
        tokenizer: A folder, or a name on the Hub.
        digest: What tells whether that is the same tokenizer on all machines.
        column, output_column: Of the text, and of the ids.
        remove_columns: Those that the result lacks.
        add_special_tokens, split_special_tokens: As in a tokenizer's calls.
        num_threads: Of a worker.
    """

    tokenizer: str
    digest: str
    column: str
    output_column: str
    remove_columns: tuple[str, ...]
    add_special_tokens: bool
    split_special_tokens: bool
    num_threads: int

    @classmethod
    def of(
        cls,
        tokenizer: Any,
        column: Any,
        output_column: Any,
        remove_columns: Any,
        add_special_tokens: Any,
        split_special_tokens: Any,
        num_threads: int = 1,
    ) -> Encoding:
        """Of the arguments of `tokenize`, checked.

        Raises:
            TypeError: an argument is of another type; a tokenizer itself is one.
            FileNotFoundError, ArtifactError: there is no tokenizer, or a damaged one.
        """
        tokenizer = path_of(tokenizer)
        folder = folder_of(tokenizer)
        _, digest = read_encoder(folder)
        if split_special_tokens is None:
            split_special_tokens = splits_special_tokens(folder)
        return cls(
            tokenizer,
            digest,
            string("column", column),
            string("output_column", output_column),
            tuple(strings("remove_columns", remove_columns)),
            flag("add_special_tokens", add_special_tokens),
            flag("split_special_tokens", split_special_tokens),
            num_threads,
        )

    def names(self, names: Sequence[str]) -> list[str]:
        """The names of the result's columns.

        Args:
            names: Those of the columns that there are.
        Raises:
            CorpusError: one is named that is not there.
            ConfigurationError: there is a column of the ids' name already.
        """
        for name in (self.column, *self.remove_columns):
            if name not in names:
                raise CorpusError(f"there is no column {name!r}, but {listed(names)}")
        kept = [name for name in names if name not in self.remove_columns]
        if self.output_column in kept:
            raise ConfigurationError(
                f"there is a column {self.output_column!r} already; name another one with output_column=, or "
                "remove it with remove_columns="
            )
        return [*kept, self.output_column]


def path_of(tokenizer: Any) -> str:
    """The folder or name that travels.

    Raises:
        TypeError: it is something else, such as a tokenizer.
    """
    if not isinstance(tokenizer, str | os.PathLike):
        raise TypeError(
            f"tokenizer must be the folder of a saved tokenizer, or a name on the Hub, not "
            f"{shortened(tokenizer)}: workers load it from there. Save it first: "
            "tokenizer.save_pretrained(folder)"
        )
    path = os.fspath(tokenizer)
    return os.path.abspath(path) if os.path.isdir(path) else path


def folder_of(tokenizer: str) -> str:
    """The folder on this machine that has the files of a tokenizer.

    Raises:
        FileNotFoundError: it is a path, and there is no such folder.
        OSError: the Hub can't be reached, or has no such tokenizer.
    """
    refuse_missing_folder(tokenizer)
    if os.path.isdir(tokenizer):
        return tokenizer
    from huggingface_hub import snapshot_download

    return str(snapshot_download(tokenizer, allow_patterns=[*FILES, _CONFIG]))


def splits_special_tokens(folder: str) -> bool:
    """Whether a saved tokenizer reads special tokens in text as text: its `split_special_tokens`."""
    path = os.path.join(folder, _CONFIG)
    if not os.path.exists(path):
        return False
    with open(path, encoding="utf-8") as stream:
        return bool(json.load(stream).get("split_special_tokens"))


def read_encoder(folder: str) -> tuple[Encoder, str]:
    """The encoder of a saved tokenizer, and what tells whether another folder has the same."""
    paths = [os.path.join(folder, name) for name in FILES]
    contents = read_unmixed(folder, FILES, lambda: [*map(read_bytes, paths)])
    digest = hashlib.sha256()
    for content in contents:
        digest.update(b"%d " % len(content) + content)
    try:
        return Encoder(*contents), digest.hexdigest()
    except ArtifactError as error:
        raise ArtifactError(f"{folder}: {error}") from error


@lru_cache(maxsize=4)
def load(tokenizer: str, digest: str) -> Encoder:
    """The encoder of a tokenizer, loaded once a process.

    Raises:
        ConfigurationError: it is not there, or another one than where the work was handed out.
    """
    host = socket.gethostname()
    try:
        encoder, found = read_encoder(folder_of(tokenizer))
    except OSError as error:
        raise ConfigurationError(
            f"{host} has no tokenizer {tokenizer}: {error}. Save it where all machines of the cluster find "
            "it under the same path, or push it to the Hub"
        ) from error
    if found != digest:
        raise ConfigurationError(
            f"the tokenizer {tokenizer} on {host} is not the one that the driver found there; save it where "
            "all machines of the cluster read the same files, and start anew"
        )
    return encoder


def encode_batch(batch: Any, encoding: Encoding) -> Any:
    """An Arrow table with a column of ids besides, lists of int32; they are those of the tokenizer's calls.

    Raises:
        CorpusError: there is no such column, or something else than text in it.
    """
    texts = column_of(batch, encoding.column)
    names = encoding.names(batch.schema.names)
    encoder = load(encoding.tokenizer, encoding.digest)
    try:
        ids = encoder.encode_to_arrow(
            texts,
            add_special_tokens=encoding.add_special_tokens,
            allowed_special=() if encoding.split_special_tokens else "all",
            disallowed_special=(),
            num_threads=encoding.num_threads,
        )
    except UnicodeDecodeError as error:
        raise _not_utf8(encoding.column, error) from None
    return batch.select(names[:-1]).append_column(names[-1], ids)
