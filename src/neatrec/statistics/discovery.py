"""Benjamini and Hochberg's false-discovery rate over more tests than were carried out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neatrec.errors import ParameterError, must_be
from neatrec.statistics.types import Floats, Numbers, as_floats


@dataclass(frozen=True, eq=False)
class Discoveries:
    """What Benjamini and Hochberg's step-up procedure says of the p-values, in the order they were given."""

    q: Floats
    """The smallest rate at which each test is a discovery, at most 1."""
    p: Floats
    total: int
    """M, the number of tests; those not given have p = 1."""

    def threshold(self, rate: float) -> float:
        """The largest p-value that is a discovery at `rate`; 0 where there is none."""
        found = self.p[self.q <= _checked(rate)]
        return float(found.max()) if len(found) else 0.0


def benjamini_hochberg(p: Numbers, total: int | None = None) -> Discoveries:
    """q-values of the tests whose p-values are given, out of `total` tests (default: just these).

    The tests that are not given count as p = 1: pairs never seen together are tests too.

    >>> benjamini_hochberg([0.01, 0.04, 0.03], total=10).q.round(4).tolist()
    [0.1, 0.1333, 0.1333]
    """
    values = as_floats(p)
    count = len(values)
    total = count if total is None else int(total)
    if total < count:
        raise must_be("total", f"at least the {count:,} p-values given", total)
    if np.any(~((values >= 0) & (values <= 1))):
        raise ParameterError("`p` must hold probabilities between 0 and 1")
    order = np.argsort(values, kind="stable")
    # p_(k) M / k, then the smallest of those at or above k
    steps = values[order] * (total / np.arange(1, count + 1))
    rising = np.minimum.accumulate(steps[::-1])[::-1]
    q = np.empty(count)
    q[order] = np.minimum(rising, 1.0)
    return Discoveries(q, values, total)


def _checked(rate: float) -> float:
    if not 0 < rate < 1:
        raise must_be("rate", "between 0 and 1", rate)
    return rate
