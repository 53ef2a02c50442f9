"""The Spark engine: each task counts and tests one band of rows with the compiled counter; wanted pairs come back.

Baskets are cut into parts. Every part gives each band the lines that its rows need (`bands.py`), Spark's shuffle brings
those of one band together, and its task counts them as the memory engine does. Arrays travel as pickled bytes, one
Spark row for each part and band: no pair is ever a row.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from neatrec.cooccurrence.bands import cut_bands, lines_of_band, rows_of_band
from neatrec.cooccurrence.count_input import CountInput, Part
from neatrec.cooccurrence.counts import CountOptions, Int64, Keep, Margins, PairBlock
from neatrec.cooccurrence.layout import Band, ItemRows
from neatrec.cooccurrence.memory import count_kept, margins_of_lines, margins_of_pairs, sorted_pairs
from neatrec.cooccurrence.pair_filter import prefilter_of
from neatrec.cooccurrence.spark.lines import SparkLines, as_arrow
from neatrec.cooccurrence.spark.session import connect, translated_errors
from neatrec.statistics.discovery import Bin

Floats = npt.NDArray[np.float64]
BINS_PER_DECADE = 64
LINES_PER_PART = 1 << 22
LINES_PER_BAND = 1 << 23
"""So much of the lines a task holds at a time, at about 30 bytes each; a single row may need more."""
TASKS_PER_CORE = 2


@runtime_checkable
class ThresholdSearch(Protocol):
    """A `keep` that finds its threshold from a histogram of p-values."""

    def p_of(self, block: PairBlock, margins: Margins) -> Floats:
        """The p-value of each pair."""

    def cut(self, margins: Margins, bins: list[Bin], p_in_bin: Callable[[int], Floats]) -> float:
        """The largest p-value that is needed; `p_in_bin` fetches the p-values of one bin."""


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

        frame = mapped(counted.parts, counted.each(tested))
        if cutting is not None:
            every = counted.persisted(frame)
            limit = _cut(every, totals, cutting)
            frame = mapped(every, lambda bands: ((b.where(p <= limit), n, None, None) for b, n, p, _ in bands))
        blocks = [PairBlock.empty(0, reverse=counting.directed, customers=lines.users_known)]
        pairs = 0
        for block, seen, _, more in collected(frame):
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
    """A data frame with a partition for each band."""
    bands: list[Band]
    keys: list[int]
    like: CountInput
    """How the lines are counted, without lines."""
    margins: Margins
    held: list[Any]
    """Data frames that Spark keeps until the count ends."""

    def persisted(self, frame: Any) -> Any:
        self.held.append(frame.persist())
        return frame

    def each(self, work: Callable[[ItemRows], Any]) -> Callable[[Iterator[Any]], Iterator[Any]]:
        """What makes `work` of the rows of each band, from a partition of `parts`."""
        like, bands = self.like, self.bands
        return lambda parts: map(work, _rows(parts, like, bands))


@contextmanager
def lines_by_band(lines: SparkLines, counting: CountOptions, threads: int | None) -> Iterator[SparkCount]:
    """The lines that each band needs, in a session of their own; Spark's errors are raised as ours."""
    like = CountInput.without_lines(counting, lines.catalog)
    held: list[Any] = []
    with translated_errors():
        session = connect(threads=threads).newSession()
        try:
            tasks = TASKS_PER_CORE * session.sparkContext.defaultParallelism
            held.append(lines.parts(session, max(tasks, -(-lines.lines // LINES_PER_PART))).persist())
            least = counting.min_basket
            items = len(lines.catalog)
            either, second = _summed(
                held[0], lambda parts: (margins_of_lines(like.of_part(part, least), 1) for part in parts), items
            )
            bands = cut_bands(
                lines.item_counts, either, at_least=tasks, most_lines=LINES_PER_BAND, window=counting.window is not None
            )
            keys = _keys(session, len(bands))
            by_band = shuffled(held[0], lambda parts: _split(parts, like, bands), keys)
            margins = Margins.of(either, second, counting, like.category, lines.counted(counting.min_basket))
            counted = SparkCount(by_band, bands, keys, like, margins, held)
            if counting.once_per_customer:
                counted.persisted(by_band)
                either, second = _summed(by_band, counted.each(lambda rows: margins_of_pairs(rows, items, 1)), items)
                margins = Margins.of(either, second, counting, like.category, margins.baskets)
            yield replace(counted, margins=margins)
        finally:
            for frame in held:
                frame.unpersist()


def mapped(frame: Any, work: Callable[[Iterator[Any]], Iterable[Any]]) -> Any:
    """A data frame of what `work` makes of the objects of each partition.

    Two in a row would run in two Python workers for each core, and both would load the compiled code.
    """
    return _mapped(frame, lambda objects: ((0, found) for found in work(objects)))


def shuffled(frame: Any, work: Callable[[Iterator[Any]], Iterable[tuple[int, Any]]], keys: list[int]) -> Any:
    """`mapped` where each object comes with the number of the partition that it goes to."""
    sent = _mapped(frame, lambda objects: ((keys[number], found) for number, found in work(objects)))
    return sent.repartition(len(keys), "key")


def _mapped(frame: Any, work: Callable[[Iterator[Any]], Iterable[tuple[int, Any]]]) -> Any:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for key, found in work(_objects(batches)):
            columns = [pa.array([key], pa.int32()), pa.array([pickle.dumps(found, protocol=5)], pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, ["key", "data"])

    return frame.mapInArrow(run, "key int, data binary")


def _objects(batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
    return (pickle.loads(data.as_buffer()) for batch in batches for data in batch.column("data"))


def collected(frame: Any) -> Iterator[Any]:
    """The objects of all partitions, here."""
    return (pickle.loads(data.as_buffer()) for data in as_arrow(frame)["data"])


def _keys(session: Any, number: int) -> list[int]:
    """A key for each of so many partitions: Spark places rows by a hash, and two bands in one task would be skew."""
    some = session.range(64 * number + 64).selectExpr("int(id) AS key", f"pmod(hash(int(id)), {number}) AS place")
    found = dict(zip(*(as_arrow(some)[name].to_pylist() for name in ("place", "key")), strict=True))
    return [found[place] for place in range(number)]


def _summed(frame: Any, work: Callable[[Iterator[Any]], Iterable[Any]], items: int) -> tuple[Int64, Int64]:
    """The sums of the two vectors of the items that `work` makes of the objects of each partition, several times."""

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for either, second in work(_objects(batches)):
            here = np.flatnonzero(either)
            yield pa.RecordBatch.from_pydict({"item": here, "either": either[here], "second": second[here]})

    schema = "item bigint, either bigint, second bigint"
    total = frame.mapInArrow(rows, schema).groupBy("item").agg({"either": "sum", "second": "sum"})
    found, sums = as_arrow(total), np.zeros((2, items), dtype=np.int64)
    for row, name in zip(sums, ("sum(either)", "sum(second)"), strict=True):
        row[found["item"].to_numpy()] = found[name].to_numpy()
    return sums[0], sums[1]


def _split(parts: Iterable[Part], like: CountInput, bands: list[Band]) -> Iterator[tuple[int, Any]]:
    """What each band needs of each part."""
    for part in parts:
        source = like.of_part(part, like.counting.min_basket)
        for number, band in enumerate(bands):
            some = lines_of_band(source, band)
            if len(some.sizes):
                yield number, (number, some)


def _rows(found: Iterable[tuple[int, Part]], like: CountInput, bands: list[Band]) -> Iterator[ItemRows]:
    """The rows of the bands whose lines are here: of one, as long as Spark's hash is that of `_keys`."""
    here: dict[int, list[Part]] = {}
    for number, part in found:
        here.setdefault(number, []).append(part)
    return (rows_of_band(parts, like, bands[number]) for number, parts in here.items())


def _cut(frame: Any, totals: Margins, cutting: ThresholdSearch) -> float:
    """The largest p-value that is needed, from a histogram and the p-values of a bin or two."""

    def histogram(bands: Iterator[Any]) -> Iterator[Any]:
        for _, _, p, _ in bands:
            order = np.argsort(p)
            number, first, count = np.unique(_bins(p)[order], return_index=True, return_counts=True)
            yield number, count, p[order][first]

    found = [
        (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0)),
        *collected(mapped(frame, histogram)),
    ]
    number, count, smallest = (np.concatenate(column) for column in zip(*found, strict=True))
    together, place = np.unique(number, return_inverse=True)
    least = np.full(len(together), np.inf)
    np.minimum.at(least, place, smallest)
    bins = list(zip(together.tolist(), np.bincount(place, count).astype(int).tolist(), least.tolist(), strict=True))

    def p_in_bin(number: int) -> Floats:
        some = mapped(frame, lambda bands: (p[_bins(p) == number] for _, _, p, _ in bands))
        return np.concatenate(list(collected(some)))

    return cutting.cut(replace(totals, pairs=0), bins, p_in_bin)


def _bins(p: Floats) -> Int64:
    with np.errstate(divide="ignore"):
        bins: Int64 = np.clip(np.floor(-np.log10(p) * BINS_PER_DECADE), 0, 2**31 - 1).astype(np.int64)
    return bins
