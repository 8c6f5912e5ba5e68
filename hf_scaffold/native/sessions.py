"""A tokenizer between two changes of its backend: encoder, added tokens, templates."""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer
from tokenizers.models import BPE

from hf_scaffold._core.text_encoder import TextEncoder
from hf_scaffold.engine.bare import BareEncoder
from hf_scaffold.engine.definition import MODEL_SETTINGS, AddedToken, Definition
from hf_scaffold.engine.model import Model
from hf_scaffold.native.contract import Caller

Ids = NDArray[np.int32]
Ends = NDArray[np.int64]

# Ids that no token has, to tell sequences by.
FIRST_MARK = 1 << 31


class NotNativeError(Exception):
    """The call is for the general path; the message says why."""


@dataclass
class Session:
    """A tokenizer between two changes of its backend."""

    bare: BareEncoder
    frame: Tokenizer  # the backend with an empty model
    templates: dict[tuple[int, bool], Template] = field(default_factory=dict)

    def allowed(self, split_special_tokens: bool) -> frozenset[str]:
        """The special tokens that are found in text."""
        return frozenset() if split_special_tokens else self.bare.special

    def template(self, n_sequences: int, add_special_tokens: bool) -> Template:
        key = n_sequences, add_special_tokens
        if key not in self.templates:
            template = template_of(self.frame, *key)
            if template.ids.max() >= self.bare.n_ids:
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
    from hf_scaffold.tokenization_scaffold import is_of_backend

    marks = [FIRST_MARK, FIRST_MARK + 1][:n_sequences]
    sequences = [one_token(mark) for mark in marks]
    first, second = (*sequences, None)[:2]
    try:
        framed = frame.post_process(first, second, add_special_tokens)  # type: ignore[arg-type]  # wrong stub
    except BaseException as error:
        if not is_of_backend(error):
            raise
        raise NotNativeError("the post-processor is for the backend to refuse") from error
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


def session_of(tokenizer: Caller) -> Session:
    """The tokenizer's session as its backend is now.

    Raises:
        NotNativeError: the native encoder doesn't know such a backend.
    """
    # Another thread may put another backend in place, whose cache is another, too.
    # By `vars`, as in 0.1.0's class this is a property that notes who reads it.
    backend, cache = vars(tokenizer)["_tokenizer"], tokenizer.cache
    state = tokenizer._state_of(backend)
    kept: tuple[Any, Any, Session | str] | None = cache.get("native")
    if kept is None or kept[0] is not backend or kept[1] != state:
        kept = cache["native"] = backend, state, session_or_reason(tokenizer, backend)
    session = kept[2]
    if isinstance(session, str):
        raise NotNativeError(session)
    return session


def prepare(tokenizer: Caller) -> None:
    """Compile the encoder, where there is one, so that the first call is as fast as any."""
    with suppress(NotNativeError):
        compiled = session_of(tokenizer).bare.compiled
        if compiled is not None:
            compiled.prepare()


def session_or_reason(tokenizer: Caller, backend: Tokenizer) -> Session | str:
    """A new session, or why there can't be one."""
    try:
        return make_session(tokenizer, backend)
    except NotNativeError as error:
        return str(error)


@dataclass
class CompiledModel:
    """The model of a backend, and the compiled encoders for it by pre-tokenizer."""

    backend: Tokenizer
    model: Model
    compiled: dict[str, TextEncoder | None] = field(default_factory=dict)


def make_session(tokenizer: Caller, backend: Tokenizer) -> Session:
    from hf_scaffold.tokenization_scaffold import AddedTokens, with_model

    kept: CompiledModel | None = tokenizer.cache.get("native model")
    if kept is None or kept.backend is not backend:
        kept = tokenizer.cache["native model"] = CompiledModel(backend, model_of(tokenizer, backend))
    added = AddedTokens.of(backend)
    definition = Definition(
        kept.model,
        added_tokens=[
            AddedToken(
                i, t.content, t.single_word, t.lstrip, t.rstrip, t.normalized, t.content in added.special
            )
            for i, t in added.by_id.items()
        ],
        normalizer=entry_of(backend.normalizer),
        pre_tokenizer=entry_of(backend.pre_tokenizer),
        decoder=None,
        before=[],
        after=[],
    )
    pre_tokenizer = json.dumps(definition.pre_tokenizer)
    bare = BareEncoder(definition, kept.compiled.get(pre_tokenizer))
    if bare.why_general is not None:
        raise NotNativeError(bare.why_general)
    kept.compiled[pre_tokenizer] = bare.compiled
    frame = with_model(BPE(), backend, added)
    frame.post_processor = copy.deepcopy(backend.post_processor)
    return Session(bare, frame)


def model_of(tokenizer: Caller, backend: Tokenizer) -> Model:
    scaffold = tokenizer.scaffold
    return Model(
        backend.get_vocab(with_added_tokens=False),
        scaffold["merges"],
        scaffold["demolish"],
        {name: value for name in MODEL_SETTINGS if (value := getattr(backend.model, name))},
    )


def entry_of(part: Any) -> dict[str, Any] | None:
    """A part of a backend as in tokenizer.json; one that is written in Python as of an unknown type."""
    from hf_scaffold.tokenization_scaffold import part_state

    state = part_state(part)
    if state is None:
        return None
    entry: dict[str, Any] = json.loads(state) if isinstance(state, bytes) else {"type": type(part).__name__}
    return entry
