"""Decoding by a table of the bytes that each id adds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel

from hf_scaffold._core.token_decoder import TokenDecoder
from hf_scaffold.native.contract import Caller
from hf_scaffold.native.sessions import NotNativeError
from hf_scaffold.text.byte_level import SYMBOL_TO_BYTE, symbols_to_bytes


@dataclass
class Decoding:
    """What the stock class's `_decode` takes for the backend tokenizer."""

    public: Tokenizer
    backend_state: tuple[Any, ...]
    state: tuple[Any, ...]
    decoders: dict[bool, TokenDecoder] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.public, name)

    def decode(self, ids: Any, skip_special_tokens: bool = True) -> str:
        skip_special_tokens = bool(skip_special_tokens)
        if skip_special_tokens not in self.decoders:
            shown = dict(shown_bytes(self.public, skip_special_tokens))
            self.decoders[skip_special_tokens] = TokenDecoder(shown)
        try:
            return self.decoders[skip_special_tokens].decode(ids)
        except (OverflowError, TypeError):
            return self.public.decode(
                ids, skip_special_tokens=skip_special_tokens
            )  # refuses them in its words


def decoding_of(tokenizer: Caller) -> Decoding:
    """The tokenizer's backend as its decoder is now.

    Raises:
        NotNativeError: the decoder is another one than ByteLevel.
    """
    backend = vars(tokenizer)["_tokenizer"]  # as `session_of`
    if not isinstance(backend.decoder, ByteLevel):
        raise NotNativeError("the decoder is not ByteLevel")
    backend_state = tokenizer._state_of(backend)
    decoding: Decoding | None = tokenizer.cache.get("native decoding")
    if decoding is not None and decoding.public is backend and decoding.backend_state == backend_state:
        return decoding
    state = decoding_state(backend, backend_state)
    if decoding is None or decoding.public is not backend or decoding.state != state:
        decoding = Decoding(backend, backend_state, state)
        tokenizer.cache["native decoding"] = decoding
    decoding.backend_state = backend_state  # not all that is in it matters here
    return decoding


def decoding_state(backend: Tokenizer, backend_state: tuple[Any, ...]) -> tuple[Any, ...]:
    """What decoding depends on: the tokens and how they are shown, but not how text is split."""
    *tokens, normalizer, _, _ = backend_state
    if type(normalizer) is object:
        # Written in Python, it compares with nothing. But it only changes how added tokens are spelled.
        added = sorted(backend.get_added_tokens_decoder())
        normalizer = [(token_id, backend.id_to_token(token_id)) for token_id in added]
    return (*tokens, normalizer)


def shown_bytes(backend: Tokenizer, skip_special_tokens: bool) -> Iterator[tuple[int, bytes]]:
    """The bytes that each id adds to the text; as in `tokenizers`, added tokens are decoded like others."""
    vocab = backend.get_vocab(with_added_tokens=True)
    tokens = {token_id: token for token, token_id in vocab.items()}
    added = backend.get_added_tokens_decoder()
    tokens.update({token_id: backend.id_to_token(token_id) or "" for token_id in added})  # as normalized
    for token_id, token in tokens.items():
        if not (skip_special_tokens and token_id in added and not backend.decode([token_id])):
            is_spelled = SYMBOL_TO_BYTE.keys() >= {*token}
            yield token_id, symbols_to_bytes(token) if is_spelled else token.encode()
