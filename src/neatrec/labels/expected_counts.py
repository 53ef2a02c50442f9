"""Expected counts of pairs: one product of two factors, or a sum of them over strata."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt

from neatrec.compiled import compiled
from neatrec.cooccurrence import Margins
from neatrec.labels.strata import StratumMargins
from neatrec.statistics import quasi_independence

Codes = npt.NDArray[np.int32]
Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Expected(Protocol):
    """How often pairs would be seen by chance."""

    def of(self, query: Codes, item: Codes) -> Floats:
        """E of the aligned pairs (query, item)."""


@dataclass(frozen=True, eq=False)
class Factors:
    """E = a_q b_v."""

    query: Floats
    """a, shape (items,)."""
    item: Floats
    """b, shape (items,)."""

    def of(self, query: Codes, item: Codes) -> Floats:
        return self.query[query] * self.item[item]


@dataclass(frozen=True, eq=False)
class StratifiedFactors:
    """E = the sum over strata s of a_qs b_vs. Each item keeps its own strata: memory grows with lines only."""

    start: Counts
    """Where each item's strata start, shape (items + 1,)."""
    stratum: Counts
    """The strata an item is seen in, ascending, for one item after the other."""
    query: Floats
    """a of each item and stratum."""
    item: Floats
    """b of each item and stratum."""

    def of(self, query: Codes, item: Codes) -> Floats:
        expected: Floats = _sum_over_strata(query, item, self.start, self.stratum, self.query, self.item)
        return expected


def fit_expected(margins: Margins, kind: str, *, directed: bool) -> Factors:
    """Expected counts with the margins of a count: `kind` is quasi (different-category pairs only) or product."""
    return Factors(*_factors(margins.first, margins.second, margins.category, kind, directed))


def fit_strata(margins: StratumMargins, category: Codes, kind: str, *, directed: bool) -> StratifiedFactors:
    """The sum of the strata's expected counts, each fitted to its own margins; `category` has a code for each item."""
    query, item = np.zeros(len(margins.item)), np.zeros(len(margins.item))
    limits = np.searchsorted(margins.stratum, np.arange(margins.stratum.max(initial=-1) + 2))
    for begin, end in pairwise(limits):
        part = slice(begin, end)
        query[part], item[part] = _factors(
            margins.first[part], margins.second[part], category[margins.item[part]], kind, directed
        )
    order = np.argsort(margins.item, kind="stable")
    start = np.searchsorted(margins.item[order], np.arange(len(category) + 1))
    return StratifiedFactors(start, margins.stratum[order], query[order], item[order])


def _factors(first: Counts, second: Counts, category: Codes, kind: str, directed: bool) -> tuple[Floats, Floats]:
    if kind == "quasi":
        fit = quasi_independence(first, second, category)
        return fit.query_factor, fit.item_factor
    # undirected, too, the margins of all items add up to what each of them is a share of: N, or 2N
    return first.astype(np.float64), second / max(int(first.sum()), 1)


@compiled
def _sum_over_strata(query, item, start, stratum, query_factor, item_factor):
    """E[i] = sum over the strata s of both items of a[query[i], s] b[item[i], s]; query and item of shape (pairs,)."""
    out = np.zeros(len(query))
    for i in range(len(query)):
        k, k_end = start[query[i]], start[query[i] + 1]
        m, m_end = start[item[i]], start[item[i] + 1]
        while k < k_end and m < m_end:
            if stratum[k] == stratum[m]:
                out[i] += query_factor[k] * item_factor[m]
                k += 1
                m += 1
            elif stratum[k] < stratum[m]:
                k += 1
            else:
                m += 1
    return out
