"""Text to ids by `tokenizers`, for pipelines that no native scanner knows: exact, and slower."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Set
from typing import Any, NamedTuple

from hf_scaffold.engine.definition import FIRST_SCAFFOLD_ID, AddedToken, Definition
from hf_scaffold.errors import ConfigurationError


def encoder(definition: Definition, allowed_special: Set[str]) -> Callable[[str], list[int]]:
    """What encodes a text, without the special tokens that frame it.

    Args:
        allowed_special: The special tokens that text may hold as such; others are read as text.
    """
    from tokenizers.models import BPE

    model = definition.model
    if model.steps is not None:
        raise ConfigurationError(
            "`tokenizers` has to encode this text, and can't take tokens out, as PickyBPE and residue do"
        )
    tokenizer = _finder(definition, allowed_special)
    scaffolds = {token: FIRST_SCAFFOLD_ID + i for i, token in enumerate(model.demolish)}
    tokenizer.model = BPE(
        vocab=model.vocab | scaffolds,
        merges=[(left, right) for left, right in model.merges],
        **model.settings,
    )
    replacements = {
        scaffolds[token]: [model.vocab[part] for part in parts] for token, parts in model.demolish.items()
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


class Located(NamedTuple):
    """A text in tokens, and where each stands.

    Args:
        ids: The token ids.
        offsets: The characters that each covers: first, and one past the last. A token that begins or ends
            inside a character covers all of it; one that is not in the text covers (0, 0).
        word_ids: The pre-token, or added token, that each is part of, counted from 0; None of a token that is
            not in the text.
    """

    ids: list[int]
    offsets: list[tuple[int, int]]
    word_ids: list[int | None]


def locator(definition: Definition, allowed_special: Set[str]) -> Callable[[str, list[int]], Located]:
    """What locates the ids of a text in it."""
    from tokenizers.models import BPE

    symbols = _finder(definition, allowed_special)
    model = definition.model
    symbols.model = BPE(vocab=model.vocab, merges=[], **model.settings)
    tokens = {token_id: token for token, token_id in model.vocab.items()}
    n_prefix = len(model.settings.get("continuing_subword_prefix", ""))

    def locate(text: str, ids: list[int]) -> Located:
        found = symbols.encode(text, add_special_tokens=False)
        symbol_ids, spelled, spans, words = found.ids, found.tokens, found.offsets, found.word_ids
        located, at = Located(ids, [], []), 0
        for token_id in ids:
            first, at = at, at + 1
            if symbol_ids[first] != token_id:  # added and unknown tokens are the same on both sides
                length = len(spelled[first])
                while length < len(tokens[token_id]):
                    length, at = length + len(spelled[at]) - n_prefix, at + 1
            located.offsets.append((spans[first][0], spans[at - 1][1]))
            located.word_ids.append(words[first])
        return located

    return locate


def stretches(
    definition: Definition, allowed_special: Set[str], text: str
) -> Iterator[tuple[int | None, str, int]]:
    """The added tokens in a text and the stretches between them, normalized: id, or None, text and place."""
    normalizer = _finder(definition, allowed_special).normalizer
    normalized = normalizer.normalize_str if normalizer else str
    # In a text that is normalized already, tokens that are, too, are found by what they have become.
    tokens = [
        t._replace(special=t.special and t.content not in allowed_special) for t in definition.added_tokens
    ]
    second = [t._replace(content=normalized(t.content)) for t in tokens if t.normalized]
    find_first = _found(definition, [t for t in tokens if not t.normalized])
    find_second = _found(definition, second)
    for token_id, start, stop in find_first(text):
        if token_id is not None:
            yield token_id, text[start:stop], start
            continue
        outer = normalized(text[start:stop])
        for inner_id, inner_start, inner_stop in find_second(outer):
            yield inner_id, outer[inner_start:inner_stop], start + inner_start


def _found(
    definition: Definition, tokens: list[AddedToken]
) -> Callable[[str], Iterator[tuple[int | None, int, int]]]:
    """What finds these tokens in a text as it is, and the stretches between them: id, or None, start, end."""
    from tokenizers.models import WordLevel

    finder = _finder(definition._replace(normalizer=None, added_tokens=tokens), frozenset())
    finder.model = WordLevel({"": FIRST_SCAFFOLD_ID}, unk_token="")
    finder.pre_tokenizer = None

    def find(text: str) -> Iterator[tuple[int | None, int, int]]:
        found = finder.encode(text, add_special_tokens=False)
        for token_id, (start, stop) in zip(found.ids, found.offsets, strict=True):
            yield None if token_id == FIRST_SCAFFOLD_ID else token_id, start, stop

    return find


def decoder(definition: Definition) -> Any:
    """A `tokenizers.Tokenizer` that decodes as this tokenizer does; it can't encode."""
    from tokenizers.models import BPE

    tokenizer = _without_model(definition, [token._asdict() for token in definition.added_tokens])
    tokenizer.model = BPE(vocab=definition.model.vocab, merges=[], **definition.model.settings)
    return tokenizer


def _finder(definition: Definition, allowed_special: Set[str]) -> Any:
    """A `tokenizers.Tokenizer` that knows the added tokens, and of the special ones finds those allowed."""
    # `tokenizers` either finds all special tokens or none; so the allowed ones aren't special here.
    tokenizer = _without_model(
        definition,
        [
            {**token._asdict(), "special": token.special and token.content not in allowed_special}
            for token in definition.added_tokens
        ],
    )
    tokenizer.encode_special_tokens = True
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
