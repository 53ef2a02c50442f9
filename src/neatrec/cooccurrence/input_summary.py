"""`InputSummary`: one look over the shards before counting. Here every refusal is made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neatrec.cooccurrence.counts import CountOptions, Int32, Int64
from neatrec.data.baskets import Baskets, BasketStream, as_shards
from neatrec.data.catalog import Catalog
from neatrec.errors import ParameterError, ResourceError, must_be
from neatrec.text import printable

Known = tuple[Catalog, bool, bool]
"""What all shards share: the catalogue, whether cart order is known, whether users are."""


@dataclass(frozen=True, eq=False)
class InputSummary:
    """Shards that can be counted as asked. They are read anew for each pass, one at a time."""

    shards: Iterable[Baskets]
    counting: CountOptions
    catalog: Catalog
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

    def shards_with_customers(self) -> Iterator[tuple[Baskets, Int32 | None]]:
        """The shards, and the customer of each basket: coded over one table where shards bring tables of their own."""
        table: pa.LargeStringArray | None = None
        for shard in self.shards:
            if shard.users is None or shard.user_ids is None:
                yield shard, None
            elif table is None or shard.user_ids is table or shard.user_ids.equals(table):
                table = shard.user_ids
                yield shard, shard.users
            else:
                new = shard.user_ids.filter(pc.is_null(pc.index_in(shard.user_ids, value_set=table)))
                table = pa.concat_arrays([table, new])
                codes = pc.index_in(shard.user_ids, value_set=table).to_numpy()
                yield shard, codes[shard.users]


def survey(baskets: BasketStream, counting: CountOptions) -> InputSummary:
    """One look at every shard: can it be counted so, and how large is it?"""
    shards = as_shards(baskets)
    known: Known | None = None
    sizes = []
    for shard in shards:
        if not isinstance(shard, Baskets):
            raise must_be("baskets", "Baskets or shards of them", [type(shard).__name__])
        if known is None:
            known = (shard.catalog, shard.ordered, shard.users is not None)
            _check_counting(shard, counting)
        _check_alike(known, shard)
        _check_basket_size(shard, counting)
        sizes.append(shard.sizes)
    if known is None:
        raise must_be("baskets", "Baskets or shards of them", [])
    return InputSummary(shards, counting, known[0], known[2], np.concatenate(sizes))


def pairs_of_size(sizes: npt.NDArray[np.int64], window: int | None) -> Int64:
    """Unordered pairs of lines that baskets of these sizes make, before any is removed.

    >>> pairs_of_size(np.array([1, 2, 4]), None).tolist(), pairs_of_size(np.array([1, 2, 4]), 1).tolist()
    ([0, 1, 6], [0, 1, 3])
    """
    reach = np.maximum(sizes - 1, 0) if window is None else np.clip(sizes - 1, 0, window)
    return np.asarray(reach * sizes - reach * (reach + 1) // 2, dtype=np.int64)


def _check_alike(known: Known, shard: Baskets) -> None:
    catalog, ordered, users = known
    if shard.catalog is not catalog and shard.catalog.hash != catalog.hash:
        raise ParameterError("shards must share one catalogue, got two that differ")
    if (shard.ordered, shard.users is not None) != (ordered, users):
        raise ParameterError("shards must agree on whether cart order and users are known")


def _check_counting(baskets: Baskets, counting: CountOptions) -> None:
    counting.category_of(baskets.catalog)  # refuses an unknown level
    _check_order(baskets, counting)
    if counting.once_per_customer and baskets.users is None:
        raise ParameterError(
            "`once_per_customer` must be False for baskets without users",
            argument="once_per_customer",
            hint="Name the column that holds the user, or count every basket.",
        )


def _check_order(baskets: Baskets, counting: CountOptions) -> None:
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


def _check_basket_size(baskets: Baskets, counting: CountOptions) -> None:
    if not len(baskets):
        return
    pairs = pairs_of_size(baskets.sizes, counting.window)
    worst = int(pairs.argmax())
    if pairs[worst] > counting.max_basket_pairs:
        raise ResourceError(
            f"basket '{printable(baskets.ids[worst].as_py())}' has {baskets.sizes[worst]:,} lines, which make "
            f"{pairs[worst]:,} pairs, more than `max_basket_pairs` = {counting.max_basket_pairs:,}",
            hint="Raise --max-basket-pairs, set a window, or leave the basket out "
            "(it may be a whole day's sales or a test).",
            argument="max_basket_pairs",
        )
