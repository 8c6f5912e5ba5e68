"""Training: from pre-token counts to a Scaffold-BPE artifact."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray
from tokenizers import AddedToken

from hf_scaffold._core.trainer import AmbiguousMergeLoop, MergeLoop
from hf_scaffold._utils.arguments import (
    LARGEST_ID,
    flag,
    function,
    knows_its_arguments,
    shortened,
    string,
    strings,
    warn,
    whole,
)
from hf_scaffold.counting.counts import PreTokenCounts
from hf_scaffold.errors import ConfigurationError, CorpusError, VocabSizeError
from hf_scaffold.text.byte_level import BYTE_TO_SYMBOL, SYMBOL_TO_BYTE
from hf_scaffold.text.pretokenizers import Pretokenizer
from hf_scaffold.text.symbols import BYTE_TOKENS, NO_AFFIXES, Affixes, Pair
from hf_scaffold.training.artifact import ScaffoldBPE
from hf_scaffold.training.demolishing import derive_demolish_map
from hf_scaffold.training.log import TrainingLog, with_merges

__all__ = [
    "DEFAULT_VOCAB_SIZE",
    "Characters",
    "TrainingOptions",
    "checked_sizes",
    "is_several",
    "raw_splits",
    "train",
]

DEFAULT_VOCAB_SIZE = 30_000  # BpeTrainer's
_LONGEST = 2**32 - 1  # symbols a token may have; a training run holds no more


@overload
def train(
    counts: PreTokenCounts,
    vocab_size: int = DEFAULT_VOCAB_SIZE,
    *,
    min_frequency: int = 0,
    special_tokens: Sequence[str | AddedToken] = (),
    initial_alphabet: Sequence[str] | None = None,
    limit_alphabet: int | None = None,
    max_token_length: int | None = None,
    unk_token: str | AddedToken | None = None,
    fuse_unk: bool = False,
    byte_fallback: bool = False,
    continuing_subword_prefix: str | None = None,
    end_of_word_suffix: str | None = None,
    scaffold: bool = True,
    log: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> ScaffoldBPE: ...
@overload
def train(
    counts: PreTokenCounts,
    vocab_size: Sequence[int],
    *,
    min_frequency: int = 0,
    special_tokens: Sequence[str | AddedToken] = (),
    initial_alphabet: Sequence[str] | None = None,
    limit_alphabet: int | None = None,
    max_token_length: int | None = None,
    unk_token: str | AddedToken | None = None,
    fuse_unk: bool = False,
    byte_fallback: bool = False,
    continuing_subword_prefix: str | None = None,
    end_of_word_suffix: str | None = None,
    scaffold: bool = True,
    log: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> list[ScaffoldBPE]: ...
@knows_its_arguments
def train(
    counts: PreTokenCounts,
    vocab_size: int | Sequence[int] = DEFAULT_VOCAB_SIZE,
    *,
    min_frequency: int = 0,
    special_tokens: Sequence[str | AddedToken] = (),
    initial_alphabet: Sequence[str] | None = None,
    limit_alphabet: int | None = None,
    max_token_length: int | None = None,
    unk_token: str | AddedToken | None = None,
    fuse_unk: bool = False,
    byte_fallback: bool = False,
    continuing_subword_prefix: str | None = None,
    end_of_word_suffix: str | None = None,
    scaffold: bool = True,
    log: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> ScaffoldBPE | list[ScaffoldBPE]:
    """Learn Scaffold-BPE merges from pre-token counts.

    The result depends on the counts alone: not on their order, on shards or threads.

    Args:
        counts: Distinct pre-tokens with int64 counts > 0. Not modified.
        vocab_size: Tokens kept: special tokens + alphabet + normal tokens. Scaffold tokens come on top.
            Several sizes give one artifact each, in their order, at about the cost of the largest.
        min_frequency: Stop once the most frequent candidate occurs fewer times than this.
        special_tokens: Control tokens, which get the first ids in this order. Text never merges into one.
        initial_alphabet: Characters to keep though they don't occur; for an alphabet of bytes, characters of
            the byte-level alphabet. None means all 256 of these, so that every string can be encoded, and for
            an alphabet of characters none; () means none.
        limit_alphabet: Keep at most this many characters: the initial alphabet, then the most frequent
            (on a tie the smaller code point). Others vanish from the text, in training and encoding.
        max_token_length: Symbols a token may have: bytes or characters.
        unk_token: What characters outside the alphabet are encoded to, instead of vanishing; it becomes the
            last special token unless it is one. This and what follows is for an alphabet of characters.
        fuse_unk: Encode several such characters in a row to one unk_token.
        byte_fallback: Encode such characters to the tokens of their UTF-8 bytes instead: "<0x00>" to
            "<0xFF>", which follow the special tokens. Not with affixes.
        continuing_subword_prefix: Marks characters, and so tokens, that don't begin a pre-token: "##".
        end_of_word_suffix: Marks characters, and so tokens, that end a pre-token: "</w>".
        scaffold: False trains plain BPE, merge for merge what `tokenizers.trainers.BpeTrainer` learns.
        log: Keep what happened to each token, when and why, as `ScaffoldBPE.log`, for `history`. Free if off.
        progress: Called about ten times a second with the tokens reached and the largest vocab_size.
    Returns:
        ScaffoldBPE, or for several sizes a list of what separate runs give. Smaller than vocab_size where
        candidates run out: then `stop_reason` says so, with a warning.
    Raises:
        ConfigurationError: vocab_size is below special tokens + alphabet (the message gives all three
            numbers), a special token is empty, doubled or a character of the alphabet, or an option does not
            go with the alphabet of the counts.
        CountOverflowError: a character occurs more than 2**63 - 1 times.
        TypeError: an argument of another type, such as a path in place of counts, or of an unknown name.
    Cost: memory of about 20 bytes a symbol of the distinct pre-tokens and 80 a distinct pair; releases the
        GIL. Where a pre-token begins with continuing_subword_prefix or has end_of_word_suffix inside, so that
        different symbols spell the same token, it takes about half as long again and a fifth more memory.
    Example:
        >>> import hf_scaffold as hs
        >>> counts = hs.PreTokenCounts.from_mapping({"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5})
        >>> bpe = hs.train(counts, vocab_size=261)
        >>> bpe.merges
        [('u', 'g'), ('u', 'n'), ('h', 'ug'), ('p', 'un'), ('p', 'ug'), ('hug', 's'), ('b', 'un')]
        >>> bpe.scaffold_tokens
        ['ug', 'un']
        >>> hs.train(counts, vocab_size=[261, 258])[0] == bpe
        True

    Source: Lian et al. 2024, "Scaffold-BPE", Algorithm 1 (arXiv:2404.17808); docs/algorithm.md decides its
        open points.
    """
    _require_counts(counts)
    sizes = checked_sizes(vocab_size)
    options = TrainingOptions(
        min_frequency=min_frequency,
        special_tokens=special_tokens,
        initial_alphabet=initial_alphabet,
        limit_alphabet=limit_alphabet,
        max_token_length=max_token_length,
        unk_token=unk_token,
        fuse_unk=fuse_unk,
        byte_fallback=byte_fallback,
        continuing_subword_prefix=continuing_subword_prefix,
        end_of_word_suffix=end_of_word_suffix,
        scaffold=scaffold,
        log=log,
        progress=progress,
    )
    artifacts = _train(counts, sizes, options)
    return artifacts if is_several(vocab_size) else artifacts[0]


def _train(counts: PreTokenCounts, sizes: list[int], options: TrainingOptions) -> list[ScaffoldBPE]:
    specials = [str(token) for token in options.special_tokens]
    unknown = None if options.unk_token is None else str(options.unk_token)
    if unknown is not None and unknown not in specials:
        specials.append(unknown)
    of_characters = {
        "unk_token": unknown,
        "fuse_unk": options.fuse_unk,
        "byte_fallback": options.byte_fallback,
        "continuing_subword_prefix": options.continuing_subword_prefix or None,
        "end_of_word_suffix": options.end_of_word_suffix or None,
    }
    affixes = Affixes(options.continuing_subword_prefix or "", options.end_of_word_suffix or "")
    _check_options_of_characters(of_characters, affixes, counts.pretokenizer)
    loop = _merge_loop(
        counts,
        affixes,
        specials,
        BYTE_TOKENS if options.byte_fallback else (),
        min(sizes),
        options.initial_alphabet,
        options.limit_alphabet,
        min_frequency=options.min_frequency,
        max_token_length=min(options.max_token_length or 0, _LONGEST),
        scaffold=options.scaffold,
        log=options.log,
    )
    settings = {
        "min_frequency": options.min_frequency,
        "limit_alphabet": options.limit_alphabet,
        "max_token_length": options.max_token_length,
        "scaffold": options.scaffold,
    }
    progress = options.progress
    # |V| grows by at most one a round, and what the loop does never depends on the size it is to reach. So it
    # passes through the result of each smaller size, where |V| first equals that.
    artifacts: dict[int, ScaffoldBPE] = {}
    for size in sorted(set(sizes)):
        outcome = loop.run(size, progress and (lambda done: progress(done, max(sizes))))
        artifacts[size] = _artifact(
            loop,
            counts,
            affixes,
            special_tokens=specials,
            pretokenizer=counts.pretokenizer,
            **of_characters,
            stop_reason=_stop_reason(outcome, loop, size, options.min_frequency),
            training=_training(counts, {"vocab_size": size, **settings}),
            log=_training_log(loop) if options.log else None,
        )
    return [artifacts[size] for size in sizes]


# ---- arguments


@dataclass(frozen=True)
class TrainingOptions:
    """What `train` takes besides counts and sizes: as given, checked, numbers as Python's."""

    min_frequency: int = 0
    special_tokens: Sequence[str | AddedToken] = ()
    initial_alphabet: Sequence[str] | None = None
    limit_alphabet: int | None = None
    max_token_length: int | None = None
    unk_token: str | AddedToken | None = None
    fuse_unk: bool = False
    byte_fallback: bool = False
    continuing_subword_prefix: str | None = None
    end_of_word_suffix: str | None = None
    scaffold: bool = True
    log: bool = False
    progress: Callable[[int, int], object] | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None or field.default is not None:
                object.__setattr__(self, field.name, self._checked(field.name, value))

    @staticmethod
    def _checked(name: str, value: Any) -> Any:
        match name:
            case "min_frequency":
                return whole(name, value, most=2**63 - 1)
            case "limit_alphabet" | "max_token_length":
                return whole(name, value, least=1 if name == "max_token_length" else 0)
            case "special_tokens":
                return strings(name, value, (str, AddedToken))
            case "initial_alphabet":
                return strings(name, [*value] if isinstance(value, str) else value)
            case "unk_token":
                return value if isinstance(value, AddedToken) else string(name, value)
            case "continuing_subword_prefix" | "end_of_word_suffix":
                return string(name, value)
            case "progress":
                return function(name, value, "tokens, vocab_size")
        return flag(name, value)


def checked_sizes(vocab_size: Any) -> list[int]:
    """The sizes to train for, as ints.

    Raises:
        TypeError: one is no whole number.
        ConfigurationError: there is none, or one that ids can't reach.
    """
    if not is_several(vocab_size):
        return [_checked_size("vocab_size", vocab_size)]
    sizes = [_checked_size(f"vocab_size[{i}]", size) for i, size in enumerate(vocab_size)]
    if not sizes:
        raise ConfigurationError("vocab_size is an empty list; it must hold at least one size")
    return sizes


def _checked_size(name: str, size: Any) -> int:
    return whole(name, size, most=LARGEST_ID, reason="ids are 32-bit integers")


def is_several(vocab_size: Any) -> bool:
    """Whether this is a list, or an array, of sizes; a set has no order for the results."""
    is_list = isinstance(vocab_size, Iterable) and not isinstance(vocab_size, str | bytes | Mapping | Set)
    return is_list and getattr(vocab_size, "ndim", 1) > 0


def _require_counts(counts: Any) -> None:
    if isinstance(counts, PreTokenCounts):
        if not len(counts):
            raise CorpusError("there are no pre-tokens to train on")
        return
    hint = "count the corpus with hs.count(…) first, or take hs.train_tokenizer, which does"
    if isinstance(counts, Mapping):
        hint = "make them with hs.PreTokenCounts.from_mapping(…)"
    raise TypeError(f"counts must be PreTokenCounts, not {shortened(counts)}; {hint}")


# ---- before the loop


def _merge_loop(
    counts: PreTokenCounts,
    affixes: Affixes,
    specials: list[str],
    byte_tokens: Sequence[str],
    vocab_size: int,
    initial_alphabet: Sequence[str] | None,
    limit_alphabet: int | None,
    **options: Any,
) -> MergeLoop:
    """The loop, ready to run."""
    corpus = Characters.of(counts, affixes)
    characters = _alphabet(corpus, counts, initial_alphabet, limit_alphabet)
    if not corpus.occurring <= characters:
        corpus = corpus.limited_to(characters)
    not_merged = [*specials, *byte_tokens]
    alphabet, symbols = corpus.symbols(characters, first_id=len(not_merged))
    _check_fixed_tokens(specials, [*byte_tokens, *alphabet], vocab_size)
    kind = AmbiguousMergeLoop if corpus.spell_affixes() else MergeLoop
    loop = kind(
        symbols,
        corpus.offsets,
        counts.counts,
        tokens=[token.encode() for token in [*not_merged, *alphabet]],
        n_special=len(not_merged),
        prefix_length=len(affixes.prefix.encode()),
        **options,
    )
    return loop


def _check_options_of_characters(
    options: Mapping[str, Any], affixes: Affixes, pretokenizer: Pretokenizer
) -> None:
    for name, value in options.items():
        if value and pretokenizer.alphabet != "chars":
            raise ConfigurationError(
                f"{name} needs an alphabet of characters; count the corpus with alphabet='chars'"
            )
    if options["byte_fallback"] and (affixes != NO_AFFIXES or pretokenizer.writes_bytes):
        raise ConfigurationError(
            "byte_fallback goes neither with affixes nor with a pre-tokenizer that writes bytes"
        )


def _alphabet(
    corpus: Characters,
    counts: PreTokenCounts,
    initial_alphabet: Sequence[str] | None,
    limit_alphabet: int | None,
) -> set[str]:
    """The characters that get a token."""
    by_character = counts.pretokenizer.alphabet == "chars"
    required = set(initial_alphabet or ())
    if initial_alphabet is None and not by_character:
        required = set(SYMBOL_TO_BYTE)
    for text in sorted(required):
        if by_character and len(text) != 1:
            raise ConfigurationError(f"initial_alphabet: {text!r} is not one character")
        if not by_character and text not in SYMBOL_TO_BYTE:
            raise ConfigurationError(
                f"initial_alphabet: {text!r} is not a character of the byte-level alphabet "
                "(tokenizers.pre_tokenizers.ByteLevel.alphabet())"
            )
    others = corpus.occurring - required
    if limit_alphabet is not None:
        frequency = corpus.frequencies(counts.counts)
        by_frequency = sorted(others, key=lambda character: (-frequency[character], character))
        others = set(by_frequency[: max(0, limit_alphabet - len(required))])
    if not required | others:
        raise ConfigurationError(
            "limit_alphabet is 0 and there is no initial_alphabet, so that no text could be encoded; raise it"
        )
    return required | others


@dataclass(frozen=True)
class Characters:
    """The pre-tokens as code points: of their characters, or of the characters that stand for their bytes.

    Args:
        codes: uint16 or uint32, all pre-tokens one after another.
        offsets: int64, n_pretokens + 1 offsets into `codes`.
        affixes: What marks characters by their place.
        places: Where there are affixes: for each character 2 if it needs the prefix, plus 1 if it needs the
            suffix. That the first or last of a pre-token has vanished changes nothing for the others.
    """

    codes: NDArray[Any]
    offsets: NDArray[np.int64]
    affixes: Affixes
    places: NDArray[np.uint8] | None

    @classmethod
    def of(cls, counts: PreTokenCounts, affixes: Affixes) -> Characters:
        data = np.frombuffer(counts.data, np.uint8)
        codes: NDArray[Any]
        if counts.pretokenizer.alphabet == "chars":
            starts_before = np.concatenate([[0], np.cumsum(data & 0xC0 != 0x80, dtype=np.int64)])
            codes = np.frombuffer(counts.data.decode().encode("utf-32-le"), np.dtype("<u4"))
            offsets = starts_before[counts.offsets]
        else:
            stand_ins = np.array([ord(BYTE_TO_SYMBOL[byte]) for byte in range(256)], np.uint16)
            codes, offsets = stand_ins[data], counts.offsets
        if affixes == NO_AFFIXES:
            return cls(codes, offsets, affixes, None)
        places = np.full(len(codes), 2 if affixes.prefix else 0, np.uint8)
        places[offsets[:-1]] = 0
        places[offsets[1:] - 1] += 1 if affixes.suffix else 0
        return cls(codes, offsets, affixes, places)

    @cached_property
    def occurring(self) -> set[str]:
        """The characters that occur."""
        return set(map(chr, np.flatnonzero(np.bincount(self.codes))))

    def frequencies(self, counts: NDArray[np.int64]) -> dict[str, int]:
        """How often each character occurs, exactly: summed in two halves, which can't overflow."""
        weights = np.repeat(counts, np.diff(self.offsets))
        n_codes = int(self.codes.max(initial=0)) + 1
        high, low = np.zeros(n_codes, np.int64), np.zeros(n_codes, np.int64)
        np.add.at(high, self.codes, weights >> 32)
        np.add.at(low, self.codes, weights & 0xFFFFFFFF)
        return {text: (int(high[ord(text)]) << 32) + int(low[ord(text)]) for text in self.occurring}

    def limited_to(self, alphabet: set[str]) -> Characters:
        """What is left when all other characters vanish."""
        kept = np.isin(self.codes, np.array([*map(ord, alphabet)], np.uint32))
        kept_before = np.concatenate([[0], np.cumsum(kept, dtype=np.int64)])
        places = None if self.places is None else self.places[kept]
        return Characters(self.codes[kept], kept_before[self.offsets], self.affixes, places)

    def symbols(self, characters: set[str], first_id: int) -> tuple[list[str], NDArray[np.int32]]:
        """The alphabet in the order of its ids, from first_id on, and the pre-tokens in these ids.

        The alphabet is the characters sorted by code point, then what occurs of their forms with affixes,
        sorted as strings.
        """
        if self.places is None:
            keys = self.codes
            symbol_of = {ord(character): character for character in characters}
        else:
            keys = 4 * self.codes + self.places
            symbol_of = {4 * ord(character): character for character in characters}
            for key in np.flatnonzero(np.bincount(keys)).tolist():
                symbol_of[key] = self.affixes.mark(chr(key // 4), key & 2 > 0, key & 1 > 0)
        alphabet = sorted(set(symbol_of.values()), key=lambda symbol: (len(symbol) > 1, symbol))
        ids = {symbol: token_id for token_id, symbol in enumerate(alphabet, start=first_id)}
        table = np.zeros(max(symbol_of, default=0) + 1, np.int32)
        for key, symbol in symbol_of.items():
            table[key] = ids[symbol]
        return alphabet, table[keys]

    def spell_affixes(self) -> bool:
        """Whether different sequences of symbols may spell the same string.

        They do only where the text itself spells an affix: a pre-token that begins with the prefix looks like
        the continuation of another, and one with the suffix inside has a part that looks like an end. Or
        where the prefix ends with what the suffix begins with.
        """
        if self.places is None:
            return False
        prefix, suffix = self.affixes.prefix, self.affixes.suffix
        if any(suffix.startswith(prefix[i:]) for i in range(1, len(prefix))):
            return True
        text = self.codes.tobytes().decode("utf-32-le")
        starts, stops = self.offsets[:-1], self.offsets[1:]
        for affix, at_start in ((prefix, True), (suffix, False)):
            at = text.find(affix) if affix else -1
            while at >= 0:
                row = int(np.searchsorted(starts, at, side="right")) - 1
                if at + len(affix) <= stops[row] and (at == starts[row]) == at_start:
                    return True
                at = text.find(affix, at + 1)
        return False


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
    smallest = len(specials) + len(alphabet)
    if vocab_size < smallest:
        raise VocabSizeError(
            f"vocab_size is {vocab_size}, but {len(specials)} special tokens and {len(alphabet)} characters "
            f"of the alphabet need {smallest} before the first merge; raise vocab_size",
            smallest,
        )


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
    warn(reason)
    return reason


def _artifact(loop: MergeLoop, counts: PreTokenCounts, affixes: Affixes, **parts: Any) -> ScaffoldBPE:
    tokens = [token.decode() for token in loop.tokens]
    is_scaffold = loop.scaffolds
    frequency = dict(zip(tokens, loop.frequencies, strict=True))
    merges = [(tokens[left], tokens[right]) for left, right in loop.merges]
    normal = [token for token, hidden in zip(tokens, is_scaffold, strict=True) if not hidden]
    scaffolds = [token for token, hidden in zip(tokens, is_scaffold, strict=True) if hidden]
    bpe = ScaffoldBPE(
        merges=merges,
        vocab={token: token_id for token_id, token in enumerate([*normal, *scaffolds])},
        demolish_map=derive_demolish_map(merges, scaffolds, affixes),
        raw_splits=raw_splits(merges, normal, frequency, affixes),
        **parts,
    )
    return bpe.with_raw_agreement(counts, frequency)


def _training(counts: PreTokenCounts, settings: dict[str, Any]) -> dict[str, Any]:
    """What a model card says of the training text: a function of counts and settings, without a date."""
    return {
        "pretokens": counts.total,
        "distinct_pretokens": len(counts),
        "bytes": counts.n_bytes,
        "alphabet": counts.pretokenizer.alphabet,
        "pretokenizer": counts.pretokenizer.preset,
        "settings": settings,
    }


def _training_log(loop: MergeLoop) -> TrainingLog:
    tokens = [token.decode() for token in loop.tokens]
    rows = (
        (
            kind,
            tokens[token],
            frequency,
            (tokens[left],) if right < 0 else (tokens[left], tokens[right]),
            head_frequency,
        )
        for kind, token, frequency, left, right, head_frequency in loop.events
    )
    return TrainingLog(tuple(with_merges(rows)), dict(zip(tokens, loop.frequencies, strict=True)))


def raw_splits(
    merges: list[Pair], tokens: list[str], frequency: dict[str, int], affixes: Affixes
) -> dict[str, Pair]:
    """For normal tokens whose first rule needs a scaffold: the split into the two strongest normal tokens.

    A split is as strong as the rarer of its parts at the end of training; on a tie the shorter
    left part wins.
    """
    normal, lengths = set(tokens), sorted({len(token) for token in tokens})
    first_rules = affixes.first_rules(merges)
    splits: dict[str, Pair] = {}
    prefix = affixes.prefix
    for token in tokens:
        if token not in first_rules or normal.issuperset(first_rules[token]):
            continue
        first, last = affixes.cuts(token)
        candidates = [
            (token[:i], prefix + token[i:])
            for i in lengths[bisect_left(lengths, first) : bisect_right(lengths, last)]
            if token[:i] in normal and prefix + token[i:] in normal
        ]
        if candidates:
            splits[token] = max(candidates, key=lambda pair: min(frequency[pair[0]], frequency[pair[1]]))
    return splits
