"""Tokenizer calls on the compiled encoder: which it can take, and what they return.

`ScaffoldTokenizerFast` asks here first. The answer is exactly that of the general path, the Rust backend,
wherever that can be told; any other call is left to it. All that is derived from a tokenizer is kept in its
`cache`, and made anew once the backend's parts have changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from transformers import BatchEncoding

from hf_scaffold._core.text_encoder import framed
from hf_scaffold.engine.dropout import Dropout
from hf_scaffold.engine.inputs import utf8_of
from hf_scaffold.native.contract import Caller
from hf_scaffold.native.encodings import LazyEncodings, encodings_of
from hf_scaffold.native.plan import Plan, are_texts
from hf_scaffold.native.rows import (
    Row,
    Rows,
    in_form,
    listed_rows,
    makes_matrices,
    rows_of,
    sequence_ends,
)
from hf_scaffold.native.sessions import Ends, Ids, NotNativeError, session_of


def encode_plus(
    tokenizer: Caller,
    text: Any,
    text_pair: Any = None,
    /,  # else Python would compare each option's name with these, too
    dropout: float | None = None,
    seed: int | None = None,
    **options: Any,
) -> BatchEncoding:
    """What the general path returns for this call of `_encode_plus`; its encodings are made when asked for.

    Raises:
        NotNativeError: the general path must take the call.
    """
    plan = Plan(tokenizer, text, text_pair, Dropout(dropout, seed) if dropout else None, options)
    try:
        rows, encodings = encoded(plan)
    except UnicodeEncodeError:
        raise NotNativeError("a lone surrogate") from None
    get = options.get
    data: dict[str, Any] = {"input_ids": rows.input_ids()}
    if plan.returns("token_type_ids"):
        data["token_type_ids"] = rows.token_type_ids()
    if plan.returns("attention_mask"):
        data["attention_mask"] = rows.attention_mask()
    if get("return_special_tokens_mask"):
        data["special_tokens_mask"] = rows.special_tokens_mask()
    if plan.trim is not None and isinstance(rows, Rows):
        data["offset_mapping"] = rows.offset_mapping(plan.trim)
    if get("return_length"):
        data["length"] = rows.length()
    return_tensors = get("return_tensors")
    if isinstance(rows, Rows):
        if plan.overflows:
            data["overflow_to_sample_mapping"] = rows.samples.tolist()
        data = in_form(data, rows, plan.is_batched or plan.overflows, return_tensors)
    # As stock does for each row; only the length of a row counts.
    max_length = get("max_length")
    if max_length is None and rows.longest > tokenizer.model_max_length:
        tokenizer._eventual_warn_about_too_long_sequence(
            range(rows.longest), max_length, get("verbose", True)
        )
    return BatchEncoding(data, encodings, tensor_type=return_tensors, n_sequences=plan.template.n_shown)


def encoded(plan: Plan) -> tuple[Row | Rows, LazyEncodings]:
    """The rows of a call, and their encodings."""
    bare, return_tensors = plan.session.bare, plan.options.get("return_tensors")
    if plan.is_plain and not (return_tensors or plan.dropout):
        return Row(bare.encode(plan.texts[0], plan.allowed), plan.template), LazyEncodings(plan)
    if plan.makes_plain_lists:
        return listed_rows(plan), LazyEncodings(plan)
    ids, ends = bare.encode_batch(plan.texts, plan.allowed, plan.dropout)
    rows = rows_of(ids, ends, plan)
    rows.is_matrix = makes_matrices(return_tensors) and rows.are_equally_long
    draw = partial(encodings_of, ids, sequence_ends(ends, plan)) if plan.dropout else None
    return rows, LazyEncodings(plan, rows, draw)


def reason_against(tokenizer: Caller, text: Any, text_pair: Any, options: Mapping[str, Any]) -> str | None:
    """Why the general path takes a call; None if the compiled encoder does. Nothing is encoded.

    So it doesn't know of a truncation that the backend refuses because a sequence is too short for it.
    """
    try:
        plan = Plan(tokenizer, text, text_pair, None, options)
    except NotNativeError as error:
        return str(error)
    return "a lone surrogate" if any(map(re.compile("[\ud800-\udfff]").search, plan.texts)) else None


def encode_to_arrays(
    tokenizer: Caller,
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
    allowed = session.allowed(split_special_tokens)
    utf8 = None if dropout else utf8_of(texts)  # what is dropped depends on the texts as strings
    if utf8 is not None:
        flat, ends = session.bare.encode_utf8(*utf8, allowed)
    else:
        strings = texts if are_texts(texts) else strings_of(texts)
        if not are_texts(strings):
            raise NotNativeError("not all are texts")
        try:
            drop = Dropout(dropout, seed) if dropout else None
            flat, ends = session.bare.encode_batch(strings, allowed, drop)
        except UnicodeEncodeError:
            raise NotNativeError("a lone surrogate") from None
    if template.n_specials:
        return framed(flat, ends, np.array(template.before, np.int32), np.array(template.after, np.int32))
    return flat, ends
