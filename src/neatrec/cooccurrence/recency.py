"""Recency: a basket counts 2^(-age / half-life) of one; the newest counts one.

Weights are counted by the engines as they are: a basket stands in up to `COPIES` copies of the shop, in as many as its
weight says, each copy has customers of its own, and counts are divided by `COPIES`. What is left of a division is
rounded up or down by a hash, so that counts are whole numbers with the right mean. No basket weighs more than one, so a
weighted count spreads no wider than a Poisson count of the same mean, and tests of plain counts hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from neatrec.cooccurrence.counts import (
    CooccurrenceCounts,
    CountOptions,
    Int32,
    Int64,
    Keep,
    Margins,
    Mask,
    PairBlock,
    Totals,
)
from neatrec.cooccurrence.pair_filter import PairFilter, prefilter_of
from neatrec.data.baskets import Baskets, BasketStream, as_shards
from neatrec.data.catalog import string_array
from neatrec.data.splits import uniform_of_ids
from neatrec.errors import ParameterError, must_be
from neatrec.text import plural

COPIES = 4
"""More cost time and change a weight by less than 1 / COPIES."""
DAY = 86_400 * 10**6
UNITS = {"": 1, "d": 1, "w": 7, "y": 365.25}
LONGEST = 36_525
"""Days: beyond a hundred years a half-life is a mistake."""
SALT = 0x9E3779B97F4A7C15


def parse_half_life(value: str | float | None) -> float | None:
    """A half-life in days; None, as of an infinite one: every basket counts the same.

    >>> parse_half_life("90d"), parse_half_life("2w"), parse_half_life("none"), parse_half_life(float("inf"))
    (90.0, 14.0, None, None)
    """
    if value is None or str(value).strip().lower() in ("none", "inf"):
        return None
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([dwy]?)\s*", str(value).lower())
    days = float(found[1]) * UNITS[found[2]] if found and not isinstance(value, bool) else 0.0
    if not 0 < days <= LONGEST:
        raise must_be("half_life", "days, weeks or years such as 90d, 12w or 1y, or none", value)
    return days


def half_life_words(days: float | None) -> str:
    """What is said of weighted numbers; "" where baskets count the same.

    >>> half_life_words(90.0), half_life_words(None)
    ('Weighted: half-life 90 days.', '')
    """
    if days is None:
        return ""
    return f"Weighted: half-life {plural(int(days), 'day') if days == int(days) else f'{days:g} days'}."


def half_life_on_spark() -> ParameterError:
    return ParameterError(
        "`half_life` must be none where Spark counts",
        hint="Count with --engine memory or disk, or leave --half-life out.",
        argument="half_life",
    )


def as_of_newest(counting: CountOptions, baskets: BasketStream) -> CountOptions:
    """The options with ages measured from the newest of these baskets, for counting parts of them alike."""
    if counting.half_life is None or counting.as_of is not None:
        return counting
    newest = [int(_times(shard).max()) for shard in as_shards(baskets) if len(shard)]
    return replace(counting, as_of=max(newest, default=0))


def _times(baskets: Baskets) -> Int64:
    if baskets.times is None:
        raise ParameterError(
            "`half_life` must be none: these baskets have no times",
            hint="Name the time column with --time, or leave --half-life out.",
            argument="half_life",
        )
    return baskets.times


def copies_of(baskets: Baskets, counting: CountOptions) -> npt.NDArray[np.int8]:
    """In how many copies of the shop each basket stands: COPIES times its weight, rounded by the hash of its id."""
    counting = as_of_newest(counting, baskets)
    assert counting.half_life is not None
    assert counting.as_of is not None
    weight = np.exp2(-np.maximum(counting.as_of - _times(baskets), 0) / DAY / counting.half_life)
    return np.floor(COPIES * weight + uniform_of_ids(baskets.ids, "half-life")).astype(np.int8)


def copied(baskets: Baskets, copies: npt.NDArray[np.int8]) -> tuple[Baskets, Int64]:
    """The copies of the baskets, each copy with customers of its own, and which basket each one is a copy of."""
    number = [np.flatnonzero(copies > copy) for copy in range(COPIES)]
    source = np.concatenate(number)
    found = baskets.select(source)
    if baskets.users is None or baskets.user_ids is None:
        return found, source
    everyone = max(len(baskets.user_ids), 1)
    copy = np.repeat(np.arange(COPIES), [len(each) for each in number])
    present, users = np.unique(copy * everyone + baskets.users[source], return_inverse=True)
    names, suffix = baskets.user_ids.take(present % everyone), string_array((present // everyone).astype(str))
    joined = pc.binary_join_element_wise(names, suffix, string_array(["\n"])[0])
    return replace(found, users=users.astype(np.int32), user_ids=joined), source


@dataclass(frozen=True, eq=False)
class CopiedShards:
    """The copies of each shard, made again at each pass: a stream stays one shard in memory."""

    source: BasketStream
    counting: CountOptions

    def __iter__(self) -> Iterator[Baskets]:
        for shard, copies in zip(as_shards(self.source), self._copies, strict=True):
            yield copied(shard, copies)[0]

    @property
    def baskets(self) -> int:
        """Baskets that are counted, whatever their weight."""
        return sum(int((shard.sizes >= self.counting.min_basket).sum()) for shard in as_shards(self.source))

    @cached_property
    def _copies(self) -> list[npt.NDArray[np.int8]]:
        counting = as_of_newest(self.counting, self.source)
        return [copies_of(shard, counting) for shard in as_shards(self.source)]


def pair_hash(query: Int32, item: Int32, salt: int = 0) -> npt.NDArray[np.uint64]:
    """64 bits for each ordered pair."""
    from neatrec.compiled import splitmix64  # loads Numba, which reading baskets does without

    key = (query.astype(np.uint64) << np.uint64(32) | item.astype(np.uint64)) ^ np.uint64(salt)
    hashed: npt.NDArray[np.uint64] = splitmix64.py_func(key)
    return hashed


def divided(block: PairBlock) -> PairBlock:
    """The counts of copies as counts of baskets; what is left of the division is rounded by the pair's hash."""

    def whole(count: Int64 | None, query: Int32, item: Int32) -> Any:
        if count is None:
            return None
        return (count + (pair_hash(query, item, SALT) % np.uint64(COPIES)).astype(np.int64)) // COPIES

    there = block.query, block.item
    back = block.item, block.query
    return PairBlock(*there, whole(block.count, *there), whole(block.reverse, *back), whole(block.customers, *there))


def per_copy(totals: Totals) -> Totals:
    """The totals of copies as weighted totals, exact: expected counts are made of them."""
    return totals / COPIES


def divided_margins(margins: Margins, baskets: int) -> Margins:
    """The weighted totals of so many baskets, from those of their copies."""
    first, second = per_copy(margins.first), per_copy(margins.second)
    return replace(margins, first=first, second=second, records=round(margins.records / COPIES), baskets=baskets)


class WeightedKeep:
    """A `keep` of weighted counts for an engine that counts copies; None keeps every pair that is left."""

    def __init__(self, keep: Keep | None, baskets: int) -> None:
        self.keep, self.baskets, self.pairs = keep, baskets, 0
        self.margins: Margins
        self.filter: PairFilter

    def prefilter(self, margins: Margins) -> PairFilter:
        """Lets all pairs pass: they are divided first."""
        self.margins = divided_margins(margins, self.baskets)
        self.filter = prefilter_of(self.keep, self.margins)
        return PairFilter()

    def __call__(self, block: PairBlock, _: Margins) -> Mask:
        weighted = divided(block)
        seen = np.flatnonzero(weighted.count > 0)
        self.pairs += len(seen)
        seen = seen[self.filter.passes(weighted.where(seen))]
        mask = np.zeros(len(block), dtype=bool)
        mask[seen] = True if self.keep is None else self.keep(weighted.where(seen), self.margins)
        return mask

    def weighted(self, counts: CooccurrenceCounts, counting: CountOptions) -> CooccurrenceCounts:
        """What was kept of a count of copies, as `counting` wants it."""
        block = PairBlock(counts.query, counts.item, counts.count, counts.reverse, counts.customers)
        totals = replace(divided_margins(counts.margins, self.baskets), pairs=self.pairs)
        return CooccurrenceCounts(counts.catalog, counting, totals, *divided(block).columns)
