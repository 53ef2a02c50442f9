"""The DuckDB engine: the statements of `sql/` on tables of integer codes, spilling to disk what does not fit.

Ids and names never reach SQL. This file is the only one that knows DuckDB; the statements are plain enough for Spark.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from neatrec.cooccurrence.count_input import InputSummary, pairs_of_size, removal_codes
from neatrec.cooccurrence.counts import CountOptions, Int64, Keep, Margins, PairBlock
from neatrec.cooccurrence.pair_filter import kept, prefilter_of
from neatrec.cooccurrence.resources import human
from neatrec.cooccurrence.sql import CANDIDATE_STEPS, MARGINS, counting_steps
from neatrec.errors import MissingDependencyError, ResourceError
from neatrec.text import printable

BLOCK = 1 << 20
"""Pairs that `keep` sees at a time."""

BASKETS_PER_BATCH = 1 << 17
"""Baskets whose lines are handed to DuckDB at a time."""
BYTES_PER_THREAD = 512 << 20
"""With so much per thread DuckDB groups and spills what does not fit; with much less it may fail."""

log = logging.getLogger(__name__)


def count_in_duckdb(
    summary: InputSummary, keep: Keep | None, memory_limit: int, threads: int
) -> tuple[PairBlock, Margins]:
    """The kept pairs, sorted, and the margins of all pairs."""
    counting = summary.counting
    with _database(memory_limit, threads) as con:
        _count_pairs(con, summary)
        pairs = int(con.execute("SELECT COUNT(*) FROM pairs").fetchall()[0][0])
        totals = _margins(con, summary, pairs)
        if keep is None:
            return _all_pairs(con, pairs, counting, summary.users_known, memory_limit), totals
        return _kept_pairs(con, totals, keep, counting, summary.users_known), totals


def margins_in_duckdb(summary: InputSummary, memory_limit: int, threads: int) -> Margins:
    """The totals without the pairs."""
    with _database(memory_limit, threads) as con:
        _count_pairs(con, summary)
        return _margins(con, summary, 0)


def candidates_in_duckdb(summary: InputSummary, size: int, place: Int64, memory_limit: int, threads: int) -> PairBlock:
    """For each query its `size` items bought with it most often, best first; equal counts by ascending `place`."""
    with _database(memory_limit, threads) as con:
        _count_pairs(con, summary, candidates=size, place=place)
        for step in CANDIDATE_STEPS:
            con.execute(f"CREATE {'VIEW' if step.view else 'TABLE'} {step.name} AS {step.query}")
        found = con.execute("SELECT * FROM candidate_sets ORDER BY query, best").fetchnumpy()
        return PairBlock(*(found[column] for column in ("query", "item", "pair_count")))


@contextmanager
def _database(memory_limit: int, threads: int) -> Iterator[Any]:
    """A connection to a database in a folder that is gone afterwards, its errors raised as ours."""
    try:
        import duckdb
    except ImportError as error:
        raise MissingDependencyError("the duckdb engine needs duckdb", hint="pip install duckdb") from error

    with tempfile.TemporaryDirectory(prefix="neatrec-", ignore_cleanup_errors=True) as folder:
        config = {
            "memory_limit": f"{max(memory_limit >> 20, 1)}MiB",
            "temp_directory": str(Path(folder) / "spill"),
            "threads": threads,
            "preserve_insertion_order": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        con = duckdb.connect(str(Path(folder) / "pairs.duckdb"), config=config)
        try:
            con.execute("SET enable_progress_bar = false")  # it draws on stdout, where answers go
            yield con
        except duckdb.OutOfMemoryException as error:
            raise ResourceError(
                f"DuckDB cannot count these baskets within {human(memory_limit)}: {printable(error)}",
                hint=f"Raise `memory_limit` to {human(_enough(memory_limit, threads))}, or use fewer `threads`.",
            ) from error
        except (duckdb.IOException, duckdb.TransactionException, duckdb.FatalException) as error:
            # a full disk is the second where it was the journal that found no space, then the third
            raise ResourceError(
                f"DuckDB cannot write to {printable(folder)}: {printable(error)}",
                hint="Set TMPDIR to a folder on a larger disk.",
            ) from error
        finally:
            con.close()


def _enough(memory_limit: int, threads: int) -> int:
    """What will do where `memory_limit` did not: what each thread needs to spill in order, or twice what there was."""
    return max(threads * BYTES_PER_THREAD, 2 * memory_limit)


def _count_pairs(con: Any, summary: InputSummary, *, candidates: int = 0, place: Int64 | None = None) -> None:
    """Leave the table `pair_counts` and the view `pairs`."""
    _load_lines(con, summary)
    _load_settings(con, summary, candidates=candidates, place=place)
    for step in counting_steps(summary.counting, users_known=summary.users_known, narrow=_is_narrow(summary)):
        con.execute(f"CREATE {'VIEW' if step.view else 'TABLE'} {step.name} AS {step.query}")
        if step.name == "pair_counts":
            con.execute("DROP TABLE IF EXISTS customer_pairs")  # the disk may need its space


def _load_lines(con: Any, summary: InputSummary) -> None:
    """The tables `basket_lines` and `baskets`, some baskets at a time: their columns are larger than the lines."""
    con.execute("CREATE TABLE basket_lines (basket BIGINT, position INTEGER, item INTEGER)")
    con.execute("CREATE TABLE baskets (basket BIGINT, customer INTEGER)")
    done = 0
    for shard, customers in summary.shards_with_customers():
        for start in range(0, len(shard), BASKETS_PER_BATCH):
            part = slice(start, min(start + BASKETS_PER_BATCH, len(shard)))
            numbers = np.arange(done + part.start, done + part.stop)
            customer = pa.nulls(len(numbers), pa.int32()) if customers is None else customers[part]
            _insert(con, "baskets", basket=numbers, customer=customer)
            sizes, first, last = shard.sizes[part], shard.offsets[part.start], shard.offsets[part.stop]
            position = np.arange(1, last - first + 1) - np.repeat(shard.offsets[part] - first, sizes)
            _insert(
                con, "basket_lines", basket=np.repeat(numbers, sizes), position=position, item=shard.items[first:last]
            )
        done += len(shard)


def _load_settings(con: Any, summary: InputSummary, *, candidates: int = 0, place: Int64 | None = None) -> None:
    """The tables `items` and `settings`."""
    removal = removal_codes(summary.counting.category_of(summary.catalog))
    codes = np.arange(len(removal))
    con.execute("CREATE TABLE items (item INTEGER, removal INTEGER, place BIGINT)")
    _insert(con, "items", item=codes, removal=removal, place=codes if place is None else place)
    longest = int(summary.sizes.max(initial=1))
    reach = longest if summary.counting.window is None else min(summary.counting.window, longest)
    con.execute("CREATE TABLE settings (min_basket BIGINT, reach BIGINT, candidates BIGINT)")
    con.execute("INSERT INTO settings VALUES (?, ?, ?)", [min(summary.counting.min_basket, 2**62), reach, candidates])


def _insert(con: Any, table: str, **columns: Any) -> None:
    con.register("incoming", pa.table(columns))
    con.execute(f"INSERT INTO {table} SELECT * FROM incoming")
    con.unregister("incoming")


def _is_narrow(summary: InputSummary) -> bool:
    """Whether records are cheaper by stretches of the window than by all pairs of a basket; they are the same."""
    if summary.counting.window is None:
        return False
    lines = int(summary.sizes.sum())
    by_stretches = 2 * summary.counting.window * lines
    by_baskets = 2 * int(pairs_of_size(summary.sizes, None).sum()) + lines
    return by_stretches <= by_baskets


def _margins(con: Any, summary: InputSummary, pairs: int) -> Margins:
    rows = con.execute(MARGINS.query).fetchnumpy()
    baskets = int(con.execute("SELECT COUNT(*) FROM counted_baskets").fetchall()[0][0])
    return Margins.of_sql(rows, summary.counting, summary.catalog, pairs, baskets)


def _blocks(con: Any, query: str, counting: CountOptions, customers: bool) -> Iterator[PairBlock]:
    """The rows of a query as blocks, one at a time in memory."""
    relation = con.sql(query)
    # renamed in DuckDB 1.5; the old name warns
    reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
    for batch in reader(BLOCK):
        q, v, n, reverse, customer_counts = batch.columns
        yield PairBlock(
            q.to_numpy(),
            v.to_numpy(),
            n.to_numpy(),
            reverse.to_numpy() if counting.directed else None,
            customer_counts.to_numpy() if customers else None,
        )


def _all_pairs(con: Any, pairs: int, counting: CountOptions, customers: bool, memory_limit: int) -> PairBlock:
    """Every pair, written where it belongs as it comes."""
    size = pairs * (8 + 8 * (1 + counting.directed + customers))
    if size > memory_limit:
        raise ResourceError(
            f"{pairs:,} pairs need {human(size)}, more than the memory limit of {human(memory_limit)}",
            hint="Pass `keep` to choose the wanted pairs, or raise `memory_limit`.",
        )
    whole = PairBlock.empty(pairs, reverse=counting.directed, customers=customers)
    done = 0
    for block in _blocks(con, "SELECT * FROM pairs ORDER BY query, item", counting, customers):
        for target, column in zip(whole.columns, block.columns, strict=True):
            if target is not None and column is not None:
                target[done : done + len(block)] = column
        done += len(block)
    return whole


def _kept_pairs(con: Any, totals: Margins, keep: Keep, counting: CountOptions, customers: bool) -> PairBlock:
    """The pairs that pass the filter and `keep`; only they stay in memory."""
    totals = replace(totals, pairs=0)  # as every engine shows it to `keep`
    prefilter = prefilter_of(keep, totals)
    blocks = [PairBlock.empty(0, reverse=counting.directed, customers=customers)]
    often_enough = f"SELECT * FROM pairs WHERE pair_count >= {int(prefilter.min_count)}"
    for block in _blocks(con, often_enough, counting, customers):
        blocks.append(kept(block.where(prefilter.passes(block)), totals, keep))
    found = PairBlock.joined(blocks)
    return found.where(np.lexsort((found.item, found.query)))
