"""What `ScaffoldTokenizerFast` calls where this package is installed, the class of 0.1.0 included."""

from hf_scaffold.native.calls import encode_plus, encode_to_arrays, reason_against
from hf_scaffold.native.decoding import decoding_of
from hf_scaffold.native.encodings import draw
from hf_scaffold.native.sessions import NotNativeError

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
