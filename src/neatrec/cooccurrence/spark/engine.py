"""The Spark engine: pairs are counted and tested where they are, and only the wanted ones come back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from neatrec.cooccurrence.count_input import removal_codes
from neatrec.cooccurrence.counts import CountOptions, Int64, Keep, Margins, PairBlock
from neatrec.cooccurrence.pair_filter import kept, prefilter_of
from neatrec.cooccurrence.spark.lines import SparkLines, data_frame
from neatrec.cooccurrence.spark.session import connect, translated_errors
from neatrec.cooccurrence.sql import CANDIDATE_STEPS, MARGINS, counting_steps
from neatrec.statistics.discovery import Bin

Floats = npt.NDArray[np.float64]
PAIRS = "query int, item int, pair_count bigint, reverse_count bigint, customers bigint"
BINS_PER_DECADE = 64


@runtime_checkable
class ThresholdSearch(Protocol):
    """A `keep` that finds its threshold from a histogram of p-values."""

    def p_of(self, block: PairBlock, margins: Margins) -> Floats:
        """The p-value of each pair."""

    def cut(self, margins: Margins, bins: list[Bin], p_in_bin: Callable[[int], Floats]) -> float:
        """The largest p-value that is needed; `p_in_bin` fetches the p-values of one bin."""


def count_in_spark(
    lines: SparkLines, counting: CountOptions, keep: Keep | None, threads: int | None = None
) -> tuple[PairBlock, Margins]:
    """The kept pairs, sorted, and the margins of all pairs."""
    with counted_pairs(lines, counting, threads) as session:
        pairs = session.table("pairs")
        totals = _margins(session, lines, counting, pairs.count())
        if keep is None:
            found = _block(_collected(pairs), counting, customers=lines.users_known)
        else:
            found = _kept(pairs, totals, keep, counting, customers=lines.users_known)
        return found.where(np.lexsort((found.item, found.query))), totals


def margins_in_spark(lines: SparkLines, counting: CountOptions, threads: int | None = None) -> Margins:
    """The totals without the pairs."""
    with counted_pairs(lines, counting, threads) as session:
        return _margins(session, lines, counting, 0)


def candidates_in_spark(
    lines: SparkLines, counting: CountOptions, size: int, place: Int64, threads: int | None = None
) -> PairBlock:
    """For each query its `size` items bought with it most often, best first; equal counts by ascending `place`."""
    with counted_pairs(lines, counting, threads, candidates=size, place=place) as session:
        for step in CANDIDATE_STEPS:
            session.sql(step.query).createOrReplaceTempView(step.name)
        found = _collected(session.sql("SELECT * FROM candidate_sets ORDER BY query, best"))
        return PairBlock(*(found[name].to_numpy() for name in ("query", "item", "pair_count")))


@contextmanager
def counted_pairs(
    lines: SparkLines,
    counting: CountOptions,
    threads: int | None,
    *,
    candidates: int = 0,
    place: Int64 | None = None,
) -> Iterator[Any]:
    """A session of its own with the views `pair_counts` and `pairs`; Spark's errors are raised as ours."""
    with translated_errors():
        session = connect(threads=threads).newSession()
        try:
            for name, frame in zip(("basket_lines", "baskets"), lines.frames(session), strict=True):
                frame.createOrReplaceTempView(name)
            _put_settings(session, lines, counting, candidates, place)
            narrow = _is_narrow(lines, counting)
            for step in counting_steps(counting, users_known=lines.users_known, narrow=narrow):
                frame = session.sql(step.query)
                if step.name == "pair_counts":
                    frame = frame.persist()  # margins, pairs and candidate sets are all made of it
                frame.createOrReplaceTempView(step.name)
            yield session
        finally:
            session.catalog.clearCache()


def _is_narrow(lines: SparkLines, counting: CountOptions) -> bool:
    """Whether the longest basket has places that no window joins: it alone could keep one worker busy for days."""
    return counting.window is not None and 2 * counting.window < lines.longest


def _put_settings(
    session: Any, lines: SparkLines, counting: CountOptions, candidates: int, place: Int64 | None
) -> None:
    """The views `items` and `settings`."""
    removal = removal_codes(counting.category_of(lines.catalog))
    codes = np.arange(len(removal), dtype=np.int32)
    order = codes.astype(np.int64) if place is None else place
    reach = lines.longest if counting.window is None else min(counting.window, lines.longest)
    values = {"min_basket": min(counting.min_basket, 2**62), "reach": reach, "candidates": candidates}
    data_frame(session, item=codes, removal=removal, place=order).createOrReplaceTempView("items")
    settings = {name: np.array([value]) for name, value in values.items()}
    data_frame(session, **settings).createOrReplaceTempView("settings")


def _collected(frame: Any) -> pa.Table:
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    return pa.Table.from_pandas(frame.toPandas())  # before Spark 4


def _margins(session: Any, lines: SparkLines, counting: CountOptions, pairs: int) -> Margins:
    rows = _collected(session.sql(MARGINS.query))
    arrays = {name: rows[name].to_numpy() for name in rows.schema.names}
    return Margins.of_sql(arrays, counting, lines.catalog, pairs, lines.counted(counting.min_basket))


def _kept(pairs: Any, totals: Margins, keep: Keep, counting: CountOptions, *, customers: bool) -> PairBlock:
    """The pairs that pass the filter and `keep`, tested by the workers; of a `ThresholdSearch` only those it needs."""
    totals = replace(totals, pairs=0)  # as every engine shows it to `keep`
    prefilter = prefilter_of(keep, totals)
    often_enough = pairs.where(f"pair_count >= {int(prefilter.min_count)}")
    cutting: Any = keep if isinstance(keep, ThresholdSearch) else None

    def tested(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            block = _block(batch, counting, customers=customers)
            block = kept(block.where(prefilter.passes(block)), totals, keep)
            p = np.zeros(len(block)) if cutting is None else cutting.p_of(block, totals)
            yield _batch(block, p)

    frame = often_enough.mapInArrow(tested, f"{PAIRS}, p double, bin int")
    if cutting is not None:
        frame = frame.persist()
        frame = frame.where(f"p <= {_cut(frame, totals, cutting)!r}D")
    return _block(_collected(frame), counting, customers=customers)


def _cut(frame: Any, totals: Margins, cutting: ThresholdSearch) -> float:
    """The largest p-value that is needed, from a histogram and the p-values of a bin or two."""
    rows = frame.groupBy("bin").agg({"*": "count", "p": "min"}).collect()
    bins = sorted((int(row["bin"]), int(row["count(1)"]), float(row["min(p)"])) for row in rows)

    def p_in_bin(number: int) -> Floats:
        values: Floats = _collected(frame.where(f"bin = {number}").select("p"))["p"].to_numpy()
        return values

    return cutting.cut(totals, bins, p_in_bin)


def _batch(block: PairBlock, p: Floats) -> pa.RecordBatch:
    """What a worker sends back of a block."""
    nothing = pa.nulls(len(block), pa.int64())
    columns = [pa.array(block.query), pa.array(block.item), pa.array(block.count)]
    columns += [nothing if values is None else pa.array(values) for values in (block.reverse, block.customers)]
    with np.errstate(divide="ignore"):
        bins = np.floor(-np.log10(p) * BINS_PER_DECADE)
    columns += [pa.array(p), pa.array(np.clip(bins, 0, 2**31 - 1).astype(np.int32))]
    names = ["query", "item", "pair_count", "reverse_count", "customers", "p", "bin"]
    return pa.RecordBatch.from_arrays(columns, names)


def _block(rows: Any, counting: CountOptions, *, customers: bool) -> PairBlock:
    """Rows of `pairs` as a block; an unknown column is None."""
    query, item, number, reverse, customer_counts = (rows.column(name) for name in rows.schema.names[:5])
    return PairBlock(
        _array(query, np.int32),
        _array(item, np.int32),
        _array(number, np.int64),
        _array(reverse, np.int64) if counting.directed else None,
        _array(customer_counts, np.int64) if customers else None,
    )


def _array(column: Any, dtype: Any) -> npt.NDArray[Any]:
    plain = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.asarray(plain.to_numpy(zero_copy_only=False), dtype=dtype)
