"""Metrics of a tokenizer on a text: how much it compresses it, and how evenly its vocabulary is used.

All follow from how often each token occurs, so a text is encoded once; if the tokenizer splits text into
pre-tokens, each distinct one is encoded once, and its count is its weight.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_scaffold._utils.arguments import knows_its_arguments, string, strings, whole
from hf_scaffold.counting.counting import count
from hf_scaffold.counting.counts import PreTokenCounts
from hf_scaffold.errors import ConfigurationError, CorpusError, CountOverflowError
from hf_scaffold.evaluation.adapters import (
    ArtifactEncoder,
    BackendEncoder,
    CountsEncoder,
    Frequencies,
    encoder_of,
    occurrences,
    weighted,
)
from hf_scaffold.text.corpus import Corpus, describe_corpus, iter_documents, without_pipes
from hf_scaffold.text.pre_tokenizers import PreTokenizer

PERCENTILES = (50, 75, 90, 95, 99)
RARE = (1, 10, 100, 1000)
SIZES = (
    "name", "vocab_size", "n_bytes", "n_words", "n_pretokens", "n_tokens", "bytes_per_token",
    "tokens_per_word", "tokens_per_pretoken", "entropy", "redundancy",
)  # fmt: skip

_BLOCK_SIZE = 1 << 16  # bytes; at each end of a block a tokenizer may differ by a token from the whole text
_MAX_FREQUENCY = 2**63 - 1


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """How often each token of a vocabulary occurs in an encoded text, and the metrics that follow from it.

    Every token of the vocabulary counts, including special tokens and symbols that never occur.

    Args:
        name: What was evaluated, for tables.
        tokens: The vocabulary as it spells its tokens, by id.
        token_frequencies: int64, occurrences of each token, by id.
        n_bytes: Bytes of the text in UTF-8; if only counts were given, of its pre-tokens, which is the same
            unless a normalizer or the pre-tokenizer changes the text.
        n_words: Words of the text, as `str.split` separates them. None if only counts were given: they don't
            tell whether a word and the comma after it were one.
        n_pretokens: Pre-tokens of the text; None for a tokenizer that encoded the text itself.
        raw_agreement: Share of pre-tokens, weighted by counts, that the plain BPE in tokenizer.json encodes
            as Scaffold-BPE does (see `ScaffoldBPE.raw_model`); None for any other tokenizer.
        raw_agreement_merges_only: The same for an engine that doesn't know `ignore_merges`.
    Example:
        >>> evaluation = Evaluation("toy", ("a", "b", "ab", "c"), np.array([2, 1, 1, 0]), n_bytes=5)
        >>> evaluation.n_tokens, evaluation.bytes_per_token, evaluation.entropy, evaluation.redundancy
        (4, 1.25, 1.5, 0.25)
    """

    name: str
    tokens: tuple[str, ...]
    token_frequencies: Frequencies
    n_bytes: int
    n_words: int | None = None
    n_pretokens: int | None = None
    raw_agreement: float | None = None
    raw_agreement_merges_only: float | None = None

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.token_frequencies):
            raise ConfigurationError(
                f"{len(self.tokens)} tokens, but {len(self.token_frequencies)} token_frequencies"
            )
        self.token_frequencies.setflags(write=False)

    def __repr__(self) -> str:
        return (
            f"Evaluation({self.name!r}, vocab_size={self.vocab_size}, n_tokens={self.n_tokens}, "
            f"bytes_per_token={self.bytes_per_token:.4f})"
        )

    @property
    def vocab_size(self) -> int:
        """|V|."""
        return len(self.tokens)

    @cached_property
    def n_tokens(self) -> int:
        """Tokens of the encoded text: the corpus token count."""
        return sum(self.token_frequencies.tolist())

    @property
    def bytes_per_token(self) -> float:
        """Mean bytes of text a token: the compression rate of Lian et al. 2024, Table 6."""
        return self.n_bytes / self.n_tokens if self.n_tokens else 0.0

    @property
    def tokens_per_word(self) -> float | None:
        """Fertility, with words as in `n_words`.

        Source: Rust et al. 2021, "How Good is Your Tokenizer?" (arXiv:2012.15613), §3.
        """
        return self.n_tokens / self.n_words if self.n_words else None

    @property
    def tokens_per_pretoken(self) -> float | None:
        """1 if every pre-token is a token."""
        return self.n_tokens / self.n_pretokens if self.n_pretokens else None

    @cached_property
    def _probabilities(self) -> NDArray[np.float64]:
        """The shares of the tokens that occur."""
        occurring = self.token_frequencies[self.token_frequencies > 0]
        return occurring / max(1, self.n_tokens)

    @cached_property
    def entropy(self) -> float:
        """Shannon entropy of the tokens in bits: H = -Σ p log2 p (Lian et al. 2024, Table 8).

        Higher is better: tokens are used more evenly.
        """
        return float(np.abs(np.sum(self._probabilities * np.log2(self._probabilities))))

    @property
    def redundancy(self) -> float:
        """1 - H / log2 |V|: 0 if all tokens are equally frequent (Lian et al. 2024, Table 8)."""
        return 1 - _share_of_log2(self.entropy, self.vocab_size)

    def renyi_entropy(self, alpha: float = 2.5) -> float:
        """Rényi entropy in bits, log2(Σ p^alpha) / (1 - alpha); at alpha = 1 Shannon's.

        Source: Zouhar et al. 2023, "Tokenization and the Noiseless Channel" (arXiv:2306.16842).
        """
        if alpha < 0:
            raise ConfigurationError(f"alpha is {alpha}; it must be 0 or more")
        if alpha == 1 or not self.n_tokens:
            return self.entropy
        return float(np.log2(np.sum(self._probabilities**alpha)) / (1 - alpha)) + 0.0

    def renyi_efficiency(self, alpha: float = 2.5, vocab_size: int | None = None) -> float:
        """Rényi entropy as a share of log2 |V|; at alpha = 2.5 it predicted translation quality best.

        Args:
            alpha: The order.
            vocab_size: |V|. None: the whole vocabulary. The package tokenization-scorer takes `vocab_used` by
                default.
        Source: Zouhar et al. 2023, "Tokenization and the Noiseless Channel" (arXiv:2306.16842).
        """
        size = self.vocab_size if vocab_size is None else whole("vocab_size", vocab_size, least=1)
        return _share_of_log2(self.renyi_entropy(alpha), size)

    @cached_property
    def sorted_frequencies(self) -> Frequencies:
        """Largest first (Lian et al. 2024, Figure 2)."""
        return np.sort(self.token_frequencies)[::-1]

    @property
    def vocab_used(self) -> int:
        """Tokens that occur at all."""
        return int(np.count_nonzero(self.token_frequencies))

    def frequency_percentile(self, percent: float) -> int:
        """What the most frequent `percent` of the vocabulary reach or pass: F_95% for 95.

        Raises:
            ConfigurationError: percent is not above 0 and at most 100.
        Source: Gowda and May 2020, "Finding the Optimal Vocabulary Size for Neural Machine Translation"
            (arXiv:2004.02334), §4.
        """
        if not 0 < percent <= 100:
            raise ConfigurationError(f"percent is {percent}; it must be above 0 and at most 100")
        n_tokens = int(np.ceil(self.vocab_size * percent / 100))
        return int(self.sorted_frequencies[n_tokens - 1]) if n_tokens else 0

    def mass_between(self, start: float = 0.03, end: float = 0.83) -> float:
        """Share of the text that the tokens between two ranks make up, ranks as shares of `vocab_used`.

        Source: `percentile_freq` of the package tokenization-scorer; Zouhar et al. 2023 found that this range
            predicts translation quality best.
        """
        if not 0 <= start <= end <= 1:
            raise ConfigurationError(f"start and end are {start} and {end}; need 0 <= start <= end <= 1")
        first, last = int(self.vocab_used * start), int(self.vocab_used * end)
        total: int = sum(self.sorted_frequencies[first:last].tolist())
        return total / max(1, self.n_tokens)

    def share_under(self, n: int) -> float:
        """Share of the vocabulary that occurs fewer than n times."""
        return int(np.count_nonzero(self.token_frequencies < n)) / max(1, self.vocab_size)

    def tokens_under(self, n: int) -> tuple[str, ...]:
        """The tokens that occur fewer than n times, the rarest first, then by id.

        With n = 1, those that the text never uses. On the text of a model, or one like it, they are
        candidates for tokens that the model hardly learned. Special tokens and single bytes are among them:
        text isn't encoded to the former, and the latter stand in for rare characters.

        Source: Land and Bartolo 2024, "Fishing for Magikarp" (arXiv:2405.05417), who confirm such tokens by
            the model's weights.
        Example:
            >>> evaluation = Evaluation("toy", ("a", "b", "ab", "c"), np.array([2, 1, 4, 0]), n_bytes=9)
            >>> evaluation.tokens_under(1), evaluation.tokens_under(3)
            (('c',), ('c', 'b', 'a'))
        """
        rare = np.flatnonzero(self.token_frequencies < n)
        rarest_first = rare[np.argsort(self.token_frequencies[rare], kind="stable")]
        return tuple(self.tokens[token_id] for token_id in rarest_first.tolist())

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {token: token_id for token_id, token in enumerate(self.tokens)}

    def frequency(self, token: str) -> int:
        """Occurrences of a token; 0 for what is not in the vocabulary."""
        token_id = self._ids.get(token)
        return 0 if token_id is None else int(self.token_frequencies[token_id])

    def mean_frequency(self, tokens: Iterable[str]) -> float:
        """Mean occurrences of these tokens; 0 if there are none."""
        frequencies = [self.frequency(token) for token in tokens]
        return sum(frequencies) / max(1, len(frequencies))

    def to_dict(self, frequencies: bool = False) -> dict[str, Any]:
        """All metrics as what JSON can hold.

        Args:
            frequencies: Also the frequency of each token, under "token_frequencies".
        """
        facts: dict[str, Any] = {
            **{name: getattr(self, name) for name in SIZES},
            "renyi_efficiency": self.renyi_efficiency(),
            "vocab_used": self.vocab_used,
            "mass_between": self.mass_between(),
            "frequency_percentiles": {str(q): self.frequency_percentile(q) for q in PERCENTILES},
            "share_under": {str(n): self.share_under(n) for n in RARE},
            "raw_agreement": self.raw_agreement,
            "raw_agreement_merges_only": self.raw_agreement_merges_only,
        }
        if frequencies:
            facts["token_frequencies"] = dict(zip(self.tokens, self.token_frequencies.tolist(), strict=True))
        return facts


def _share_of_log2(entropy: float, vocab_size: int) -> float:
    """An entropy as a share of the largest there can be; 1 for a vocabulary of one token."""
    return entropy / float(np.log2(vocab_size)) if vocab_size > 1 else 1.0


class EvaluationText:
    """A text to evaluate any number of tokenizers on, counted once for each way to cut it.

    Args:
        corpus, text_field: As for `count`. What can be read only once is kept: an iterator's texts in memory,
            a pipe's in a temporary file.
        counts: The text's counts, if at hand.
    Example:
        >>> text = EvaluationText(["the cat", "the dog sat"])
        >>> text.n_bytes, text.n_words
        (18, 5)
    """

    def __init__(
        self, corpus: Corpus, *, text_field: str = "text", counts: PreTokenCounts | None = None
    ) -> None:
        if isinstance(corpus, Iterable) and not isinstance(corpus, str) and iter(corpus) is iter(corpus):
            corpus = list(corpus)
        self.corpus, self._text_field = corpus, text_field
        self.readable, self._kept = without_pipes(corpus)
        self._counts: dict[PreTokenizer, PreTokenCounts] = {}
        if counts is not None:
            self.add_counts(counts)

    def add_counts(self, counts: PreTokenCounts) -> None:
        """Save counting the text as these counts were cut."""
        self._counts[counts.pre_tokenizer] = counts

    def counts(self, pre_tokenizer: PreTokenizer) -> PreTokenCounts:
        """The text's pre-tokens, whatever their length."""
        if pre_tokenizer not in self._counts:
            self._counts[pre_tokenizer] = count(
                self.readable,
                pre_tokenizer=pre_tokenizer,
                text_field=self._text_field,
                max_pretoken_length=None,
            )
        return self._counts[pre_tokenizer]

    def is_counted(self, pre_tokenizer: PreTokenizer) -> bool:
        """Whether `counts` has them at hand."""
        return pre_tokenizer in self._counts

    def documents(self) -> Iterator[str]:
        """The documents; long ones, and plain-text files, in blocks of about 64 KB that end with a line."""
        documents = iter_documents(
            self.readable, text_field=self._text_field, cut=_after_last_line, block_size=_BLOCK_SIZE
        )
        for number, document in enumerate(documents):
            try:
                yield document.decode()
            except UnicodeDecodeError as error:
                raise CorpusError(f"block {number} of the text is not UTF-8: {error}") from None

    @cached_property
    def _sizes(self) -> tuple[int, int]:
        n_bytes = n_words = 0
        for document in self.documents():
            n_bytes += len(document.encode())
            n_words += len(document.split())
        if not n_bytes and any(self._counts.values()):
            raise CorpusError(
                f"{describe_corpus(self.corpus)} gave its texts only once, and they are needed again; "
                "give a list"
            )
        return n_bytes, n_words

    @property
    def n_bytes(self) -> int:
        """Bytes in UTF-8."""
        return self._sizes[0]

    @property
    def n_words(self) -> int:
        """Words, as `str.split` separates them."""
        return self._sizes[1]


def _after_last_line(text: bytes) -> int:
    return text.rfind(b"\n") + 1


@knows_its_arguments
def evaluate(
    tokenizer: Any,
    text: Corpus | EvaluationText | PreTokenCounts,
    *,
    name: str | None = None,
    tokens: Sequence[str] | None = None,
    text_field: str = "text",
) -> Evaluation:
    """Encode a text and measure how often each token occurs.

    No special tokens are added. A tokenizer that encodes distinct pre-tokens doesn't look for added tokens.

    Args:
        tokenizer: One of

            - a `ScaffoldBPE` or `ScaffoldTokenizerFast`: encodes each distinct pre-token, natively;
            - any other fast tokenizer of transformers, or a `tokenizers.Tokenizer`: each distinct pre-token
              if it cuts text as one of the presets, or as the counts were cut; else the text itself;
            - any other tokenizer of transformers, or a callable that takes a text and returns its ids: the
              text itself, in blocks (`EvaluationText.documents`).
        text: A corpus as for `count`; an `EvaluationText`, so that several tokenizers share the work; or
            counts, for a tokenizer that cuts text as they were cut.
        name: For tables; None: `name_or_path` or the class.
        tokens: A callable's vocabulary, by id. None: ids as strings, up to the largest that occurs.
        text_field: As for `count`.
    Raises:
        ConfigurationError: there are only counts, but the tokenizer cuts text otherwise; or an id lies
            outside the vocabulary.
        CorpusError: the text can't be read, or is empty.
        CountOverflowError: the counted text has 2**63 bytes or more.
    Cost: of a 64 MB novel collection, about 0.3 s from its counts.
    Example:
        >>> import hf_scaffold as hs
        >>> counts = hs.PreTokenCounts.from_mapping({b"hug": 10, b"pug": 5, b"hugs": 5})
        >>> bpe = hs.train(counts, vocab_size=258)
        >>> evaluation = evaluate(bpe, counts)
        >>> evaluation.n_tokens, evaluation.frequency("hug"), evaluation.bytes_per_token
        (30, 15, 2.1666666666666665)
    """
    string("text_field", text_field)
    if name is not None:
        string("name", name)
    if tokens is not None:
        tokens = strings("tokens", tokens)
    encoder = encoder_of(tokenizer, tokens)
    name = name or encoder.name
    if isinstance(text, PreTokenCounts):
        if not isinstance(encoder, CountsEncoder) or not encoder.cuts_as(text.pre_tokenizer):
            raise ConfigurationError(
                f"{name} does not cut text as these counts were cut, by {text.pre_tokenizer}; "
                "give the text instead of counts"
            )
        return _evaluate_counts(encoder, text, name, n_bytes=text.n_bytes)
    if not isinstance(text, EvaluationText):
        text = EvaluationText(text, text_field=text_field)
    sizes = {"n_bytes": text.n_bytes, "n_words": text.n_words}
    if isinstance(encoder, ArtifactEncoder):
        return _evaluate_counts(encoder, text.counts(encoder.bpe.pre_tokenizer), name, **sizes)
    if isinstance(encoder, BackendEncoder):
        pre_tokenizer = encoder.pre_tokenizer_for(text.is_counted)
        if pre_tokenizer is not None:
            return _evaluate_counts(encoder, text.counts(pre_tokenizer), name, **sizes)
    frequencies = occurrences(encoder.encode_texts, text.documents(), len(encoder.tokens))
    return Evaluation(name, encoder.named_tokens(len(frequencies)), frequencies, **sizes)


def _evaluate_counts(encoder: CountsEncoder, counts: PreTokenCounts, name: str, **sizes: int) -> Evaluation:
    if counts.n_bytes > _MAX_FREQUENCY:
        raise CountOverflowError(f"the counted text has {counts.n_bytes} bytes, beyond 2**63 - 1")
    ids, ends = encoder.encode_pretokens(counts)
    agreement = encoder.agreement(counts)
    return Evaluation(
        name,
        encoder.tokens,
        weighted(ids, ends, counts, len(encoder.tokens)),
        n_pretokens=counts.total,
        raw_agreement=agreement and agreement.measured,
        raw_agreement_merges_only=agreement and agreement.merges_only,
        **sizes,
    )
