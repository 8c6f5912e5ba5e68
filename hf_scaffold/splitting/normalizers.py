"""Normalizers that compiled code knows, as `normalizer` in tokenizer.json."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hf_scaffold.text.presets import is_metaspace

Step = tuple[Any, ...]

NORMAL_FORMS = ("NFC", "NFD", "NFKC", "NFKD")
LONGEST_PATTERN = 64  # bytes; the compiled search takes up to so many steps for each byte of text


def steps_of(normalizer: Any) -> list[Step]:
    """The steps, as compiled code takes them, that rewrite text just as this entry does.

    Raises:
        LookupError: there are none; says of what.
    Example:
        >>> steps_of({"type": "Replace", "pattern": {"String": " "}, "content": "_"})
        [('replace', ' ', '_')]
    """
    if normalizer is None:
        return []
    try:
        kind, make = normalizer["type"], STEPS[normalizer["type"]]
        steps = make(normalizer)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        raise LookupError("the normalizer is none that is compiled") from None
    if any(not isinstance(value, (str, bool)) for step in steps for value in step):
        raise LookupError(f"the normalizer {kind} can't be read")
    return steps


def makes_normal_forms(normalizer: Any) -> bool:
    """Whether this entry, which `steps_of` knows, makes nothing but normal forms of Unicode.

    Text that has the form keeps all its characters, each in its place.

    Example:
        >>> makes_normal_forms({"type": "NFC"}), makes_normal_forms({"type": "Lowercase"})
        (True, False)
    """
    return all(step[0] == "named" and step[1] in NORMAL_FORMS for step in steps_of(normalizer))


def marks_of(pre_tokenizer: Any) -> list[Step]:
    """The steps that a pre-tokenizer takes before it splits: a prefix for text, and "▁" in place of spaces.

    Example:
        >>> entry = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
        >>> marks_of(entry)
        [('replace', ' ', '▁'), ('prepend', '▁', True, True)]
        >>> marks_of({"type": "ByteLevel", "add_prefix_space": True, "use_regex": True})
        [('prepend', ' ', True, False)]
    """
    if isinstance(pre_tokenizer, dict) and pre_tokenizer.get("type") == "ByteLevel":
        return [("prepend", " ", True, False)] if pre_tokenizer.get("add_prefix_space") else []
    if not is_metaspace(pre_tokenizer):
        return []
    mark, scheme = pre_tokenizer["replacement"], pre_tokenizer["prepend_scheme"]
    prepend = [] if scheme == "never" else [("prepend", mark, True, scheme == "first")]
    return [("replace", " ", mark), *prepend]


def _sequence(entry: dict[str, Any]) -> list[Step]:
    return [step for part in entry["normalizers"] for step in steps_of(part)]


def _replace(entry: dict[str, Any]) -> list[Step]:
    ((kind, pattern),) = entry["pattern"].items()
    # In a regular expression all but letters, digits and space may have a meaning of their own.
    if kind != "String" and not pattern.replace(" ", "0").isalnum():
        return [("replace_matches", pattern, entry["content"])]
    if not 1 <= len(pattern.encode()) <= LONGEST_PATTERN:
        raise LookupError(f"to replace is compiled for 1 to {LONGEST_PATTERN} bytes only")
    return [("replace", pattern, entry["content"])]


def _bert(entry: dict[str, Any]) -> list[Step]:
    strips = entry["strip_accents"]  # None: with lower case
    parts = {
        "clean_text": entry["clean_text"],
        "handle_chinese_chars": entry["handle_chinese_chars"],
        "NFD": entry["lowercase"] if strips is None else strips,
        "drop_nonspacing": entry["lowercase"] if strips is None else strips,
        "Lowercase": entry["lowercase"],
    }
    if not all(isinstance(wanted, bool) for wanted in parts.values()):
        raise ValueError("neither true nor false")
    return [("named", name) for name, wanted in parts.items() if wanted]


def _named(entry: dict[str, Any]) -> list[Step]:
    return [("named", entry["type"])]


STEPS: dict[str, Callable[[dict[str, Any]], list[Step]]] = {
    **dict.fromkeys((*NORMAL_FORMS, "Lowercase", "StripAccents", "Nmt"), _named),
    "BertNormalizer": _bert,
    "Sequence": _sequence,
    "Prepend": lambda entry: [("prepend", entry["prepend"], False, False)],
    "Replace": _replace,
    "Strip": lambda entry: [("strip", entry["strip_left"], entry["strip_right"])],
}
