"""Measures of association, exact Poisson tails and intervals, and the false-discovery rate.

C is the `count` of a pair, F_q the `query_total`, F_v the `item_total`, N the `records`, and E the
`expected` count.
"""

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
TABLE_THRESHOLDS = {0.05: 3.84, 0.01: 6.64, 0.001: 10.83}
"""Chi-squared with one degree of freedom, rounded as in printed tables; the paper's values."""


def as_floats(values: Numbers) -> Floats:
    """`values` in float64: products of counts exceed 64-bit integers."""
    return np.asarray(values, dtype=np.float64)


def lift(count: Numbers, expected: Numbers) -> Floats:
    """C / E; infinite where only E is 0, and 0 where both are.

    >>> lift([6, 0], [2.0, 3.0]).tolist()
    [3.0, 0.0]
    """
    return _ratio(as_floats(count), as_floats(expected))


def shrunk_lift(count: Numbers, expected: Numbers, k: float = 1.0) -> Floats:
    """C / (E + k): the lift, shrunk to 0 where E is small.

    >>> shrunk_lift([6, 1], [2.0, 0.001]).round(3).tolist()
    [2.0, 0.999]
    """
    if not k >= 0:
        raise must_be("k", "at least 0", k)
    return _ratio(as_floats(count), as_floats(expected) + k)


def jaccard(count: Numbers, query_total: Numbers, item_total: Numbers) -> Floats:
    """C / (F_q + F_v - C): records of both over records of either.

    >>> jaccard(2, 4, 6).item()
    0.25
    """
    c = as_floats(count)
    return _ratio(c, as_floats(query_total) + as_floats(item_total) - c)


def signed_llr(
    count: Numbers, query_total: Numbers, item_total: Numbers, records: Numbers
) -> Floats:
    """G^2 of the 2x2 table of C, F and N, negative where C is below F_q F_v / N.

    G^2 = 2 sum of O ln(O / E) over the four cells, with O ln O = 0 for an empty cell.
    """
    c, fq, fv, n = np.broadcast_arrays(
        *(as_floats(x) for x in (count, query_total, item_total, records))
    )
    safe, terms = np.where(n > 0, n, 1.0), []
    for cell, row, column in (
        (c, fq, fv),
        (fq - c, fq, n - fv),
        (fv - c, n - fq, fv),
        (n - fq - fv + c, n - fq, n - fv),
    ):
        # the cells of a table with a rounded margin may fall below zero by a rounding error
        terms.append(special.rel_entr(np.maximum(cell, 0.0), row * column / safe))
    g2: Floats = 2.0 * np.nan_to_num(np.sum(terms, axis=0), nan=0.0, posinf=0.0)
    return np.where(c >= fq * fv / safe, 1.0, -1.0) * np.maximum(g2, 0.0)


def chi_squared(
    count: Numbers, query_total: Numbers, item_total: Numbers, records: Numbers
) -> Floats:
    """Pearson's chi-squared of the 2x2 table of C, F and N; 0 where a margin is empty or full.

    In float64 (N^3 exceeds 64 bits), without Yates' correction and without a floor on expected
    counts. All four deviations of a 2x2 table are equal, so the sum of (O - E)^2 / E is
    (C - E)^2 N^3 / (F_q (N - F_q) F_v (N - F_v)).
    """
    c, fq, fv, n = (as_floats(x) for x in (count, query_total, item_total, records))
    with np.errstate(divide="ignore", invalid="ignore"):
        deviation = c - fq * fv / n
        # two factors of moderate size: no product of four totals, so nothing overflows
        value = (deviation * deviation) * (n / (fq * (n - fq))) * (n / fv) * (n / (n - fv))
    return np.where(np.isfinite(value), value, 0.0)


def chi_squared_threshold(level: float) -> float:
    """The chi-squared value (one degree of freedom) that a pair must exceed at `level`.

    The paper's table values 3.84, 6.64 and 10.83 at 0.05, 0.01 and 0.001; otherwise the quantile.

    >>> chi_squared_threshold(0.05), round(chi_squared_threshold(0.1), 6)
    (3.84, 2.705543)
    """
    if not 0 < level < 1:
        raise must_be("level", "between 0 and 1", level)
    return TABLE_THRESHOLDS.get(float(level), float(special.chdtri(1, level)))


def chi_squared_p(value: Numbers) -> Floats:
    """P(X >= value) for chi-squared with one degree of freedom."""
    return np.asarray(special.erfc(np.sqrt(as_floats(value) / 2.0)), dtype=np.float64)


def _ratio(above: Floats, below: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(above == 0, 0.0, above / below), dtype=np.float64)


def poisson_tail(count: Numbers, expected: Numbers) -> Floats:
    """P(X >= count) for a Poisson X with mean `expected`; exact to rounding, also if tiny.

    The regularised lower incomplete gamma function P(count, expected), and 1 for a count of 0.

    >>> float(poisson_tail(1, 0.001).round(7))
    0.0009995
    """
    o, e = np.broadcast_arrays(as_floats(count), as_floats(expected))
    # most counts are 1, where the tail is 1 - e^-E; it is 1 at 0, where gammainc is undefined
    tail, more = np.array(-np.expm1(-e)), o > 1
    tail[more] = special.gammainc(o[more], e[more])
    return np.where(o <= 0, 1.0, tail)


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
    steps = total / np.arange(1, len(values) + 1)
    steps *= values[order]
    np.minimum.accumulate(steps[::-1], out=steps[::-1])
    q = np.empty(len(values))
    q[order] = np.minimum(steps, 1.0, out=steps)
    return q
