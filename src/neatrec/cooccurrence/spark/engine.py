"""The Spark engine: each task counts one band of rows with the compiled counter.

The driver sends the baskets in parts. Every part gives each band the lines that its rows need (`bands.py`), Spark's
shuffle brings those of one band together, and its task counts them as the memory engine does. Arrays travel as pickled
objects of an RDD, one for each part and band: no pair is ever a row, and Spark plans no query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from neatrec.cooccurrence.count_input import CountInput, Part
from neatrec.cooccurrence.engine import Engine
from neatrec.cooccurrence.kept_pairs import KeptPairs
from neatrec.cooccurrence.layout import Band, ItemRows, basket_lines, line_counts
from neatrec.cooccurrence.memory import (
    count_kept,
    margins_in_memory,
    margins_of_lines,
    margins_of_pairs,
)
from neatrec.cooccurrence.spark.bands import cut_bands, lines_of_band, rows_of_band
from neatrec.cooccurrence.spark.session import connect, translated_errors
from neatrec.data.counts import Int64, Margins

LINES_PER_PART = 1 << 22
LINES_PER_BAND = 1 << 23
"""Lines that a task holds at a time, at about 30 bytes each; a single row may need more."""
TASKS_PER_CORE = 2


def count_in_spark(
    source: CountInput, totals: Margins | None, threads: int | None
) -> tuple[KeptPairs, Margins]:
    """The kept pairs, and the margins of all pairs."""
    options = source.counting
    with lines_by_band(source, totals, threads) as counted:
        found = counted.each(lambda rows: count_kept(rows, options, 1)).collect()
        kept = KeptPairs(options, customers=source.customers is not None)
        for of_band, _ in found:
            for block in of_band.blocks:
                kept.add(block)
        return kept, replace(counted.margins, pairs=sum(seen for _, seen in found))


def margins_in_spark(source: CountInput, threads: int | None) -> Margins:
    """The totals without the pairs."""
    if not source.margins_need_pairs:
        return margins_in_memory(source, Engine(threads=threads).thread_count)
    with lines_by_band(source, None, threads) as counted:
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

    def each(self, work: Callable[[ItemRows], Any]) -> Any:
        """An RDD of what `work` makes of the rows of each band."""
        like, bands = self.like, self.bands
        return self.parts.mapPartitions(lambda parts: map(work, _rows(parts, like, bands)))


@contextmanager
def lines_by_band(
    source: CountInput, totals: Margins | None, threads: int | None
) -> Iterator[SparkCount]:
    """The lines that each band needs; Spark's errors are raised as ours."""
    like, items, counting = source.without_lines(), len(source.category), source.counting
    lines = np.zeros(items, dtype=np.int64)
    line_counts(basket_lines(source), lines)
    either, second = margins_of_lines(source, Engine(threads=threads).thread_count)
    with translated_errors():
        session = connect(threads=threads)
        tasks = TASKS_PER_CORE * session.sparkContext.defaultParallelism
        bands = cut_bands(lines, either, at_least=tasks, max_lines=LINES_PER_BAND)
        parts = list(_parts(source, max(tasks, -(-int(lines.sum()) // LINES_PER_PART))))
        sent = session.sparkContext.parallelize(parts, max(len(parts), 1))
        by_band = sent.flatMap(lambda part: _split(part, like, bands)).partitionBy(len(bands), int)
        baskets = len(source.start)
        known = totals or Margins.of(either, second, counting, like.category, baskets)
        counted = SparkCount(by_band, bands, like, known)
        try:
            if totals is None and source.margins_need_pairs:
                _persist(by_band)
                either, second = _summed(
                    counted.each(lambda rows: margins_of_pairs(rows, items, 1)), (2, items)
                )
                totals = Margins.of(either, second, counting, like.category, baskets)
            yield counted if totals is None else replace(counted, margins=totals)
        finally:
            by_band.unpersist()


def _persist(rdd: Any) -> None:
    from pyspark import StorageLevel

    rdd.persist(StorageLevel.MEMORY_AND_DISK)


def _summed(rdd: Any, shape: tuple[int, int]) -> Int64:
    """The sum of the tuples of arrays of an RDD."""

    def of_partition(found: Iterable[Any]) -> Iterator[Int64]:
        yield sum((np.asarray(each) for each in found), np.zeros(shape, dtype=np.int64))

    total: Int64 = rdd.mapPartitions(of_partition).treeReduce(np.add)
    return total


def _parts(source: CountInput, number: int) -> Iterator[Part]:
    """The baskets of this process in about `number` parts of as many lines."""
    ends = np.cumsum(source.sizes)
    cuts = np.searchsorted(ends, np.linspace(0, ends[-1] if len(ends) else 0, number + 1)[1:-1])
    for first, last in pairwise(np.unique([0, *cuts, len(ends)]).tolist()):
        start, stop = source.start[first:last], source.stop[first:last]
        lines = np.repeat(start - np.cumsum(stop - start) + (stop - start), stop - start)
        lines += np.arange(len(lines))
        customers = None if source.customers is None else source.customers[first:last]
        yield Part(source.items[lines], stop - start, customers)


def _split(part: Part, like: CountInput, bands: list[Band]) -> Iterator[tuple[int, Part]]:
    """The lines of a part that each band needs."""
    source = like.of_part(part)
    for number, band in enumerate(bands):
        some = lines_of_band(source, band)
        if len(some.sizes):
            yield number, some


def _rows(
    found: Iterable[tuple[int, Part]], like: CountInput, bands: list[Band]
) -> Iterator[ItemRows]:
    """The rows of the band whose lines are here."""
    here: dict[int, list[Part]] = {}
    for number, part in found:
        here.setdefault(number, []).append(part)
    return (rows_of_band(parts, like, bands[number]) for number, parts in here.items())
