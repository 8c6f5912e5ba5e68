"""The engine, where the class beside a saved tokenizer looks for it; so did that of 0.1.0."""

from hf_scaffold.engine.calls import draw, encode_plus, encode_to_arrays, reason_against
from hf_scaffold.engine.decoding import decoding_of
from hf_scaffold.engine.sessions import NotNativeError

__all__ = [
    "INTERFACE",
    "NotNativeError",
    "decoding_of",
    "draw",
    "encode_plus",
    "encode_to_arrays",
    "reason_against",
]

# What tokenization_scaffold.py calls here, as it may be older or newer than this.
INTERFACE = 1
