"""The one door: `count` and `margins`."""

from __future__ import annotations

from neatrec.baskets import BasketStream
from neatrec.copurchase.job import make_job
from neatrec.copurchase.memory import count_in_memory, margins_in_memory
from neatrec.copurchase.records import CoPurchases, Counting, Keep, Margins
from neatrec.copurchase.resources import thread_count

EVERY_PAIR = Counting()


def count(
    baskets: BasketStream,
    counting: Counting = EVERY_PAIR,
    *,
    keep: Keep | None = None,
    engine: str = "auto",
    memory_limit: int | str | None = None,
    threads: int | None = None,
) -> CoPurchases:
    """The pairs of the baskets with their counts, equal for any engine, number of threads and order of rows."""
    job = make_job(baskets, counting)
    pairs, totals = count_in_memory(job, keep, thread_count(threads))
    return CoPurchases(job.catalog, counting, totals, *pairs.columns)  # type: ignore[arg-type]


def margins(
    baskets: BasketStream,
    counting: Counting = EVERY_PAIR,
    *,
    engine: str = "auto",
    memory_limit: int | str | None = None,
    threads: int | None = None,
) -> Margins:
    """The totals of a count without its pairs."""
    return margins_in_memory(make_job(baskets, counting), thread_count(threads))
