"""The totals of a count, from the lines: of all baskets, or of each stratum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from neatrec.compiled import compiled
from neatrec.cooccurrence.layout import MAX_32_BIT_LINES, BasketLines, count_lines, fill_postings
from neatrec.data.baskets import Baskets
from neatrec.data.counts import CountOptions, Int32, Int64, Margins
from neatrec.statistics.independence import groups_of


def margins_of(baskets: Baskets, options: CountOptions) -> Margins:
    """The totals of all counted baskets."""
    items, category = len(baskets.catalog), options.category_of(baskets.catalog)
    lines = counted_lines(baskets, options)
    first, second = _margins(lines, baskets.items, items, groups_of(category), options)
    records = int(first.sum()) // (1 if options.directed else 2)
    return Margins(first, second, records, 0, len(lines.start), category)


def counted_lines(baskets: Baskets, options: CountOptions) -> BasketLines:
    """The lines of the counted baskets; customer by customer where a pair counts once for each."""
    counted = np.flatnonzero(baskets.sizes >= options.min_basket)
    if options.once_per_customer and baskets.users is not None:
        counted = counted[np.argsort(baskets.users[counted], kind="stable")]
    return BasketLines.of(baskets, counted, users=options.once_per_customer)


@dataclass(frozen=True, eq=False)
class StratumMargins:
    """Records with an item first and second, by stratum and item, sorted."""

    stratum: Int32
    item: Int32
    first: Int64
    second: Int64

    def merged(self, new: Int64) -> StratumMargins:
        """The margins of coarser strata: `new` holds the new stratum of each old one."""
        items = int(self.item.max(initial=-1)) + 1
        key, cell = np.unique(new[self.stratum] * items + self.item, return_inverse=True)
        first, second = (
            np.bincount(cell, values, len(key)).astype(values.dtype)
            for values in (self.first, self.second)
        )
        stratum, item = (part.astype(np.int32) for part in np.divmod(key, max(items, 1)))
        return StratumMargins(stratum, item, first, second)


def stratum_margins(baskets: Baskets, strata: Int64, options: CountOptions) -> StratumMargins:
    """The margins of a count, split by the stratum of the basket.

    A pair that counts once per customer belongs to the stratum of the customer's first basket with
    it: by time where known, then by basket id. The margins of the strata sum to those of the count.
    """
    selected = np.flatnonzero(baskets.sizes >= options.min_basket)
    users = baskets.users if options.once_per_customer else None
    if users is not None:
        time = np.zeros(len(baskets)) if baskets.times is None else baskets.times
        selected = selected[np.lexsort([k[selected] for k in (id_rank(baskets), time, users)])]
    order = selected[np.argsort(strata[selected], kind="stable")]
    limits = np.searchsorted(strata[order], np.arange(strata.max(initial=-1) + 2))
    # a cell is an item in a stratum; pages of these arrays that stay empty take no memory
    dtype = np.int32 if baskets.lines < 2**31 else np.int64
    cell, of_item = np.empty((2, baskets.lines), dtype=dtype)
    number = np.full(len(baskets.catalog), -1, dtype=dtype)
    ends = _number_cells(BasketLines.of(baskets, order, users=False), limits, number, cell, of_item)
    group = groups_of(options.category_of(baskets.catalog))
    lines = BasketLines.of(baskets, selected, users=users is not None)
    cells = int(ends.max(initial=0))
    first, second = _margins(lines, cell, cells, group, options)
    stratum = np.repeat(np.arange(len(ends), dtype=np.int32), np.diff(ends, prepend=0))
    return StratumMargins(stratum, of_item[:cells].astype(np.int32), first, second)


def id_rank(baskets: Baskets) -> Int64:
    """The rank of each basket by id (as text), shape (baskets,)."""
    rank, ids = np.arange(len(baskets)), baskets.ids
    if len(ids) > 1 and not pc.all(pc.less_equal(ids[:-1], ids[1:])).as_py():
        rank[pc.sort_indices(ids).to_numpy()] = np.arange(len(ids))
    return rank


def _margins(
    lines: BasketLines, cell: npt.NDArray[Any], cells: int, group: Int64, options: CountOptions
) -> tuple[Int64, Int64]:
    """Records with each cell first and second; `cell`: the one that each line adds to.

    Where a pair counts once per customer, the baskets of a customer follow each other.
    """
    first, second = np.zeros((2, cells), dtype=np.int64)
    if options.once_per_customer:
        counts, squares, within = np.zeros((3, len(group)), dtype=np.int64)
        count_lines(lines, counts, squares, within)
        number = int(counts.sum())
        posting = np.empty((number, 2), np.uint32 if number < MAX_32_BIT_LINES else np.int64)
        same, nobody = np.arange(len(group), dtype=np.int32), np.empty(0, dtype=np.int32)
        fill_postings(lines, same, np.cumsum(counts) - counts, posting, nobody)
        _add_new_partners(lines, cell, group, posting, options.directed, first, second)
    else:
        seen = np.zeros(int(group.max(initial=0)) + 1, dtype=np.int64)
        before = second if options.directed else second[:0]
        _add_partners(lines, cell, group, seen, first, before)
        first -= second
    return first, second if options.directed else first


@compiled
def _number_cells(lines, limits, number, cell, of_item):  # type: ignore[no-untyped-def]
    """Number the cells of each stratum, items ascending; return where those of each stratum end.

    The baskets of stratum s are limits[s]:limits[s + 1]; cell: that of each line; of_item: that of
    each cell; number: -1 per item.
    """
    items, start, stop, _ = lines
    ends, n = np.zeros(len(limits) - 1, np.int64), 0
    for s in range(len(ends)):
        first = n
        for b in range(limits[s], limits[s + 1]):
            for k in range(start[b], stop[b]):
                if number[items[k]] < first:
                    number[items[k]] = first
                    of_item[n] = items[k]
                    n += 1
        of_item[first:n].sort()
        for c in range(first, n):
            number[of_item[c]] = c
        for b in range(limits[s], limits[s + 1]):
            for k in range(start[b], stop[b]):
                cell[k] = number[items[k]]
        ends[s] = n
    return ends


@compiled
def _add_partners(lines, cell, group, seen, either, second):  # type: ignore[no-untyped-def]
    """either[cell of line] += lines of another group in its basket; second: those before it.

    second: empty where not wanted; seen: a zero per group.
    """
    items, start, stop, _ = lines
    for b in range(len(start)):
        s, e = start[b], stop[b]
        for k in range(s, e):
            g = group[items[k]]
            if len(second):
                second[cell[k]] += k - s - seen[g]
            seen[g] += 1
        for k in range(s, e):
            either[cell[k]] += e - s - seen[group[items[k]]]
        for k in range(s, e):
            seen[group[items[k]]] = 0


@compiled
def _add_new_partners(lines, cell, group, posting, directed, first, second):  # type: ignore[no-untyped-def]
    """Add each record to first[cell of its query] and, if directed, to second[cell of its item].

    The lines of a query (posting: basket and position, by item) are visited customer by customer:
    one stamp per item marks the items that the customer already has a record with.
    """
    items, start, stop, customer = lines
    had = np.zeros(len(group), np.int64)
    stamp, last_item, last_customer = 0, -1, -1
    for p in range(len(posting)):
        b = posting[p, 0]
        line = start[b] + posting[p, 1]
        q = items[line]
        if q != last_item or customer[b] != last_customer:
            stamp += 1
            last_item, last_customer = q, customer[b]
        for other in range(line + 1 if directed else start[b], stop[b]):
            v = items[other]
            if group[v] == group[q] or had[v] == stamp:
                continue
            had[v] = stamp
            first[cell[line]] += 1
            if directed:
                second[cell[other]] += 1
