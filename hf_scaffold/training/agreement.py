"""How far the plain BPE in tokenizer.json encodes as Scaffold-BPE does: measured, and estimated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hf_scaffold._core.pretoken_encoder import PretokenEncoder
from hf_scaffold._core.trainer import MergeLoop
from hf_scaffold.counting.counts import PreTokenCounts
from hf_scaffold.tables.sums import exact_sum
from hf_scaffold.text.symbols import NO_AFFIXES
from hf_scaffold.training.parts import Encoders

EncodedRows = tuple[NDArray[np.int32], NDArray[np.int64]]
Rows = NDArray[np.bool_]  # for each distinct pre-token

# Pre-tokens up to this many times as frequent as the rarest stand for those that other text brings: most are
# words of a single document. See docs/algorithm.md.
RARE = 3
_SAMPLE = 1 << 14  # of the rare pre-tokens
_SLICE = 1 << 20  # bytes encoded at a time
_MAX_COUNT = 2**63 - 1

# Of a token: what both models make of it, as part of any pre-token. Of several the largest counts.
_ALIKE, _UNKNOWN, _UNLIKE = range(3)


def percent_down(share: float) -> str:
    """A share as percent, never rounded up to 100 %, which would be a promise.

    Example:
        >>> percent_down(0.99956), percent_down(0.99999), percent_down(1.0)
        ('99.95 %', '99.99 %', '100 %')
    """
    return "100 %" if share == 1 else f"{int(share * 10_000) / 100:.2f} %"


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


# ---- on any text


def measure(bpe: Encoders, counts: PreTokenCounts, trained: Trained | None = None) -> Agreement:
    """The agreement on any counts; what other text may bring is not estimated.

    Args:
        trained: What was just trained on them, and has encoded them. The result is the same without.
    """
    total = counts.total
    exact = None if trained is None else trained.encoded()
    return Agreement(*(_occurrences(counts, rows) / total for rows in _agreeing(bpe, counts, exact)))


def _agreeing(bpe: Encoders, counts: PreTokenCounts, exact: EncodedRows | None = None) -> tuple[Rows, Rows]:
    """Which pre-tokens are encoded alike, and which also where the engine merges every pre-token.

    Args:
        exact: What `encode` makes of all, if that is known.
    """
    if bpe.merges_as_raw_model:
        agrees_by_merges = np.ones(len(counts), bool)
        agrees = agrees_by_merges.copy()
        agrees[[row for whole in _unlike_wholes(bpe) if (row := counts.row_of(whole)) >= 0]] = False
        return agrees, agrees_by_merges
    encoders = [bpe.raw_pretoken_encoder] if exact else [bpe.pretoken_encoder, bpe.raw_pretoken_encoder]
    *found, raw = _encode_all(encoders, counts)
    exact = exact or found[0]
    agrees = rows_alike(exact, raw)
    # Only a pre-token that is a single token can have been taken whole.
    single = np.flatnonzero(np.diff(raw[1]) == 1)
    by_merges = bpe.raw_merging_pretoken_encoder().encode(*_texts(counts, single))
    agrees_by_merges = agrees.copy()
    agrees_by_merges[single] = rows_alike(_of_rows(exact, single), by_merges)
    return agrees, agrees_by_merges


def _unlike_wholes(bpe: Encoders) -> Iterator[bytes]:
    """Pre-tokens that are taken whole, but merged to something else."""
    wholes = [*bpe.raw_wholes]
    ids, ends = bpe.pretoken_encoder.encode(b"".join(wholes), np.cumsum([0, *map(len, wholes)]))
    expected = np.fromiter(bpe.raw_wholes.values(), np.int32, len(wholes))
    alike = rows_alike((ids, ends), (expected, np.arange(len(wholes) + 1)))
    return (wholes[i] for i in np.flatnonzero(~alike))


def _encode_all(
    encoders: Iterable[PretokenEncoder], counts: PreTokenCounts, rows: Rows | None = None
) -> list[EncodedRows]:
    data, offsets = (counts.data, counts.offsets) if rows is None else _texts(counts, np.flatnonzero(rows))
    parts = _slices(data, offsets)
    pool = ThreadPoolExecutor(2)
    try:
        running = [[pool.submit(encoder.encode, *part) for part in parts] for encoder in encoders]
        return [_joined([part.result() for part in encoded]) for encoded in running]
    finally:
        pool.shutdown(cancel_futures=True)  # Ctrl-C waits for the slices at work alone


def _slices(data: bytes, offsets: NDArray[np.int64]) -> list[tuple[memoryview, NDArray[np.int64]]]:
    """The pre-tokens in slices of about _SLICE bytes, each with offsets of its own."""
    view = memoryview(data)
    return [
        (view[offsets[begin] : offsets[end]], offsets[begin : end + 1] - offsets[begin])
        for begin, end in pairwise(_cuts(data, offsets))
    ]


def _cuts(data: bytes, offsets: NDArray[np.int64]) -> list[int]:
    """The first pre-token of each slice, and the number of all."""
    cuts = np.searchsorted(offsets, np.arange(_SLICE, len(data), _SLICE), side="right") - 1
    bounds: list[int] = np.unique([0, *cuts.tolist(), len(offsets) - 1]).tolist()
    return bounds


# ---- on the text that was trained on


class Trained:
    """The pre-tokens that a loop was trained on, which its cells hold as the exact encoder would encode them.

    So only the raw-safe model has to encode them, and only a few. Take a token that is made without
    scaffolds, all the way from symbols. Both models have the rules for that, and none of the raw-safe model's
    other rules applies on the way: a split is of two tokens that are never neighbours there, since a string
    between two boundaries is always split alike (docs/algorithm.md). So both encode alike what consists of
    such tokens.

    In what doesn't, single tokens tell most. Merges in one place don't change those in another. So what the
    raw-safe model leaves as certain tokens, it also leaves as these by itself: a token that it splits by
    itself is split everywhere.

    Args:
        bpe: What was learned.
        counts: The pre-tokens.
        loop: All their symbols are in it, and no two sequences of symbols spell the same string.
        hidden: The tokens without an id, by creation id: the loop's scaffolds, or what was trimmed since.
    """

    def __init__(self, bpe: Encoders, counts: PreTokenCounts, loop: MergeLoop, hidden: Rows) -> None:
        self.bpe, self.counts, self.loop = bpe, counts, loop
        n_hidden = np.cumsum(hidden)
        n_normal = np.arange(len(hidden)) - n_hidden
        self.id_of = np.where(hidden, bpe.vocab_size - 1 + n_hidden, n_normal).astype(np.int32)
        self.states = np.empty(len(hidden), np.uint8)  # by id
        self.states[self.id_of] = np.where(loop.made_without(hidden), _ALIKE, _UNKNOWN)
        parts = [bpe.demolish_map[token] for token in bpe.scaffold_tokens]
        lengths = [*map(len, parts)]
        self.n_parts = np.array([1] * bpe.vocab_size + lengths)
        self.parts = np.fromiter(
            chain(range(bpe.vocab_size), map(bpe.vocab.__getitem__, chain.from_iterable(parts))), np.int32
        )
        self.first_part = np.cumsum(self.n_parts) - self.n_parts

    def encoded(self) -> EncodedRows:
        """What the loop has made of the pre-tokens, where nothing is left to demolish."""
        made, ends = self.loop.encoded(np.arange(len(self.counts)))
        return self.id_of[made], ends

    def agreeing(self) -> tuple[Rows, Rows]:
        """Which pre-tokens are encoded alike, and which also where the engine merges every pre-token."""
        raw = self.bpe.raw_merging_pretoken_encoder()
        states = self._states_by_text(raw)
        bounds = pairwise(_cuts(self.counts.data, self.counts.offsets))
        found = [self._compare(np.arange(*part), raw, states) for part in bounds]
        alike, is_token = map(np.concatenate, zip(*found, strict=True))
        return self._with_wholes(np.arange(len(alike)), alike, is_token), alike

    def agreeing_without_last_rules(self, rows: NDArray[np.int64], n_rules: int) -> Rows:
        """Which of these pre-tokens are encoded alike by `encoders_without_last_rules`."""
        raw = self.bpe.raw_merging_pretoken_encoder(n_rules)
        return self._with_wholes(rows, *self._compare(rows, raw, self.states, n_rules))

    def _compare(
        self,
        rows: NDArray[np.int64],
        raw: PretokenEncoder,
        states: NDArray[np.uint8],
        n_rules: int = _MAX_COUNT,
    ) -> tuple[Rows, Rows]:
        """Which pre-tokens are alike if both are merged, and which are a single normal token."""
        made, ends = self.loop.encoded(rows, n_rules)
        state = np.maximum.reduceat(states[self.id_of][made], ends[:-1])
        alike: Rows = state == _ALIKE
        unknown = np.flatnonzero(state == _UNKNOWN)
        tokens, token_ends = _of_rows((made, ends), unknown)
        exact = self._demolished((self.id_of[tokens], token_ends))
        alike[unknown] = rows_alike(exact, raw.encode(*_texts(self.counts, rows[unknown]), prepare=False))
        return alike, (np.diff(ends) == 1) & (self.id_of[made[ends[:-1]]] < self.bpe.vocab_size)

    def _with_wholes(self, rows: NDArray[np.int64], alike: Rows, is_token: Rows) -> Rows:
        """Which agree where the engine takes tokens whole: these, too, but no special token."""
        if not self.bpe.affixes.takes_wholes:
            return alike
        found: Rows = alike | is_token
        found[np.isin(rows, [self.counts.row_of(text) for text in self.bpe.texts_of_fixed_tokens])] = False
        return found

    def _states_by_text(self, raw: PretokenEncoder) -> NDArray[np.uint8]:
        """The states, with tokens that the raw-safe model makes something else of by themselves."""
        states, unknown = self.states.copy(), np.flatnonzero(self.states == _UNKNOWN)
        if self.bpe.affixes == NO_AFFIXES:  # else a token's text may not be what it is elsewhere
            texts = self.bpe.texts_of(unknown)
            exact = self._demolished((unknown.astype(np.int32), np.arange(len(unknown) + 1)))
            encoded = raw.encode(b"".join(texts), np.cumsum([0, *map(len, texts)]), prepare=False)
            states[unknown[~rows_alike(exact, encoded)]] = _UNLIKE
        return states

    def _demolished(self, encoded: EncodedRows) -> EncodedRows:
        ids, ends = encoded
        n_parts = self.n_parts[ids]
        parts = self.parts[_places(self.first_part[ids], n_parts)]
        return parts, np.concatenate([[0], np.cumsum(n_parts)])[ends]


def measure_training_text(
    bpe: Encoders, counts: PreTokenCounts, frequencies: Mapping[str, int], trained: Trained | None = None
) -> Agreement:
    """The agreement on the counts that were trained on, with the estimate for other text.

    Args:
        frequencies: How often each token occurs in the text once all merges are done.
        trained: What the loop knows of them. The result is the same without, in several times the time.
    """
    total = counts.total
    agrees, agrees_by_merges = _agreeing(bpe, counts) if trained is None else trained.agreeing()
    return Agreement(
        measured=_occurrences(counts, agrees) / total,
        merges_only=_occurrences(counts, agrees_by_merges) / total,
        unseen=_estimate(bpe, counts, frequencies, agrees, trained),
    )


def _estimate(
    bpe: Encoders,
    counts: PreTokenCounts,
    frequencies: Mapping[str, int],
    agrees: Rows,
    trained: Trained | None,
) -> float:
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
    n_rare, n_others = _occurrences(counts, rare), _occurrences(counts, agrees & ~rare)
    n_sampled = _occurrences(counts, sample)
    if trained is None:
        encoders = bpe.encoders_without_last_rules(n_rules)
        sample[sample] = rows_alike(*_encode_all(encoders, counts, sample))
    else:
        sample[sample] = trained.agreeing_without_last_rules(np.flatnonzero(sample), n_rules)
    # Whole numbers up to the division, so that full agreement is exactly 1.
    return (n_others * n_sampled + n_rare * _occurrences(counts, sample)) / (counts.total * n_sampled)


def _n_rules_without(bpe: Encoders, frequencies: Mapping[str, int], n: int) -> int:
    """How many rules come before the first whose pair doesn't occur n times more than the last one's.

    A pair counts as often as its token occurs in the end, alone and in tokens that later rules made of it.
    """
    occurrences = [*map(frequencies.__getitem__, bpe.vocab)]
    first, needed = 0, None
    backwards = (np.ascontiguousarray(column[::-1]).data for column in bpe.rules.T)
    for rank, left, right, token in zip(reversed(range(len(bpe.rules))), *backwards, strict=True):
        made = occurrences[token]
        if needed is None:
            needed = made + n
        if made < needed:
            first = rank
        occurrences[left] += made
        occurrences[right] += made
    return first


# ---- arrays


def _joined(parts: list[EncodedRows]) -> EncodedRows:
    if not parts:
        return np.zeros(0, np.int32), np.zeros(1, np.int64)
    starts = np.cumsum([0, *(len(ids) for ids, _ in parts)])
    ends = [ends[1:] + start for (_, ends), start in zip(parts, starts, strict=False)]
    return np.concatenate([ids for ids, _ in parts]), np.concatenate([[0], *ends]).astype(np.int64)


def _texts(counts: PreTokenCounts, rows: NDArray[np.int64]) -> tuple[bytes, NDArray[np.int64]]:
    """Some of the pre-tokens, joined, and their offsets."""
    data, ends = _of_rows((np.frombuffer(counts.data, np.uint8), counts.offsets), rows)
    return data.tobytes(), ends


def _of_rows(
    arrays: tuple[NDArray[Any], NDArray[np.int64]], rows: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Some of several stretches of an array, one after another, and their offsets."""
    values, ends = arrays
    lengths = ends[rows + 1] - ends[rows]
    return values[_places(ends[rows], lengths)], np.concatenate([[0], np.cumsum(lengths)])


def _places(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places of several stretches, one after another."""
    ends = np.cumsum(lengths)
    places: NDArray[np.int64] = np.arange(ends[-1] if len(ends) else 0)
    places += np.repeat(starts - (ends - lengths), lengths)
    return places


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
    """How often these pre-tokens occur."""
    return exact_sum(counts.counts[rows])
