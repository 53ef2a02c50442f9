"""The input of a count: `InputSummary` (one look over the shards, every refusal) and `CountInput` (flat arrays)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neatrec.cooccurrence.counts import CountOptions, Int32, Int64
from neatrec.data.baskets import Baskets, BasketStream, as_shards
from neatrec.data.catalog import UNKNOWN, Catalog
from neatrec.errors import ParameterError, ResourceError, must_be
from neatrec.text import printable


class Part(NamedTuple):
    """Some baskets, one after another."""

    items: Int32
    """Of all lines."""
    sizes: Int64
    customers: npt.NDArray[Any] | None
    """Of each basket, where users are known."""


@dataclass(frozen=True, eq=False)
class InputSummary:
    """Shards that can be counted with these options. Each pass reads them again, one at a time."""

    shards: Iterable[Baskets]
    counting: CountOptions
    catalog: Catalog
    ordered: bool
    users_known: bool
    sizes: Int64
    """Lines of every basket of every shard, shape (baskets,)."""

    @property
    def counted_sizes(self) -> Int64:
        """Lines of the baskets that are large enough to count."""
        return self.sizes[self.sizes >= self.counting.min_basket]

    @property
    def records(self) -> int:
        """Pairs of lines before same-category pairs are removed."""
        return int(pairs_of_size(self.counted_sizes, self.counting.window).sum())

    @cached_property
    def item_counts(self) -> Int64:
        """Lines of each item, shape (items,)."""
        total = np.zeros(len(self.catalog), dtype=np.int64)
        for shard in self.shards:
            total += shard.item_counts
        return total

    @cached_property
    def customer_codes(self) -> list[Int32 | None]:
        """Of each shard its users' codes in one table, for all passes; None where those of the shard are the same."""
        found: list[Int32 | None] = []
        table: pa.LargeStringArray | None = None
        for shard in self.shards:
            ids = shard.user_ids
            if ids is None or table is None or ids is table or ids.equals(table):
                table = ids
                found.append(None)
                continue
            codes = pc.fill_null(pc.index_in(ids, value_set=table), -1).to_numpy(zero_copy_only=False).copy()
            new = codes < 0
            codes[new] = len(table) + np.arange(np.count_nonzero(new))
            table = pa.concat_arrays([table, ids.filter(pa.array(new))])
            found.append(codes)
        return found

    def shards_with_customers(self) -> Iterator[tuple[Baskets, Int32 | None]]:
        """The shards, and the customer of each basket: coded over one table where shards bring tables of their own."""
        codes = iter(self.customer_codes if self.users_known else ())
        for shard in self.shards:
            mine = next(codes, None)
            yield shard, shard.users if mine is None else mine[shard.users]

    def parts(self, lines: int) -> Iterator[Part]:
        """All baskets in parts of about so many lines."""
        for shard, customers in self.shards_with_customers():
            cuts = np.searchsorted(shard.offsets, np.arange(0, shard.lines, lines))
            for first, last in pairwise(np.unique(np.append(cuts, len(shard))).tolist()):
                items = shard.items[shard.offsets[first] : shard.offsets[last]]
                yield Part(items, shard.sizes[first:last], None if customers is None else customers[first:last])


def summarize(baskets: BasketStream, counting: CountOptions) -> InputSummary:
    """One look at every shard: whether it can be counted with these options, and how large it is."""
    shards = as_shards(baskets)
    known: tuple[Catalog, bool, bool] | None = None  # not the first shard itself, whose lines would stay in memory
    sizes = []
    for shard in shards:
        if not isinstance(shard, Baskets):
            raise must_be("baskets", "Baskets or shards of them", [type(shard).__name__])
        if known is None:
            known = (shard.catalog, shard.ordered, shard.users is not None)
            check_options(counting, shard.catalog, ordered=shard.ordered, users_known=shard.users is not None)
        _check_alike(*known, shard)
        if len(shard):
            longest = int(shard.sizes.argmax())
            check_basket_size(shard.ids[longest].as_py(), int(shard.sizes[longest]), counting)
        sizes.append(shard.sizes)
    if known is None:
        raise must_be("baskets", "Baskets or shards of them", [])
    return InputSummary(shards, counting, *known, np.concatenate(sizes))


def pairs_of_size(sizes: npt.NDArray[np.int64], window: int | None) -> Int64:
    """Unordered pairs of lines that baskets of these sizes make, before any is removed.

    >>> pairs_of_size(np.array([1, 2, 4]), None).tolist(), pairs_of_size(np.array([1, 2, 4]), 1).tolist()
    ([0, 1, 6], [0, 1, 3])
    """
    reach = np.maximum(sizes - 1, 0) if window is None else np.clip(sizes - 1, 0, window)
    return np.asarray(reach * sizes - reach * (reach + 1) // 2, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class CountInput:
    """Basket b is `items[start[b]:stop[b]]`; only baskets that are counted are listed."""

    category: Int32
    """The category codes used for removal, shape (items,); all UNKNOWN where same-category pairs are kept."""
    counting: CountOptions
    items: Int32
    start: Int64
    stop: Int64
    customers: Int32 | None
    """The customer of each basket, shape (baskets,), where users are known."""

    @classmethod
    def without_lines(cls, counting: CountOptions, catalog: Catalog) -> CountInput:
        """How lines are counted; `of_part` brings them."""
        nowhere = np.empty(0, dtype=np.int64)
        return cls(counting.category_of(catalog), counting, np.empty(0, dtype=np.int32), nowhere, nowhere, None)

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
        from neatrec.cooccurrence.layout import basket_lines, has_repeats

        if self.customers is None or np.bincount(self.customers).max(initial=0) > 1:
            return False
        last_basket = np.full(len(self.category), -1, dtype=np.int64)
        return not has_repeats(basket_lines(self), last_basket)

    @property
    def margins_need_pairs(self) -> bool:
        """Whether the margins can be had only by counting the pairs."""
        return self.counting.once_per_customer and not self.customers_are_counts

    def of_part(self, part: Part, min_basket: int = 1) -> CountInput:
        """The baskets of a part with at least so many lines, counted as these."""
        ends = np.cumsum(part.sizes, dtype=np.int64)
        chosen = np.flatnonzero(part.sizes >= min_basket)
        part.items.flags.writeable = False  # the kernels are compiled for read-only lines
        customers = None if part.customers is None else part.customers[chosen]
        return replace(
            self, items=part.items, start=(ends - part.sizes)[chosen], stop=ends[chosen], customers=customers
        )

    def by_customer(self) -> CountInput:
        """The same baskets, those of one customer together."""
        if self.customers is None:
            return self
        order = np.argsort(self.customers, kind="stable")
        return replace(self, start=self.start[order], stop=self.stop[order], customers=self.customers[order])


def flat_input(summary: InputSummary) -> CountInput:
    """The baskets that are counted, all shards in one."""
    shards, users = zip(*summary.shards_with_customers(), strict=True)
    items, offsets = shards[0].items, shards[0].offsets
    if len(shards) > 1:
        items = np.concatenate([shard.items for shard in shards])
        items.flags.writeable = False  # as in a single shard: the kernels are compiled for read-only lines
        offsets = np.concatenate([[0], np.cumsum(summary.sizes)]).astype(np.int64)
    chosen = np.flatnonzero(summary.sizes >= summary.counting.min_basket)
    return CountInput(
        summary.counting.category_of(summary.catalog),
        summary.counting,
        items,
        offsets[:-1][chosen],
        offsets[1:][chosen],
        np.concatenate(users)[chosen] if summary.users_known else None,
    )


def removal_codes(category: Int32) -> Int32:
    """A code for each item such that two lines make a pair if and only if their codes differ, shape (items,).

    An item of unknown category has a code of its own: it makes pairs with all but itself.
    """
    own = np.arange(len(category), dtype=np.int32) + np.int32(category.max(initial=UNKNOWN) + 1)
    return np.where(category == UNKNOWN, own, category)


def check_options(counting: CountOptions, catalog: Catalog, *, ordered: bool, users_known: bool) -> None:
    """Refuse what baskets without cart order, users or that level of categories cannot give."""
    counting.category_of(catalog)  # refuses an unknown level
    if not ordered and counting.directed:
        raise ParameterError(
            "`directed` must be False for baskets without cart order",
            argument="directed",
            hint="Count with directed=False, or name the column that holds the cart position.",
        )
    if not ordered and counting.window is not None:
        raise ParameterError(
            f"`window` must be None for baskets without cart order, got {counting.window}",
            argument="window",
            hint="Count all pairs, or name the column that holds the cart position.",
        )
    if counting.once_per_customer and not users_known:
        raise ParameterError(
            "`once_per_customer` must be False for baskets without users",
            argument="once_per_customer",
            hint="Name the column that holds the user, or count every basket.",
        )


def check_basket_size(basket: str, size: int, counting: CountOptions) -> None:
    """Refuse the longest basket by name if it makes too many pairs."""
    pairs = int(pairs_of_size(np.array([size]), counting.window)[0])
    if pairs > counting.max_basket_pairs:
        raise ResourceError(
            f"basket '{printable(basket)}' has {size:,} lines, which make {pairs:,} pairs, "
            f"more than `max_basket_pairs` = {counting.max_basket_pairs:,}",
            hint="Raise --max-basket-pairs, set a window, or leave the basket out "
            "(it may be a whole day's sales or a test).",
            argument="max_basket_pairs",
        )


def _check_alike(catalog: Catalog, ordered: bool, users_known: bool, shard: Baskets) -> None:
    if shard.catalog is not catalog and shard.catalog.hash != catalog.hash:
        raise ParameterError("shards must share one catalogue, got two that differ")
    if (shard.ordered, shard.users is not None) != (ordered, users_known):
        raise ParameterError("shards must agree on whether cart order and users are known")
