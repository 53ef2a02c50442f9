"""The expected likelihood of Gaussians, against scipy's density of their difference at zero."""

from __future__ import annotations

import numpy as np
from scipy import stats

from neatrec.models.embeddings.likelihood import GaussianTable

RNG = np.random.default_rng(0)
VECTORS = RNG.normal(size=(9, 4)).astype(np.float32)


def density(log_variance: np.ndarray, q: int, v: int) -> float:
    spread = np.exp(np.broadcast_to(log_variance.reshape(9, -1), (9, 4)).astype(np.float64))
    apart = VECTORS[q].astype(np.float64) - VECTORS[v]
    return float(stats.multivariate_normal(np.zeros(4), np.diag(spread[q] + spread[v])).logpdf(apart))


def test_pairs_have_the_density_of_their_difference_at_zero() -> None:
    log_variance = RNG.normal(size=9).astype(np.float32)
    queries, items = (RNG.integers(0, 9, 30).astype(np.int32) for _ in range(2))
    table = GaussianTable(VECTORS, log_variance)
    plain = [density(log_variance, q, v) for q, v in zip(queries, items, strict=True)]
    np.testing.assert_allclose(table.pairs(queries, items), plain, rtol=1e-9)
    assert table.pairs(queries[:0], items[:0]).shape == (0,)


def test_rows_are_the_pairs_of_a_query_with_every_item() -> None:
    log_variance = RNG.normal(size=9).astype(np.float32)
    queries = np.array([5, 0, 8, 1, 1, 2, 7, 3, 4], dtype=np.int32)  # enough for two threads
    rows = GaussianTable(VECTORS, log_variance).rows(queries)
    assert rows.shape == (9, 9)
    for row, q in zip(rows, queries, strict=True):
        np.testing.assert_allclose(row, [density(log_variance, q, v) for v in range(9)], rtol=1e-7)
