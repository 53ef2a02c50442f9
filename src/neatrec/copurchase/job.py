"""A `Job`: baskets and a `Counting` that fit each other, as flat arrays. Here every refusal is made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from neatrec.baskets import Baskets, BasketStream, as_shards
from neatrec.catalog import UNKNOWN, Catalog
from neatrec.copurchase.records import Counting, Int32, Int64
from neatrec.errors import ParameterError, ResourceError, must_be
from neatrec.text import printable


@dataclass(frozen=True, eq=False)
class Job:
    """Basket b is `items[start[b]:stop[b]]`; only baskets that are counted are listed."""

    catalog: Catalog
    counting: Counting
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
        from neatrec.copurchase import layout

        if self.customers is None or np.bincount(self.customers).max(initial=0) > 1:
            return False
        last_basket = np.full(len(self.catalog), -1, dtype=np.int64)
        return not layout.has_repeats(self.items, self.start, self.stop, last_basket)

    @property
    def margins_need_pairs(self) -> bool:
        """Whether the margins can be had only by counting the pairs."""
        return self.counting.once_per_customer and not self.customers_are_counts

    def by_customer(self) -> Job:
        """The same baskets, those of one customer together."""
        if self.customers is None:
            return self
        order = np.argsort(self.customers, kind="stable")
        return replace(self, start=self.start[order], stop=self.stop[order], customers=self.customers[order])


def make_job(baskets: BasketStream, counting: Counting) -> Job:
    """The baskets that are counted, all shards in one."""
    shards = checked_shards(baskets, counting)
    users = None if shards[0].users is None else np.concatenate(one_user_table(shards))
    if len(shards) == 1:
        items, offsets = shards[0].items, shards[0].offsets
    else:
        items = np.concatenate([shard.items for shard in shards])
        items.flags.writeable = False  # as in a single shard: the kernels are compiled for read-only lines
        sizes = np.concatenate([shard.sizes for shard in shards])
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    chosen = np.flatnonzero(np.diff(offsets) >= counting.min_basket)
    return Job(
        shards[0].catalog,
        counting,
        items,
        offsets[:-1][chosen],
        offsets[1:][chosen],
        None if users is None else users[chosen],
    )


def checked_shards(baskets: BasketStream, counting: Counting) -> list[Baskets]:
    """The shards, after a look at whether they can be counted so."""
    shards = list(as_shards(baskets))
    if not shards or not all(isinstance(shard, Baskets) for shard in shards):
        raise must_be("baskets", "Baskets or shards of them", [type(shard).__name__ for shard in shards])
    first = shards[0]
    counting.category_of(first.catalog)  # an unknown level is refused before any work is done
    for shard in shards:
        if shard.catalog is not first.catalog and shard.catalog.hash != first.catalog.hash:
            raise ParameterError("shards must share one catalogue, got two that differ")
        if (shard.ordered, shard.users is None) != (first.ordered, first.users is None):
            raise ParameterError("shards must agree on whether cart order and users are known")
        _check_basket_size(shard, counting)
    _check_order(first, counting)
    if counting.once_per_customer and first.users is None:
        raise ParameterError(
            "`once_per_customer` must be False for baskets without users",
            argument="once_per_customer",
            hint="Name the column that holds the user, or count every basket.",
        )
    return shards


def removal_codes(category: Int32) -> Int32:
    """A code for each item such that two lines make a pair if and only if their codes differ, shape (items,).

    An item of unknown category has a code of its own: it makes pairs with all but itself.
    """
    own = np.arange(len(category), dtype=np.int32) + np.int32(category.max(initial=UNKNOWN) + 1)
    return np.where(category == UNKNOWN, own, category)


def pairs_of_size(sizes: npt.NDArray[np.int64], window: int | None) -> Int64:
    """Unordered pairs of lines that baskets of these sizes make, before any is removed.

    >>> pairs_of_size(np.array([1, 2, 4]), None).tolist(), pairs_of_size(np.array([1, 2, 4]), 1).tolist()
    ([0, 1, 6], [0, 1, 3])
    """
    reach = np.maximum(sizes - 1, 0) if window is None else np.clip(sizes - 1, 0, window)
    return np.asarray(reach * sizes - reach * (reach + 1) // 2, dtype=np.int64)


def one_user_table(shards: list[Baskets]) -> list[Int32]:
    """The users of each shard, coded over one table where shards bring tables of their own."""
    tables = [shard.user_ids for shard in shards if shard.user_ids is not None]
    if all(table is tables[0] or table.equals(tables[0]) for table in tables):
        return [shard.users for shard in shards if shard.users is not None]
    codes = pa.concat_arrays(tables).dictionary_encode().indices.to_numpy()
    starts = np.cumsum([0] + [len(table) for table in tables[:-1]])
    return [codes[start + shard.users] for start, shard in zip(starts, shards, strict=True) if shard.users is not None]


def _check_order(baskets: Baskets, counting: Counting) -> None:
    if baskets.ordered:
        return
    if counting.directed:
        raise ParameterError(
            "`directed` must be False for baskets without cart order",
            argument="directed",
            hint="Count with directed=False, or name the column that holds the cart position.",
        )
    if counting.window is not None:
        raise ParameterError(
            f"`window` must be None for baskets without cart order, got {counting.window}",
            argument="window",
            hint="Count all pairs, or name the column that holds the cart position.",
        )


def _check_basket_size(baskets: Baskets, counting: Counting) -> None:
    if not len(baskets):
        return
    pairs = pairs_of_size(baskets.sizes, counting.window)
    worst = int(pairs.argmax())
    if pairs[worst] > counting.max_basket_pairs:
        raise ResourceError(
            f"basket '{printable(baskets.ids[worst].as_py())}' has {baskets.sizes[worst]:,} lines, which make "
            f"{pairs[worst]:,} pairs, more than `max_basket_pairs` = {counting.max_basket_pairs:,}",
            hint="Set a window, leave the basket out (it may be a whole day's sales or a test), or raise the cap.",
            argument="max_basket_pairs",
        )
