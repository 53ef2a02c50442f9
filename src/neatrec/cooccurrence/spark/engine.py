"""The Spark engine: each task counts one band of rows with the compiled counter.

Row r is the item of rank r with its partners of lower rank (`layout.py`). A band of rows
needs only the lines up to its last rank in the baskets that hold one of its items. Bands are
independent of each other, and their counts are final.

Every worker gets all lines once, as a broadcast; a task selects those of its band and counts them
as the memory engine does. Its kept pairs come back as arrays: no pair is ever a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from neatrec.compiled import compiled
from neatrec.cooccurrence.layout import Band, BasketLines, by_popularity, make_rows, rank_of
from neatrec.cooccurrence.memory import KeptPairs, PairBlock, count_in_memory
from neatrec.cooccurrence.spark.session import connect, translated_errors
from neatrec.data.counts import CountOptions, Int64

LINES_PER_BAND = 1 << 23
"""Lines that a task holds at a time, at about 30 bytes each; a single row may need more."""
TASKS_PER_CORE = 2


class CountedBand(NamedTuple):
    """The pairs of a band that are kept, of a count of at least `least`; the number of all."""

    blocks: list[PairBlock]
    pairs: int
    least: int


def count_in_spark(
    lines: BasketLines, group: Int64, options: CountOptions, counts: Int64, threads: int | None
) -> KeptPairs:
    """Count the pairs that the options keep; `counts`: the lines of each item."""
    with translated_errors():
        context = connect(threads=threads).sparkContext
        tasks = TASKS_PER_CORE * context.defaultParallelism
        bands = cut_bands(counts, len(lines.start), at_least=tasks, max_lines=LINES_PER_BAND)
        shared = context.broadcast((tuple(lines), group))

        def counted(band: Band) -> CountedBand:
            arrays, groups = shared.value
            return count_band(BasketLines.frozen(*arrays), groups, options, band)

        results = context.parallelize(bands, len(bands)).map(counted).collect()
        # after an error Spark may be gone, and the broadcast with it
        shared.unpersist()
    return merged(results, options)


def merged(bands: Sequence[CountedBand], options: CountOptions) -> KeptPairs:
    """The kept pairs of all bands: none is rarer than what any of them had to drop."""
    least = max((band.least for band in bands), default=options.min_count)
    kept = KeptPairs(replace(options, min_count=least))
    for band in bands:
        kept.all_pairs += band.pairs
        for block in band.blocks:
            kept.add(block)
    return kept


def cut_bands(counts: Int64, baskets: int, *, at_least: int, max_lines: int) -> list[Band]:
    """Cut about `at_least` bands of similar work, or more: of at most about `max_lines` lines each.

    A single row may have more. Of a basket with one of its lines a row needs the lines of lower
    rank: estimated by chance.
    """
    code = by_popularity(counts)
    own = counts[code].astype(np.float64)
    lower = (np.cumsum(own) - own) / max(baskets, 1)
    work = np.cumsum(own * (1 + lower))
    total = float(work[-1]) if len(work) else 0.0
    number = max(at_least, -int(-total // max_lines))
    cuts = np.searchsorted(work, np.linspace(0, total, number + 1)[1:-1])
    limits = np.unique([0, *cuts, len(code)]).tolist() if len(code) else [0, 0]
    return [Band(code, first, last) for first, last in pairwise(limits)]


def count_band(lines: BasketLines, group: Int64, options: CountOptions, band: Band) -> CountedBand:
    """Count a band of rows."""
    rank = rank_of(band.code, len(group))
    items = np.empty(int(lines.sizes.sum()), dtype=np.int32)
    copied = np.empty((len(lines.start), 3), dtype=np.int64)
    number = copy_lines(lines, rank, band.first, band.last, items, copied)
    basket, start, stop = copied[:number].T
    items = items[: stop.max(initial=0)].copy()
    customer = lines.customer[basket] if len(lines.customer) else lines.customer
    own = BasketLines.frozen(items, start, stop, customer)
    counts = np.bincount(items, minlength=len(group))
    kept = count_in_memory(make_rows(own, group, options, counts, band), options, threads=1)
    return CountedBand(kept.blocks, kept.all_pairs, kept.options.min_count)


@compiled
def copy_lines(lines, rank, first, last, items_out, baskets_out):  # type: ignore[no-untyped-def]
    """Copy the lines of rank under `last` of each basket with a rank from `first` to `last`.

    baskets_out: basket, start and stop of its copied lines, shape (B, 3); returns the number of
    baskets.
    """
    items, start, stop, _ = lines
    n = baskets = 0
    for b in range(len(start)):
        begin, wanted = n, False
        for k in range(start[b], stop[b]):
            r = rank[items[k]]
            if r < last:
                items_out[n] = items[k]
                n += 1
                wanted = wanted or first <= r
        if wanted and n - begin > 1:
            baskets_out[baskets, 0] = b
            baskets_out[baskets, 1], baskets_out[baskets, 2] = begin, n
            baskets += 1
        else:
            n = begin
    return baskets
