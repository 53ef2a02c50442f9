"""Basket lines for Spark: sent by this process, or read by the executors themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from neatrec.cooccurrence.count_input import InputSummary, check_basket_size, check_options, summarize
from neatrec.cooccurrence.counts import CountOptions
from neatrec.data.baskets import BasketStream
from neatrec.data.catalog import Catalog


@dataclass(frozen=True, eq=False)
class SparkLines:
    """What the driver knows of the lines, and how a session gets them."""

    catalog: Catalog
    ordered: bool
    users_known: bool
    sizes: dict[int, int]
    """Lines of a basket -> how many baskets have so many."""
    frames: Callable[[Any], tuple[Any, Any]] = field(repr=False)
    """session -> data frames of lines (basket, position, item) and of baskets (basket, customer)."""
    longest_basket: str = ""
    customers_return: bool = False
    """Whether some user has more than one basket."""
    source: str = ""
    hash: str = ""

    def __len__(self) -> int:
        return sum(self.sizes.values())

    @property
    def lines(self) -> int:
        return sum(size * baskets for size, baskets in self.sizes.items())

    @property
    def longest(self) -> int:
        """Lines of the longest basket."""
        return max(self.sizes, default=1)

    def counted(self, min_basket: int) -> int:
        """Baskets that are large enough to count."""
        return sum(baskets for size, baskets in self.sizes.items() if size >= min_basket)


def as_spark_lines(baskets: BasketStream | SparkLines, counting: CountOptions) -> SparkLines:
    """Lines that can be counted with these options; baskets in this process are sent to the executors."""
    if isinstance(baskets, SparkLines):
        check_options(counting, baskets.catalog, ordered=baskets.ordered, users_known=baskets.users_known)
        check_basket_size(baskets.longest_basket, baskets.longest, counting)
        return baskets
    found = summarize(baskets, counting)
    sizes, number = np.unique(found.sizes, return_counts=True)
    by_size = dict(zip(sizes.tolist(), number.tolist(), strict=True))
    return SparkLines(found.catalog, found.ordered, found.users_known, by_size, lambda session: _sent(session, found))


def _sent(session: Any, summary: InputSummary) -> tuple[Any, Any]:
    lines, baskets, done = [], [], 0
    for shard, customers in summary.shards_with_customers():
        position = np.arange(1, shard.lines + 1) - np.repeat(shard.offsets[:-1], shard.sizes)
        places = position.astype(np.int32)
        lines.append(data_frame(session, basket=shard.basket_of_line + done, position=places, item=shard.items))
        nobody = pa.nulls(len(shard), pa.int32())
        customer = nobody if customers is None else np.asarray(customers, dtype=np.int32)
        baskets.append(data_frame(session, basket=np.arange(done, done + len(shard)), customer=customer))
        done += len(shard)
    return _union(lines), _union(baskets)


def _union(frames: list[Any]) -> Any:
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionAll(frame)
    return whole


def data_frame(session: Any, **columns: Any) -> Any:
    """Columns of this process as a Spark data frame."""
    table = pa.table(columns)
    try:
        return session.createDataFrame(table)
    except TypeError:  # before Spark 4
        return session.createDataFrame(table.to_pandas())
