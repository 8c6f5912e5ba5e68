"""What Scaffold-BPE would say of an existing BPE tokenizer, and a Scaffold version of it.

This goes beyond the paper, which only trains new vocabularies. Here the merges are given. They are replayed
on a text, and the test of training is put to every token that was a part of another: is it worth its place?

In training the head of the queue says what a place is worth: the occurrences of the candidate that is next.
Given merges have no such queue, least of all on another text. So the head is that of plain BPE trained on
this text, after as many merges as the tokenizer has. A merged token is a scaffold if it is a part of a rule
that applies to the text and, once all merges are done, occurs less often than that. Where the text is the one
that the merges were learned from, this gives the scaffold tokens that training has after the same merges:
there frequencies never rise, and a scaffold is reinstated when it is more frequent than the head. (Where they
are equal, training goes by creation ids; here the token stays a normal one. And where no pair is left to
merge, the head counts as 1.)
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
from tokenizers.models import BPE

from hf_scaffold._core.trainer import MergeLoop, MergeReplay
from hf_scaffold._utils.arguments import flag, knows_its_arguments
from hf_scaffold.counting.counts import PreTokenCounts, count
from hf_scaffold.errors import ConfigurationError, CorpusError
from hf_scaffold.text.byte_level import SYMBOL_TO_BYTE, bytes_to_symbols, symbols_to_bytes
from hf_scaffold.text.corpus import Source
from hf_scaffold.text.pretokenizers import Pretokenizer, pretokenizer_of
from hf_scaffold.text.symbols import BYTE_TOKENS, Affixes, Pair
from hf_scaffold.tokenizer.loading import load_json, load_pretrained, require_ids
from hf_scaffold.tokenizer.post_processors import with_tokens
from hf_scaffold.training.demolishing import derive_demolish_map
from hf_scaffold.training.trainer import Characters, raw_splits

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast

__all__ = ["Audit", "AuditedToken", "Conversion", "audit_tokenizer", "bpe_from_tokenizer"]

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class AuditedToken:
    """A merged token on a text: its id, its first rule, and how often it occurs once all merges are done."""

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
        scaffolds: The merged tokens that are a part of another and occur less often, in the order of ids.
        others: The other merged tokens, in the order of ids.
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
        """How often the other merged tokens occur: by share of the rarest ones, the most that one does."""
        occurrences = sorted(token.occurrences for token in self.others) or [0]
        return {share: occurrences[int(share * (len(occurrences) - 1))] for share in QUANTILES}

    def fewer_than(self, occurrences: int) -> int:
        """How many of the other merged tokens occur less often."""
        return sum(token.occurrences < occurrences for token in self.others)

    def to_json(self) -> str:
        """All facts as one JSON object; of the others the quantiles only."""
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
    corpus: Source | PreTokenCounts,
    *,
    field: str = "text",
    num_workers: int | None = None,
) -> Audit:
    """Find the scaffold tokens of a BPE tokenizer on a text. This goes beyond the paper.

    Args:
        tokenizer: A `tokenizers.Tokenizer` or a fast tokenizer of transformers with a BPE model; or the path
            of a tokenizer.json, or a folder or name that AutoTokenizer loads.
        corpus: Text as for `count`, split as the tokenizer does; or PreTokenCounts that were.
        field, num_workers: As for `count`.
    Returns:
        Audit. Added tokens are not looked for in the text, and are never scaffolds. With `ignore_merges`,
        only tokens that no merge makes are taken whole.
    Raises:
        ConfigurationError: the model is not BPE, the tokenizer is a Scaffold-BPE already, or the counts were
            made with another pre-tokenizer.
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
    model = _Model.of(_fast(tokenizer))
    return _replay(model, _counts(model, corpus, field, num_workers))[0]


@dataclass(frozen=True)
class Conversion:
    """A Scaffold version of a tokenizer.

    Args:
        tokenizer: Encodes to the tokens that stay.
        remap: int64: old id to new id, -1 for the scaffold tokens, which have none.
        audit: What was found.
    """

    tokenizer: ScaffoldTokenizerFast
    remap: NDArray[np.int64]
    audit: Audit


@knows_its_arguments
def bpe_from_tokenizer(
    tokenizer: Any,
    corpus: Source | PreTokenCounts,
    *,
    compact: bool = False,
    field: str = "text",
    num_workers: int | None = None,
) -> Conversion:
    """Make a Scaffold version of a BPE tokenizer: scaffolds lose their ids. This goes beyond the paper.

    All merges stay; so do pipeline, special tokens, template and settings. Every token that stays keeps its
    id, so a trained model can go on as it is. Where a scaffold would stand, text is now encoded to its parts.

    Args:
        tokenizer, corpus, field, num_workers: As for `audit_tokenizer`, which finds the scaffolds.
        compact: False: freed ids are held by reserved tokens "<|unused_ID|>", which no text is encoded to; so
            `len(tokenizer)` and the model's matrices stay as they are. True: the ids of the tokens that stay
            close up, in their order, and `remap` says which row of the embedding matrix goes where.
    Returns:
        Conversion. With compact=True, for a model of transformers:

            kept = torch.from_numpy(np.flatnonzero(conversion.remap >= 0))
            embeddings.weight = torch.nn.Parameter(embeddings.weight[kept])

        for its input and, if that is another, its output embeddings; without it,
        `conversion.remap < 0` are the rows that no text needs any more.
    Raises:
        ConfigurationError, CorpusError: as for `audit_tokenizer`.
    Example:
        >>> from tokenizers import Tokenizer, models
        >>> vocab = {"u": 0, "g": 1, "h": 2, "p": 3, "ug": 4, "hug": 5, "pug": 6}
        >>> merges = [("u", "g"), ("h", "ug"), ("p", "ug")]
        >>> plain = Tokenizer(models.BPE(vocab, merges))
        >>> conversion = bpe_from_tokenizer(plain, ["hug"] * 3 + ["pug"] * 2)
        >>> conversion.tokenizer("hugug").tokens(), conversion.remap.tolist()
        (['hug', 'u', 'g'], [0, 1, 2, 3, -1, 5, 6])
    """
    compact = flag("compact", compact)
    fast = _fast(tokenizer)
    model = _Model.of(fast)
    counts = _counts(model, corpus, field, num_workers)
    found, frequencies = _replay(model, counts)
    demolish = derive_demolish_map(model.merges, [token.token for token in found.scaffolds], model.affixes)
    every_id = fast.get_vocab()
    remap = np.full(max(every_id.values()) + 1, -1, np.int64)
    staying = sorted(token_id for token, token_id in every_id.items() if token not in demolish)
    remap[staying] = range(len(staying)) if compact else staying
    vocab = {token: int(remap[token_id]) for token, token_id in model.vocab.items() if token not in demolish}
    unused = [token for token in vocab if not model.can_be_made(token)]
    if not compact:
        holes = {f"<|unused_{token_id}|>": token_id for token_id in np.flatnonzero(remap < 0).tolist()}
        vocab |= holes
        unused += holes
    scaffold = {
        "version": 1,
        "merges": [list(pair) for pair in model.merges],
        "demolish": {token: list(parts) for token, parts in demolish.items()},
        "unused": sorted(unused, key=vocab.__getitem__),
    }
    public = model.public(vocab, frequencies)
    scaffold |= _agreements(scaffold, public, counts)
    return Conversion(_like(fast, public, scaffold, remap), remap, found)


# ---- the tokenizer


def _fast(tokenizer: Any) -> PreTrainedTokenizerFast:
    """Any description of a tokenizer as a fast one of transformers."""
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
class _Model:
    """A BPE model as tokenizer.json has it, and what splits its text."""

    vocab: dict[str, int]  # in the order of ids
    merges: list[Pair]
    added: frozenset[str]
    settings: dict[str, Any]
    pretokenizer: Pretokenizer
    affixes: Affixes

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerFast) -> _Model:
        backend = tokenizer.backend_tokenizer
        state = json.loads(backend.to_str())["model"]  # each pair once: of equal ones the last counts
        return cls(
            vocab=dict(sorted(state.pop("vocab").items(), key=lambda item: item[1])),
            merges=[(left, right) for left, right in state.pop("merges")],
            added=frozenset(token.content for token in backend.get_added_tokens_decoder().values()),
            settings=state,
            pretokenizer=pretokenizer_of(backend),
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
        """Whether text can be encoded to it, as far as its string says."""
        return bool(
            token in self.first_rules
            or token in self.added
            or token == self.settings["unk_token"]
            or (self.settings["byte_fallback"] and token in BYTE_TOKENS)
            or self.affixes.readings(token)
        )

    @cached_property
    def wholes(self) -> dict[bytes, str]:
        """The pre-tokens that are taken whole and that no merge makes."""
        if not self.settings["ignore_merges"]:
            return {}
        by_character = self.pretokenizer.alphabet == "chars"
        tokens = [token for token in self.vocab if not self.can_be_made(token)]
        if not by_character:
            tokens = [token for token in tokens if SYMBOL_TO_BYTE.keys() >= set(token)]
        return {token.encode() if by_character else symbols_to_bytes(token): token for token in tokens}

    def public(self, vocab: dict[str, int], frequencies: dict[str, int]) -> BPE:
        """The plain BPE over the tokens that stay, for programs that know nothing of demolishing."""
        rules = list(zip(self.made, self.merges, strict=True))
        still_made = {token for token, pair in rules if vocab.keys() >= {token, *pair}}
        normal = [token for token in self.vocab if token in vocab and self.can_be_made(token)]
        splits = raw_splits(self.merges, normal, frequencies, self.affixes)
        merges: dict[Pair, None] = {}
        for token, pair in rules:
            if vocab.keys() >= {token, *pair}:
                merges[pair] = None
            elif token in splits and token not in still_made:
                merges.setdefault(splits[token])
        names = ("unk_token", "fuse_unk", "byte_fallback", "continuing_subword_prefix", "end_of_word_suffix")
        settings = {name: self.settings[name] for name in names if self.settings[name] is not None}
        return BPE(vocab=vocab, merges=list(merges), ignore_merges=not self.affixes.suffix, **settings)


# ---- the replay

_GONE, _BREAK = -1, -2  # in place of a symbol: nothing is there; something is that doesn't merge


def _counts(
    model: _Model, corpus: Source | PreTokenCounts, field: str, num_workers: int | None
) -> PreTokenCounts:
    if not isinstance(corpus, PreTokenCounts):
        return count(corpus, pretokenizer=model.pretokenizer, field=field, num_workers=num_workers)
    if corpus.pretokenizer != model.pretokenizer:
        raise ConfigurationError(
            f"the counts were made with {corpus.pretokenizer}, but the tokenizer splits text with "
            f"{model.pretokenizer}; give the text itself"
        )
    return corpus


def _replay(model: _Model, corpus: PreTokenCounts) -> tuple[Audit, dict[str, int]]:
    """What is found, and every token's occurrences once all merges are done."""
    tokens = list(model.vocab)
    number = {token: i for i, token in enumerate(tokens)}
    symbols, offsets, counts = _symbols(model, number, corpus)
    rules = [
        (number[left], number[right], number[token])
        for (left, right), token in zip(model.merges, model.made, strict=True)
    ]
    replay = MergeReplay(
        symbols,
        offsets,
        counts,
        [token.encode() for token in tokens],
        np.array(rules, np.int32).reshape(-1, 3),
    )
    found = replay.replay()
    parts = {token for pair, n in zip(model.merges, found, strict=True) if n > 0 for token in pair}
    head = max(1, _head_frequency(symbols, offsets, counts, len(model.first_rules)))
    frequencies = dict(zip(tokens, replay.frequencies, strict=True))
    merged = [
        AuditedToken(token, model.vocab[token], pair, frequencies[token])
        for token, pair in model.first_rules.items()
    ]
    is_scaffold = [token.token in parts and token.occurrences < head for token in merged]
    audited = Audit(
        n_tokens=len(model.vocab.keys() | model.added),
        n_pretokens=corpus.total,
        head_frequency=head,
        scaffolds=tuple(token for token, hidden in zip(merged, is_scaffold, strict=True) if hidden),
        others=tuple(token for token, hidden in zip(merged, is_scaffold, strict=True) if not hidden),
    )
    return audited, frequencies


def _symbols(
    model: _Model, number: dict[str, int], corpus: PreTokenCounts
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """The text as symbols that merges may join: symbols, offsets and counts as for `MergeLoop`.

    Characters without a token vanish, and text goes on behind them as if they weren't there; unless they
    become the unk_token or tokens of bytes, which nothing merges across.
    """
    characters = Characters.of(corpus, model.affixes)
    keys = characters.codes if characters.places is None else 4 * characters.codes + characters.places
    unknown = number.get(model.settings["unk_token"] or "", -1)
    bytes_stand_in = model.settings["byte_fallback"] and number.keys() >= set(BYTE_TOKENS)
    table = np.full(int(keys.max(initial=0)) + 1, _GONE, np.int32)
    for key in np.flatnonzero(np.bincount(keys)).tolist():
        if characters.places is None:
            symbol = chr(key)
        else:
            symbol = model.affixes.mark(chr(key // 4), key & 2 > 0, key & 1 > 0)
        otherwise = _BREAK if bytes_stand_in or unknown >= 0 else _GONE
        table[key] = number.get(symbol, otherwise)
    symbols = table[keys]
    rows = np.repeat(np.arange(len(corpus)), np.diff(characters.offsets))
    if model.wholes:
        whole = [row for row, pretoken in enumerate(corpus) if pretoken in model.wholes]
        symbols[np.isin(rows, whole)] = _BREAK
    segments = rows + np.cumsum(symbols == _BREAK)
    stays = symbols >= 0
    symbols, rows, segments = symbols[stays], rows[stays], segments[stays]
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


# ---- the Scaffold version


def _agreements(scaffold: dict[str, Any], public: BPE, counts: PreTokenCounts) -> dict[str, float]:
    """Shares of pre-tokens, weighted by counts, that the public model encodes as the expanded one does.

    There is no estimate for text not trained on: the merges weren't learned from these counts, so what is
    measured on them is no better than elsewhere.
    """
    from hf_scaffold.tokenization_scaffold import ExpandedModel

    expanded = ExpandedModel(scaffold, Tokenizer(public), None)
    by_character = counts.pretokenizer.alphabet == "chars"
    texts = [pretoken.decode() if by_character else bytes_to_symbols(pretoken) for pretoken in counts]
    exact = [expanded.demolish_ids(x.ids) for x in Tokenizer(expanded.model).encode_batch_fast(texts)]
    shares = {}
    # In this order, so that the model stays as it was.
    for name, takes_wholes in (("raw_agreement_merges_only", False), ("raw_agreement", public.ignore_merges)):
        public.ignore_merges = takes_wholes
        raw = Tokenizer(public).encode_batch_fast(texts)
        rows = zip(counts.counts.tolist(), exact, raw, strict=True)
        shares[name] = sum(n for n, ids, y in rows if ids == y.ids) / counts.total
    return shares


def _like(
    fast: PreTrainedTokenizerFast, public: BPE, scaffold: dict[str, Any], remap: NDArray[np.int64]
) -> ScaffoldTokenizerFast:
    """A tokenizer with everything of another but its model; ids in templates and padding are mapped."""
    from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast
    from hf_scaffold.tokenizer.like import pad_with_own_id, settings_of

    state = json.loads(fast.backend_tokenizer.to_str())
    own = json.loads(Tokenizer(public).to_str())["model"]
    state["model"] = {**own, "dropout": state["model"]["dropout"]}
    for token in state["added_tokens"]:
        token["id"] = int(remap[token["id"]])
    state["added_tokens"].sort(key=lambda token: token["id"])
    state["post_processor"] = _with_ids(state["post_processor"], remap)
    tokenizer = ScaffoldTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(state)), scaffold=scaffold, **settings_of(fast)
    )
    pad_with_own_id(tokenizer)
    return tokenizer


def _with_ids(post_processor: Any, remap: NDArray[np.int64]) -> Any:
    """The same post-processor with the new ids of its tokens."""

    def moved(token: str, token_id: int) -> tuple[str, int]:
        new = int(remap[token_id]) if token_id < len(remap) else -1
        if new < 0:
            raise ConfigurationError(
                f"the post-processor adds {token!r} by the id {token_id}, which no token of the new "
                "tokenizer comes from; take it out first"
            )
        return token, new

    return with_tokens(post_processor, moved)
