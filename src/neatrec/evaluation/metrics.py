"""Hit rate, NDCG and reciprocal rank of label records, and the best values for a candidate set.

A label record is one pair (query, item). A model ranks it by two counts: `higher`, the candidates
of the query with a higher score than the item, and `equal`, those with the same score, including
the item. The rank is any of higher + 1 … higher + equal with the same probability, and a metric is
its mean over them: no tie favours a model. `equal` = 0: the item is no candidate, a miss that stays
in the denominator.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

KS = (1, 3, 5, 10, 20)
"""The reported list lengths."""
TOP = max(KS)
"""Number of answers that are kept for each query."""
METRICS = (*(f"hr@{k}" for k in KS), *(f"ndcg@{k}" for k in KS), "mrr")
"""The columns of `metric_values`."""

Counts = npt.NDArray[np.integer[Any]]
Floats = npt.NDArray[np.float64]


def hit_rate(higher: Counts, equal: Counts, k: int) -> Floats:
    """The probability that each item is among the first k: clip((k - higher) / equal, 0, 1).

    >>> hit_rate(np.array([0, 9, 9, 0]), np.array([1, 1, 2, 0]), 10).tolist()
    [1.0, 1.0, 0.5, 0.0]
    """
    return np.where(equal > 0, np.clip((k - higher) / np.maximum(equal, 1), 0.0, 1.0), 0.0)


def ndcg(higher: Counts, equal: Counts, k: int) -> Floats:
    """The mean over each item's possible ranks of 1 / log2(1 + rank), 0 beyond k.

    >>> ndcg(np.array([0, 2, 10]), np.array([1, 1, 1]), 10).tolist()
    [1.0, 0.5, 0.0]
    """
    gain = np.append(1.0 / np.log2(1.0 + np.arange(1, k + 1)), 0.0)  # of ranks 1 … k and beyond
    below = np.concatenate([[0.0], np.cumsum(gain[:-1])])  # (k + 1,): gains of the ranks up to r
    first, last = np.minimum(higher, k), np.minimum(higher + equal, k)
    tied = (below[last] - below[first]) / np.maximum(equal, 1)
    # exact without ties, the usual case
    return np.where(equal == 1, gain[first], tied)


def reciprocal_rank(higher: Counts, equal: Counts) -> Floats:
    """The mean over each item's possible ranks of 1 / rank; 0 for a miss.

    >>> reciprocal_rank(np.array([0, 3, 0, 0]), np.array([1, 1, 2, 0])).tolist()
    [1.0, 0.25, 0.75, 0.0]
    """
    out = 1.0 / (higher.astype(np.float64) + 1.0)
    tied = np.flatnonzero(equal != 1)
    first, last = higher[tied], higher[tied] + equal[tied]
    harmonic = np.cumsum(1.0 / np.arange(1, int(last.max(initial=0)) + 1))
    below = np.concatenate([[0.0], harmonic])  # (deepest rank + 1,)
    out[tied] = (below[last] - below[first]) / np.maximum(equal[tied], 1)
    return out


def metric_values(higher: Counts, equal: Counts) -> Floats:
    """All metrics of each label record, shape (labels, metrics)."""
    columns = [metric(higher, equal, k) for metric in (hit_rate, ndcg) for k in KS]
    return np.stack([*columns, reciprocal_rank(higher, equal)], axis=1)


def ceiling(row: Counts, is_candidate: npt.NDArray[np.bool_]) -> dict[int, float]:
    """The hit rate of a perfect ranking: sum over queries of min(candidate labels, k) / labels.

    `row` is a number of the query of each label record.

    >>> ceiling(np.array([0, 0, 0, 1]), np.array([True, True, True, False]))[1]
    0.25
    """
    reachable = np.bincount(row[is_candidate], minlength=1)
    return {k: float(np.minimum(reachable, k).sum() / max(len(row), 1)) for k in KS}
