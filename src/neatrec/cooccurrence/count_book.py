"""`CountBook`: the counts of one training, each made once and known by its name."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa

from neatrec.cooccurrence.counting import MEMORY, Engine, count, margins
from neatrec.data.baskets import Baskets
from neatrec.data.counts import CountOptions, Counts, Margins, Mask
from neatrec.data.splits import uniform_of_ids
from neatrec.errors import must_be_one_of

PARTS = ("all", "half A", "half B", "early", "late")


class CountBook:
    """The counts of some baskets and of their parts.

    The parts are all baskets, two random halves of the customers (of the baskets where customers
    are not known), and the baskets before and after the mean time.
    """

    def __init__(self, baskets: Baskets, engine: Engine = MEMORY) -> None:
        self.baskets, self.engine = baskets, engine
        self.passes: list[str] = []
        """The name of the part, for each pass over its pairs."""
        self._counts: dict[tuple[str, CountOptions], Counts] = {}
        self._margins: dict[tuple[str, CountOptions], Margins] = {}

    def count(self, part: str, options: CountOptions) -> Counts:
        """The pairs of a part; counts of selected pairs are made anew at each call."""
        selective = options.only is not None or options.limit is not None
        key = part, options
        if not selective and key in self._counts:
            return self._counts[key]
        self.passes.append(part)
        counts = count(self.part(part), options, self.engine, totals=self._margins.get(key))
        self._margins[key] = counts.margins
        if not selective:
            self._counts[key] = counts
        return counts

    def margins(self, part: str, options: CountOptions) -> Margins:
        """The totals of a part, from its pairs if these are counted already."""
        key = part, options
        if key not in self._margins:
            if options.once_per_customer:
                self.passes.append(part)
            self._margins[key] = margins(self.part(part), options)
        return self._margins[key]

    def part(self, name: str) -> Baskets:
        """The baskets of a part."""
        if name == "all":
            return self.baskets
        if name not in PARTS:
            raise must_be_one_of("part", PARTS, name)
        first = self._half_a if name.startswith("half") else self._early
        return self.baskets.select(first if name in ("half A", "early") else ~first)

    @property
    def has_periods(self) -> bool:
        """Whether times are known."""
        return self.baskets.times is not None and len(self.baskets) > 0

    @cached_property
    def _early(self) -> Mask:
        times = self.baskets.times
        assert times is not None
        return np.asarray(times < times.sum(dtype=np.float64) / len(times))

    @cached_property
    def _half_a(self) -> Mask:
        baskets = self.baskets
        if baskets.users is None or baskets.user_ids is None:
            return _random_half(baskets.ids)
        return _random_half(baskets.user_ids)[baskets.users]


def _random_half(ids: pa.LargeStringArray) -> Mask:
    return np.asarray(uniform_of_ids(ids, "half") < 0.5)
