"""Intervals by resampling queries: the labels of one query depend on each other, so they are drawn together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from neatrec.data.randomness import Seed, as_generator
from neatrec.errors import must_be

Floats = npt.NDArray[np.float64]

ROUNDS = 2_000
LEVEL = 0.95
BLOCK_WEIGHTS = 4_000_000
"""Resampling weights in memory at a time."""


def resampled_means(
    totals: Floats,
    sizes: npt.ArrayLike,
    *,
    rounds: int = ROUNDS,
    rng: Seed | None = 0,
    seed_rng: Seed | None = 0,
) -> Floats:
    """Means under `rounds` resamplings of the queries, shape (rounds, columns).

    `totals` (queries, columns) or (seeds, queries, columns) are sums over the labels of a query, `sizes` what they are
    divided by, (queries,) or (queries, columns): a mean is sum of totals over sum of sizes. Where a model was trained
    with several seeds, these are redrawn in each round too, from `seed_rng`. The queries drawn depend on `rng` and
    their number only, so that columns and calls can be compared pair by pair.
    """
    if rounds < 1:
        raise must_be("rounds", "at least 1", rounds)
    totals = np.asarray(totals, dtype=np.float64)
    by_seed = totals[None] if totals.ndim == 2 else totals  # (seeds, queries, columns)
    seeds, queries, columns = by_seed.shape
    sizes = np.asarray(sizes, dtype=np.float64)
    sizes = sizes[:, None] if sizes.ndim == 1 else sizes  # (queries, 1 or columns)
    draw_queries, draw_seeds = as_generator(rng), as_generator(seed_rng)
    out = np.empty((rounds, columns))
    for first, weights in _query_weights(draw_queries, queries, rounds):
        last = first + len(weights)
        share = _seed_shares(draw_seeds, seeds, len(weights))  # (block, seeds)
        summed = np.zeros((len(weights), columns))
        for seed in range(seeds):
            summed += share[:, seed, None] * (weights @ by_seed[seed])
        with np.errstate(invalid="ignore", divide="ignore"):
            out[first:last] = summed / (weights @ sizes)
    return out


def _query_weights(rng: np.random.Generator, queries: int, rounds: int) -> Iterator[tuple[int, Floats]]:
    """How often each query is drawn, in blocks of rounds, shape (block, queries)."""
    block = max(1, BLOCK_WEIGHTS // max(queries, 1))
    for first in range(0, rounds, block):
        size = min(block, rounds - first)
        drawn = rng.integers(0, max(queries, 1), size=(size, queries))
        drawn += np.arange(size)[:, None] * queries
        yield first, np.bincount(drawn.ravel(), minlength=size * queries).reshape(size, queries).astype(np.float64)


def _seed_shares(rng: np.random.Generator, seeds: int, rounds: int) -> Floats:
    """The share of each training seed in a round, shape (rounds, seeds)."""
    if seeds == 1:
        return np.ones((rounds, 1))
    drawn = rng.integers(0, seeds, size=(rounds, seeds))
    shares: Floats = (drawn[:, :, None] == np.arange(seeds)).mean(axis=1)
    return shares


def interval(resampled: Floats, level: float = LEVEL) -> tuple[Floats, Floats]:
    """The ends of the percentile interval of each column, each of shape (columns,).

    Rounds whose mean is undefined (a slice of which no query was drawn) are left out.
    """
    tail = (1.0 - level) / 2
    finite = np.isfinite(resampled)
    ends = np.full((2, resampled.shape[1]), np.nan)
    whole = finite.all(axis=0)
    ends[:, whole] = np.quantile(resampled[:, whole], [tail, 1.0 - tail], axis=0)
    for column in np.flatnonzero(finite.any(axis=0) & ~whole):
        ends[:, column] = np.quantile(resampled[finite[:, column], column], [tail, 1.0 - tail])
    return ends[0], ends[1]
