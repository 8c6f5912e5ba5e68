"""Pre-tokenizers of tokenizer.json as levels: patterns in turn, each with what becomes of its pieces."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from hf_scaffold._core.text_encoder import check_splitting
from hf_scaffold.splitting.alphabet import Alphabet
from hf_scaffold.splitting.automaton import Automaton, automaton_of, compiled
from hf_scaffold.splitting.patterns import Chars, Choice, Node, RefusedError, Repeat
from hf_scaffold.text.presets import GPT2_PATTERN


class Level(NamedTuple):
    """A pattern cuts a text into matches and the gaps between them.

    Attributes:
        automaton: Finds the matches.
        cuts: Bit 2 * k + l is set if a piece of kind l begins a pre-token after one of kind k, where 0 is a
            gap and 1 a match; otherwise it belongs to the piece before it.
        drops: Bit k is set if pieces of kind k are left out.
    """

    automaton: Automaton
    cuts: int
    drops: int


GAP, MATCH = 0, 1
ALWAYS = 0b1111
# Which pieces are not cut off the piece before: the kinds of both.
JOINED = {
    "Isolated": None,
    "Removed": None,
    "MergedWithPrevious": (GAP, MATCH),
    "MergedWithNext": (MATCH, GAP),
    "Contiguous": (MATCH, MATCH),
}


@lru_cache(64)
def levels_of_json(entry: str) -> tuple[Level, ...]:
    """The levels of a pre-tokenizer, given its entry as JSON.

    Raises:
        RefusedError: only `tokenizers` can split so.
    Cost: some milliseconds for a pattern, once.
    Example:
        >>> [level.automaton.n_classes for level in levels_of_json('{"type": "WhitespaceSplit"}')]
        [2]
    """
    try:
        levels = tuple(_levels(json.loads(entry)))
        if not levels:
            raise RefusedError("the pre-tokenizer splits nothing")
        check_splitting(levels)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        reason = str(error) if type(error) is ValueError else "the pre-tokenizer can't be read"
        raise RefusedError(reason) from None
    return levels


def _levels(entry: Any) -> Iterator[Level]:
    if not isinstance(entry, dict):
        raise RefusedError("there is no pre-tokenizer")
    if entry.get("type") == "Sequence":
        steps = entry["pretokenizers"]
        for i, step in enumerate(steps):
            if step.get("type") == "ByteLevel" and i < len(steps) - 1:
                raise RefusedError("the pre-tokenizer goes on after ByteLevel")
            yield from _levels(step)
        return
    made = _MAKERS.get(entry.get("type", ""))
    if made is None:
        raise RefusedError(f"the pre-tokenizer has a {entry.get('type')}")
    yield from made(entry)


def _byte_level(entry: dict[str, Any]) -> Iterator[Level]:
    if entry.get("add_prefix_space", True):
        raise RefusedError("the pre-tokenizer adds a space")
    if entry.get("use_regex", True):
        yield Level(compiled(GPT2_PATTERN), ALWAYS, 0)


def _split(entry: dict[str, Any]) -> Iterator[Level]:
    if "String" in entry["pattern"]:
        pattern = "".join(f"\\x{{{ord(char):x}}}" for char in entry["pattern"]["String"])
    else:
        pattern = entry["pattern"]["Regex"]
    try:
        automaton = compiled(pattern)
    except RefusedError as error:
        raise RefusedError(f"the pre-tokenizer's pattern {error}") from None
    yield _with_behavior(automaton, entry["behavior"], entry["invert"])


def _with_behavior(automaton: Automaton, behavior: str, invert: bool = False) -> Level:
    cuts, drops = ALWAYS, 0
    if behavior not in JOINED:
        raise RefusedError(f"the pre-tokenizer has the behavior {behavior}")
    joined = JOINED[behavior]
    if joined is not None:
        before, after = joined
        if invert and before != after:
            before, after = after, before
        cuts ^= 1 << (2 * before + after)
    if behavior == "Removed":
        drops = 1 << (GAP if invert else MATCH)
    return Level(automaton, cuts, drops)


def _by_property(name: str) -> Automaton:
    """Matches each character that has a property."""
    alphabet = Alphabet()
    return automaton_of(Chars(alphabet.having(name)), alphabet)


def _whitespace(entry: dict[str, Any]) -> Iterator[Level]:
    alphabet = Alphabet()
    word, space = alphabet.having("Whitespace word"), alphabet.having("Whitespace space")
    runs: tuple[Node, ...] = (Chars(word), Chars(alphabet.everything ^ (word | space)))
    tree = Choice(tuple(Repeat(run, 1, None) for run in runs))
    yield _with_behavior(automaton_of(tree, alphabet), "Removed", invert=True)


def _bert(entry: dict[str, Any]) -> Iterator[Level]:
    yield _with_behavior(_by_property("Bert space"), "Removed")
    yield _with_behavior(_by_property("Bert punctuation"), "Isolated")


def _digits(entry: dict[str, Any]) -> Iterator[Level]:
    behavior = "Isolated" if entry["individual_digits"] else "Contiguous"
    yield _with_behavior(_by_property("Digits"), behavior)


def _delimiter(entry: dict[str, Any]) -> Iterator[Level]:
    yield from _split({"pattern": {"String": entry["delimiter"]}, "behavior": "Removed", "invert": False})


_MAKERS: dict[str, Callable[[dict[str, Any]], Iterator[Level]]] = {
    "ByteLevel": _byte_level,
    "Split": _split,
    "Whitespace": _whitespace,
    "WhitespaceSplit": lambda entry: iter([_with_behavior(_by_property("WhitespaceSplit"), "Removed")]),
    "BertPreTokenizer": _bert,
    "Digits": _digits,
    "Punctuation": lambda entry: iter([_with_behavior(_by_property("Punctuation"), entry["behavior"])]),
    "CharDelimiterSplit": _delimiter,
}
