"""Malformed JSON: a value of every kind at every place, and bytes that are no JSON at all."""

import copy
import json

NESTED = "[" * 100_000 + "]" * 100_000
WRONG = [
    None, True, 0, -1, 1.5, 2**31, 2**63, 10**30, "", "a", "\ud800", "x" * 1000, [], ["a"], [1], [[]],
    [["a"]], [["a", "b", "c"]], {}, {"a": 1}, {"a": ["b"]}, {"a": {}}, float("nan"), float("inf"),
]  # fmt: skip
NO_JSON = [
    b"",
    b" ",
    b"null",
    b"[]",
    b"{",
    b"\xff\xfe",
    b'"\xff"',
    b"\xef\xbb\xbf{}",
    b"\x00",
    NESTED.encode(),
]


def places(content, depth=3):
    """Where something lies in a JSON document: the keys and positions that lead there; of lists, the ends."""
    yield ()
    if depth and isinstance(content, dict):
        keys = [*content][:2] + [*content][-1:] if len(content) > 12 else [*content]
        for key in dict.fromkeys(keys):
            yield from ((key, *rest) for rest in places(content[key], depth - 1))
    elif depth and isinstance(content, list):
        for position in {0, len(content) - 1} if content else ():
            yield from ((position, *rest) for rest in places(content[position], depth - 1))


def put(content, place, value):
    """The document with another value at a place."""
    if not place:
        return value
    changed = content = copy.deepcopy(content)
    for step in place[:-1]:
        content = content[step]
    content[place[-1]] = value
    return changed


def take(content, place):
    """The document without what lies at a place."""
    changed = content = copy.deepcopy(content)
    for step in place[:-1]:
        content = content[step]
    del content[place[-1]]
    return changed


def variants(content, values=tuple(WRONG), depth=3):
    """Texts of documents that differ from this one at one place, with what was done to it."""
    for place in places(content, depth):
        for value in values:
            yield f"{value!r:.30} at {place}", json.dumps(put(content, place, value))
        if place:
            yield f"nothing at {place}", json.dumps(take(content, place))
            deep = json.dumps(put(content, place, "DEEP")).replace('"DEEP"', NESTED)
            yield f"nesting at {place}", deep
            twice = json.dumps(put(content, place, "TWICE"))
            name = json.dumps(place[-1])
            if isinstance(place[-1], str):
                yield f"{place} twice", twice.replace(f'{name}: "TWICE"', f'{name}: 1, {name}: "TWICE"')
