"""Sums of counts, which may pass 64 bits."""

from typing import Any

import numpy as np
import numpy.typing as npt


def exact_sum(counts: npt.NDArray[np.int64], weights: Any = 1) -> int:
    """The sum of counts * weights, in parts that can't overflow: all weights together are less than 2**42.

    Example:
        >>> exact_sum(np.array([2**62, 2**62, 5]), np.array([2, 1, 3])) == 3 * 2**62 + 15
        True
    """
    weights = np.broadcast_to(weights, counts.shape)
    if int(counts.max(initial=0)) * int(weights.sum()) < 2**63:
        return int((counts * weights).sum())
    parts = ((shift, counts >> shift & 0x1FFFFF) for shift in (0, 21, 42))
    return sum(int((part * weights).sum()) << shift for shift, part in parts)
