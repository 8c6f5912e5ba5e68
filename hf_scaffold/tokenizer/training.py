"""Text to tokenizer in one step; or by example, with all but the vocabulary of a tokenizer there is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from inspect import signature
from typing import Any, overload

from tokenizers import AddedToken
from tokenizers.normalizers import Normalizer
from transformers import PreTrainedTokenizerFast
from transformers.utils import logging

from hf_scaffold._utils.arguments import (
    LARGEST_ID,
    knows_its_arguments,
    refuse_unknown,
    shortened,
    strings,
    warn,
    whole,
)
from hf_scaffold.counting.counts import count
from hf_scaffold.errors import ConfigurationError, VocabSizeError
from hf_scaffold.text.corpus import MAX_PRETOKEN_LENGTH, source_names
from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast
from hf_scaffold.tokenizer.building import build_tokenizer, checked_settings, special_tokens_in
from hf_scaffold.tokenizer.like import empty_like, fill, symbol_options
from hf_scaffold.training.trainer import DEFAULT_VOCAB_SIZE, TrainingOptions, checked_sizes, is_several, train

__all__ = ["train_new_from_iterator", "train_tokenizer"]

_OURS = {"counts", "like", "special_tokens", "kwargs"}  # no arguments of the method
_HINTS = {"special_tokens": "those of the tokenizer stay; new_special_tokens follow them"}


@overload
def train_tokenizer(
    source: Any,
    vocab_size: int = DEFAULT_VOCAB_SIZE,
    *,
    pretokenizer: Any = None,
    normalizer: Normalizer | None = None,
    alphabet: str | None = None,
    field: str = "text",
    num_workers: int | None = None,
    max_pretoken_length: int | None = MAX_PRETOKEN_LENGTH,
    min_frequency: int = 0,
    special_tokens: Sequence[str | AddedToken] = (),
    initial_alphabet: Sequence[str] | None = None,
    limit_alphabet: int | None = None,
    max_token_length: int | None = None,
    fuse_unk: bool = False,
    byte_fallback: bool = False,
    continuing_subword_prefix: str | None = None,
    end_of_word_suffix: str | None = None,
    scaffold: bool = True,
    log: bool = False,
    progress: Callable[[int, int], object] | None = None,
    like: PreTrainedTokenizerFast | None = None,
    **kwargs: Any,
) -> ScaffoldTokenizerFast: ...
@overload
def train_tokenizer(
    source: Any,
    vocab_size: Sequence[int],
    *,
    pretokenizer: Any = None,
    normalizer: Normalizer | None = None,
    alphabet: str | None = None,
    field: str = "text",
    num_workers: int | None = None,
    max_pretoken_length: int | None = MAX_PRETOKEN_LENGTH,
    min_frequency: int = 0,
    special_tokens: Sequence[str | AddedToken] = (),
    initial_alphabet: Sequence[str] | None = None,
    limit_alphabet: int | None = None,
    max_token_length: int | None = None,
    fuse_unk: bool = False,
    byte_fallback: bool = False,
    continuing_subword_prefix: str | None = None,
    end_of_word_suffix: str | None = None,
    scaffold: bool = True,
    log: bool = False,
    progress: Callable[[int, int], object] | None = None,
    like: PreTrainedTokenizerFast | None = None,
    **kwargs: Any,
) -> list[ScaffoldTokenizerFast]: ...
@knows_its_arguments
def train_tokenizer(
    source: Any,
    vocab_size: int | Sequence[int] = DEFAULT_VOCAB_SIZE,
    *,
    pretokenizer: Any = None,
    normalizer: Normalizer | None = None,
    alphabet: str | None = None,
    field: str = "text",
    num_workers: int | None = None,
    max_pretoken_length: int | None = MAX_PRETOKEN_LENGTH,
    min_frequency: int = 0,
    special_tokens: Sequence[str | AddedToken] = (),
    initial_alphabet: Sequence[str] | None = None,
    limit_alphabet: int | None = None,
    max_token_length: int | None = None,
    fuse_unk: bool = False,
    byte_fallback: bool = False,
    continuing_subword_prefix: str | None = None,
    end_of_word_suffix: str | None = None,
    scaffold: bool = True,
    log: bool = False,
    progress: Callable[[int, int], object] | None = None,
    like: PreTrainedTokenizerFast | None = None,
    **kwargs: Any,
) -> ScaffoldTokenizerFast | list[ScaffoldTokenizerFast]:
    """Count a corpus, train on it and make a transformers tokenizer: the three steps in one.

    Args:
        source, field, num_workers, max_pretoken_length: As for `count`.
        pretokenizer, normalizer, alphabet: As for `count`. None: those of `like` if there is one, which also
            are the only ones to go with it; else the defaults.
        vocab_size, min_frequency, …, scaffold: As for `train`; several sizes give a list of tokenizers.
            fuse_unk and affixes come from `like`, too.
        progress: As for `train`; counting doesn't report.
        log: Keep the artifact with its log as `tokenizer.artifact`, for its `history`. It is in memory alone:
            `tokenizer.artifact.save` writes it, `save_pretrained` doesn't.
        like: A fast tokenizer with a BPE model, of any class, to take everything but the vocabulary from:
            normalizer, pre-tokenizer, special and added tokens, template, chat template, settings. Its
            special tokens come first. A role given anew, such as bos_token, is given anew in the template.
        **kwargs: As for `PreTrainedTokenizerFast`: eos_token, pad_token, model_max_length, …. Special tokens
            named here are trained with, after those in `special_tokens`, so that they get the first ids.
            With an alphabet of characters, unk_token is what others are encoded to.
    Raises:
        CorpusError, ConfigurationError, CountOverflowError: as `count` and `train` do.
        TypeError: an argument of another type or of an unknown name; the message has the nearest known one.
    Example:
        >>> import hf_scaffold as hs
        >>> tokenizer = hs.train_tokenizer(["some text"], vocab_size=260, eos_token="<|endoftext|>")
        >>> tokenizer.eos_token_id
        0
    """
    kwargs = checked_settings("train_tokenizer", kwargs, signature(train_tokenizer).parameters)
    sizes = checked_sizes(vocab_size)
    symbols: dict[str, Any] = {
        "fuse_unk": fuse_unk,
        "byte_fallback": byte_fallback,
        "continuing_subword_prefix": continuing_subword_prefix,
        "end_of_word_suffix": end_of_word_suffix,
    }
    options: dict[str, Any] = {
        "min_frequency": min_frequency,
        "limit_alphabet": limit_alphabet,
        "max_token_length": max_token_length,
        "scaffold": scaffold,
        "log": log,
        "progress": progress,
    }
    # Refused before the corpus is read.
    checked = TrainingOptions(
        **options, **symbols, special_tokens=special_tokens, initial_alphabet=initial_alphabet
    )
    given = [*checked.special_tokens, *special_tokens_in(kwargs)]
    specials = list({str(token): token for token in given}.values())
    pipeline = {"pretokenizer": pretokenizer, "normalizer": normalizer, "alphabet": alphabet}
    shell = None
    if like is not None:
        if both := [name for name, value in {**pipeline, **symbols}.items() if value]:
            raise ConfigurationError(f"{' and '.join(both)} come from like; give either them or like")
        shell = empty_like(like, specials, roles=kwargs)
        specials = [*shell.special_tokens]
        pipeline = {"pretokenizer": shell.pretokenizer}
        symbols = symbol_options(shell)
    counts = count(
        source,
        **pipeline,
        field=field,
        num_workers=num_workers,
        max_pretoken_length=max_pretoken_length,
    )
    if checked.initial_alphabet is not None:
        symbols["initial_alphabet"] = checked.initial_alphabet
    if counts.pretokenizer.alphabet == "chars":
        symbols.setdefault("unk_token", kwargs.get("unk_token"))
    names = source_names(source)
    tokenizers = []
    for bpe in train(counts, sizes, special_tokens=specials, **options, **symbols):
        bpe = bpe.with_sources(names) if names else bpe
        tokenizer = build_tokenizer(bpe, **kwargs) if shell is None else fill(shell, bpe, **kwargs)
        # An artifact knows the strings of its special tokens only.
        tokenizer._tokenizer.add_special_tokens(
            [token for token in checked.special_tokens if isinstance(token, AddedToken)]
        )
        if log:
            tokenizer.artifact = bpe
        tokenizers.append(tokenizer)
    return tokenizers if is_several(vocab_size) else tokenizers[0]


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
