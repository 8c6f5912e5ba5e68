from array import array

import numpy as np
from numpy.typing import NDArray

class PretokenEncoder:
    def __init__(
        self,
        symbols: NDArray[np.int32] | array[int] | dict[tuple[bytes, bool, bool], int],
        rules: NDArray[np.int32],
        replacements: dict[int, list[int]],
        wholes: dict[bytes, int],
        unknown: int = -1,
        fuse_unknown: bool = False,
        first_byte: int = -1,
        history: tuple[NDArray[np.int32], NDArray[np.int32]] | None = None,
        again: NDArray[np.int32] | None = None,
    ) -> None: ...
    @property
    def longest_probe(self) -> int: ...
    def prepare(self) -> None: ...
    def encode(
        self, data: bytes | bytearray | memoryview, offsets: NDArray[np.int64], *, prepare: bool = True
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]: ...
