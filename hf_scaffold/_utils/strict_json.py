"""JSON from anyone: read strictly, and quoted in brief."""

import json
import reprlib
from collections.abc import Mapping
from typing import Any

MAX_NESTING = 100


def parse(text: str | bytes) -> Any:
    """The content of a JSON document.

    Raises:
        ValueError: it isn't JSON, has an entry twice or NaN or Infinity, or is nested too deeply.
    Example:
        >>> parse('{"a": 1, "a": 2}')
        Traceback (most recent call last):
        ValueError: the entry 'a' is there twice
    """
    try:
        return json.loads(text, object_pairs_hook=_distinct, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object. Programs differ in which of two equal entries they take."""
    entries = dict(pairs)
    if len(entries) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"the entry {shown(name)} is there twice")
            seen.add(name)
    return entries


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def why_not_json(content: Any) -> str | None:
    """Why this can't be written as JSON in UTF-8, if it can't.

    Example:
        >>> why_not_json({"a": [1, None]}), why_not_json({"a": {1}})
        (None, 'TypeError: Object of type set is not JSON serializable')
    """
    try:
        json.dumps(content, ensure_ascii=False, allow_nan=False, sort_keys=True).encode()
    except (ValueError, TypeError, RecursionError) as error:
        return f"{type(error).__name__}: {error}"
    level: list[Any] = [[content]]
    for _ in range(MAX_NESTING):
        parts = (x.values() if isinstance(x, Mapping) else x for x in level)
        level = [part for within in parts for part in within if isinstance(part, Mapping | list | tuple)]
    return "it is nested too deeply" if level else None


def shown(value: object) -> str:
    """A value's repr, cut short: no file may make a message long."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = short.maxlong = 80
    return short.repr(value)
