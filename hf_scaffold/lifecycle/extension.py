"""Training goes on from the merges that a tokenizer has: new tokens for new text, and no old id changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hf_scaffold._core.trainer import AmbiguousMergeLoop, MergeLoop
from hf_scaffold._utils.arguments import (
    flag,
    knows_its_arguments,
    progress,
    progress_shown,
    warn,
    whole,
)
from hf_scaffold.counting.characters import Characters
from hf_scaffold.counting.counts import PreTokenCounts, PreTokenizerLike
from hf_scaffold.errors import ConfigurationError, CorpusError
from hf_scaffold.lifecycle.conversion import agreements, like, public_merges, public_model, scaffold_of
from hf_scaffold.lifecycle.models import Model, as_fast_or_scaffold, counts_for, whole_model
from hf_scaffold.text.corpus import Corpus
from hf_scaffold.text.pre_tokenizers import get_pre_tokenizer
from hf_scaffold.training.parts import derive_demolish_map
from hf_scaffold.training.trainer import hardly_reached, why_stopped

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast


@knows_its_arguments
def extend(
    tokenizer: Any,
    corpus: Corpus | PreTokenCounts,
    vocab_size: int,
    *,
    min_frequency: int = 0,
    scaffold: bool = True,
    pre_tokenizer: PreTokenizerLike | None = None,
    new_characters: int = 0,
    every_split: bool = False,
    text_field: str = "text",
    num_workers: int | None = None,
    show_progress: bool | Callable[[int, int | None], object] = False,
) -> ScaffoldTokenizerFast:
    """Go on training a tokenizer on new text. Ids stay as they are; new tokens have the next ones.

    The old merges come first, and the old tokens are fixed: none becomes a scaffold. The new ones are what
    Scaffold-BPE chooses on the new text. A scaffold that the tokenizer has already may become one of them.

    Args:
        tokenizer: A BPE tokenizer of transformers or `tokenizers`, Scaffold-BPE or not; or a folder, name or
            file of one, as for `audit_tokenizer`.
        corpus: Text as for `count`, split as the tokenizer does; or PreTokenCounts that were.
        vocab_size: Ids to have in the end, added tokens included.
        min_frequency: Stop before merging a pair that occurs less often.
        scaffold: False: none of the new tokens is a scaffold either, as in plain BPE.
        pre_tokenizer: What splits the text to learn from, as for `count`, after the tokenizer's own
            normalizer. None: as the tokenizer does. Those of Llama 2, Mistral and Gemma don't split at all,
            so new tokens may span words, which "metaspace" prevents. Raw agreement is then not measured.
        new_characters: Give tokens to at most this many characters of the text that have none, the most
            frequent ones. Without a token a character goes on to be unknown, or bytes, and merges with
            nothing: a vocabulary of characters needs this for another script.
        every_split: As for `TrainingSettings`, whatever the tokenizer has.
        text_field, num_workers, show_progress: As for `train_tokenizer`.
    Returns:
        ScaffoldTokenizerFast: with pipeline, special tokens, template and settings of the old one. Smaller
        than vocab_size where candidates run out, with a warning.
    Raises:
        ConfigurationError: the model is not BPE, has that many ids already, or no room for new characters;
            or the counts are of another pre-tokenizer.
        CorpusError: nothing of the text is in the vocabulary.
    Cost: as `train`, to which encoding the distinct pre-tokens by the old merges adds little. Where tokens
        have several rules, as those made of tiktoken's files do, up to three or four times as long.
    Example:
        >>> import hf_scaffold as hs
        >>> old = hs.train_tokenizer(["pug hugs", "hug pug"], vocab_size=259)
        >>> new = hs.extend(old, ["Arizona", "Arizona's zone"], vocab_size=263)
        >>> [new.convert_ids_to_tokens(i) for i in range(len(old), len(new))], new.tokenize("Arizona pug")
        (['Arizona', "'s", 'Ġzon', 'Ġzone'], ['Arizona', 'Ġ', 'pug'])
    """
    vocab_size, min_frequency = whole("vocab_size", vocab_size, 1), whole("min_frequency", min_frequency, 0)
    new_characters = whole("new_characters", new_characters, 0)
    scaffold, every_split = flag("scaffold", scaffold), flag("every_split", every_split)
    show_progress = progress(show_progress, "tokens, vocab_size")
    fast = as_fast_or_scaffold(tokenizer)
    model, scaffolds = whole_model(fast)
    n_ids = max(fast.get_vocab().values()) + 1
    if vocab_size <= n_ids:
        raise ConfigurationError(
            f"vocab_size is {vocab_size:,}, but the tokenizer has {n_ids:,} ids already; raise vocab_size"
        )
    own = model.pre_tokenizer
    if pre_tokenizer is not None:
        model = replace(model, pre_tokenizer=get_pre_tokenizer(pre_tokenizer, own.normalizer, own.alphabet))
    counts = counts_for(model, corpus, text_field, num_workers)
    n_less = n_ids - len(model.tokens) + len(scaffolds)  # ids of nothing, or of added tokens alone
    model = _with_characters(model, counts, new_characters, vocab_size - n_ids)
    loop = _loop(model, scaffolds, counts, vocab_size - n_ids, min_frequency, scaffold)
    with progress_shown(show_progress, "Extending", " tokens") as report:
        outcome = loop.run(vocab_size - n_less, report and (lambda done: report(done + n_less, vocab_size)))
    loop.finish()
    if outcome != "vocab_size":
        reached = loop.scaffolds.count(False) + n_less
        why = why_stopped(outcome, min_frequency)
        warn(f"the vocabulary has {reached:,} ids instead of {vocab_size:,}: {why}")
    measured = counts if counts.pre_tokenizer == own else None
    return _extended(fast, n_ids, model, loop, measured, every_split)


def _with_characters(model: Model, counts: PreTokenCounts, most: int, room: int) -> Model:
    """The model with tokens for the most frequent characters that have none, in each place where they occur.

    Args:
        most: How many characters.
        room: For how many tokens.
    """
    if not most:
        return model
    characters = Characters.of(counts, model.affixes)
    known = model.vocab.keys() | model.added
    lacking = {characters.symbol(key) for key in characters.occurring_keys} - known
    forms = {
        character: lacking.intersection(model.affixes.forms(character)) for character in characters.occurring
    }
    frequency = characters.frequencies(counts.counts)
    chosen = sorted(filter(forms.get, forms), key=lambda character: (-frequency[character], character))[:most]
    fresh = sorted({*chain.from_iterable(map(forms.__getitem__, chosen))}, key=lambda s: (len(s) > 1, s))
    if len(fresh) > room:
        raise ConfigurationError(
            f"new_characters is {most:,}, which takes {len(fresh):,} tokens, but vocab_size leaves room for "
            f"{room:,}; raise it, or lower new_characters"
        )
    first = max(model.vocab.values(), default=-1) + 1
    return replace(model, vocab=model.vocab | {symbol: first + i for i, symbol in enumerate(fresh)})


def _loop(
    model: Model,
    scaffolds: list[str],
    counts: PreTokenCounts,
    n_new: int,
    min_frequency: int,
    scaffold: bool,
) -> MergeLoop:
    """The training loop, over the text as the old merges encode it."""
    symbols, offsets, weights = _encoded(model, counts)
    first_rules = model.affixes.first_rules(model.merges)
    marked = model.rows([first_rules[token] for token in scaffolds])
    spells_affixes = Characters.of(counts, model.affixes).spell_affixes()
    kind = MergeLoop if _is_unambiguous(model) and not spells_affixes else AmbiguousMergeLoop
    return kind(
        symbols,
        offsets,
        weights,
        tokens=[token.encode() for token in model.tokens],
        n_special=len(model.control),
        prefix_length=len(model.affixes.prefix.encode()),
        min_frequency=min_frequency,
        max_token_length=0,
        scaffold=scaffold,
        rare_below=hardly_reached(counts, len(model.merges) + n_new),
        scaffolds=np.roll(marked, 1, axis=1),
    )


def _is_unambiguous(model: Model) -> bool:
    """Whether a string is only ever built in one way: each by one rule, after those of its parts."""
    known = {token for token in model.tokens if model.is_symbol(token) and token not in model.control}
    for pair, token in zip(model.merges, model.made, strict=True):
        if token in known or not known.issuperset(pair):
            return False
        known.add(token)
    return len(known) + len(model.control) == len(model.tokens)


def _encoded(
    model: Model, counts: PreTokenCounts
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """The text as numbers of tokens, cut where nothing merges: numbers, offsets and counts for the loop."""
    ids, ends = model.encoder(model.merges).encode(counts.data, counts.offsets)
    rows = np.repeat(np.arange(len(counts)), np.diff(ends))
    is_cut = ids < len(model.control)
    if model.wholes:
        is_cut |= np.isin(rows, [row for row, pretoken in enumerate(counts) if pretoken in model.wholes])
    segments = (rows + np.cumsum(is_cut))[~is_cut]
    ids, rows = ids[~is_cut], rows[~is_cut]
    if not len(ids):
        raise CorpusError("nothing of the text is in the tokenizer's vocabulary")
    starts = np.flatnonzero(np.diff(segments, prepend=-1))
    return ids, np.append(starts, len(ids)), counts.counts[rows[starts]]


def _extended(
    fast: PreTrainedTokenizerFast,
    n_ids: int,
    old: Model,
    loop: MergeLoop,
    counts: PreTokenCounts | None,
    every_split: bool,
) -> ScaffoldTokenizerFast:
    """The tokenizer that the loop has made; raw agreement is measured on `counts`, if there are any."""
    tokens = [token.decode() for token in loop.tokens]
    merges = [*old.merges, *((tokens[left], tokens[right]) for left, right in loop.merges)]
    hidden = [token for token, is_scaffold in zip(tokens, loop.scaffolds, strict=True) if is_scaffold]
    demolish = derive_demolish_map(merges, hidden, old.affixes)
    # Added tokens are in the model's vocabulary, too: else `tokenizers` gives them ids behind all others.
    ids = {token: token_id for token, token_id in fast.get_vocab().items() if token not in demolish}
    fresh = [token for token in tokens if token not in ids and token not in demolish]
    ids |= {token: n_ids + i for i, token in enumerate(fresh)}
    vocab = dict(sorted(ids.items(), key=lambda item: item[1]))
    every = vocab | {token: n_ids + len(fresh) + i for i, token in enumerate(demolish)}
    model = replace(old, vocab=every, merges=merges)
    frequencies = dict(zip(tokens, loop.frequencies, strict=True))
    raw_merges = public_merges(model, vocab, frequencies, every_split)
    scaffold = scaffold_of(merges, demolish)
    if counts is not None:
        scaffold |= agreements(model, vocab, raw_merges, demolish, counts)
    if unused := [token for token in vocab if not model.can_be_made(token)]:
        scaffold["unused"] = unused
    return like(fast, public_model(model, vocab, raw_merges), scaffold, np.arange(n_ids))
