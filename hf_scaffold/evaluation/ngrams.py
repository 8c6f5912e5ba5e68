"""Bits per byte of n-gram language models over a tokenizer's tokens: modified Kneser-Ney, deterministic.

A model of order n predicts each token from up to n - 1 tokens before it, interpolated with the models of
lower orders and, below them, with all tokens being equally likely. The estimate is that of Chen and Goodman
1998 (three discounts an order, from counts of counts), as KenLM's lmplz makes it: lower orders count distinct
tokens to the left, except that n-grams at the beginning of a document keep their own counts.

N-grams are numbered, length by length: the number of the first n - 1 tokens and the last token, packed into
one integer, tell n-grams of any length apart. Sorting these integers counts them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_scaffold._utils.arguments import knows_its_arguments, shortened, string, strings, whole
from hf_scaffold.counting.counts import PreTokenCounts
from hf_scaffold.errors import ConfigurationError, CorpusError
from hf_scaffold.evaluation.adapters import encoded, encoder_of
from hf_scaffold.evaluation.metrics import EvaluationText
from hf_scaffold.text.corpus import Corpus, describe_corpus

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Encoded = tuple[NDArray[Any], Integers]

FALLBACK = (0.0, 0.5, 1.0, 1.5)


@dataclass(frozen=True)
class NgramBits:
    """Bits per byte of held-out text under n-gram models of tokens.

    Args:
        name: The tokenizer's.
        by_order: Bits per byte with the models of order 1, 2 and so on.
        vocab_size: Tokens that a model chooses from, the end of a document among them.
        n_train_tokens: Tokens that the models learned from, an end for each document among them.
        n_tokens: Tokens of the held-out text, likewise.
        n_bytes: Bytes of the held-out text in UTF-8.
    Example:
        >>> found = NgramBits("toy", (2.5, 1.75), vocab_size=300, n_train_tokens=90, n_tokens=20, n_bytes=60)
        >>> found.order, found.bits_per_byte
        (2, 1.75)
    """

    name: str
    by_order: tuple[float, ...]
    vocab_size: int
    n_train_tokens: int
    n_tokens: int
    n_bytes: int

    @property
    def order(self) -> int:
        """The highest order."""
        return len(self.by_order)

    @property
    def bits_per_byte(self) -> float:
        """With the model of the highest order. Lower is better."""
        return self.by_order[-1]


@knows_its_arguments
def ngram_bits_per_byte(
    tokenizer: Any,
    train: Corpus | EvaluationText,
    held_out: Corpus | EvaluationText,
    *,
    order: int = 5,
    name: str | None = None,
    tokens: Sequence[str] | None = None,
    text_field: str = "text",
) -> NgramBits:
    """Estimate n-gram models of a tokenizer's tokens on a text; measure their bits per byte of another.

    Bytes, not tokens, are the measure: perplexities of different tokenizers can't be compared, bits per byte
    can, if no tokenizer loses text ([UNK], lower-casing). It is a cheap stand-in for a neural model's loss,
    not a prediction of it.

    Each document begins in a context of its own and ends with an end token, which is predicted and counts
    as any other. Documents are those of `EvaluationText.documents`: long ones and plain-text files come in
    blocks of about 64 KB, the same for all tokenizers. No special tokens are added. The vocabulary is closed:
    what smoothing takes off all counts is spread evenly over the whole vocabulary, so that tokens that never
    occur in `train` have a probability, too.

    Args:
        tokenizer, name, tokens: As for `evaluate`. Without `tokens`, a callable's vocabulary ends with the
            largest id in either text.
        train: Text to learn from, as for `count`; or an `EvaluationText`.
        held_out: Text to measure on, likewise. Give other text than `train`: text that was learned by heart
            says nothing.
        order: The longest n-grams, in tokens; all shorter ones are measured, too.
        text_field: As for `count`.
    Returns:
        NgramBits: `bits_per_byte`, and `by_order` for each order from 1 on.
    Raises:
        ConfigurationError: order is below 1; a text is given as counts, which don't tell what follows what;
            or an id lies outside the vocabulary.
        CorpusError: a text can't be read, or is empty.
    Cost: for 20 MB of novels and 32,000 tokens, 8 s of CPU time and 1 GB of memory for orders 1 to 5. Memory
        grows with the tokens of the text.
    Example:
        >>> import hf_scaffold as hs
        >>> bpe = hs.train(hs.count(["hug hugs pug"]), vocab_size=258)
        >>> found = ngram_bits_per_byte(bpe, ["hug hug hugs", "pug hug"], ["hug pug"], order=2)
        >>> found.n_tokens, found.n_bytes, [round(bits, 4) for bits in found.by_order]
        (5, 7, [2.3688, 1.9424])

    Source: Chen and Goodman 1998, "An Empirical Study of Smoothing Techniques for Language Modeling"
        (TR-10-98), §3; Heafield et al. 2013, "Scalable Modified Kneser-Ney Language Model Estimation".
    """
    order = whole("order", order, least=1)
    string("text_field", text_field)
    texts = [
        _as_text(argument, text, text_field) for argument, text in (("train", train), ("held_out", held_out))
    ]
    encoder = encoder_of(tokenizer, None if tokens is None else strings("tokens", tokens))
    (ids, ends), (test_ids, test_ends) = (encoded(encoder, text.documents()) for text in texts)
    n_ids = 1 + int(max(ids.max(initial=-1), test_ids.max(initial=-1)))
    vocab_size = len(encoder.named_tokens(n_ids)) + 1
    probabilities = token_probabilities((ids, ends), (test_ids, test_ends), vocab_size, order)
    n_bytes = texts[1].n_bytes
    return NgramBits(
        name=encoder.name if name is None else string("name", name),
        by_order=tuple(float(-np.sum(np.log2(row)) / n_bytes) for row in probabilities),
        vocab_size=vocab_size,
        n_train_tokens=len(ids) + len(ends) - 1,
        n_tokens=len(test_ids) + len(test_ends) - 1,
        n_bytes=n_bytes,
    )


def _as_text(argument: str, text: Corpus | EvaluationText, text_field: str) -> EvaluationText:
    if isinstance(text, PreTokenCounts):
        raise ConfigurationError(
            f"{argument} is {shortened(text)}; n-grams need the text itself, in its order"
        )
    found = text if isinstance(text, EvaluationText) else EvaluationText(text, text_field=text_field)
    if not found.n_bytes:
        raise CorpusError(f"{argument}, {describe_corpus(found.corpus)}, holds no text")
    return found


def token_probabilities(train: Encoded, test: Encoded, vocab_size: int, order: int) -> list[Floats]:
    """The probability of each test token under the models of order 1, 2 and so on.

    Args:
        train, test: Ids of all documents, one after another, and n + 1 offsets.
        vocab_size: Tokens, among them the end of a document, which has the largest id.
    Returns:
        An array for each order: of each document its tokens, then its end.
    """
    learned, tested = _Documents(*train, vocab_size), _Documents(*test, vocab_size)
    numbers, test_numbers = np.zeros_like(learned.tokens), np.zeros_like(tested.tokens)
    lower = np.full(len(tested.tokens), 1 / vocab_size)
    level: _Level | None = None
    found = []
    for length in range(1, order + 1):
        at, packed = learned.ngrams(length, numbers)
        ngrams, first, places, counts = np.unique(
            packed, return_index=True, return_inverse=True, return_counts=True
        )
        if level is None:
            counts[ngrams == learned.begin] = 0  # a context, which nothing predicts
        else:
            lower = level.with_counts_of_neighbours(numbers[at[first]]).probabilities(lower)
        numbers = np.full_like(learned.tokens, -1)
        numbers[at] = places
        test_at, packed = tested.ngrams(length, test_numbers)
        contexts = np.full_like(tested.tokens, -1)
        contexts[test_at] = test_numbers[test_at - 1]
        test_numbers = np.full_like(tested.tokens, -1)
        test_numbers[test_at] = _places(ngrams, packed)
        level = _Level(counts, ngrams // learned.width, test_numbers, contexts)
        found.append(level.probabilities(lower)[tested.depths > 0])
    return found


class _Documents:
    """Documents one after another, each between a begin and an end.

    Args:
        ids, offsets: As for `token_probabilities`.
        vocab_size: The largest id, that of the end, is one less; `begin` comes after it.
    """

    def __init__(self, ids: NDArray[Any], offsets: Integers, vocab_size: int) -> None:
        self.begin, self.width = vocab_size, vocab_size + 1
        sizes = np.diff(offsets) + 2
        ends = np.cumsum(sizes)
        begins = ends - sizes
        self.tokens = np.empty(sizes.sum(), np.int64)
        inside = np.ones(len(self.tokens), bool)
        inside[begins] = inside[ends - 1] = False
        self.tokens[inside] = ids
        self.tokens[begins], self.tokens[ends - 1] = self.begin, self.begin - 1
        self.depths = np.arange(len(self.tokens)) - np.repeat(begins, sizes)  # tokens before each

    def ngrams(self, length: int, shorter: Integers) -> tuple[Integers, Integers]:
        """Where n-grams of a length end, and each as one integer; negative if what comes first is unknown.

        Args:
            shorter: At each token, the number of the n-gram one token shorter that ends there; -1: unknown.
        """
        at = np.flatnonzero(self.depths >= length - 1)
        return at, shorter[at - 1] * self.width + self.tokens[at]


def _places(ngrams: Integers, wanted: Integers) -> Integers:
    """Where each is among sorted n-grams; -1 for what isn't."""
    places = np.searchsorted(ngrams, wanted)
    past_the_end = np.iinfo(np.int64).min  # nothing wanted is that
    return np.where(np.append(ngrams, past_the_end)[places] == wanted, places, -1)


@dataclass(frozen=True)
class _Level:
    """N-grams of one length.

    Args:
        counts: Of each that was learned.
        contexts: The number of what comes before each one's last token.
        tested, tested_contexts: At each test token, the numbers of both; -1 for what was not learned.
    """

    counts: Integers
    contexts: Integers
    tested: Integers
    tested_contexts: Integers

    def with_counts_of_neighbours(self, ends: Integers) -> _Level:
        """What longer n-grams are interpolated with: counts of distinct tokens to the left.

        At the beginning of a document nothing is to the left, and n-grams keep their counts.

        Args:
            ends: For each distinct n-gram that is one token longer, the number of its end in this level.
        """
        neighbours = np.bincount(ends, minlength=len(self.counts))
        return replace(self, counts=np.where(neighbours, neighbours, self.counts))

    def probabilities(self, lower: Floats) -> Floats:
        """Of each test token; from contexts one token shorter where this one was never seen.

        Args:
            lower: The probabilities that this level is interpolated with.
        """
        discounts = discounts_of(self.counts)[np.minimum(self.counts, 3)]
        totals, spared = np.bincount(self.contexts, self.counts), np.bincount(self.contexts, discounts)
        at = np.flatnonzero(self.tested_contexts >= 0)
        ngrams, contexts = self.tested[at], self.tested_contexts[at]
        kept = np.where(ngrams >= 0, (self.counts - discounts)[ngrams], 0)
        found = lower.copy()
        found[at] = (kept + spared[contexts] * lower[at]) / totals[contexts]
        return found


def discounts_of(counts: Integers) -> Floats:
    """What is taken off a count of 0, 1, 2, and 3 or more, so that what was never seen has a chance.

    Fixed ones stand in where counts of counts give none above 0, in little or artificial text.

    Example:
        >>> discounts_of(np.array([1] * 20 + [2] * 8 + [3] * 4 + [4] * 2 + [9])).round(3).tolist()
        [0.0, 0.556, 1.167, 1.889]
        >>> discounts_of(np.array([7, 7])).tolist()
        [0.0, 0.5, 1.0, 1.5]

    Source: Chen and Goodman 1998, equation 26; the fixed ones are those of lmplz --discount_fallback.
    """
    n = np.bincount(np.minimum(counts, 5), minlength=6).astype(np.float64)
    if n[1:4].all():
        share = n[1] / (n[1] + 2 * n[2])
        found = np.array([0, *(k - (k + 1) * share * n[k + 1] / n[k] for k in (1, 2, 3))])
        if np.all(found[1:] > 0):
            return found
    return np.array(FALLBACK)
