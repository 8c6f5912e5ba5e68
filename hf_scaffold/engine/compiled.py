"""The compiled encoder for a definition, where it knows the pipeline."""

from __future__ import annotations

from hf_scaffold._core.text_encoder import TextEncoder
from hf_scaffold.engine.definition import Definition
from hf_scaffold.text.byte_level import ids_of_bytes
from hf_scaffold.text.presets import preset_of

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
    """The compiled encoder; `why_general` must be None. Scaffold tokens get the ids after the public ones."""
    preset, vocab, demolish = preset_of(definition.pre_tokenizer), definition.vocab, definition.demolish
    assert preset is not None
    public = ([vocab[part] for part in parts] for parts in demolish.values())
    replacements = dict(enumerate(public, definition.first_scaffold))
    return TextEncoder(preset, ids_of_bytes(vocab), definition.rules, replacements)
