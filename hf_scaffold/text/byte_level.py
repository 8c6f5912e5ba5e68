"""GPT-2's byte-level alphabet: one visible character for each byte."""

from array import array
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise

_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_OTHERS = sorted({*range(256)}.difference(_PRINTABLE))  # these have the characters from U+0100 on
BYTE_TO_SYMBOL = {byte: chr(byte) for byte in _PRINTABLE} | {b: chr(0x100 + i) for i, b in enumerate(_OTHERS)}
SYMBOL_TO_BYTE = {symbol: byte for byte, symbol in BYTE_TO_SYMBOL.items()}


def bytes_to_symbols(data: bytes) -> str:
    """Bytes as a string of the byte-level alphabet.

    Example:
        >>> bytes_to_symbols(" né".encode())
        'ĠnÃ©'
    """
    return data.decode("latin-1").translate(BYTE_TO_SYMBOL)


def ids_of_bytes(vocab: Mapping[str, int]) -> "array[int]":
    """The id of each byte's token, or -1: 256 of 32 bits.

    Example:
        >>> ids_of_bytes({"a": 0, "b": 1})[96:100].tolist()
        [-1, 0, 1, -1]
    """
    return array("i", [vocab.get(BYTE_TO_SYMBOL[byte], -1) for byte in range(256)])


def symbols_to_bytes(symbols: str) -> bytes:
    """The bytes that a string of the byte-level alphabet stands for.

    Raises:
        KeyError: a character outside the byte-level alphabet.
    Example:
        >>> symbols_to_bytes("ĠnÃ©").decode()
        ' né'
    """
    return bytes(map(SYMBOL_TO_BYTE.__getitem__, symbols))


def all_symbols_to_bytes(strings: Sequence[str]) -> list[bytes]:
    """`symbols_to_bytes` of many strings at once.

    Raises:
        KeyError: a character outside the byte-level alphabet.
    Example:
        >>> all_symbols_to_bytes(["Ġn", "Ã©"])
        [b' n', b'\\xc3\\xa9']
    """
    data = symbols_to_bytes("".join(strings))
    return [data[begin:end] for begin, end in pairwise(accumulate(map(len, strings), initial=0))]
