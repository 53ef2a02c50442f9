"""Files that shop systems import: for each product the products that go with it."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from neatrec.data import Catalog
from neatrec.errors import ParameterError, SourceError
from neatrec.release.export_rows import FORMULA, AllAnswers
from neatrec.text import printable

MAX_CELL = 1 << 24
"""Characters of a cell: descriptions of products hold pictures, too."""


@dataclass(frozen=True)
class ShopFormat:
    """The import format of a shop system: names of products, and lists of them."""

    name: str
    keys: tuple[str, ...]
    """Names of the key column in the shop's own product export."""
    also: tuple[str, ...]
    """Further columns of that export that identify an item."""
    complements: str
    """The column of the file that holds the list."""
    separator: str
    kept: tuple[str, ...] = ()
    """Columns of the shop's export that the import asks for."""
    prefix: str = ""
    """Before a key in a list."""
    own_key: str | None = None
    """The column of the ids where no product export is given; None: one must be given."""
    most: int | None = None
    """Products in a list."""


SHOPS = {
    "shopify": ShopFormat(
        "Shopify",
        keys=("Handle", "URL handle"),
        also=("Variant SKU", "SKU"),
        kept=("Title",),
        complements="Complementary products "
        "(product.metafields.shopify--discovery--product_recommendation.complementary_products)",
        separator="; ",
        most=10,
    ),
    "woocommerce": ShopFormat(
        "WooCommerce",
        keys=("ID",),
        also=("SKU",),
        complements="Cross-sells",
        separator=",",
        prefix="id:",
        own_key="SKU",
    ),
}


class Products(NamedTuple):
    """The products of a shop, and which of them each item is."""

    key: str
    """The column of the keys."""
    cells: dict[str, dict[str, str]]
    """Key -> what else the import asks for."""
    of_item: list[str | None]
    """The key of each item's product; None: it has none that the import can hold."""


def shop_table(
    answers: AllAnswers, shop: ShopFormat, file: Path | None
) -> tuple[pa.Table, list[str]]:
    """The rows that the shop imports, and the items left out.

    `file` is the shop's own product export. Items of one product, such as its sizes, share a list.
    """
    catalog = answers.table.catalog
    products = _products(catalog, shop, file)
    ranked: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for each in answers:
        product = products.of_item[each.cart[0]]
        for rank, line in enumerate(each.lines):
            other = products.of_item[line.code]
            if product is not None and other is not None and product != other:
                ranked[product].append((rank, other))
    left_out = [catalog.id(code) for code, key in enumerate(products.of_item) if key is None]
    if answers.count and left_out and not ranked:
        kind = f"{shop.own_key} that {shop.name} can hold"
        kind = f"product of {printable(file)}" if file else kind
        example = printable(left_out[0])
        raise ParameterError(f"no answer is for an item whose id is a {kind}, such as {example!r}")
    rows, answers.count, prefix = list[dict[str, str]](), 0, shop.prefix if file else ""
    for product, pairs in ranked.items():
        others = dict.fromkeys(other for _, other in sorted(pairs, key=lambda pair: pair[0]))
        names = [prefix + other for other in others][: shop.most]
        cells = {products.key: product, **products.cells.get(product, {})}
        rows.append({**cells, shop.complements: shop.separator.join(names)})
        answers.count += len(names)
    columns = (products.key, *(shop.kept if file else ()), shop.complements)
    return pa.Table.from_pylist(
        rows, pa.schema([(name, pa.string()) for name in columns])
    ), left_out


def _products(catalog: Catalog, shop: ShopFormat, file: Path | None) -> Products:
    ids = catalog.ids.to_pylist()
    if file is None:
        if shop.own_key is None:
            needed = " and ".join((shop.keys[0], *shop.kept))
            raise ParameterError(
                f"{shop.name} imports products by {needed}: give the product export of your shop "
                "in --products",
                argument="products",
                hint="In the admin: Products > Export, all products, plain CSV.",
            )
        return Products(shop.own_key, {}, [item if _fits(shop, item) else None for item in ids])
    rows = _read_products(file)
    key = _column(rows[0], shop.keys, file)
    kept = [_column(rows[0], (name,), file) for name in shop.kept]
    cells: dict[str, dict[str, str]] = {}
    product_of: dict[str, str] = {}
    for row in rows:
        if row[key]:  # the first row of a product has its title
            cells.setdefault(row[key], {name: row[name] for name in kept})
            for name in shop.also:
                product_of.setdefault(row.get(name) or "", row[key])
    product_of |= {product: product for product in cells}
    product_of.pop("", None)
    unfit = {
        product for product, others in cells.items() if not _fits(shop, product, *others.values())
    }
    of_item = [product_of.get(item) for item in ids]
    for variant, item in catalog.code_of_variant.items():
        of_item[item] = of_item[item] or product_of.get(variant)
    return Products(key, cells, [None if product in unfit else product for product in of_item])


def _read_products(file: Path) -> list[dict[str, str]]:
    limit = csv.field_size_limit(MAX_CELL)
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            rows = list(csv.DictReader(stream, restval=""))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = error.strerror if isinstance(error, OSError) else printable(error)
        message = f"cannot read the products in {printable(file)}: {why}"
        raise SourceError(message, file=str(file)) from error
    finally:
        csv.field_size_limit(limit)
    if not rows:
        raise SourceError(f"there is no product in {printable(file)}", file=str(file))
    return rows


def _column(row: dict[str, str], wanted: tuple[str, ...], file: Path) -> str:
    for name in wanted:
        if name in row:
            return name
    message = f"no column {' or '.join(wanted)} in {printable(file)}"
    hint = f"Its columns: {printable(', '.join(filter(None, row)))}."
    raise SourceError(message, file=str(file), hint=hint)


def _fits(shop: ShopFormat, key: str, *cells: str) -> bool:
    """Whether no cell is a formula of a spreadsheet, and the key does not break the list."""
    breaks = rf"{shop.separator.strip()}|\A\s|\s\Z|[\r\n]|\A\Z"
    return not (re.search(breaks, key) or any(re.search(FORMULA, cell) for cell in (key, *cells)))
