"""Expected counts of pairs: one product of two factors, or a sum of them over strata."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from neatrec.compiled import compiled
from neatrec.cooccurrence.counts import CountOptions, Margins
from neatrec.cooccurrence.strata import (
    MONTH,
    StratumMargins,
    month_of_year,
    strata_groups,
    strata_of,
    stratum_column,
    stratum_margins,
    usable_strata,
)
from neatrec.data.baskets import Baskets
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


@dataclass(frozen=True, eq=False)
class StratumGroup:
    """Columns whose combinations are strata, and the expected counts within these."""

    margins: StratumMargins
    factors: StratifiedFactors
    columns: Mapping[str, Counts]
    """For each column its code in each stratum."""
    month: Counts | None
    """The month of the year of each stratum, from 0; None where months are no column."""


@dataclass(frozen=True, eq=False)
class StratifiedExpected:
    """E = E over all baskets times the factor by which each group of strata raises it; of one group E within it."""

    overall: Factors
    groups: tuple[StratumGroup, ...]
    category: Codes

    @classmethod
    def fit(cls, baskets: Baskets, names: Sequence[str], counting: CountOptions, kind: str) -> StratifiedExpected:
        """That of a count without window; `kind` is quasi or product, see `fit_expected`."""
        category, groups = counting.category_of(baskets.catalog), []
        for together in strata_groups(baskets, names):
            strata = strata_of(baskets, together)
            margins = stratum_margins(baskets, strata, counting)
            some = np.unique(strata, return_index=True)[1]  # a basket of each stratum
            columns = {name: stratum_column(baskets, name)[some] for name in together}
            month = month_of_year(baskets)[some] if MONTH in together else None
            factors = fit_strata(margins, category, kind, directed=counting.directed)
            groups.append(StratumGroup(margins, factors, columns, month))
        part, size = groups[0].margins, len(category)
        first, second = (np.bincount(part.item, each, size).astype(each.dtype) for each in (part.first, part.second))
        return cls(Factors(*_factors(first, second, category, kind, counting.directed)), tuple(groups), category)

    def of(self, query: Codes, item: Codes) -> Floats:
        if len(self.groups) == 1:
            return self.groups[0].factors.of(query, item)
        overall = self.overall.of(query, item)
        expected = overall.copy()
        for group in self.groups:
            expected *= np.divide(group.factors.of(query, item), overall, out=np.ones(len(query)), where=overall > 0)
        return expected

    def lowered(self, count: npt.NDArray[Any], query: Codes, item: Codes) -> npt.NDArray[Any]:
        """Counts without what the strata explain: times E over all baskets / E, at most 1, as whole numbers.

        Their lift over all baskets is the lift within strata.
        """
        overall, within = self.overall.of(query, item), self.of(query, item)
        share = np.divide(overall, within, out=np.ones(len(count)), where=within > overall)
        lowered: npt.NDArray[Any] = np.rint(count * share).astype(count.dtype)
        return lowered

    def explain(
        self, names: Sequence[str], query: Codes, item: Codes
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint16]]:
        """Of each pair the place (from 1) in `names` of the column that alone raises E most; and where that is the
        month, a bit for each month of the year in which E is at least half of that in the best month."""
        columns = {name: (group, codes) for group in self.groups for name, codes in group.columns.items()}
        alone = [self._merged(*columns[name]).of(query, item) for name in names]
        best = np.array(alone).argmax(axis=0)
        season = np.zeros(len(query), np.uint16)
        if MONTH in columns and len(query):
            by_month = self._by_month(columns[MONTH][0], query, item)
            bits = (by_month >= by_month.max(axis=0) / 2) & (by_month > 0)
            season = (bits * (1 << np.arange(12))[:, None]).sum(axis=0).astype(np.uint16)
            season[best != list(names).index(MONTH)] = 0
        return (best + 1).astype(np.uint8), season

    def _merged(self, group: StratumGroup, codes: Counts) -> StratifiedFactors:
        return fit_strata(group.margins.merged(codes), self.category, "product", directed=False)

    def _by_month(self, group: StratumGroup, query: Codes, item: Codes) -> Floats:
        """The expected count of each pair in each month of the year, shape (12, pairs)."""
        assert group.month is not None
        factors = self._merged(group, group.month)
        only = (replace(factors, query=np.where(factors.stratum == month, factors.query, 0.0)) for month in range(12))
        return np.array([part.of(query, item) for part in only])


def unexplained(baskets: Iterable[Baskets], names: Sequence[str], counting: CountOptions) -> StratifiedExpected | None:
    """What models lower undirected counts by, see `StratifiedExpected.lowered`; None without strata."""
    names, whole = usable_strata(baskets, names)
    return None if whole is None else StratifiedExpected.fit(whole, names, replace(counting, directed=False), "product")


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
    return first.astype(np.float64), second / max(first.sum(), 1)


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
