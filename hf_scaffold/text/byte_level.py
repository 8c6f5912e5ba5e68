"""GPT-2's byte-level alphabet: one visible character for each byte."""

from array import array
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise

__all__ = [
    "BYTE_TO_SYMBOL",
    "SYMBOL_TO_BYTE",
    "all_symbols_to_bytes",
    "bytes_to_symbols",
    "ids_of_bytes",
    "symbols_to_bytes",
]


def _symbols() -> dict[int, str]:
    """Byte to the character that stands for it: itself if printable, else the next free one from U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = sorted(set(range(256)).difference(printable))
    return {byte: chr(byte) for byte in printable} | {byte: chr(0x100 + i) for i, byte in enumerate(others)}


BYTE_TO_SYMBOL = _symbols()
SYMBOL_TO_BYTE = {symbol: byte for byte, symbol in BYTE_TO_SYMBOL.items()}


def bytes_to_symbols(data: bytes) -> str:
    """Bytes as a string of the byte-level alphabet.

    Example:
        >>> bytes_to_symbols(" né".encode())
        'ĠnÃ©'
    """
    return data.decode("latin-1").translate(BYTE_TO_SYMBOL)


def ids_of_bytes(vocab: Mapping[str, int]) -> "array[int]":
    """The id of each byte's token, -1 where there is none: 256 of 32 bits.

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
    """The bytes that each of many strings of the byte-level alphabet stands for.

    Raises:
        KeyError: a character outside the byte-level alphabet.
    Example:
        >>> all_symbols_to_bytes(["Ġn", "Ã©"])
        [b' n', b'\\xc3\\xa9']
    """
    data = symbols_to_bytes("".join(strings))
    return [data[begin:end] for begin, end in pairwise(accumulate(map(len, strings), initial=0))]
