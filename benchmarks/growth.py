"""How distinct pre-tokens grow with text, by Heaps' law: distinct = factor * bytes ** exponent."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

STEPS = 4  # sizes that are counted for each tenfold of text
DECADES = 3  # tenfolds that are counted


class Fit(NamedTuple):
    """A power law.

    Args:
        error: The largest by which it misses a point, as a share.
    """

    factor: float
    exponent: float
    error: float

    def at(self, n_bytes: float) -> float:
        return float(self.factor * n_bytes**self.exponent)


class Curve(NamedTuple):
    """What was counted.

    Args:
        n_bytes: Of growing pieces of a text, STEPS for each tenfold.
        distinct: Pre-tokens in each.
    """

    n_bytes: Sequence[int]
    distinct: Sequence[int]

    def fit(self, decade: int) -> Fit:
        """The law of a tenfold: 0 is the last one, 1 the one before."""
        last = len(self.n_bytes) - decade * STEPS
        first = last - STEPS - 1
        x, y = (np.log(np.array(values[first:last], float)) for values in self)
        exponent, constant = np.polyfit(x, y, 1)
        misses = np.abs(np.exp(y - exponent * x - constant) - 1)
        return Fit(math.exp(constant), float(exponent), float(misses.max()))

    def foretold(self) -> float:
        """What the law of the tenfold before says of the whole, as a multiple of what is there."""
        return self.fit(1).at(self.n_bytes[-1]) / self.distinct[-1]

    def most(self, n_bytes: float) -> float:
        """Distinct pre-tokens if the last exponent stays."""
        return float(self.distinct[-1] * (n_bytes / self.n_bytes[-1]) ** self.fit(0).exponent)

    def least(self, n_bytes: float) -> float:
        """Distinct pre-tokens if the exponent goes on to fall, by the same factor with each tenfold."""
        last, before = self.fit(0).exponent, self.fit(1).exponent
        tenfolds, ratio = math.log10(n_bytes / self.n_bytes[-1]), min(last / before, 0.999)
        # The fit is that of the middle of its tenfold; from its end on, exponents are added up.
        exponents = last * ratio**0.5 * (ratio**tenfolds - 1) / math.log(ratio)
        return float(self.distinct[-1] * 10**exponents)
