"""The same labels by other means, each written as its friends would write it.

The task: count the unordered pairs of items bought together (O: records of the pair, F: records that hold the item, N:
all records) and find those with O >= 5, O > F F / N and chi-squared > 3.84. Every peer gets the table it likes best,
made before the clock starts, and the margins by the cheapest way there is: from basket sizes, without looking at pairs.
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
    return excess * excess * total * total * total / (first * (total - first) * (second * (total - second)))


def all_pairs_margins(orders: Orders) -> tuple[np.ndarray, float]:
    """F by item code, and N: each line meets all other lines of its basket."""
    partners = (orders.sizes - 1)[orders.basket]
    total = np.bincount(orders.item, partners, orders.items)
    return total, total.sum() / 2


def window_margins(orders: Orders, window: int) -> tuple[np.ndarray, float]:
    """F and N of pairs at most `window` positions apart."""
    size = orders.sizes[orders.basket]
    partners = np.minimum(orders.position, window) + np.minimum(size - 1 - orders.position, window)
    total = np.bincount(orders.item, partners, orders.items)
    return total, total.sum() / 2


def labels_of(item: np.ndarray, other: np.ndarray, count: np.ndarray, margins: tuple[np.ndarray, float]) -> int:
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
    x = sparse.csr_matrix((ones, (orders.basket, orders.item)), shape=(len(orders.sizes), orders.items))
    _ = x[:10].T @ x[:10]

    def task() -> int:
        c = (x.T.tocsr() @ x).tocoo()
        often = (c.data >= LEAST) & (c.row < c.col)
        return labels_of(c.row[often], c.col[often], c.data[often], all_pairs_margins(orders))

    return task


def pandas_all_pairs() -> Task:
    """A self-merge, and the pairs counted as one number each."""
    import pandas as pd

    orders = read_orders()
    lines = pd.DataFrame({"basket": orders.basket.astype(np.int32), "item": orders.item.astype(np.int32)})
    _ = lines[:100].merge(lines[:100], on="basket")

    def task() -> int:
        both = lines.merge(lines, on="basket")
        both = both[both["item_x"] < both["item_y"]]
        key = both["item_x"].astype(np.int64) * orders.items + both["item_y"]
        counts = key.value_counts(sort=False)
        counts = counts[counts >= LEAST]
        pair = counts.index.to_numpy()
        return labels_of(pair // orders.items, pair % orders.items, counts.to_numpy(), all_pairs_margins(orders))

    return task


def _polars_lines(orders: Orders) -> Any:
    import polars as pl

    lines = {"basket": orders.basket, "item": orders.item, "position": orders.position, "aisle": orders.aisle}
    return pl.DataFrame({name: column.astype(np.int32) for name, column in lines.items()})


def _polars_labels(pairs: Any, margins: tuple[np.ndarray, float]) -> int:
    """Count the pairs of a lazy frame (item, other) and test them."""
    import polars as pl

    often = pairs.group_by("item", "other").agg(pl.len().alias("count")).filter(pl.col("count") >= LEAST).collect()
    return labels_of(*(often[name].to_numpy() for name in ("item", "other", "count")), margins)


def polars_all_pairs() -> Task:
    """A lazy self-join."""
    import polars as pl

    orders = read_orders()
    lines = _polars_lines(orders).select("basket", "item")

    def pairs(some: Any) -> Any:
        both = some.lazy().join(some.lazy(), on="basket").filter(pl.col("item") < pl.col("item_right"))
        return both.select("item", other="item_right")

    pairs(lines[:100]).collect()
    return lambda: _polars_labels(pairs(lines), all_pairs_margins(orders))


def polars_window() -> Task:
    """No join at all: the lines are in cart order, so a partner is the line k rows below, if its basket is the same."""
    import polars as pl

    orders = read_orders()
    lines = _polars_lines(orders).select("basket", "item")

    def pairs(some: Any) -> Any:
        shifted = [
            some.lazy()
            .select("basket", "item", below=pl.col("basket").shift(-k), other=pl.col("item").shift(-k))
            .filter(pl.col("basket") == pl.col("below"))
            for k in range(1, 6)
        ]
        low, high = pl.min_horizontal("item", "other"), pl.max_horizontal("item", "other")
        return pl.concat(shifted).select(item=low, other=high)

    pairs(lines[:100]).collect()
    return lambda: _polars_labels(pairs(lines), window_margins(orders, 5))


def polars_window_join() -> Task:
    """A self-join with a distance filter."""
    import polars as pl

    orders = read_orders()
    lines = _polars_lines(orders).select("basket", "item", "position")

    def pairs(some: Any) -> Any:
        distance = pl.col("position_right") - pl.col("position")
        both = some.lazy().join(some.lazy(), on="basket").filter((distance > 0) & (distance <= 5))
        low, high = pl.min_horizontal("item", "item_right"), pl.max_horizontal("item", "item_right")
        return both.select(item=low, other=high)

    pairs(lines[:100]).collect()
    return lambda: _polars_labels(pairs(lines), window_margins(orders, 5))


def _duckdb(orders: Orders, query: str, margins: Callable[[Orders], tuple[np.ndarray, float]]) -> Task:
    """Count pairs by a query over the table `lines`, in memory, on all cores."""
    import duckdb
    import pyarrow as pa

    con = duckdb.connect()
    con.execute("SET enable_progress_bar = false")
    columns = {"basket": orders.basket, "item": orders.item, "position": orders.position}
    con.register("incoming", pa.table({name: column.astype(np.int32) for name, column in columns.items()}))
    con.execute("CREATE TABLE lines AS SELECT * FROM incoming")
    con.unregister("incoming")
    con.execute(query.replace("lines", "(SELECT * FROM lines LIMIT 100)")).fetchnumpy()

    def task() -> int:
        found = con.execute(query).fetchnumpy()
        return labels_of(found["item"], found["other"], found["n"], margins(orders))

    return task


def duckdb_all_pairs() -> Task:
    """A self-join in SQL."""
    query = f"""SELECT a.item, b.item AS other, COUNT(*) AS n FROM lines a JOIN lines b ON a.basket = b.basket
        WHERE a.item < b.item GROUP BY a.item, b.item HAVING COUNT(*) >= {LEAST}"""
    return _duckdb(read_orders(), query, all_pairs_margins)


def duckdb_window() -> Task:
    """A self-join on the basket and the position, once for each step."""
    query = f"""SELECT least(a.item, b.item) AS item, greatest(a.item, b.item) AS other, COUNT(*) AS n
        FROM (SELECT basket, item, position + step AS position FROM lines, range(1, 6) AS steps(step)) a
        JOIN lines b ON a.basket = b.basket AND a.position = b.position GROUP BY ALL HAVING COUNT(*) >= {LEAST}"""
    return _duckdb(read_orders(), query, lambda orders: window_margins(orders, 5))


def mlxtend_part() -> Task:
    """Frequent pairs at a support of .1 % and their association rules: the part that mlxtend can do in this time.

    No chi-squared test, and only items that are frequent themselves: their columns are picked before the clock starts.
    """
    import pandas as pd
    from mlxtend.frequent_patterns import association_rules, fpgrowth
    from scipy import sparse

    orders = read_orders()
    ones = np.ones(len(orders.item), dtype=bool)
    x = sparse.csr_matrix((ones, (orders.basket, orders.item)), shape=(len(orders.sizes), orders.items))
    frequent = np.flatnonzero(np.bincount(orders.item, minlength=orders.items) >= 0.001 * len(orders.sizes))
    carts = pd.DataFrame.sparse.from_spmatrix(x[:, frequent])

    def task() -> int:
        sets = fpgrowth(carts, min_support=0.001, max_len=2)
        return len(association_rules(sets, metric="lift", min_threshold=0.0)) // 2

    return task
