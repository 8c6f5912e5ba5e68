"""Pre-tokens as characters: which ones get a token, and what symbols the pre-tokens become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_scaffold.counting.counts import PreTokenCounts
from hf_scaffold.errors import ConfigurationError
from hf_scaffold.text.byte_level import BYTE_TO_SYMBOL, SYMBOL_TO_BYTE
from hf_scaffold.text.symbols import NO_AFFIXES, Affixes


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
        if counts.pre_tokenizer.alphabet == "chars":
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
