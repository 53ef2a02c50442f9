"""Benjamini and Hochberg's false-discovery rate, with tests that were not carried out."""

from __future__ import annotations

import numpy as np

from neatrec.errors import ParameterError, must_be
from neatrec.statistics.types import Floats, Numbers, as_floats


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
