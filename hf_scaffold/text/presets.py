"""The presets for bytes, which native scanners know, as `pre_tokenizer` in tokenizer.json."""

from __future__ import annotations

from typing import Any

MAX_PRETOKEN_LENGTH = 1_000_000  # bytes; anything longer is not a word

# What ByteLevel splits by.
GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# As in meta-llama/Meta-Llama-3-8B's tokenizer.json.
LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
    r"|[^\r\n\p{L}\p{N}]?\p{L}+"
    r"|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+"
    r"|\s+(?!\S)"
    r"|\s+"
)
# o200k_base, as in Xenova/gpt-4o's tokenizer.json.
GPT4O_PATTERN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*"
    r"|\s*[\r\n]+"
    r"|\s+(?!\S)"
    r"|\s+"
)
METASPACES: list[dict[str, Any]] = [
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}
    for scheme in ("always", "first", "never")
    for split in (False, True)
]


def _byte_level(use_regex: bool) -> dict[str, Any]:
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def _sequence(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "pretokenizers": [*steps]}


def _split(pattern: str) -> dict[str, Any]:
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return _sequence(split, _byte_level(False))


ENTRIES: dict[str, dict[str, Any]] = {
    "gpt2-digits": _sequence({"type": "Digits", "individual_digits": True}, _byte_level(True)),
    "gpt2": _byte_level(True),
    "llama3": _split(LLAMA3_PATTERN),
    "gpt4o": _split(GPT4O_PATTERN),
}


def preset_of(pre_tokenizer: Any) -> str | None:
    """The preset, if any, whose native scanner splits text just as this entry does.

    Example:
        >>> preset_of({"type": "ByteLevel", "add_prefix_space": False, "use_regex": True})
        'gpt2'
    """
    entry = _without_offsets(pre_tokenizer)
    return next((name for name, known in ENTRIES.items() if _without_offsets(known) == entry), None)


def reads_characters(pre_tokenizer: Any) -> bool:
    """Whether this entry is known to native code, and leaves a model characters rather than bytes."""
    return pre_tokenizer is None or is_metaspace(pre_tokenizer)


def is_metaspace(pre_tokenizer: Any) -> bool:
    """Whether this entry makes "▁" of each space.

    Example:
        >>> entry = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
        >>> is_metaspace(entry), is_metaspace({**entry, "replacement": "_"})
        (True, False)
    """
    return pre_tokenizer in METASPACES


def _without_offsets(entry: Any) -> Any:
    """The entry without what concerns only offsets."""
    if isinstance(entry, dict):
        return {key: _without_offsets(value) for key, value in entry.items() if key != "trim_offsets"}
    return [*map(_without_offsets, entry)] if isinstance(entry, list) else entry
