"""Everything of a tokenizer but its vocabulary: taken off one, and filled with another."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from tokenizers import AddedToken, Tokenizer
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerFast

from hf_scaffold.errors import ConfigurationError
from hf_scaffold.text.byte_level import SYMBOL_TO_BYTE
from hf_scaffold.text.pre_tokenizers import PreTokenizer, pre_tokenizer_of
from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast, backend_of
from hf_scaffold.tokenizer.building import build_tokenizer
from hf_scaffold.tokenizer.decoders import keeping_spaces
from hf_scaffold.tokenizer.post_processors import added_by, with_tokens
from hf_scaffold.training.artifact import ScaffoldBPE
from hf_scaffold.training.parts import CHARACTER_SETTINGS

# What from_pretrained records about the files it read; none of it holds for another vocabulary.
_LOADED = (
    "added_tokens_decoder",
    "name_or_path",
    "tokenizer_file",
    "vocab_file",
    "merges_file",
    "scaffold_file",
)
# Settings that may have changed since a tokenizer was made, and their defaults.
_SETTINGS = {
    "padding_side": ScaffoldTokenizerFast.padding_side,
    "truncation_side": ScaffoldTokenizerFast.truncation_side,
    "model_input_names": ScaffoldTokenizerFast.model_input_names,
    "model_max_length": int(1e30),  # VERY_LARGE_INTEGER of transformers
    "clean_up_tokenization_spaces": False,
    "split_special_tokens": False,
    "chat_template": None,
    "chat_control_tokens": None,
    "response_template": None,
}
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized")


@dataclass(frozen=True)
class Shell:
    """A tokenizer without its vocabulary. Its special tokens have the names they will have in the new one.

    Args:
        state: Its tokenizer.json. Vocabulary, merges and ids are still the old ones.
        special_tokens: They get the first ids, in this order.
        other_tokens: Added tokens that are not special; they get ids from |V| on.
        settings: As for `PreTrainedTokenizerFast`.
    """

    state: dict[str, Any]
    special_tokens: list[AddedToken]
    other_tokens: list[AddedToken]
    settings: dict[str, Any]

    @property
    def pre_tokenizer(self) -> PreTokenizer:
        """What splits text; every byte has a token where text is written as bytes."""
        vocab = {symbol: i for i, symbol in enumerate(SYMBOL_TO_BYTE)}
        model = {**self.state["model"], "vocab": vocab, "merges": []}
        return pre_tokenizer_of(_backend({**self.state, "model": model}))


def empty_like(
    like: PreTrainedTokenizerFast,
    new_special_tokens: Sequence[str | AddedToken] = (),
    special_tokens_map: Mapping[str, str] | None = None,
    roles: Mapping[str, Any] | None = None,
) -> Shell:
    """Everything of a tokenizer but its vocabulary.

    Args:
        like: A fast tokenizer with a BPE model. Not modified.
        new_special_tokens: To follow those of `like`; the ones it has already are left out.
        special_tokens_map: Special tokens to rename, old to new: wherever they are named.
        roles: Roles to give to other tokens, such as bos_token. These take the places that the tokens of
            these roles have in the post-processor.
    Raises:
        ConfigurationError: `like` is not fast, or its model is not BPE; a token to rename isn't there; or the
            post-processor adds a token that the new tokenizer won't have.
    """
    state = _state_of(like)
    renamed = dict(special_tokens_map or {})
    _refuse_unknown(renamed, like, state)
    tokens = [_renamed_token(token, renamed) for _, token in sorted(like.added_tokens_decoder.items())]
    known = {token.content for token in tokens if token.special}
    new = [token for token in new_special_tokens if str(token) not in known]
    specials = [token for token in tokens if token.special] + [_as_special(token) for token in new]
    others = [token for token in tokens if not token.special]
    settings = _renamed_settings(settings_of(like), renamed, {token.content for token in tokens})
    if new:
        settings["extra_special_tokens"] = [*settings.get("extra_special_tokens", ()), *map(str, new)]
    _rename_in_state(state, renamed, _moved_roles(like, state, roles or {}))
    _refuse_missing(state["post_processor"], {token.content for token in (*specials, *others)}, state)
    return Shell(state, specials, others, settings)


def symbol_options(shell: Shell) -> dict[str, Any]:
    """The arguments of `train` that make symbols of text as the model of `shell` does."""
    pre_tokenizer = shell.pre_tokenizer
    if pre_tokenizer.alphabet == "bytes":
        return {}
    model = shell.state["model"]
    options = {name: model[name] for name in CHARACTER_SETTINGS if model[name]}
    if pre_tokenizer.writes_bytes:
        options["initial_alphabet"] = list(SYMBOL_TO_BYTE)
    return options


def fill(shell: Shell, bpe: ScaffoldBPE, **kwargs: Any) -> ScaffoldTokenizerFast:
    """A tokenizer with the vocabulary of `bpe` and everything else from a shell.

    Args:
        shell: Its special tokens are those of `bpe`.
        bpe: Trained with `shell.special_tokens`.
        **kwargs: As for `PreTrainedTokenizerFast`, in place of the settings of `shell`.
    """
    trained = build_tokenizer(bpe)
    own = json.loads(trained._tokenizer.to_str())
    state = {
        **shell.state,
        # Training may have added a ByteLevel to the pre-tokenizer, and then the old decoder won't do.
        "pre_tokenizer": own["pre_tokenizer"],
        "decoder": keeping_spaces(shell.state["decoder"], bpe.tokens) or own["decoder"],
        "model": {**own["model"], "dropout": shell.state["model"]["dropout"]},
        "added_tokens": [_as_json(token, bpe.vocab[token.content]) for token in shell.special_tokens],
        "post_processor": None,  # until all ids are known
    }
    tokenizer = ScaffoldTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(state)),
        scaffold=trained.scaffold,
        **{**shell.settings, **kwargs},
    )
    tokenizer.add_tokens(shell.other_tokens)
    pad_with_own_id(tokenizer)
    if not {"add_bos_token", "add_eos_token"} & kwargs.keys():  # with these, stock has made a template
        _set_post_processor(tokenizer, shell.state["post_processor"])
    return tokenizer


def settings_of(tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    """The arguments that make a tokenizer like this one is now, but for its vocabulary and files."""
    settings = {name: value for name, value in tokenizer.init_kwargs.items() if name not in _LOADED}
    for name, default in _SETTINGS.items():
        value = getattr(tokenizer, name, default)
        if name in settings or value != default:
            settings[name] = value
    # from_pretrained gathers the tokenizer's own roles; each is an argument by itself, too.
    settings.pop("model_specific_special_tokens", None)
    for name in tokenizer.SPECIAL_TOKENS_ATTRIBUTES:
        value = getattr(tokenizer, name, None)
        if name in settings or value is not None:
            settings[name] = value
    extra = [str(token) for token in tokenizer.extra_special_tokens]
    if "extra_special_tokens" in settings or extra:
        settings["extra_special_tokens"] = extra
    return settings


def pad_with_own_id(tokenizer: PreTrainedTokenizerFast) -> None:
    """Let the backend's padding, where there is any, have the id that its token has in the vocabulary."""
    backend = backend_of(tokenizer)
    if backend.padding is not None:
        pad_id = backend.token_to_id(backend.padding["pad_token"])
        backend.enable_padding(**{**backend.padding, "pad_id": pad_id})


# ---- a tokenizer's parts


def _state_of(like: PreTrainedTokenizerFast) -> dict[str, Any]:
    backend = backend_of(like)
    if not isinstance(backend, Tokenizer):
        raise ConfigurationError(f"like must be a fast tokenizer of transformers, not {type(like).__name__}")
    model = type(backend.model).__name__
    if model != "BPE":
        raise ConfigurationError(
            f"the model of {type(like).__name__} is {model}; Scaffold-BPE can follow BPE only"
        )
    try:
        state: dict[str, Any] = json.loads(backend.to_str())
    except Exception as error:  # what `tokenizers` raises is no narrower
        raise ConfigurationError(
            f"like has a part that can't be stored, written in Python: {error}"
        ) from error
    return state


def _backend(state: Mapping[str, Any], post_processor: Any = None) -> Tokenizer:
    """A backend of these parts, without added tokens."""
    return Tokenizer.from_str(json.dumps({**state, "added_tokens": [], "post_processor": post_processor}))


def _as_json(token: AddedToken, token_id: int) -> dict[str, Any]:
    flags = {name: getattr(token, name) for name in _FLAGS}
    return {"id": token_id, "content": token.content, **flags, "special": True}


def _as_special(token: str | AddedToken) -> AddedToken:
    if isinstance(token, str):
        return AddedToken(token, normalized=False, special=True)
    token.special = True  # as the trainers of `tokenizers` do; `normalized` goes by it where it isn't given
    return AddedToken(token.content, **{name: getattr(token, name) for name in _FLAGS}, special=True)


def _set_post_processor(tokenizer: ScaffoldTokenizerFast, entry: Any) -> None:
    backend = tokenizer._tokenizer

    def with_id(token: str, _: int) -> tuple[str, int]:
        token_id = backend.token_to_id(token)
        if token_id is None:
            raise ConfigurationError(f"the post-processor adds {token!r}, which the new vocabulary lacks")
        return token, token_id

    empty = json.loads(Tokenizer(BPE()).to_str())
    backend.post_processor = _backend(empty, post_processor=with_tokens(entry, with_id)).post_processor


def _refuse_missing(post_processor: Any, tokens: Iterable[str], state: Mapping[str, Any]) -> None:
    """Before anything is trained: the post-processor may add special and added tokens, and bytes."""
    of_bytes = SYMBOL_TO_BYTE.keys() & state["model"]["vocab"].keys()
    for token, _ in added_by(post_processor):
        if token not in {*tokens, *of_bytes}:
            raise ConfigurationError(
                f"the post-processor of like adds {token!r}, which is no special token there, so the new "
                "vocabulary may lack it; give it as a special token of the new tokenizer, or take it out"
            )


# ---- other names


def _refuse_unknown(
    renamed: Mapping[str, str], like: PreTrainedTokenizerFast, state: Mapping[str, Any]
) -> None:
    known = {token.content for token in like.added_tokens_decoder.values()} | {state["model"]["unk_token"]}
    for token in renamed:
        if token not in known:
            raise ConfigurationError(
                f"special_tokens_map: {token!r} is no special token of {type(like).__name__}"
            )


def _renamed_token(token: AddedToken, renamed: Mapping[str, str]) -> AddedToken:
    flags = {name: getattr(token, name) for name in (*_FLAGS, "special")}
    return AddedToken(renamed.get(token.content, token.content), **flags)


def _renamed_settings(
    settings: dict[str, Any], renamed: Mapping[str, str], tokens: Set[str]
) -> dict[str, Any]:
    """Names of tokens are strings, or lists of them, in settings of any name; in chat templates, a part."""

    def new(value: Any) -> Any:
        if isinstance(value, str):
            return renamed.get(value, value)
        return [new(item) for item in value] if isinstance(value, list) else value

    templates = settings.get("chat_template")
    if isinstance(templates, Mapping):
        templates = {name: _renamed_text(text, renamed, tokens) for name, text in templates.items()}
    elif templates is not None:
        templates = _renamed_text(templates, renamed, tokens)
    named = {
        name: new(value)
        for name, value in settings.items()
        if name.endswith("_token") or name in ("extra_special_tokens", "chat_control_tokens")
    }
    return {**settings, **named, **({} if templates is None else {"chat_template": templates})}


def _renamed_text(text: str, renamed: Mapping[str, str], tokens: Set[str]) -> str:
    """A chat template that writes the new names. A name of letters alone may be anything: it stays."""
    names = {name for name in renamed if not re.fullmatch(r"\w+", name)}
    if not names:
        return text
    # A name inside another token's name doesn't count; the longest match does.
    pattern = "|".join(map(re.escape, sorted(names | tokens, key=len, reverse=True)))
    return re.sub(pattern, lambda found: renamed[found[0]] if found[0] in names else found[0], text)


def _rename_in_state(state: dict[str, Any], renamed: Mapping[str, str], moved: Mapping[str, str]) -> None:
    """Names in the model, padding, decoder and post-processor; only the last one names roles."""
    in_template = {**renamed, **moved}
    state["post_processor"] = with_tokens(
        state["post_processor"], lambda token, token_id: (in_template.get(token, token), token_id)
    )
    model, padding, decoder = state["model"], state["padding"], state["decoder"]
    for part, name in ((model, "unk_token"), (padding, "pad_token"), (decoder, "pad_token")):
        if part and name in part:
            part[name] = renamed.get(part[name], part[name])


def _moved_roles(
    like: PreTrainedTokenizerFast, state: Mapping[str, Any], roles: Mapping[str, Any]
) -> dict[str, str]:
    """What the tokens of these roles become in the post-processor."""
    named = {name: getattr(like, name, None) for name in like.SPECIAL_TOKENS_ATTRIBUTES}
    moved: dict[str, str] = {}
    for token in {token for token, _ in added_by(state["post_processor"])}:
        old = sorted(name for name in named if named[name] == token)
        new = {str(roles[name]) if roles.get(name) is not None else token for name in old}
        if len(new) > 1:
            raise ConfigurationError(
                f"{token!r} is {' and '.join(old)} of like, and its post-processor doesn't say which one it "
                "adds; give both, or neither"
            )
        for name in new - {token}:
            moved[token] = name
    return moved
