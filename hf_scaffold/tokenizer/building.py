"""From an artifact to a tokenizer of transformers, and back."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from tokenizers import AddedToken, Tokenizer

from hf_scaffold._utils.arguments import refuse_unknown
from hf_scaffold.engine.encoder import Encoder
from hf_scaffold.errors import ConfigurationError
from hf_scaffold.methods.steps import steps_as_json, steps_from_json
from hf_scaffold.text.byte_level import SYMBOL_TO_BYTE
from hf_scaffold.text.pre_tokenizers import pre_tokenizer_of
from hf_scaffold.text.symbols import BYTE_TOKENS, Affixes
from hf_scaffold.tokenizer.decoders import decoder_for
from hf_scaffold.training.artifact import ScaffoldBPE
from hf_scaffold.training.parts import CHARACTER_SETTINGS

if TYPE_CHECKING:
    from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast

MORE_TOKENS = ("extra_special_tokens", "additional_special_tokens", "model_specific_special_tokens")
SETTINGS_ELSEWHERE = {
    "add_prefix_space": "the pre-tokenizer adds it; give pre_tokenizer=ByteLevel(add_prefix_space=True)",
    "do_lower_case": "give normalizer=tokenizers.normalizers.Lowercase()",
    "dropout": "set the tokenizer's `dropout`, or give it in a call",
    "lowercase": "give normalizer=tokenizers.normalizers.Lowercase()",
    "post_processor": "set the tokenizer's `backend_tokenizer.post_processor`",
}


class TokenizerSettings(TypedDict, total=False):
    """What `PreTrainedTokenizerFast` takes, from transformers 5.0 on, that makes sense for a new tokenizer.

    And unk_token, which training takes as well; and any other name that ends in "_token".
    """

    bos_token: str | AddedToken | None
    eos_token: str | AddedToken | None
    sep_token: str | AddedToken | None
    pad_token: str | AddedToken | None
    cls_token: str | AddedToken | None
    mask_token: str | AddedToken | None
    extra_special_tokens: Any
    additional_special_tokens: Any
    model_specific_special_tokens: Any
    add_bos_token: bool
    add_eos_token: bool
    chat_control_tokens: Any
    chat_template: Any
    clean_up_tokenization_spaces: bool
    model_input_names: list[str]
    model_max_length: int
    name_or_path: str
    padding_side: str
    processor_class: Any
    response_template: Any
    split_special_tokens: bool
    tokenizer_padding: Any
    tokenizer_truncation: Any
    truncation_side: str


def build_tokenizer(bpe: ScaffoldBPE, **kwargs: Any) -> ScaffoldTokenizerFast:
    """What `ScaffoldBPE.to_tokenizer` returns; see there."""
    from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast

    kwargs = checked_settings("to_tokenizer", kwargs)
    if bpe.unk_token is not None:
        kwargs.setdefault("unk_token", bpe.unk_token)
    flagged = {token.content: token for token in special_tokens_in(kwargs) if isinstance(token, AddedToken)}
    backend, scaffold = backend_for(bpe, flagged), scaffold_for(bpe)
    return ScaffoldTokenizerFast(tokenizer_object=backend, scaffold=scaffold, **kwargs)


def build_encoder(bpe: ScaffoldBPE) -> Encoder:
    """What `ScaffoldBPE.encoder` returns; see there."""
    return Encoder(backend_for(bpe).to_str(), json.dumps(scaffold_for(bpe)))


def backend_for(bpe: ScaffoldBPE, flagged: Mapping[str, AddedToken] = MappingProxyType({})) -> Tokenizer:
    """The public backend.

    Args:
        flagged: Special tokens by content, where they have flags of their own.
    """
    backend = Tokenizer(bpe.raw_model())
    if bpe.pre_tokenizer.normalizer is not None:
        backend.normalizer = bpe.pre_tokenizer.normalizer
    if bpe.pre_tokenizer.pre_tokenizer is not None:
        backend.pre_tokenizer = bpe.pre_tokenizer.pre_tokenizer
    backend.decoder = decoder_for(bpe.pre_tokenizer, bpe.affixes, bpe.byte_fallback)
    backend.add_special_tokens(
        [flagged.get(token, AddedToken(token, normalized=False)) for token in bpe.special_tokens]
    )
    return backend


def scaffold_for(bpe: ScaffoldBPE) -> dict[str, Any]:
    """The content of scaffold.json."""
    return {
        "version": 1 if bpe.steps is None else 2,
        "merges": [list(pair) for pair in bpe.merges],
        "demolish": {token: list(parts) for token, parts in bpe.demolish_map.items()},
        "raw_agreement": None,
        **bpe.raw_agreements,
        "training": bpe.training,
        **({} if bpe.steps is None else {"steps": steps_as_json(bpe.steps)}),
    }


def artifact_of(tokenizer: ScaffoldTokenizerFast) -> ScaffoldBPE:
    """The artifact that a tokenizer was made of, with everything but its stop_reason and log.

    Raises:
        ConfigurationError: `convert_tokenizer` made the tokenizer of another one, not of an artifact.
    """
    backend, scaffold = tokenizer._tokenizer, tokenizer.scaffold
    if "unused" in scaffold:
        raise ConfigurationError("a tokenizer that convert_tokenizer made of another one has no artifact")
    model = json.loads(backend.to_str())["model"]
    merges = [(left, right) for left, right in scaffold["merges"]]
    pre_tokenizer = pre_tokenizer_of(backend)
    by_character = pre_tokenizer.alphabet == "chars"
    settings = {name: model[name] for name in CHARACTER_SETTINGS if by_character and model[name]}
    affixes = Affixes(model["continuing_subword_prefix"] or "", model["end_of_word_suffix"] or "")
    first_rules = affixes.first_rules(merges)
    rank = {pair: position for position, pair in enumerate(merges)}
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    added = {token.content for token in backend.get_added_tokens_decoder().values()}
    symbols = SYMBOL_TO_BYTE if not by_character else BYTE_TOKENS if model["byte_fallback"] else ()
    fixed = added.difference(first_rules, itertools.chain.from_iterable(merges), symbols)
    special_tokens = list(itertools.takewhile(fixed.__contains__, tokens))
    raw_merges = [(left, right) for left, right in model["merges"]]
    scaffold_tokens = sorted(scaffold["demolish"], key=lambda token: rank[first_rules[token]])
    bpe = ScaffoldBPE(
        merges=merges,
        vocab={token: token_id for token_id, token in enumerate([*tokens, *scaffold_tokens])},
        demolish_map={token: tuple(scaffold["demolish"][token]) for token in scaffold_tokens},
        special_tokens=special_tokens,
        pre_tokenizer=pre_tokenizer,
        raw_splits={
            token: pair
            for token, pair in zip(affixes.join_all(raw_merges), raw_merges, strict=True)
            if first_rules.get(token) != pair
        },
        raw_agreement=scaffold["raw_agreement"],
        raw_agreement_merges_only=scaffold.get("raw_agreement_merges_only"),
        raw_agreement_unseen=scaffold.get("raw_agreement_unseen"),
        training=scaffold.get("training"),
        steps=steps_from_json(scaffold["steps"]) if "steps" in scaffold else None,
        **settings,
    )
    return bpe if bpe._raw_merges == raw_merges else replace(bpe, raw_splits={}, raw_merges=raw_merges)


def special_tokens_in(kwargs: Mapping[str, Any]) -> list[str | AddedToken]:
    """The special tokens among the arguments of a `PreTrainedTokenizerFast`, as they are given.

    Example:
        >>> special_tokens_in({"eos_token": "</s>", "pad_token": None, "extra_special_tokens": ["<a>"]})
        ['</s>', '<a>']
    """
    named = [value for name, value in kwargs.items() if name.endswith("_token")]
    for name in MORE_TOKENS:
        extra = kwargs.get(name) or []
        named += extra.values() if isinstance(extra, Mapping) else extra
    return [token for token in named if isinstance(token, (str, AddedToken))]


def checked_settings(function: str, kwargs: Mapping[str, Any], others: Iterable[str] = ()) -> dict[str, Any]:
    """The arguments of a `PreTrainedTokenizerFast`, which itself accepts any name; numbers as Python's.

    Args:
        function: Whose arguments they are, for the message.
        kwargs: Settings of tokenizers, and special tokens by role: those of stock and any other name that
            ends in "_token".
        others: What else the function takes by name, to tell what a misspelt name was meant for.
    Raises:
        TypeError: a name is unknown; the message has the nearest known one.
    Example:
        >>> checked_settings("to_tokenizer", {"eos_token": "</s>", "image_token": "<image>"})
        {'eos_token': '</s>', 'image_token': '<image>'}
    """
    known = {*others, "unk_token", *TokenizerSettings.__annotations__}
    for name, value in kwargs.items():
        if name.endswith("_token") and isinstance(value, str | AddedToken | None):
            is_misspelt = name not in known and get_close_matches(name, known, 1, cutoff=0.9)
            if not is_misspelt:
                continue
        refuse_unknown(function, [name], known, SETTINGS_ELSEWHERE)
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in kwargs.items()}
