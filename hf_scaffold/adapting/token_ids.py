"""The ids in a model's config.json and generation_config.json, moved to another tokenizer's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_scaffold.adapting.matching import ROLES, Tokens, heirs_of
from hf_scaffold.errors import ConfigurationError

# Where a multimodal model has its language model's settings, beside its own.
TEXT_SECTION = "text_config"
# Other sizes of the same vocabulary.
_SIZES = ("vocab_size", "decoder_vocab_size", "vocab_size_per_layer_input")

_FIELD = re.compile(
    r".*_token_ids?|.*_token_index|.*_to_id|suppress_tokens|begin_suppress_tokens|bad_words_ids|force_words_ids"
    r"|forced_decoder_ids|sequence_bias"
)
_OTHER_VOCABULARY = re.compile(r"(t2u|codec|codebook)_")  # of sounds
_ROLE_FIELDS = {f"{name}_token_id": name for name in ROLES}

Json = dict[str, Any]


def sections(config: Json) -> Iterator[Json]:
    """The parts of a config.json with a size and ids of the text's vocabulary.

    Example:
        >>> [*sections({"text_config": {"vocab_size": 9}, "vision_config": {}})]
        [{'text_config': {'vocab_size': 9}, 'vision_config': {}}, {'vocab_size': 9}]
    """
    yield config
    if isinstance(config.get(TEXT_SECTION), dict):
        yield config[TEXT_SECTION]


def size_of(config: Json) -> int:
    """The vocabulary size that a config.json gives.

    Raises:
        ConfigurationError: it gives none, or several.
    """
    sizes = [
        (name, size)
        for section in sections(config)
        for name in _SIZES
        if isinstance(size := section.get(name), int)
    ]
    found = dict(sizes).get("vocab_size")
    if found is None:
        raise ConfigurationError(
            "config.json has no vocab_size for a text vocabulary; such models can't be adapted"
        )
    for name, size in sizes:
        if size != found:
            raise ConfigurationError(
                f"config.json has a vocab_size of {found:,} and a {name} of {size:,}; models "
                "with several vocabularies can't be adapted"
            )
    return found


def resize(config: Json, known: Json, size: int) -> None:
    """Set the vocabulary size in a config.json wherever it is, or stands there by default.

    Args:
        config: Modified.
        known: The same with all defaults.
    """
    for section, full in zip(sections(config), sections(known), strict=True):
        for name in _SIZES:
            if isinstance(full.get(name), int):
                section[name] = size


@dataclass(frozen=True)
class Moves:
    """New ids for old ones.

    Args:
        old, new: The tokenizers.
        remap: int64: old id to new id, -1 for those without one.
    """

    old: Tokens
    new: Tokens
    remap: NDArray[np.int64]

    @cached_property
    def heirs(self) -> dict[int, int]:
        """Old id to new id where one token takes over the role of another."""
        return heirs_of(self.old, self.new)

    def apply(self, file: str, config: Json, known: Json) -> dict[str, tuple[Any, Any]]:
        """Move all ids in a section of a file; returns what changed: field to old and new value.

        Args:
            config: Modified.
            known: The same with all defaults.
        Raises:
            ConfigurationError: a field names a token that the new tokenizer lacks; names both.
        """
        changed = {}
        for field, value in known.items():
            if _FIELD.fullmatch(field) and not _OTHER_VOCABULARY.match(field):
                moved = self._moved(file, field, value)
                if moved != value:
                    config[field] = moved
                    changed[field] = value, moved
        return changed

    def _moved(self, file: str, field: str, value: Any) -> Any:
        if field == "forced_decoder_ids" and value:
            return [[place, new] for place, each in value if (new := self._id(each, field)) is not None]
        if isinstance(value, Mapping):
            return {name: self._moved(file, name, each) for name, each in value.items()}
        if isinstance(value, list):
            moved = [new for each in value if (new := self._whole(each, field)) is not None]
            return [each for i, each in enumerate(moved) if each not in moved[:i]]
        return self._one(file, field, value)

    def _whole(self, value: Any, field: str) -> Any:
        """An id or nested lists of ids, and of biases; None if one of the tokens is gone."""
        if isinstance(value, list):
            moved = [self._whole(each, field) for each in value]
            return None if None in moved else moved
        return self._id(value, field) if isinstance(value, int) else value

    def _one(self, file: str, field: str, value: Any) -> Any:
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            return value
        moved = self._id(value, field)
        if moved is None and field not in _ROLE_FIELDS and value in self.old.vocab.values():
            token = self.old.tokenizer.convert_ids_to_tokens(value)
            raise ConfigurationError(
                f"{file} has {token!r} as its {field}, {value}, and the new tokenizer has no such token; "
                f"add it to the tokenizer, or set {field} to null"
            )
        return moved

    def _id(self, token_id: int, field: str) -> int | None:
        """The new id; that of the token with the field's role if this one has lost it, or is gone."""
        moved = int(self.remap[token_id]) if 0 <= token_id < len(self.remap) else -1
        role = _ROLE_FIELDS.get(field)
        if role is not None and (moved < 0 or token_id == self.old.role(role)):
            own = self.new.role(role)
            return own if own is not None or moved < 0 else moved
        return moved if moved >= 0 else self.heirs.get(token_id)
