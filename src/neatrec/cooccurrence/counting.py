"""`count`, `margins` and `forecast`, by any engine."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import numpy as np

from neatrec.cooccurrence.count_input import flat_input, summarize
from neatrec.cooccurrence.counts import CooccurrenceCounts, CountOptions, Keep, Margins, PairBlock, PairPart
from neatrec.cooccurrence.recency import CopiedShards, WeightedKeep, divided_margins, half_life_on_spark
from neatrec.cooccurrence.resources import SHARE, Forecast, as_bytes, bytes_needed, forecast_of, thread_count
from neatrec.cooccurrence.spark.lines import SparkLines, as_spark_lines
from neatrec.data.baskets import BasketStream
from neatrec.errors import ResourceError, must_be, must_be_one_of
from neatrec.memory import available_memory
from neatrec.text import show_size

ENGINES = ("auto", "memory", "disk", "spark")
EVERY_PAIR = CountOptions()
_chosen: ContextVar[tuple[str, int | str | None]] = ContextVar("_chosen", default=("auto", None))

log = logging.getLogger(__name__)


@contextmanager
def counting_engine(engine: str, memory_limit: int | str | None = None) -> Iterator[None]:
    """Counts inside that name no engine and no limit of their own are made by this one."""
    if engine not in ENGINES:
        raise must_be_one_of("engine", ENGINES, engine)
    token = _chosen.set((engine, memory_limit))
    try:
        yield
    finally:
        _chosen.reset(token)


def _resolved(engine: str, memory_limit: int | str | None) -> tuple[str, int | str | None]:
    return _chosen.get() if engine == "auto" and memory_limit is None else (engine, memory_limit)


def count(
    baskets: BasketStream | SparkLines,
    counting: CountOptions = EVERY_PAIR,
    *,
    keep: Keep | None = None,
    engine: str = "auto",
    memory_limit: int | str | None = None,
    threads: int | None = None,
) -> CooccurrenceCounts:
    """The pairs of the baskets with their counts: the same for any engine, number of threads and order of baskets.

    `keep(block, margins)` gives a mask of the wanted pairs of a block; memory then grows with lines, not with pairs. A
    `memory_limit` is a number of bytes or a size such as "2GB"; `auto` takes the memory engine where it fits in it.
    Lines that Spark reads (`neatrec.io.spark_lines`) are counted on Spark.

    >>> from neatrec.data.baskets import Baskets
    >>> pairs = count(Baskets.from_lists([["tea", "milk"], ["tea", "milk", "rice"]]))
    >>> pairs.item[pairs.row(pairs.catalog.code_of["tea"])].tolist(), pairs.count.tolist()
    ([0, 1], [1, 2, 1])
    """
    engine, memory_limit = _resolved(engine, memory_limit)
    if counting.half_life is not None:
        copies, plain = _copies(baskets, counting, engine)
        weighted = WeightedKeep(keep, copies.baskets)
        how: Any = {"engine": engine, "memory_limit": memory_limit, "threads": threads}
        return weighted.weighted(count(copies, plain, keep=weighted, **how), counting)
    workers, limit = thread_count(threads), as_limit(memory_limit)
    if engine == "spark" or isinstance(baskets, SparkLines):
        from neatrec.cooccurrence.spark.engine import count_in_spark

        lines = as_spark_lines(baskets, counting)
        pairs, totals = count_in_spark(lines, counting, keep, workers)
        return CooccurrenceCounts(lines.catalog, counting, totals, *pairs.columns)
    summary = summarize(baskets, counting)
    need = bytes_needed(summary, keep_all=keep is None, threads=workers)
    if _choose(engine, need, limit, stated=memory_limit is not None) == "memory":
        from neatrec.cooccurrence.memory import count_in_memory

        pairs, totals = count_in_memory(flat_input(summary), keep, workers)
    else:
        from neatrec.cooccurrence.disk import count_on_disk

        pairs, totals = count_on_disk(summary, keep, limit, workers)
    return CooccurrenceCounts(summary.catalog, counting, totals, *pairs.columns)


def count_parts(
    baskets: BasketStream,
    counting: CountOptions,
    *,
    keep: Keep | None = None,
    order: bool = False,
    threads: int | None = None,
) -> tuple[Margins, Iterator[PairPart]]:
    """The totals, and the undirected pairs that `count` gives, some queries at a time, ascending: where all lines do
    not fit in memory, all pairs need not either. `order`: with how often each pair's smaller code came first.
    """
    if counting.half_life is not None:
        raise must_be("half_life", "none for counts in parts", counting.half_life)
    engine, memory_limit = _resolved("auto", None)
    workers, limit = thread_count(threads), as_limit(memory_limit)
    if engine == "spark":
        return _parts_of_spark(baskets, counting, keep, threads, order=order)
    summary = summarize(baskets, counting)
    need = bytes_needed(summary, keep_all=keep is None, threads=workers)
    if _choose(engine, need, limit, stated=memory_limit is not None) == "memory":
        from neatrec.cooccurrence.memory import count_parts_in_memory

        return count_parts_in_memory(flat_input(summary), keep, workers, order=order)
    from neatrec.cooccurrence.disk import count_parts_on_disk

    return count_parts_on_disk(summary, keep, limit, workers, order=order)


def _parts_of_spark(
    baskets: BasketStream, counting: CountOptions, keep: Keep | None, threads: int | None, *, order: bool
) -> tuple[Margins, Iterator[PairPart]]:
    """One part: the kept pairs fit into the driver."""
    from neatrec.cooccurrence.count_kernels import find_pairs

    found = count(baskets, counting, keep=keep, threads=threads)
    pairs, forward = PairBlock(found.query, found.item, found.count, None, found.customers), None
    if order:
        # a pair once each way would be lost to a filter on one direction's count, so all directed pairs are looked at
        ways = count(baskets, replace(counting, directed=True), keep=lambda b, _: b.query < b.item, threads=threads)
        place = find_pairs(ways.indptr, ways.item, found.query, found.item)
        forward = np.where(place < 0, 0, ways.count[np.maximum(place, 0)] if len(ways) else 0)
    return found.margins, iter([PairPart(pairs, found.margins.pairs, forward)])


def margins(
    baskets: BasketStream | SparkLines,
    counting: CountOptions = EVERY_PAIR,
    *,
    engine: str = "auto",
    memory_limit: int | str | None = None,
    threads: int | None = None,
) -> Margins:
    """The totals of a count without its pairs, in time and memory of the lines (`once_per_customer`: of the pairs)."""
    engine, memory_limit = _resolved(engine, memory_limit)
    if counting.half_life is not None:
        how: Any = {"engine": engine, "memory_limit": memory_limit, "threads": threads}
        copies, plain = _copies(baskets, counting, engine)
        return divided_margins(margins(copies, plain, **how), copies.baskets)
    workers, limit = thread_count(threads), as_limit(memory_limit)
    if engine == "spark" or isinstance(baskets, SparkLines):
        from neatrec.cooccurrence.spark.engine import margins_in_spark

        return margins_in_spark(as_spark_lines(baskets, counting), counting, workers)
    summary = summarize(baskets, counting)
    need = bytes_needed(summary, keep_all=False, threads=workers)
    if _choose(engine, need, limit, stated=memory_limit is not None) == "memory":
        from neatrec.cooccurrence.memory import margins_in_memory

        return margins_in_memory(flat_input(summary), workers)
    from neatrec.cooccurrence.disk import margins_on_disk

    return margins_on_disk(summary, limit, workers)


def forecast(
    baskets: BasketStream, counting: CountOptions = EVERY_PAIR, *, keep_all: bool = False, threads: int | None = None
) -> Forecast:
    """What `count` would cost in memory and time, from basket sizes and item counts alone, without counting pairs."""
    return forecast_of(summarize(baskets, counting), keep_all=keep_all, threads=thread_count(threads))


def _copies(
    baskets: BasketStream | SparkLines, counting: CountOptions, engine: str
) -> tuple[CopiedShards, CountOptions]:
    """What an engine counts, and how, where baskets have weights."""
    if engine == "spark" or isinstance(baskets, SparkLines):
        raise half_life_on_spark()
    return CopiedShards(baskets, counting), replace(counting, half_life=None, as_of=None)


def as_limit(memory_limit: int | str | None) -> int:
    """The memory limit in bytes; by default a share of the available memory."""
    return int(available_memory() * SHARE) if memory_limit is None else as_bytes(memory_limit)


def _choose(engine: str, need: int, limit: int, *, stated: bool) -> str:
    """`memory` or `disk`; a limit that was stated is kept by refusing, one that was guessed is not."""
    if engine not in ENGINES:
        raise must_be_one_of("engine", ENGINES, engine)
    fits = need <= limit
    if engine == "memory" and stated and not fits:
        raise ResourceError(
            f"counting in memory needs about {show_size(need)}, more than the memory limit of {show_size(limit)}",
            hint='Raise `memory_limit`, pass `keep`, or use engine="disk", which counts band by band.',
            argument="memory_limit",
        )
    chosen = ("memory" if fits else "disk") if engine == "auto" else engine
    # what fits in memory is expected: only reading the baskets again and again is worth a line
    log.log(
        logging.DEBUG if chosen == "memory" else logging.INFO,
        "counting with the %s engine (%s): needs about %s in memory, may use %s",
        chosen,
        "chosen by size" if engine == "auto" else "requested",
        show_size(need),
        show_size(limit),
    )
    return chosen
