"""A folder in the Instacart layout, small enough to reproduce the paper on in a second."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

NAMES = [
    "Beef Hot Dogs",
    "Classic Hot Dog Buns",
    "Banana",
    "Large Lemon",
    *(f"Thing {number}" for number in range(33)),
]
NAMES += ["Whole Milk", "Cereal", "Organic Tortilla Chips"]
IDS = [*range(1, 38), 4210, 20955, 35561]
"""Products of the paper's examples among others, the three of its case study with their own
numbers."""


def write_instacart(
    folder: Path,
    *,
    prior: bool = False,
    orders: int = 3000,
    change: Callable[[list[int]], list[int]] = list,
) -> Path:
    """A folder in the official layout: product 2i goes with product 2i + 1, and some are
    popular."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    products = np.arange(len(NAMES))
    weights = 1 / (1 + products) ** 0.3
    weights[:2] /= 20  # hot dogs and buns are bought for each other
    lines, order_rows = [], []
    for order in range(1, orders + 1):
        pair = 2 * int(rng.integers(0, 10))
        noise = rng.choice(products, size=5, replace=False, p=weights / weights.sum()).tolist()
        basket = change([pair, pair + 1, *(item for item in noise if item not in (pair, pair + 1))])
        lines += [(order, IDS[item], place + 1) for place, item in enumerate(basket)]
        order_rows.append(
            (order, order % 700, "prior" if prior and order <= orders // 2 else "train")
        )
    for name in ("prior", "train"):
        of_set = {order for order, _, eval_set in order_rows if eval_set == name}
        kept = [line for line in lines if line[0] in of_set]
        if kept:
            columns = [pa.array(column) for column in zip(*kept, strict=True)]
            table = pa.table(columns, names=["order_id", "product_id", "add_to_cart_order"])
            pq.write_table(table, folder / f"order_products__{name}.parquet")
    order_columns = [pa.array(column) for column in zip(*order_rows, strict=True)]
    orders_table = pa.table(order_columns, names=["order_id", "user_id", "eval_set"])
    for name in ("order_dow", "order_hour_of_day"):
        orders_table = orders_table.append_column(name, pa.array([0] * len(order_rows)))
    pq.write_table(orders_table, folder / "orders.parquet")
    tables = {
        "products": {
            "product_id": IDS,
            "product_name": NAMES,
            "aisle_id": products % 8 + 1,
            "department_id": products % 2 + 1,
        },
        "aisles": {
            "aisle_id": np.arange(8) + 1,
            "aisle": [f"aisle {number}" for number in range(8)],
        },
        "departments": {"department_id": [1, 2], "department": ["produce", "snacks"]},
    }
    for name, content in tables.items():
        pq.write_table(pa.table(content), folder / f"{name}.parquet")
    return folder
