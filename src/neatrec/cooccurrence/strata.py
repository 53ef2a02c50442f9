"""Strata: baskets of about the same size, of one month, of one store. Differences between them are no evidence."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from neatrec.compiled import compiled
from neatrec.data.baskets import STORES, Baskets
from neatrec.data.counts import CountOptions
from neatrec.errors import ParameterError, must_be, must_be_one_of
from neatrec.statistics.independence import groups_of
from neatrec.text import plain_name, plural, printable

log = logging.getLogger(__name__)
Int64 = npt.NDArray[np.int64]

SIZE, MONTH = BUILT_IN = ("basket_size", "month")
FEW_BASKETS = 200
"""A stratum with fewer baskets explains its own pairs away: what is bought together once in n baskets is expected there
1/n times for that reason alone."""
RULED_OUT = "could not be ruled out as the reason of a pair."


def parse_strata(names: Sequence[str] | None) -> tuple[str, ...] | None:
    """The names of strata, each once; `size` is short for `basket_size`, `none` means no strata. None: the default.

    >>> parse_strata(["size", "store", "store"]), parse_strata(["none"]), parse_strata(None)
    (('basket_size', 'store'), (), None)
    """
    if names is None:
        return None
    if isinstance(names, str):
        raise must_be("strata", "a sequence of names", names)
    given = tuple(dict.fromkeys(SIZE if name == "size" else name for name in names))
    if "none" in given and len(given) > 1:
        raise must_be("strata", "`none` alone, or columns", ",".join(given))
    return () if given == ("none",) else given


def strata_words(strata: Sequence[str]) -> str:
    """Within what the evidence of a table is measured, and what it therefore cannot rule out.

    >>> strata_words(["month"])
    'Evidence is measured within month. Stores could not be ruled out as the reason of a pair.'
    """
    named = ", ".join(printable(name.replace("_", " "), 40) for name in strata)
    open_ = [] if MONTH in strata else ["seasons"]
    open_ += [] if _stores(strata) else ["stores"]
    within = [f"Evidence is measured within {named}."] if strata else []
    return " ".join(
        [*within, *([f"{' and '.join(open_).capitalize()} {RULED_OUT}"] if open_ else [])]
    )


def default_strata(baskets: Baskets) -> tuple[str, ...]:
    """Basket size, month and store, as far as they are known; none where neither month nor store is.

    A column whose values have too few baskets is left out.
    """
    known = [MONTH] if baskets.times is not None and len(baskets) else []
    known += _stores(baskets.attributes)[:1]
    chosen = [name for name in ([SIZE, *known] if known else []) if _is_coarse(baskets, [name])]
    return tuple(chosen) if set(chosen) - {SIZE} else ()


def _stores(names: Iterable[str]) -> list[str]:
    """Those of `names` that mean a store, in the order of STORES; a comma would part the name in a list of strata.

    >>> _stores(["month", "Filiale", "Store ID"])
    ['Store ID', 'Filiale']
    """
    plain = {name: plain_name(name) for name in names if "," not in name}
    return [name for store in STORES for name in plain if plain[name] == plain_name(store)]


def strata_groups(baskets: Baskets, names: Sequence[str]) -> list[tuple[str, ...]]:
    """The columns whose combinations are strata: each alone, and two together where their combinations have enough baskets.

    The basket size stands alone: baskets of one size in one month would be strata so small that they explain their own
    pairs away.
    """
    alone = [(name,) for name in names]
    for name in names:
        stratum_column(baskets, name)  # refuses a missing column
    pairs = combinations([name for name in names if name != SIZE], 2)
    return [*alone, *(pair for pair in pairs if _is_coarse(baskets, pair))]


def _is_coarse(baskets: Baskets, names: Sequence[str]) -> bool:
    cells = int(_combined(baskets, names).max(initial=-1)) + 1
    return len(baskets) >= FEW_BASKETS * cells


def usable_strata(baskets: Baskets, names: Sequence[str] | None) -> tuple[str, ...]:
    """The strata to use; None: the default of the baskets."""
    chosen = parse_strata(names)
    return default_strata(baskets) if chosen is None else chosen


def strata_of(baskets: Baskets, names: Sequence[str]) -> Int64:
    """The stratum of each basket, 0 to the number of strata - 1: every combination of the named columns that occurs.

    `basket_size` means bands whose limits grow by the square root of two, `month` the calendar month (of a year) in
    UTC; any other name is one of `baskets.attributes`.
    """
    cell = _combined(baskets, names)
    count = int(cell.max(initial=-1)) + 1
    if count and len(baskets) < FEW_BASKETS * count:
        log.warning(
            "%s for %s: strata this small explain little; use fewer or coarser ones",
            plural(count, "stratum", "strata"),
            plural(len(baskets), "basket"),
        )
    return cell


def _combined(baskets: Baskets, names: Sequence[str]) -> Int64:
    cell = np.zeros(len(baskets), dtype=np.int64)
    for name in names:
        codes = stratum_column(baskets, name)
        cell = cell * (codes.max(initial=0) + 1) + codes
        cell = np.unique(cell, return_inverse=True)[1].astype(np.int64)
    return cell


def stratum_column(baskets: Baskets, name: str) -> Int64:
    """The code of each basket in one of the columns that strata are made of."""
    if name in baskets.attributes:
        codes = np.asarray(baskets.attributes[name].codes, dtype=np.int64)
        few = np.bincount(codes) < FEW_BASKETS
        # rare values are one stratum together, unless there are only such
        return codes if few[codes].all() else np.where(few[codes], len(few), codes)
    if name == SIZE:
        bands: Int64 = np.floor(2 * np.log2(np.maximum(baskets.sizes, 1))).astype(np.int64)
        return bands
    if name == MONTH:
        months = _months(baskets)
        return months - months.min() if len(months) else months
    raise must_be_one_of("strata", [*BUILT_IN, *baskets.attributes], name)


def month_of_year(baskets: Baskets) -> Int64:
    """The calendar month of each basket in UTC, 0 for January."""
    return _months(baskets) % 12


def _months(baskets: Baskets) -> Int64:
    """Months since January 1970."""
    if baskets.times is None:
        raise ParameterError(
            "`strata` must not name month: these baskets have no times",
            hint="Name the time column with --time.",
        )
    months: Int64 = baskets.times.astype("datetime64[us]").astype("datetime64[M]").astype(np.int64)
    return months


@dataclass(frozen=True, eq=False)
class StratumMargins:
    """Records with an item first and second, for each stratum and item seen in it: sorted by stratum, then item."""

    stratum: Int64
    item: Int64
    first: Int64
    second: Int64

    def merged(self, new: Int64) -> StratumMargins:
        """The margins of coarser strata: `new` has the new stratum of each old one."""
        items = int(self.item.max(initial=-1)) + 1
        key, place = np.unique(new[self.stratum] * items + self.item, return_inverse=True)
        first, second = (
            np.bincount(place, values, len(key)).astype(values.dtype)
            for values in (self.first, self.second)
        )
        stratum, item = np.divmod(key, max(items, 1))
        return StratumMargins(stratum, item, first, second)


def stratum_margins(baskets: Baskets, strata: Int64, counting: CountOptions) -> StratumMargins:
    """The margins of a count without window, split by the stratum of the basket.

    A pair that counts once per customer belongs to the stratum of the customer's first basket with it: by time where
    times are known, then by basket id. So the margins of the strata add up to those of the whole.
    """
    chosen = np.flatnonzero(baskets.sizes >= counting.min_basket)
    customer = (
        chosen if baskets.users is None or not counting.once_per_customer else baskets.users[chosen]
    )
    time = np.zeros(len(chosen)) if baskets.times is None else baskets.times[chosen]
    order = np.lexsort((id_rank(baskets)[chosen], time, customer))
    visits = baskets.select(chosen[order])
    key = np.repeat(strata[chosen][order], visits.sizes) * len(baskets.catalog) + visits.items
    seen, slot = np.unique(key, return_inverse=True)
    first, second = np.zeros(len(seen), np.int64), np.zeros(len(seen), np.int64)
    lines = _VisitLines(
        visits.items, slot, visits.offsets, visits.basket_of_line, customer[order].astype(np.int64)
    )
    group, by_item = (
        groups_of(counting.category_of(baskets.catalog)),
        np.argsort(visits.items, kind="stable"),
    )
    _count_margins(
        lines, group, by_item, (counting.once_per_customer, counting.directed), first, second
    )
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
