"""Training by example: a new vocabulary with the pipeline, special tokens and templates of a tokenizer."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tokenizers import AddedToken
from transformers import PreTrainedTokenizerFast
from transformers.utils import logging

from hf_scaffold.counts import count
from hf_scaffold.errors import VocabSizeError
from hf_scaffold.like import empty_like, fill, symbol_options
from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast
from hf_scaffold.trainer import train

__all__ = ["train_new_from_iterator"]


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
        warnings.warn(f"{error}. Training for {error.smallest}.", stacklevel=3)
        bpe = train(counts, error.smallest, **options)
    return fill(shell, bpe)


def _flat(items: Iterable[Any]) -> Iterator[Any]:
    for item in items:
        if isinstance(item, (list, tuple)):
            yield from item
        else:
            yield item
