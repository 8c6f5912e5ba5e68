"""How many more tokens a text takes when its words are misspelled or change case."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from hf_scaffold._utils.arguments import knows_its_arguments, shortened, whole
from hf_scaffold.counting.counts import PreTokenCounts
from hf_scaffold.errors import ConfigurationError, CorpusError
from hf_scaffold.evaluation.metrics import EvaluationText, evaluate
from hf_scaffold.text.corpus import Corpus, describe_corpus

WORD = re.compile(r"[^\W\d_]{4,}")  # letters; shorter words would become others rather than misspelled
SAMPLE_SIZE = 1 << 20  # bytes


@dataclass(frozen=True)
class Robustness:
    """Tokens of a text as it is, with misspelled words, and with first letters in the other case.

    Args:
        name: The tokenizer's.
        n_words: Words that are changed.
        n_tokens: Of the text as it is.
        n_misspelled_tokens, n_recased_tokens: Of the changed texts.
    Example:
        >>> found = Robustness("toy", n_words=10, n_tokens=20, n_misspelled_tokens=31, n_recased_tokens=25)
        >>> found.misspelled, found.recased
        (0.55, 0.25)
    """

    name: str
    n_words: int
    n_tokens: int
    n_misspelled_tokens: int
    n_recased_tokens: int

    @property
    def misspelled(self) -> float:
        """Tokens added by misspelling, as a share of those of the text as it is. Lower is better."""
        return self.n_misspelled_tokens / max(1, self.n_tokens) - 1

    @property
    def recased(self) -> float:
        """Tokens added by changing case, likewise."""
        return self.n_recased_tokens / max(1, self.n_tokens) - 1


class NoisyText:
    """A sample of a text, and what became of it; made once for any number of tokenizers.

    Args:
        text: As for `robustness`.
        seed, max_bytes: As for `robustness`.
    Example:
        >>> noisy = NoisyText(["the people there"], seed=0)
        >>> [*noisy.misspelled.documents()], [*noisy.recased.documents()], noisy.n_words
        (['the peolle thre'], ['the People There'], 2)
    """

    def __init__(self, text: Corpus | EvaluationText, *, seed: int = 0, max_bytes: int = SAMPLE_SIZE) -> None:
        if isinstance(text, PreTokenCounts):
            raise ConfigurationError(f"the text is {shortened(text)}; misspelling needs the text itself")
        if not isinstance(text, EvaluationText):
            text = EvaluationText(text)
        documents = [*_first(text.documents(), max_bytes)]
        self.n_words = sum(len(WORD.findall(document)) for document in documents)
        if not self.n_words:
            raise CorpusError(f"{describe_corpus(text.corpus)} has no words of 4 letters or more to misspell")
        letters = sorted({*"".join(word for document in documents for word in WORD.findall(document))})
        draw = random.Random(seed).random

        def misspell(match: re.Match[str]) -> str:
            return misspelled(match[0], letters, draw)

        self.plain = EvaluationText(documents)
        self.misspelled = EvaluationText([WORD.sub(misspell, document) for document in documents])
        self.recased = EvaluationText([WORD.sub(_recased, document) for document in documents])


def _first(documents: Iterator[str], n_bytes: int) -> Iterator[str]:
    """Whole documents, up to the one that reaches a size."""
    for document in documents:
        yield document
        n_bytes -= len(document.encode())
        if n_bytes <= 0:
            return


def misspelled(word: str, letters: list[str], draw: Callable[[], float]) -> str:
    """A word with one edit inside: two letters swapped, one left out, one doubled, or one replaced.

    Swapping or replacing may hit equal letters and change nothing.

    Args:
        word: Four letters or more; the first and the last one stay.
        letters: What to replace by.
        draw: Gives random numbers from 0 to 1, exclusive.
    Example:
        >>> numbers = iter([0.5, 0.0])
        >>> misspelled("people", ["a"], lambda: next(numbers))
        'peeople'
    """
    edit = int(draw() * 4)
    at = 1 + int(draw() * (len(word) - 3))
    before, letter, after = word[:at], word[at], word[at + 1 :]
    if edit == 0:
        return before + after[0] + letter + after[1:]
    if edit == 1:
        return before + after
    if edit == 2:
        return before + letter + letter + after
    return before + letters[int(draw() * len(letters))] + after


def _recased(match: re.Match[str]) -> str:
    word = match[0]
    return word[0].swapcase() + word[1:]


@knows_its_arguments
def robustness(
    tokenizer: Any,
    text: Corpus | EvaluationText,
    *,
    seed: int = 0,
    max_bytes: int = SAMPLE_SIZE,
    name: str | None = None,
) -> Robustness:
    """Count how many more tokens a text takes when its words are misspelled, or begin in the other case.

    Every word of four letters or more is changed: by one edit inside (two neighbouring letters swapped, a
    letter left out, doubled, or replaced by one of the text's), drawn at random; or by writing its first
    letter in the other case. The fewer tokens that adds, the less a model's input depends on spelling. The
    same text and seed give the same figures.

    Args:
        tokenizer, name: As for `evaluate`.
        text: As for `evaluate`, but no counts; only its first documents are used.
        seed: Of what is drawn.
        max_bytes: How much of the text to use: whole documents, the last of which may pass this.
    Raises:
        ConfigurationError: counts are given instead of a text, max_bytes is below 1, or seed below 0.
        CorpusError: the text can't be read, or has no word of four letters.
    Cost: for 1 MB, about a second to misspell it, and encoding it three times.
    Example:
        >>> import hf_scaffold as hs
        >>> bpe = hs.train(hs.count(["people there know their people"]), vocab_size=263)
        >>> found = robustness(bpe, ["their people know"])
        >>> found.n_tokens, found.n_misspelled_tokens, found.n_recased_tokens
        (8, 13, 15)

    Source: the edits follow Pruthi et al. 2019, "Combating Adversarial Misspellings with Robust Word
        Recognition" (arXiv:1905.11268), who leave short words and outer letters alone, too. Sun et al. 2026,
        "LiteToken" (arXiv:2602.04706), find that misspelled text gains where intermediate tokens go.
    """
    max_bytes = whole("max_bytes", max_bytes, least=1)
    return robustness_on(NoisyText(text, seed=whole("seed", seed), max_bytes=max_bytes), tokenizer, name)


def robustness_on(text: NoisyText, tokenizer: Any, name: str | None = None) -> Robustness:
    """`robustness`, on a text that several tokenizers share."""
    plain, misspelled, recased = (
        evaluate(tokenizer, part, name=name) for part in (text.plain, text.misspelled, text.recased)
    )
    return Robustness(plain.name, text.n_words, plain.n_tokens, misspelled.n_tokens, recased.n_tokens)
