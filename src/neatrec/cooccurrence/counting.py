"""The one door: `count`, `margins` and what they will cost."""

from __future__ import annotations

import logging

from neatrec.cooccurrence.count_input import make_job
from neatrec.cooccurrence.counts import CooccurrenceCounts, CountOptions, Keep, Margins, PairBlock
from neatrec.cooccurrence.forecast import Forecast, bytes_needed, forecast_of
from neatrec.cooccurrence.input_summary import InputSummary, survey
from neatrec.cooccurrence.resources import SHARE, as_bytes, available_memory, human, thread_count
from neatrec.data.baskets import BasketStream
from neatrec.errors import ResourceError, must_be_one_of

ENGINES = ("auto", "memory", "duckdb", "spark")
EVERY_PAIR = CountOptions()

log = logging.getLogger(__name__)


def count(
    baskets: BasketStream,
    counting: CountOptions = EVERY_PAIR,
    *,
    keep: Keep | None = None,
    engine: str = "auto",
    memory_limit: int | str | None = None,
    threads: int | None = None,
) -> CooccurrenceCounts:
    """The pairs of the baskets with their counts: the same for any engine, number of threads and order of baskets.

    `keep(block, margins)` says which pairs of a block are wanted; memory then grows with lines, never with pairs. A
    `memory_limit` is a number of bytes or a size such as "2GB"; `auto` takes the memory engine where it fits in it.

    >>> from neatrec.data.baskets import Baskets
    >>> pairs = count(Baskets.from_lists([["tea", "milk"], ["tea", "milk", "rice"]]))
    >>> pairs.item[pairs.row(pairs.catalog.code_of["tea"])].tolist(), pairs.count.tolist()
    ([0, 1], [1, 2, 1])
    """
    found, workers, limit = survey(baskets, counting), thread_count(threads), _limit(memory_limit)
    if engine == "spark":
        from neatrec.cooccurrence.spark.engine import count_in_spark

        pairs, totals = count_in_spark(found, keep, workers)
        return _counted(found, pairs, totals)
    need = bytes_needed(found, keep_all=keep is None, threads=workers)
    in_memory = _choose(engine, need, limit, stated=memory_limit is not None) == "memory"
    if in_memory:
        from neatrec.cooccurrence.memory import can_count, count_in_memory

        job = make_job(found)
        in_memory = engine == "memory" or can_count(job)
    if in_memory:
        pairs, totals = count_in_memory(job, keep, workers)
    else:
        from neatrec.cooccurrence.duckdb import count_in_duckdb

        pairs, totals = count_in_duckdb(found, keep, limit, workers)
    return _counted(found, pairs, totals)


def _counted(found: InputSummary, pairs: PairBlock, totals: Margins) -> CooccurrenceCounts:
    return CooccurrenceCounts(
        found.catalog, found.counting, totals, pairs.query, pairs.item, pairs.count, pairs.reverse, pairs.customers
    )


def margins(
    baskets: BasketStream,
    counting: CountOptions = EVERY_PAIR,
    *,
    engine: str = "auto",
    memory_limit: int | str | None = None,
    threads: int | None = None,
) -> Margins:
    """The totals of a count without its pairs, in time and memory of the lines (`once_per_customer`: of the pairs)."""
    found, workers, limit = survey(baskets, counting), thread_count(threads), _limit(memory_limit)
    if engine == "spark":
        from neatrec.cooccurrence.spark.engine import margins_in_spark

        return margins_in_spark(found, workers)
    need = bytes_needed(found, keep_all=False, threads=workers)
    if _choose(engine, need, limit, stated=memory_limit is not None) == "memory":
        from neatrec.cooccurrence.memory import can_count, margins_in_memory

        job = make_job(found)
        if engine == "memory" or can_count(job):
            return margins_in_memory(job, workers)
    from neatrec.cooccurrence.duckdb import margins_in_duckdb

    return margins_in_duckdb(found, limit, workers)


def forecast(
    baskets: BasketStream, counting: CountOptions = EVERY_PAIR, *, keep_all: bool = False, threads: int | None = None
) -> Forecast:
    """What `count` would cost in memory and time, from basket sizes and item counts alone, without counting pairs."""
    return forecast_of(survey(baskets, counting), keep_all=keep_all, threads=thread_count(threads))


def _limit(memory_limit: int | str | None) -> int:
    return int(available_memory() * SHARE) if memory_limit is None else as_bytes(memory_limit)


def _choose(engine: str, need: int, limit: int, *, stated: bool) -> str:
    """`memory` or `duckdb`; a limit that was stated is kept by refusing, one that was guessed is not."""
    if engine not in ENGINES:
        raise must_be_one_of("engine", ENGINES, engine)
    fits = need <= limit
    if engine == "memory" and stated and not fits:
        raise ResourceError(
            f"counting in memory needs about {human(need)}, more than the memory limit of {human(limit)}",
            hint='Raise `memory_limit`, pass `keep`, or use engine="duckdb", which spills to disk.',
            argument="memory_limit",
        )
    chosen = ("memory" if fits else "duckdb") if engine == "auto" else engine
    # what fits in memory is what everybody expects: only the way over the disk is worth a line
    log.log(
        logging.DEBUG if chosen == "memory" else logging.INFO,
        "counting with the %s engine (%s): needs about %s in memory, may use %s",
        chosen,
        "chosen by size" if engine == "auto" else "as asked",
        human(need),
        human(limit),
    )
    return chosen
