"""Recall sets by any engine: the items bought most often with each query."""

from __future__ import annotations

import numpy as np

from neatrec.cooccurrence.counting import count
from neatrec.cooccurrence.counts import CountOptions, Int64, PairBlock
from neatrec.cooccurrence.input_summary import survey
from neatrec.cooccurrence.resources import SHARE, as_bytes, available_memory, thread_count
from neatrec.data.baskets import BasketStream
from neatrec.errors import must_be_one_of

ENGINES = ("memory", "duckdb", "spark")


def recall_pairs(
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
        return _in_memory(baskets, counting, size, place, threads)
    found, workers = survey(baskets, counting), thread_count(threads)
    if engine == "duckdb":
        from neatrec.cooccurrence.duckdb import recall_in_duckdb

        limit = int(available_memory() * SHARE) if memory_limit is None else as_bytes(memory_limit)
        return recall_in_duckdb(found, size, place, limit, workers)
    if engine == "spark":
        from neatrec.cooccurrence.spark.engine import recall_in_spark

        return recall_in_spark(found, size, place, workers)
    raise must_be_one_of("engine", ENGINES, engine)


def _in_memory(
    baskets: BasketStream, counting: CountOptions, size: int, place: Int64, threads: int | None
) -> PairBlock:
    pairs = count(baskets, counting, engine="memory", threads=threads).symmetric()
    order = np.lexsort((place[pairs.item], -pairs.count, pairs.query))
    rank = np.arange(len(order)) - pairs.indptr[pairs.query[order]]
    chosen = order[rank < size]
    return PairBlock(pairs.query[chosen], pairs.item[chosen], pairs.count[chosen])
