"""The encodings of a native call, made when they are asked for, and those of what dropout drew."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate, chain, pairwise
from typing import Any, TypeVar

import numpy as np
from tokenizers import Encoding
from tokenizers.models import BPE

from hf_scaffold.engine.dropout import Dropout
from hf_scaffold.native.contract import Backend, Caller
from hf_scaffold.native.plan import Plan
from hf_scaffold.native.rows import Rows, rows_of
from hf_scaffold.native.sessions import Ends, Ids, NotNativeError, Session, session_of

# The arguments of a call that its encodings depend on.
SHAPING = (
    *("add_special_tokens", "padding_strategy", "truncation_strategy", "max_length", "stride"),
    *("pad_to_multiple_of", "padding_side", "is_split_into_words", "return_overflowing_tokens"),
)


class LazyEncodings(Sequence[Any]):
    """The encodings of a batch, made when the first is asked for: preparing training data asks for none.

    They are those of the tokenizer as it was at the call. Pickled or copied, they are a plain list of
    Encodings.

    Args:
        rows: Those of the call; they may be left out if nothing was drawn.
    """

    def __init__(
        self, plan: Plan, rows: Rows | None = None, draw: Callable[..., list[Encoding]] | None = None
    ) -> None:
        self._plan, self._rows, self._draw = plan, rows, draw
        self._made: Sequence[Encoding] | None = None
        self._each: Sequence[Any] | None = None

    @property
    def made(self) -> Sequence[Encoding]:
        """The backend's."""
        if self._made is None:
            plan = self._plan
            options = {name: plan.options[name] for name in SHAPING if name in plan.options}
            encoded = plan.twin._encode_generally(
                plan.session.frame,
                *plan.given,
                draw=self._draw,
                **options,
                split_special_tokens=plan.split_special_tokens,
                return_token_type_ids=True,
                verbose=False,
            )
            self._made = encoded.encodings or []
        return self._made

    @property
    def each(self) -> Sequence[Any]:
        if self._each is None:
            plan = self._plan
            try:
                plan.session.trim()  # raises before anything is encoded
                rows = self._rows or rows_of(*plan.session.bare.encode_batch(plan.texts, plan.allowed), plan)
                located = LocatedRows(rows, plan)
                self._each = [NativeEncoding(located, i, self) for i in range(len(self))]
            except NotNativeError:
                self._each = self.made
        return self._each

    def __getitem__(self, index: Any) -> Any:
        return self.each[index]

    def __len__(self) -> int:
        return self._plan.n_rows if self._rows is None else len(self._rows.spans)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.each)

    def __eq__(self, other: object) -> bool:
        return self.each == other

    __hash__ = None  # type: ignore[assignment]  # as a list

    def __repr__(self) -> str:
        return repr(self.made)

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (self.made,)


class LocatedRows:
    """What the encodings of a batch have in common.

    Raises:
        NotNativeError: only the backend can tell where the tokens stand.
    """

    def __init__(self, rows: Rows, plan: Plan) -> None:
        self.rows, self.plan = rows, plan
        self.kinds = plan.session.kinds(plan.template)
        assert rows.located is not None
        self.each = rows.located.spans
        self.spans = rows.row_spans(plan.session.trim())
        self.lengths = rows.length()
        # The tokens of each sequence.
        edges = rows.piece_sizes().cumsum(axis=1).tolist()
        places = [plan.template.pieces.index(-1 - i) for i in range(plan.template.n_sequences)]
        self.ranges = [[(each[place], each[place + 1]) for place in places] for each in edges]
        self.pad_token = plan.twin.pad_token
        self.first_texts = None if plan.n_words is None else [*accumulate(plan.n_words, initial=0)]

    def tokens(self, number: int, sequence: int) -> list[str]:
        """The tokens of a row's sequence; an added token is what the text has in its place."""
        rows, plan = self.rows, self.plan
        begin, end = rows.spans[number, sequence].tolist()
        spans, known = self.each[begin:end], plan.session.tokens
        tokens = [known[token_id] for token_id in rows.ids[begin:end].tolist()]
        place = int(rows.samples[number]) * plan.template.n_sequences + sequence
        for i in np.flatnonzero(spans[:, 5]).tolist():
            start, stop, *_, word, _ = spans[i].tolist()
            text = plan.texts[place if self.first_texts is None else self.first_texts[place] + word]
            tokens[i] = text[start:stop]
        return tokens


Made = TypeVar("Made")


def native(make: Callable[[NativeEncoding], Made]) -> Made:
    """A property that the backend's Encoding answers once there is one, which can be changed in place."""

    def get(self: NativeEncoding) -> Any:
        return make(self) if self._made is None else getattr(self._made, make.__name__)

    return property(get)  # type: ignore[return-value]


class NativeEncoding:
    """A row's Encoding: what is asked for most is at hand, and the backend makes it for anything else."""

    def __init__(self, located: LocatedRows, number: int, batch: LazyEncodings) -> None:
        self._located, self._number, self._batch = located, number, batch
        self._ranges = located.ranges[number]
        self._made: Encoding | None = None

    @property
    def made(self) -> Encoding:
        """The backend's."""
        if self._made is None:
            self._made = self._batch.made[self._number]
        return self._made

    @property
    def _row(self) -> Rows:
        return self._located.rows.row(self._number)

    @native
    def ids(self) -> list[int]:
        ids: list[int] = self._row.input_ids()[0]
        return ids

    @native
    def type_ids(self) -> list[int]:
        types: list[int] = self._row.token_type_ids()[0]
        return types

    @native
    def attention_mask(self) -> list[int]:
        mask: list[int] = self._row.attention_mask()[0]
        return mask

    @native
    def special_tokens_mask(self) -> list[int]:
        mask: list[int] = self._row.special_tokens_mask()[0]
        return mask

    @native
    def offsets(self) -> list[tuple[int, int]]:
        located = self._located
        numbers = located.plan.session.bare.numbers
        return located.spans.offsets(self._number, self._number + 1, numbers)[0]

    @native
    def word_ids(self) -> list[int | None]:
        return self._located.spans.words(self._number, self._number + 1)[0]

    @native
    def tokens(self) -> list[str]:
        located, number = self._located, self._number
        left, right = located.rows.padding[number].tolist()
        kind = located.kinds[int(located.rows.kinds[number])]
        tokens = [located.pad_token] * left
        for piece, token in zip(located.plan.template.pieces, kind.tokens, strict=True):
            tokens += [token] if piece >= 0 else located.tokens(number, -1 - piece)
        return tokens + [located.pad_token] * right

    @native
    def n_sequences(self) -> int:
        return len(self._ranges)

    @native
    def sequence_ids(self) -> list[int | None]:
        ids: list[int | None] = [None] * len(self)
        for i, (begin, end) in enumerate(self._ranges):
            ids[begin:end] = [i] * (end - begin)
        return ids

    def __len__(self) -> int:
        return self._located.lengths[self._number] if self._made is None else len(self._made)

    # ---- from one to another; where there is nothing to find, None

    def token_to_sequence(self, token_index: int) -> int | None:
        if not self._can_find(token_index):
            return self.made.token_to_sequence(token_index)
        ranges = enumerate(self._ranges)
        return next((i for i, (begin, end) in ranges if begin <= token_index < end), None)

    def token_to_chars(self, token_index: int) -> tuple[int, int] | None:
        if not self._can_find(token_index):
            return self.made.token_to_chars(token_index)
        sequence = self.token_to_sequence(token_index)
        if sequence is None:
            return None
        return self._located.spans.chars_of(self._number, sequence, token_index - self._ranges[sequence][0])

    def token_to_word(self, token_index: int) -> int | None:
        if not self._can_find(token_index):
            return self.made.token_to_word(token_index)
        sequence = self.token_to_sequence(token_index)
        if sequence is None:
            return None
        return self._located.spans.word_of(self._number, sequence, token_index - self._ranges[sequence][0])

    def char_to_token(self, char_pos: int, sequence_index: int = 0) -> int | None:
        if not self._can_find(char_pos, sequence_index):
            return self.made.char_to_token(char_pos, sequence_index)
        token = self._located.spans.token_at(self._number, sequence_index, char_pos)
        return None if token is None else self._ranges[sequence_index][0] + token

    def char_to_word(self, char_pos: int, sequence_index: int = 0) -> int | None:
        if not self._can_find(char_pos, sequence_index):
            return self.made.char_to_word(char_pos, sequence_index)
        token = self.char_to_token(char_pos, sequence_index)
        return None if token is None else self.token_to_word(token)

    def word_to_tokens(self, word_index: int, sequence_index: int = 0) -> tuple[int, int] | None:
        if not self._can_find(word_index, sequence_index):
            return self.made.word_to_tokens(word_index, sequence_index)
        tokens = self._located.spans.tokens_of(self._number, sequence_index, word_index)
        if tokens is None:
            return None
        begin = self._ranges[sequence_index][0]
        return begin + tokens[0], begin + tokens[1]

    def word_to_chars(self, word_index: int, sequence_index: int = 0) -> tuple[int, int] | None:
        if not self._can_find(word_index, sequence_index):
            return self.made.word_to_chars(word_index, sequence_index)
        tokens = self._located.spans.tokens_of(self._number, sequence_index, word_index)
        if tokens is None:
            return None
        first, last = (
            self._located.spans.chars_of(self._number, sequence_index, token)
            for token in (tokens[0], tokens[1] - 1)
        )
        return first[0], last[1]

    def _can_find(self, place: object, sequence: object = 0) -> bool:
        """Whether it is for this to find a place in a sequence: the backend reads or refuses odd ones."""
        is_known = type(place) is int and 0 <= place < 1 << 31 and type(sequence) is int
        return self._made is None and is_known and 0 <= sequence < len(self._ranges)  # type: ignore[operator]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.made, name)

    def __repr__(self) -> str:
        return repr(self.made)

    def __reduce__(self) -> tuple[Any, ...]:
        return copy.copy, (self.made,)


# ---- dropout


def draw(tokenizer: Caller, p: float, seed: int | None) -> Callable[..., list[Encoding]]:
    """What makes encodings of a call's sequences under dropout, in place of the backend's model.

    Raises:
        NotNativeError: the compiled encoder doesn't know the backend.
    """
    return partial(draw_encodings, session_of(tokenizer), Dropout(p, seed))


def draw_encodings(
    session: Session, dropout: Dropout, backend: Backend, sequences: list[Any], is_pretokenized: bool
) -> list[Encoding]:
    symbols = symbols_of(backend, sequences, is_pretokenized)  # refuses first what is no text
    words = [sequence if is_pretokenized else [sequence] for sequence in sequences]
    allowed = session.allowed(backend.encode_special_tokens)
    flat, ends = session.bare.encode_batch([*chain.from_iterable(words)], allowed, dropout)
    return with_ids(symbols, flat, ends[np.cumsum([0, *map(len, words)])], backend)


def encodings_of(
    flat: Ids, ends: Ends, backend: Backend, sequences: list[Any], is_pretokenized: bool
) -> list[Encoding]:
    """The encodings of sequences whose ids have been drawn."""
    return with_ids(symbols_of(backend, sequences, is_pretokenized), flat, ends, backend)


def with_ids(symbols: list[Encoding], flat: Ids, ends: Ends, backend: Backend) -> list[Encoding]:
    """The encodings of sequences in ids, made of those in symbols."""
    return [
        encoding_of(flat[begin:end].tolist(), each, backend.expanded.model)
        for each, (begin, end) in zip(symbols, pairwise(ends.tolist()), strict=True)
    ]


def symbols_of(backend: Backend, sequences: list[Any], is_pretokenized: bool) -> list[Encoding]:
    from hf_scaffold.tokenization_scaffold import encode_all

    return encode_all(backend.pipelines.symbols, sequences, is_pretokenized, False)


def encoding_of(ids: Sequence[int], symbols: Encoding, model: BPE) -> Encoding:
    """The Encoding of a sequence in these tokens.

    Args:
        symbols: The same sequence, every symbol its own token; added tokens are the same on both sides.
        model: Has the tokens that symbols merge into.
    """
    from hf_scaffold.tokenization_scaffold import encoding_from

    state: dict[str, list[Any]] = json.loads(symbols.__getstate__())
    tokens: list[str] = []
    firsts: list[int] = []
    offsets: list[tuple[int, int]] = []
    n_prefix = len(model.continuing_subword_prefix or "")
    at = 0
    for token_id in ids:
        firsts.append(at)
        spelled = state["tokens"][at]
        if token_id != state["ids"][at]:
            token = model.id_to_token(token_id)
            while spelled != token:
                at += 1
                spelled += state["tokens"][at][n_prefix:]
        tokens.append(spelled)
        offsets.append((state["offsets"][firsts[-1]][0], state["offsets"][at][1]))
        at += 1
    for name in ("type_ids", "words", "special_tokens_mask", "attention_mask"):
        state[name] = [state[name][first] for first in firsts]
    state |= {"ids": list(ids), "tokens": tokens, "offsets": offsets}
    return encoding_from(json.dumps(state).encode())
