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
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_scaffold._core.trainer import MergeLoop, MergeReplay
from hf_scaffold._utils.arguments import knows_its_arguments
from hf_scaffold.counting.characters import Characters
from hf_scaffold.counting.counts import PreTokenCounts
from hf_scaffold.errors import CorpusError
from hf_scaffold.lifecycle.models import Model, as_fast, counts_for
from hf_scaffold.text.corpus import Corpus
from hf_scaffold.text.pre_tokenizers import PreTokenizer
from hf_scaffold.text.symbols import Pair

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
        unreachable: Merged tokens that no text is encoded to, judged by their own string: it is split, or
            encoded to other tokens. A model never learns them. Not looked for where symbols have affixes.
            Source: Land and Bartolo 2024, "Fishing for Magikarp" (arXiv:2405.05417).
    """

    n_tokens: int
    n_pretokens: int
    head_frequency: int
    scaffolds: tuple[AuditedToken, ...]
    others: tuple[AuditedToken, ...]
    unreachable: tuple[str, ...] = ()

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
        tokenizer: A `tokenizers.Tokenizer` or a fast tokenizer of transformers with a BPE model; a folder or
            name that AutoTokenizer loads; or a tokenizer.json, .tiktoken file or BPE .model of SentencePiece,
            read as docs/export.md says.
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
    found, _ = replay(model, counts_for(model, corpus, text_field, num_workers))
    return replace(found, unreachable=_unreachable(model))


_GONE, _BREAK = -1, -2  # in place of a symbol: nothing is there; something is that doesn't merge


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


def _unreachable(model: Model) -> tuple[str, ...]:
    if model.affixes.prefix or model.affixes.suffix:
        return ()
    texts = {token: model.text_of(token) for token in model.first_rules}
    spelled = {token: text for token, text in texts.items() if text is not None}
    offsets = np.cumsum([0, *map(len, spelled.values())], dtype=np.int64)
    ids, ends = model.encoder(model.merges).encode(b"".join(spelled.values()), offsets)
    numbers = [model.number[token] for token in spelled]
    is_made = (np.diff(ends) == 1) & (np.append(ids, -1)[ends[:-1]] == numbers)
    if model.settings["ignore_merges"]:
        is_made[:] = True  # its own string is taken whole
    return tuple(
        token
        for (token, text), made in zip(spelled.items(), is_made.tolist(), strict=True)
        if not made or _is_split(text, model.pre_tokenizer)
    )


def _is_split(text: bytes, pre_tokenizer: PreTokenizer) -> bool:
    """Whether a text isn't one pre-token, with or without something put before it."""
    try:
        pretokens = pre_tokenizer.pre_tokenize(text.decode())
    except UnicodeDecodeError:  # part of a character
        return False
    return len(pretokens) != 1 or not pretokens[0].endswith(text)


def _symbols(
    model: Model, number: dict[str, int], corpus: PreTokenCounts
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """The text as symbols that merges may join: symbols, offsets and counts as for `MergeLoop`.

    Characters without a token vanish, and what surrounds them may merge; but nothing merges across those that
    become the unk_token or tokens of bytes.
    """
    characters = Characters.of(corpus, model.affixes)
    unknown = number.get(model.settings["unk_token"] or "", -1)
    otherwise = _BREAK if model.has_bytes or unknown >= 0 else _GONE
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
