"""Training: from pre-token counts to a Scaffold-BPE artifact."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hf_scaffold._core.trainer import AmbiguousMergeLoop, MergeLoop, PickyMergeLoop
from hf_scaffold._utils.arguments import (
    knows_its_arguments,
    progress_shown,
    shortened,
    takes_arguments_of,
    warn,
)
from hf_scaffold._utils.process import no_garbage_collection
from hf_scaffold.counting.characters import Characters, choose_alphabet
from hf_scaffold.counting.counts import PreTokenCounts
from hf_scaffold.errors import ConfigurationError, CorpusError, VocabSizeError
from hf_scaffold.methods.steps import Removed, Step, steps_with_merging_again
from hf_scaffold.methods.surplus import WITH_SURPLUS, Removal, removal
from hf_scaffold.text.pre_tokenizers import PreTokenizer
from hf_scaffold.text.symbols import BYTE_TOKENS, NO_AFFIXES, Pair
from hf_scaffold.training.artifact import ScaffoldBPE
from hf_scaffold.training.log import TrainingLog, with_merges
from hf_scaffold.training.parts import derive_demolish_map, every_split, strongest_splits
from hf_scaffold.training.settings import (
    TrainingOptions,
    TrainingSettings,
    checked_sizes,
    settings_from,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

_NO_RULE = -1  # that of fixed tokens
_LONGEST = 2**32 - 1  # symbols a token may have; a training run holds no more


@knows_its_arguments
@takes_arguments_of(TrainingSettings)
def train(
    counts: PreTokenCounts,
    vocab_size: int | None = None,
    *,
    settings: TrainingSettings | None = None,
    **options: Unpack[TrainingOptions],
) -> ScaffoldBPE:
    """Learn Scaffold-BPE merges from pre-token counts.

    The result depends on the counts alone: not on their order, on shards or threads.

    Args:
        counts: Distinct pre-tokens with int64 counts > 0. Not modified.
        vocab_size: Tokens kept: special tokens + alphabet + normal tokens. Scaffold tokens come on top.
        settings: vocab_size and options as one object; those given besides it replace its own.
        **options: The other arguments of `TrainingSettings`, which says what they are.
    Returns:
        ScaffoldBPE. Smaller than vocab_size where candidates run out: then `stop_reason` says so, with a
        warning.
    Raises:
        ConfigurationError: vocab_size is below special tokens + alphabet (the message gives all three
            numbers), a special token is empty, doubled or a character of the alphabet, or an option does not
            go with the alphabet of the counts.
        CountOverflowError: a character occurs more than 2**63 - 1 times.
        TypeError: an argument of another type, such as a path in place of counts, or of an unknown name.
    Cost: memory of 10 to 13 bytes a symbol of the distinct pre-tokens, 12 a pre-token and 80 a pair; releases
        the GIL. Where a pre-token begins with continuing_subword_prefix or has end_of_word_suffix inside, so
        that different symbols spell the same token, it takes up to three or four times as long and as much.
    Example:
        >>> import hf_scaffold as hs
        >>> counts = hs.PreTokenCounts.from_mapping({"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5})
        >>> bpe = hs.train(counts, vocab_size=261)
        >>> bpe.merges
        [('u', 'g'), ('u', 'n'), ('h', 'ug'), ('p', 'un'), ('p', 'ug'), ('hug', 's'), ('b', 'un')]
        >>> bpe.scaffold_tokens
        ['ug', 'un']

    Source: Lian et al. 2024, "Scaffold-BPE", Algorithm 1 (arXiv:2404.17808); docs/algorithm.md decides its
        open points.
    """
    _require_counts(counts)
    chosen = settings_from(settings, vocab_size, **options)
    return _train(counts, [chosen.vocab_size], chosen)[0]


@knows_its_arguments
@takes_arguments_of(TrainingSettings)
def train_sizes(
    counts: PreTokenCounts,
    vocab_sizes: Iterable[int],
    *,
    settings: TrainingSettings | None = None,
    **options: Unpack[TrainingOptions],
) -> list[ScaffoldBPE]:
    """What `train` gives for several sizes, from one run, at about the cost of the largest.

    Args:
        counts: As for `train`.
        vocab_sizes: A list or array, in any order.
        settings, **options: As for `train`; the vocab_size of the settings doesn't count.
    Returns:
        One artifact a size, in their order.
    Raises: As `train`; ConfigurationError if there is no size.
    Example:
        >>> import hf_scaffold as hs
        >>> counts = hs.PreTokenCounts.from_mapping({"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5})
        >>> [bpe.vocab_size for bpe in hs.train_sizes(counts, [261, 258])]
        [261, 258]
    """
    _require_counts(counts)
    sizes = checked_sizes(vocab_sizes)
    return _train(counts, sizes, settings_from(settings, **options))


def _train(counts: PreTokenCounts, sizes: list[int], settings: TrainingSettings) -> list[ScaffoldBPE]:
    _check_settings_of_characters(settings, counts.pre_tokenizer)
    loop, n_fixed, encodes = _merge_loop(counts, sizes, settings)
    # |V| grows by at most one a round, and no step depends on the target size. So the loop passes through the
    # result for each smaller size, when |V| first equals it.
    artifacts: dict[int, ScaffoldBPE] = {}
    largest = settings.n_to_merge(max(sizes), n_fixed)
    with progress_shown(settings.show_progress, "Training", " tokens") as report:
        for size in sorted(set(sizes)):
            of_size = replace(settings, vocab_size=size)
            outcome = loop.run(
                settings.n_to_merge(size, n_fixed), report and (lambda done: report(done, largest))
            )
            if size == max(sizes):
                loop.finish()
            with no_garbage_collection():
                learned = _Learned.by(loop, of_size)
                artifact = _artifact(loop, learned, outcome, counts, of_size)
                of_loop = (loop, learned.removal.hidden) if encodes and learned.is_encoded else ()
                artifacts[size] = artifact.with_raw_agreement(counts, learned.occurrences, *of_loop)
    return [artifacts[size] for size in sizes]


def _require_counts(counts: Any) -> None:
    if isinstance(counts, PreTokenCounts):
        if not len(counts):
            raise CorpusError("there are no pre-tokens to train on")
        for parts in counts.parts:
            warn(
                f"only {len(parts.numbers)} of {parts.of} parts of a corpus are counted; merge in the others"
            )
        return
    hint = "count the corpus with hs.count(…) first, or take hs.train_tokenizer, which does"
    if isinstance(counts, Mapping):
        hint = "make them with hs.PreTokenCounts.from_mapping(…)"
    raise TypeError(f"counts must be PreTokenCounts, not {shortened(counts)}; {hint}")


# ---- before the loop


def _check_settings_of_characters(settings: TrainingSettings, pre_tokenizer: PreTokenizer) -> None:
    for name, value in settings.of_characters.items():
        if value and pre_tokenizer.alphabet != "chars":
            raise ConfigurationError(
                f"{name} needs an alphabet of characters; count the corpus with alphabet='chars'"
            )
    if settings.byte_fallback and (settings.affixes != NO_AFFIXES or pre_tokenizer.writes_bytes):
        raise ConfigurationError(
            "byte_fallback goes neither with affixes nor with a pre-tokenizer that writes bytes"
        )


def _merge_loop(
    counts: PreTokenCounts, sizes: list[int], settings: TrainingSettings
) -> tuple[MergeLoop, int, bool]:
    """The loop, ready to run; its fixed tokens; whether it encodes all of the counts as the encoder will."""
    corpus = Characters.of(counts, settings.affixes)
    characters = choose_alphabet(corpus, counts, settings.initial_alphabet, settings.limit_alphabet)
    is_whole = corpus.occurring <= characters
    if not is_whole:
        corpus = corpus.limited_to(characters)
    specials, byte_tokens = settings.all_special_tokens, BYTE_TOKENS if settings.byte_fallback else ()
    not_merged = [*specials, *byte_tokens]
    alphabet, ids = corpus.alphabet(characters, first_id=len(not_merged))
    _check_fixed_tokens(specials, [*byte_tokens, *alphabet], min(sizes))
    n_fixed = len(not_merged) + len(alphabet)
    kind: Callable[..., MergeLoop] = AmbiguousMergeLoop if corpus.spell_affixes() else MergeLoop
    encodes = is_whole and kind is not AmbiguousMergeLoop
    if kind is AmbiguousMergeLoop and settings.chosen_method in ("picky", "residue"):
        raise ConfigurationError(
            f"method={settings.method!r} can't train where the text spells the affixes; choose others"
        )
    if settings.chosen_method == "picky":
        kind = partial(PickyMergeLoop, threshold=settings.threshold)
    loop = kind(
        corpus.keys,
        corpus.offsets,
        counts.counts,
        tokens=[token.encode() for token in [*not_merged, *alphabet]],
        n_special=len(not_merged),
        prefix_length=len(settings.affixes.prefix.encode()),
        min_frequency=settings.min_frequency,
        max_token_length=min(settings.max_token_length or 0, _LONGEST),
        scaffold=settings.chosen_method == "scaffold",
        log=settings.log,
        rare_below=hardly_reached(counts, settings.n_to_merge(max(sizes), n_fixed) - n_fixed),
        ids=ids,
        scaffold_below=settings.scaffold_below,
    )
    return loop, n_fixed, encodes


def hardly_reached(counts: PreTokenCounts, n_normal: int) -> int:
    """A frequency that pairs hardly fall below before that many normal tokens are merged.

    As long as fewer merges were made than there are pre-tokens of some frequency, one of these is still in
    pieces, and its pairs are as frequent. A quarter more merges allows for those that made scaffold tokens.
    """
    rank = max(1, n_normal * 5 // 4)
    return int(np.partition(counts.counts, -rank)[-rank]) if rank <= len(counts) else 1


def _check_fixed_tokens(specials: list[str], alphabet: list[str], vocab_size: int) -> None:
    for position, token in enumerate(specials):
        if not token:
            raise ConfigurationError(f"special_tokens[{position}] is empty")
        if token in specials[:position]:
            raise ConfigurationError(f"special_tokens: {token!r} is there twice")
        if token in alphabet:
            raise ConfigurationError(
                f"special_tokens: {token!r} is a character of the alphabet; use a longer one"
            )
    smallest = len(specials) + len(alphabet)
    if vocab_size < smallest:
        raise VocabSizeError(
            f"vocab_size is {vocab_size}, but {len(specials)} special tokens and {len(alphabet)} characters "
            f"of the alphabet need {smallest} before the first merge; raise vocab_size",
            smallest,
        )


# ---- after the loop


class _Learned(NamedTuple):
    """What the loop holds after a run, by creation id, once the method has taken out what it takes out.

    Args:
        tokens, texts: Every token's string, and the same as UTF-8.
        merges: The rules in rank order, as strings.
        rules: int32 (n, 2): each token's first rule; -1 for fixed tokens.
        removal: Which tokens have no id, which are gone, and how often each token occurs.
        steps: Of PickyBPE, what was merged and removed in order; else None.
        is_encoded: Whether the loop has encoded the text, but for demolishing.
    """

    tokens: list[str]
    texts: list[bytes]
    merges: list[Pair]
    rules: NDArray[np.int32]
    removal: Removal
    steps: list[Step] | None
    is_encoded: bool

    @classmethod
    def by(cls, loop: MergeLoop, settings: TrainingSettings) -> _Learned:
        texts, rules = loop.tokens, loop.first_rules
        tokens = [text.decode() for text in texts]
        merges = [(tokens[left], tokens[right]) for left, right in loop.merges]
        frequencies = np.array(loop.frequencies, np.int64)
        if settings.chosen_method not in WITH_SURPLUS:
            none = np.zeros(len(tokens), bool)
            found = Removal(np.array(loop.scaffolds, bool), none, frequencies)
            steps = _steps(loop, tokens) if isinstance(loop, PickyMergeLoop) else None
            return cls(tokens, texts, merges, rules, found, steps, True)
        found = removal(settings.chosen_method, rules, frequencies, settings.vocab_size)
        gone = {tokens[token] for token in np.flatnonzero(found.dropped)}
        if gone:
            made = settings.affixes.join_all(merges)
            merges = [pair for pair, token in zip(merges, made, strict=True) if token not in gone]
        return cls(tokens, texts, merges, rules, found, None, settings.chosen_method == "trimmed")

    @property
    def occurrences(self) -> dict[str, int]:
        return dict(zip(self.tokens, self.removal.frequencies.tolist(), strict=True))


def _stop_reason(outcome: str, reached: int, settings: TrainingSettings) -> str | None:
    """Why training ended early, also as a warning; None if it didn't."""
    if outcome == "vocab_size" or reached >= settings.vocab_size:
        return None
    why = why_stopped(outcome, settings.min_frequency)
    reason = f"the vocabulary has {reached} tokens instead of {settings.vocab_size}: {why}"
    warn(reason)
    return reason


def why_stopped(outcome: str, min_frequency: int) -> str:
    """Why the loop ended before the vocabulary was full."""
    return {
        "candidates": "no pair of tokens is left to merge",
        "min_frequency": f"no pair of tokens occurs {min_frequency} times or more",
    }[outcome]


def _artifact(
    loop: MergeLoop, learned: _Learned, outcome: str, counts: PreTokenCounts, settings: TrainingSettings
) -> ScaffoldBPE:
    tokens, merges, rules = learned.tokens, learned.merges, learned.rules
    hidden, dropped, frequencies = learned.removal
    normal, scaffolds = np.flatnonzero(~(hidden | dropped)), np.flatnonzero(hidden)
    ids = np.concatenate([normal, scaffolds])  # creation ids, by id
    is_made = (rules[:, 0] != _NO_RULE) & ~dropped
    has_lost = hidden[rules].any(axis=1) & ~hidden & is_made
    needed = merges
    if len(merges) == np.count_nonzero(is_made):  # one rule a token, in the same order
        needed = [merges[rank] for rank in np.flatnonzero(hidden[is_made])]
    raw_splits, raw_merges = {}, None
    if settings.every_split:
        raw_merges = every_split(merges, [tokens[token] for token in normal], settings.affixes)
    else:
        strengths, lost = np.where(hidden, -1, frequencies), np.flatnonzero(has_lost)
        raw_splits = strongest_splits(tokens, learned.texts, strengths, lost, settings.affixes)
    demolished = derive_demolish_map(needed, [tokens[token] for token in scaffolds], settings.affixes)
    steps = learned.steps
    if settings.chosen_method == "residue":
        steps = steps_with_merging_again(merges, demolished, settings.affixes)
    return ScaffoldBPE.of_training(
        merges=merges,
        vocab={tokens[token]: token_id for token_id, token in enumerate(ids.tolist())},
        demolish_map=demolished,
        special_tokens=settings.all_special_tokens,
        pre_tokenizer=counts.pre_tokenizer,
        raw_splits=raw_splits,
        raw_merges=raw_merges,
        **settings.of_characters,
        stop_reason=_stop_reason(outcome, len(normal), settings),
        training=_record(counts, settings),
        log=_training_log(loop) if settings.log else None,
        steps=steps,
    )


def _steps(loop: PickyMergeLoop, tokens: list[str]) -> list[Step]:
    rows, parts = loop.history
    spelled = [tokens[part] for part in parts.tolist()]
    steps: list[Step] = []
    begin = 0
    for left, right, end in rows.tolist():
        if right >= 0:
            steps.append((tokens[left], tokens[right]))
        else:
            steps.append(Removed(tokens[left], tuple(spelled[begin:end])))
            begin = end
    return steps


def _record(counts: PreTokenCounts, settings: TrainingSettings) -> dict[str, Any]:
    """What a model card says of the training text: a function of counts and settings, without a date."""
    return {
        "pretokens": counts.total,
        "distinct_pretokens": len(counts),
        "bytes": counts.n_bytes,
        "alphabet": counts.pre_tokenizer.alphabet,
        "pretokenizer": counts.pre_tokenizer.preset,
        "settings": settings.recorded,
    }


def _training_log(loop: MergeLoop) -> TrainingLog:
    tokens = [token.decode() for token in loop.tokens]
    rows = (
        (
            kind,
            tokens[token],
            frequency,
            (tokens[left],) if right < 0 else (tokens[left], tokens[right]),
            head_frequency,
        )
        for kind, token, frequency, left, right, head_frequency in loop.events
    )
    return TrainingLog(tuple(with_merges(rows)), dict(zip(tokens, loop.frequencies, strict=True)))
