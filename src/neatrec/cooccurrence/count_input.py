"""A `CountInput`: the baskets to be counted, as flat arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from neatrec.cooccurrence.counts import CountOptions, Int32, Int64
from neatrec.cooccurrence.input_summary import InputSummary
from neatrec.data.catalog import UNKNOWN, Catalog


@dataclass(frozen=True, eq=False)
class CountInput:
    """Basket b is `items[start[b]:stop[b]]`; only baskets that are counted are listed."""

    catalog: Catalog
    counting: CountOptions
    items: Int32
    start: Int64
    stop: Int64
    customers: Int32 | None
    """The customer of each basket, shape (baskets,), where users are known."""

    @property
    def sizes(self) -> Int64:
        return self.stop - self.start

    @property
    def window(self) -> int:
        """The window, or the longest basket where all pairs count."""
        longest = int(self.sizes.max(initial=1))
        return longest if self.counting.window is None else min(self.counting.window, longest)

    @property
    def all_pairs(self) -> bool:
        return self.window >= int(self.sizes.max(initial=1)) - 1

    @cached_property
    def customers_are_counts(self) -> bool:
        """Whether every pair has as many customers as records: one basket each, and no item twice in a basket."""
        from neatrec.cooccurrence import layout

        if self.customers is None or np.bincount(self.customers).max(initial=0) > 1:
            return False
        last_basket = np.full(len(self.catalog), -1, dtype=np.int64)
        return not layout.has_repeats(self.items, self.start, self.stop, last_basket)

    @property
    def margins_need_pairs(self) -> bool:
        """Whether the margins can be had only by counting the pairs."""
        return self.counting.once_per_customer and not self.customers_are_counts

    def by_customer(self) -> CountInput:
        """The same baskets, those of one customer together."""
        if self.customers is None:
            return self
        order = np.argsort(self.customers, kind="stable")
        return replace(self, start=self.start[order], stop=self.stop[order], customers=self.customers[order])


def make_job(survey: InputSummary) -> CountInput:
    """The baskets that are counted, all shards in one."""
    shards, users = zip(*survey.shards_with_customers(), strict=True)
    items, offsets = shards[0].items, shards[0].offsets
    if len(shards) > 1:
        items = np.concatenate([shard.items for shard in shards])
        items.flags.writeable = False  # as in a single shard: the kernels are compiled for read-only lines
        offsets = np.concatenate([[0], np.cumsum(survey.sizes)]).astype(np.int64)
    chosen = np.flatnonzero(survey.sizes >= survey.counting.min_basket)
    return CountInput(
        survey.catalog,
        survey.counting,
        items,
        offsets[:-1][chosen],
        offsets[1:][chosen],
        np.concatenate(users)[chosen] if survey.users_known else None,
    )


def removal_codes(category: Int32) -> Int32:
    """A code for each item such that two lines make a pair if and only if their codes differ, shape (items,).

    An item of unknown category has a code of its own: it makes pairs with all but itself.
    """
    own = np.arange(len(category), dtype=np.int32) + np.int32(category.max(initial=UNKNOWN) + 1)
    return np.where(category == UNKNOWN, own, category)
