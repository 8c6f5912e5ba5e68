"""The parts of an artifact, and what follows from them alone."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_scaffold.text.byte_level import SYMBOL_TO_BYTE
from hf_scaffold.text.pretokenizers import Pretokenizer, get_pretokenizer
from hf_scaffold.text.symbols import BYTE_TOKENS, Affixes, Pair
from hf_scaffold.training.log import TrainingLog

__all__ = ["AGREEMENTS", "CHARACTER_SETTINGS", "Parts"]

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
    pretokenizer: Pretokenizer = field(default_factory=get_pretokenizer)
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
        return self.pretokenizer.alphabet == "chars"

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
