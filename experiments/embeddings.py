"""What training makes of embeddings: how evenly they lie, and how much they tell of frequency.

Rare tokens are trained less, and a model's embeddings show it: those of rare tokens crowd together, away from
the others. Lian et al. 2024 (arXiv:2404.17808, Figure 6) look at this for Scaffold-BPE.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

AT_MOST = 4_000  # rows of which all pairs are taken


def measured(weights: NDArray[Any], frequencies: NDArray[Any]) -> dict[str, float]:
    """Figures of the rows whose tokens occur.

    Args:
        weights: A row for each token.
        frequencies: How often each token occurs in all the text there is to train on; a model may have seen
            a part of it.
    Returns:
        uniformity: see `uniformity`; uniformity_rare: of the rarest fifth.
        frequency_r2: see `explained`.
        norm_by_frequency: Spearman's rank correlation of a row's length and its token's frequency.
    """
    occur = frequencies > 0
    rows, logs = weights[occur].astype(np.float64), np.log(frequencies[occur])
    rare = np.argsort(logs, kind="stable")[: max(2, len(logs) // 5)]
    return {
        "uniformity": uniformity(rows),
        "uniformity_rare": uniformity(rows[rare]),
        "frequency_r2": explained(rows, logs),
        "norm_by_frequency": float(spearmanr(np.linalg.norm(rows, axis=1), logs).statistic),
    }


def uniformity(rows: NDArray[Any]) -> float:
    """log mean exp(-2 |u - v|²) over pairs of different rows of unit length; lower is more uniform.

    Source: Wang and Isola 2020, "Understanding Contrastive Representation Learning" (arXiv:2005.10242).
    """
    if len(rows) > AT_MOST:
        rows = rows[np.random.default_rng(0).choice(len(rows), AT_MOST, replace=False)]
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    pairs = np.triu_indices(len(unit), 1)
    return float(np.log(np.mean(np.exp(4 * (unit @ unit.T)[pairs] - 4))))


def explained(rows: NDArray[Any], logs: NDArray[Any]) -> float:
    """How much of the variance of log-frequency a linear function explains, on rows it wasn't fit to.

    Each half of the rows is predicted from the other.
    """
    inputs = np.column_stack([rows, np.ones(len(rows))])
    halves = np.arange(len(rows)) % 2 == 0
    errors = np.empty(len(rows))
    for half in (halves, ~halves):
        weights, *_ = np.linalg.lstsq(inputs[~half], logs[~half], rcond=None)
        errors[half] = logs[half] - inputs[half] @ weights
    return float(1 - errors.var() / logs.var())
