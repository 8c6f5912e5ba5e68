"""A tokenizer with fewer tokens: scaffolds first, then those that a text needs least."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hf_scaffold._utils.arguments import flag, knows_its_arguments, whole
from hf_scaffold.counting.counts import PreTokenCounts
from hf_scaffold.errors import ConfigurationError
from hf_scaffold.lifecycle.audit import replay
from hf_scaffold.lifecycle.conversion import hole, without
from hf_scaffold.lifecycle.models import Model, as_fast_or_scaffold, counts_for, whole_model
from hf_scaffold.text.corpus import Corpus

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast


@dataclass(frozen=True)
class Pruning:
    """A tokenizer with fewer tokens.

    Args:
        tokenizer: Encodes to the tokens that stay.
        remap: int64: old id to new id, -1 for the tokens that are gone.
        removed: These tokens, in the order in which they went.
    """

    tokenizer: ScaffoldTokenizerFast
    remap: NDArray[np.int64]
    removed: tuple[str, ...]


@knows_its_arguments
def prune(
    tokenizer: Any,
    corpus: Corpus | PreTokenCounts | None = None,
    vocab_size: int | None = None,
    *,
    tokens: Iterable[str | int] | None = None,
    compact: bool = False,
    every_split: bool = False,
    text_field: str = "text",
    num_workers: int | None = None,
) -> Pruning:
    """Take tokens out of a BPE tokenizer. Text that became one of them becomes its parts.

    First go the tokens that `audit_tokenizer` finds to be scaffolds on the text, then the others, each time
    the one that occurs least; its occurrences then are those of its parts. Of equal ones the larger id goes.
    All merges stay, so the other tokens are found as before. The alphabet and added tokens always stay.

    Args:
        tokenizer: A BPE tokenizer, as for `extend`.
        corpus: Text as for `count`, split as the tokenizer does; or PreTokenCounts that were.
        vocab_size: Tokens to keep, added tokens included; reserved ones don't count.
        tokens: Which to take out, in place of vocab_size: as they stand in the vocabulary, or ids. Then the
            corpus, if there is one, is only what raw agreement is measured on.
        compact: As for `convert_tokenizer`: False keeps ids, and reserves those of removed tokens.
        every_split: As for `TrainingSettings`, whatever the tokenizer has.
        text_field, num_workers: As for `count`.
    Raises:
        ConfigurationError: the model is not BPE, so many tokens can't be taken out, or one of `tokens` can't.
        CorpusError: nothing of the text is in the vocabulary.
    Cost: about that of training on the text twice.
    Example:
        >>> import hf_scaffold as hs
        >>> counts = hs.PreTokenCounts.from_mapping({"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5})
        >>> tokenizer = hs.train(counts, vocab_size=261).to_tokenizer()
        >>> pruning = prune(tokenizer, counts, 258)
        >>> pruning.removed, pruning.tokenizer.tokenize("bunhugs")
        (('bun', 'hugs', 'pug'), ['b', 'u', 'n', 'hug', 's'])
    """
    compact, every_split = flag("compact", compact), flag("every_split", every_split)
    if isinstance(tokens, str):
        raise TypeError("tokens must be several, not a str; put it into a list: [token]")
    if (vocab_size is None) == (tokens is None):
        raise ConfigurationError("give vocab_size or tokens, one of them")
    if tokens is None and corpus is None:
        raise ConfigurationError("vocab_size needs a corpus, which says what is least used")
    fast = as_fast_or_scaffold(tokenizer)
    model, scaffolds = whole_model(fast)
    known = {token for token in model.first_rules if not model.is_symbol(token)} - {*scaffolds}  # what may go
    removed = [] if tokens is None else _named(fast, [*tokens], known)
    n_removed = (
        0 if vocab_size is None else _number_to_remove(fast, whole("vocab_size", vocab_size, 1), known)
    )
    counts = None if corpus is None else counts_for(model, corpus, text_field, num_workers)
    frequencies: dict[str, int] = {}
    if counts is not None:
        audit, frequencies = replay(model, counts)
        first = {token.token for token in audit.scaffolds}
        removed += _least_used(model, scaffolds, known, first, frequencies, n_removed)
    made, remap = without(fast, model, [*scaffolds, *removed], frequencies, counts, compact, every_split)
    return Pruning(made, remap, tuple(removed))


def _number_to_remove(fast: PreTrainedTokenizerFast, vocab_size: int, known: set[str]) -> int:
    n_tokens = sum(token != hole(token_id) for token, token_id in fast.get_vocab().items())
    if not 0 <= n_tokens - vocab_size <= len(known):
        raise ConfigurationError(
            f"vocab_size is {vocab_size:,}, but the tokenizer has {n_tokens:,} tokens, and only the "
            f"{len(known):,} that merges make can be taken out; it must be from {n_tokens - len(known):,} "
            f"to {n_tokens:,}"
        )
    return n_tokens - vocab_size


def _named(fast: PreTrainedTokenizerFast, tokens: list[str | int], known: set[str]) -> list[str]:
    """The tokens that are to go, each once."""
    spelled = {token_id: token for token, token_id in fast.get_vocab().items()}
    names = [token if isinstance(token, str) else spelled.get(index(token), "") for token in tokens]
    for given, name in zip(tokens, names, strict=True):
        if name not in known:
            raise ConfigurationError(
                f"{given!r} can't be taken out: it is not a token with an id that merges make"
            )
    return [*dict.fromkeys(names)]


def _least_used(
    model: Model,
    scaffolds: list[str],
    known: set[str],
    first: set[str],
    frequencies: dict[str, int],
    n: int,
) -> list[str]:
    """The n tokens to go, in order; the frequencies become those of what is left."""
    gone: set[str] = set()
    number = model.number

    def give_up(token: str) -> list[str]:
        """Leave a token's occurrences to its parts; returns those that have an id."""
        gone.add(token)
        waiting, heirs = [token], []
        while waiting:
            whole = waiting.pop()
            for part in model.first_rules[whole]:
                if part not in gone:
                    frequencies[part] += frequencies[token]
                    heirs.append(part)
                # So it is wherever merges were trained; but anyone may write some, and this has to end.
                elif number[part] < number[whole]:
                    waiting.append(part)
        frequencies[token] = 0
        return heirs

    for token in reversed(scaffolds):  # the parts of each were made before
        give_up(token)
    removed: list[str] = []

    def key(token: str) -> tuple[bool, int, int, str]:
        return token not in first, frequencies[token], -model.vocab[token], token

    queue = [*map(key, known)]
    heapq.heapify(queue)
    while len(removed) < n:
        entry = heapq.heappop(queue)
        token = entry[-1]
        if token in gone or entry != key(token):
            continue  # it has been given more since; that entry is in the queue, too
        removed.append(token)
        for part in give_up(token):
            if part in known:
                heapq.heappush(queue, key(part))
    return removed
