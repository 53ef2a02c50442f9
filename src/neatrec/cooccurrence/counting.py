"""`count` and `margins`, by either `Engine`, and the `CountBook` of all counts of a training."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from neatrec.data.baskets import Baskets
from neatrec.data.counts import CountOptions, Counts, Int64, Margins, Mask
from neatrec.data.splits import uniform_of_ids
from neatrec.errors import (
    ParameterError,
    ResourceError,
    must_be,
    must_be_one_of,
    require_whole,
)
from neatrec.memory import available_memory, available_processors
from neatrec.text import printable, show_size

ENGINES = ("memory", "spark")
MAX_THREADS = 1024
"""More threads only wait for each other; tens of thousands bring a machine down."""
EVERY_PAIR = CountOptions()
PARTS = ("all", "half A", "half B", "early", "late")
MAX_COUNT = 2**31 - 1
"""Two counts share one 64-bit counter."""
BYTES_PER_LINE, BYTES_PER_BASKET = 24, 40
"""Postings (8), the lines by basket (8), order and customers."""
BYTES_PER_ITEM = 64
"""In the counters of one thread, and in margins."""
BYTES_PER_RECORD, BYTES_IN_FLIGHT = 40, 100 * 2**20
"""Of a pair, in a block and sorted; of the blocks of pairs under test, per thread."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Engine:
    """The engine that counts the pairs; all engines give the same counts.

    >>> Engine(threads=2).thread_count
    2
    """

    name: str = "memory"
    """`memory` or `spark`."""
    threads: int | None = None
    """None: one thread for each core of this process."""

    def __post_init__(self) -> None:
        if self.name not in ENGINES:
            raise must_be_one_of("engine", ENGINES, self.name)
        require_whole("threads", self.threads, 1, MAX_THREADS, or_none=True)

    @property
    def thread_count(self) -> int:
        """The number of threads."""
        return self.threads or available_processors()

    @property
    def on_spark(self) -> bool:
        """Whether Spark counts."""
        return self.name == "spark"


MEMORY = Engine()


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
    from neatrec.cooccurrence.layout import BasketLines, count_lines, make_rows
    from neatrec.cooccurrence.memory import count_in_memory
    from neatrec.statistics.independence import groups_of

    totals = margins(baskets, options) if totals is None else totals
    by_customer = options.customers or options.once_per_customer
    selected = np.flatnonzero(baskets.sizes >= options.min_basket)
    lines = BasketLines.of(baskets, selected, users=by_customer)
    group = groups_of(totals.category)
    counts, squares, within = np.zeros((3, len(group)), dtype=np.int64)
    count_lines(lines, counts, squares, within)
    _refuse_overflow(squares)
    if engine.on_spark:
        from neatrec.cooccurrence.spark.engine import count_in_spark

        kept = count_in_spark(lines, group, options, counts, engine.threads)
    else:
        _require_memory(lines.sizes, len(group), engine.thread_count)
        rows = make_rows(lines, group, options, counts)
        kept = count_in_memory(rows, options, engine.thread_count)
    if (least := kept.options.min_count) > options.min_count:
        log.info("pairs seen fewer than %d times in %d baskets are left out", least, len(baskets))
    customers = options.customers and baskets.users is not None
    columns = kept.columns(len(group), customers=customers)
    query, totals = columns.pop("query"), replace(totals, pairs=kept.all_pairs)
    return Counts.of_pairs(baskets.catalog, kept.options, totals, query, columns)


def margins(baskets: Baskets, options: CountOptions = EVERY_PAIR) -> Margins:
    """Count the totals without the pairs, in time and memory of the lines.

    With `once_per_customer` the time is that of the pairs.
    """
    from neatrec.cooccurrence.totals import margins_of

    _check(baskets, options)
    return margins_of(baskets, options)


def pairs_of_size(sizes: Int64) -> Int64:
    """Unordered pairs of lines in baskets of these sizes.

    >>> pairs_of_size(np.array([1, 2, 4])).tolist()
    [0, 1, 6]
    """
    return sizes * (sizes - 1) // 2


def _check(baskets: Baskets, options: CountOptions) -> None:
    """Refuse options that the baskets cannot be counted with, and a basket with too many pairs."""
    if not isinstance(baskets, Baskets):
        raise must_be("baskets", "Baskets", type(baskets).__name__)
    for name in ("directed", "forward"):
        if getattr(options, name) and not baskets.ordered:
            raise ParameterError(
                f"`{name}` must be False for baskets without cart order",
                argument=name,
                hint=f"Count with {name}=False, or name the column that holds the cart position.",
            )
    if options.once_per_customer and baskets.users is None:
        raise ParameterError(
            "`once_per_customer` must be False for baskets without users",
            argument="once_per_customer",
            hint="Name the column that holds the user, or count every basket.",
        )
    pairs = pairs_of_size(baskets.sizes)
    if pairs.max(initial=0) > options.max_basket_pairs:
        longest = int(pairs.argmax())
        raise ResourceError(
            f"basket '{printable(baskets.ids[longest].as_py())}' has {baskets.sizes[longest]:,} "
            f"lines, which make {pairs[longest]:,} pairs, more than "
            f"`max_basket_pairs` = {options.max_basket_pairs:,}",
            hint="Leave the basket out (it may be the sales of a day, or a test); `neatrec labels` "
            "can also raise --max-basket-pairs.",
            argument="max_basket_pairs",
        )


def _refuse_overflow(squares: Int64) -> None:
    """Refuse baskets in which a pair may have more records than a counter holds."""
    largest = int(squares.max(initial=0))
    if largest > MAX_COUNT:
        raise ResourceError(
            f"a pair may have up to {largest:,} records, more than can be counted ({MAX_COUNT:,})",
            hint="Count a part of the baskets at a time, or leave out items that occur thousands "
            "of times in a basket.",
        )


def _require_memory(sizes: Int64, items: int, threads: int) -> None:
    """Refuse a count that needs more memory than is free, beside the baskets and the kept pairs."""
    records = int(pairs_of_size(sizes).sum())
    needed = (
        BYTES_PER_LINE * int(sizes.sum())
        + BYTES_PER_BASKET * len(sizes)
        + BYTES_PER_ITEM * items * (threads + 1)
        + min(BYTES_IN_FLIGHT * (threads + 1), BYTES_PER_RECORD * records)
    )
    if needed > (free := available_memory()):
        raise ResourceError(
            f"counting pairs needs about {show_size(needed)} of memory, {show_size(free)} are free",
            hint="Count on a cluster with --engine spark, or read fewer orders with --since.",
            argument="engine",
        )


class CountBook:
    """The counts of some baskets and of their parts.

    The parts are all baskets, two random halves of the customers (of the baskets where customers
    are not known), and the baskets before and after the mean time.
    """

    def __init__(self, baskets: Baskets, engine: Engine = MEMORY) -> None:
        self.baskets, self.engine = baskets, engine
        self.passes: list[str] = []
        """The name of the part, for each pass over its pairs."""
        self._counts: dict[tuple[str, CountOptions], Counts] = {}
        self._margins: dict[tuple[str, CountOptions], Margins] = {}

    def count(self, part: str, options: CountOptions, *, keep: bool = True) -> Counts:
        """The pairs of a part; `keep`: for the next call. Selected pairs are counted anew."""
        selective = options.only is not None or options.limit is not None
        key = part, options
        if not selective and key in self._counts:
            return self._counts[key]
        self.passes.append(part)
        counts = count(self.part(part), options, self.engine, totals=self._margins.get(key))
        self._margins[key] = counts.margins
        if keep and not selective:
            self._counts[key] = counts
        return counts

    def margins(self, part: str, options: CountOptions) -> Margins:
        """The totals of a part, from its pairs if these are counted already."""
        key = part, options
        if key not in self._margins:
            if options.once_per_customer:
                self.passes.append(part)
            self._margins[key] = margins(self.part(part), options)
        return self._margins[key]

    def part(self, name: str) -> Baskets:
        """The baskets of a part."""
        if name == "all":
            return self.baskets
        if name not in PARTS:
            raise must_be_one_of("part", PARTS, name)
        first = self._half_a if name.startswith("half") else self._early
        return self.baskets.select(first if name in ("half A", "early") else ~first)

    @property
    def has_periods(self) -> bool:
        """Whether times are known."""
        return self.baskets.times is not None and len(self.baskets) > 0

    @cached_property
    def _early(self) -> Mask:
        times = self.baskets.times
        assert times is not None
        return np.asarray(times < times.sum(dtype=np.float64) / len(times))

    @cached_property
    def _half_a(self) -> Mask:
        baskets = self.baskets
        if baskets.users is None or baskets.user_ids is None:
            return _random_half(baskets.ids)
        return _random_half(baskets.user_ids)[baskets.users]


def _random_half(ids: pa.LargeStringArray) -> Mask:
    return np.asarray(uniform_of_ids(ids, "half") < 0.5)
