"""Basket lines for Spark: sent by this process, or read by the executors themselves."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neatrec.cooccurrence.count_input import InputSummary, Part, check_basket_size, check_options, summarize
from neatrec.cooccurrence.counts import CountOptions, Int64
from neatrec.data.baskets import BasketStream
from neatrec.data.catalog import Catalog

Chosen = Callable[[Any], npt.NDArray[np.bool_]]
"""Ids -> which of them."""


@dataclass(frozen=True, eq=False)
class SparkLines:
    """What the driver knows of the lines, and how a session gets them."""

    catalog: Catalog
    ordered: bool
    users_known: bool
    sizes: dict[int, int]
    """Lines of a basket -> how many baskets have so many."""
    item_counts: Int64
    """Lines of each item, shape (items,)."""
    parts: Callable[..., Any] = field(repr=False)
    """session, number -> an RDD of about so many partitions, a `Part` in each."""
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

    def where(self, chosen: Chosen) -> SparkLines:
        """Only the baskets whose customers' ids, or own ids where users are not known, are chosen; numbers stay those
        of all baskets, as bounds."""
        return replace(self, parts=lambda session, number: self.parts(session, number, chosen))


def as_spark_lines(baskets: BasketStream | SparkLines, counting: CountOptions) -> SparkLines:
    """Lines that can be counted with these options; baskets in this process are sent to the executors."""
    if isinstance(baskets, SparkLines):
        check_options(counting, baskets.catalog, ordered=baskets.ordered, users_known=baskets.users_known)
        check_basket_size(baskets.longest_basket, baskets.longest, counting)
        return baskets
    found = summarize(baskets, counting)
    sizes, number = np.unique(found.sizes, return_counts=True)
    by_size = dict(zip(sizes.tolist(), number.tolist(), strict=True))
    return SparkLines(
        found.catalog,
        found.ordered,
        found.users_known,
        by_size,
        found.item_counts,
        lambda session, number: _sent(session, found, number),
    )


def _sent(session: Any, summary: InputSummary, number: int) -> Any:
    """The baskets of this process in so many parts."""
    parts = list(summary.parts(max(-(-int(summary.sizes.sum()) // number), 1)))
    return session.sparkContext.parallelize(parts, max(len(parts), 1))


def as_parts(lines: Any, chosen: Chosen | None = None) -> Any:
    """Lines (basket, customer, item) as an RDD of parts, of all baskets or of those `chosen` by id.

    A partition holds all baskets of its customers, sorted by customer, basket and place.
    """

    def part(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        found = [batch for batch in batches if len(batch)]
        if not found:
            return
        rows = pa.Table.from_batches(found).combine_chunks()
        starts, who, ids = _changes(rows["basket"]), None, rows["basket"]
        if not rows["customer"].null_count:  # other partitions have other customers
            who = (TaskContext.get().partitionId() << 32) + np.searchsorted(
                _changes(rows["customer"]), starts, side="right"
            )
            ids = rows["customer"]
        baskets = Part(rows["item"].to_numpy(), np.diff(np.append(starts, len(rows))), who)
        if chosen is not None:
            keep = chosen(ids.take(starts))
            items, sizes = baskets.items[np.repeat(keep, baskets.sizes)], baskets.sizes[keep]
            baskets = Part(items, sizes, None if who is None else who[keep])
        yield pa.RecordBatch.from_pydict({"data": [pickle.dumps(baskets, protocol=5)]})

    return lines.mapInArrow(part, "data binary").rdd.map(lambda row: pickle.loads(row["data"]))


def _changes(column: Any) -> Int64:
    """Where another value begins."""
    other = pc.not_equal(column[1:], column[:-1]).to_numpy()
    return np.flatnonzero(np.append(True, other))


def data_frame(session: Any, **columns: Any) -> Any:
    """Columns of this process as a Spark data frame."""
    table = pa.table(columns)
    try:
        return session.createDataFrame(table)
    except TypeError:  # before Spark 4
        return session.createDataFrame(table.to_pandas())
