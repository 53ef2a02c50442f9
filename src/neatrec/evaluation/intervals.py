"""95 % intervals and paired tests: of means over label records, and by resampling.

Label records are pairs of items. Two records that share an item depend on each other, and without
direction (q, v) and (v, q) are one observation. The variance of a mean is therefore that of dyads:
a jackknife over items, less a jackknife over pairs, which the first counts at both ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse, special

from neatrec.data.splits import Seed, as_generator

Floats = npt.NDArray[np.float64]

ROUNDS = 2_000
LEVEL = 0.95
QUANTILE = float(special.ndtri(0.5 + LEVEL / 2))
BLOCK_WEIGHTS = 4_000_000
"""Resampling weights in memory at a time."""
PSEUDO_PAIRS = 0.5
"""Pairs of unknown outcome that are added, as in Jeffreys' interval: no dozen hits prove 100 %."""


@dataclass(frozen=True)
class Influence:
    """Changes of a mean without an item, or a pair; those of two means can be subtracted."""

    items: Floats
    """shape (items, columns), or (items,)"""
    pairs: Floats
    """shape (pairs, columns), or (pairs,)"""

    def __sub__(self, other: Influence) -> Influence:
        return Influence(self.items - other.items, self.pairs - other.pairs)

    def column(self, number: int) -> Influence:
        """The influence on one of the means."""
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
    """Incidence of items and records, shape (items, labels)."""
    of_pair: sparse.csr_array
    """Incidence of pairs and records, shape (pairs, labels)."""

    @classmethod
    def from_pairs(cls, query: npt.ArrayLike, item: npt.ArrayLike) -> Dyads:
        """The dyads of label records, in any order.

        >>> Dyads.from_pairs([1, 2, 3], [2, 1, 1]).of_pair.shape
        (2, 3)
        """
        ends = np.stack([np.asarray(query, np.int64), np.asarray(item, np.int64)])  # (2, labels)
        codes, index = np.unique(ends, return_inverse=True)
        index = index.reshape(ends.shape)
        _, pair = np.unique(index.min(axis=0) * len(codes) + index.max(axis=0), return_inverse=True)
        record = np.arange(ends.shape[1])
        return cls(_indicators(index.ravel(), np.append(record, record)), _indicators(pair, record))

    @property
    def pairs(self) -> int:
        """Number of pairs."""
        return int(self.of_pair.shape[0])

    @property
    def independent_pairs(self) -> float:
        """Effective number of pairs if all records of an item have the same outcome."""
        of_item, of_pair = np.diff(self.of_item.indptr), np.diff(self.of_pair.indptr)
        labels = self.of_pair.shape[1]
        return float(labels**2 / max((of_item**2).sum() - (of_pair**2).sum(), 1))

    def influence(self, values: Floats) -> Influence:
        """The influence on the means of `values`, shape (labels, columns)."""
        labels = len(values)
        residuals = values - values.mean(axis=0) if labels else values
        moved = []
        for records in (self.of_item, self.of_pair):
            others = np.maximum(labels - np.diff(records.indptr), 1)
            moved.append((records @ residuals) / others[:, None])
        return Influence(*moved)

    def share_interval(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        """Wilson's intervals of means between 0 and 1, with the effective number of pairs."""
        if not self.pairs:
            return np.full_like(mean, np.nan), np.full_like(mean, np.nan)
        added = PSEUDO_PAIRS / self.pairs
        size = (mean * (1 - mean) + added) / (variance + added / self.independent_pairs)
        z = QUANTILE
        middle, shrink = mean + z**2 / (2 * size), 1 + z**2 / size
        width = z * np.sqrt(mean * (1 - mean) / size + z**2 / (4 * size**2))
        low, high = (middle - width) / shrink, (middle + width) / shrink
        return np.maximum(low, 0.0), np.minimum(high, 1.0)

    def paired_error(self, variance: Floats) -> Floats:
        """The standard errors of differences of two means, from the variance of their influence."""
        added = PSEUDO_PAIRS / max(self.pairs, 1) / self.independent_pairs
        return np.asarray(np.sqrt(variance + added))

    @staticmethod
    def paired_interval(difference: Floats, error: Floats) -> tuple[Floats, Floats]:
        """The ends of the intervals of differences between -1 and 1."""
        width = QUANTILE * error
        return np.maximum(difference - width, -1.0), np.minimum(difference + width, 1.0)


def _indicators(row: npt.NDArray[np.int64], column: npt.NDArray[np.int64]) -> sparse.csr_array:
    shape = (int(row.max(initial=-1)) + 1, int(column.max(initial=-1)) + 1)
    return sparse.csr_array((np.ones(len(row)), (row, column)), shape=shape)


def resampled_means(
    totals: Floats, sizes: npt.ArrayLike, *, rounds: int = ROUNDS, rng: Seed | None = 0
) -> Floats:
    """Means in `rounds` resamplings of independent units (carts, queries), shape (rounds, columns).

    A mean is the sum of `totals`, (units, columns), over the sum of `sizes`, (units,) or (units,
    columns). The drawn units depend only on `rng` and their number: columns and calls can be
    compared pair by pair.
    """
    totals, sizes = np.asarray(totals, dtype=np.float64), np.asarray(sizes, dtype=np.float64)
    sizes = sizes[:, None] if sizes.ndim == 1 else sizes  # (units, 1 or columns)
    out = np.empty((rounds, totals.shape[1]))
    for first, weights in _unit_weights(as_generator(rng), len(totals), rounds):
        with np.errstate(invalid="ignore", divide="ignore"):
            out[first : first + len(weights)] = (weights @ totals) / (weights @ sizes)
    return out


def ratio_row(
    names: Sequence[str], totals: Floats, sizes: Floats, *, rounds: int = ROUNDS, rng: Seed | None
) -> dict[str, float]:
    """Sum of totals over sum of sizes of each column, with `_low` and `_high` of its interval."""
    low, high = interval(resampled_means(totals, sizes, rounds=rounds, rng=rng))
    below = sizes.sum(axis=0)
    mean = np.divide(totals.sum(axis=0), below, out=np.full(len(below), np.nan), where=below > 0)
    return with_ends(names, mean, low, high)


def with_ends(names: Sequence[str], mean: Floats, low: Floats, high: Floats) -> dict[str, float]:
    """Each mean under its name, with the ends of its interval as `_low` and `_high`."""
    row: dict[str, float] = {}
    for name, *values in zip(names, mean.tolist(), low.tolist(), high.tolist(), strict=True):
        row |= dict(zip((name, f"{name}_low", f"{name}_high"), values, strict=True))
    return row


def _unit_weights(
    rng: np.random.Generator, units: int, rounds: int
) -> Iterator[tuple[int, Floats]]:
    """The number of draws of each unit, in blocks of rounds, shape (block, units)."""
    block = max(1, BLOCK_WEIGHTS // max(units, 1))
    for first in range(0, rounds, block):
        size = min(block, rounds - first)
        drawn = rng.integers(0, max(units, 1), size=(size, units))
        drawn += np.arange(size)[:, None] * units
        draws = np.bincount(drawn.ravel(), minlength=size * units)
        yield first, draws.reshape(size, units).astype(np.float64)


def interval(resampled: Floats) -> tuple[Floats, Floats]:
    """The ends of the percentile interval of each column, each of shape (columns,).

    Rounds whose mean is undefined (a slice of which no query was drawn) are left out.
    """
    tail = (1.0 - LEVEL) / 2
    finite = np.isfinite(resampled)
    ends = np.full((2, resampled.shape[1]), np.nan)
    for column in np.flatnonzero(finite.any(axis=0)):
        ends[:, column] = np.quantile(resampled[finite[:, column], column], [tail, 1.0 - tail])
    return ends[0], ends[1]


def paired_p(difference: npt.ArrayLike, error: npt.ArrayLike) -> Floats:
    """Two-sided p-values of differences: below 0.05 if the 95 % interval excludes 0.

    >>> paired_p([0.0, 1.96], [1.0, 1.0]).round(3).tolist()
    [1.0, 0.05]
    """
    p: Floats = 2 * special.ndtr(-np.abs(np.asarray(difference)) / np.asarray(error))
    return p


def holm(p: npt.ArrayLike) -> Floats:
    """The p-values after Holm's step-down correction for the family-wise error.

    >>> holm([0.01, 0.04, 0.03]).round(2).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    out = np.empty(len(p))
    out[order] = np.minimum(stepped, 1.0)
    return out
