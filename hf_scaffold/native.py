"""The engine, by the path at which the class beside a saved tokenizer looks for it: of 0.1.0, too."""

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
