"""What `ScaffoldTokenizerFast` calls where this package is installed; see `contract`."""

from hf_scaffold._utils.files import read_unmixed, saving
from hf_scaffold.native.calls import encode_plus, encode_to_arrays, reason_against
from hf_scaffold.native.contract import INTERFACE
from hf_scaffold.native.decoding import decoding_of
from hf_scaffold.native.encodings import draw
from hf_scaffold.native.sessions import NotNativeError, prepare

__all__ = [
    "INTERFACE",
    "NotNativeError",
    "decoding_of",
    "draw",
    "encode_plus",
    "encode_to_arrays",
    "prepare",
    "read_unmixed",
    "reason_against",
    "saving",
]
