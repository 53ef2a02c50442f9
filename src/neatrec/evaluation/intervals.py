"""95 % intervals of means over label records, which share items, and by resampling what is independent; paired tests.

Label records are pairs of items. Two records that share an item depend on each other, whichever end it is, and where
pairs have no direction (q, v) and (v, q) are one observation. The variance of a mean is therefore that of dyads: a
jackknife over items, less a jackknife over pairs, which the first counts at both ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse, special

from neatrec.data.randomness import Seed, as_generator
from neatrec.errors import must_be

Floats = npt.NDArray[np.float64]

ROUNDS = 2_000
LEVEL = 0.95
BLOCK_WEIGHTS = 4_000_000
"""Resampling weights in memory at a time."""
PSEUDO_PAIRS = 0.5
"""Pairs of unknown outcome that are added to what was seen, as in Jeffreys' interval: no dozen hits prove 100 %."""


@dataclass(frozen=True)
class Influence:
    """How far a mean moves when an item, or a pair, is left out; two means of the same records can be subtracted."""

    items: Floats
    """shape (items, columns), or (items,)"""
    pairs: Floats
    """shape (pairs, columns), or (pairs,)"""

    def __sub__(self, other: Influence) -> Influence:
        return Influence(self.items - other.items, self.pairs - other.pairs)

    def column(self, number: int) -> Influence:
        return Influence(self.items[:, number], self.pairs[:, number])

    @property
    def variance(self) -> Floats:
        """The variance of the mean, shape (columns,); not below that of independent pairs."""
        of_pairs = (self.pairs**2).sum(axis=0)
        variance: Floats = np.maximum((self.items**2).sum(axis=0) - of_pairs, of_pairs)
        return variance


@dataclass(frozen=True)
class Dyads:
    """Label records as pairs of items without a direction."""

    of_item: sparse.csr_array
    """Which records hold an item, shape (items, labels)."""
    of_pair: sparse.csr_array
    """Which records are of a pair, shape (pairs, labels)."""

    @classmethod
    def from_pairs(cls, query: npt.ArrayLike, item: npt.ArrayLike) -> Dyads:
        """The dyads of label records, in any order.

        >>> Dyads.from_pairs([1, 2, 3], [2, 1, 1]).of_pair.shape
        (2, 3)
        """
        ends = np.stack(
            [np.asarray(query, dtype=np.int64), np.asarray(item, dtype=np.int64)]
        )  # (2, labels)
        codes, place = np.unique(ends, return_inverse=True)
        place = place.reshape(ends.shape)
        _, pair = np.unique(place.min(axis=0) * len(codes) + place.max(axis=0), return_inverse=True)
        record = np.arange(ends.shape[1])
        return cls(_indicators(place.ravel(), np.append(record, record)), _indicators(pair, record))

    @property
    def pairs(self) -> int:
        return int(self.of_pair.shape[0])

    @property
    def independent_pairs(self) -> float:
        """How many independent pairs would say as much if all records of an item had one outcome."""
        of_item, of_pair = np.diff(self.of_item.indptr), np.diff(self.of_pair.indptr)
        labels = self.of_pair.shape[1]
        return float(labels**2 / max((of_item**2).sum() - (of_pair**2).sum(), 1))

    def influence(self, values: Floats) -> Influence:
        """Of the means of `values`, shape (labels, columns)."""
        labels = len(values)
        residuals = values - values.mean(axis=0) if labels else values
        moved = []
        for records in (self.of_item, self.of_pair):
            others = np.maximum(labels - np.diff(records.indptr), 1)
            moved.append((records @ residuals) / others[:, None])
        return Influence(*moved)

    def share_interval(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        """The ends of the intervals of means between 0 and 1: Wilson's, for as many pairs as `variance` amounts to."""
        if not self.pairs:
            return np.full_like(mean, np.nan), np.full_like(mean, np.nan)
        added = PSEUDO_PAIRS / self.pairs
        size = (mean * (1 - mean) + added) / (variance + added / self.independent_pairs)
        z = _quantile()
        middle, width = (
            mean + z**2 / (2 * size),
            z * np.sqrt(mean * (1 - mean) / size + z**2 / (4 * size**2)),
        )
        shrink = 1 + z**2 / size
        return np.maximum((middle - width) / shrink, 0.0), np.minimum(
            (middle + width) / shrink, 1.0
        )

    def paired_error(self, variance: Floats) -> Floats:
        """The standard errors of differences of two means, from the variance of their influence."""
        error: Floats = np.sqrt(
            variance + PSEUDO_PAIRS / max(self.pairs, 1) / self.independent_pairs
        )
        return error

    @staticmethod
    def paired_interval(difference: Floats, error: Floats) -> tuple[Floats, Floats]:
        """The ends of the intervals of differences between -1 and 1."""
        width = _quantile() * error
        return np.maximum(difference - width, -1.0), np.minimum(difference + width, 1.0)


def _indicators(row: npt.NDArray[np.int64], column: npt.NDArray[np.int64]) -> sparse.csr_array:
    shape = (int(row.max(initial=-1)) + 1, int(column.max(initial=-1)) + 1)
    return sparse.csr_array((np.ones(len(row)), (row, column)), shape=shape)


def _quantile() -> float:
    return float(special.ndtri(0.5 + LEVEL / 2))


def resampled_means(
    totals: Floats, sizes: npt.ArrayLike, *, rounds: int = ROUNDS, rng: Seed | None = 0
) -> Floats:
    """Means under `rounds` resamplings of independent units (carts, queries), shape (rounds, columns).

    `totals` (units, columns) are sums over a unit, `sizes` what they are divided by, (units,) or (units, columns): a
    mean is sum of totals over sum of sizes. The units drawn depend on `rng` and their number only, so that columns and
    calls can be compared pair by pair.
    """
    if rounds < 1:
        raise must_be("rounds", "at least 1", rounds)
    totals, sizes = np.asarray(totals, dtype=np.float64), np.asarray(sizes, dtype=np.float64)
    sizes = sizes[:, None] if sizes.ndim == 1 else sizes  # (units, 1 or columns)
    out = np.empty((rounds, totals.shape[1]))
    for first, weights in _unit_weights(as_generator(rng), len(totals), rounds):
        with np.errstate(invalid="ignore", divide="ignore"):
            out[first : first + len(weights)] = (weights @ totals) / (weights @ sizes)
    return out


def pooled_ratios(
    totals: Floats, sizes: Floats, *, rounds: int = ROUNDS, rng: Seed | None = 0
) -> list[tuple[float, float, float]]:
    """Of each column the sum of totals over the sum of sizes, and the ends of its interval; see `resampled_means`."""
    ends = interval(resampled_means(totals, sizes, rounds=rounds, rng=rng))
    below = sizes.sum(axis=0)
    mean = np.divide(totals.sum(axis=0), below, out=np.full(len(below), np.nan), where=below > 0)
    return list(zip(mean.tolist(), *(end.tolist() for end in ends), strict=True))


def _unit_weights(
    rng: np.random.Generator, units: int, rounds: int
) -> Iterator[tuple[int, Floats]]:
    """How often each unit is drawn, in blocks of rounds, shape (block, units)."""
    block = max(1, BLOCK_WEIGHTS // max(units, 1))
    for first in range(0, rounds, block):
        size = min(block, rounds - first)
        drawn = rng.integers(0, max(units, 1), size=(size, units))
        drawn += np.arange(size)[:, None] * units
        yield (
            first,
            np.bincount(drawn.ravel(), minlength=size * units)
            .reshape(size, units)
            .astype(np.float64),
        )


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


def paired_p(difference: npt.ArrayLike, error: npt.ArrayLike) -> Floats:
    """Two-sided p-values of differences with these standard errors: below 0.05 where the 95 % interval leaves out 0.

    >>> paired_p([0.0, 1.96], [1.0, 1.0]).round(3).tolist()
    [1.0, 0.05]
    """
    p: Floats = 2 * special.ndtr(-np.abs(np.asarray(difference)) / np.asarray(error))
    return p


def holm(p: npt.ArrayLike) -> Floats:
    """p-values after Holm's step-down correction: below 0.05 wherever the family-wise error stays below 5 %.

    >>> holm([0.01, 0.04, 0.03]).round(2).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    out = np.empty(len(p))
    out[order] = np.minimum(stepped, 1.0)
    return out
