"""The Spark engine: each task counts and tests one band of rows with the compiled counter; wanted pairs come back.

Baskets are cut into parts. Every part gives each band the lines that its rows need (`bands.py`), Spark's shuffle brings
those of one band together, and its task counts them as the memory engine does. Arrays travel as pickled objects of an
RDD, one for each part and band: no pair is ever a row, and Spark plans no query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from neatrec.cooccurrence.bands import cut_bands, lines_of_band, rows_of_band
from neatrec.cooccurrence.count_input import CountInput, Part
from neatrec.cooccurrence.counts import CountOptions, Int64, Keep, Margins, PairBlock
from neatrec.cooccurrence.layout import Band, ItemRows
from neatrec.cooccurrence.memory import count_kept, margins_of_lines, margins_of_pairs, sorted_pairs
from neatrec.cooccurrence.pair_filter import prefilter_of
from neatrec.cooccurrence.spark.lines import SparkLines
from neatrec.cooccurrence.spark.session import connect, translated_errors

Floats = npt.NDArray[np.float64]
P_EDGES: Floats = 10.0 ** (np.arange(-308 * 64, 1) / 64)
"""Bins of p-values, 64 per decade: a bin holds those above the edge before its own, up to its own."""
LINES_PER_PART = 1 << 22
LINES_PER_BAND = 1 << 23
"""So much of the lines a task holds at a time, at about 30 bytes each; a single row may need more."""
TASKS_PER_CORE = 2


@runtime_checkable
class ThresholdSearch(Protocol):
    """A `keep` that finds its threshold from a histogram of p-values."""

    def p_of(self, block: PairBlock, margins: Margins) -> Floats:
        """The p-value of each pair."""

    def cut(self, margins: Margins, edges: Floats, counts: Int64) -> float:
        """The largest p-value that may be needed: counts[k] are above edges[k - 1] and at most edges[k]."""


@runtime_checkable
class Collector(Protocol):
    """A `keep` that collects what it sees: each task has one of its own."""

    def collected(self) -> Any:
        """What it has seen since it was asked last: a task may have several bands."""

    def add_collected(self, found: Any) -> None:
        """Take over what another one has."""


def count_in_spark(
    lines: SparkLines, counting: CountOptions, keep: Keep | None, threads: int | None = None
) -> tuple[PairBlock, Margins]:
    """The kept pairs, sorted, and the margins of all pairs."""
    with lines_by_band(lines, counting, threads) as counted:
        totals = counted.margins
        cutting: Any = keep if isinstance(keep, ThresholdSearch) else None
        collector: Any = keep if isinstance(keep, Collector) else None
        prefilter_of(keep, totals)  # what it fits to the margins is fitted here, once

        def tested(rows: ItemRows) -> tuple[PairBlock, int, Floats | None, Any]:
            block, pairs = count_kept(rows, totals, keep, 1)
            p = None if cutting is None else cutting.p_of(block, totals)
            return block, pairs, p, None if collector is None else collector.collected()

        found = counted.each(tested)
        if cutting is not None:
            histogram = _summed(counted.persisted(found).map(lambda band: p_histogram(band[2])), len(P_EDGES))
            limit = cutting.cut(totals, P_EDGES, histogram)
            found = found.map(lambda band: (band[0].where(band[2] <= limit), band[1], None, band[3]))
        blocks = [PairBlock.empty(0, reverse=counting.directed, customers=lines.users_known)]
        pairs = 0
        for block, seen, _, more in found.collect():
            blocks.append(block)
            pairs += seen
            if collector is not None:
                collector.add_collected(more)
        return sorted_pairs(PairBlock.joined(blocks), len(lines.catalog)), replace(totals, pairs=pairs)


def margins_in_spark(lines: SparkLines, counting: CountOptions, threads: int | None = None) -> Margins:
    """The totals without the pairs."""
    with lines_by_band(lines, counting, threads) as counted:
        return counted.margins


@dataclass(frozen=True, eq=False)
class SparkCount:
    """Lines by band on Spark, and the totals."""

    parts: Any
    """An RDD of (number of a band, lines), with a partition for each band."""
    bands: list[Band]
    like: CountInput
    """How the lines are counted, without lines."""
    margins: Margins
    held: list[Any]
    """RDDs that Spark keeps until the count ends."""

    def persisted(self, rdd: Any) -> Any:
        return _persisted(rdd, self.held)

    def each(self, work: Callable[[ItemRows], Any]) -> Any:
        """An RDD of what `work` makes of the rows of each band."""
        like, bands = self.like, self.bands
        return self.parts.mapPartitions(lambda parts: map(work, _rows(parts, like, bands)))


@contextmanager
def lines_by_band(lines: SparkLines, counting: CountOptions, threads: int | None) -> Iterator[SparkCount]:
    """The lines that each band needs; Spark's errors are raised as ours."""
    like, items, least = CountInput.without_lines(counting, lines.catalog), len(lines.catalog), counting.min_basket
    held: list[Any] = []
    with translated_errors():
        session = connect(threads=threads).newSession()
        try:
            tasks = TASKS_PER_CORE * session.sparkContext.defaultParallelism
            parts = _persisted(lines.parts(session, max(tasks, -(-lines.lines // LINES_PER_PART))), held)
            either, second = _summed(parts.map(lambda part: margins_of_lines(like.of_part(part, least), 1)), (2, items))
            bands = cut_bands(
                lines.item_counts, either, at_least=tasks, most_lines=LINES_PER_BAND, window=counting.window is not None
            )
            by_band = parts.flatMap(lambda part: _split(part, like, bands)).partitionBy(len(bands), int)
            margins = Margins.of(either, second, counting, like.category, lines.counted(least))
            counted = SparkCount(by_band, bands, like, margins, held)
            if counting.once_per_customer:
                counted.persisted(by_band)
                either, second = _summed(counted.each(lambda rows: margins_of_pairs(rows, items, 1)), (2, items))
                margins = Margins.of(either, second, counting, like.category, margins.baskets)
            yield replace(counted, margins=margins)
        finally:
            for rdd in held:
                rdd.unpersist()


def _persisted(rdd: Any, held: list[Any]) -> Any:
    from pyspark import StorageLevel

    held.append(rdd.persist(StorageLevel.MEMORY_AND_DISK))
    return rdd


def _summed(rdd: Any, shape: int | tuple[int, int]) -> Int64:
    """The sum of the arrays, or tuples of arrays, of an RDD."""

    def of_partition(found: Iterable[Any]) -> Iterator[Int64]:
        yield sum((np.asarray(each) for each in found), np.zeros(shape, dtype=np.int64))

    total: Int64 = rdd.mapPartitions(of_partition).treeReduce(np.add)
    return total


def _split(part: Part, like: CountInput, bands: list[Band]) -> Iterator[tuple[int, Part]]:
    """What each band needs of a part."""
    source = like.of_part(part, like.counting.min_basket)
    for number, band in enumerate(bands):
        some = lines_of_band(source, band)
        if len(some.sizes):
            yield number, some


def _rows(found: Iterable[tuple[int, Part]], like: CountInput, bands: list[Band]) -> Iterator[ItemRows]:
    """The rows of the band whose lines are here."""
    here: dict[int, list[Part]] = {}
    for number, part in found:
        here.setdefault(number, []).append(part)
    return (rows_of_band(parts, like, bands[number]) for number, parts in here.items())


def p_histogram(p: Floats) -> Int64:
    """How many p-values are in each bin of P_EDGES."""
    return np.bincount(np.searchsorted(P_EDGES, p), minlength=len(P_EDGES))
