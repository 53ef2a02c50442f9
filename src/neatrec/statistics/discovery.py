"""Benjamini and Hochberg's false-discovery rate over more tests than were carried out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neatrec.errors import ParameterError, must_be
from neatrec.statistics.types import Floats, Numbers, as_floats

CHUNK = 1 << 20
"""Tests whose q-values are computed at a time."""


@dataclass(frozen=True, eq=False)
class Discoveries:
    """Benjamini and Hochberg's step-up procedure: q-values in the order of the p-values given."""

    q: Floats
    """The smallest rate at which each test is a discovery, at most 1."""
    p: Floats
    total: int
    """M, the number of tests; those not given have p = 1."""

    def threshold(self, rate: float) -> float:
        """The largest p-value that is a discovery at `rate`; 0 where there is none."""
        found = self.p[self.q <= _checked(rate)]
        return float(found.max()) if len(found) else 0.0


class RankedTests:
    """All p-values of a set of tests in order, so that q-values can be had some at a time."""

    def __init__(self, p: Floats, total: int) -> None:
        """`total` tests, those not given have p = 1."""
        # the others have p_(k) M / k >= 1 for every k, and mostly there are many of them
        parts = (p[first : first + CHUNK] for first in range(0, len(p), CHUNK))
        self.p = np.concatenate([np.zeros(0), *(part[part * total < len(p)] for part in parts)])
        self.p.sort()
        # p_(k) M / k, then the smallest of those at or above k
        q = np.empty(len(self.p) + 1)
        for first in range(0, len(self.p), CHUNK):
            rank = np.arange(first + 1, min(first + CHUNK, len(self.p)) + 1)
            q[rank - 1] = total / rank * self.p[rank - 1]
        q[-1] = 1.0
        np.minimum.accumulate(q[::-1], out=q[::-1])
        self.q = q

    def q_of(self, p: Floats) -> Floats:
        """The q-values of some of the tests."""
        order, found = np.argsort(p), np.empty(len(p))
        # sorted values are looked for near each other: several times faster where there are millions
        found[order] = self.q[np.searchsorted(self.p, p[order], side="left")]
        return found


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
    return Discoveries(RankedTests(values, total).q_of(values), values, total)


def _checked(rate: float) -> float:
    if not 0 < rate < 1:
        raise must_be("rate", "between 0 and 1", rate)
    return rate
