"""The same labels by other means, each written as its friends would write it.

The task: count the unordered pairs of items bought together (O: records of the pair, F: records
that hold the item, N: all records) and find those with O >= 5, O > F F / N and chi-squared > 3.84.
Every peer gets the table it likes best, made before the clock starts, and the margins by the
cheapest way there is: from basket sizes, without looking at pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.label_data import Orders, read_orders

LEAST, CRITICAL = 5, 3.84
Task = Callable[[], int]


def chi_squared(count: Any, first: Any, second: Any, total: float) -> Any:
    """Pearson's statistic of a 2x2 table, for arrays and for column expressions alike."""
    excess = count - first * second / total
    return excess**2 * total**3 / (first * (total - first) * (second * (total - second)))


def all_pairs_margins(orders: Orders) -> tuple[np.ndarray, float]:
    """F by item code, and N: each line meets all other lines of its basket."""
    partners = (orders.sizes - 1)[orders.basket]
    total = np.bincount(orders.item, partners, orders.items)
    return total, total.sum() / 2


def labels_of(
    item: np.ndarray, other: np.ndarray, count: np.ndarray, margins: tuple[np.ndarray, float]
) -> int:
    """How many of these pairs are labels."""
    total, records = margins
    first, second = total[item], total[other]
    statistic = chi_squared(count.astype(np.float64), first, second, records)
    return int(((count > first * second / records) & (statistic > CRITICAL)).sum())


def scipy_all_pairs() -> Task:
    """X'X of the basket-item matrix."""
    from scipy import sparse

    orders = read_orders()
    ones = np.ones(len(orders.item), dtype=np.int32)
    x = sparse.csr_matrix(
        (ones, (orders.basket, orders.item)), shape=(len(orders.sizes), orders.items)
    )
    _ = x[:10].T @ x[:10]

    def task() -> int:
        c = (x.T.tocsr() @ x).tocoo()
        often = (c.data >= LEAST) & (c.row < c.col)
        return labels_of(c.row[often], c.col[often], c.data[often], all_pairs_margins(orders))

    return task


def polars_all_pairs() -> Task:
    """A lazy self-join."""
    import polars as pl

    orders = read_orders()
    columns = {"basket": orders.basket, "item": orders.item}
    lines = pl.DataFrame({name: column.astype(np.int32) for name, column in columns.items()})

    def counts(some: Any) -> Any:
        both = some.lazy().join(some.lazy(), on="basket")
        pairs = both.filter(pl.col("item") < pl.col("item_right"))
        counted = pairs.group_by("item", "item_right").agg(pl.len().alias("count"))
        return counted.filter(pl.col("count") >= LEAST).collect()

    counts(lines[:100])

    def task() -> int:
        often = counts(lines)
        columns = (often[name].to_numpy() for name in ("item", "item_right", "count"))
        return labels_of(*columns, all_pairs_margins(orders))

    return task


def duckdb_all_pairs() -> Task:
    """A self-join in SQL, in memory, on all cores."""
    import duckdb
    import pyarrow as pa

    orders = read_orders()
    con = duckdb.connect()
    con.execute("SET enable_progress_bar = false")
    columns = {"basket": orders.basket, "item": orders.item}
    incoming = pa.table({name: column.astype(np.int32) for name, column in columns.items()})
    con.register("incoming", incoming)
    con.execute("CREATE TABLE orders AS SELECT * FROM incoming")
    query = f"""SELECT a.item, b.item AS other, COUNT(*) AS n
        FROM orders a JOIN orders b ON a.basket = b.basket
        WHERE a.item < b.item GROUP BY a.item, b.item HAVING COUNT(*) >= {LEAST}"""
    con.execute(query.replace("orders", "(SELECT * FROM orders LIMIT 100)")).fetchnumpy()

    def task() -> int:
        found = con.execute(query).fetchnumpy()
        return labels_of(found["item"], found["other"], found["n"], all_pairs_margins(orders))

    return task
