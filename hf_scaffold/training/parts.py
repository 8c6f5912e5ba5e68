"""The parts of an artifact, and what follows from them alone."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_scaffold._core import trainer
from hf_scaffold._core.pretoken_encoder import PretokenEncoder
from hf_scaffold.errors import ArtifactError
from hf_scaffold.methods.steps import Step, compiled_steps
from hf_scaffold.text.byte_level import SYMBOL_TO_BYTE, all_symbols_to_bytes, ids_of_bytes, symbols_to_bytes
from hf_scaffold.text.pre_tokenizers import PreTokenizer, get_pre_tokenizer
from hf_scaffold.text.symbols import BYTE_TOKENS, NO_AFFIXES, Affixes, Pair
from hf_scaffold.training.log import TrainingLog

CHARACTER_SETTINGS = (
    "unk_token",
    "fuse_unk",
    "byte_fallback",
    "continuing_subword_prefix",
    "end_of_word_suffix",
)

AGREEMENTS = ("raw_agreement", "raw_agreement_merges_only", "raw_agreement_unseen")


@dataclass(frozen=True, repr=False)
class Parts:
    """What a `ScaffoldBPE` is made of; its arguments are explained there."""

    merges: list[Pair]
    vocab: dict[str, int]
    demolish_map: dict[str, tuple[str, ...]]
    special_tokens: list[str] = field(default_factory=list)
    pre_tokenizer: PreTokenizer = field(default_factory=get_pre_tokenizer)
    raw_splits: dict[str, Pair] = field(default_factory=dict)
    raw_agreement: float | None = None
    stop_reason: str | None = None
    unk_token: str | None = None
    fuse_unk: bool = False
    byte_fallback: bool = False
    continuing_subword_prefix: str | None = None
    end_of_word_suffix: str | None = None
    training: dict[str, Any] | None = None
    log: TrainingLog | None = field(default=None, compare=False)
    raw_agreement_merges_only: float | None = None
    raw_agreement_unseen: float | None = None
    raw_merges: list[Pair] | None = None
    steps: list[Step] | None = None

    @property
    def vocab_size(self) -> int:
        """|V|: the tokens with a public id."""
        return len(self.vocab) - len(self.demolish_map)

    @cached_property
    def affixes(self) -> Affixes:
        """How tokens are spelled: the prefix and the suffix, empty for None."""
        return Affixes(self.continuing_subword_prefix or "", self.end_of_word_suffix or "")

    @property
    def by_character(self) -> bool:
        """Whether the alphabet is characters rather than bytes."""
        return self.pre_tokenizer.alphabet == "chars"

    @cached_property
    def merged_tokens(self) -> list[str]:
        """The token that each rule makes, in rank order."""
        return self.affixes.join_all(self.merges)

    @cached_property
    def rules(self) -> NDArray[np.int32]:
        """The merges as rows of ids in `vocab`: left, right and merged token."""
        return self.as_ids(self.merges, self.merged_tokens)

    def as_ids(self, merges: Sequence[Pair], made: Sequence[str]) -> NDArray[np.int32]:
        """Rules as rows of left, right and merged token."""
        rows = np.empty((len(merges), 3), np.int32)
        id_of = self.vocab.__getitem__
        pairs = np.fromiter(map(id_of, chain.from_iterable(merges)), np.int32, 2 * len(merges))
        rows[:, :2] = pairs.reshape(-1, 2)
        rows[:, 2] = np.fromiter(map(id_of, made), np.int32, len(merges))
        return rows

    @property
    def fixed_tokens(self) -> list[str]:
        """What text never merges into: the special tokens, and those of bytes with byte_fallback."""
        return [*self.special_tokens, *(BYTE_TOKENS if self.byte_fallback else ())]

    @cached_property
    def symbols(self) -> Set[str]:
        """The tokens that are one symbol; where text spells affixes, a merged token may look like one."""
        if not self.by_character:
            return self.vocab.keys() & SYMBOL_TO_BYTE.keys()
        return {token for token in self.vocab if self.affixes.readings(token)}

    @cached_property
    def tokens(self) -> list[str]:
        """The normal tokens; the position is the public id."""
        return list(self.vocab)[: self.vocab_size]

    @cached_property
    def scaffold_tokens(self) -> list[str]:
        """The scaffold tokens in the order of creation."""
        return list(self.vocab)[self.vocab_size :]

    @property
    def raw_agreements(self) -> dict[str, float]:
        """raw_agreement and what follows it by name, but those that were never measured."""
        shares = {name: getattr(self, name) for name in AGREEMENTS}
        return {name: share for name, share in shares.items() if share is not None}


class Encoders(Parts):
    """The encoders of pre-tokens that the parts make: the exact one, and those of a plain BPE engine."""

    @cached_property
    def pretoken_encoder(self) -> PretokenEncoder:
        """The exact encoder, over arrays of pre-tokens."""
        if self.steps is None:
            return self._pretoken_encoder(self.rules, self._demolished_ids, {}, self.vocab)
        steps = compiled_steps(self.steps, self.vocab, len(self.affixes.prefix))
        return self._pretoken_encoder(
            steps.rules, steps.replacements, {}, self.vocab, steps.history, steps.again
        )

    @cached_property
    def expanded_pretoken_encoder(self) -> PretokenEncoder:
        """The first step alone, over arrays of pre-tokens: the ids in `vocab`, scaffold tokens included."""
        if self.steps is not None:
            return self.pretoken_encoder  # nothing is demolished afterwards
        return self._pretoken_encoder(self.rules, {}, {}, self.vocab)

    @cached_property
    def raw_pretoken_encoder(self) -> PretokenEncoder:
        """The encoder that a plain BPE engine makes of `raw_model`, over arrays of pre-tokens."""
        return self._pretoken_encoder(self._raw_rules, {}, self.raw_wholes, self.tokens)

    def raw_merging_pretoken_encoder(self, n_rules: int | None = None) -> PretokenEncoder:
        """The same of an engine that doesn't know `ignore_merges`; n_rules as below."""
        n_tokens = None if n_rules is None else self._n_tokens_after(n_rules)
        return self._pretoken_encoder(self._raw_rules_among(n_tokens), {}, {}, self.tokens)

    def encoders_without_last_rules(self, n_rules: int) -> tuple[PretokenEncoder, PretokenEncoder]:
        """`pretoken_encoder` and `raw_pretoken_encoder` as if training had stopped after n_rules.

        What a scaffold token is demolished to stays the same.
        """
        n_tokens = self._n_tokens_after(n_rules)
        wholes = {whole: token_id for whole, token_id in self.raw_wholes.items() if token_id < n_tokens}
        return (
            self._pretoken_encoder(self.rules[:n_rules], self._demolished_ids, {}, self.vocab),
            self._pretoken_encoder(self._raw_rules_among(n_tokens), {}, wholes, self.tokens),
        )

    def _n_tokens_after(self, n_rules: int) -> int:
        """How many normal tokens there are without those that only later rules make."""
        lost = np.setdiff1d(self.rules[n_rules:, 2], self.rules[:n_rules, 2])
        # Normal tokens are in order of creation, so the ones that remain come first.
        return self.vocab_size - int(np.count_nonzero(lost < self.vocab_size))

    def _raw_rules_among(self, n_tokens: int | None) -> NDArray[np.int32]:
        """The raw model's rules for the first n_tokens."""
        return self._raw_rules if n_tokens is None else self._raw_rules[self._raw_rules[:, 2] < n_tokens]

    @cached_property
    def _raw_rules(self) -> NDArray[np.int32]:
        """The raw model's rules: `raw_merges`, or of each normal token its first rule or its split."""
        if self.raw_merges is not None:
            return self.as_ids(self.raw_merges, self.affixes.join_all(self.raw_merges))
        ranks, n_tokens = np.arange(len(self.rules), dtype=np.int32), self.vocab_size
        first = np.full(len(self.vocab), -1, np.int32)
        first[self.rules[::-1, 2]] = ranks[::-1]
        rows = self.rules[first[:n_tokens]] if len(ranks) else np.zeros((n_tokens, 3), np.int32)
        splits = self.as_ids([*self.raw_splits.values()], [*self.raw_splits])
        rows[splits[:, 2]] = splits
        is_made = first[:n_tokens] >= 0
        is_made[splits[:, 2]] = True
        return rows[is_made & (rows[:, 0] < n_tokens) & (rows[:, 1] < n_tokens)]

    @property
    def merges_as_raw_model(self) -> bool:
        """Whether `pretoken_encoder` is the raw model's, but for pre-tokens that this takes whole."""
        return self.steps is None and not self.demolish_map and np.array_equal(self.rules, self._raw_rules)

    @cached_property
    def _demolished_ids(self) -> dict[int, list[int]]:
        return {
            self.vocab[token]: [self.vocab[part] for part in parts]
            for token, parts in self.demolish_map.items()
        }

    @cached_property
    def raw_wholes(self) -> dict[bytes, int]:
        """The pre-tokens that a plain BPE engine takes whole."""
        if not self.affixes.takes_wholes:
            return {}
        first = len(self.fixed_tokens)
        others = self.texts_of(range(first, self.vocab_size))
        return self.texts_of_fixed_tokens | {whole: token_id for token_id, whole in enumerate(others, first)}

    def texts_of(self, ids: Iterable[int]) -> list[bytes]:
        """The text of tokens, affixes included. Special tokens may not have any."""
        tokens = [*self.vocab]
        wanted = [tokens[token_id] for token_id in ids]
        return [token.encode() for token in wanted] if self.by_character else all_symbols_to_bytes(wanted)

    @property
    def texts_of_fixed_tokens(self) -> dict[bytes, int]:
        """The text of each token that text never merges into, if it has any."""
        if self.by_character:
            return {token.encode(): token_id for token_id, token in enumerate(self.fixed_tokens)}
        spelled = [token for token in self.special_tokens if SYMBOL_TO_BYTE.keys() >= set(token)]
        return {symbols_to_bytes(token): self.vocab[token] for token in spelled}

    def _pretoken_encoder(
        self,
        rows: NDArray[np.int32],
        replacements: dict[int, list[int]],
        wholes: dict[bytes, int],
        tokens: Iterable[str],
        history: tuple[NDArray[np.int32], NDArray[np.int32]] | None = None,
        again: NDArray[np.int32] | None = None,
    ) -> PretokenEncoder:
        vocab = self.vocab
        if not self.by_character:
            return PretokenEncoder(
                ids_of_bytes(vocab), rows, replacements, wholes, history=history, again=again
            )
        characters = self.affixes.characters((token, vocab[token]) for token in tokens)
        unknown = -1 if self.unk_token is None else vocab[self.unk_token]
        first_byte = len(self.special_tokens) if self.byte_fallback else -1
        return PretokenEncoder(
            characters, rows, replacements, wholes, unknown, self.fuse_unk, first_byte, history, again
        )

    @cached_property
    def _raw_merges(self) -> list[Pair]:
        tokens = self.tokens
        return [(tokens[left], tokens[right]) for left, right in self._raw_rules[:, :2].tolist()]


# ---- what stands for a scaffold token, and for rules that need one


def derive_demolish_map(
    merges: Sequence[Pair], scaffold_tokens: Iterable[str], affixes: Affixes = NO_AFFIXES
) -> dict[str, tuple[str, ...]]:
    """For each scaffold token, in the order given, the normal tokens it is demolished to.

    A scaffold token is replaced by what its two parts are replaced by; of several rules for it, the one
    with the shortest result counts, then the one of lowest rank. A result spells the token: all of it but
    the first begins with the prefix.

    Example:
        >>> derive_demolish_map([("n", "a"), ("z", "o"), ("zo", "na")], ["zo", "zona"])
        {'zo': ('z', 'o'), 'zona': ('z', 'o', 'na')}
    """
    scaffolds = list(scaffold_tokens)
    rules: dict[str, list[Pair]] = {token: [] for token in scaffolds}
    for token, pair in zip(affixes.join_all(merges), merges, strict=True):
        if token in rules:
            rules[token].append(pair)
    kinds = _demolished_lengths(rules, affixes.prefix)
    for token in scaffolds:
        if kinds[0][token] == math.inf:
            raise ArtifactError(f"no merge makes the scaffold token {token!r}")
    demolished: list[dict[str, tuple[str, ...]]] = [{} for _ in kinds]
    for kind in reversed(range(len(kinds))):  # what stands first needs what stands later, not the other way
        lengths, results = kinds[kind], demolished[kind]
        for token in sorted(scaffolds, key=lengths.__getitem__):  # parts are shorter, so they come before
            if lengths[token] == math.inf:
                break
            pairs = rules[token]
            if len(pairs) > 1:
                pairs = [min(pairs, key=lambda pair: lengths.get(pair[0], 1) + kinds[-1].get(pair[1], 1))]
            left, right = pairs[0]
            results[token] = results.get(left, (left,)) + demolished[-1].get(right, (right,))
    return {token: demolished[0][token] for token in scaffolds}


def _demolished_lengths(rules: Mapping[str, Sequence[Pair]], prefix: str) -> list[dict[str, float]]:
    """How many normal tokens stand for a scaffold token: as a first part and, with a prefix, as a later one.

    Where text spells the prefix, a token may have rules for both; else they don't differ. Parts that are not
    in a dict count 1; infinity means that the part can't stand there.

    Cost: one look at each rule. Rules come in any order, but what a token adds to a spelling, all of it as a
    first part and all but the prefix as a later one, is longer than what its parts add; so the shorter ones
    go first. Where a part adds nothing, the other one is the token itself: such a rule shortens nothing.
    """
    first: dict[str, float] = dict.fromkeys(rules, math.inf)
    later = first
    if prefix:
        parts = {left for pairs in rules.values() for left, _ in pairs}
        later = {**first, **dict.fromkeys((part for part in parts if not part.startswith(prefix)), math.inf)}
    kinds = [first, later] if prefix else [first]
    places = [(len(token) - kind * len(prefix), kind, token) for token in rules for kind in range(len(kinds))]
    for _, kind, token in sorted(places, key=itemgetter(0)):
        lengths, least = kinds[kind], math.inf
        for left, right in rules[token]:
            length = lengths.get(left, 1) + later.get(right, 1)
            if length < least:
                least = length
        lengths[token] = least
    return kinds


def raw_splits(
    merges: list[Pair], tokens: list[str], frequency: dict[str, int], affixes: Affixes
) -> dict[str, Pair]:
    """For normal tokens whose first rule needs a scaffold: the split into the two strongest normal tokens.

    A split is as strong as the rarer of its parts at the end of training; on a tie the shorter
    left part wins.
    """
    rules, normal = affixes.first_rules(merges), set(tokens)
    lost = {token for token, (left, right) in rules.items() if left not in normal or right not in normal}
    rows = np.array([row for row, token in enumerate(tokens) if token in lost], np.int64)
    frequencies = np.fromiter((frequency.get(token, 0) for token in tokens), np.int64, len(tokens))
    return strongest_splits(tokens, [token.encode() for token in tokens], frequencies, rows, affixes)


def strongest_splits(
    tokens: Sequence[str],
    texts: list[bytes],
    frequencies: NDArray[np.int64],
    rows: NDArray[np.int64],
    affixes: Affixes,
) -> dict[str, Pair]:
    """The splits of some of the tokens, by their numbers, into those that have a frequency of 0 or more."""
    affixes_as_bytes = affixes.prefix.encode(), affixes.suffix.encode()
    parts = trainer.strongest_splits(texts, frequencies, rows, *affixes_as_bytes).T.tolist()
    found = zip(rows.tolist(), *parts, strict=True)
    return {tokens[row]: (tokens[left], tokens[right]) for row, left, right in found if left >= 0}


def every_split(merges: Sequence[Pair], tokens: Iterable[str], affixes: Affixes = NO_AFFIXES) -> list[Pair]:
    """Rules of plain BPE over the normal tokens alone; several for a token that needs scaffold tokens.

    A token that its first rules make of symbols without scaffold tokens keeps its rules. Any other gets a
    rule for every split into two tokens that such rules make. Its rank is that of the merge which removes
    the boundary between the two where the token is made with scaffold tokens. So boundaries vanish in the
    same order as in exact encoding.

    Args:
        merges: All rules in rank order.
        tokens: The normal tokens; their order decides between rules of one rank.
    Cost: for each token to split, a look-up for each distinct length of a token.
    Example:
        Of "h u g", the boundary between u and g goes first:

        >>> every_split([("u", "g"), ("h", "ug"), ("h", "u")], ["g", "h", "u", "hug", "hu"])
        [('hu', 'g'), ('h', 'u')]
    """
    made, order = affixes.join_all(merges), {token: place for place, token in enumerate(tokens)}
    first_rank = dict(zip(reversed(made), reversed(range(len(made))), strict=True))
    parts = order.keys() & {*chain.from_iterable(merges)}
    reached = {part for part in parts if part not in first_rank or affixes.readings(part)}  # the symbols
    ranks: dict[str, dict[Pair, int]] = {token: {} for token in order if token in first_rank}
    for rank, (token, (left, right)) in enumerate(zip(made, merges, strict=True)):
        if token in ranks and left in order and right in order:
            ranks[token][left, right] = rank
            if left in reached and right in reached and rank == first_rank[token]:
                reached.add(token)
    lengths = sorted({len(token) for token in order})

    def remover(token: str, boundary: int) -> int:
        """The rank of the merge that removes the boundary after so many characters of a token."""
        found = len(merges)
        # A part has a lower rank, but in rules that anyone may write, and where a string is a symbol, too.
        while (rank := first_rank.get(token, found)) < found:
            found, (left, right) = rank, merges[rank]
            if boundary < len(left):
                token = left
            elif boundary > len(left):
                token, boundary = right, boundary - len(left) + len(affixes.prefix)
            else:
                break
        return found

    # What is split into was made of fewer symbols, so it is known by then whether rules make it.
    for token in sorted(ranks.keys() - reached, key=lambda token: (_n_symbols(token, affixes), order[token])):
        splits = [pair for pair in _spellings(token, lengths, affixes) if reached.issuperset(pair)]
        kept = {pair: rank for pair, rank in ranks[token].items() if reached.issuperset(pair)}
        ranks[token] = kept | {pair: remover(token, len(pair[0])) for pair in splits}
        if ranks[token]:
            reached.add(token)
    rules = [(rank, order[token], pair) for token, pairs in ranks.items() for pair, rank in pairs.items()]
    return [pair for _, _, pair in sorted(rules)]


def _n_symbols(token: str, affixes: Affixes) -> int:
    return len(token) - len(affixes.prefix) * token.startswith(affixes.prefix)


def _spellings(token: str, lengths: Sequence[int], affixes: Affixes) -> Iterator[Pair]:
    """Every two strings that spell a token, of these lengths; either has a character besides affixes."""
    prefix, suffix = affixes
    first = len(prefix) * token.startswith(prefix) + 1
    last = len(token) - len(suffix) * token.endswith(suffix) - 1
    for cut in lengths[bisect_left(lengths, first) : bisect_right(lengths, last)]:
        yield token[:cut], prefix + token[cut:]
