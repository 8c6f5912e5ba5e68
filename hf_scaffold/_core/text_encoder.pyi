from array import array
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_scaffold._core.text_reader import Utf8

class Normalizer:
    def __init__(self, steps: Iterable[Sequence[object]]) -> None: ...
    def normalize(self, text: str) -> str: ...

class AddedTokenFinder:
    def __init__(
        self,
        tokens: Iterable[Sequence[object]],
        normalizer: Normalizer | None = None,
        marker: Normalizer | None = None,
    ) -> None: ...

def rules_of(
    merges: list[list[str]], ids: dict[str, int], more_ids: dict[str, int], n_prefix: int = 0
) -> memoryview: ...
def check_splitting(splitting: str | Sequence[object]) -> None: ...

class TextEncoder:
    def __init__(
        self,
        splitting: str | Sequence[object],
        symbols: NDArray[np.int32] | array[int] | tuple[object, ...],
        rules: NDArray[np.int32] | memoryview,
        replacements: dict[int, list[int]] | tuple[int, memoryview, memoryview],
        history: tuple[NDArray[np.int32], NDArray[np.int32]] | None = None,
        again: NDArray[np.int32] | None = None,
        *,
        _colliding: bool = False,
    ) -> None: ...
    @property
    def longest_probe(self) -> int: ...
    @property
    def n_cached(self) -> int: ...
    @property
    def cache_bytes(self) -> int: ...
    def prepare(self) -> None: ...
    def encode(
        self,
        texts: Sequence[str],
        added: AddedTokenFinder,
        n_threads: int = 1,
        dropout: float = 0,
        streams: NDArray[np.uint64] | None = None,
    ) -> tuple[NDArray[np.int32], NDArray[np.int64], list[int]]: ...
    def encode_to_lists(
        self,
        texts: Sequence[str],
        added: AddedTokenFinder,
        n_threads: int,
        before: NDArray[np.int32] | array[int],
        after: NDArray[np.int32] | array[int],
        numbers: list[int],
        rows: list[list[int]],
        masks: list[list[int]] | None = None,
    ) -> list[int]: ...
    def encode_utf8(
        self,
        data: bytes | Utf8 | NDArray[np.uint8],
        offsets: NDArray[np.int64],
        added: AddedTokenFinder,
        n_threads: int = 1,
        *,
        end_id: int = 0,
        is_end: NDArray[np.uint8] | None = None,
        short: bool = False,
    ) -> tuple[NDArray[Any], NDArray[np.int64], list[int]]: ...
    def locate(
        self,
        texts: Sequence[str],
        ids: NDArray[np.int32],
        offsets: NDArray[np.int64],
        added: AddedTokenFinder,
        lengths: NDArray[np.int32] | array[int],
        n_threads: int = 1,
    ) -> tuple[NDArray[np.int32], list[int]]: ...
    def encode_one(self, text: str, added: AddedTokenFinder) -> list[int] | None: ...

def framed(
    ids: NDArray[np.int32],
    offsets: NDArray[np.int64],
    before: NDArray[np.int32],
    after: NDArray[np.int32],
) -> tuple[NDArray[np.int32], NDArray[np.int64]]: ...
def rows_as_lists(
    ids: NDArray[np.int32],
    spans: NDArray[np.int64],
    template: NDArray[np.int32],
    padding: NDArray[np.int64],
    pad_id: int,
    numbers: list[int],
) -> list[list[int]]: ...
def constant_lists(value: int, lengths: NDArray[np.int64]) -> list[list[int]]: ...
def fill_rows(
    out: NDArray[np.int64],
    ids: NDArray[np.int32],
    spans: NDArray[np.int64],
    template: NDArray[np.int32],
    left: NDArray[np.int64],
) -> None: ...
