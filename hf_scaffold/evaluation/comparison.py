"""What Scaffold-BPE changes: which tokens leave the vocabulary and which come in, and which stand alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hf_scaffold._utils.arguments import knows_its_arguments, strings
from hf_scaffold._utils.provided import provided
from hf_scaffold.counting.counts import PreTokenCounts
from hf_scaffold.errors import ConfigurationError
from hf_scaffold.evaluation.adapters import ArtifactEncoder, Frequencies, encoder_of, weighted
from hf_scaffold.evaluation.metrics import Evaluation, EvaluationText, evaluate
from hf_scaffold.text.byte_level import symbols_to_bytes
from hf_scaffold.text.corpus import Corpus
from hf_scaffold.training.artifact import ScaffoldBPE


@dataclass(frozen=True, eq=False)
class VocabularyChange:
    """The tokens that leave a vocabulary and those that come in for them, with how often they occur.

    Args:
        removed: Tokens of the first vocabulary alone, the most frequent first.
        added: Tokens of the second vocabulary alone, the most frequent first.
        removed_frequencies: Occurrences of each of `removed` in the text as the first tokenizer encodes it.
        added_frequencies: Occurrences of each of `added` in the text as the second one does.
    """

    removed: tuple[str, ...]
    added: tuple[str, ...]
    removed_frequencies: Frequencies
    added_frequencies: Frequencies

    @property
    def mean_removed(self) -> float:
        """Mean occurrences of the removed tokens; 0 if there are none."""
        return _mean(self.removed_frequencies)

    @property
    def mean_added(self) -> float:
        """Mean occurrences of the added tokens; 0 if there are none."""
        return _mean(self.added_frequencies)

    @property
    def gain(self) -> float | None:
        """mean_added / mean_removed - 1, or None if mean_removed is 0.

        Source: Lian et al. 2024, Figure 5: 0.7640, 0.6858 and 0.5899 at 32K, 64K and 128K on the Pile.
        """
        return self.mean_added / self.mean_removed - 1 if self.mean_removed else None

    def to_dict(self) -> dict[str, Any]:
        """For JSON; `removed` and `added` as token to frequency."""
        return {
            "mean_removed": self.mean_removed,
            "mean_added": self.mean_added,
            "gain": self.gain,
            "removed": dict(zip(self.removed, self.removed_frequencies.tolist(), strict=True)),
            "added": dict(zip(self.added, self.added_frequencies.tolist(), strict=True)),
        }

    def _repr_html_(self) -> str:
        found: str = provided("VocabularyChange._repr_html_")(self)
        return found


@knows_its_arguments
def compare_vocabularies(
    plain: Any, scaffold: Any, text: Corpus | EvaluationText | PreTokenCounts | None = None
) -> VocabularyChange:
    """Tell the vocabularies of two tokenizers of the same spelling apart.

    Args:
        plain, scaffold: An `Evaluation` each, on the same text; or what `evaluate` takes.
        text: As for `evaluate`; not needed for evaluations.
    Raises:
        ConfigurationError: the evaluations are of texts of different sizes, or a text is missing.
    Example:
        >>> import hf_scaffold as hs
        >>> counts = hs.PreTokenCounts.from_mapping({b"hug": 10, b"pug": 5, b"hugs": 5, b"on": 7})
        >>> plain = hs.train(counts, vocab_size=258, scaffold=False)
        >>> change = compare_vocabularies(plain, hs.train(counts, vocab_size=258), counts)
        >>> change.removed, change.mean_removed, change.added, change.mean_added
        (('ug',), 5.0, ('on',), 7.0)
        >>> round(change.gain, 6)
        0.4
    """
    first, second = (_as_evaluation(tokenizer, text) for tokenizer in (plain, scaffold))
    if first.n_bytes != second.n_bytes:
        raise ConfigurationError(
            f"{first.name} was evaluated on {first.n_bytes} bytes, {second.name} on {second.n_bytes}; "
            "evaluate both on the same text"
        )
    removed, removed_frequencies = _only_in(first, second)
    added, added_frequencies = _only_in(second, first)
    return VocabularyChange(removed, added, removed_frequencies, added_frequencies)


def _as_evaluation(tokenizer: Any, text: Corpus | EvaluationText | PreTokenCounts | None) -> Evaluation:
    if isinstance(tokenizer, Evaluation):
        return tokenizer
    if text is None:
        raise ConfigurationError("to compare tokenizers, rather than their evaluations, give a text")
    return evaluate(tokenizer, text)


def _only_in(evaluation: Evaluation, other: Evaluation) -> tuple[tuple[str, ...], Frequencies]:
    others = set(other.tokens)
    ids = np.array([i for i, token in enumerate(evaluation.tokens) if token not in others], np.int64)
    ids = ids[np.argsort(-evaluation.token_frequencies[ids], kind="stable")]
    return tuple(evaluation.tokens[i] for i in ids.tolist()), evaluation.token_frequencies[ids]


def _mean(frequencies: Frequencies) -> float:
    return int(sum(frequencies.tolist())) / max(1, len(frequencies))


@dataclass(frozen=True)
class Standalone:
    """How often a token's bytes occur in a text, and how often as a token of their own.

    Args:
        token: As the vocabulary spells it.
        alone: Occurrences as a token.
        occurrences: Places inside pre-tokens where its bytes stand; they may overlap.
    """

    token: str
    alone: int
    occurrences: int

    @property
    def share(self) -> float:
        """alone / occurrences; 0 if there are none. Low for a token that only helps to build others."""
        return self.alone / self.occurrences if self.occurrences else 0.0


@knows_its_arguments
def standalone_share(tokenizer: Any, counts: PreTokenCounts, tokens: Iterable[str]) -> list[Standalone]:
    """For each token, the share of its bytes' occurrences in which it is a token of its own.

    A scaffold token is alone where the first step of encoding leaves it and demolishing replaces it, so that
    "zona" can be compared between plain BPE and Scaffold-BPE.

    Args:
        tokenizer: A `ScaffoldBPE`, plain or not, or a `ScaffoldTokenizerFast`.
        counts: Of the text, cut as the tokenizer cuts it.
        tokens: Normal or scaffold tokens, as the vocabulary spells them.
    Returns:
        One row a token, in the order given.
    Raises:
        ConfigurationError: a token is not in the vocabulary or a special one, or the counts are of another
            pre-tokenizer.
    Cost: a few milliseconds a token at 200,000 distinct pre-tokens.
    Example:
        >>> import hf_scaffold as hs
        >>> counts = hs.PreTokenCounts.from_mapping({b"hug": 10, b"pug": 5, b"hugs": 5})
        >>> bpe = hs.train(counts, vocab_size=258)
        >>> [row] = standalone_share(bpe, counts, ["ug"])
        >>> row.alone, row.occurrences, row.share
        (5, 20, 0.25)

    Source: Lian et al. 2024, Figure 1: "zona", as in "Arizona", against "ing".
    """
    encoder = encoder_of(tokenizer, None)
    if not isinstance(encoder, ArtifactEncoder):
        raise ConfigurationError(
            f"{encoder.name} is not a Scaffold-BPE tokenizer; train(scaffold=False) makes one"
        )
    if not encoder.cuts_as(counts.pre_tokenizer):
        raise ConfigurationError(f"{encoder.name} does not cut text as these counts: {counts.pre_tokenizer}")
    bpe = encoder.bpe
    tokens = strings("tokens", tokens)
    for token in tokens:
        if token not in bpe.vocab or token in bpe.fixed_tokens:
            raise ConfigurationError(f"{token!r} is not a token that text is encoded to")
    alone = weighted(*bpe.pretoken_encoder.encode(counts.data, counts.offsets), counts, len(bpe.vocab))
    first_step = weighted(
        *bpe.expanded_pretoken_encoder.encode(counts.data, counts.offsets), counts, len(bpe.vocab)
    )
    alone[bpe.vocab_size :] = first_step[bpe.vocab_size :]
    return [Standalone(token, int(alone[bpe.vocab[token]]), _places(token, bpe, counts)) for token in tokens]


def _places(token: str, bpe: ScaffoldBPE, counts: PreTokenCounts) -> int:
    """The places inside pre-tokens where a token's bytes stand and its affixes fit."""
    prefix, suffix = bpe.affixes.prefix, bpe.affixes.suffix
    continues = bool(prefix) and token.startswith(prefix)
    ends = bool(suffix) and token.endswith(suffix)
    bare = token[len(prefix) if continues else 0 : len(token) - (len(suffix) if ends else 0)]
    needle = bare.encode() if bpe.by_character else symbols_to_bytes(bare)
    data = np.frombuffer(counts.data, np.uint8)
    starts = np.flatnonzero(data[: max(0, len(data) - len(needle) + 1)] == needle[0])
    for i, byte in enumerate(needle[1:], start=1):
        starts = starts[data[starts + i] == byte]
    rows = np.searchsorted(counts.offsets, starts, side="right") - 1
    begins, stops = counts.offsets[rows], counts.offsets[rows + 1]
    fits = starts + len(needle) <= stops
    if prefix:
        fits &= (starts > begins) == continues
    if suffix:
        fits &= (starts + len(needle) == stops) == ends
    return sum(counts.counts[rows[fits]].tolist())
