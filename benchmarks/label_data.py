"""The Instacart train orders as plain arrays, the same for every contender."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow.parquet as pq

from benchmarks.harness import data_folder


@dataclass(frozen=True)
class Orders:
    """Lines by basket and cart position; all codes count from 0."""

    basket: np.ndarray
    item: np.ndarray
    sizes: np.ndarray
    """Lines of each basket."""
    item_aisle: np.ndarray
    """The aisle of each item."""

    @property
    def items(self) -> int:
        return len(self.item_aisle)


def read_orders() -> Orders:
    folder = data_folder("instacart", ["order_products__train.parquet", "products.parquet"])
    lines = pq.read_table(
        folder / "order_products__train.parquet",
        columns=["order_id", "product_id", "add_to_cart_order"],
    )
    products = pq.read_table(
        folder / "products.parquet", columns=["product_id", "aisle_id"]
    ).sort_by("product_id")
    order, product, cart = (column.to_numpy() for column in lines.columns)
    by_cart = np.lexsort((cart, order))
    _, basket, sizes = np.unique(order[by_cart], return_inverse=True, return_counts=True)
    item = np.searchsorted(products["product_id"].to_numpy(), product[by_cart])
    _, item_aisle = np.unique(products["aisle_id"].to_numpy(), return_inverse=True)
    return Orders(basket, item, sizes, item_aisle)
