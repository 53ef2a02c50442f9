"""Order exports as shop systems write them, of a simulated supermarket: `python
tests/helpers/exports.py FOLDER`."""

import csv
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

from neatrec import supermarket

# fmt: off
SHOPIFY = (
    "Name", "Email", "Financial Status", "Paid at", "Created at", "Lineitem quantity",
    "Lineitem name", "Lineitem price", "Lineitem sku", "Billing Name", "Id",
)
WOOCOMMERCE = (
    "Order Number", "Order Status", "Order Date", "Email (Billing)", "SKU", "Item #", "Item Name",
    "Quantity (- Refund)", "Item Cost", "Category",
)
GERMAN = (
    "Belegnummer", "Belegdatum", "Kundennummer", "Filiale", "Artikelnummer",
    "Artikelbezeichnung", "Warengruppe", "Menge", "Einzelpreis",
)
# fmt: on


class OrderLine(NamedTuple):
    order: int
    line: int
    """Place in the order, from 1."""
    time: datetime
    customer: str
    store: str
    sku: str
    name: str
    category: str


@cache
def order_lines(baskets: int, items: int) -> tuple[OrderLine, ...]:
    return tuple(_order_lines(baskets, items))


def _order_lines(baskets: int, items: int) -> Iterator[OrderLine]:
    made = supermarket(baskets=baskets, items=items).baskets
    catalog, times, users = made.catalog, made.times, made.users
    store = made.attributes["store"]
    for order in range(len(made)):
        time = datetime.fromtimestamp(int(times[order]) / 1e6, UTC)
        about = f"customer{users[order]}", store.names[store.codes[order]]
        for line, code in enumerate(
            made.items[made.offsets[order] : made.offsets[order + 1]].tolist(), 1
        ):
            item = catalog.id(code), catalog.name(code), catalog.category_path(code)[-1]
            yield OrderLine(1001 + order, line, time, *about, *item)


def plain(lines: Iterable[OrderLine]) -> Iterator[list[object]]:
    """A table with usual names: the lines that README and tutorial show."""
    yield ["order_id", "date", "store", "customer", "sku", "title", "category"]
    for line in lines:
        order = [line.order, line.time.date(), line.store, line.customer]
        yield [*order, line.sku, line.name, line.category]


def shopify(lines: Iterable[OrderLine]) -> Iterator[list[object]]:
    """Shopify: what belongs to the order stands in its first line only."""
    yield list(SHOPIFY)
    for line in lines:
        time = line.time.strftime("%Y-%m-%d %H:%M:%S +0000")
        order = [f"{line.customer}@example.org", "paid", time, time] if line.line == 1 else [""] * 4
        billing = [line.customer, line.order] if line.line == 1 else ["", ""]
        yield [f"#{line.order}", *order, 1, line.name, "4.00", line.sku, *billing]


def woocommerce(lines: Iterable[OrderLine]) -> Iterator[list[object]]:
    """WooCommerce with its usual export extension."""
    yield list(WOOCOMMERCE)
    for line in lines:
        time, customer = line.time.strftime("%Y-%m-%d %H:%M"), f"{line.customer}@example.org"
        order = [line.order, "Completed", time, customer]
        yield [*order, line.sku, line.line, line.name, 1, 4, line.category]


def german_erp(lines: Iterable[OrderLine]) -> Iterator[list[object]]:
    """A German merchandise management system: semicolons, days before months, decimal commas."""
    yield list(GERMAN)
    for line in lines:
        about = [line.order, line.time.strftime("%d.%m.%Y %H:%M"), line.customer, line.store]
        yield [*about, line.sku, line.name, line.category, "1,00", "3,99"]


EXPORTS: dict[str, tuple[Callable[[Iterable[OrderLine]], Iterator[list[object]]], str]] = {
    "orders.csv": (plain, ","),
    "shopify.csv": (shopify, ","),
    "woocommerce.csv": (woocommerce, ","),
    "german-erp.csv": (german_erp, ";"),
}
"""File -> how its rows are made, and what stands between their fields."""


def write_export(name: str, folder: Path, baskets: int = 30_000, items: int = 1_000) -> Path:
    rows, delimiter = EXPORTS[name]
    with open(folder / name, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=delimiter).writerows(rows(order_lines(baskets, items)))
    return folder / name


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    for name in EXPORTS:
        print(write_export(name, target))
