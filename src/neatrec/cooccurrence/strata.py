"""Strata: baskets of similar size, of one month or one store; their differences are no evidence."""

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
"""A smaller stratum explains its own pairs away: a pair bought once in n baskets is expected there
1/n times for that reason alone."""
RULED_OUT = "could not be ruled out as the reason of a pair."


def parse_strata(names: Sequence[str] | None) -> tuple[str, ...] | None:
    """The names of strata, each once: `size` is `basket_size`, `none` no strata, None the default.

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
    """Name the strata of the evidence, and the reasons that they cannot rule out.

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
    """Basket size, month and store, as far as known; none if neither month nor store is known.

    A column whose values have too few baskets is left out.
    """
    known = [MONTH] if baskets.times is not None and len(baskets) else []
    known += _stores(baskets.attributes)[:1]
    usable = tuple(name for name in known if _is_coarse(baskets, [name]))
    return (SIZE, *usable) if usable and _is_coarse(baskets, [SIZE]) else usable


def _stores(names: Iterable[str]) -> list[str]:
    """The `names` that mean a store, in the order of STORES, without names that hold a comma.

    >>> _stores(["month", "Filiale", "Store ID"])
    ['Store ID', 'Filiale']
    """
    plain = {name: plain_name(name) for name in names if "," not in name}
    return [name for store in STORES for name in plain if plain[name] == plain_name(store)]


def strata_groups(baskets: Baskets, names: Sequence[str]) -> list[tuple[str, ...]]:
    """The groups of columns whose combinations are strata: single columns and large enough pairs.

    The basket size is never combined: strata of one size in one month would be so small that they
    explain their own pairs away.
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
    given = parse_strata(names)
    return default_strata(baskets) if given is None else given


def strata_of(baskets: Baskets, names: Sequence[str]) -> Int64:
    """The stratum of each basket: numbers from 0 for the combinations of the columns that occur.

    `basket_size` means bands whose limits grow by the square root of two, `month` the calendar
    month (of a year) in UTC; any other name is one of `baskets.attributes`.
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
    """The code of each basket in a column of strata."""
    if name in baskets.attributes:
        codes = np.asarray(baskets.attributes[name].codes, dtype=np.int64)
        few = np.bincount(codes) < FEW_BASKETS
        # rare values form one stratum, unless all values are rare
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
    """Records with an item first and second, by stratum and item, sorted."""

    stratum: Int64
    item: Int64
    first: Int64
    second: Int64

    def merged(self, new: Int64) -> StratumMargins:
        """The margins of coarser strata: `new` holds the new stratum of each old one."""
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

    A pair that counts once per customer belongs to the stratum of the customer's first basket with
    it: by time where known, then by basket id. The margins of the strata sum to those of the count.
    """
    selected = np.flatnonzero(baskets.sizes >= counting.min_basket)
    by_customer = counting.once_per_customer and baskets.users is not None
    customer = baskets.users[selected] if by_customer else selected  # type: ignore[index]
    time = np.zeros(len(selected)) if baskets.times is None else baskets.times[selected]
    order = np.lexsort((id_rank(baskets)[selected], time, customer))
    visits = baskets.select(selected[order])
    key = np.repeat(strata[selected][order], visits.sizes) * len(baskets.catalog) + visits.items
    seen, slot = np.unique(key, return_inverse=True)
    first, second = np.zeros(len(seen), np.int64), np.zeros(len(seen), np.int64)
    lines = _VisitLines(
        visits.items,
        slot,
        visits.offsets,
        visits.basket_of_line,
        customer[order].astype(np.int64),
        groups_of(counting.category_of(baskets.catalog)),
        np.argsort(visits.items, kind="stable"),
        counting.once_per_customer,
        counting.directed,
    )
    _count_margins(lines, first, second)
    stratum, item = np.divmod(seen, max(len(baskets.catalog), 1))
    return StratumMargins(stratum, item, first, second if counting.directed else first)


class _VisitLines(NamedTuple):
    """Lines by customer and visit; arrays of shape (lines,) unless stated."""

    items: npt.NDArray[np.int32]
    slot: Int64
    """The cell of the margins that a line adds to."""
    offsets: Int64
    """The first line of each basket, shape (baskets + 1,)."""
    basket: Int64
    customer: Int64
    """Shape (baskets,)."""
    group: Int64
    """The category of each item, shape (items,)."""
    by_item: Int64
    """The lines of each item in the order of visits."""
    once: bool
    directed: bool


@compiled
def _count_margins(lines, first, second):
    """Add each record to first[slot of its query] and, if directed, to second[slot of its item].

    The lines of a query are visited customer by customer: one stamp per item marks the items that
    the customer already has a record with.
    """
    items, slot, offsets, basket, customer, group, by_item, once, directed = lines
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
    """The rank of each basket by id (as text), shape (baskets,)."""
    rank = np.arange(len(baskets))
    ids = baskets.ids
    if len(ids) > 1 and not pc.all(pc.less_equal(ids[:-1], ids[1:])).as_py():
        rank[pc.sort_indices(ids).to_numpy()] = np.arange(len(ids))
    return rank
