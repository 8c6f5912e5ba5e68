"""What encodes where tokens are also taken out again: steps, as objects, as JSON and as numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from hf_scaffold._utils.strict_json import shown
from hf_scaffold.text.symbols import Affixes, Pair

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Removed(NamedTuple):
    """A token is taken out: each of its occurrences becomes these parts, which spell it."""

    token: str
    parts: tuple[str, ...]


Step = Pair | Removed  # a pair is merged


def steps_with_merging_again(
    merges: Sequence[Pair], removed: Mapping[str, tuple[str, ...]], affixes: Affixes
) -> list[Step]:
    """All merges; then the removals; then the merges that removed tokens have no part in.

    Args:
        merges: In rank order.
        removed: Tokens, and the parts that each leaves.
    Example:
        >>> merges = [("b", "c"), ("a", "bc"), ("a", "b")]
        >>> steps_with_merging_again(merges, {"bc": ("b", "c")}, Affixes("", ""))[3:]
        [Removed(token='bc', parts=('b', 'c')), ('a', 'b')]
    """
    made = affixes.join_all(merges)
    again = [
        pair for pair, token in zip(merges, made, strict=True) if removed.keys().isdisjoint((*pair, token))
    ]
    return [*merges, *(Removed(token, parts) for token, parts in removed.items()), *again]


def steps_as_json(steps: Sequence[Step]) -> list[Any]:
    """For JSON: a merge as [left, right], a removal as {"removed": token, "parts": [...]}.

    Example:
        >>> steps_as_json([("a", "b"), Removed("ab", ("a", "b"))])
        [['a', 'b'], {'removed': 'ab', 'parts': ['a', 'b']}]
    """
    return [
        {"removed": step.token, "parts": list(step.parts)} if isinstance(step, Removed) else list(step)
        for step in steps
    ]


def steps_from_json(value: Any) -> list[Step]:
    """What `steps_as_json` made.

    Raises:
        ValueError: it is of another form; names the first step that is.
    """
    if not isinstance(value, list):
        raise ValueError(f"steps must be a list, not {shown(value)}")
    return [_step(number, entry) for number, entry in enumerate(value)]


def _step(number: int, entry: Any) -> Step:
    if isinstance(entry, list) and len(entry) == 2 and _are_tokens(entry):
        return entry[0], entry[1]
    if isinstance(entry, dict) and entry.keys() == {"removed", "parts"}:
        token, parts = entry["removed"], entry["parts"]
        if isinstance(parts, list) and parts and _are_tokens([token, *parts]):
            return Removed(token, tuple(parts))
    raise ValueError(f"steps[{number}] is {shown(entry)}, neither a merge nor a removal")


def _are_tokens(values: list[Any]) -> bool:
    return all(isinstance(value, str) and value for value in values)


def step_violations(steps: Sequence[Step], tokens: Set[str], n_prefix: int) -> Iterator[str]:
    """Steps that name or make a token that isn't there, or parts that spell something else."""
    for number, step in enumerate(steps):
        left, rest = (step.parts[0], step.parts[1:]) if isinstance(step, Removed) else (step[0], step[1:])
        spelled = left + "".join(part[n_prefix:] for part in rest)
        for token in (left, *rest, spelled):
            if token not in tokens:
                yield f"steps[{number}] names or makes {shown(token)}, which is no token"
        if isinstance(step, Removed) and spelled != step.token:
            yield f"steps[{number}] splits {shown(step.token)} into what spells {shown(spelled)}"


class CompiledSteps(NamedTuple):
    """Steps as compiled encoders take them.

    Args:
        rules: int32 (n, 3), merges to apply first, as left, right and merged token, in rank order.
        replacements: From a token to those that replace it then.
        history: Where all steps have to be gone through, these as `steps_as_numbers` has them; else None.
        again: int32 (n, 3), where that is the same: the merges for what is there then; else None.
    """

    rules: NDArray[np.int32]
    replacements: dict[int, list[int]]
    history: tuple[NDArray[np.int32], NDArray[np.int32]] | None
    again: NDArray[np.int32] | None


def compiled_steps(steps: Sequence[Step], ids: Mapping[str, int], n_prefix: int) -> CompiledSteps:
    """The steps as the fastest of encoders takes them; arguments as for `steps_as_numbers`.

    Steps that merge, then remove, then merge again are merging by rank, twice, if nothing comes too late:
    no merge makes what an earlier one, or itself, is made of, and no removal leaves what is removed, too.

    Example:
        >>> steps = [("a", "b"), ("ab", "c"), Removed("ab", ("a", "b")), ("b", "c")]
        >>> found = compiled_steps(steps, {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4, "bc": 5}, 0)
        >>> found.rules.tolist(), found.replacements, found.again.tolist()
        ([[0, 1, 3], [3, 2, 4]], {3: [0, 1]}, [[1, 2, 5]])
    """
    import numpy as np

    rows, parts = steps_as_numbers(steps, ids, n_prefix)
    removals = np.flatnonzero(rows[:, 1] < 0)
    if len(removals):
        first, removed, again = np.split(rows, [removals[0], removals[-1] + 1])
        tokens, ends = removed[:, 0], removed[:, 2]
        if (
            len(removed) == len(removals) == len(np.unique(tokens))
            and not np.isin(parts, tokens).any()
            and _is_in_order(first)
            and _is_in_order(again)
        ):
            of_each = (part.tolist() for part in np.split(parts, ends[:-1]))
            return CompiledSteps(first, dict(zip(tokens.tolist(), of_each, strict=True)), None, again)
    return CompiledSteps(rows[:0], {}, (rows, parts), None)


def _is_in_order(rules: NDArray[np.int32]) -> bool:
    """Whether no rule makes what an earlier one, or itself, is made of."""
    import numpy as np

    if not len(rules):
        return True
    parts, first_use = np.unique(rules[:, :2], return_index=True)
    made = rules[:, 2]
    place = np.minimum(np.searchsorted(parts, made), len(parts) - 1)
    is_late = (parts[place] == made) & (first_use[place] // 2 <= np.arange(len(rules)))
    return not is_late.any()


def steps_as_numbers(
    steps: Sequence[Step], ids: Mapping[str, int], n_prefix: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The steps as compiled code takes them.

    Args:
        steps: In order.
        ids: Every token's id, those of removed tokens included.
        n_prefix: Characters that a token which continues a pre-token begins with.
    Returns:
        int32 (n, 3), each step's left, right and merged token, or of a removal the token, -1 and where its
        parts end among all parts; and int32, those.
    Raises:
        KeyError: a token has no id.
    Example:
        >>> steps = [("a", "b"), Removed("ab", ("a", "b"))]
        >>> rows, parts = steps_as_numbers(steps, {"a": 0, "b": 1, "ab": 2}, 0)
        >>> rows.tolist(), parts.tolist()
        ([[0, 1, 2], [2, -1, 2]], [0, 1])
    """
    import numpy as np

    merges = [step for step in steps if not isinstance(step, Removed)]
    removals = [step for step in steps if isinstance(step, Removed)]
    lengths = [len(step.parts) for step in removals]
    id_of = ids.__getitem__
    is_merge = np.array([not isinstance(step, Removed) for step in steps], bool)
    rows = np.full((len(steps), 3), -1, np.int32)
    pairs = np.fromiter(map(id_of, chain.from_iterable(merges)), np.int32, 2 * len(merges))
    rows[is_merge, :2] = pairs.reshape(-1, 2)
    rows[is_merge, 2] = [ids[left + right[n_prefix:]] for left, right in merges]
    rows[~is_merge, 0] = [ids[step.token] for step in removals]
    rows[~is_merge, 2] = np.cumsum(lengths)
    parts = chain.from_iterable(step.parts for step in removals)
    return rows, np.fromiter(map(id_of, parts), np.int32, sum(lengths))
