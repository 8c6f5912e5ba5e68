import numpy as np
from numpy.typing import NDArray

class PretokenEncoder:
    def __init__(
        self,
        byte_ids: NDArray[np.int32],
        rules: NDArray[np.int32],
        replacements: dict[int, list[int]],
        wholes: dict[bytes, int],
    ) -> None: ...
    def encode(
        self, data: bytes | bytearray | memoryview, offsets: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]: ...
