"""Symbols: what a pre-token is before the first merge, and how tokens are spelled."""

from collections.abc import Iterable, Sequence
from itertools import product, starmap
from operator import add
from typing import NamedTuple

Pair = tuple[str, str]  # two tokens that merge


class Affixes(NamedTuple):
    """What marks a symbol that continues its pre-token (prefix) or ends it (suffix).

    Only characters have affixes; for bytes both are empty. A token begins with the prefix if its first symbol
    does, and ends with the suffix if its last symbol does.

    Example:
        >>> affixes = Affixes("##", "</w>")
        >>> [affixes.mark(c, continues=i > 0, ends=i == 2) for i, c in enumerate("low")]
        ['l', '##o', '##w</w>']
        >>> affixes.join_all([("l", "##o"), ("##o", "##w</w>")]), affixes.spell(["l", "##o", "##w</w>"])
        (['lo', '##ow</w>'], 'low</w>')
    """

    prefix: str = ""
    suffix: str = ""

    def mark(self, character: str, continues: bool, ends: bool) -> str:
        """The symbol of a character."""
        return f"{self.prefix if continues else ''}{character}{self.suffix if ends else ''}"

    def forms(self, character: str) -> list[str]:
        """The symbols that a character may be.

        Example:
            >>> Affixes("##").forms("x"), Affixes().forms("x")
            (['x', '##x'], ['x'])
        """
        places = product((False, True), repeat=2)
        return [*dict.fromkeys(self.mark(character, continues, ends) for continues, ends in places)]

    def join_all(self, pairs: Iterable[Pair]) -> list[str]:
        """The token that each pair merges into; the right one follows, so it begins with the prefix."""
        if not self.prefix:
            return list(starmap(add, pairs))
        skip = len(self.prefix)
        return [left + right[skip:] for left, right in pairs]

    def first_rules(self, merges: Sequence[Pair]) -> dict[str, Pair]:
        """The first rule for each token that merges make, given in rank order.

        Example:
            >>> Affixes().first_rules([("a", "b"), ("ab", "c"), ("b", "c"), ("a", "bc")])["abc"]
            ('ab', 'c')
        """
        return dict(zip(self.join_all(merges[::-1]), merges[::-1], strict=True))

    def spell(self, tokens: tuple[str, ...] | list[str]) -> str:
        """The token that consecutive ones make."""
        skip = len(self.prefix)
        return "".join([tokens[0], *(token[skip:] for token in tokens[1:])])

    def readings(self, token: str) -> list[tuple[str, bool, bool]]:
        """Every way to read a token as one symbol: (character, continues, ends).

        Example:
            >>> Affixes("##").readings("##x"), Affixes("##").readings("xy")
            ([('x', True, False), ('x', True, True)], [])
        """
        readings: list[tuple[str, bool, bool]] = []
        for continues in (False, True):
            for ends in (False, True):
                start, end = len(self.prefix) * continues, len(self.suffix) * ends
                # The length first: affixes may be long, and tokens many.
                if len(token) == start + 1 + end and token == self.mark(token[start], continues, ends):
                    readings.append((token[start], continues, ends))
        return readings

    def characters(self, ids: Iterable[tuple[str, int]]) -> dict[tuple[bytes, bool, bool], int]:
        """The ids of tokens that are one symbol, read in every way, as `PretokenEncoder` takes them."""
        return {
            (character.encode(), continues, ends): token_id
            for token, token_id in ids
            for character, continues, ends in self.readings(token)
        }

    @property
    def takes_wholes(self) -> bool:
        """Whether a plain BPE engine may take a pre-token that is a token whole (`ignore_merges`).

        It compares the bare text, so with a suffix it would find the token of the same text inside a word.
        """
        return not self.suffix


NO_AFFIXES = Affixes()

# With byte_fallback, what bytes of characters outside the alphabet become; spelled as in SentencePiece.
BYTE_TOKENS = tuple(f"<0x{byte:02X}>" for byte in range(256))
