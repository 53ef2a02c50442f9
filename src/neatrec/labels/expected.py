"""Expected counts of pairs: one product of two factors, or a sum of them over strata."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from neatrec.compiled import compiled
from neatrec.copurchase import Margins
from neatrec.statistics import quasi_independence

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]


class Expected(Protocol):
    """Says how often pairs would be seen by chance."""

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
    """E = the sum over strata s of a_qs b_vs. Each item keeps its own strata: room grows with lines only."""

    query: FactorRows
    item: FactorRows

    def of(self, query: Codes, item: Codes) -> Floats:
        expected: Floats = _sum_over_strata(query, item, *self.query.arrays(), *self.item.arrays())
        return expected


@dataclass(frozen=True, eq=False)
class FactorRows:
    """One factor for each item and each stratum it is seen in, sorted by item, then stratum."""

    start: npt.NDArray[np.int64]
    """Where each item's strata start, shape (items + 1,)."""
    stratum: npt.NDArray[np.int32]
    value: Floats

    def arrays(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], Floats]:
        return self.start, self.stratum, self.value

    @classmethod
    def join(cls, factors: Iterable[Floats], items: int) -> FactorRows:
        """From one array of shape (items,) for each stratum."""
        seen = [(np.flatnonzero(values), values) for values in factors]
        item = np.concatenate([np.zeros(0, np.int64), *(codes for codes, _ in seen)])
        value = np.concatenate([np.zeros(0), *(values[codes] for codes, values in seen)])
        stratum = np.repeat(np.arange(len(seen), dtype=np.int32), [len(codes) for codes, _ in seen])
        order = np.argsort(item, kind="stable")
        start = np.concatenate([[0], np.cumsum(np.bincount(item, minlength=items))])
        return cls(start.astype(np.int64), stratum[order], value[order])


def fit_expected(margins: Margins, kind: str, *, directed: bool) -> Factors:
    """Expected counts with the margins of a count: `kind` is quasi (different-category pairs only) or product."""
    if kind == "quasi":
        fit = quasi_independence(margins.first, margins.second, margins.category)
        return Factors(fit.query_factor, fit.item_factor)
    # undirected, each record adds one to the margins of both its items
    total = margins.records if directed else 2 * margins.records
    return Factors(margins.first.astype(np.float64), margins.second / max(total, 1))


def join_strata(strata: Iterable[Factors], items: int) -> StratifiedFactors:
    """The sum of the strata's expected counts."""
    each = list(strata)
    return StratifiedFactors(
        FactorRows.join((factors.query for factors in each), items),
        FactorRows.join((factors.item for factors in each), items),
    )


@compiled
def _sum_over_strata(query, item, q_start, q_stratum, q_value, v_start, v_stratum, v_value):
    """E[i] = sum over the strata s in both rows of a[query[i], s] b[item[i], s]; query and item of shape (pairs,)."""
    out = np.zeros(len(query))
    for i in range(len(query)):
        k, k_end = q_start[query[i]], q_start[query[i] + 1]
        m, m_end = v_start[item[i]], v_start[item[i] + 1]
        while k < k_end and m < m_end:
            if q_stratum[k] == v_stratum[m]:
                out[i] += q_value[k] * v_value[m]
                k += 1
                m += 1
            elif q_stratum[k] < v_stratum[m]:
                k += 1
            else:
                m += 1
    return out
