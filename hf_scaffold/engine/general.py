"""Text to ids by `tokenizers`, for pipelines that no native scanner knows: exact, and slower."""

from __future__ import annotations

import json
from collections.abc import Callable, Set
from dataclasses import asdict
from typing import Any

from hf_scaffold.engine.definition import FIRST_SCAFFOLD_ID, Definition

__all__ = ["decoder", "encoder"]


def encoder(definition: Definition, allowed_special: Set[str]) -> Callable[[str], list[int]]:
    """What encodes a text, without the special tokens that frame it.

    Args:
        allowed_special: The special tokens that text may hold as such; others are read as text.
    """
    from tokenizers.models import BPE

    # `tokenizers` either finds all special tokens or none; so the allowed ones aren't special here.
    tokenizer = _without_model(
        definition,
        [
            {**asdict(token), "special": token.special and token.content not in allowed_special}
            for token in definition.added_tokens
        ],
    )
    tokenizer.encode_special_tokens = True
    scaffolds = {token: FIRST_SCAFFOLD_ID + i for i, token in enumerate(definition.demolish)}
    vocab = definition.vocab
    tokenizer.model = BPE(
        vocab=vocab | scaffolds,
        merges=[(left, right) for left, right in definition.merges],
        **definition.model,
    )
    replacements = {
        scaffolds[token]: [vocab[part] for part in parts] for token, parts in definition.demolish.items()
    }

    def encode(text: str) -> list[int]:
        ids: list[int] = []
        for token_id in tokenizer.encode(text, add_special_tokens=False).ids:
            if token_id < FIRST_SCAFFOLD_ID:
                ids.append(token_id)
            else:
                ids += replacements[token_id]
        return ids

    return encode


def decoder(definition: Definition) -> Any:
    """A `tokenizers.Tokenizer` that decodes as this tokenizer does; it can't encode."""
    from tokenizers.models import BPE

    tokenizer = _without_model(definition, [asdict(token) for token in definition.added_tokens])
    tokenizer.model = BPE(vocab=definition.vocab, merges=[], **definition.model)
    return tokenizer


def _without_model(definition: Definition, added_tokens: list[dict[str, Any]]) -> Any:
    """A `tokenizers.Tokenizer` that knows nothing but added tokens.

    Added tokens take their ids from the model in place when they are added. Here that model holds nothing
    else: the final one may have a scaffold token with the same string.
    """
    from tokenizers import Tokenizer
    from tokenizers.models import BPE

    content = json.loads(Tokenizer(BPE()).to_str())
    content["model"]["vocab"] = {token.content: token.id for token in definition.added_tokens}
    content["added_tokens"] = sorted(added_tokens, key=lambda token: token["id"])
    for name in ("normalizer", "pre_tokenizer", "decoder"):
        content[name] = getattr(definition, name)
    return Tokenizer.from_str(json.dumps(content))
