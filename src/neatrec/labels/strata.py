"""Strata: baskets of about the same size, of one month, of one store. Differences between them make no labels."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from neatrec.compiled import compiled
from neatrec.cooccurrence import CountOptions
from neatrec.data.baskets import Baskets
from neatrec.errors import ParameterError, must_be_one_of
from neatrec.statistics.independence import groups_of
from neatrec.text import plural

log = logging.getLogger(__name__)
Int64 = npt.NDArray[np.int64]

BUILT_IN = ("basket_size", "month")
FEW_BASKETS = 30
"""A stratum with fewer baskets explains its own pairs away."""


def strata_of(baskets: Baskets, names: Sequence[str]) -> Int64:
    """The stratum of each basket, 0 to the number of strata - 1: every combination of the named columns that occurs.

    `basket_size` means bands whose limits grow by the square root of two, `month` the calendar month (of a year) in
    UTC; any other name is one of `baskets.attributes`.
    """
    cell = np.zeros(len(baskets), dtype=np.int64)
    for name in names:
        codes = _column(baskets, name)
        cell = cell * (codes.max(initial=0) + 1) + codes
        cell = np.unique(cell, return_inverse=True)[1].astype(np.int64)
    count = int(cell.max(initial=-1)) + 1
    if count and len(baskets) < FEW_BASKETS * count:
        log.warning(
            "%s for %s: strata this small explain their own pairs away; use fewer or coarser ones",
            plural(count, "stratum", "strata"),
            plural(len(baskets), "basket"),
        )
    return cell


def _column(baskets: Baskets, name: str) -> Int64:
    if name in baskets.attributes:
        return np.asarray(baskets.attributes[name].codes, dtype=np.int64)
    if name == "basket_size":
        bands: Int64 = np.floor(2 * np.log2(np.maximum(baskets.sizes, 1))).astype(np.int64)
        return bands
    if name == "month":
        return _months(baskets)
    raise must_be_one_of("strata", [*BUILT_IN, *baskets.attributes], name)


def _months(baskets: Baskets) -> Int64:
    if baskets.times is None:
        raise ParameterError(
            "`strata` must not name month: these baskets have no times", hint="Name the time column with --time."
        )
    months: Int64 = baskets.times.astype("datetime64[us]").astype("datetime64[M]").astype(np.int64)
    return months - months.min() if len(months) else months


@dataclass(frozen=True, eq=False)
class StratumMargins:
    """Records with an item first and second, for each stratum and item seen in it: sorted by stratum, then item."""

    stratum: Int64
    item: Int64
    first: Int64
    second: Int64


def stratum_margins(baskets: Baskets, strata: Int64, counting: CountOptions) -> StratumMargins:
    """The margins of a count without window, split by the stratum of the basket.

    A pair that counts once per customer belongs to the stratum of the customer's first basket with it: by time where
    times are known, then by basket id. So the margins of the strata add up to those of the whole.
    """
    chosen = np.flatnonzero(baskets.sizes >= counting.min_basket)
    customer = chosen if baskets.users is None or not counting.once_per_customer else baskets.users[chosen]
    time = np.zeros(len(chosen)) if baskets.times is None else baskets.times[chosen]
    order = np.lexsort((id_rank(baskets)[chosen], time, customer))
    visits = baskets.select(chosen[order])
    key = np.repeat(strata[chosen][order], visits.sizes) * len(baskets.catalog) + visits.items
    seen, slot = np.unique(key, return_inverse=True)
    first, second = np.zeros(len(seen), np.int64), np.zeros(len(seen), np.int64)
    lines = _VisitLines(visits.items, slot, visits.offsets, visits.basket_of_line, customer[order].astype(np.int64))
    group, by_item = groups_of(counting.category_of(baskets.catalog)), np.argsort(visits.items, kind="stable")
    _count_margins(lines, group, by_item, (counting.once_per_customer, counting.directed), first, second)
    stratum, item = np.divmod(seen, max(len(baskets.catalog), 1))
    return StratumMargins(stratum, item, first, second if counting.directed else first)


class _VisitLines(NamedTuple):
    """Lines by customer and visit: items, slot and basket have the shape (lines,), customer that of the baskets."""

    items: npt.NDArray[np.int32]
    slot: Int64
    offsets: Int64
    basket: Int64
    customer: Int64


@compiled
def _count_margins(lines, group, by_item, options, first, second):
    """Add each record to first[slot of its query's line] and, where directed, to second[slot of its item's line].

    by_item lists the lines of each item in the order of visits; options: once per customer, directed. A query is
    walked customer by customer, so one stamp for each item shows what the customer has had.
    """
    items, slot, offsets, basket, customer = lines
    once, directed = options
    had = np.zeros(len(group), np.int64)
    stamp = 0
    for k in range(len(by_item)):
        line = by_item[k]
        q, b = items[line], basket[line]
        if k == 0 or items[by_item[k - 1]] != q or customer[basket[by_item[k - 1]]] != customer[b]:
            stamp += 1
        for other in range(line + 1 if directed else offsets[b], offsets[b + 1]):
            v = items[other]
            if group[v] == group[q] or (once and had[v] == stamp):
                continue
            had[v] = stamp
            first[slot[line]] += 1
            if directed:
                second[slot[other]] += 1


def id_rank(baskets: Baskets) -> Int64:
    """The place of each basket when they are sorted by id (as text), shape (baskets,)."""
    rank = np.arange(len(baskets))
    ids = baskets.ids
    if len(ids) > 1 and not pc.all(pc.less_equal(ids[:-1], ids[1:])).as_py():
        rank[pc.sort_indices(ids).to_numpy()] = np.arange(len(ids))
    return rank
