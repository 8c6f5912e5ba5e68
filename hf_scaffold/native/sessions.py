"""A tokenizer between two changes of its backend: encoder, added tokens, templates."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer
from tokenizers.models import BPE, WordLevel

from hf_scaffold._core.text_encoder import AddedTokenFinder, TextEncoder
from hf_scaffold.engine.compiled import LARGEST_ID, id_objects, text_encoder
from hf_scaffold.errors import ConfigurationError
from hf_scaffold.text.pre_tokenizers import get_pre_tokenizer

if TYPE_CHECKING:
    from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast

__all__ = [
    "Ends",
    "Ids",
    "NotNativeError",
    "Session",
    "Template",
    "make_encoder",
    "preset_of",
    "session_of",
]

Ids = NDArray[np.int32]
Ends = NDArray[np.int64]

# Ids that no token has, to tell sequences by.
FIRST_MARK = 1 << 31


class NotNativeError(Exception):
    """The call is for the general path; the message says why."""


@dataclass
class Session:
    """A tokenizer between two changes of its backend."""

    encoder: TextEncoder
    added: list[tuple[Any, ...]]  # as AddedTokenFinder takes them, but special in place of ignored
    frame: Tokenizer  # the backend with an empty model
    n_ids: int
    n_tokens: int
    finders: dict[bool, AddedTokenFinder] = field(default_factory=dict)
    templates: dict[tuple[int, bool], Template] = field(default_factory=dict)
    kept_numbers: list[int] | None = None
    kept_state: tuple[Any, ...] | None = None

    # No cached_property here: before Python 3.12 it has a lock, which a fork can leave taken.
    @property
    def numbers(self) -> list[int]:
        """As `id_objects`."""
        if self.kept_numbers is None:
            self.kept_numbers = id_objects(self.n_ids, self.n_tokens)
        return self.kept_numbers

    def frame_state(self, tokenizer: ScaffoldTokenizerFast) -> tuple[Any, ...]:
        """What the general path knows the frame by."""
        if self.kept_state is None:
            self.kept_state = tokenizer._state_of(self.frame)
        return self.kept_state

    def finder(self, split_special_tokens: bool) -> AddedTokenFinder:
        if split_special_tokens not in self.finders:
            self.finders[split_special_tokens] = AddedTokenFinder(
                [(*token, special and split_special_tokens) for *token, special in self.added]
            )
        return self.finders[split_special_tokens]

    def stretches(self, split_special_tokens: bool) -> Tokenizer:
        """Finds added tokens as the backend does, and makes one token of what stands between two of them."""
        from hf_scaffold.tokenization_scaffold import AddedTokens, with_model

        model = WordLevel({"": FIRST_MARK}, unk_token="")
        finder = with_model(model, self.frame, AddedTokens.of(self.frame))
        finder.pre_tokenizer = None
        finder.encode_special_tokens = split_special_tokens
        return finder

    def template(self, n_sequences: int, add_special_tokens: bool) -> Template:
        key = n_sequences, add_special_tokens
        if key not in self.templates:
            template = template_of(self.frame, *key)
            if template.ids.max() >= self.n_ids:
                raise NotNativeError("the post-processor adds ids that no token has")
            self.templates[key] = template
        return self.templates[key]


@dataclass
class Template:
    """What the post-processor makes of a row: special tokens, type ids, special_tokens_mask."""

    ids: Ids  # -1 and -2 stand for the sequences
    types: list[int]
    specials: list[int]
    n_shown: int  # what BatchEncoding.n_sequences says; one more after a template of a template
    pieces: list[int] = field(init=False)  # ids, as a list
    before: list[int] = field(init=False)
    after: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.pieces = self.ids.tolist()
        first = self.pieces.index(-1)
        self.before, self.after = self.pieces[:first], self.pieces[first + 1 :]

    @property
    def n_sequences(self) -> int:
        return sum(piece < 0 for piece in self.pieces)

    @property
    def n_specials(self) -> int:
        return len(self.pieces) - self.n_sequences


def template_of(frame: Tokenizer, n_sequences: int, add_special_tokens: bool) -> Template:
    """The template, read off what the backend makes of sequences of one token each."""
    marks = [FIRST_MARK, FIRST_MARK + 1][:n_sequences]
    sequences = [one_token(mark) for mark in marks]
    first, second = (*sequences, None)[:2]
    framed = frame.post_process(first, second, add_special_tokens)  # type: ignore[arg-type]  # wrong stub
    ids = [-1 - marks.index(token_id) if token_id in marks else token_id for token_id in framed.ids]
    if sorted(token_id for token_id in ids if token_id < 0) != sorted(-1 - i for i in range(n_sequences)):
        raise NotNativeError("the post-processor leaves out a sequence, or repeats one")
    if max(ids) >= FIRST_MARK:
        raise NotNativeError("the post-processor adds ids that no token has")
    return Template(np.array(ids, np.int32), framed.type_ids, framed.special_tokens_mask, framed.n_sequences)


def one_token(token_id: int) -> Encoding:
    from hf_scaffold.tokenization_scaffold import encoding_from

    tokenizer = Tokenizer(BPE({"a": 0}, []))
    state = tokenizer.encode("a").__getstate__()
    return encoding_from(state.replace(b'"ids":[0]', b'"ids":[%d]' % token_id))


def session_of(tokenizer: ScaffoldTokenizerFast) -> Session:
    """The tokenizer's session as its backend is now.

    Raises:
        NotNativeError: the native encoder doesn't know such a backend.
    """
    # Another thread may put another backend in place, whose cache is another, too.
    backend, cache = tokenizer._tokenizer, tokenizer.cache
    state = tokenizer._state_of(backend)
    kept: tuple[Any, Any, Session | str] | None = cache.get("native")
    if kept is None or kept[0] is not backend or kept[1] != state:
        kept = cache["native"] = backend, state, session_or_reason(tokenizer, backend)
    session = kept[2]
    if isinstance(session, str):
        raise NotNativeError(session)
    return session


def session_or_reason(tokenizer: ScaffoldTokenizerFast, backend: Tokenizer) -> Session | str:
    """A new session, or why there can't be one."""
    try:
        return make_session(tokenizer, backend)
    except NotNativeError as error:
        return str(error)


def make_session(tokenizer: ScaffoldTokenizerFast, backend: Tokenizer) -> Session:
    from hf_scaffold.tokenization_scaffold import AddedTokens, with_model

    model = backend.model
    if model.unk_token is not None or model.byte_fallback:
        raise NotNativeError("the model has an unk_token or byte_fallback")
    if model.continuing_subword_prefix or model.end_of_word_suffix:
        raise NotNativeError("the model marks parts of words")
    if backend.normalizer is not None:
        raise NotNativeError("there is a normalizer")
    preset = preset_of(backend)
    encoders = tokenizer.cache.setdefault("native encoders", {})
    kept = encoders.get(preset)
    if kept is None or kept[0] is not backend:
        vocab = backend.get_vocab(with_added_tokens=False)
        encoder = make_encoder(preset, tokenizer.scaffold, vocab)
        kept = encoders[preset] = backend, encoder, max(vocab.values()) + 1, len(vocab)
    _, encoder, n_ids, n_tokens = kept
    added = AddedTokens.of(backend)
    if max(added.by_id, default=0) > LARGEST_ID:
        raise NotNativeError(f"an added token's id is above {LARGEST_ID}")
    frame = with_model(BPE(), backend, added)
    frame.post_processor = copy.deepcopy(backend.post_processor)
    return Session(
        encoder=encoder,
        added=[
            (t.content, i, t.single_word, t.lstrip, t.rstrip, t.normalized, t.content in added.special)
            for i, t in added.by_id.items()
        ],
        frame=frame,
        n_ids=max([n_ids, *(token_id + 1 for token_id in added.by_id)]),
        n_tokens=n_tokens + len(added.by_id),
    )


def preset_of(backend: Tokenizer) -> str:
    try:
        preset = get_pre_tokenizer(backend).preset if backend.pre_tokenizer is not None else None
    except ConfigurationError as error:
        raise NotNativeError(str(error)) from None
    if preset is None:
        raise NotNativeError("the pre-tokenizer is none of the presets")
    return preset


def make_encoder(preset: str, scaffold: dict[str, Any], vocab: dict[str, int]) -> TextEncoder:
    if max(vocab.values()) + 1 + len(scaffold["demolish"]) > LARGEST_ID:
        raise NotNativeError(f"ids go beyond {LARGEST_ID}, scaffold tokens included")
    return text_encoder(preset, vocab, scaffold["merges"], scaffold["demolish"])
