"""How far the plain BPE in tokenizer.json encodes as Scaffold-BPE does: measured, and estimated."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hf_scaffold._core.pretoken_encoder import PretokenEncoder
from hf_scaffold.counting.counts import PreTokenCounts
from hf_scaffold.training.parts import Encoders

EncodedRows = tuple[NDArray[np.int32], NDArray[np.int64]]
Rows = NDArray[np.bool_]  # for each distinct pre-token

# Pre-tokens up to this many times as frequent as the rarest stand for those that other text brings: most are
# words of a single document. See docs/algorithm.md.
RARE = 3
_SAMPLE = 1 << 14  # of the rare pre-tokens
_SLICE = 1 << 20  # bytes encoded at a time
_MAX_COUNT = 2**63 - 1


class Agreement(NamedTuple):
    """Shares of pre-tokens, weighted by counts, that `raw_model` encodes as `encode` does.

    Args:
        measured: On the counts at hand.
        merges_only: The same of an engine that merges every pre-token, as it doesn't know `ignore_merges`.
        unseen: Of text like the counted one that was not trained on: an estimate.
    """

    measured: float
    merges_only: float
    unseen: float | None = None


def measure(bpe: Encoders, counts: PreTokenCounts) -> Agreement:
    """The agreement on any counts; what other text may bring is not estimated."""
    total = counts.total
    return Agreement(*(_occurrences(counts, rows) / total for rows in _agreeing(bpe, counts)))


def measure_training_text(bpe: Encoders, counts: PreTokenCounts, frequencies: Mapping[str, int]) -> Agreement:
    """The agreement on the counts that were trained on, with the estimate for other text.

    Args:
        frequencies: How often each token occurs in the text once all merges are done.
    """
    total, (agrees, agrees_by_merges) = counts.total, _agreeing(bpe, counts)
    return Agreement(
        measured=_occurrences(counts, agrees) / total,
        merges_only=_occurrences(counts, agrees_by_merges) / total,
        unseen=_estimate(bpe, counts, frequencies, agrees),
    )


def _estimate(bpe: Encoders, counts: PreTokenCounts, frequencies: Mapping[str, int], agrees: Rows) -> float:
    """The agreement on text that was not trained on.

    Other text brings pre-tokens of its own. They are like the rare ones here, but no rule was learned from
    them. So rare pre-tokens are encoded without the last rules: those that would not have been learned had
    the pre-token been missing. All others count as measured.

    Cost: of the rare pre-tokens some 16,000 are encoded, evenly spaced in their order.
    """
    least = int(counts.counts.min())
    rare = counts.counts <= min(RARE * least, _MAX_COUNT)
    n_rules = _n_rules_without(bpe, frequencies, RARE * least)
    sample = np.zeros(len(counts), bool)
    sample[np.flatnonzero(rare)[:: -(-np.count_nonzero(rare) // _SAMPLE)]] = True
    alike = rows_alike(*_encode_both(*bpe.encoders_without_last_rules(n_rules), counts, sample))
    n_rare, n_others = _occurrences(counts, rare), _occurrences(counts, agrees & ~rare)
    n_sampled = _occurrences(counts, sample)
    sample[sample] = alike
    # Whole numbers up to the division, so that full agreement is exactly 1.
    return (n_others * n_sampled + n_rare * _occurrences(counts, sample)) / (counts.total * n_sampled)


def _agreeing(bpe: Encoders, counts: PreTokenCounts) -> tuple[Rows, Rows]:
    """Which pre-tokens are encoded alike, and which also where the engine merges every pre-token."""
    exact, raw = _encode_both(bpe.pretoken_encoder, bpe.raw_pretoken_encoder, counts)
    agrees = rows_alike(exact, raw)
    # Only a pre-token that is a single token can have been taken whole.
    single = np.diff(raw[1]) == 1
    by_merges = bpe.raw_merging_pretoken_encoder().encode(*_rows(counts, single))
    agrees_by_merges = agrees.copy()
    agrees_by_merges[single] = rows_alike(_of_rows(exact, single), by_merges)
    return agrees, agrees_by_merges


def _encode_both(
    exact: PretokenEncoder, raw: PretokenEncoder, counts: PreTokenCounts, rows: Rows | None = None
) -> tuple[EncodedRows, EncodedRows]:
    data, offsets = (counts.data, counts.offsets) if rows is None else _rows(counts, rows)
    parts = _slices(data, offsets)
    pool = ThreadPoolExecutor(2)
    try:
        running = [[pool.submit(encoder.encode, *part) for part in parts] for encoder in (exact, raw)]
        first, second = ([part.result() for part in encoded] for encoded in running)
    finally:
        pool.shutdown(cancel_futures=True)  # Ctrl-C waits for the slices at work alone
    return _joined(first), _joined(second)


def _slices(data: bytes, offsets: NDArray[np.int64]) -> list[tuple[memoryview, NDArray[np.int64]]]:
    """The pre-tokens in slices of about _SLICE bytes, each with offsets of its own."""
    cuts = np.searchsorted(offsets, np.arange(_SLICE, len(data), _SLICE), side="right") - 1
    bounds = np.unique([0, *cuts.tolist(), len(offsets) - 1]).tolist()
    view = memoryview(data)
    return [
        (view[offsets[begin] : offsets[end]], offsets[begin : end + 1] - offsets[begin])
        for begin, end in pairwise(bounds)
    ]


def _joined(parts: list[EncodedRows]) -> EncodedRows:
    if not parts:
        return np.zeros(0, np.int32), np.zeros(1, np.int64)
    starts = np.cumsum([0, *(len(ids) for ids, _ in parts)])
    ends = [ends[1:] + start for (_, ends), start in zip(parts, starts, strict=False)]
    return np.concatenate([ids for ids, _ in parts]), np.concatenate([[0], *ends]).astype(np.int64)


def _rows(counts: PreTokenCounts, rows: Rows) -> tuple[bytes, NDArray[np.int64]]:
    """Some of the pre-tokens, joined, and their offsets."""
    lengths = np.diff(counts.offsets)
    data = np.frombuffer(counts.data, np.uint8)[np.repeat(rows, lengths)]
    return data.tobytes(), np.concatenate([[0], np.cumsum(lengths[rows])]).astype(np.int64)


def _of_rows(encoded: EncodedRows, rows: Rows) -> EncodedRows:
    ids, ends = encoded
    lengths = np.diff(ends)
    return ids[np.repeat(rows, lengths)], np.concatenate([[0], np.cumsum(lengths[rows])]).astype(np.int64)


def rows_alike(first: EncodedRows, second: EncodedRows) -> Rows:
    """Which pre-tokens have the same ids in both of two encodings, as `PretokenEncoder` gives them."""
    (ids, ends), (other_ids, other_ends) = first, second
    lengths, other_lengths = np.diff(ends), np.diff(other_ends)
    alike: Rows = lengths == other_lengths
    differs = ids[np.repeat(alike, lengths)] != other_ids[np.repeat(alike, other_lengths)]
    row_of = np.repeat(np.flatnonzero(alike), lengths[alike])
    alike[row_of[differs]] = False
    return alike


def _occurrences(counts: PreTokenCounts, rows: Rows) -> int:
    """How often these pre-tokens occur: summed in two halves, which can't overflow."""
    high, low = counts.counts[rows] >> 32, counts.counts[rows] & 0xFFFFFFFF
    return (int(high.sum()) << 32) + int(low.sum())


def _n_rules_without(bpe: Encoders, frequencies: Mapping[str, int], n: int) -> int:
    """How many rules come before the first whose pair doesn't occur n times more than the last one's.

    A pair counts as often as its token occurs in the end, alone and in tokens that later rules made of it.
    """
    rules = bpe.rules.tolist()
    occurrences = [frequencies[token] for token in bpe.vocab]
    first, needed = 0, None
    for rank in reversed(range(len(rules))):
        left, right, token = rules[rank]
        made = occurrences[token]
        if needed is None:
            needed = made + n
        if made < needed:
            first = rank
        occurrences[left] += made
        occurrences[right] += made
    return first
