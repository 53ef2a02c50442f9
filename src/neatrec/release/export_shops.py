"""Files that shop systems import: for each product the products that go with it."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neatrec.data.catalog import Catalog, string_array
from neatrec.errors import ParameterError, SourceError
from neatrec.release.export_rows import FORMULA, AllAnswers
from neatrec.text import printable

Codes = npt.NDArray[np.int32]
NOWHERE = -1
"""The reason for an item that is no product of the shop."""
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


@dataclass(frozen=True)
class Products:
    """The products of a shop, and which of them each item is."""

    columns: dict[str, pa.LargeStringArray]
    """The key first, then the columns of the import."""
    of_item: Codes
    """For each item its product, NOWHERE without one; shape (items,)."""
    prefix: str = ""


def shop_table(
    answers: AllAnswers, shop: ShopFormat, file: Path | None
) -> tuple[pa.Table, list[str]]:
    """The rows that the shop imports, and the items left out.

    `file` is the shop's own product export. Items of one product, such as its sizes, share a list.
    """
    catalog = answers.table.catalog
    products = _usable(_products(catalog, shop, file), shop)
    out = [catalog.id(code) for code in np.flatnonzero(products.of_item == NOWHERE).tolist()]
    rows = [
        (each.cart[0], line.code, rank) for each in answers for rank, line in enumerate(each.lines)
    ]
    query, item, rank = np.array(rows, dtype=np.int32).reshape(-1, 3).T
    query, item = products.of_item[query], products.of_item[item]
    kept = (query != NOWHERE) & (item != NOWHERE) & (query != item)
    if rows and not kept.any() and out:
        kind = f"{shop.own_key} that {shop.name} can hold"
        kind = f"product of {printable(file)}" if file else kind
        example = printable(out[0])
        raise ParameterError(f"no answer is for an item whose id is a {kind}, such as {example!r}")
    query, item = _first_answers(query[kept], item[kept], rank[kept], shop.most)
    key, *others = products.columns
    asked, start = np.unique(query, return_index=True)
    start = pa.array([*start, len(query)], pa.int64())
    keys = products.columns[key].cast(pa.string())
    names = pc.binary_join_element_wise(products.prefix, keys, "").take(pa.array(item))
    table = {name: products.columns[name].take(pa.array(asked)) for name in (key, *others)}
    lists = pa.LargeListArray.from_arrays(start, names)
    table[shop.complements] = pc.binary_join(lists, shop.separator)
    answers.count = len(item)
    return pa.table(table), out


def _first_answers(
    query: Codes, item: Codes, rank: npt.NDArray[np.int64], most: int | None
) -> tuple[Codes, Codes]:
    """Each product's answers by rank, each once, at most `most`."""
    order = np.lexsort((rank, query))
    query, item = query[order], item[order]
    pair = query.astype(np.int64) * (item.max(initial=0) + 1) + item
    first = np.sort(np.unique(pair, return_index=True)[1])
    query, item = query[first], item[first]
    if most is not None:
        place = np.arange(len(query)) - np.searchsorted(query, query)
        query, item = query[place < most], item[place < most]
    return query, item


def _products(catalog: Catalog, shop: ShopFormat, file: Path | None) -> Products:
    if file is None:
        if shop.own_key is None:
            needed = " and ".join((shop.keys[0], *shop.kept))
            raise ParameterError(
                f"{shop.name} imports products by {needed}: give the product export of your shop "
                "in --products",
                argument="products",
                hint="In the admin: Products > Export, all products, plain CSV.",
            )
        return Products({shop.own_key: catalog.ids}, np.arange(len(catalog), dtype=np.int32))
    names, rows = _read_products(file)
    key = _column(names, shop.keys, file)
    kept = [_column(names, (name,), file) for name in shop.kept]
    columns: dict[str, list[str]] = {name: [] for name in (key, *kept)}
    code: dict[str, int] = {}
    found: dict[str, int] = {}  # by another column
    for row in rows:
        if not row[key]:
            continue
        product = code.setdefault(row[key], len(code))
        if product == len(columns[key]):  # the first row of a product has its title
            for name, cells in columns.items():
                cells.append(row[name])
        for name in shop.also:
            found.setdefault(row.get(name) or "", product)
    if not code:
        raise SourceError(f"there is no product in {printable(file)}", file=str(file))
    by_name = found | code
    by_name.pop("", None)
    of_item = np.array(
        [by_name.get(item, NOWHERE) for item in catalog.ids.to_pylist()], dtype=np.int32
    )
    for variant, item in catalog.code_of_variant.items():
        if of_item[item] == NOWHERE:
            of_item[item] = by_name.get(variant, NOWHERE)
    return Products(
        {name: string_array(cells) for name, cells in columns.items()}, of_item, shop.prefix
    )


def _read_products(file: Path) -> tuple[Sequence[str], list[dict[str, str]]]:
    limit = csv.field_size_limit(MAX_CELL)
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream, restval="")
            return reader.fieldnames or (), list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = error.strerror if isinstance(error, OSError) else printable(error)
        message = f"cannot read the products in {printable(file)}: {why}"
        raise SourceError(message, file=str(file)) from error
    finally:
        csv.field_size_limit(limit)


def _column(names: Sequence[str], wanted: tuple[str, ...], file: Path) -> str:
    for name in wanted:
        if name in names:
            return name
    message = f"no column {' or '.join(wanted)} in {printable(file)}"
    hint = f"Its columns: {printable(', '.join(names))}."
    raise SourceError(message, file=str(file), hint=hint)


def _usable(products: Products, shop: ShopFormat) -> Products:
    """Without products whose cells a spreadsheet would run, or whose key would break the list."""
    key, *others = products.columns
    mark = shop.separator.strip()
    bad = pc.match_substring_regex(products.columns[key], rf"{mark}|\A\s|\s\z|[\r\n]|\A\z")
    for name in (key, *others):
        bad = pc.or_(bad, pc.match_substring_regex(products.columns[name], FORMULA))
    of_item = products.of_item.copy()
    of_item[(of_item != NOWHERE) & bad.to_numpy(zero_copy_only=False)[of_item]] = NOWHERE
    return Products(products.columns, of_item, products.prefix)
