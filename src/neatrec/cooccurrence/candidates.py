"""Candidate sets by any engine: the items bought most often with each query."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from neatrec.cooccurrence.counting import count
from neatrec.cooccurrence.counts import CountOptions, Int64, PairBlock
from neatrec.cooccurrence.resources import thread_count
from neatrec.cooccurrence.spark.lines import as_spark_lines
from neatrec.data.baskets import BasketStream
from neatrec.errors import must_be_one_of

ENGINES = ("memory", "spark")
NO_COUNTS = PairBlock.empty(0, reverse=False, customers=False)


def best_partners(offsets: Int64, count: Int64, place: Int64, size: int) -> tuple[Int64, Int64]:
    """Where the `size` largest counts of each row stand, best first, and where each row's start among them.

    Row r is offsets[r]:offsets[r + 1] of `count` and `place`; equal counts go by ascending `place`.
    """
    # one whole number sorts by count, largest first, then by place
    key = -count * (int(place.max(initial=0)) + 1) + place
    chosen = []
    for start, end in pairwise(offsets):
        row = key[start:end]
        best = np.argpartition(row, size - 1)[:size] if len(row) > size else np.arange(len(row))
        chosen.append(start + best[np.argsort(row[best])])
    picked = np.concatenate([*chosen, np.zeros(0, dtype=np.int64)]).astype(np.int64)
    return picked, np.concatenate([[0], np.cumsum([len(rows) for rows in chosen])]).astype(np.int64)


def both_ways(block: PairBlock) -> PairBlock:
    """Every pair of a block as (q, v) and as (v, q), with the sum of both directions."""
    count, reverse = block.count, block.reverse
    if reverse is not None:
        once = (block.query < block.item) | (reverse == 0)
        block, count = block.where(once), (count + reverse)[once]
    return PairBlock(np.append(block.query, block.item), np.append(block.item, block.query), np.append(count, count))


def best_of(blocks: Iterable[PairBlock], place: Int64, size: int) -> PairBlock:
    """The `size` largest counts of each query, best first, queries ascending; equal counts go by ascending `place`."""
    pairs = PairBlock.joined(list(blocks))
    pairs = pairs.where(np.argsort(pairs.query, kind="stable"))
    offsets = np.append(np.unique(pairs.query, return_index=True)[1], len(pairs))
    return pairs.where(best_partners(offsets, pairs.count, place[pairs.item], size)[0])


def candidate_pairs(
    baskets: BasketStream,
    counting: CountOptions,
    size: int,
    place: Int64,
    *,
    engine: str = "memory",
    threads: int | None = None,
) -> PairBlock:
    """For each query its `size` items bought with it most often, both directions together, best first.

    Equal counts go by ascending `place`, shape (items,). Rows are sorted by query.
    """
    if engine == "memory":
        pairs = count(baskets, counting, engine="memory", threads=threads)
        return best_of([both_ways(PairBlock(pairs.query, pairs.item, pairs.count, pairs.reverse))], place, size)
    if engine == "spark":
        from neatrec.cooccurrence.spark.engine import candidates_in_spark

        return candidates_in_spark(as_spark_lines(baskets, counting), counting, size, place, thread_count(threads))
    raise must_be_one_of("engine", ENGINES, engine)
