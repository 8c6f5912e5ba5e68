"""The encodings of a native call, made when they are asked for, and those of what dropout drew."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, pairwise
from typing import Any

import numpy as np
from tokenizers import Encoding
from tokenizers.models import BPE

from hf_scaffold.engine.dropout import Dropout
from hf_scaffold.native.contract import Backend, Caller
from hf_scaffold.native.plan import Plan
from hf_scaffold.native.sessions import Ends, Ids, Session, session_of

# The arguments of a call that its encodings depend on.
SHAPING = (
    *("add_special_tokens", "padding_strategy", "truncation_strategy", "max_length", "stride"),
    *("pad_to_multiple_of", "padding_side"),
)


class LazyEncodings(Sequence[Encoding]):
    """The encodings of a batch, made by the general path when the first is asked for.

    Preparing training data asks for none. They are those of the tokenizer as it was at the call. Pickled or
    copied, they are a plain list.
    """

    def __init__(self, plan: Plan, draw: Callable[..., list[Encoding]] | None = None) -> None:
        self._plan, self._draw = plan, draw
        self._made: Sequence[Encoding] | None = None

    @property
    def made(self) -> Sequence[Encoding]:
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

    def __getitem__(self, index: Any) -> Any:
        return self.made[index]

    def __len__(self) -> int:
        return self._plan.n_rows

    def __iter__(self) -> Iterator[Encoding]:
        return iter(self.made)

    def __eq__(self, other: object) -> bool:
        return self.made == other

    __hash__ = None  # type: ignore[assignment]  # as a list

    def __repr__(self) -> str:
        return repr(self.made)

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (self.made,)


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
