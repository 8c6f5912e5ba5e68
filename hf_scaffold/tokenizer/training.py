"""Training by example: a new vocabulary with the pipeline, special tokens and templates of a tokenizer."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from inspect import signature
from typing import Any

from tokenizers import AddedToken
from transformers import PreTrainedTokenizerFast
from transformers.utils import logging

from hf_scaffold._utils.arguments import LARGEST_ID, refuse_unknown, shortened, strings, warn, whole
from hf_scaffold.counting.counts import count
from hf_scaffold.errors import VocabSizeError
from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast
from hf_scaffold.tokenizer.like import empty_like, fill, symbol_options
from hf_scaffold.training.trainer import train

__all__ = ["train_new_from_iterator"]

_OURS = {"counts", "like", "special_tokens", "kwargs"}  # no arguments of the method
_HINTS = {"special_tokens": "those of the tokenizer stay; new_special_tokens follow them"}


def train_new_from_iterator(
    like: PreTrainedTokenizerFast,
    text_iterator: Iterable[str] | Iterable[Sequence[str]],
    vocab_size: int,
    length: int | None = None,
    new_special_tokens: Sequence[str | AddedToken] | None = None,
    special_tokens_map: Mapping[str, str] | None = None,
    show_progress: bool = True,
    **kwargs: Any,
) -> ScaffoldTokenizerFast:
    """What `ScaffoldTokenizerFast.train_new_from_iterator` does, for any fast BPE tokenizer; see there."""
    known = {*signature(train).parameters, *signature(train_new_from_iterator).parameters} - _OURS
    refuse_unknown("train_new_from_iterator", kwargs, known, _HINTS)
    if isinstance(text_iterator, str | bytes | os.PathLike):
        raise TypeError(
            f"text_iterator must be an iterable of texts, or lists of them, not {shortened(text_iterator)}; "
            "for files, take hs.train_tokenizer(files, vocab_size, like=tokenizer)"
        )
    vocab_size = whole("vocab_size", vocab_size, most=LARGEST_ID, reason="ids are 32-bit integers")
    if new_special_tokens is not None:
        new_special_tokens = strings("new_special_tokens", new_special_tokens, (str, AddedToken))
    # None: no bar where stderr is not a terminal.
    disable = None if show_progress else True
    texts = logging.tqdm(
        _flat(text_iterator), desc="Pre-tokens", total=length, unit=" texts", disable=disable
    )
    shell = empty_like(like, new_special_tokens or (), special_tokens_map)
    counts = count(texts, pretokenizer=shell.pretokenizer)
    options = {"special_tokens": shell.special_tokens, **symbol_options(shell), **kwargs}
    try:
        bpe = train(counts, vocab_size, **options)
    except VocabSizeError as error:  # stock trains on, to special tokens and alphabet alone
        warn(f"{error}. Training for {error.smallest}.")
        bpe = train(counts, error.smallest, **options)
    tokenizer = fill(shell, bpe)
    if bpe.log is not None:
        tokenizer.artifact = bpe
    return tokenizer


def _flat(items: Iterable[Any]) -> Iterator[Any]:
    for item in items:
        if isinstance(item, (list, tuple)):
            yield from item
        else:
            yield item
