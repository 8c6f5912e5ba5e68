"""The methods by which a vocabulary is chosen; and what those take out of a plain BPE that train it first."""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]

METHODS = ("scaffold", "bpe", "trimmed", "leaf", "residue", "picky")
# These train more tokens than are kept.
WITH_SURPLUS = ("trimmed", "leaf", "residue")


class Removal(NamedTuple):
    """What a method takes out of plain BPE, by creation id.

    Args:
        hidden: Tokens without an id whose rules stay: what is left of them is demolished.
        dropped: Tokens that go with their rules.
        frequencies: int64, occurrences of each token once those of dropped ones are their parts'.
    """

    hidden: Mask
    dropped: Mask
    frequencies: NDArray[np.int64]


def removal(method: str, rules: NDArray[np.int32], frequencies: NDArray[np.int64], n_kept: int) -> Removal:
    """What the method takes out so that n_kept tokens stay.

    Args:
        method: One of `WITH_SURPLUS`.
        rules: int32 (n, 2), each token's first rule, by creation id; -1 for fixed tokens, which stay.
        frequencies: int64 (n,), how often each token occurs.
        n_kept: At least as many as there are fixed tokens; if there are fewer tokens, all stay.
    Example:
        Of the tokens h, u, g, ug, hug, the fourth is rare; but it isn't a leaf, as hug is made of it:

        >>> rules, frequencies = np.array([[-1, -1]] * 3 + [[1, 2], [0, 3]]), np.array([1, 1, 1, 2, 9])
        >>> removal("trimmed", rules, frequencies, 4).hidden.nonzero()[0]
        array([3])
        >>> removal("leaf", rules, frequencies, 4).dropped.nonzero()[0]
        array([4])
    """
    n = max(0, len(rules) - n_kept)
    none = np.zeros(len(rules), bool)
    if method == "trimmed":
        return Removal(_least(rules, frequencies, n), none, frequencies)
    if method == "residue":
        shares = frequencies / np.maximum(_made(rules, frequencies), 1)
        return Removal(_least(rules, shares, n), none, frequencies)
    return Removal(none, *_rarest_leaves(rules, frequencies, n))


def _least(rules: NDArray[np.int32], values: NDArray[Any], n: int) -> Mask:
    """The n merged tokens of the smallest values; of equal ones those made last."""
    merged = np.flatnonzero(rules[:, 0] >= 0)
    order = np.lexsort((-merged, values[merged]))
    found = np.zeros(len(rules), bool)
    found[merged[order[:n]]] = True
    return found


def _made(rules: NDArray[np.int32], frequencies: NDArray[np.int64]) -> NDArray[np.int64]:
    """How often merging makes each token: what is left of it in the end, and what became part of another."""
    made = frequencies.tolist()
    for token, (left, right) in reversed([*enumerate(rules.tolist())]):
        if left >= 0:
            made[left] += made[token]
            made[right] += made[token]
    return np.array(made, np.int64)


def _rarest_leaves(
    rules: NDArray[np.int32], frequencies: NDArray[np.int64], n: int
) -> tuple[Mask, NDArray[np.int64]]:
    """n times the rarest token that no other is made of, and the frequencies that this leaves.

    What a token occurs, its parts do once it is gone; of equally rare tokens the one made last goes.
    """
    left, right = (column.tolist() for column in rules.T)
    occurrences = frequencies.tolist()
    is_merged = rules[:, 0] >= 0
    uses = np.bincount(rules[is_merged].ravel(), minlength=len(rules)).tolist()
    leaves = [(occurrences[i], -i) for i in np.flatnonzero(is_merged).tolist() if uses[i] == 0]
    heapq.heapify(leaves)
    dropped = np.zeros(len(rules), bool)
    for _ in range(n):
        token = -heapq.heappop(leaves)[1]
        dropped[token] = True
        for part in (left[token], right[token]):
            occurrences[part] += occurrences[token]
            uses[part] -= 1
            if uses[part] == 0 and is_merged[part]:
                heapq.heappush(leaves, (occurrences[part], -part))
        occurrences[token] = 0
    return dropped, np.array(occurrences, np.int64)
