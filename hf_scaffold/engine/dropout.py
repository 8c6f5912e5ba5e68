"""BPE-dropout (Provilkov et al. 2020) that a seed repeats.

Chances come from a stream of numbers for each text. With a seed the stream depends on the seed and the text,
so neither the order of texts, nor batches, threads or processes change what comes out. Without one it comes
from Python's `random`, so that `random.seed` and `transformers.set_seed` repeat whole runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Dropout(NamedTuple):
    """The dropout of one call: the probability that a merge is passed over, and the seed if there is one."""

    p: float
    seed: int | None = None

    @classmethod
    def of(cls, p: float | None, seed: int | None) -> Dropout | None:
        """None where nothing is dropped.

        Raises:
            ValueError: p is no probability.
        """
        if p is not None and not 0 <= p <= 1:
            raise ValueError(f"Dropout should be between 0 and 1, inclusive, but is {p}")
        return cls(p, seed) if p else None

    def streams(self, texts: Sequence[str]) -> NDArray[np.uint64]:
        """For each text the number that its chances depend on.

        Example:
            >>> one, other = Dropout(0.1, seed=1).streams(["a", "b"]).tolist()
            >>> Dropout(0.1, seed=1).streams(["b", "a"]).tolist() == [other, one]
            True
        """
        import random  # with hashlib, 5 ms that most programs never need

        import numpy as np

        if self.seed is None:
            numbers = [random.getrandbits(64) for _ in texts]
        else:
            numbers = [stream(self.seed, text) for text in texts]
        return np.array(numbers, np.uint64)


def stream(seed: int, text: str) -> int:
    import hashlib

    hashed = hashlib.blake2b(b"%d " % seed + text.encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(hashed.digest(), "little")
