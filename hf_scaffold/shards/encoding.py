"""Documents to the ids of shards."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hf_scaffold._core.text_encoder import framed
from hf_scaffold.shards.files import Tokens
from hf_scaffold.shards.fingerprint import session_for
from hf_scaffold.text.texts import Texts

if TYPE_CHECKING:
    from hf_scaffold.native.sessions import Session
    from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast


def encoder_for(
    tokenizer: ScaffoldTokenizerFast, eos_id: int | None, dtype: str
) -> Callable[[Texts], Tokens]:
    """What encodes a batch of documents, as the tokenizer does now.

    Args:
        eos_id: Comes after each document; None: nothing does.
        dtype: Of the ids, "uint16" or "uint32"; all must fit.
    Example:
        >>> import hf_scaffold as hs
        >>> tokenizer = hs.train_tokenizer(["the cat sat"], 258, special_tokens=["</s>"], eos_token="</s>")
        >>> part = encoder_for(tokenizer, 0, "uint16")(Texts.of([b"AB", b"C", b"D"], [True, False, True]))
        >>> part.ids.tolist(), part.ends.tolist()
        ([33, 34, 0, 35, 36, 0], [3, 6])
    """
    session = session_for(tokenizer)
    if session is None or tokenizer.dropout or not _adds_nothing(session):
        return partial(_generally, tokenizer, eos_id, dtype)
    return partial(_natively, session, session.allowed(tokenizer.split_special_tokens), eos_id, dtype)


def _adds_nothing(session: Session) -> bool:
    """Whether the post-processor leaves ids as they are where no special tokens are wanted."""
    from hf_scaffold.native.sessions import NotNativeError

    try:
        return not session.template(1, False).n_specials
    except NotNativeError:
        return False


def _natively(
    session: Session, allowed: frozenset[str], eos_id: int | None, dtype: str, batch: Texts
) -> Tokens:
    ending = None if eos_id is None else (eos_id, batch.is_end)
    ids, offsets = session.bare.encode_utf8(
        batch.utf8, batch.bounds, allowed, ending=ending, short=dtype == "uint16"
    )
    return Tokens(ids.view(dtype), offsets[1:][batch.is_end])


def _generally(tokenizer: ScaffoldTokenizerFast, eos_id: int | None, dtype: str, batch: Texts) -> Tokens:
    eos = np.array([] if eos_id is None else [eos_id], np.int32)
    ids, offsets = tokenizer.encode_batch_to_arrays(batch, add_special_tokens=False)
    ends = offsets[1:][batch.is_end]
    # What follows the last end, a piece of the next document, is one more row.
    ids, offsets = framed(ids, np.concatenate([[0], ends, [len(ids)]]), eos[:0], eos)
    return Tokens(ids[: len(ids) - len(eos)].astype(dtype), offsets[1:-1])
