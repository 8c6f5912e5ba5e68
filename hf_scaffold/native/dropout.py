"""BPE-dropout (Provilkov et al. 2020) that a seed repeats, and encodings of what it drew.

Chances come from a stream of numbers for each text. With a seed the stream depends on the seed and the text,
so neither the order of texts, nor batches, threads or processes change what comes out. Without one it comes
from Python's `random`, so that `random.seed` and `transformers.set_seed` repeat whole runs.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding
from tokenizers.models import BPE

__all__ = ["Dropout", "encoding_of"]


@dataclass(frozen=True)
class Dropout:
    """The dropout of one call: the probability that a merge is passed over, and the seed if there is one."""

    p: float
    seed: int | None = None

    def streams(self, texts: Sequence[str]) -> NDArray[np.uint64]:
        """For each text the number that its chances depend on.

        Example:
            >>> one, other = Dropout(0.1, seed=1).streams(["a", "b"]).tolist()
            >>> Dropout(0.1, seed=1).streams(["b", "a"]).tolist() == [other, one]
            True
        """
        if self.seed is None:
            numbers = [random.getrandbits(64) for _ in texts]
        else:
            numbers = [stream(self.seed, text) for text in texts]
        return np.array(numbers, np.uint64)


def stream(seed: int, text: str) -> int:
    hashed = hashlib.blake2b(b"%d " % seed + text.encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(hashed.digest(), "little")


def encoding_of(ids: Sequence[int], symbols: Encoding, model: BPE) -> Encoding:
    """The Encoding of a sequence in these tokens.

    Args:
        symbols: The same sequence, every symbol its own token; added tokens are the same on both sides.
        model: Has the tokens that symbols merge into.
    """
    from hf_scaffold.tokenization_scaffold import encoding_from

    state: dict[str, list[Any]] = json.loads(symbols.__getstate__())
    tokens: list[str] = []
    firsts: list[int] = []
    offsets: list[tuple[int, int]] = []
    at = 0
    for token_id in ids:
        firsts.append(at)
        spelled = state["tokens"][at]
        if token_id != state["ids"][at]:
            token = model.id_to_token(token_id)
            while spelled != token:
                at += 1
                spelled += state["tokens"][at]
        tokens.append(spelled)
        offsets.append((state["offsets"][firsts[-1]][0], state["offsets"][at][1]))
        at += 1
    for name in ("type_ids", "words", "special_tokens_mask", "attention_mask"):
        state[name] = [state[name][first] for first in firsts]
    state |= {"ids": list(ids), "tokens": tokens, "offsets": offsets}
    return encoding_from(json.dumps(state).encode())
