"""From the tree of a pattern to a deterministic automaton that finds the same matches.

A backtracking matcher prefers some ways through a pattern to others, and takes the first that leads to a
match. So a state is a list of places in the pattern, in that order; where a match ends, the places after it
are dropped. A look ahead at one character is decided on when that is read: each step knows the next one.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

from hf_scaffold.splitting.alphabet import Alphabet
from hf_scaffold.splitting.patterns import Ahead, Chars, Choice, Concat, Node, RefusedError, Repeat, parse

MOST_PLACES = 4_000
MOST_STATES = 500
MOST_CLASSES = 250
MOST_STEPS = 1_000_000  # of building: about a second
DEAD = -1

# A place in the pattern: one of the nodes below, which names the places after it.
Place = int


class Automaton(NamedTuple):
    """Matches from a given character on: state 0 is the first.

    Attributes:
        n_classes: The number of classes of characters.
        starts, classes: Runs of code points: the first of each, and its class.
        transitions: int16, (states, classes): the next state, or -1.
        accepts: uint8, (states, classes + 1): whether a match ends before a character of this class; in the
            last column, at the end of the text. It replaces matches found before.
    """

    n_classes: int
    starts: array[int]
    classes: bytes
    transitions: array[int]
    accepts: bytes


def compiled(pattern: str) -> Automaton:
    """The automaton of a pattern.

    Raises:
        RefusedError: there is none, or it is too large.
    Example:
        >>> automaton = compiled("ab?")  # other characters, a and b are its classes
        >>> automaton.n_classes, len(automaton.transitions) // automaton.n_classes
        (3, 3)
    """
    return automaton_of(*parse(pattern))


def automaton_of(tree: Node, alphabet: Alphabet) -> Automaton:
    """`compiled` for a tree."""
    program = Program(tree)
    sets, runs = alphabet.classes([*program.sets, alphabet.everything])
    if len(sets) > MOST_CLASSES:
        raise RefusedError(f"tells more than {MOST_CLASSES} classes of characters")
    return Builder(program, sets).automaton(runs)


class Program:
    """The places of a pattern: place i is `ops[i]`, a tuple of its kind, and what that takes.

    "chars", set, next: reads a character. "ahead", set, at_end, next. "any", places: one of them, the first
    preferred. "match".
    """

    def __init__(self, tree: Node) -> None:
        self.ops: list[tuple[str, int, bool, tuple[Place, ...]]] = []
        self.start = self.put(tree, self.add("match", 0, False, ()))
        self.sets = [*dict.fromkeys(op[1] for op in self.ops if op[0] in ("chars", "ahead"))]

    def add(self, kind: str, chars: int, at_end: bool, after: tuple[Place, ...]) -> Place:
        if len(self.ops) >= MOST_PLACES:
            raise RefusedError(f"is longer than {MOST_PLACES} steps once its counts are written out")
        self.ops.append((kind, chars, at_end, after))
        return len(self.ops) - 1

    def put(self, node: Node, after: Place) -> Place:
        """Adds the places of a node, before `after`; returns the first."""
        if isinstance(node, Chars):
            return self.add("chars", node.chars, False, (after,))
        if isinstance(node, Ahead):
            return self.add("ahead", node.chars, node.at_end, (after,))
        if isinstance(node, Concat):
            for item in reversed(node.items):
                after = self.put(item, after)
            return after
        if isinstance(node, Choice):
            return self.add("any", 0, False, tuple(self.put(item, after) for item in node.items))
        return self.put_repeat(node, after)

    def put_repeat(self, node: Repeat, after: Place) -> Place:
        if node.most is None:
            loop = self.add("any", 0, False, ())
            self.ops[loop] = ("any", 0, False, preferred(self.put(node.item, loop), after, node.greedy))
            after = loop
        else:
            last = after
            for _ in range(node.most - node.least):
                after = self.add("any", 0, False, preferred(self.put(node.item, after), last, node.greedy))
        for _ in range(node.least):
            after = self.put(node.item, after)
        return after


def preferred(more: Place, done: Place, greedy: bool) -> tuple[Place, Place]:
    return (more, done) if greedy else (done, more)


class Builder:
    """Builds the states reached from the first."""

    def __init__(self, program: Program, sets: list[int]) -> None:
        self.ops = program.ops
        self.start = program.start
        self.sets = [*sets, 0]  # the last stands for the end of the text
        self.steps = 0
        self.known: dict[tuple[Place, int], tuple[tuple[Place, ...], bool]] = {}

    def automaton(self, runs: list[tuple[int, int]]) -> Automaton:
        n = len(self.sets) - 1
        queue: list[tuple[Place, ...]] = [(self.start,)]
        states = {queue[0]: 0}
        transitions, accepts = array("h"), bytearray()
        for state in queue:
            for number in range(n + 1):
                places, accepted = self.step(state, number)
                accepts.append(accepted)
                if number == n:
                    continue
                if places and places not in states:
                    if len(states) >= MOST_STATES:
                        raise RefusedError(f"needs more than {MOST_STATES} states")
                    states[places] = len(states)
                    queue.append(places)
                transitions.append(states[places] if places else DEAD)
        if any(accepts[: n + 1]):
            raise RefusedError("matches the empty text")
        starts, classes = zip(*runs, strict=True)
        return Automaton(n, array("I", starts), bytes(classes), transitions, bytes(accepts))

    def step(self, state: tuple[Place, ...], number: int) -> tuple[tuple[Place, ...], bool]:
        """The places after a character of a class, and whether a match ends before it."""
        found: dict[Place, None] = {}
        for place in state:
            after, accepted = self.after(place, number)
            self.spend(len(after) + 1)
            found.update(dict.fromkeys(after))
            if accepted:
                return tuple(found), True
        return tuple(found), False

    def after(self, place: Place, number: int) -> tuple[tuple[Place, ...], bool]:
        """`step` from one place."""
        if (place, number) in self.known:
            return self.known[place, number]
        chars, at_end = self.sets[number], number == len(self.sets) - 1
        found: dict[Place, None] = {}
        seen: set[Place] = set()
        left = [place]
        accepted = False
        while left and not accepted:
            at = left.pop()
            if at in seen:
                continue
            seen.add(at)
            self.spend(1)
            kind, wanted, matches_end, after = self.ops[at]
            if kind == "match":
                accepted = True
            elif kind == "any":
                left += reversed(after)
            elif at_end and kind == "ahead" and matches_end:
                left += after
            elif not at_end and wanted & chars:  # sets never cut a class
                if kind == "ahead":
                    left += after
                else:
                    found[after[0]] = None
        self.known[place, number] = tuple(found), accepted
        return self.known[place, number]

    def spend(self, n: int) -> None:
        self.steps += n
        if self.steps > MOST_STEPS:
            raise RefusedError("takes too long to compile")
