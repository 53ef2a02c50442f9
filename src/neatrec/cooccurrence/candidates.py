"""Candidate sets by any engine: the items bought most often with each query."""

from __future__ import annotations

import numpy as np

from neatrec.cooccurrence.count_input import summarize
from neatrec.cooccurrence.counting import as_limit, count
from neatrec.cooccurrence.counts import CountOptions, Int64, PairBlock
from neatrec.cooccurrence.resources import thread_count
from neatrec.cooccurrence.spark.lines import as_spark_lines
from neatrec.data.baskets import BasketStream
from neatrec.errors import must_be_one_of

ENGINES = ("memory", "duckdb", "spark")


def candidate_pairs(
    baskets: BasketStream,
    counting: CountOptions,
    size: int,
    place: Int64,
    *,
    engine: str = "memory",
    memory_limit: int | str | None = None,
    threads: int | None = None,
) -> PairBlock:
    """For each query its `size` items bought with it most often, both directions together, best first.

    Equal counts go by ascending `place`, shape (items,). Rows are sorted by query.
    """
    if engine == "memory":
        pairs = count(baskets, counting, engine="memory", memory_limit=memory_limit, threads=threads).symmetric()
        order = np.lexsort((place[pairs.item], -pairs.count, pairs.query))
        rank = np.arange(len(order)) - pairs.indptr[pairs.query[order]]
        chosen = order[rank < size]
        return PairBlock(pairs.query[chosen], pairs.item[chosen], pairs.count[chosen])
    workers = thread_count(threads)
    if engine == "duckdb":
        from neatrec.cooccurrence.duckdb import candidates_in_duckdb

        return candidates_in_duckdb(summarize(baskets, counting), size, place, as_limit(memory_limit), workers)
    if engine == "spark":
        from neatrec.cooccurrence.spark.engine import candidates_in_spark

        return candidates_in_spark(as_spark_lines(baskets, counting), counting, size, place, workers)
    raise must_be_one_of("engine", ENGINES, engine)
