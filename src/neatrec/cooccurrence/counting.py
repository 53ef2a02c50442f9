"""`count` and `margins`, by either engine."""

from __future__ import annotations

from neatrec.cooccurrence.count_input import CountInput
from neatrec.cooccurrence.engine import MEMORY, Engine
from neatrec.data.baskets import Baskets
from neatrec.data.counts import CountOptions, Counts, Margins
from neatrec.errors import ResourceError
from neatrec.memory import available_memory
from neatrec.text import show_size

EVERY_PAIR = CountOptions()
BYTES_PER_LINE = 24
"""Bytes of a line: postings (8), the lines by basket (8), order and customers."""
BYTES_PER_ITEM = 64
"""Bytes of an item in the counters of one thread, and in margins."""
BYTES_PER_BASKET = 40
BYTES_IN_FLIGHT = 100 * 2**20
"""Bytes of the blocks of pairs under test, per thread."""
BYTES_PER_RECORD = 64
"""Bytes of a pair, in a block and sorted."""


def count(
    baskets: Baskets,
    options: CountOptions = EVERY_PAIR,
    engine: Engine = MEMORY,
    *,
    totals: Margins | None = None,
) -> Counts:
    """Count the pairs of the baskets.

    The result is the same for any engine, number of threads and order of baskets.

    Parameters
    ----------
    baskets
        The baskets to count.
    options
        Which pairs count, and which of them are kept.
    engine
        Engine that counts.
    totals
        Margins of the same baskets with the same options, where known.

    Examples
    --------
    >>> pairs = count(Baskets.from_lists([["tea", "milk"], ["tea", "milk", "rice"]]))
    >>> pairs.item[pairs.row(pairs.catalog.code_of["tea"])].tolist(), pairs.count.tolist()
    ([0, 1], [1, 2, 1])
    """
    source = CountInput.of(baskets, options)
    if engine.on_spark:
        from neatrec.cooccurrence.spark.engine import count_in_spark

        kept, totals = count_in_spark(source, totals, engine.threads)
    else:
        from neatrec.cooccurrence.memory import count_in_memory

        require_memory(source, engine)
        kept, totals = count_in_memory(source, totals, engine.thread_count)
    columns = kept.columns(len(baskets.catalog))
    query = columns.pop("query")
    return Counts.of_pairs(baskets.catalog, kept.options, totals, query, columns)


def margins(
    baskets: Baskets, options: CountOptions = EVERY_PAIR, engine: Engine = MEMORY
) -> Margins:
    """Count the totals without the pairs, in time and memory of the lines.

    With a window or `once_per_customer` the time is that of the pairs.
    """
    source = CountInput.of(baskets, options)
    if engine.on_spark:
        from neatrec.cooccurrence.spark.engine import margins_in_spark

        return margins_in_spark(source, engine.threads)
    from neatrec.cooccurrence.memory import margins_in_memory

    require_memory(source, engine)
    return margins_in_memory(source, engine.thread_count)


def require_memory(source: CountInput, engine: Engine) -> None:
    """Refuse a count that does not fit into memory."""
    needed, free = bytes_needed(source, engine.thread_count), available_memory()
    if needed > free:
        raise ResourceError(
            f"counting pairs needs about {show_size(needed)} of memory, {show_size(free)} are free",
            hint="Count on a cluster with --engine spark, or read fewer orders with --since.",
            argument="engine",
        )


def bytes_needed(source: CountInput, threads: int) -> int:
    """Peak memory of a count, in addition to the baskets and the kept pairs."""
    sizes = source.sizes
    in_flight = min(BYTES_IN_FLIGHT * (threads + 1), BYTES_PER_RECORD * source.records)
    return int(
        BYTES_PER_LINE * sizes.sum()
        + BYTES_PER_BASKET * len(sizes)
        + BYTES_PER_ITEM * len(source.category) * (threads + 1)
        + in_flight
    )
