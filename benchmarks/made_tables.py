"""Tables of counts of any size, made of some million rows a second: pre-tokens of the parts of a text's.

A pre-token is the beginning of one, of BEGIN bytes, before the end of another. In what follows it is a
number, and the numbers are in the order of the bytes.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow
import pyarrow.compute

import hf_scaffold as hs
from hf_scaffold.tables.files import TableWriter

BEGIN = 4  # bytes
END = 8  # at most
AT_ONCE = 1 << 20  # rows written
CHOICES = 40  # pre-tokens to choose a row from

Numbers = npt.NDArray[np.int64]


class Words(NamedTuple):
    """Beginnings and ends, sorted."""

    begins: Any
    ends: Any

    @property
    def n(self) -> int:
        """How many pre-tokens can be made."""
        return len(self.begins) * len(self.ends)


def words_of(text: Path) -> Words:
    """What the pre-tokens of a text begin and end with."""
    found = [word for word in hs.count(text, pre_tokenizer="gpt2") if len(word) >= BEGIN]
    begins = sorted({word[:BEGIN] for word in found})
    ends = sorted({word[-size:] for word in found for size in range(1, END + 1)})
    return Words(*(pyarrow.array(each, pyarrow.large_binary()) for each in (begins, ends)))


def numbers_of(words: Words, n: int, seed: int = 0) -> Numbers:
    """n of the pre-tokens, ascending. With another seed a fifth are the same, and some others may be."""
    width = words.n // n  # one of so many neighbours is taken
    if width < CHOICES:
        raise ValueError(f"the text gives {words.n:,} pre-tokens, too few for {n:,} rows; take a longer one")
    own, common = (np.random.default_rng(each).integers(0, CHOICES, n) for each in (seed, 0))
    choice = np.where(np.arange(n) % 5, own, common)
    return np.arange(n) * width + choice * (width // CHOICES)


def counts_of(n: int, seed: int = 0) -> Numbers:
    """As many as in a text: the most frequent occurs n times, the second half as often, and so on."""
    return n // (1 + np.random.default_rng(seed).permutation(n))


def write(path: Path, words: Words, numbers: Numbers, counts: Numbers) -> int:
    """Write a table; returns the bytes of its pre-tokens."""
    n_bytes = 0
    with TableWriter(path, hs.get_pre_tokenizer("gpt2")) as writer:
        for first in range(0, len(numbers), AT_ONCE):
            begins, ends = np.divmod(numbers[first : first + AT_ONCE], len(words.ends))
            pretokens = pyarrow.compute.binary_join_element_wise(
                words.begins.take(begins), words.ends.take(ends), pyarrow.scalar(b"", pyarrow.large_binary())
            )
            writer.write(pyarrow.table({"pretoken": pretokens, "count": counts[first : first + AT_ONCE]}))
            n_bytes += pyarrow.compute.sum(pyarrow.compute.binary_length(pretokens)).as_py()
    return n_bytes
