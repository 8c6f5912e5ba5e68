"""A BPE tokenizer of anyone: its model, what splits its text, and the text as its merges encode it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from hf_scaffold._core.pretoken_encoder import PretokenEncoder
from hf_scaffold.counting.counting import count
from hf_scaffold.counting.counts import PreTokenCounts
from hf_scaffold.errors import ConfigurationError
from hf_scaffold.formats.reading import load_file
from hf_scaffold.text.byte_level import SYMBOL_TO_BYTE, ids_of_bytes, symbols_to_bytes
from hf_scaffold.text.corpus import Corpus
from hf_scaffold.text.pre_tokenizers import PreTokenizer, pre_tokenizer_of
from hf_scaffold.text.symbols import BYTE_TOKENS, Affixes, Pair
from hf_scaffold.tokenizer.loading import load_pretrained, require_ids

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


def as_fast(tokenizer: Any) -> PreTrainedTokenizerFast:
    """A BPE tokenizer, or what names one, as a fast tokenizer of transformers.

    Raises:
        ConfigurationError: it is none, or a Scaffold-BPE already.
    """
    from hf_scaffold.tokenization_scaffold import is_scaffold

    fast = as_fast_or_scaffold(tokenizer)
    if is_scaffold(fast):
        raise ConfigurationError(f"a {type(fast).__name__} is a Scaffold-BPE already; see `inspect`")
    return fast


def as_fast_or_scaffold(tokenizer: Any) -> PreTrainedTokenizerFast:
    """The same, if a Scaffold-BPE will do, too."""
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    from hf_scaffold.tokenization_scaffold import backend_of

    if isinstance(tokenizer, str | os.PathLike):
        path = Path(tokenizer)
        if path.is_file():
            tokenizer = load_file(path)
        else:
            tokenizer = load_pretrained(os.fspath(tokenizer), AutoTokenizer.from_pretrained)
    if isinstance(tokenizer, Tokenizer):
        _require_bpe(tokenizer, "the tokenizer")
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizer)  # type: ignore[no-untyped-call]
    name = type(tokenizer).__name__
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise ConfigurationError(f"a fast tokenizer is needed, with a tokenizer.json, not {name}")
    _require_bpe(backend_of(tokenizer), name)
    return tokenizer


def _require_bpe(backend: Tokenizer, name: str) -> None:
    kind = type(backend.model).__name__
    if kind != "BPE":
        raise ConfigurationError(f"the model of {name} is {kind}; only BPE has merges to replay")
    require_ids(backend, name)


@dataclass(frozen=True)
class Model:
    """A BPE model as tokenizer.json has it, and what splits its text.

    Example:
        >>> from tokenizers import Tokenizer, models
        >>> model = Model.of(as_fast(Tokenizer(models.BPE({"ab": 0, "b": 1, "a": 2}, [("a", "b")]))))
        >>> model.tokens, model.made
        (['b', 'a', 'ab'], ['ab'])
    """

    vocab: dict[str, int]  # in the order of ids
    merges: list[Pair]
    added: frozenset[str]
    settings: dict[str, Any]
    pre_tokenizer: PreTokenizer
    affixes: Affixes

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerFast) -> Model:
        from hf_scaffold.tokenization_scaffold import backend_of

        backend = backend_of(tokenizer)
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

    def is_symbol(self, token: str) -> bool:
        """Whether it is a byte or character, with the affixes of some place, that text is made of."""
        return bool(self.affixes.readings(token))

    def can_be_made(self, token: str) -> bool:
        """Whether text can be encoded to it, judged by its string."""
        return bool(
            token in self.first_rules
            or token in self.added
            or token == self.settings["unk_token"]
            or (self.settings["byte_fallback"] and token in BYTE_TOKENS)
            or self.is_symbol(token)
        )

    @cached_property
    def wholes(self) -> dict[bytes, str]:
        """The pre-tokens that are taken whole and no merge makes."""
        if not self.settings["ignore_merges"]:
            return {}
        tokens = [token for token in self.vocab if not self.can_be_made(token)]
        texts = {token: self.text_of(token) for token in tokens}
        return {text: token for token, text in texts.items() if text is not None}

    # ---- the tokens in the order in which training would make them

    @cached_property
    def control(self) -> dict[str, None]:
        """What text never merges into: added tokens, the unk_token, and the tokens of bytes."""
        added = [
            token for token in sorted(self.added) if not (token in self.made_tokens or self.is_symbol(token))
        ]
        unknown = self.settings["unk_token"]
        bytes_stand_in = BYTE_TOKENS if self.has_bytes else ()
        return dict.fromkeys([*added, *([unknown] if unknown else []), *bytes_stand_in])

    @property
    def has_bytes(self) -> bool:
        """Whether characters without a token become those of their bytes."""
        return bool(self.settings["byte_fallback"]) and self.vocab.keys() >= {*BYTE_TOKENS}

    @cached_property
    def made_tokens(self) -> dict[str, None]:
        return dict.fromkeys(token for token in self.made if token in self.vocab)

    @cached_property
    def tokens(self) -> list[str]:
        """All tokens: control, then what no merge makes, by id, then what merges make, by rank."""
        no_others = self.made_tokens.keys() | self.control.keys()
        return [*self.control, *(token for token in self.vocab if token not in no_others), *self.made_tokens]

    @cached_property
    def number(self) -> dict[str, int]:
        """Each token's place among all."""
        return {token: number for number, token in enumerate(self.tokens)}

    def rows(self, merges: Iterable[Pair]) -> NDArray[np.int32]:
        """Rules as numbers of tokens: left, right and merged."""
        number, merges = self.number, list(merges)
        made = self.affixes.join_all(merges)
        rows = [
            (number[left], number[right], number[t]) for (left, right), t in zip(merges, made, strict=True)
        ]
        return np.array(rows, np.int32).reshape(-1, 3)

    def encoder(
        self,
        merges: Iterable[Pair],
        replacements: Mapping[str, Iterable[str]] | None = None,
        wholes: Mapping[bytes, int] | None = None,
    ) -> PretokenEncoder:
        """What encodes pre-tokens to numbers of tokens.

        Args:
            merges: Some or other rules for these tokens.
            replacements: What stands for tokens once all is merged.
            wholes: Pre-tokens that are a token, taken whole.
        """
        number, rules = self.number, self.rows(merges)
        replaced = {number[t]: [number[part] for part in parts] for t, parts in (replacements or {}).items()}
        taken = dict(wholes or {})
        if self.pre_tokenizer.alphabet == "bytes":
            return PretokenEncoder(ids_of_bytes(number), rules, replaced, taken)
        control = self.control
        characters = self.affixes.characters((t, n) for t, n in number.items() if t not in control)
        unknown = number.get(self.settings["unk_token"] or "", -1)
        first_byte = number[BYTE_TOKENS[0]] if self.has_bytes else -1
        fuses = bool(self.settings["fuse_unk"])
        return PretokenEncoder(characters, rules, replaced, taken, unknown, fuses, first_byte)

    def text_of(self, token: str) -> bytes | None:
        """The pre-token that is spelled as a token; None if there is none."""
        if self.pre_tokenizer.alphabet == "chars":
            return token.encode()
        return symbols_to_bytes(token) if SYMBOL_TO_BYTE.keys() >= set(token) else None


def whole_model(fast: PreTrainedTokenizerFast) -> tuple[Model, list[str]]:
    """The model with all its merges, and its scaffold tokens, in the order of creation."""
    from hf_scaffold.tokenization_scaffold import is_scaffold

    model = Model.of(fast)
    if not is_scaffold(fast):
        return model, []
    content = fast.scaffold
    if "steps" in content:
        raise ConfigurationError(
            "the tokenizer's method (PickyBPE, residue) also removes tokens; use another"
        )
    merges = [(left, right) for left, right in content["merges"]]
    made = dict.fromkeys(model.affixes.join_all(merges))
    scaffolds = [token for token in made if token in content["demolish"]]
    first = max(model.vocab.values(), default=-1) + 1
    vocab = model.vocab | {token: first + i for i, token in enumerate(scaffolds)}
    # The public model takes tokens whole; the exact one never does.
    settings = {**model.settings, "ignore_merges": False}
    return replace(model, vocab=vocab, merges=merges, settings=settings), scaffolds


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
