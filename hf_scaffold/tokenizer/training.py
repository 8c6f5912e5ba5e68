"""Text to tokenizer in one step; or by example, with all but the vocabulary of a tokenizer there is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import TYPE_CHECKING, Any

from tokenizers import AddedToken
from tokenizers.normalizers import Normalizer
from transformers import PreTrainedTokenizerFast
from transformers.utils import logging

from hf_scaffold._utils.arguments import (
    LARGEST_ID,
    refuse_unknown,
    shortened,
    strings,
    takes_arguments_of,
    warn,
    whole,
)
from hf_scaffold.counting.counting import count
from hf_scaffold.errors import ConfigurationError, VocabSizeError
from hf_scaffold.text.corpus import corpus_names
from hf_scaffold.text.presets import MAX_PRETOKEN_LENGTH
from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast
from hf_scaffold.tokenizer.building import (
    TokenizerSettings,
    build_tokenizer,
    checked_settings,
    special_tokens_in,
)
from hf_scaffold.tokenizer.like import empty_like, fill, symbol_options
from hf_scaffold.training.settings import (
    TrainingOptions,
    TrainingSettings,
    checked_sizes,
    method_recorded,
    settings_from,
)
from hf_scaffold.training.trainer import train, train_sizes

if TYPE_CHECKING:
    from typing_extensions import Unpack

_OURS = {"counts", "like", "settings", "special_tokens", "kwargs"}  # no arguments of the method
_HINTS = {"special_tokens": "those of the tokenizer stay; new_special_tokens follow them"}


class TokenizerArguments(TokenizerSettings, TrainingOptions, total=False):
    """What `train_tokenizer` takes by keyword; special tokens of other roles come besides."""

    pre_tokenizer: Any
    normalizer: Normalizer | None
    alphabet: str | None
    text_field: str
    num_workers: int | None
    max_pretoken_length: int | None
    like: PreTrainedTokenizerFast | None


def _train_each(
    corpus: Any,
    sizes: Iterable[int],
    settings: TrainingSettings,
    *,
    pre_tokenizer: Any = None,
    normalizer: Normalizer | None = None,
    alphabet: str | None = None,
    text_field: str = "text",
    num_workers: int | None = None,
    max_pretoken_length: int | None = MAX_PRETOKEN_LENGTH,
    like: PreTrainedTokenizerFast | None = None,
    **kwargs: Any,
) -> list[ScaffoldTokenizerFast]:
    """What `train_tokenizer_sizes` does, with settings that are checked and names that are known."""
    given = [*settings.special_tokens, *special_tokens_in(kwargs)]
    specials = list({str(token): token for token in given}.values())
    pipeline = {"pre_tokenizer": pre_tokenizer, "normalizer": normalizer, "alphabet": alphabet}
    shell, symbols = None, {}
    if like is not None:
        if both := [name for name, value in {**pipeline, **settings.of_characters}.items() if value]:
            raise ConfigurationError(f"{' and '.join(both)} come from like; give either them or like")
        shell = empty_like(like, specials, roles=kwargs)
        specials = [*shell.special_tokens]
        pipeline = {"pre_tokenizer": shell.pre_tokenizer}
        symbols = symbol_options(shell)
    counts = count(
        corpus,
        **pipeline,
        text_field=text_field,
        num_workers=num_workers,
        max_pretoken_length=max_pretoken_length,
        show_progress=settings.show_progress is True,
    )
    if settings.initial_alphabet is not None:
        symbols["initial_alphabet"] = settings.initial_alphabet
    if counts.pre_tokenizer.alphabet == "chars":
        symbols.setdefault("unk_token", kwargs.get("unk_token", settings.unk_token))
    chosen = replace(settings, special_tokens=specials, **symbols)
    names = corpus_names(corpus)
    tokenizers = []
    for bpe in train_sizes(counts, sizes, settings=chosen):
        bpe = bpe.with_sources(names) if names else bpe
        tokenizer = build_tokenizer(bpe, **kwargs) if shell is None else fill(shell, bpe, **kwargs)
        # An artifact knows its special tokens only as strings.
        tokenizer._tokenizer.add_special_tokens(
            [token for token in settings.special_tokens if isinstance(token, AddedToken)]
        )
        if settings.log:
            tokenizer.artifact = bpe
        tokenizers.append(tokenizer)
    return tokenizers


@takes_arguments_of(TrainingSettings, _train_each)
def train_tokenizer(
    corpus: Any,
    vocab_size: int | None = None,
    *,
    settings: TrainingSettings | None = None,
    **kwargs: Unpack[TokenizerArguments],
) -> ScaffoldTokenizerFast:
    """Count a corpus, train on it and make a transformers tokenizer: the three steps in one.

    Args:
        corpus, text_field, num_workers, max_pretoken_length: As for `count`.
        pre_tokenizer, normalizer, alphabet: As for `count`. None: those of `like` if there is one, which also
            are the only ones to go with it; else the defaults.
        vocab_size, settings: As for `train`, as are all arguments of `TrainingSettings`. fuse_unk and affixes
            come from `like`, too. If `show_progress` is a function, only training calls it. With `log`,
            `tokenizer.artifact` is the artifact, for its `history`; it is in memory alone:
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
    options, others = _separated("train_tokenizer", kwargs)
    chosen = settings_from(settings, vocab_size, **options)
    return _train_each(corpus, [chosen.vocab_size], chosen, **others)[0]


@takes_arguments_of(TrainingSettings, _train_each)
def train_tokenizer_sizes(
    corpus: Any,
    vocab_sizes: Iterable[int],
    *,
    settings: TrainingSettings | None = None,
    **kwargs: Unpack[TokenizerArguments],
) -> list[ScaffoldTokenizerFast]:
    """What `train_tokenizer` gives for several sizes: the corpus is counted and trained on once.

    Args:
        corpus, settings, **kwargs: As for `train_tokenizer`.
        vocab_sizes: As for `train_sizes`.
    Returns:
        One tokenizer a size, in their order.
    Raises: As `train_tokenizer`; ConfigurationError if there is no size.
    Example:
        >>> import hf_scaffold as hs
        >>> [len(tokenizer) for tokenizer in hs.train_tokenizer_sizes(["some text"], [259, 258])]
        [259, 258]
    """
    options, others = _separated("train_tokenizer_sizes", kwargs)
    return _train_each(corpus, checked_sizes(vocab_sizes), settings_from(settings, **options), **others)


def _separated(function: str, arguments: Mapping[str, Any]) -> tuple[TrainingOptions, dict[str, Any]]:
    """The training options among the arguments, and the others.

    unk_token is a role of the tokenizer first; it is trained with where the alphabet is characters.
    """
    known = {*signature(train_tokenizer).parameters, *TokenizerSettings.__annotations__}
    others = checked_settings(function, arguments, known)
    names = TrainingOptions.__annotations__.keys() - {"unk_token"}
    options: Any = {name: others.pop(name) for name in names & others.keys()}
    return options, others


def train_new_from_iterator(
    like: PreTrainedTokenizerFast,
    text_iterator: Iterable[str] | Iterable[Sequence[str]],
    vocab_size: int,
    length: int | None = None,
    new_special_tokens: Sequence[str | AddedToken] | None = None,
    special_tokens_map: Mapping[str, str] | None = None,
    show_progress: bool | Callable[[int, int], object] = True,
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
    disable = None if show_progress is True else True
    texts = logging.tqdm(
        _flat(text_iterator), desc="Pre-tokens", total=length, unit=" texts", disable=disable
    )
    shell = empty_like(like, new_special_tokens or (), special_tokens_map)
    counts = count(texts, pre_tokenizer=shell.pre_tokenizer)
    options = {"special_tokens": shell.special_tokens, **symbol_options(shell), **kwargs}
    if not {"method", "scaffold"} & kwargs.keys():
        options = {**_method_of(like), **options}
    options["show_progress"] = show_progress
    try:
        bpe = train(counts, vocab_size, **options)
    except VocabSizeError as error:  # stock trains on, to special tokens and alphabet alone
        warn(f"{error}. Training for {error.smallest}.")
        bpe = train(counts, error.smallest, **options)
    tokenizer = fill(shell, bpe)
    if bpe.log is not None:
        tokenizer.artifact = bpe
    return tokenizer


def _method_of(tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    training = tokenizer.scaffold.get("training") if isinstance(tokenizer, ScaffoldTokenizerFast) else None
    return method_recorded((training or {}).get("settings"))


def _flat(items: Iterable[Any]) -> Iterator[Any]:
    for item in items:
        if isinstance(item, (list, tuple)):
            yield from item
        else:
            yield item
