"""The margins of each stratum, all in one pass over the baskets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from neatrec.compiled import compiled
from neatrec.cooccurrence import CountOptions
from neatrec.data.baskets import Baskets
from neatrec.labels.order import id_rank
from neatrec.statistics.independence import groups_of

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class StratumMargins:
    """Records with an item first and second, for each stratum and item seen in it: sorted by stratum, then item."""

    stratum: Counts
    item: Counts
    first: Counts
    second: Counts


def stratum_margins(baskets: Baskets, strata: Counts, counting: CountOptions) -> StratumMargins:
    """The margins of a count without window, split by the stratum of the basket.

    A pair that counts once a customer belongs to the stratum of the customer's first basket with it: by time where
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
    _tally(
        visits.items,
        slot,
        visits.offsets,
        visits.basket_of_line,
        customer[order].astype(np.int64),
        groups_of(counting.category_of(baskets.catalog)),
        np.argsort(visits.items, kind="stable"),
        counting.once_per_customer,
        counting.directed,
        first,
        second,
    )
    stratum, item = np.divmod(seen, max(len(baskets.catalog), 1))
    return StratumMargins(stratum, item, first, second if counting.directed else first)


@compiled
def _tally(items, slot, offsets, basket, customer, group, by_item, once, directed, first, second):
    """Add each record to first[slot of its query's line] and, where directed, to second[slot of its item's line].

    items, slot, basket and by_item have the shape (lines,); by_item lists the lines of each item in the order of
    visits. A query is walked customer by customer, so one stamp for each item tells what the customer has had.
    """
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
