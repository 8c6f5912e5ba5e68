"""Figures 1, 2 and 5 of Lian et al. 2024, drawn from any text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from hf_scaffold.evaluation.comparison import Standalone, VocabularyChange
from hf_scaffold.evaluation.inspection import readable
from hf_scaffold.evaluation.metrics import Evaluation
from hf_scaffold.report.svg import Bar, Figure, bar_chart, line_chart

CURVE_POINTS = 200


def figure_standalone(groups: Mapping[str, Sequence[Standalone]]) -> Figure:
    """A bar for each token: the share of its bytes' occurrences in which it stands alone.

    Args:
        groups: The name of each group of tokens, to what `standalone_share` gave.
    Example:
        >>> from hf_scaffold import Standalone
        >>> figure = figure_standalone({"scaffold tokens": [Standalone("zona", 0, 50)]})
        >>> figure.description
        'zona stands alone in 0.0 %, 0 of 50 occurrences'

    Source: Lian et al. 2024, Figure 1: "zona", as in "Arizona", against "ing".
    """
    bars = {
        name: [Bar(readable(row.token), row.share, _share_of(row), series) for row in rows]
        for series, (name, rows) in enumerate(groups.items())
    }
    described = "; ".join(
        f"{readable(row.token)} stands alone in {_share_of(row)} occurrences"
        for rows in groups.values()
        for row in rows
    )
    return bar_chart("Share of occurrences in which a token stands alone", described, bars, largest=1)


def _share_of(row: Standalone) -> str:
    return f"{100 * row.share:.1f} %, {row.alone:,} of {row.occurrences:,}"


def figure_frequencies(evaluations: Iterable[Evaluation], *, tail: float = 1) -> Figure:
    """A line for each tokenizer: how often its tokens occur, the most frequent first.

    Args:
        evaluations: On the same text. The first is drawn on top.
        tail: The share of each vocabulary to draw: 0.1 for the rarest tenth.
    Example:
        >>> evaluation = Evaluation("toy", ("a", "b", "c"), np.array([2, 9, 0]), n_bytes=11)
        >>> figure_frequencies([evaluation]).description
        'toy: the median token occurs 2 times, at 95 % of the vocabulary 0'

    Source: Lian et al. 2024, Figure 2.
    """
    evaluations = list(evaluations)
    curves = {
        evaluation.name: [(rank, n) for rank, n in frequency_curve(evaluation, tail=tail) if n]
        for evaluation in evaluations
    }
    described = "; ".join(
        f"{evaluation.name}: the median token occurs {evaluation.frequency_percentile(50):,} times, "
        f"at 95 % of the vocabulary {evaluation.frequency_percentile(95):,}"
        for evaluation in evaluations
    )
    title = "Frequency of each token, the most frequent first"
    if tail < 1:
        title = f"The same, of the rarest {100 * tail:g} % of each vocabulary"
    return line_chart(title, described, curves, "tokens, the most frequent first", "occurrences")


def frequency_curve(
    evaluation: Evaluation, n_points: int = CURVE_POINTS, *, tail: float = 1
) -> list[tuple[int, int]]:
    """Ranks from 1 on with their frequencies: about n_points, denser at the start, with the first and last.

    Args:
        tail: The share of the vocabulary at its end that they are of.
    Example:
        >>> evaluation = Evaluation("toy", ("a", "b", "c"), np.array([2, 9, 0]), n_bytes=11)
        >>> frequency_curve(evaluation), frequency_curve(evaluation, tail=0.5)
        ([(1, 9), (2, 2), (3, 0)], [(2, 2), (3, 0)])
    """
    frequencies = evaluation.sorted_frequencies
    n, used = len(frequencies), evaluation.vocab_used
    first = max(1, n - round(n * tail) + 1)
    ranks = {
        *np.geomspace(first, max(first, n), n_points // 2).astype(int).tolist(),
        *np.linspace(first, max(first, n), n_points // 2).astype(int).tolist(),
        first,
        n,
        *(rank for rank in (used, used + 1) if rank >= first),
    }
    return [(rank, int(frequencies[rank - 1])) for rank in sorted(ranks) if 1 <= rank <= n]


def figure_gain(changes: Mapping[str, VocabularyChange]) -> Figure:
    """Mean frequency of the tokens removed from a vocabulary, and of those added in their place.

    Args:
        changes: A name, such as a vocabulary size, or "", to what `compare_vocabularies` gave.
    Example:
        >>> import hf_scaffold as hs
        >>> counts = hs.PreTokenCounts.from_mapping({b"hug": 10, b"pug": 5, b"hugs": 5, b"on": 7})
        >>> plain, scaffold = (hs.train(counts, vocab_size=258, scaffold=kind) for kind in (False, True))
        >>> figure_gain({"": hs.compare_vocabularies(plain, scaffold, counts)}).description
        '1 removed, 5.0 occurrences on average; 1 added, 7.0 (+40.0 %)'

    Source: Lian et al. 2024, Figure 5.
    """
    groups, described = {}, []
    for name, change in changes.items():
        gain = "" if change.gain is None else f" ({100 * change.gain:+.1f} %)"
        added = f"{change.mean_added:,.1f}{gain}"
        groups[name] = [
            Bar(f"{len(change.removed):,} removed", change.mean_removed, f"{change.mean_removed:,.1f}", 1),
            Bar(f"{len(change.added):,} added", change.mean_added, added, 0),
        ]
        before = f"{len(change.removed):,} removed, {change.mean_removed:,.1f} occurrences on average; "
        described.append((f"{name}: " if name else "") + before + f"{len(change.added):,} added, {added}")
    title = "Mean frequency of removed tokens and of added ones"
    return bar_chart(title, "; ".join(described), groups)
