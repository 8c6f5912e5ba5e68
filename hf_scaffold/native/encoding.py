"""Texts to ids on the native encoder, in threads; what it leaves open is asked of the backend."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hf_scaffold._core.text_encoder import AddedTokenFinder
from hf_scaffold.engine.compiled import with_rows
from hf_scaffold.engine.inputs import n_threads
from hf_scaffold.native.dropout import Dropout
from hf_scaffold.native.sessions import FIRST_MARK, Ends, Ids, NotNativeError, Session

if TYPE_CHECKING:
    from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast

__all__ = ["are_texts", "encode_sequences", "encode_text", "encode_utf8"]


def are_texts(items: Iterable[Any]) -> bool:
    return all(issubclass(kind, str) for kind in {*map(type, items)})


def encode_text(
    tokenizer: ScaffoldTokenizerFast, session: Session, text: str, split_special_tokens: bool
) -> list[int]:
    """Ids of a text without special tokens around them."""
    ids = session.encoder.encode_one(text, session.finder(bool(split_special_tokens)))
    return encode_generally(tokenizer, session, text, split_special_tokens) if ids is None else ids


def encode_sequences(
    tokenizer: ScaffoldTokenizerFast,
    session: Session,
    texts: Sequence[str],
    split_special_tokens: bool,
    dropout: Dropout | None = None,
) -> tuple[Ids, Ends]:
    """Ids of all texts without special tokens around them, and offsets."""
    p, streams = (dropout.p, dropout.streams(texts)) if dropout else (0, None)
    flat, ends, unsure = session.encoder.encode(
        texts, session.finder(bool(split_special_tokens)), n_threads(sum(map(len, texts))), p, streams
    )
    if unsure:
        made = [
            drop_between_added_tokens(session, texts[i], split_special_tokens, p, streams[i])
            if streams is not None
            else encode_generally(tokenizer, session, texts[i], split_special_tokens)
            for i in unsure
        ]
        return with_rows(flat, ends, unsure, made)
    return flat, ends


def encode_utf8(
    tokenizer: ScaffoldTokenizerFast, session: Session, data: Any, offsets: Ends, split_special_tokens: bool
) -> tuple[Ids, Ends]:
    """`encode_sequences` of texts that lie one after another as UTF-8, text i from offsets[i] on.

    Raises:
        UnicodeDecodeError: a text is no UTF-8.
    """
    finder = session.finder(bool(split_special_tokens))
    n_bytes = int(offsets[-1] - offsets[0])
    flat, ends, unsure = session.encoder.encode_utf8(data, offsets, finder, n_threads(n_bytes))
    if unsure:
        texts = (bytes(data[offsets[i] : offsets[i + 1]]).decode() for i in unsure)
        made = [encode_generally(tokenizer, session, text, split_special_tokens) for text in texts]
        return with_rows(flat, ends, unsure, made)
    return flat, ends


def encode_generally(
    tokenizer: ScaffoldTokenizerFast, session: Session, text: str, split_special_tokens: bool
) -> list[int]:
    refuse_lone_surrogate(text)
    expanded = tokenizer._expanded()
    state = session.frame_state(tokenizer)
    bare = expanded.pipelines_of(session.frame, state, bool(split_special_tokens)).bare
    return expanded.demolish_ids(bare.encode(text, add_special_tokens=False).ids)


def refuse_lone_surrogate(text: str) -> None:
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise NotNativeError("a lone surrogate")


def drop_between_added_tokens(
    session: Session, text: str, split_special_tokens: bool, p: float, stream: np.uint64
) -> list[int]:
    """The ids of a text in which only `tokenizers` finds the added tokens."""
    refuse_lone_surrogate(text)
    finder = session.stretches(split_special_tokens)
    found = finder.encode(text, add_special_tokens=False)
    ids: list[int] = []
    for token_id, (start, stop) in zip(found.ids, found.offsets, strict=True):
        if token_id == FIRST_MARK:
            # Another place, another stream: it wraps.
            place = np.array([(int(stream) + start) % (1 << 64)], np.uint64)
            stretch, _, _ = session.encoder.encode([text[start:stop]], AddedTokenFinder([]), 1, p, place)
            ids += stretch.tolist()
        else:
            ids.append(token_id)
    return ids
