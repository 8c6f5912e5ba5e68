"""The engine, where the class beside a saved tokenizer looks for it; so did that of 0.1.0."""

from hf_scaffold.engine.calls import (
    INTERFACE,
    NotNativeError,
    decoding_of,
    draw,
    encode_plus,
    encode_to_arrays,
    reason_against,
)

__all__ = [
    "INTERFACE",
    "NotNativeError",
    "decoding_of",
    "draw",
    "encode_plus",
    "encode_to_arrays",
    "reason_against",
]
