from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_scaffold.training.log import Kind

class MergeLoop:
    def __init__(
        self,
        symbols: NDArray[np.int32] | NDArray[np.uint8],
        offsets: NDArray[np.int64],
        counts: NDArray[np.int64],
        tokens: list[bytes],
        n_special: int,
        min_frequency: int,
        max_token_length: int,
        scaffold: bool,
        prefix_length: int = 0,
        log: bool = False,
        rare_below: int = 1,
        ids: NDArray[np.int32] | None = None,
        scaffolds: NDArray[np.int32] | None = None,
        scaffold_below: float = 1,
    ) -> None: ...
    def run(self, vocab_size: int, progress: Callable[[int], object] | None = None) -> str: ...
    def finish(self) -> None: ...
    @property
    def tokens(self) -> list[bytes]: ...
    @property
    def scaffolds(self) -> list[bool]: ...
    @property
    def frequencies(self) -> list[int]: ...
    @property
    def head_frequency(self) -> int: ...
    @property
    def longest_probe(self) -> int: ...
    @property
    def events(self) -> list[tuple[Kind, int, int, int, int, int]]: ...
    @property
    def merges(self) -> list[tuple[int, int]]: ...
    @property
    def first_rules(self) -> NDArray[np.int32]: ...
    def made_without(self, hidden: NDArray[np.bool_]) -> NDArray[np.bool_]: ...
    def encoded(
        self, rows: NDArray[np.int64], n_merges: int = ...
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]: ...

def strongest_splits(
    tokens: list[bytes],
    frequencies: NDArray[np.int64],
    rows: NDArray[np.int64],
    prefix: bytes,
    suffix: bytes,
) -> NDArray[np.int64]: ...

class AmbiguousMergeLoop(MergeLoop): ...

class PickyMergeLoop(MergeLoop):
    def __init__(self, *args: Any, threshold: float, **kwargs: Any) -> None: ...
    @property
    def history(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]: ...

class MergeReplay(AmbiguousMergeLoop):
    def __init__(
        self,
        symbols: NDArray[np.int32],
        offsets: NDArray[np.int64],
        counts: NDArray[np.int64],
        tokens: list[bytes],
        rules: NDArray[np.int32],
    ) -> None: ...
    def replay(self) -> list[int]: ...
