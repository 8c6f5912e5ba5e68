"""Which parts of a corpus a table counts, so that none is added twice and none is missing unnoticed."""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice

from hf_scaffold.errors import ConfigurationError


@dataclass(frozen=True, order=True)
class Parts:
    """Some of the parts that a corpus was divided into.

    Args:
        corpus: Tells what was divided: equal for all parts of one corpus, weighted alike.
        of: How many parts there are.
        numbers: Those here, ascending, from 0.
    """

    corpus: str
    of: int
    numbers: tuple[int, ...]

    def __post_init__(self) -> None:
        numbers = self.numbers
        is_range = all(type(number) is int and 0 <= number < self.of for number in numbers)
        if not (self.corpus and numbers and is_range and [*numbers] == sorted({*numbers})):
            raise ValueError(f"these are no parts of a corpus: {numbers} of {self.of}")

    @property
    def n_missing(self) -> int:
        return self.of - len(self.numbers)

    @property
    def missing(self) -> Iterator[int]:
        """The numbers of those that are not here."""
        return _missing(self.numbers, self.of)


def _missing(numbers: Iterable[int], of: int) -> Iterator[int]:
    here = {*numbers}
    return (number for number in range(of) if number not in here)


def some_missing(numbers: Collection[int], of: int, separator: str = ", ") -> str:
    """The first ten of the numbers below `of` that are not among those here, for messages.

    Example:
        >>> some_missing([1], 3), some_missing([0], 10**18)
        ('0, 2', '1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …')
    """
    some = [*map(str, islice(_missing(numbers, of), 10))]
    return separator.join([*some, "…"] if of - len(numbers) > 10 else some)


def join_parts(tables: Sequence[tuple[str, Sequence[Parts]]]) -> tuple[Parts, ...]:
    """The parts that tables have together; a corpus that is complete needs no mention.

    Args:
        tables: The name and parts of each.
    Raises:
        ConfigurationError: a part is there twice, a corpus was divided in two ways, or of two corpora parts
            are missing, as if one had changed meanwhile; names the tables.
    Example:
        >>> odd, even = Parts("books", 4, (1, 3)), Parts("books", 4, (0,))
        >>> tables = [("a.parquet", [odd]), ("b.parquet", [even])]
        >>> join_parts(tables)
        (Parts(corpus='books', of=4, numbers=(0, 1, 3)),)
        >>> join_parts([*tables, ("c.parquet", [Parts("books", 4, (2,))])])
        ()
    """
    owners: dict[str, dict[int, str]] = {}
    divided: dict[str, tuple[int, str]] = {}
    for name, parts in tables:
        for part in parts:
            of, other = divided.setdefault(part.corpus, (part.of, name))
            if of != part.of:
                raise ConfigurationError(
                    f"{other} counts a part of {of}, {name} a part of {part.of} of the same corpus; "
                    "divide it alike for all"
                )
            found = owners.setdefault(part.corpus, {})
            for number in part.numbers:
                if number in found:
                    raise ConfigurationError(
                        f"{found[number]} and {name} both count part {number}/{of} of the same corpus; "
                        "leave one of them out"
                    )
                found[number] = name
    joined = (
        Parts(corpus, divided[corpus][0], tuple(sorted(found))) for corpus, found in sorted(owners.items())
    )
    incomplete = tuple(parts for parts in joined if parts.n_missing)
    if len(incomplete) > 1:
        corpora = {parts.corpus for parts in incomplete}
        names = [name for corpus, (_, name) in divided.items() if corpus in corpora]
        raise ConfigurationError(
            f"{names[0]} and {names[1]} count parts of different corpora: names or sizes of files, settings, "
            "weights or the release of hf_scaffold differ; make them alike, or merge the parts of each first"
        )
    return incomplete


def parts_to_json(parts: Iterable[Parts]) -> bytes:
    return json.dumps([asdict(each) for each in parts], sort_keys=True, separators=(",", ":")).encode()


def parts_from_json(data: bytes) -> tuple[Parts, ...]:
    """Raises ValueError, TypeError or KeyError where this is not what `parts_to_json` writes."""
    entries = json.loads(data)
    return tuple(Parts(each["corpus"], each["of"], tuple(each["numbers"])) for each in entries)
