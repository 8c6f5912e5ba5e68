"""What stands for a scaffold token: the shortest of what its rules demolish it to."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

from hf_scaffold.errors import ArtifactError
from hf_scaffold.text.symbols import NO_AFFIXES, Affixes, Pair

__all__ = ["derive_demolish_map"]


def derive_demolish_map(
    merges: Sequence[Pair], scaffold_tokens: Iterable[str], affixes: Affixes = NO_AFFIXES
) -> dict[str, tuple[str, ...]]:
    """For each scaffold token, in the order given, the normal tokens that stand for it.

    A scaffold token is replaced by what its two parts are replaced by; of several rules for it, the one
    with the shortest result counts, then the one of lowest rank. A result spells the token: all of it but
    the first begins with the prefix.

    Example:
        >>> derive_demolish_map([("n", "a"), ("z", "o"), ("zo", "na")], ["zo", "zona"])
        {'zo': ('z', 'o'), 'zona': ('z', 'o', 'na')}
    """
    scaffolds = list(scaffold_tokens)
    rules: dict[str, list[Pair]] = {token: [] for token in scaffolds}
    for token, pair in zip(affixes.join_all(merges), merges, strict=True):
        if token in rules:
            rules[token].append(pair)
    kinds = _demolished_lengths(rules, affixes.prefix)
    for token in scaffolds:
        if kinds[0][token] == math.inf:
            raise ArtifactError(f"no merge makes the scaffold token {token!r}")
    demolished: list[dict[str, tuple[str, ...]]] = [{} for _ in kinds]
    for kind in reversed(range(len(kinds))):  # what stands first needs what stands later, not the other way
        lengths, results = kinds[kind], demolished[kind]
        for token in sorted(scaffolds, key=lengths.__getitem__):  # parts are shorter, so they come before
            if lengths[token] == math.inf:
                break
            pairs = rules[token]
            if len(pairs) > 1:
                pairs = [min(pairs, key=lambda pair: lengths.get(pair[0], 1) + kinds[-1].get(pair[1], 1))]
            left, right = pairs[0]
            results[token] = results.get(left, (left,)) + demolished[-1].get(right, (right,))
    return {token: demolished[0][token] for token in scaffolds}


def _demolished_lengths(rules: Mapping[str, Sequence[Pair]], prefix: str) -> list[dict[str, float]]:
    """How many normal tokens stand for a scaffold token: as a first part and, with a prefix, as a later one.

    Where text spells the prefix, a token may have rules for both; else they don't differ. Parts that are not
    in a dict count 1; infinity means that the part can't stand there.

    Cost: one look at each rule. Rules come in any order, but what a token adds to a spelling, all of it as a
    first part and all but the prefix as a later one, is longer than what its parts add; so the shorter ones
    go first. Where a part adds nothing, the other one is the token itself: such a rule shortens nothing.
    """
    first: dict[str, float] = dict.fromkeys(rules, math.inf)
    later = first
    if prefix:
        parts = {left for pairs in rules.values() for left, _ in pairs}
        later = {**first, **dict.fromkeys((part for part in parts if not part.startswith(prefix)), math.inf)}
    kinds = [first, later] if prefix else [first]
    places = [(len(token) - kind * len(prefix), kind, token) for token in rules for kind in range(len(kinds))]
    for _, kind, token in sorted(places, key=itemgetter(0)):
        lengths, least = kinds[kind], math.inf
        for left, right in rules[token]:
            length = lengths.get(left, 1) + later.get(right, 1)
            if length < least:
                least = length
        lengths[token] = least
    return kinds
