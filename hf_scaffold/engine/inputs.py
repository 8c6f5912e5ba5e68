"""What an encoder is given: batches of text, and the special tokens that they may spell."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from hf_scaffold._utils.process import n_cpus

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Special = Literal["all"] | Collection[str]

# Below so many characters starting a thread costs more than it saves.
LEAST_FOR_THREADS = 1 << 17
# More are not started, whatever RAYON_NUM_THREADS asks for.
MOST_THREADS = 256


def n_threads(n_characters: int, most: int | None = None) -> int:
    """How many threads to take for so many characters.

    Args:
        most: None: as in `tokenizers`, TOKENIZERS_PARALLELISM and RAYON_NUM_THREADS count; a worker process
            has one.
    """
    if n_characters < LEAST_FOR_THREADS:
        return 1
    if most is not None:
        return min(most, MOST_THREADS)
    for package in ("multiprocessing", "multiprocess"):  # which a worker process has imported
        processes = sys.modules.get(f"{package}.process")
        if processes is not None and processes.parent_process() is not None:
            return 1
    if os.environ.get("TOKENIZERS_PARALLELISM", "").lower() in ("off", "false", "f", "no", "n", "0"):
        return 1
    wanted = os.environ.get("RAYON_NUM_THREADS", "")
    number = int(wanted) if re.fullmatch(r"\+?[0-9]{1,19}", wanted) else 0
    return min(number, MOST_THREADS) or n_cpus()


def refuse_no_batch(texts: Any) -> None:
    """Raise TypeError for a single text or a table, where a batch is needed."""
    kind = type(texts).__name__
    if isinstance(texts, (str, bytes, bytearray, memoryview)):
        raise TypeError(f"texts is a single {kind}, not a batch of texts; put it into a list: [text]")
    if isinstance(texts, Mapping) or hasattr(texts, "column_names"):
        raise TypeError(f"texts is a {kind}, not a batch of texts; give one of its columns")


def strings_of(texts: Any) -> list[str]:
    """A batch as strings: of strings, of UTF-8, or a column of an Arrow table.

    Raises:
        TypeError: it is no batch, or a row of it is no text; names the row.
        UnicodeDecodeError: bytes are no UTF-8.
    """
    refuse_no_batch(texts)
    items: Iterable[Any] = texts.to_pylist() if hasattr(texts, "to_pylist") else texts
    strings = [item.decode() if isinstance(item, bytes) else item for item in items]
    for i, item in enumerate(strings):
        if item is None:
            raise TypeError(f"texts[{i}] is null; drop such rows, or fill them: column.fill_null('')")
        if not isinstance(item, str):
            raise TypeError(f"texts[{i}] is a {type(item).__name__}, not a str or UTF-8 as bytes")
    return strings


def utf8_of(texts: Any) -> tuple[Any, NDArray[np.int64]] | None:
    """Bytes, `Texts` or a column of strings, joined, and offsets into them; None for anything else."""
    import numpy as np

    from hf_scaffold.text.texts import Texts, column_utf8

    if isinstance(texts, Texts):
        return texts.utf8, texts.bounds
    if not hasattr(texts, "to_pylist"):
        if not texts or not isinstance(texts[0], bytes) or {*map(type, texts)} != {bytes}:
            return None
        return b"".join(texts), np.cumsum([0, *map(len, texts)], dtype=np.int64)
    import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types

    kinds = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
    if texts.type not in kinds or texts.null_count or not len(texts):
        return None
    return column_utf8(texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts)


# ---- special tokens in text: tiktoken's rule


def chosen(special: Special, among: frozenset[str]) -> frozenset[str]:
    """The special tokens that are meant.

    Raises:
        TypeError: a single token is given, which is a collection of characters.
    Example:
        >>> sorted(chosen("all", frozenset({"<s>", "</s>"}))), chosen((), frozenset({"<s>"}))
        (['</s>', '<s>'], frozenset())
    """
    if isinstance(special, str):
        if special == "all":
            return among
        raise TypeError(f"special tokens are 'all' or a set of them, not {special!r}; write {{{special!r}}}")
    return among.intersection(special) if special else frozenset()


def refuse_spelled(texts: Sequence[str], refused: frozenset[str]) -> None:
    """Raise ValueError if a text spells one of these tokens; names the text, the token and the place."""
    if not refused:
        return
    search = pattern(refused).search
    for i, text in enumerate(texts):
        if found := search(text):
            where = f"text {i} spells" if len(texts) > 1 else "the text spells"
            raise ValueError(
                f"{where} the special token {found[0]!r} at character {found.start()}. To read it as that "
                f"token, pass allowed_special={{{found[0]!r}}}; to read it as ordinary text, leave it out "
                "of disallowed_special: disallowed_special=() is none"
            )


@lru_cache(maxsize=128)
def pattern(tokens: frozenset[str]) -> re.Pattern[str]:
    """Finds any of these tokens, the longest at each place."""
    return re.compile("|".join(map(re.escape, sorted(tokens, key=lambda token: (-len(token), token)))))
