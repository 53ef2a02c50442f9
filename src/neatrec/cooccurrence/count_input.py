"""`CountInput`: the counted baskets as flat arrays, and every refusal."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
    """The items of all lines."""
    sizes: Int64
    customers: Int32 | None
    """The customer of each basket, where users are known."""


@dataclass(frozen=True, eq=False)
class CountInput:
    """The counted baskets: basket b is `items[start[b]:stop[b]]`."""

    category: Int32
    """Category codes for removal, (items,); all UNKNOWN where same-category pairs are kept."""
    counting: CountOptions
    items: Int32
    start: Int64
    stop: Int64
    customers: Int32 | None
    """The customer of each basket, shape (baskets,), where users are known."""

    @classmethod
    def of(cls, baskets: Baskets, counting: CountOptions) -> CountInput:
        """Select the large enough baskets; refuse options that they cannot be counted with."""
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
        """Lines of each basket."""
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
        """Whether the window is as wide as the longest basket."""
        return self.window >= int(self.sizes.max(initial=1)) - 1

    @property
    def margins_need_pairs(self) -> bool:
        """Whether margins are sums over pairs; else they follow from the lines."""
        return not self.all_pairs or self.counting.once_per_customer

    def without_lines(self) -> CountInput:
        """The options without lines; `of_part` adds some."""
        empty = np.empty(0, dtype=np.int64)
        items = np.empty(0, dtype=np.int32)
        return self.of_part(Part(items, empty, None))

    def of_part(self, part: Part) -> CountInput:
        """The baskets of a part with the options of these."""
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
    """Unordered pairs of lines in baskets of these sizes, before any is removed.

    >>> pairs_of_size(np.array([1, 2, 4]), None).tolist()
    [0, 1, 6]
    >>> pairs_of_size(np.array([1, 2, 4]), 1).tolist()
    [0, 1, 3]
    """
    reach = np.maximum(sizes - 1, 0) if window is None else np.clip(sizes - 1, 0, window)
    return np.asarray(reach * sizes - reach * (reach + 1) // 2, dtype=np.int64)


def removal_codes(category: Int32) -> Int32:
    """A code per item, shape (items,): two lines make a pair if and only if their codes differ.

    An item of unknown category has a code of its own: it makes pairs with all others.
    """
    own = np.arange(len(category), dtype=np.int32) + np.int32(category.max(initial=UNKNOWN) + 1)
    return np.where(category == UNKNOWN, own, category)


def _check_options(baskets: Baskets, counting: CountOptions) -> None:
    """Refuse options that need a cart order or users where the baskets have none."""
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
    """Refuse the longest basket, by name, if it makes too many pairs."""
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
