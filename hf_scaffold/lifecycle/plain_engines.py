"""What plain BPE other programs run in place of a tokenizer, and whether that gives the same ids."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from tokenizers import Tokenizer

from hf_scaffold.counting.counts import PreTokenCounts
from hf_scaffold.errors import ConfigurationError
from hf_scaffold.formats import sentencepiece
from hf_scaffold.lifecycle.conversion import agreements, hole
from hf_scaffold.lifecycle.models import Model, whole_model
from hf_scaffold.text.symbols import BYTE_TOKENS, NO_AFFIXES, Pair

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


class Engine(NamedTuple):
    """The plain BPE that a program runs in place of the tokenizer's own.

    Args:
        merges: In the order of ranks.
        takes_wholes: Whether it takes a pre-token that is a token whole.
    """

    merges: list[Pair]
    takes_wholes: bool


class Source:
    """A tokenizer to be written.

    Args:
        fast: It.
        raw: Whether other ids will do.
    """

    def __init__(self, fast: PreTrainedTokenizerFast, raw: bool = False) -> None:
        from hf_scaffold.tokenization_scaffold import backend_of

        self.fast, self.raw = fast, raw
        self.backend: Tokenizer = backend_of(fast)
        self.model, scaffolds = whole_model(fast)
        self.scaffolds = dict.fromkeys(scaffolds)
        self.ids: dict[str, int] = fast.get_vocab()
        self.added = {
            token.content: token for _, token in sorted(self.backend.get_added_tokens_decoder().items())
        }

    @cached_property
    def public(self) -> Model:
        """The model in tokenizer.json."""
        return Model.of(self.fast)

    @property
    def public_engine(self) -> Engine:
        return Engine(self.public.merges, bool(self.public.settings["ignore_merges"]))

    @cached_property
    def demolish(self) -> dict[str, list[str]]:
        return self.fast.scaffold["demolish"] if self.scaffolds else {}

    @property
    def order(self) -> dict[str, int]:
        """Each merged token's turn: the rank of its first rule."""
        first: dict[str, int] = {}
        for rank, token in enumerate(self.model.made):
            first.setdefault(token, rank)
        return first

    @property
    def tokens(self) -> list[str]:
        """All tokens with an id, by id; what is free is named after it."""
        named = [hole(token_id) for token_id in range(max(self.ids.values()) + 1)]
        for token, token_id in self.ids.items():
            named[token_id] = token
        return named

    @property
    def roles(self) -> dict[str, str]:
        names = {role: getattr(self.fast, f"{role}_token") for role in ("bos", "eos", "pad")}
        return {role: str(token) for role, token in names.items() if token in self.added}

    def type_of(self, token: str) -> int:
        """As SentencePiece and llama.cpp number them."""
        if token == self.model.settings["unk_token"]:
            return sentencepiece.UNKNOWN
        if token in self.added:
            return sentencepiece.CONTROL if self.added[token].special else sentencepiece.USER_DEFINED
        if self.model.has_bytes and token in BYTE_TOKENS:
            return sentencepiece.BYTE
        # Nothing is made of what text never becomes.
        return sentencepiece.NORMAL if self.model.can_be_made(token) else sentencepiece.CONTROL

    def require(self, fault: str | None, program: str) -> None:
        """Refuse what the program would encode otherwise, unless that will do."""
        if fault is not None and not self.raw:
            raise ConfigurationError(
                f"{program} would give other ids: {fault}. raw=True writes the file all the same"
            )

    def agreement(self, engine: Engine | None, counts: PreTokenCounts | None) -> float | None:
        """How often an engine gives the same ids; None stands for one that always does."""
        if engine is None:
            return 1.0
        names = {False: "raw_agreement_merges_only", True: "raw_agreement"}
        name = names[engine.takes_wholes]
        if counts is not None:
            vocab = self.public.vocab
            return agreements(self.model, vocab, engine.merges, self.demolish, counts)[name]
        if self.scaffolds and engine.merges == self.public.merges:
            share: float | None = self.fast.scaffold.get(name)
            return share
        return None


# ---- whether ids stay


def fault_of_rules(model: Model, order: Mapping[str, int]) -> str | None:
    """Why a program that knows tokens, but no rules, would give other ids; None: it gives the same.

    tiktoken and SentencePiece merge any two neighbours that together are a token, those first whose token
    comes first. Rules do the same if they make tokens in that order, each of earlier ones, and make each
    token of its own text. For a string is split alike wherever it stands between boundaries that stay. So
    when a token's turn comes, its string is everywhere in the two parts that it is in by itself then, those
    of its rule; and never later, as all of it is merged.

    Args:
        model: With all merges.
        order: Each merged token's turn.
    """
    if model.affixes != NO_AFFIXES:
        return "its tokens have a prefix or suffix"
    if both := model.added.intersection(model.made):
        return f"{min(both)!r} is an added token, and one that merges make"

    def is_early(part: str, turn: int) -> bool:
        return model.is_symbol(part) or order.get(part, turn) < turn

    rules = [
        (pair, order[token])
        for pair, token in zip(model.merges, model.made, strict=True)
        if all(is_early(part, order[token]) for part in pair)
    ]
    turns = [turn for _, turn in rules]
    for (pair, turn), last in zip(rules, accumulate(turns, max), strict=True):
        if turn < last:
            return f"{''.join(pair)!r} comes before a token that is merged before it"
    return fault_of_tokens(model, [pair for pair, _ in rules])


def fault_of_tokens(model: Model, rules: list[Pair]) -> str | None:
    """A token that rules don't make of its own text, so that taking it whole is another thing."""
    if model.wholes:
        return f"{next(iter(model.wholes.values()))!r} is only made by taking a pre-token whole"
    tokens = [*model.first_rules]
    texts = [model.text_of(token) or b"" for token in tokens]
    ids, ends = model.encoder(rules).encode(b"".join(texts), np.cumsum([0, *map(len, texts)]))
    alone = np.diff(ends) == 1
    alone[alone] = ids[ends[:-1][alone]] == np.array([model.number[t] for t in tokens], np.int64)[alone]
    return None if alone.all() else f"its merges don't make {tokens[int(np.argmin(alone))]!r} of its own text"


def every_rule(tokens: Mapping[str, int]) -> list[Pair]:
    """What merges of programs that know no rules come to."""
    from transformers.convert_slow_tokenizer import generate_merges

    merges: list[Pair] = generate_merges(tokens, None)
    return merges
