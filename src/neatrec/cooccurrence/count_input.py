"""`CountInput`: the baskets that are counted, as flat arrays, and every refusal."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neatrec.data.baskets import Baskets
from neatrec.data.catalog import UNKNOWN
from neatrec.data.counts import CountOptions, Int32, Int64
from neatrec.errors import ParameterError, ResourceError, must_be
from neatrec.text import printable


class Part(NamedTuple):
    """Some baskets, one after another."""

    items: Int32
    """Of all lines."""
    sizes: Int64
    customers: Int32 | None
    """Of each basket, where users are known."""


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
    def of(cls, baskets: Baskets, counting: CountOptions) -> CountInput:
        """The baskets that are large enough; refuses what cannot be counted with these options."""
        if not isinstance(baskets, Baskets):
            raise must_be("baskets", "Baskets", type(baskets).__name__)
        _check_options(baskets, counting)
        _check_longest(baskets, counting)
        large = np.flatnonzero(baskets.sizes >= counting.min_basket)
        return cls(
            counting.category_of(baskets.catalog),
            counting,
            baskets.items,
            baskets.offsets[:-1][large],
            baskets.offsets[1:][large],
            None if baskets.users is None else baskets.users[large],
        )

    @property
    def sizes(self) -> Int64:
        return self.stop - self.start

    @property
    def records(self) -> int:
        """Pairs of lines before same-category pairs are removed."""
        return int(pairs_of_size(self.sizes, self.counting.window).sum())

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

    def without_lines(self) -> CountInput:
        """How lines are counted; `of_part` brings them."""
        empty = np.empty(0, dtype=np.int64)
        items = np.empty(0, dtype=np.int32)
        return replace(self, items=items, start=empty, stop=empty, customers=None)

    def of_part(self, part: Part) -> CountInput:
        """The baskets of a part, counted as these."""
        ends = np.cumsum(part.sizes, dtype=np.int64)
        part.items.flags.writeable = False  # the kernels are compiled for read-only lines
        return replace(
            self,
            items=part.items,
            start=ends - part.sizes,
            stop=ends,
            customers=part.customers,
        )

    def by_customer(self) -> CountInput:
        """The same baskets, those of one customer together."""
        if self.customers is None:
            return self
        order = np.argsort(self.customers, kind="stable")
        return replace(
            self, start=self.start[order], stop=self.stop[order], customers=self.customers[order]
        )


def pairs_of_size(sizes: npt.NDArray[np.int64], window: int | None) -> Int64:
    """Unordered pairs of lines that baskets of these sizes make, before any is removed.

    >>> pairs_of_size(np.array([1, 2, 4]), None).tolist(), pairs_of_size(np.array([1, 2, 4]), 1).tolist()
    ([0, 1, 6], [0, 1, 3])
    """
    reach = np.maximum(sizes - 1, 0) if window is None else np.clip(sizes - 1, 0, window)
    return np.asarray(reach * sizes - reach * (reach + 1) // 2, dtype=np.int64)


def removal_codes(category: Int32) -> Int32:
    """A code for each item such that two lines make a pair if and only if their codes differ, shape (items,).

    An item of unknown category has a code of its own: it makes pairs with all but itself.
    """
    own = np.arange(len(category), dtype=np.int32) + np.int32(category.max(initial=UNKNOWN) + 1)
    return np.where(category == UNKNOWN, own, category)


def _check_options(baskets: Baskets, counting: CountOptions) -> None:
    """Refuse what baskets without cart order or users cannot give."""
    if not baskets.ordered and counting.directed:
        raise ParameterError(
            "`directed` must be False for baskets without cart order",
            argument="directed",
            hint="Count with directed=False, or name the column that holds the cart position.",
        )
    if not baskets.ordered and counting.forward:
        raise ParameterError(
            "`forward` must be False for baskets without cart order", argument="forward"
        )
    if not baskets.ordered and counting.window is not None:
        raise ParameterError(
            f"`window` must be None for baskets without cart order, got {counting.window}",
            argument="window",
            hint="Count all pairs, or name the column that holds the cart position.",
        )
    if counting.once_per_customer and baskets.users is None:
        raise ParameterError(
            "`once_per_customer` must be False for baskets without users",
            argument="once_per_customer",
            hint="Name the column that holds the user, or count every basket.",
        )


def _check_longest(baskets: Baskets, counting: CountOptions) -> None:
    """Refuse the longest basket by name if it makes too many pairs."""
    if not len(baskets):
        return
    longest = int(baskets.sizes.argmax())
    size = baskets.sizes[longest]
    pairs = int(pairs_of_size(size[None], counting.window)[0])
    if pairs > counting.max_basket_pairs:
        basket = printable(baskets.ids[longest].as_py())
        raise ResourceError(
            f"basket '{basket}' has {size:,} lines, which make {pairs:,} pairs, "
            f"more than `max_basket_pairs` = {counting.max_basket_pairs:,}",
            hint="Raise --max-basket-pairs, set a window, or leave the basket out "
            "(it may be a whole day's sales or a test).",
            argument="max_basket_pairs",
        )
