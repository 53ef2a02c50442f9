"""The Spark engine: pairs are counted and tested where they are, and only what is asked for comes back."""

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
from neatrec.cooccurrence.input_summary import InputSummary
from neatrec.cooccurrence.pair_filter import kept, screen_of
from neatrec.cooccurrence.spark.session import connect, told
from neatrec.cooccurrence.statements import MARGINS, RECALL_STEPS, counting_steps
from neatrec.data.catalog import Catalog

Floats = npt.NDArray[np.float64]
PAIRS = "query int, item int, pair_count bigint, reverse_count bigint, customers bigint"
BINS_A_DECADE = 64
Bin = tuple[int, int, float]
"""Of p-values that lie together: the number of the bin (larger: smaller p), how many, the smallest."""


@runtime_checkable
class ThresholdSearch(Protocol):
    """A `keep` that can say from a histogram of p-values which of the pairs it keeps it will need."""

    def p_of(self, block: PairBlock, margins: Margins) -> Floats:
        """The p-value of each pair."""

    def cut(self, margins: Margins, bins: list[Bin], p_in_bin: Callable[[int], Floats]) -> float:
        """The largest p-value that is needed; `p_in_bin` fetches the p-values of one bin."""


class LineSource(Protocol):
    """Baskets that Spark can count, wherever their lines are."""

    @property
    def counting(self) -> CountOptions: ...

    @property
    def catalog(self) -> Catalog: ...

    @property
    def users_known(self) -> bool: ...

    @property
    def longest(self) -> int:
        """LineSource of the longest basket."""

    @property
    def counted(self) -> int:
        """Baskets that are large enough to count."""

    def put(self, session: Any) -> None:
        """Make the views `basket_lines` (basket, position, item) and `baskets` (basket, customer)."""


class DriverLines:
    """Baskets in the memory of this process, sent to the executors."""

    def __init__(self, survey: InputSummary) -> None:
        self.survey, self.counting, self.catalog = survey, survey.counting, survey.catalog
        self.users_known = survey.users_known
        self.longest = int(survey.sizes.max(initial=1))
        self.counted = int((survey.sizes >= survey.counting.min_basket).sum())

    def put(self, session: Any) -> None:
        lines, baskets, done = [], [], 0
        for shard, customers in self.survey.shards_with_customers():
            position = np.arange(1, shard.lines + 1) - np.repeat(shard.offsets[:-1], shard.sizes)
            places = position.astype(np.int32)
            lines.append(_frame(session, basket=shard.basket_of_line + done, position=places, item=shard.items))
            nobody = pa.nulls(len(shard), pa.int32())
            people = nobody if customers is None else np.asarray(customers, dtype=np.int32)
            baskets.append(_frame(session, basket=np.arange(done, done + len(shard)), customer=people))
            done += len(shard)
        for name, frames in {"basket_lines": lines, "baskets": baskets}.items():
            whole = frames[0]
            for frame in frames[1:]:
                whole = whole.unionAll(frame)
            whole.createOrReplaceTempView(name)


def count_in_spark(survey: InputSummary, keep: Keep | None, threads: int) -> tuple[PairBlock, Margins]:
    """The kept pairs, sorted, and the margins of all pairs."""
    return count_lines(DriverLines(survey), keep, threads)


def count_lines(lines: LineSource, keep: Keep | None, threads: int | None = None) -> tuple[PairBlock, Margins]:
    """`count_in_spark` of lines wherever they are."""
    with _counted(lines, threads) as session:
        pairs = session.table("pairs")
        totals = _margins(session, lines, pairs.count())
        found = _block(_collected(pairs), lines.counting) if keep is None else _kept(pairs, totals, keep, lines)
        return found.where(np.lexsort((found.item, found.query))), totals


def margins_in_spark(survey: InputSummary, threads: int) -> Margins:
    """The totals without the pairs."""
    lines = DriverLines(survey)
    with _counted(lines, threads) as session:
        return _margins(session, lines, 0)


def recall_in_spark(survey: InputSummary, size: int, place: Int64, threads: int) -> PairBlock:
    """For each query its `size` items bought with it most often, best first; equal counts by ascending `place`."""
    with _counted(DriverLines(survey), threads, recall=size, place=place) as session:
        for step in RECALL_STEPS:
            session.sql(step.query).createOrReplaceTempView(step.name)
        found = _collected(session.sql("SELECT * FROM recall_sets ORDER BY query, best"))
        return PairBlock(*(found[name].to_numpy() for name in ("query", "item", "pair_count")))


def plan_of(lines: LineSource, threads: int | None = None) -> str:
    """How Spark would count the pairs, in its own words."""
    with _counted(lines, threads) as session:
        return str(session.table("pairs")._jdf.queryExecution().toString())


@contextmanager
def _counted(lines: LineSource, threads: int | None, *, recall: int = 0, place: Int64 | None = None) -> Iterator[Any]:
    """A session of its own names in which `pair_counts` and `pairs` stand; Spark's troubles told as ours."""
    session = connect(threads=threads).newSession()
    try:
        lines.put(session)
        _put_settings(session, lines, recall, place)
        for step in counting_steps(lines.counting, users_known=lines.users_known, narrow=_is_narrow(lines)):
            frame = session.sql(step.query)
            if step.name == "pair_counts":
                frame = frame.persist()  # margins, pairs and recall sets are all made of it
            frame.createOrReplaceTempView(step.name)
        yield session
    except Exception as error:
        if (ours := told(error)) is error:
            raise
        raise ours from error
    finally:
        session.catalog.clearCache()


def _is_narrow(lines: LineSource) -> bool:
    """Whether the longest basket has places that no window joins: it alone could keep one worker busy for days."""
    return lines.counting.window is not None and 2 * lines.counting.window < lines.longest


def _put_settings(session: Any, lines: LineSource, recall: int, place: Int64 | None) -> None:
    """The views `items` and `settings`."""
    removal = removal_codes(lines.counting.category_of(lines.catalog))
    codes = np.arange(len(removal), dtype=np.int32)
    order = codes.astype(np.int64) if place is None else place
    reach = lines.longest if lines.counting.window is None else min(lines.counting.window, lines.longest)
    settings = [np.array([value]) for value in (min(lines.counting.min_basket, 2**62), reach, recall)]
    _frame(session, item=codes, removal=removal, place=order).createOrReplaceTempView("items")
    named = dict(zip(("min_basket", "reach", "recall"), settings, strict=True))
    _frame(session, **named).createOrReplaceTempView("settings")


def _frame(session: Any, **columns: Any) -> Any:
    table = pa.table(columns)
    try:
        return session.createDataFrame(table)
    except TypeError:  # before Spark 4
        return session.createDataFrame(table.to_pandas())


def _collected(frame: Any) -> pa.Table:
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    return pa.Table.from_pandas(frame.toPandas())  # before Spark 4


def _margins(session: Any, lines: LineSource, pairs: int) -> Margins:
    counting = lines.counting
    found = _collected(session.sql(MARGINS.query))
    columns = ("records_first", "records_second") if counting.directed else ("records_either", "records_either")
    first, second = (np.zeros(len(lines.catalog), dtype=np.int64) for _ in columns)
    item = found["item"].to_numpy()
    first[item], second[item] = (found[column].to_numpy() for column in columns)
    records = int(first.sum()) if counting.directed else int(first.sum()) // 2
    return Margins(first, second, records, pairs, lines.counted, counting.category_of(lines.catalog))


def _kept(pairs: Any, totals: Margins, keep: Keep, lines: LineSource) -> PairBlock:
    """The pairs that pass the screen and `keep`, judged by the workers; of a `ThresholdSearch` only those it needs."""
    totals = replace(totals, pairs=0)  # as every engine shows it to `keep`
    counting, customers = lines.counting, lines.users_known
    screen = screen_of(keep, totals)
    often_enough = pairs.where(f"pair_count >= {int(screen.min_count)}")
    cutting: Any = keep if isinstance(keep, ThresholdSearch) else None

    def judged(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            block = _block(batch, counting, customers=customers)
            block = kept(block.where(screen.passes(block)), totals, keep)
            p = np.zeros(len(block)) if cutting is None else cutting.p_of(block, totals)
            yield _batch(block, p)

    frame = often_enough.mapInArrow(judged, f"{PAIRS}, p double, bin int")
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
        bins = np.floor(-np.log10(p) * BINS_A_DECADE)
    columns += [pa.array(p), pa.array(np.clip(bins, 0, 2**31 - 1).astype(np.int32))]
    names = ["query", "item", "pair_count", "reverse_count", "customers", "p", "bin"]
    return pa.RecordBatch.from_arrays(columns, names)


def _block(rows: Any, counting: CountOptions, *, customers: bool | None = None) -> PairBlock:
    """Rows of `pairs` as a block; an unknown column is None."""
    if customers is None:
        customers = rows["customers"].null_count < len(rows)
    query, item, number, reverse, people = (rows.column(name) for name in rows.schema.names[:5])
    return PairBlock(
        _array(query, np.int32),
        _array(item, np.int32),
        _array(number, np.int64),
        _array(reverse, np.int64) if counting.directed else None,
        _array(people, np.int64) if customers else None,
    )


def _array(column: Any, dtype: Any) -> npt.NDArray[Any]:
    plain = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.asarray(plain.to_numpy(zero_copy_only=False), dtype=dtype)
