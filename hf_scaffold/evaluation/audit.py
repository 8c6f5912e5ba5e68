"""Which tokens of an existing BPE tokenizer are scaffolds on a text.

This goes beyond the paper, which only trains new vocabularies. The given merges are replayed on a text, and
every token that became a part of another is put to the test of training: is it worth its place?

In training, a place is worth the occurrences of the next candidate, the head of the queue. Given merges have
no queue, so the head is that of plain BPE trained on this text, after as many merges as the tokenizer has. A
merged token is a scaffold if it is a part of a rule that applies to the text and, after all merges, occurs
less often than the head. On the text that the merges were learned from, these are the scaffold tokens that
training has after the same merges: there frequencies never rise, and a scaffold is reinstated when it is more
frequent than the head. (On a tie training goes by creation ids; here the token stays a normal one. If no pair
is left to merge, the head counts as 1.)
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from hf_scaffold._core.trainer import MergeLoop, MergeReplay
from hf_scaffold._utils.arguments import knows_its_arguments
from hf_scaffold.counting.characters import Characters
from hf_scaffold.counting.counting import count
from hf_scaffold.counting.counts import PreTokenCounts
from hf_scaffold.errors import ConfigurationError, CorpusError
from hf_scaffold.text.byte_level import SYMBOL_TO_BYTE, symbols_to_bytes
from hf_scaffold.text.corpus import Corpus
from hf_scaffold.text.pre_tokenizers import PreTokenizer, pre_tokenizer_of
from hf_scaffold.text.symbols import BYTE_TOKENS, Affixes, Pair
from hf_scaffold.tokenizer.loading import load_json, load_pretrained, require_ids

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class AuditedToken:
    """A merged token on a text: its id, its first rule, and how often it occurs after all merges."""

    token: str
    id: int
    parts: Pair
    occurrences: int


@dataclass(frozen=True)
class Audit:
    """Which tokens of a tokenizer are scaffolds on a text, and how rare the others are.

    Args:
        n_tokens: The tokenizer's tokens, added ones included.
        n_pretokens: Pre-tokens of the text.
        head_frequency: How often a token must occur on this text to be worth its place.
        scaffolds: The merged tokens that are a part of another and occur less often, by id.
        others: The other merged tokens, by id.
    """

    n_tokens: int
    n_pretokens: int
    head_frequency: int
    scaffolds: tuple[AuditedToken, ...]
    others: tuple[AuditedToken, ...]

    @property
    def scaffold_share(self) -> float:
        """Share of the merged tokens that are scaffolds."""
        return len(self.scaffolds) / max(1, len(self.scaffolds) + len(self.others))

    @cached_property
    def quantiles(self) -> dict[float, int]:
        """Occurrences of the other merged tokens: by share of the rarest ones, the most that one has."""
        occurrences = sorted(token.occurrences for token in self.others) or [0]
        return {share: occurrences[int(share * (len(occurrences) - 1))] for share in QUANTILES}

    def fewer_than(self, occurrences: int) -> int:
        """How many of the other merged tokens occur less often."""
        return sum(token.occurrences < occurrences for token in self.others)

    def to_json(self) -> str:
        """All facts as one JSON object, with quantiles in place of `others`."""
        facts = asdict(self)
        del facts["others"]
        facts |= {
            "scaffold_share": self.scaffold_share,
            "other_merged_tokens": len(self.others),
            "others_unused": self.fewer_than(1),
            "others_quantiles": {str(share): n for share, n in self.quantiles.items()},
        }
        return json.dumps(facts, ensure_ascii=False, indent=2)


@knows_its_arguments
def audit_tokenizer(
    tokenizer: Any,
    corpus: Corpus | PreTokenCounts,
    *,
    text_field: str = "text",
    num_workers: int | None = None,
) -> Audit:
    """Find the scaffold tokens of a BPE tokenizer on a text. This goes beyond the paper.

    Args:
        tokenizer: A `tokenizers.Tokenizer` or a fast tokenizer of transformers with a BPE model; or the path
            of a tokenizer.json, or a folder or name that AutoTokenizer loads.
        corpus: Text as for `count`, split as the tokenizer does; or PreTokenCounts that were.
        text_field, num_workers: As for `count`.
    Returns:
        Audit. Added tokens are not looked for in the text, and are never scaffolds. With `ignore_merges`,
        only tokens that no merge makes are taken whole.
    Raises:
        ConfigurationError: the model is not BPE, the tokenizer is a Scaffold-BPE already, or the counts are
            of another pre-tokenizer.
        CorpusError: nothing of the text is in the vocabulary.
    Cost: about that of training on the text twice.
    Example:
        >>> from tokenizers import Tokenizer, models
        >>> vocab = {"u": 0, "g": 1, "h": 2, "p": 3, "ug": 4, "hug": 5, "pug": 6}
        >>> merges = [("u", "g"), ("h", "ug"), ("p", "ug")]
        >>> found = audit_tokenizer(Tokenizer(models.BPE(vocab, merges)), ["hug"] * 3 + ["pug"] * 2)
        >>> found.scaffolds
        (AuditedToken(token='ug', id=4, parts=('u', 'g'), occurrences=0),)
    """
    model = Model.of(as_fast(tokenizer))
    return replay(model, counts_for(model, corpus, text_field, num_workers))[0]


# ---- the tokenizer


def as_fast(tokenizer: Any) -> PreTrainedTokenizerFast:
    """A BPE tokenizer, or what names one, as a fast tokenizer of transformers.

    Raises:
        ConfigurationError: it is none, or a Scaffold-BPE already.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    from hf_scaffold.tokenization_scaffold import is_scaffold

    if isinstance(tokenizer, str | os.PathLike):
        path = Path(tokenizer)
        if path.is_file():
            tokenizer = load_json(path)
        else:
            tokenizer = load_pretrained(os.fspath(tokenizer), AutoTokenizer.from_pretrained)
    if isinstance(tokenizer, Tokenizer):
        _require_bpe(tokenizer, "the tokenizer")
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizer)  # type: ignore[no-untyped-call]
    name = type(tokenizer).__name__
    if is_scaffold(tokenizer):
        raise ConfigurationError(f"a {name} is a Scaffold-BPE already; see `inspect`")
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise ConfigurationError(f"a fast tokenizer is needed, with a tokenizer.json, not {name}")
    _require_bpe(tokenizer.backend_tokenizer, name)
    return tokenizer


def _require_bpe(backend: Tokenizer, name: str) -> None:
    kind = type(backend.model).__name__
    if kind != "BPE":
        raise ConfigurationError(f"the model of {name} is {kind}; only BPE has merges to replay")
    require_ids(backend, name)


@dataclass(frozen=True)
class Model:
    """A BPE model as tokenizer.json has it, and what splits its text."""

    vocab: dict[str, int]  # in the order of ids
    merges: list[Pair]
    added: frozenset[str]
    settings: dict[str, Any]
    pre_tokenizer: PreTokenizer
    affixes: Affixes

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerFast) -> Model:
        backend = tokenizer.backend_tokenizer
        state = json.loads(backend.to_str())["model"]  # each pair once: of equal ones the last counts
        return cls(
            vocab=dict(sorted(state.pop("vocab").items(), key=lambda item: item[1])),
            merges=[(left, right) for left, right in state.pop("merges")],
            added=frozenset(token.content for token in backend.get_added_tokens_decoder().values()),
            settings=state,
            pre_tokenizer=pre_tokenizer_of(backend),
            affixes=Affixes(state["continuing_subword_prefix"] or "", state["end_of_word_suffix"] or ""),
        )

    @cached_property
    def made(self) -> list[str]:
        """The token that each rule makes."""
        return self.affixes.join_all(self.merges)

    @cached_property
    def first_rules(self) -> dict[str, Pair]:
        """Merged token to its rule of lowest rank; added tokens are none."""
        rules = self.affixes.first_rules(self.merges)
        return {token: rules[token] for token in self.vocab if token in rules and token not in self.added}

    def can_be_made(self, token: str) -> bool:
        """Whether text can be encoded to it, judged by its string."""
        return bool(
            token in self.first_rules
            or token in self.added
            or token == self.settings["unk_token"]
            or (self.settings["byte_fallback"] and token in BYTE_TOKENS)
            or self.affixes.readings(token)
        )

    @cached_property
    def wholes(self) -> dict[bytes, str]:
        """The pre-tokens that are taken whole and no merge makes."""
        if not self.settings["ignore_merges"]:
            return {}
        by_character = self.pre_tokenizer.alphabet == "chars"
        tokens = [token for token in self.vocab if not self.can_be_made(token)]
        if not by_character:
            tokens = [token for token in tokens if SYMBOL_TO_BYTE.keys() >= set(token)]
        return {token.encode() if by_character else symbols_to_bytes(token): token for token in tokens}


# ---- the replay

_GONE, _BREAK = -1, -2  # in place of a symbol: nothing is there; something is that doesn't merge


def counts_for(
    model: Model, corpus: Corpus | PreTokenCounts, text_field: str, num_workers: int | None
) -> PreTokenCounts:
    if not isinstance(corpus, PreTokenCounts):
        return count(
            corpus, pre_tokenizer=model.pre_tokenizer, text_field=text_field, num_workers=num_workers
        )
    if corpus.pre_tokenizer != model.pre_tokenizer:
        raise ConfigurationError(
            f"the counts were made with {corpus.pre_tokenizer}, but the tokenizer splits text with "
            f"{model.pre_tokenizer}; give the text itself"
        )
    return corpus


def replay(model: Model, corpus: PreTokenCounts) -> tuple[Audit, dict[str, int]]:
    """The audit, and every token's occurrences after all merges."""
    tokens = list(model.vocab)
    number = {token: i for i, token in enumerate(tokens)}
    symbols, offsets, counts = _symbols(model, number, corpus)
    rules = [
        (number[left], number[right], number[token])
        for (left, right), token in zip(model.merges, model.made, strict=True)
    ]
    spelled = [token.encode() for token in tokens]
    merging = MergeReplay(symbols, offsets, counts, spelled, np.array(rules, np.int32).reshape(-1, 3))
    found = merging.replay()
    parts = {token for pair, n in zip(model.merges, found, strict=True) if n > 0 for token in pair}
    head = max(1, _head_frequency(symbols, offsets, counts, len(model.first_rules)))
    frequencies = dict(zip(tokens, merging.frequencies, strict=True))
    merged = [
        AuditedToken(token, model.vocab[token], pair, frequencies[token])
        for token, pair in model.first_rules.items()
    ]
    scaffolds = {token: None for token in merged if token.token in parts and token.occurrences < head}
    audited = Audit(
        n_tokens=len(model.vocab.keys() | model.added),
        n_pretokens=corpus.total,
        head_frequency=head,
        scaffolds=tuple(scaffolds),
        others=tuple(token for token in merged if token not in scaffolds),
    )
    return audited, frequencies


def _symbols(
    model: Model, number: dict[str, int], corpus: PreTokenCounts
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """The text as symbols that merges may join: symbols, offsets and counts as for `MergeLoop`.

    Characters without a token vanish, and what surrounds them may merge; but nothing merges across those that
    become the unk_token or tokens of bytes.
    """
    characters = Characters.of(corpus, model.affixes)
    unknown = number.get(model.settings["unk_token"] or "", -1)
    bytes_stand_in = model.settings["byte_fallback"] and number.keys() >= set(BYTE_TOKENS)
    otherwise = _BREAK if bytes_stand_in or unknown >= 0 else _GONE
    keys = characters.occurring_keys
    table = np.full(max(keys, default=0) + 1, _GONE, np.int32)
    for key in keys:
        table[key] = number.get(characters.symbol(key), otherwise)
    symbols = table[characters.keys]
    rows = np.repeat(np.arange(len(corpus)), np.diff(characters.offsets))
    if model.wholes:
        whole = [row for row, pretoken in enumerate(corpus) if pretoken in model.wholes]
        symbols[np.isin(rows, whole)] = _BREAK
    segments = rows + np.cumsum(symbols == _BREAK)
    symbols, rows, segments = (values[symbols >= 0] for values in (symbols, rows, segments))
    if not len(symbols):
        raise CorpusError("nothing of the text is in the tokenizer's vocabulary")
    starts = np.flatnonzero(np.diff(segments, prepend=-1))
    return symbols, np.append(starts, len(symbols)), corpus.counts[rows[starts]]


def _head_frequency(
    symbols: NDArray[np.int32], offsets: NDArray[np.int64], counts: NDArray[np.int64], n_merges: int
) -> int:
    """The frequency of the pair that plain BPE would merge next after n_merges."""
    alphabet, renumbered = np.unique(symbols, return_inverse=True)
    tokens = [b"%d;" % i for i in range(len(alphabet))]
    loop = MergeLoop(renumbered.astype(np.int32), offsets, counts, tokens, 0, 1, 0, False)
    loop.run(len(tokens) + n_merges)
    return loop.head_frequency
