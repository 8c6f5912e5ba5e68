"""How any tokenizer encodes a text: by its distinct pre-tokens where it can, else the text itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from hf_scaffold._utils.arguments import shortened
from hf_scaffold._utils.process import n_cpus
from hf_scaffold.counting.counts import PreTokenCounts
from hf_scaffold.errors import ConfigurationError
from hf_scaffold.text.byte_level import bytes_to_symbols
from hf_scaffold.text.corpus import batches
from hf_scaffold.text.pre_tokenizers import PreTokenizer
from hf_scaffold.tokenizer.building import artifact_of
from hf_scaffold.tokenizer.loading import require_ids
from hf_scaffold.training.agreement import Agreement, measure
from hf_scaffold.training.artifact import ScaffoldBPE

EncodeTexts = Callable[[list[str]], Iterable[Sequence[int]]]
Frequencies = NDArray[np.int64]

_MAX_IDS = 1 << 24  # of a tokenizer whose vocabulary isn't known; frequencies are a table by id
_BATCH_SIZE = 1 << 22  # characters; enough for the threads of a backend


class Encoder:
    """A tokenizer that encodes texts and doesn't say how it cuts them."""

    def __init__(self, name: str, tokens: Sequence[str], encode_texts: EncodeTexts) -> None:
        self.name = name
        self.tokens = tuple(tokens)
        self.encode_texts = encode_texts

    def named_tokens(self, n_ids: int) -> tuple[str, ...]:
        """The vocabulary, of at least so many tokens."""
        if self.tokens and n_ids > len(self.tokens):
            raise ConfigurationError(
                f"{self.name} gave the id {n_ids - 1}, but its vocabulary has {len(self.tokens)} tokens"
            )
        return self.tokens or tuple(map(str, range(n_ids)))


class ArtifactEncoder:
    """A Scaffold-BPE, which encodes each pre-token by itself, so that a text's counts are enough."""

    def __init__(self, name: str, tokens: Sequence[str], bpe: ScaffoldBPE) -> None:
        self.name, self.tokens, self.bpe = name, tuple(tokens), bpe

    def cuts_as(self, pre_tokenizer: PreTokenizer) -> bool:
        """Whether it encodes the pre-tokens that this makes."""
        return pre_tokenizer == self.bpe.pre_tokenizer

    def encode_pretokens(self, counts: PreTokenCounts) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Ids of all pre-tokens, one after another, and n + 1 offsets."""
        return self.bpe.pretoken_encoder.encode(counts.data, counts.offsets)

    def encode_texts(self, texts: list[str]) -> Iterator[NDArray[np.int32]]:
        """Ids of texts, in which no special token is looked for."""
        ids, ends = self._whole.encode_batch_to_arrays(texts, disallowed_special=())
        return (ids[begin:end] for begin, end in pairwise(ends.tolist()))

    @cached_property
    def _whole(self) -> Any:
        return self.bpe.encoder()

    def named_tokens(self, n_ids: int) -> tuple[str, ...]:
        return self.tokens

    def agreement(self, counts: PreTokenCounts) -> Agreement | None:
        return measure(self.bpe, counts)


class BackendEncoder(Encoder):
    """A `tokenizers.Tokenizer`, whose model sees one pre-token at a time, whatever it is."""

    def __init__(self, name: str, backend: Tokenizer) -> None:
        from hf_scaffold.tokenization_scaffold import AddedTokens, with_model

        require_ids(backend, name)
        unlimited = with_model(backend.model, backend, AddedTokens.of(backend))

        def encode_texts(texts: list[str]) -> Iterator[list[int]]:
            return (encoding.ids for encoding in unlimited.encode_batch_fast(texts, add_special_tokens=False))

        super().__init__(name, tokens_by_id(backend.get_vocab(with_added_tokens=True)), encode_texts)
        self.model = Tokenizer(backend.model)
        self.pre_tokenizers = _pre_tokenizers_of(backend)

    def cuts_as(self, pre_tokenizer: PreTokenizer) -> bool:
        return pre_tokenizer in self.pre_tokenizers

    def pre_tokenizer_for(self, is_counted: Callable[[PreTokenizer], bool]) -> PreTokenizer | None:
        """What to count a text by, if that is quicker than encoding it.

        Args:
            is_counted: Whether the counts are at hand.
        """
        return next((p for p in self.pre_tokenizers if p.preset is not None or is_counted(p)), None)

    def encode_pretokens(self, counts: PreTokenCounts) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        write = bytes.decode if counts.pre_tokenizer.alphabet == "chars" else bytes_to_symbols
        encodings = self.model.encode_batch_fast([*map(write, counts)], add_special_tokens=False)
        rows = [encoding.ids for encoding in encodings]
        ends = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        return np.fromiter(chain.from_iterable(rows), np.int32, ends[-1]), ends

    def agreement(self, counts: PreTokenCounts) -> Agreement | None:
        return None


CountsEncoder = ArtifactEncoder | BackendEncoder


def _pre_tokenizers_of(backend: Tokenizer) -> list[PreTokenizer]:
    """All that make the pre-tokens the model sees; none for a pre-tokenizer written in Python."""
    try:
        characters = PreTokenizer(backend.normalizer, backend.pre_tokenizer, "chars")
    except ConfigurationError:
        return []
    if not characters.writes_bytes:
        return [characters]
    return [PreTokenizer(backend.normalizer, backend.pre_tokenizer), characters]


def encoder_of(tokenizer: Any, tokens: Sequence[str] | None) -> Encoder | ArtifactEncoder:
    name = str(getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__)
    if isinstance(tokenizer, ScaffoldBPE):
        return ArtifactEncoder(name, tokenizer.tokens, tokenizer)
    if isinstance(tokenizer, Tokenizer):
        return BackendEncoder(name, tokenizer)
    if _is_from_transformers(tokenizer):
        return _encoder_from_transformers(name, tokenizer)
    if type(tokenizer).__name__ == "SentencePieceProcessor":
        pieces = tokenizer.id_to_piece([*range(tokenizer.get_piece_size())])
        return Encoder(name, pieces, lambda texts: tokenizer.encode(texts, num_threads=n_cpus()))
    if not callable(tokenizer):
        raise ConfigurationError(
            f"can't evaluate {shortened(tokenizer)}; give a ScaffoldBPE, a tokenizer of "
            "transformers or tokenizers, or a callable that takes a text and returns its ids; "
            "hs.load_tokenizer reads one from a file, a folder or the Hub"
        )
    return Encoder(getattr(tokenizer, "__name__", name), tokens or (), lambda texts: map(tokenizer, texts))


def _is_from_transformers(tokenizer: object) -> bool:
    return any(kind.__name__ == "PreTrainedTokenizerBase" for kind in type(tokenizer).__mro__)


def _encoder_from_transformers(name: str, tokenizer: Any) -> Encoder | ArtifactEncoder:
    from transformers import PreTrainedTokenizerFast

    from hf_scaffold.tokenization_scaffold import is_scaffold

    if is_scaffold(tokenizer):
        return ArtifactEncoder(name, tokens_by_id(tokenizer.get_vocab()), artifact_of(tokenizer))
    if isinstance(tokenizer, PreTrainedTokenizerFast):
        return BackendEncoder(name, tokenizer.backend_tokenizer)

    def encode_texts(texts: list[str]) -> list[list[int]]:
        rows: list[list[int]] = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
        return rows

    vocab = tokenizer.get_vocab()
    if max(vocab.values(), default=0) >= max(_MAX_IDS, 16 * len(vocab)):
        raise ConfigurationError(f"{name} has {len(vocab):,} tokens, but the id {max(vocab.values())}")
    return Encoder(name, tokens_by_id(vocab), encode_texts)


def tokens_by_id(vocab: Mapping[str, int]) -> list[str]:
    """A vocabulary by id; an id without a token is "".

    Example:
        >>> tokens_by_id({"b": 2, "a": 0})
        ['a', '', 'b']
    """
    tokens = [""] * (max(vocab.values(), default=-1) + 1)
    for token, token_id in vocab.items():
        tokens[token_id] = token
    return tokens


def weighted(
    ids: NDArray[np.int32], ends: NDArray[np.int64], counts: PreTokenCounts, size: int
) -> Frequencies:
    """Occurrences of each id in counted pre-tokens; exact, as int64 all the way."""
    frequencies = np.zeros(size, np.int64)
    np.add.at(frequencies, ids, np.repeat(counts.counts, np.diff(ends)))
    return frequencies


def occurrences(encode: EncodeTexts, texts: Iterable[str], size: int) -> Frequencies:
    """Occurrences of each id in texts, for as many ids as there are, but at least `size`."""
    frequencies = np.zeros(size, np.int64)
    for batch in batches(texts, _BATCH_SIZE):
        ids = np.fromiter(chain.from_iterable(encode(batch)), np.int64)
        _require_possible(ids, size)
        found = np.bincount(ids, minlength=len(frequencies))
        found[: len(frequencies)] += frequencies
        frequencies = found
    return frequencies


def encoded(
    encoder: Encoder | ArtifactEncoder, texts: Iterable[str]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Ids of texts, one after another, and n + 1 offsets."""
    rows = [np.empty(0, np.int32)]
    for batch in batches(texts, _BATCH_SIZE):
        for row in encoder.encode_texts(batch):
            ids = np.asarray(row, np.int64)
            _require_possible(ids, len(encoder.tokens))
            rows.append(ids.astype(np.int32))
    return np.concatenate(rows), np.cumsum([0, *map(len, rows[1:])], dtype=np.int64)


def _require_possible(ids: NDArray[np.int64], size: int) -> None:
    if len(ids) and not 0 <= ids.min() <= ids.max() < max(size, _MAX_IDS):
        raise ConfigurationError(f"there is an id from {ids.min()} to {ids.max()}; no vocabulary is so large")
