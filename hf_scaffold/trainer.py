"""Training: from pre-token counts to a Scaffold-BPE artifact."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import AddedToken

from hf_scaffold._trainer import MergeLoop
from hf_scaffold.artifact import Pair, ScaffoldBPE, derive_demolish_map, special_tokens_in
from hf_scaffold.byte_level import BYTE_TO_SYMBOL, SYMBOL_TO_BYTE
from hf_scaffold.corpus import MAX_PRETOKEN_LENGTH
from hf_scaffold.counts import PreTokenCounts, count
from hf_scaffold.errors import ConfigurationError, CorpusError
from hf_scaffold.pretokenize import DEFAULT_PRESET

if TYPE_CHECKING:
    from tokenizers.normalizers import Normalizer
    from transformers import PreTrainedTokenizerFast

    from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast

__all__ = ["train", "train_tokenizer"]


def train(
    counts: PreTokenCounts,
    vocab_size: int = 30_000,
    *,
    min_frequency: int = 0,
    special_tokens: Sequence[str | AddedToken] = (),
    initial_alphabet: Sequence[str] | None = None,
    limit_alphabet: int | None = None,
    max_token_length: int | None = None,
    scaffold: bool = True,
    progress: Callable[[int, int], object] | None = None,
) -> ScaffoldBPE:
    """Learn Scaffold-BPE merges from pre-token counts.

    The result depends on the counts alone: not on their order, on shards or threads.

    Args:
        counts: Distinct pre-tokens with int64 counts > 0. Not modified.
        vocab_size: Tokens kept: special tokens + alphabet + normal tokens. Scaffold tokens come on top.
        min_frequency: Stop once the most frequent candidate occurs fewer times than this.
        special_tokens: Control tokens, which get the first ids in this order. Text never merges into one.
        initial_alphabet: Characters of the byte-level alphabet to keep though they don't occur. None means
            all 256, so that every string can be encoded; () means those that occur.
        limit_alphabet: Keep at most this many characters: the initial alphabet, then the most frequent
            (on a tie the smaller code point). Others vanish from the text, in training and encoding.
        max_token_length: Bytes a token may have.
        scaffold: False trains plain BPE, merge for merge what `tokenizers.trainers.BpeTrainer` learns.
        progress: Called about ten times a second with the tokens reached and vocab_size.
    Returns:
        ScaffoldBPE. Smaller than vocab_size where candidates run out: then `stop_reason` says so, with a
        warning.
    Raises:
        ConfigurationError: vocab_size is below special tokens + alphabet (the message gives all three
            numbers), or a special token is empty, doubled or a character of the alphabet.
        CountOverflowError: a character occurs more than 2**63 - 1 times.
    Cost: memory of about 20 bytes a byte of the distinct pre-tokens and 80 a distinct pair; releases the GIL.
    Example:
        >>> import hf_scaffold as hs
        >>> counts = hs.PreTokenCounts.from_mapping({"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5})
        >>> bpe = hs.train(counts, vocab_size=261)
        >>> bpe.merges
        [('u', 'g'), ('u', 'n'), ('h', 'ug'), ('p', 'un'), ('p', 'ug'), ('hug', 's'), ('b', 'un')]
        >>> bpe.scaffold_tokens
        ['ug', 'un']

    Source: Lian et al. 2024, "Scaffold-BPE", Algorithm 1 (arXiv:2404.17808); docs/algorithm.md decides its
        open points.
    """
    if not len(counts):
        raise CorpusError("there are no pre-tokens to train on")
    if max_token_length is not None and max_token_length < 1:
        raise ConfigurationError(f"max_token_length is {max_token_length}; it must be at least 1")
    specials = [token.content if isinstance(token, AddedToken) else token for token in special_tokens]
    alphabet = _alphabet(counts, initial_alphabet, limit_alphabet)
    _check_fixed_tokens(specials, alphabet, vocab_size)

    fixed = [*specials, *alphabet]
    loop = MergeLoop(
        *_symbol_sequences(counts, alphabet, first_id=len(specials)),
        tokens=[token.encode() for token in fixed],
        n_special=len(specials),
        min_frequency=min_frequency,
        max_token_length=max_token_length or 0,
        scaffold=scaffold,
    )
    outcome = loop.run(vocab_size, progress and (lambda done: progress(done, vocab_size)))
    return _artifact(loop, counts, specials, _stop_reason(outcome, loop, vocab_size, min_frequency))


def train_tokenizer(
    source: Any,
    vocab_size: int = 30_000,
    *,
    pretokenizer: Any = None,
    normalizer: Normalizer | None = None,
    field: str = "text",
    num_workers: int | None = None,
    max_pretoken_length: int | None = MAX_PRETOKEN_LENGTH,
    min_frequency: int = 0,
    special_tokens: Sequence[str | AddedToken] = (),
    initial_alphabet: Sequence[str] | None = None,
    limit_alphabet: int | None = None,
    max_token_length: int | None = None,
    scaffold: bool = True,
    like: PreTrainedTokenizerFast | None = None,
    **kwargs: Any,
) -> ScaffoldTokenizerFast:
    """Count a corpus, train on it and make a transformers tokenizer: the three steps in one.

    Args:
        source, field, num_workers, max_pretoken_length: As for `count`.
        pretokenizer, normalizer: As for `count`. None: those of `like` if there is one, which also are the
            only ones to go with it; else the defaults.
        vocab_size, min_frequency, …, scaffold: As for `train`.
        like: A fast tokenizer with a BPE model, of any class, to take everything but the vocabulary from:
            normalizer, pre-tokenizer, special and added tokens, template, chat template, settings. Its
            special tokens come first.
        **kwargs: As for `PreTrainedTokenizerFast`: eos_token, pad_token, model_max_length, …. Special tokens
            named here are trained with, after those in `special_tokens`, so that they get the first ids.
    Raises:
        CorpusError, ConfigurationError, CountOverflowError: as `count` and `train` do.
    Example:
        >>> import hf_scaffold as hs
        >>> tokenizer = hs.train_tokenizer(["some text"], vocab_size=260, eos_token="<|endoftext|>")
        >>> tokenizer.eos_token_id
        0
    """
    from hf_scaffold.retrain import empty_like, fill, special_tokens_of

    specials = list({str(token): token for token in [*special_tokens, *special_tokens_in(kwargs)]}.values())
    shell = None
    if like is not None:
        if pretokenizer is not None or normalizer is not None:
            raise ConfigurationError("pretokenizer and normalizer come from like; give either them or like")
        shell = empty_like(like, specials)
        pretokenizer, specials = shell.backend_tokenizer, [*special_tokens_of(shell)]
    counts = count(
        source,
        pretokenizer=DEFAULT_PRESET if pretokenizer is None else pretokenizer,
        normalizer=normalizer,
        field=field,
        num_workers=num_workers,
        max_pretoken_length=max_pretoken_length,
    )
    bpe = train(
        counts,
        vocab_size,
        min_frequency=min_frequency,
        special_tokens=specials,
        initial_alphabet=initial_alphabet,
        limit_alphabet=limit_alphabet,
        max_token_length=max_token_length,
        scaffold=scaffold,
    )
    tokenizer = bpe.to_tokenizer(**kwargs) if shell is None else fill(shell, bpe, **kwargs)
    # An artifact knows the strings of its special tokens only.
    tokenizer.backend_tokenizer.add_special_tokens([t for t in special_tokens if isinstance(t, AddedToken)])
    return tokenizer


# ---- before the loop


def _alphabet(
    counts: PreTokenCounts, initial_alphabet: Sequence[str] | None, limit_alphabet: int | None
) -> list[str]:
    """The characters that get a token, sorted by code point."""
    required = set(SYMBOL_TO_BYTE) if initial_alphabet is None else set(initial_alphabet)
    if unknown := sorted(required - set(SYMBOL_TO_BYTE)):
        raise ConfigurationError(
            f"initial_alphabet: {unknown[0]!r} is not a character of the byte-level alphabet "
            "(tokenizers.pre_tokenizers.ByteLevel.alphabet())"
        )
    occurring = {BYTE_TO_SYMBOL[byte] for byte in set(counts.data)} - required
    if limit_alphabet is not None:
        frequency = _symbol_frequencies(counts)
        by_frequency = sorted(occurring, key=lambda symbol: (-frequency[symbol], symbol))
        occurring = set(by_frequency[: max(0, limit_alphabet - len(required))])
    return sorted(required | occurring)


def _symbol_frequencies(counts: PreTokenCounts) -> dict[str, int]:
    """How often each character occurs, exactly: the counts are summed in two halves, which can't overflow."""
    per_byte = np.repeat(counts.counts, np.diff(counts.offsets))
    high, low = np.zeros(256, np.int64), np.zeros(256, np.int64)
    np.add.at(high, np.frombuffer(counts.data, np.uint8), per_byte >> 32)
    np.add.at(low, np.frombuffer(counts.data, np.uint8), per_byte & 0xFFFFFFFF)
    return {symbol: (int(high[byte]) << 32) + int(low[byte]) for byte, symbol in BYTE_TO_SYMBOL.items()}


def _check_fixed_tokens(specials: list[str], alphabet: list[str], vocab_size: int) -> None:
    for position, token in enumerate(specials):
        if not token:
            raise ConfigurationError(f"special_tokens[{position}] is empty")
        if token in specials[:position]:
            raise ConfigurationError(f"special_tokens: {token!r} is there twice")
        if token in alphabet:
            raise ConfigurationError(
                f"special_tokens: {token!r} is a character of the alphabet; use a longer one"
            )
    if vocab_size < len(specials) + len(alphabet):
        raise ConfigurationError(
            f"vocab_size is {vocab_size}, but {len(specials)} special tokens and {len(alphabet)} characters "
            f"of the alphabet need {len(specials) + len(alphabet)} before the first merge; raise vocab_size"
        )


def _symbol_sequences(
    counts: PreTokenCounts, alphabet: list[str], first_id: int
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """The pre-tokens as creation ids, their offsets and their counts; bytes outside the alphabet vanish."""
    absent = -1
    table = np.full(256, absent, np.int32)
    for token_id, symbol in enumerate(alphabet, start=first_id):
        table[SYMBOL_TO_BYTE[symbol]] = token_id
    symbols = table[np.frombuffer(counts.data, np.uint8)]
    kept = symbols != absent
    if kept.all():
        return symbols, counts.offsets, counts.counts
    kept_before = np.concatenate([[0], np.cumsum(kept, dtype=np.int64)])
    return symbols[kept], kept_before[counts.offsets], counts.counts


# ---- after the loop


def _stop_reason(outcome: str, loop: MergeLoop, vocab_size: int, min_frequency: int) -> str | None:
    """Why training ended early, also as a warning; None if it didn't."""
    if outcome == "vocab_size":
        return None
    reached = loop.scaffolds.count(False)
    why = {
        "candidates": "no pair of tokens is left to merge",
        "min_frequency": f"no pair of tokens occurs {min_frequency} times or more",
    }[outcome]
    reason = f"the vocabulary has {reached} tokens instead of {vocab_size}: {why}"
    warnings.warn(reason, stacklevel=3)
    return reason


def _artifact(
    loop: MergeLoop, counts: PreTokenCounts, specials: list[str], stop_reason: str | None
) -> ScaffoldBPE:
    tokens = [token.decode() for token in loop.tokens]
    is_scaffold = loop.scaffolds
    frequency = dict(zip(tokens, loop.frequencies, strict=True))
    merges = [(tokens[left], tokens[right]) for left, right in loop.merges]
    normal = [token for token, hidden in zip(tokens, is_scaffold, strict=True) if not hidden]
    scaffolds = [token for token, hidden in zip(tokens, is_scaffold, strict=True) if hidden]
    bpe = ScaffoldBPE(
        merges=merges,
        vocab={token: token_id for token_id, token in enumerate([*normal, *scaffolds])},
        demolish_map=derive_demolish_map(merges, scaffolds),
        special_tokens=specials,
        pretokenizer=counts.pretokenizer,
        raw_splits=_raw_splits(merges, set(normal), frequency),
        stop_reason=stop_reason,
    )
    return bpe.with_raw_agreement(counts)


def _raw_splits(merges: list[Pair], normal: set[str], frequency: dict[str, int]) -> dict[str, Pair]:
    """For each normal token whose rule needs a scaffold: its split into the two strongest normal tokens.

    A split is as strong as the rarer of its parts at the end of training; on a tie the shorter
    left part wins.
    """
    lengths = sorted({len(token) for token in normal})
    splits: dict[str, Pair] = {}
    for left, right in merges:
        token = left + right
        if token not in normal or (left in normal and right in normal):
            continue
        candidates = [
            (token[:i], token[i:])
            for i in lengths
            if i < len(token) and token[:i] in normal and token[i:] in normal
        ]
        if candidates:
            splits[token] = max(candidates, key=lambda pair: min(frequency[pair[0]], frequency[pair[1]]))
    return splits
