"""Everything of a tokenizer but its vocabulary: taken off one, and filled with another."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import AddedToken, Tokenizer
from transformers import PreTrainedTokenizerFast

from hf_scaffold.artifact import CHARACTER_SETTINGS, ScaffoldBPE
from hf_scaffold.byte_level import SYMBOL_TO_BYTE
from hf_scaffold.errors import ConfigurationError
from hf_scaffold.pretokenize import pretokenizer_of
from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast

__all__ = ["empty_like", "fill", "settings_of", "special_tokens_of", "symbol_options"]

# What from_pretrained noted of the files it read: none of it holds for another vocabulary.
_LOADED = (
    "added_tokens_decoder",
    "name_or_path",
    "tokenizer_file",
    "vocab_file",
    "merges_file",
    "scaffold_file",
)


def empty_like(
    like: PreTrainedTokenizerFast,
    new_special_tokens: Sequence[str | AddedToken] | None = None,
    special_tokens_map: Mapping[str, str] | None = None,
) -> PreTrainedTokenizerFast:
    """A stock tokenizer with everything of `like` but its vocabulary: special tokens only, from id 0.

    Args:
        like: A fast tokenizer with a BPE model. Not modified.
        new_special_tokens: Behind those of `like`; the ones it has already are left out.
        special_tokens_map: Special tokens to rename, old to new.
    Raises:
        ConfigurationError: `like` is not fast, or its model is not BPE.
    """
    backend = getattr(like, "backend_tokenizer", None)
    if not isinstance(backend, Tokenizer):
        raise ConfigurationError(f"like must be a fast tokenizer of transformers, not {type(like).__name__}")
    model = type(backend.model).__name__
    if model != "BPE":
        raise ConfigurationError(
            f"the model of {type(like).__name__} is {model}; Scaffold-BPE can follow BPE only"
        )
    known = {str(token) for token in like.added_tokens_decoder.values() if token.special}
    shell: PreTrainedTokenizerFast = _stock(like).train_new_from_iterator(  # type: ignore[no-untyped-call]  # stock
        [],
        vocab_size=0,  # special tokens and alphabet all the same
        new_special_tokens=[token for token in new_special_tokens or () if str(token) not in known],
        special_tokens_map=special_tokens_map,
        show_progress=False,
    )
    shell.add_tokens([token for token in like.added_tokens_decoder.values() if not token.special])
    return shell


def special_tokens_of(shell: PreTrainedTokenizerFast) -> list[AddedToken]:
    """The special tokens, in the order of their ids."""
    return [token for _, token in sorted(shell.added_tokens_decoder.items()) if token.special]


def symbol_options(shell: PreTrainedTokenizerFast) -> dict[str, Any]:
    """The arguments of `train` that make symbols of text as the model of `shell` does."""
    pretokenizer = pretokenizer_of(shell.backend_tokenizer)
    if pretokenizer.alphabet == "bytes":
        return {}
    model = shell.backend_tokenizer.model
    options = {name: getattr(model, name) for name in CHARACTER_SETTINGS if getattr(model, name)}
    if pretokenizer.writes_bytes:
        options["initial_alphabet"] = list(SYMBOL_TO_BYTE)
    return options


def fill(shell: PreTrainedTokenizerFast, bpe: ScaffoldBPE, **kwargs: Any) -> ScaffoldTokenizerFast:
    """A tokenizer with the vocabulary of `bpe`, and everything else from what `empty_like` gave.

    Args:
        shell: Its special tokens are those of `bpe`. Added tokens that are not special get ids from |V| on.
        bpe: Trained with `special_tokens_of(shell)`.
        **kwargs: As for `PreTrainedTokenizerFast`, in place of the settings of `shell`.
    """
    trained = bpe.to_tokenizer()
    state = json.loads(shell.backend_tokenizer.to_str())
    own = json.loads(trained.backend_tokenizer.to_str())
    # The pre-tokenizer may have got a ByteLevel; without one there is no decoder for its symbols either.
    state["pre_tokenizer"] = own["pre_tokenizer"]
    state["decoder"] = state["decoder"] or own["decoder"]
    state["model"] = {**own["model"], "dropout": state["model"]["dropout"]}
    state["added_tokens"] = [token for token in state["added_tokens"] if token["special"]]
    tokenizer = ScaffoldTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(state)),
        scaffold=trained.scaffold,
        **{**settings_of(shell), **kwargs},
    )
    tokenizer.add_tokens([token for token in shell.added_tokens_decoder.values() if not token.special])
    return tokenizer


def settings_of(tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    """The arguments that make a tokenizer like this one, but for its vocabulary and files."""
    settings = {name: value for name, value in tokenizer.init_kwargs.items() if name not in _LOADED}
    return {**settings, "chat_template": tokenizer.chat_template}


def _stock(like: PreTrainedTokenizerFast) -> PreTrainedTokenizerFast:
    """A tokenizer that shares everything with `like`, but makes stock ones and knows of no files."""
    kind = PreTrainedTokenizerFast if isinstance(like, ScaffoldTokenizerFast) else type(like)
    stock = object.__new__(kind)
    stock.__dict__.update(like.__dict__, init_kwargs=settings_of(like))
    return stock
