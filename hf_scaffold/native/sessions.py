"""A tokenizer between two changes of its backend: encoder, added tokens, templates."""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer
from tokenizers.models import BPE

from hf_scaffold._core.text_encoder import TextEncoder
from hf_scaffold.engine.bare import BareEncoder
from hf_scaffold.engine.definition import MODEL_SETTINGS, AddedToken, Definition
from hf_scaffold.engine.model import Model
from hf_scaffold.methods.steps import steps_from_json
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
    # Built on first use.
    kinds_by_template: dict[tuple[int, bool], list[Kind]] = field(default_factory=dict)
    strings: dict[int, str] = field(default_factory=dict)

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

    def kinds(self, template: Template) -> list[Kind]:
        """What the template makes of each kind of row, by number; see `Kind`.

        Raises:
            NotNativeError: it can't be told.
        """
        key = template.n_sequences, template.adds_special_tokens
        if key not in self.kinds_by_template:
            self.kinds_by_template[key] = kinds_of(self.frame, template)
        return self.kinds_by_template[key]

    def trim(self) -> str:
        """How the post-processor trims offsets, as `offsets_as_lists` takes it.

        Raises:
            NotNativeError: in ways of its own; or only the backend knows offsets.
        """
        if self.bare.why_located_generally is not None:
            raise NotNativeError(f"offsets are asked for, and {self.bare.why_located_generally}")
        return trim_of(entry_of(self.frame.post_processor))

    @property
    def tokens(self) -> dict[int, str]:
        """Each id's token, as Encodings show it."""
        if not self.strings:
            self.strings = {token_id: token for token, token_id in self.bare.definition.ids.items()}
        return self.strings


@dataclass
class Template:
    """What the post-processor makes of a row: special tokens, type ids, special_tokens_mask."""

    ids: Ids  # -1 and -2 stand for the sequences
    types: list[int]
    specials: list[int]
    adds_special_tokens: bool
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
    def is_first_first(self) -> bool:
        """Whether the first sequence comes before the second."""
        return self.pieces.index(-1) < (self.pieces.index(-2) if -2 in self.pieces else len(self.pieces))

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
    types, specials = framed.type_ids, framed.special_tokens_mask
    return Template(np.array(ids, np.int32), types, specials, add_special_tokens, framed.n_sequences)


@dataclass
class Kind:
    """What the post-processor makes of a row, by what is in it.

    A sequence is all there was, or the first part of what was truncated; or else it is one of the parts that
    overflow. A kind's number is 1 if the first sequence is a part that overflows, plus 2 if the second is.
    """

    types: list[int]
    tokens: list[str]


def kinds_of(frame: Tokenizer, template: Template) -> list[Kind]:
    """The kinds of rows, as the backend makes them of sequences of two tokens, each truncated to one."""
    n = template.n_sequences
    sequences = [truncated_to_one(i) for i in range(n)]
    second = sequences[1] if n > 1 else None
    framed = frame.post_process(sequences[0], second, template.adds_special_tokens)
    rows = [framed, *framed.overflowing]
    numbers = [0, 1] if n == 1 else [0, 1, 3, 2] if template.is_first_first else [0, 2, 3, 1]
    if len(rows) != len(numbers) or not all(map(partial(is_of_kind, template), rows, numbers)):
        raise NotNativeError("the post-processor treats overflowing tokens in ways of its own")
    kinds = {number: Kind(row.type_ids, row.tokens) for number, row in zip(numbers, rows, strict=True)}
    return [kinds[number] for number in sorted(kinds)]


def truncated_to_one(sequence: int) -> Encoding:
    """A first or second sequence of two tokens, of which the latter overflows."""
    from hf_scaffold.tokenization_scaffold import with_type_id_1

    mark = FIRST_MARK + 2 * sequence
    tokens = Encoding.merge([one_token(mark), one_token(mark + 1)], growing_offsets=False)
    tokens = with_type_id_1(tokens) if sequence else tokens  # as the general path does
    tokens.truncate(1)
    return tokens


def is_of_kind(template: Template, row: Encoding, number: int) -> bool:
    """Whether a row made of such sequences is as the template has it, apart from type ids."""
    marks = {-1: FIRST_MARK + number % 2, -2: FIRST_MARK + 2 + number // 2}
    pieces, places = template.pieces, range(len(template.pieces))
    return (
        row.ids == [marks.get(piece, piece) for piece in pieces]
        and row.special_tokens_mask == template.specials
        and row.n_sequences == template.n_sequences
        and row.sequence_ids == [None if piece >= 0 else -1 - piece for piece in pieces]
        and [row.token_to_sequence(i) for i in places] == row.sequence_ids
        and all(row.offsets[i] == (0, 0) and row.word_ids[i] is None for i in places if pieces[i] >= 0)
    )


def trim_of(entry: dict[str, Any] | None) -> str:
    trim, is_framed = "none", False
    entries = [] if entry is None else [entry]
    while entries:
        part = entries.pop(0)
        entries = part.get("processors", []) + entries
        if part.get("trim_offsets"):
            if trim != "none" or is_framed:
                raise NotNativeError("the post-processor trims offsets in ways of its own")
            trim = "all but prefix" if part["add_prefix_space"] else "all"
        is_framed = is_framed or part["type"] not in ("ByteLevel", "Sequence")
    return trim


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
        steps_from_json(scaffold["steps"]) if "steps" in scaffold else None,
    )


def entry_of(part: Any) -> dict[str, Any] | None:
    """A part of a backend as in tokenizer.json; one that is written in Python as of an unknown type."""
    from hf_scaffold.tokenization_scaffold import part_state

    state = part_state(part)
    if state is None:
        return None
    entry: dict[str, Any] = json.loads(state) if isinstance(state, bytes) else {"type": type(part).__name__}
    return entry
