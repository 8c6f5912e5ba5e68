"""Post-processors as tokenizer.json has them: the tokens they add, and others in their place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Named = tuple[str, int]  # a token and its id


def added_by(entry: Any) -> Iterator[Named]:
    """Each token that a post-processor may add, with its id; a token may come several times.

    Example:
        >>> [*added_by({"type": "BertProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]})]
        [('</s>', 2), ('<s>', 0)]
    """
    found: list[Named] = []

    def noted(token: str, token_id: int) -> Named:
        found.append((token, token_id))
        return token, token_id

    with_tokens(entry, noted)
    yield from found


def with_tokens(entry: Any, replace: Callable[[str, int], Named]) -> Any:
    """The same post-processor with other tokens, in a sequence at any depth; None stays None.

    Of a template's special tokens, only those it uses are kept.

    Args:
        entry: `post_processor` in a tokenizer.json. Not modified.
        replace: Token and id to token and id.
    Example:
        >>> with_tokens({"type": "BertProcessing", "sep": ["b", 2], "cls": ["a", 1]}, lambda t, i: (t, i + 5))
        {'type': 'BertProcessing', 'sep': ['b', 7], 'cls': ['a', 6]}
    """
    if entry is None:
        return None
    new = dict(entry)
    if "processors" in entry:
        new["processors"] = [with_tokens(part, replace) for part in entry["processors"]]
    for name in ("sep", "cls"):
        if name in entry:
            new[name] = [*replace(*entry[name])]
    if "special_tokens" in entry:
        pieces = [*entry["single"], *entry["pair"]]
        used = {piece["SpecialToken"]["id"] for piece in pieces if "SpecialToken" in piece}
        new["special_tokens"] = {
            name: _replaced(special, replace)
            for name, special in entry["special_tokens"].items()
            if name in used
        }
    return new


def _replaced(special: Any, replace: Callable[[str, int], Named]) -> Any:
    """A template's special token, which may stand for several tokens."""
    named = [replace(*pair) for pair in zip(special["tokens"], special["ids"], strict=True)]
    return {
        **special,
        "tokens": [token for token, _ in named],
        "ids": [token_id for _, token_id in named],
    }
