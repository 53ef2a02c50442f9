"""Measures of association of two items, from the count of the pair and the totals.

C is the `count` of the pair, F_q the `query_total`, F_v the `item_total` and N the `records`.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from neatrec.errors import must_be
from neatrec.statistics.tails import Floats, Numbers, as_floats

TABLE_THRESHOLDS = {0.05: 3.84, 0.01: 6.64, 0.001: 10.83}
"""Chi-squared with one degree of freedom, rounded as in printed tables; the paper's values."""


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
