"""Pre-tokens as characters: which ones get a token, and what symbols the pre-tokens become."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_scaffold.counting.counts import PreTokenCounts
from hf_scaffold.errors import ConfigurationError
from hf_scaffold.text.byte_level import BYTE_TO_SYMBOL, SYMBOL_TO_BYTE
from hf_scaffold.text.symbols import NO_AFFIXES, Affixes

_ROWS_AT_ONCE, _CODES_AT_ONCE = 1 << 16, 1 << 20  # NumPy makes int64 of what it adds up or indexes by


@dataclass(frozen=True)
class Characters:
    """The pre-tokens as characters, or as bytes, each with the character that stands for it.

    Args:
        codes: int32, code points, or uint8, bytes: all pre-tokens one after another.
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
        if counts.pre_tokenizer.alphabet == "bytes":
            return cls(data, counts.offsets, affixes, None)
        codes = np.frombuffer(counts.data.decode().encode("utf-32-le"), np.dtype("<i4"))
        offsets = _offsets_of(data & 0xC0 != 0x80, counts.offsets)
        if affixes == NO_AFFIXES:
            return cls(codes, offsets, affixes, None)
        places = np.full(len(codes), 2 if affixes.prefix else 0, np.uint8)
        places[offsets[:-1]] = 0
        places[offsets[1:] - 1] += 1 if affixes.suffix else 0
        return cls(codes, offsets, affixes, places)

    @cached_property
    def keys(self) -> NDArray[Any]:
        """For each character its code; where there are affixes, four times that plus its place."""
        return self.codes if self.places is None else 4 * self.codes + self.places

    @property
    def occurring_keys(self) -> list[int]:
        return _distinct(self.keys)

    def symbol(self, key: int) -> str:
        """How the characters of that key are spelled."""
        if self.places is None:
            return self._character(key)
        return self.affixes.mark(self._character(key // 4), key & 2 > 0, key & 1 > 0)

    @cached_property
    def occurring(self) -> set[str]:
        """The characters that occur."""
        return {*map(self._character, _distinct(self.codes))}

    def frequencies(self, counts: NDArray[np.int64]) -> dict[str, int]:
        """How often each character occurs, exactly: summed in two halves, which can't overflow."""
        codes = _distinct(self.codes)
        high, low = np.zeros((2, max(codes, default=0) + 1), np.int64)
        for rows, offsets in _slices(self.offsets):
            weights = np.repeat(counts[rows], np.diff(offsets))
            some = self.codes[offsets[0] : offsets[-1]]
            np.add.at(high, some, weights >> 32)
            np.add.at(low, some, weights & 0xFFFFFFFF)
        return {self._character(code): (int(high[code]) << 32) + int(low[code]) for code in codes}

    def limited_to(self, alphabet: set[str]) -> Characters:
        """What is left when all other characters vanish."""
        codes = [code for code in _distinct(self.codes) if self._character(code) in alphabet]
        kept = np.isin(self.codes, np.array(codes, self.codes.dtype))
        places = None if self.places is None else self.places[kept]
        return Characters(self.codes[kept], _offsets_of(kept, self.offsets), self.affixes, places)

    def alphabet(self, characters: set[str], first_id: int) -> tuple[list[str], NDArray[np.int32]]:
        """The alphabet in the order of its ids, from first_id on, and the id of each key.

        The alphabet is the characters sorted by code point, then what occurs of their forms with affixes,
        sorted as strings.
        """
        symbol_of = {key: self.symbol(key) for key in self.occurring_keys}
        alphabet = sorted({*characters, *symbol_of.values()}, key=lambda symbol: (len(symbol) > 1, symbol))
        ids = {symbol: token_id for token_id, symbol in enumerate(alphabet, start=first_id)}
        table = np.zeros(max(symbol_of, default=0) + 1, np.int32)
        for key, symbol in symbol_of.items():
            table[key] = ids[symbol]
        return alphabet, table

    def _character(self, code: int) -> str:
        return BYTE_TO_SYMBOL[code] if self.codes.dtype == np.uint8 else chr(code)

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


def _distinct(codes: NDArray[Any]) -> list[int]:
    """The numbers in an array of small ones, ascending."""
    occurs = np.zeros(int(codes.max(initial=0)) + 1, bool)
    for first in range(0, len(codes), _CODES_AT_ONCE):
        occurs[codes[first : first + _CODES_AT_ONCE]] = True
    found: list[int] = np.flatnonzero(occurs).tolist()
    return found


def _offsets_of(kept: NDArray[np.bool_], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where rows begin, and the last one ends, once only some elements are kept. None is empty before."""
    found = np.zeros(len(offsets), np.int64)
    for rows, ends in _slices(offsets):
        found[1:][rows] = np.add.reduceat(kept[ends[0] : ends[-1]], ends[:-1] - ends[0], dtype=np.int64)
    return np.cumsum(found, out=found)


def _slices(offsets: NDArray[np.int64]) -> Iterator[tuple[slice, NDArray[np.int64]]]:
    """Some rows after another, with their part of the offsets."""
    for first in range(0, len(offsets) - 1, _ROWS_AT_ONCE):
        yield slice(first, first + _ROWS_AT_ONCE), offsets[first : first + _ROWS_AT_ONCE + 1]


def choose_alphabet(
    characters: Characters,
    counts: PreTokenCounts,
    initial_alphabet: Sequence[str] | None,
    limit_alphabet: int | None,
) -> set[str]:
    """The characters that get a token; the arguments are those of training.

    Raises:
        ConfigurationError: initial_alphabet holds what is no character, or no character gets a token.
    """
    by_character = counts.pre_tokenizer.alphabet == "chars"
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
    others = characters.occurring - required
    if limit_alphabet is not None:
        frequency = characters.frequencies(counts.counts)
        by_frequency = sorted(others, key=lambda character: (-frequency[character], character))
        others = set(by_frequency[: max(0, limit_alphabet - len(required))])
    if not required | others:
        raise ConfigurationError(
            "limit_alphabet is 0 and there is no initial_alphabet, so that no text could be encoded; raise it"
        )
    return required | others
