"""The Spark engine: each task counts one band of rows with the compiled counter.

Row r is the item of rank r with its partners of lower rank (`count_kernels.py`). A band of rows
needs only the lines up to its last rank in the baskets that hold one of its items; with a window,
all lines of these baskets. Bands are independent of each other, and their counts are final.

The driver sends the baskets in parts. Every part gives each band the lines that its rows need,
Spark's shuffle brings together those of one band, and a task counts them as the memory engine does.
Arrays travel as pickled objects of an RDD, one per part and band: no pair is ever a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from neatrec.compiled import compiled
from neatrec.cooccurrence.count_input import CountInput, Part
from neatrec.cooccurrence.engine import Engine
from neatrec.cooccurrence.kept_pairs import KeptPairs
from neatrec.cooccurrence.layout import (
    Band,
    ItemRows,
    basket_lines,
    by_popularity,
    line_counts,
    make_rows,
    rank_of,
)
from neatrec.cooccurrence.memory import (
    count_kept,
    margins_in_memory,
    margins_of_lines,
    margins_of_pairs,
    refuse_overflow,
)
from neatrec.cooccurrence.spark.session import connect, translated_errors
from neatrec.data.counts import Int64, Margins

LINES_PER_PART = 1 << 22
LINES_PER_BAND = 1 << 23
"""Lines that a task holds at a time, at about 30 bytes each; a single row may need more."""
TASKS_PER_CORE = 2


def count_in_spark(
    source: CountInput, totals: Margins | None, threads: int | None
) -> tuple[KeptPairs, Margins]:
    """Count the kept pairs, and the margins of all pairs."""
    options = source.counting
    with lines_by_band(source, totals, threads) as counted:
        results = counted.each(lambda rows: count_kept(rows, options, 1)).collect()
        kept = KeptPairs(options, customers=source.customers is not None)
        for of_band, _ in results:
            for block in of_band.blocks:
                kept.add(block)
        return kept, replace(counted.margins, pairs=sum(pairs for _, pairs in results))


def margins_in_spark(source: CountInput, threads: int | None) -> Margins:
    """Count the totals without keeping pairs."""
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
    """The options of the count, without lines."""
    margins: Margins

    def each(self, work: Callable[[ItemRows], Any]) -> Any:
        """An RDD of the results of `work` on the rows of each band."""
        like, bands = self.like, self.bands
        return self.parts.mapPartitions(lambda parts: map(work, _rows(parts, like, bands)))


@contextmanager
def lines_by_band(
    source: CountInput, totals: Margins | None, threads: int | None
) -> Iterator[SparkCount]:
    """Send each band its lines; Spark's errors become ours."""
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
        margins = totals or Margins.of(either, second, counting, like.category, len(source.start))
        counted = SparkCount(by_band, bands, like, margins)
        if totals is None and source.margins_need_pairs:
            by_band.cache()
            of_bands = counted.each(lambda rows: margins_of_pairs(rows, items, 1))
            zeros = np.zeros((2, items), dtype=np.int64)
            either, second = of_bands.treeAggregate(zeros, np.add, np.add)
            margins = Margins.of(either, second, counting, like.category, len(source.start))
        yield replace(counted, margins=margins)
        # after an error Spark may be gone: the cache goes with the RDD
        by_band.unpersist()


def _parts(source: CountInput, number: int) -> Iterator[Part]:
    """The baskets in about `number` parts with similar numbers of lines."""
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
        lines = lines_of_band(source, band)
        if len(lines.sizes):
            yield number, lines


def _rows(
    parts: Iterable[tuple[int, Part]], like: CountInput, bands: list[Band]
) -> Iterator[ItemRows]:
    """The rows of each band with lines in this partition."""
    by_band: dict[int, list[Part]] = {}
    for number, part in parts:
        by_band.setdefault(number, []).append(part)
    return (rows_of_band(lines, like, bands[number]) for number, lines in by_band.items())


def cut_bands(lines: Int64, either: Int64, *, at_least: int, max_lines: int) -> list[Band]:
    """Cut at least `at_least` bands of similar work, of at most `max_lines` lines each.

    A single row may have more. `lines` of each item, and its records in `either` position. Of a
    basket with one of its lines a row needs the lines of lower rank: estimated by chance.
    """
    code = by_popularity(lines)
    own = lines[code].astype(np.float64)
    lower = (np.cumsum(own) - own) / max(own.sum(), 1.0)
    work = np.cumsum(own + either[code] * lower)
    total = float(work[-1]) if len(work) else 0.0
    number = max(at_least, -int(-total // max_lines))
    cuts = np.searchsorted(work, np.linspace(0, total, number + 1)[1:-1])
    limits = np.unique([0, *cuts, len(code)]).tolist() if len(code) else [0, 0]
    return [Band(code, first, last) for first, last in pairwise(limits)]


def lines_of_band(source: CountInput, band: Band) -> Part:
    """The lines that the rows of a band need."""
    rank = rank_of(band.code, len(source.category))
    items = np.empty(int(source.sizes.sum()), dtype=np.int32)
    kept = np.empty((len(source.start), 2), dtype=np.int64)
    # positions count in a window: all lines stay
    below = band.last if source.all_pairs else len(band.code)
    number = copy_lines(basket_lines(source), rank, band.first, band.last, below, items, kept)
    basket, sizes = kept[:number].T.copy()
    customers = None if source.customers is None else source.customers[basket]
    return Part(items[: sizes.sum()].copy(), sizes, customers)


def rows_of_band(parts: Sequence[Part], like: CountInput, band: Band) -> ItemRows:
    """The rows of a band, from the lines of its parts."""
    items, sizes, customers = zip(*parts, strict=True)
    numbered = None
    if customers[0] is not None:  # small numbers: tables are indexed by them
        numbered = np.unique(np.concatenate(customers), return_inverse=True)[1].astype(np.int32)
    source = like.of_part(Part(np.concatenate(items), np.concatenate(sizes), numbered))
    refuse_overflow(source)
    return make_rows(source, band)


@compiled
def copy_lines(lines, rank, first, last, below, items_out, baskets_out):
    """Copy the lines of rank under `below` of each basket with a rank from `first` to `last`.

    baskets_out: basket and number of copied lines, shape (B, 2); returns the number of baskets.
    """
    items, start, stop, _ = lines
    n = baskets = 0
    for b in range(len(start)):
        begin, wanted = n, False
        for k in range(start[b], stop[b]):
            r = rank[items[k]]
            if r < below:
                items_out[n] = items[k]
                n += 1
                wanted = wanted or first <= r < last
        if wanted and n - begin > 1:
            baskets_out[baskets, 0], baskets_out[baskets, 1] = b, n - begin
            baskets += 1
        else:
            n = begin
    return baskets
