"""Tokenizer calls on the native encoder: which it can take, and what they return.

`ScaffoldTokenizerFast` asks here first. The answer is exactly that of the general path, the Rust backend,
where a preset splits the text, and ids, masks and lengths are wanted; anything else is left to it. All that
is derived from a tokenizer is kept in its `cache`, and made anew once the backend's parts have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import Encoding, Tokenizer
from transformers import BatchEncoding
from transformers.tokenization_utils_base import TruncationStrategy
from transformers.utils.generic import PaddingStrategy

from hf_scaffold._core.text_encoder import framed
from hf_scaffold.engine.inputs import utf8_of
from hf_scaffold.native.dropout import Dropout, encoding_of
from hf_scaffold.native.encoding import are_texts, encode_sequences, encode_text, encode_utf8
from hf_scaffold.native.rows import Options, Row, Rows, in_form, makes_matrices, rows_of
from hf_scaffold.native.sessions import Ends, Ids, NotNativeError, Session, session_of

if TYPE_CHECKING:
    from hf_scaffold.tokenization_scaffold import CallBackend, ScaffoldTokenizerFast

__all__ = ["LazyEncodings", "draw", "encode_plus", "encode_to_arrays", "reason_against"]


# ---- the call


def encode_plus(
    tokenizer: ScaffoldTokenizerFast,
    text: Any,
    text_pair: Any = None,
    add_special_tokens: bool = True,
    padding_strategy: PaddingStrategy = PaddingStrategy.DO_NOT_PAD,
    truncation_strategy: TruncationStrategy = TruncationStrategy.DO_NOT_TRUNCATE,
    max_length: int | None = None,
    stride: int = 0,
    is_split_into_words: bool = False,
    pad_to_multiple_of: int | None = None,
    padding_side: str | None = None,
    return_tensors: Any = None,
    return_token_type_ids: bool | None = None,
    return_attention_mask: bool | None = None,
    return_overflowing_tokens: bool = False,
    return_special_tokens_mask: bool = False,
    return_offsets_mapping: bool = False,
    return_length: bool = False,
    verbose: bool = True,
    split_special_tokens: bool | None = None,
    dropout: float | None = None,
    seed: int | None = None,
    **kwargs: Any,
) -> BatchEncoding:
    """What the general path returns for this call of `_encode_plus`; its encodings are made when asked for.

    Raises:
        NotNativeError: the general path must take the call.
    """
    if is_split_into_words:
        raise NotNativeError("is_split_into_words is set")
    if return_overflowing_tokens:
        raise NotNativeError("overflowing tokens are asked for")
    if return_offsets_mapping:
        raise NotNativeError("offsets are asked for")
    if kwargs.get("sanitize_control_tokens"):
        raise NotNativeError("sanitize_control_tokens is set")
    # All that the call depends on is read once, here, as other threads may change the tokenizer meanwhile:
    # first what is the tokenizer's own, then the backend, so that this has every token that the former names.
    state = settings_of(tokenizer)
    pads = padding_strategy is not PaddingStrategy.DO_NOT_PAD
    pad_id = twin_of(type(tokenizer), state).pad_token_id if pads else None
    session = session_of(tokenizer)
    if return_token_type_ids is None:
        return_token_type_ids = "token_type_ids" in tokenizer.model_input_names
    if return_attention_mask is None:
        return_attention_mask = "attention_mask" in tokenizer.model_input_names
    if split_special_tokens is None:
        split_special_tokens = tokenizer.split_special_tokens
    texts, n_sequences, is_batched = sequences_of(text, text_pair)
    template = session.template(n_sequences, bool(add_special_tokens))
    options = Options(
        add_special_tokens,
        split_special_tokens,
        padding_strategy,
        truncation_strategy,
        max_length,
        stride,
        pad_to_multiple_of,
        padding_side,
    )
    chance = Dropout(dropout, seed) if dropout else None
    drawn = None

    rows: Row | Rows
    if is_batched or n_sequences == 2 or options.truncates or options.pads or return_tensors or chance:
        flat, ends = encode_sequences(tokenizer, session, texts, split_special_tokens, chance)
        drawn = partial(encodings_of, flat, ends) if chance else None
        now = twin_of(type(tokenizer), state)
        rows = rows_of(flat, ends, template, options, session, now, pad_id)
        rows.is_matrix = makes_matrices(return_tensors) and rows.are_equally_long
    else:
        rows = Row(encode_text(tokenizer, session, text, split_special_tokens), template)

    data: dict[str, Any] = {"input_ids": rows.input_ids()}
    if return_token_type_ids:
        data["token_type_ids"] = rows.token_type_ids()
    if return_attention_mask:
        data["attention_mask"] = rows.attention_mask()
    if return_special_tokens_mask:
        data["special_tokens_mask"] = rows.special_tokens_mask()
    if return_length:
        data["length"] = rows.length()
    if isinstance(rows, Rows):
        data = in_form(data, rows, is_batched, return_tensors)
    # As stock does for each row; only the length of a row counts.
    tokenizer._eventual_warn_about_too_long_sequence(range(rows.longest), max_length, verbose)  # type: ignore[arg-type]

    texts_now = listed(text), listed(text_pair)
    n_rows = len(texts) // n_sequences
    encodings = LazyEncodings(type(tokenizer), state, session.frame, texts_now, options, drawn, n_rows)
    return BatchEncoding(data, encodings, tensor_type=return_tensors, n_sequences=template.n_shown)


def settings_of(tokenizer: ScaffoldTokenizerFast) -> dict[str, Any]:
    """The tokenizer's settings and named tokens as they are now, with the same backend."""
    state = vars(tokenizer).copy()
    state["_special_tokens_map"] = state["_special_tokens_map"].copy()
    return state


def twin_of(kind: type[ScaffoldTokenizerFast], state: dict[str, Any]) -> ScaffoldTokenizerFast:
    """A tokenizer with such settings."""
    twin = object.__new__(kind)
    object.__setattr__(twin, "__dict__", state)
    return twin


def sequences_of(text: Any, text_pair: Any) -> tuple[list[str], int, bool]:
    """The sequences of all rows in turn, how many a row has, and whether it is a batch."""
    if isinstance(text, str):
        if not text_pair:
            return [text], 1, False
        if isinstance(text_pair, str):
            return [text, text_pair], 2, False
    elif isinstance(text, (list, tuple)) and text and not isinstance(text_pair, str):
        if text_pair is None and are_texts(text):
            return list(text), 1, True
        if text_pair is None or len(text_pair) == len(text):
            rows = list(text if text_pair is None else zip(text, text_pair, strict=True))
            if all(isinstance(row, (tuple, list)) and len(row) == 2 for row in rows):
                texts = [item for row in rows for item in row]
                if are_texts(texts):
                    return texts, 2, True
    raise NotNativeError("neither a text nor a batch of texts or pairs of texts")


# ---- dropout


def draw(tokenizer: ScaffoldTokenizerFast, p: float, seed: int | None) -> Callable[..., list[Encoding]]:
    """What makes encodings of a call's sequences under dropout, in place of the backend's model.

    Raises:
        NotNativeError: the native encoder doesn't know the backend.
    """
    return partial(draw_encodings, tokenizer, session_of(tokenizer), Dropout(p, seed))


def draw_encodings(
    tokenizer: ScaffoldTokenizerFast,
    session: Session,
    dropout: Dropout,
    backend: CallBackend,
    sequences: list[Any],
    is_pretokenized: bool,
) -> list[Encoding]:
    symbols = symbols_of(backend, sequences, is_pretokenized)  # refuses first what is no text
    words = [sequence if is_pretokenized else [sequence] for sequence in sequences]
    flat, ends = encode_sequences(
        tokenizer, session, [*chain.from_iterable(words)], backend.encode_special_tokens, dropout
    )
    return with_ids(symbols, flat, ends[np.cumsum([0, *map(len, words)])], backend)


def encodings_of(
    flat: Ids, ends: Ends, backend: CallBackend, sequences: list[Any], is_pretokenized: bool
) -> list[Encoding]:
    """The encodings of sequences whose ids have been drawn."""
    return with_ids(symbols_of(backend, sequences, is_pretokenized), flat, ends, backend)


def with_ids(symbols: list[Encoding], flat: Ids, ends: Ends, backend: CallBackend) -> list[Encoding]:
    """The encodings of sequences in ids, made of those in symbols."""
    return [
        encoding_of(flat[begin:end].tolist(), each, backend.expanded.model)
        for each, (begin, end) in zip(symbols, pairwise(ends.tolist()), strict=True)
    ]


def symbols_of(backend: CallBackend, sequences: list[Any], is_pretokenized: bool) -> list[Encoding]:
    from hf_scaffold.tokenization_scaffold import encode_all

    return encode_all(backend.pipelines.symbols, sequences, is_pretokenized, False)


# ---- encodings


def listed(texts: Any) -> Any:
    """A batch as it is now."""
    return texts if texts is None or isinstance(texts, str) else list(texts)


class LazyEncodings(Sequence[Encoding]):
    """The encodings of a batch, made by the general path when the first is asked for.

    Preparing training data asks for none. They are those of the tokenizer as it was at the call. Pickled or
    copied, they are a plain list.
    """

    def __init__(
        self,
        kind: type[ScaffoldTokenizerFast],
        state: dict[str, Any],
        frame: Tokenizer,
        texts: tuple[Any, Any],
        options: Options,
        draw: Callable[..., list[Encoding]] | None,
        n: int,
    ) -> None:
        self._kind, self._state, self._frame, self._texts = kind, state, frame, texts
        self._options, self._draw, self._n = options, draw, n
        self._made: Sequence[Encoding] | None = None

    @property
    def made(self) -> Sequence[Encoding]:
        if self._made is None:
            encoded = twin_of(self._kind, self._state)._encode_generally(
                self._frame,
                *self._texts,
                draw=self._draw,
                return_token_type_ids=True,
                verbose=False,
                **vars(self._options),
            )
            self._made = encoded.encodings or []
        return self._made

    def __getitem__(self, index: Any) -> Any:
        return self.made[index]

    def __len__(self) -> int:
        return self._n

    def __iter__(self) -> Iterator[Encoding]:
        return iter(self.made)

    def __eq__(self, other: object) -> bool:
        return self.made == other

    __hash__ = None  # type: ignore[assignment]  # as a list

    def __repr__(self) -> str:
        return repr(self.made)

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (self.made,)


# ---- other ways in and out


def reason_against(
    tokenizer: ScaffoldTokenizerFast, text: Any, text_pair: Any, kwargs: dict[str, Any]
) -> str | None:
    """Why the general path takes a call of `_encode_plus`; None if the native encoder does."""
    try:
        encode_plus(tokenizer, text, text_pair, **kwargs)
    except NotNativeError as error:
        return str(error)
    return None


def encode_to_arrays(
    tokenizer: ScaffoldTokenizerFast,
    texts: Any,
    add_special_tokens: bool,
    split_special_tokens: bool,
    dropout: float | None,
    seed: int | None,
) -> tuple[Ids, Ends]:
    """Flat ids of a batch of texts, and offsets; texts may also be UTF-8, or a column of an Arrow table.

    Raises:
        NotNativeError: the general path must take the call.
    """
    from hf_scaffold.tokenization_scaffold import strings_of

    session = session_of(tokenizer)
    template = session.template(1, add_special_tokens)
    utf8 = None if dropout else utf8_of(texts)  # what is dropped depends on the texts as strings
    if utf8 is not None:
        flat, ends = encode_utf8(tokenizer, session, *utf8, split_special_tokens)
    else:
        strings = texts if are_texts(texts) else strings_of(texts)
        if not are_texts(strings):
            raise NotNativeError("not all are texts")
        chance = Dropout(dropout, seed) if dropout else None
        flat, ends = encode_sequences(tokenizer, session, strings, split_special_tokens, chance)
    if template.n_specials:
        return framed(flat, ends, np.array(template.before, np.int32), np.array(template.after, np.int32))
    return flat, ends
