"""Exact tails and intervals of a Poisson count, and the false-discovery rate of many tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from neatrec.errors import ParameterError, must_be

Numbers = npt.ArrayLike
"""Counts or numbers: anything NumPy reads, broadcast together."""
Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.integer[Any]]


def as_floats(values: Numbers) -> Floats:
    """`values` in float64: products of counts exceed 64-bit integers."""
    return np.asarray(values, dtype=np.float64)


def poisson_tail(count: Numbers, expected: Numbers) -> Floats:
    """P(X >= count) for a Poisson X with mean `expected`; exact to rounding, also if tiny.

    The regularised lower incomplete gamma function P(count, expected), and 1 for a count of 0.

    >>> float(poisson_tail(1, 0.001).round(7))
    0.0009995
    """
    o, e = np.broadcast_arrays(as_floats(count), as_floats(expected))
    # gammainc is undefined at a count of 0, where the tail is 1
    return np.where(o <= 0, 1.0, special.gammainc(np.maximum(o, 1.0), e))


def poisson_log_tail(count: Numbers, expected: Numbers) -> Floats:
    """The logarithm of P(X >= count): finite where `poisson_tail` underflows to 0 (below 1e-308).

    >>> float(poisson_tail(500, 1.0)), round(float(poisson_log_tail(500, 1.0)), 3)
    (0.0, -2612.328)
    """
    tail = np.asarray(poisson_tail(count, expected))
    o, e = np.broadcast_arrays(as_floats(count), as_floats(expected))
    with np.errstate(divide="ignore"):
        value = np.log(tail)
    tiny = (tail < 1e-290) & (e > 0) & (o > e)
    if np.any(tiny):
        value = np.array(value)
        value[tiny] = _log_tail_series(o[tiny], e[tiny])
    return value


def _log_tail_series(o: Floats, e: Floats) -> Floats:
    """The logarithm of e^-E E^o / o! (1 + E / (o+1) + E^2 / ((o+1)(o+2)) + ...), for o > E."""
    term, total = np.ones_like(o), np.ones_like(o)
    for step in range(1, 100_000):
        term = term * e / (o + step)
        total += term
        if np.all(term <= total * 1e-17):
            break
    return np.asarray(o * np.log(e) - e - special.gammaln(o + 1.0) + np.log(total))


def largest_mean(count: Numbers, tail: float) -> Floats:
    """The largest mean with P(X >= count) <= `tail`: the inverse of `poisson_tail`.

    >>> float(largest_mean(1, 0.0009995).round(6))
    0.001
    """
    o = as_floats(count)
    return np.where(o <= 0, 0.0, special.gammaincinv(np.maximum(o, 1.0), tail))


def garwood_interval(count: Numbers, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """Garwood's exact interval for the mean of a Poisson variable with the value `count`.

    >>> low, high = garwood_interval(10)
    >>> float(low.round(4)), float(high.round(4))
    (4.7954, 18.3904)
    """
    if not 0 < confidence < 1:
        raise must_be("confidence", "between 0 and 1", confidence)
    o = as_floats(count)
    half = (1.0 - confidence) / 2.0
    low: npt.NDArray[np.float64] = largest_mean(o, half)
    return low, np.asarray(special.gammainccinv(o + 1.0, half), dtype=np.float64)


def benjamini_hochberg(p: Numbers, total: int | None = None) -> Floats:
    """q-values of the given p-values out of `total` tests (default: only these).

    The other tests count as p = 1: pairs that were never seen together are tests too.

    >>> benjamini_hochberg([0.01, 0.04, 0.03], total=10).round(4).tolist()
    [0.1, 0.1333, 0.1333]
    """
    values = as_floats(p)
    total = len(values) if total is None else int(total)
    if total < len(values):
        raise must_be("total", f"at least the {len(values):,} p-values given", total)
    if np.any(~((values >= 0) & (values <= 1))):
        raise ParameterError("`p` must hold probabilities between 0 and 1")
    order = np.argsort(values)
    # p_(k) M / k, then the smallest of those at or above k
    steps = total / np.arange(1, len(values) + 1) * values[order]
    q = np.empty(len(values))
    q[order] = np.minimum(np.minimum.accumulate(steps[::-1])[::-1], 1.0)
    return q
