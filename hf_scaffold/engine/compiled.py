"""The compiled encoder for a definition, where it knows the pipeline, and what its rows of ids need."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from hf_scaffold._core.text_encoder import TextEncoder, rules_of
from hf_scaffold.engine.definition import Definition
from hf_scaffold.text.byte_level import ids_of_bytes
from hf_scaffold.text.presets import preset_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["LARGEST_ID", "id_objects", "native_encoder", "text_encoder", "why_general", "with_rows"]

LARGEST_ID = (1 << 31) - 1  # the core's ids are 32 bits wide


def why_general(definition: Definition) -> str | None:
    """Why only `tokenizers` can encode for this definition; None if the compiled encoder can."""
    model = definition.model
    if model.get("unk_token") is not None or model.get("byte_fallback"):
        return "the model has an unk_token or byte_fallback"
    if model.get("continuing_subword_prefix") or model.get("end_of_word_suffix"):
        return "the model marks parts of words"
    if definition.normalizer is not None:
        return "there is a normalizer"
    if preset_of(definition.pre_tokenizer) is None:
        return "the pre-tokenizer is none of the presets"
    if definition.n_ids + len(definition.demolish) > LARGEST_ID:
        return f"ids go beyond {LARGEST_ID}, scaffold tokens included"
    return None


def native_encoder(definition: Definition) -> TextEncoder:
    """The compiled encoder; `why_general` must be None."""
    preset = preset_of(definition.pre_tokenizer)
    assert preset is not None
    return text_encoder(preset, definition.vocab, definition.merges, definition.demolish)


def text_encoder(
    preset: str, vocab: dict[str, int], merges: list[list[str]], demolish: dict[str, list[str]]
) -> TextEncoder:
    """The compiled encoder of checked parts; scaffold tokens get the ids after the public ones."""
    first_scaffold = max(vocab.values(), default=-1) + 1
    ids = vocab | {token: first_scaffold + i for i, token in enumerate(demolish)}
    replacements = {ids[token]: [vocab[part] for part in parts] for token, parts in demolish.items()}
    return TextEncoder(preset, ids_of_bytes(vocab), rules_of(merges, ids), replacements)


def id_objects(n_ids: int, n_tokens: int) -> list[int]:
    """The ids as objects, in order; not those far above the number of tokens."""
    return list(range(min(n_ids, 2 * n_tokens + 1024)))


def with_rows(
    flat: NDArray[np.int32], ends: NDArray[np.int64], places: list[int], made: list[list[int]]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The ids and offsets with other rows in some places."""
    import numpy as np

    rows = [flat[begin:end] for begin, end in pairwise(ends.tolist())]
    for i, ids in zip(places, made, strict=True):
        rows[i] = np.array(ids, np.int32)
    return np.concatenate(rows), np.cumsum([0, *map(len, rows)], dtype=np.int64)
