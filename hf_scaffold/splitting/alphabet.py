"""Sets of characters, as sets of atoms: the characters that a pattern can't tell apart.

An atom holds the characters of one kind between two neighbouring boundaries, which are the code points that
the pattern names. A set is an int with a bit for each atom, so that sets are joined and negated at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import accumulate, groupby

from hf_scaffold.splitting import kinds

CODE_POINTS = 0x110000


class Boundaries:
    """Stands for an alphabet while nobody knows yet what its boundaries are: it collects them."""

    everything = 0

    def __init__(self) -> None:
        self.found = {0}

    def having(self, name: str) -> int:
        check_property(name)
        return 0

    def between(self, first: int, last: int) -> int:
        self.found |= {first, last + 1}
        return 0


class Alphabet:
    """The atoms of code points with these boundaries. Immutable.

    Example:
        >>> alphabet = Alphabet([ord("a"), ord("z") + 1])
        >>> small, letters = alphabet.between(ord("a"), ord("z")), alphabet.having("L")
        >>> small & letters == small, letters & small == letters
        (True, False)
    """

    def __init__(self, boundaries: Iterable[int] = (0,)) -> None:
        self._starts = sorted({0, *boundaries} - {CODE_POINTS})
        self._stretches = [*stretches(self._starts)]
        self._atoms = {atom: i for i, atom in enumerate(dict.fromkeys((k, n) for _, n, k in self._stretches))}
        self.everything = (1 << len(self._atoms)) - 1

    def having(self, name: str) -> int:
        """The characters with a property: `L`, `Lu`, `Han`, or another name in kinds.HAVE."""
        mask = check_property(name)
        return sum(1 << i for (kind, _), i in self._atoms.items() if mask >> kind & 1)

    def between(self, first: int, last: int) -> int:
        """The characters from `first` to `last`; both must be boundaries."""
        return sum(1 << i for (_, n), i in self._atoms.items() if first <= self._starts[n] <= last)

    def classes(self, sets: Iterable[int]) -> tuple[list[int], list[tuple[int, int]]]:
        """The coarsest partition that no set cuts.

        Returns:
            Its classes, as sets; and runs of code points of one class: the first one, and the class's number.
        """
        members: dict[tuple[int, ...], int] = {}
        distinct = [*dict.fromkeys(sets)]
        class_of = {}
        for atom, i in self._atoms.items():
            signature = tuple(chars >> i & 1 for chars in distinct)
            class_of[atom] = members.setdefault(signature, len(members))
        made = [0] * len(members)
        for atom, i in self._atoms.items():
            made[class_of[atom]] |= 1 << i
        runs = groupby(self._stretches, lambda stretch: class_of[stretch[2], stretch[1]])
        return made, [(next(group)[0], number) for number, group in runs]


def stretches(starts: list[int]) -> Iterator[tuple[int, int, int]]:
    """Runs of code points: the first one, the number of the boundary before it, and the kind."""
    ends = [*starts[1:], CODE_POINTS]
    n = 0
    for start, end, kind in kind_runs():
        while start < end:
            if start >= ends[n]:
                n += 1
                continue
            yield start, n, kind
            start = min(end, ends[n])


@cache
def kind_runs() -> list[tuple[int, int, int]]:
    """All code points in order, as runs of one kind: first, last + 1, kind."""
    ends = [*accumulate(map(int, kinds.LENGTHS.split()))]
    return [*zip([0, *ends], ends, map(int, kinds.KINDS.split()), strict=False)]


def check_property(name: str) -> int:
    """The kinds that have a property.

    Raises:
        KeyError: there is no such property.
    """
    if name in kinds.HAVE:
        return kinds.HAVE[name]
    parts = [mask for part, mask in kinds.HAVE.items() if len(part) == 2 and part[0] == name != "\\"]
    if not parts:
        raise KeyError(name)
    return sum(parts)
