"""Expected counts of pairs: one product of two factors, or a sum of them over strata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from neatrec.compiled import compiled
from neatrec.cooccurrence.strata import (
    MONTH,
    SIZE,
    month_of_year,
    strata_groups,
    strata_of,
    stratum_column,
)
from neatrec.cooccurrence.totals import StratumMargins, counted_lines, stratum_margins
from neatrec.data.baskets import Baskets
from neatrec.data.counts import CountOptions, Margins
from neatrec.memory import blocks
from neatrec.statistics import Factors, poisson_tail, quasi_independence

Codes = npt.NDArray[np.int32]
Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
CountedPairs = tuple[Codes, Codes, npt.NDArray[Any]]
"""Aligned queries, items and counts."""
SIGNIFICANT = 1e-7
"""Largest probability by chance of a factor of strata to apply."""


@dataclass(frozen=True, eq=False)
class StratifiedFactors:
    """E = the sum over strata s of a_qs b_vs. Memory grows with the lines only."""

    start: Counts
    """The first entry of each item, shape (items + 1,)."""
    stratum: Codes
    """The strata of each item, ascending, item by item."""
    query: Floats
    """a of each item and stratum."""
    item: Floats
    """b of each item and stratum."""

    def of(self, query: Codes, item: Codes) -> Floats:
        """E of the aligned pairs."""
        expected: Floats = _sum_over_strata(
            query, item, self.start, self.stratum, self.query, self.item
        )
        return expected


@dataclass(frozen=True, eq=False)
class StratumGroup:
    """Columns whose combinations are strata, and the expected counts within them."""

    margins: StratumMargins
    factors: StratifiedFactors
    columns: Mapping[str, Counts]
    """The code of each stratum, by column."""
    month: Counts | None
    """The month of the year of each stratum, from 0; None if no column is the month."""


@dataclass(frozen=True, eq=False)
class Occasions:
    """The baskets of each item, weighted by their other lines (or its customers, unweighted)."""

    total: Floats
    """Sum of the weights of each item, shape (items,)."""
    effective: Floats
    """Effective number of baskets of each item: squared sum over sum of squares, shape (items,)."""
    square: float
    """Mean squared weight of a line."""

    @classmethod
    def of(cls, baskets: Baskets, counting: CountOptions) -> Occasions:
        """The occasions in the counted baskets."""
        lines = counted_lines(baskets, counting)
        total, squares = np.zeros((2, len(baskets.catalog)))
        last_customer = np.full(len(total), -1, dtype=np.int32)
        number = _add_weights(lines, last_customer, total, squares)
        effective = np.divide(total**2, squares, out=np.zeros(len(total)), where=squares > 0)
        return cls(total, effective, float(squares.sum() / max(number, 1)))


@dataclass(frozen=True, eq=False)
class StratifiedExpected:
    """E = E over all baskets times the factor by which strata raise it.

    A basket that holds both items adds to E of its own stratum, and other baskets meet in a
    stratum by chance: columns that explain nothing would raise or lower E of rare pairs. Therefore
    the contribution of the pair's own baskets is subtracted, and a factor is applied only where it
    is significant: for S random strata its mean is 1 and its variance (S - 1) / (n_q n_v). The
    factor of the basket size is always applied.
    """

    overall: Factors
    groups: tuple[StratumGroup, ...]
    category: Codes
    occasions: Occasions

    @classmethod
    def fit(
        cls, baskets: Baskets, names: Sequence[str], counting: CountOptions, kind: str
    ) -> StratifiedExpected:
        """Fit a count; `kind` is quasi or product, see `fit_expected`."""
        category, groups = counting.category_of(baskets.catalog), []
        for together in strata_groups(baskets, names):
            strata = strata_of(baskets, together)
            margins = stratum_margins(baskets, strata, counting)
            of_each = np.unique(strata, return_index=True)[1]  # a basket of each stratum
            columns = {name: stratum_column(baskets, name)[of_each] for name in together}
            month = month_of_year(baskets)[of_each] if MONTH in together else None
            factors = fit_strata(margins, category, kind)
            groups.append(StratumGroup(margins, factors, columns, month))
        part, size = groups[0].margins, len(category)
        first, second = (
            np.bincount(part.item, each, size).astype(each.dtype)
            for each in (part.first, part.second)
        )
        overall = _factors(first, second, category, kind)
        return cls(overall, tuple(groups), category, Occasions.of(baskets, counting))

    def of(self, query: Codes, item: Codes, count: npt.NDArray[Any]) -> Floats:
        """E of the aligned pairs with these counts."""
        expected = np.empty(len(query))
        for part in blocks(len(query)):
            expected[part] = self._of(query[part], item[part], count[part])
        return expected

    def _of(self, query: Codes, item: Codes, count: npt.NDArray[Any]) -> Floats:
        overall = base = self.overall.of(query, item)
        factor = np.ones(len(query))
        for group in self.groups:
            within = group.factors.of(query, item)
            if SIZE in group.columns:
                base = within
            else:
                raised = np.divide(within, overall, out=np.ones(len(query)), where=overall > 0)
                factor = self._significant(group, raised, factor, (query, item, count))
        return base * factor

    def _significant(
        self, group: StratumGroup, raised: Floats, before: Floats, pairs: CountedPairs
    ) -> Floats:
        """The factors `before`, with those of one more group where they differ significantly."""
        query, item, count = pairs
        spread, occasions = len(next(iter(group.columns.values()))) - 1, self.occasions
        total = occasions.total[query] * occasions.total[item]
        own = spread * occasions.square * count / np.maximum(total, 1.0)
        raised = np.maximum(raised - own, 0.0)
        single = len(group.columns) == 1
        chance = np.ones(len(raised)) if single else before
        product = occasions.effective[query] * occasions.effective[item]
        significant = _chance_of_factor(raised, chance, product, spread) <= SIGNIFICANT
        return np.where(significant, before * raised if single else raised, before)

    def lowered(self, count: npt.NDArray[Any], query: Codes, item: Codes) -> npt.NDArray[Any]:
        """Counts times min(1, E over all baskets / E), rounded: the part that strata leave.

        Their lift over all baskets is the lift within strata.
        """
        lowered = np.empty_like(count)
        for part in blocks(len(count)):
            pairs = query[part], item[part], count[part]
            overall, within = self.overall.of(*pairs), self._of(*pairs)
            share = np.divide(overall, within, out=np.ones(len(within)), where=within > overall)
            lowered[part] = np.rint(count[part] * share)
        return lowered

    def explain(
        self, names: Sequence[str], query: Codes, item: Codes
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint16]]:
        """The column that alone raises E most, as a position in `names` from 1, and the season.

        The season is 0 unless that column is the month; then it has a bit per month of the year in
        which E is at least half of E in the best month.
        """
        columns = {
            name: (group, group.columns[name])
            for group in self.groups[: len(names)]
            for name in group.columns
        }
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
        return fit_strata(group.margins.merged(codes), self.category, "product")

    def _by_month(self, group: StratumGroup, query: Codes, item: Codes) -> Floats:
        """The expected count of each pair in each month of the year, shape (12, pairs)."""
        assert group.month is not None
        factors = self._merged(group, group.month)
        only = (
            replace(factors, query=np.where(factors.stratum == month, factors.query, 0.0))
            for month in range(12)
        )
        return np.array([part.of(query, item) for part in only])


def _chance_of_factor(raised: Floats, chance: Floats, product: Floats, spread: int) -> Floats:
    """The probability that S = spread + 1 random strata give a factor as far from `chance`.

    The larger of two bounds, with product = n_q n_v. Few meetings are Poisson with the mean
    product / spread. With many the factor is a sum of `spread` products of two normal variables;
    Chernoff's bound holds for its tail.
    """
    meetings = product / max(spread, 1)
    above = poisson_tail(meetings * raised, meetings * chance)
    below = special.gammaincc(meetings * raised + 1, meetings * chance)
    x = np.maximum(np.abs(raised - chance) * np.sqrt(product), 1e-12)
    tilt = (np.sqrt(spread**2 + 4 * x**2) - spread) / (2 * x)
    bound = np.exp(-0.5 * spread * np.log1p(-(np.minimum(tilt, 1 - 1e-12) ** 2)) - tilt * x)
    larger: Floats = np.maximum(np.minimum(above, below), bound)
    return larger


def unexplained(
    baskets: Baskets, names: Sequence[str], counting: CountOptions
) -> StratifiedExpected | None:
    """The fit by which models lower undirected counts (`lowered`); None without strata."""
    if not names:
        return None
    return StratifiedExpected.fit(baskets, names, replace(counting, directed=False), "product")


def fit_expected(margins: Margins, kind: str) -> Factors:
    """Fit expected counts to the margins of a count.

    `kind` is quasi (pairs of different categories only) or product.
    """
    return _factors(margins.first, margins.second, margins.category, kind)


def fit_strata(margins: StratumMargins, category: Codes, kind: str) -> StratifiedFactors:
    """The sum of the expected counts of strata, each fitted to the margins of its stratum."""
    query, item = np.zeros(len(margins.item)), np.zeros(len(margins.item))
    limits = np.searchsorted(margins.stratum, np.arange(margins.stratum.max(initial=-1) + 2))
    for begin, end in pairwise(limits):
        part = slice(begin, end)
        first, second = margins.first[part], margins.second[part]
        factors = _factors(first, second, category[margins.item[part]], kind)
        query[part], item[part] = factors.query, factors.item
    order = np.argsort(margins.item, kind="stable")
    start = np.searchsorted(margins.item[order], np.arange(len(category) + 1))
    return StratifiedFactors(start, margins.stratum[order], query[order], item[order])


def _factors(first: Counts, second: Counts, category: Codes, kind: str) -> Factors:
    if kind == "quasi":
        return quasi_independence(first, second, category)
    # the margins of all items sum to N, or to 2N if undirected: each is a share of this sum
    return Factors(first.astype(np.float64), second / max(first.sum(), 1))


@compiled
def _add_weights(lines, last_customer, total, squares):  # type: ignore[no-untyped-def]
    """Add the weight of each line and its square to its item; return the number of lines.

    Where customers are known, whose baskets follow each other, an item has one line per customer.
    """
    items, start, stop, customer = lines
    number, weight = 0, 1.0
    for b in range(len(start)):
        for k in range(start[b], stop[b]):
            i = items[k]
            if len(customer):
                if last_customer[i] == customer[b]:
                    continue
                last_customer[i] = customer[b]
            else:
                weight = stop[b] - start[b] - 1.0
            total[i] += weight
            squares[i] += weight * weight
            number += 1
    return number


@compiled
def _sum_over_strata(query, item, start, stratum, query_factor, item_factor):  # type: ignore[no-untyped-def]
    """E[i] = sum over common strata s of a[query[i], s] b[item[i], s], shape (pairs,)."""
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
