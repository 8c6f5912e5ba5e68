"""Decoders: what makes text of tokens again, as far as the pre-tokenizer kept it."""

import re
from collections.abc import Iterable
from typing import Any

from tokenizers import Regex
from tokenizers.decoders import (
    BPEDecoder,
    ByteFallback,
    ByteLevel,
    Decoder,
    Fuse,
    Replace,
    Sequence,
    Strip,
    WordPiece,
)

from hf_scaffold.text.pre_tokenizers import PreTokenizer
from hf_scaffold.text.symbols import NO_AFFIXES, Affixes


def decoder_for(pre_tokenizer: PreTokenizer, affixes: Affixes, byte_fallback: bool = False) -> Decoder:
    """The decoder that undoes a pre-tokenizer and removes affixes.

    Where the pre-tokenizer keeps spaces it says where they are, and affixes just go. Where it drops them, an
    affix tells where pre-tokens begin or end, and a space is put between these. Without affixes their borders
    are lost, and nothing is put there. Tokens of bytes become the characters they spell.

    Example:
        >>> from hf_scaffold.text.pre_tokenizers import get_pre_tokenizer
        >>> bert = get_pre_tokenizer("bert", alphabet="chars")
        >>> decoder_for(bert, Affixes(prefix="##")).decode(["a", "##b", "c"])
        'ab c'
    """
    lead, space = _written_spaces(pre_tokenizer)
    fallback: list[Decoder] = [ByteFallback()] if byte_fallback else []
    characters: list[Decoder] = [ByteLevel()] if pre_tokenizer.writes_bytes else [*fallback, Fuse()]
    if space or affixes == NO_AFFIXES:
        if space not in ("", " ") and not pre_tokenizer.writes_bytes:
            # Not Metaspace: where tokens reach over spaces, it would drop every space of the first one.
            characters = [Replace(space, " "), *characters, *([Strip(" ", 1, 0)] if lead else [])]
        return _sequence([*_without_prefix(affixes), *_without_suffix(affixes, ""), *characters])
    if pre_tokenizer.writes_bytes:
        return _spaced_bytes(affixes)
    if affixes.suffix:
        return _sequence([*_without_prefix(affixes), BPEDecoder(affixes.suffix)])
    return WordPiece(affixes.prefix, cleanup=False)  # cleaning up makes "don't" of "do not"


def keeping_spaces(decoder: dict[str, Any] | None, tokens: Iterable[str]) -> dict[str, Any] | None:
    """The entry of a decoder that doesn't drop spaces within a token.

    Metaspace drops every space of the first token. Without tokens over several words it is left as it is;
    else what takes its place drops one space at the start of a text.

    Example:
        >>> keeping_spaces({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"}, ["a▁b"])
        {'type': 'Replace', 'pattern': {'String': '▁'}, 'content': ' '}
    """
    steps = decoder["decoders"] if decoder and decoder["type"] == "Sequence" else [decoder]
    found = next((step for step in steps if step and step["type"] == "Metaspace"), None)
    if found is None:
        return decoder
    space = found["replacement"]
    if not any(space in token.lstrip(space) for token in tokens):
        return decoder
    others: list[dict[str, Any]] = [{"type": "Replace", "pattern": {"String": space}, "content": " "}]
    if found["prepend_scheme"] != "never":
        others += [{"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]
    place = steps.index(found)
    steps = [*steps[:place], *others, *steps[place + 1 :]]
    return steps[0] if len(steps) == 1 else {"type": "Sequence", "decoders": steps}


def _written_spaces(pre_tokenizer: PreTokenizer) -> tuple[str, str]:
    """What a pre-tokenizer writes before a text and for the space between two words; "" where nothing."""
    written = b"".join(pre_tokenizer.pre_tokenize("a b")).decode()
    found = re.fullmatch("(.?)a(.?)b", written)
    return (found[1], found[2]) if found else ("", "")


def _spaced_bytes(affixes: Affixes) -> Decoder:
    """A space, in its byte-level form, comes after a suffix, or before what has no prefix."""
    if affixes.suffix:
        return _sequence(
            [*_without_prefix(affixes), *_without_suffix(affixes, "Ġ"), ByteLevel(), Strip(" ", 0, 1)]
        )
    first = Replace(Regex(f"^(?!{re.escape(affixes.prefix)})"), "Ġ")
    return _sequence([first, *_without_prefix(affixes), ByteLevel(), Strip(" ", 1, 0)])


def _without_prefix(affixes: Affixes) -> list[Decoder]:
    return [Replace(Regex(f"^{re.escape(affixes.prefix)}"), "")] if affixes.prefix else []


def _without_suffix(affixes: Affixes, replacement: str) -> list[Decoder]:
    return [Replace(Regex(f"{re.escape(affixes.suffix)}$"), replacement)] if affixes.suffix else []


def _sequence(steps: list[Decoder]) -> Decoder:
    return steps[0] if len(steps) == 1 else Sequence(steps)
