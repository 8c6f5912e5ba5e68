"""Tables added up by weight, in whole numbers."""

import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from numbers import Rational, Real
from typing import Any, TypeAlias

import numpy as np

from hf_scaffold._utils.arguments import knows_its_arguments, shortened
from hf_scaffold._utils.urls import Source, place
from hf_scaffold.errors import ConfigurationError, CountOverflowError
from hf_scaffold.tables.files import TableFile
from hf_scaffold.tables.merging import TableSize, merge_files
from hf_scaffold.text.files import find_files

Weights: TypeAlias = Mapping[str, Any] | Mapping[os.PathLike[str], Any]

_MAX_COUNT = 2**63 - 1
_MOST_DIGITS = 400  # before or after the point: all that a float has


@knows_its_arguments
def mix_counts(
    weights: Weights,
    output: Source,
    *,
    max_memory: int | str = "1G",
    show_progress: bool | Callable[[int, int | None], object] = False,
) -> TableSize:
    """Add up tables of counts on disk into one, each with a weight.

    Nothing is rounded: each table is multiplied by a whole number, and these are the smallest in proportion
    to the weights. So 1 and 0.5 give the same table as 2 and 1, and equal weights that of `merge_counts`.

    Args:
        weights: Path, URL or glob pattern of tables, as for `merge_counts`, to weight: a number above 0, or a
            string such as "1/3". A float is the decimal that it is written as: 0.1 is 1/10.
        output, max_memory, show_progress: As for `merge_counts`.
    Raises:
        ConfigurationError: a weight is no number above 0; parts of one corpus have different ones; or as
            `merge_counts`.
        CountOverflowError: a count is beyond 2**63 - 1; names the pre-token.
        ArtifactError, OSError: as `merge_counts`.
    Cost: as `merge_counts`.
    Example:
        >>> import hf_scaffold as hs, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name, text in [("web", "the cat"), ("code", "the end")]:
        ...         hs.count([text]).save(f"{folder}/{name}.parquet")
        ...     weights = {f"{folder}/web.parquet": 1, f"{folder}/code.parquet": 0.5}
        ...     _ = hs.mix_counts(weights, f"{folder}/mixed.parquet")
        ...     dict(hs.PreTokenCounts.load(f"{folder}/mixed.parquet"))
        {b' cat': 2, b' end': 1, b'the': 3}
    """
    if not isinstance(weights, Mapping):
        raise TypeError(
            "weights must be tables with their weights, such as {'web.parquet': 1, 'code.parquet': 0.5}, "
            f"not {shortened(weights)}"
        )
    factors = whole_numbers(weights)
    files = [
        _Multiplied(path, factor) for name, factor in factors.items() for path in find_files([place(name)])
    ]
    return merge_files(files, place(output), max_memory, show_progress)


def whole_numbers(weights: Weights) -> dict[Any, int]:
    """The smallest whole numbers in proportion to the weights.

    Raises:
        ConfigurationError: there are none, or a weight is no number above 0.
    Example:
        >>> whole_numbers({"web": 1, "code": 0.1, "books": "2/3"})
        {'web': 30, 'code': 3, 'books': 20}
    """
    if not weights:
        raise ConfigurationError("weights has no tables")
    exact = {name: _fraction(name, value) for name, value in weights.items()}
    multiple = math.lcm(*(fraction.denominator for fraction in exact.values()))
    numbers = {name: int(fraction * multiple) for name, fraction in exact.items()}
    divisor = math.gcd(*numbers.values())
    return {name: number // divisor for name, number in numbers.items()}


def _fraction(name: Any, value: Any) -> Fraction:
    wrong = ConfigurationError(
        f"the weight of {name} is {shortened(value)}; weights are numbers above 0, such as 2, 0.5 or '1/3'"
    )
    if isinstance(value, bool | np.bool_) or not isinstance(value, str | Real | Decimal):
        raise wrong
    if isinstance(value, Rational):
        fraction = Fraction(int(value.numerator), int(value.denominator))
    else:
        text = str(value)
        try:
            fraction = Fraction(text) if "/" in text else _of_decimal(Decimal(text))
        except (ValueError, ArithmeticError):
            raise wrong from None
    if fraction <= 0:
        raise wrong
    return fraction


def _of_decimal(decimal: Decimal) -> Fraction:
    if not decimal.is_finite() or abs(decimal.adjusted()) > _MOST_DIGITS:
        raise ValueError(f"{decimal} is no weight")
    return Fraction(decimal)


class _Multiplied(TableFile):
    """A table whose counts are multiplied as they are read."""

    def __init__(self, path: Source, factor: int) -> None:
        super().__init__(path)
        self.factor = factor
        if factor > 1:  # with other weights, parts don't make the table of their corpus
            self.parts = tuple(replace(each, corpus=f"{each.corpus} * {factor}") for each in self.parts)

    def batches(self, n_rows: int) -> Iterator[Any]:
        for rows in super().batches(n_rows):
            counts = rows["count"].to_numpy()
            for row in np.flatnonzero(counts > _MAX_COUNT // self.factor)[:1]:
                pretoken = rows["pretoken"][int(row)].as_py()
                raise CountOverflowError(
                    f"{self.path}: pre-token {pretoken!r} has count {counts[row]}, times {self.factor} by "
                    "the weights: beyond 2**63 - 1; take weights in proportion of smaller whole numbers"
                )
            yield rows.set_column(1, "count", [counts * self.factor])
