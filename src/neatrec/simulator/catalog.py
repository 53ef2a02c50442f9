"""The catalogue of a simulated shop: its products, their items, names, categories and variants."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import gcd
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from neatrec.data.catalog import Catalog, string_array

PLAIN, STAPLE, DECEMBER_ONLY, ONE_STORE_ONLY, LARGE_BASKET = 0, 1, 2, 3, 4
"""The kinds of items: ordinary ones, popular noise, and those of the three traps."""

TRAPS = (DECEMBER_ONLY, ONE_STORE_ONLY, LARGE_BASKET)
SHARE_WITH_VARIANTS = 0.15
USUAL_ITEMS = 1_500
"""A shop of this size has one item of each trap product; larger shops have more."""

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Product:
    """A product such as "Hot Dog Buns". Its items differ in brand, quality and size."""

    name: str
    department: int
    aisle: int
    sizes: tuple[str, ...]
    qualities: tuple[str, ...]
    kind: int
    favoured: bool


@dataclass(frozen=True)
class ProductTable:
    """All products with the names of their departments and aisles."""

    products: tuple[Product, ...]
    departments: tuple[str, ...]
    aisles: tuple[str, ...]


@dataclass(frozen=True)
class Assortment:
    """The items of a shop: the product of each, and its number among the items of that product."""

    product: Codes
    number: Codes

    def of_product(self, product: int) -> Codes:
        """Codes of the product's items, the most popular first."""
        codes = np.flatnonzero(self.product == product)
        return codes[np.argsort(self.number[codes])].astype(np.int32)


@cache
def words() -> dict[str, Any]:
    """Names of departments, aisles, products and brands, and the complements: `words.toml`."""
    text = files("neatrec.simulator").joinpath("words.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def kind_of(name: str) -> int:
    """The kind of a product; no product is in two traps."""
    roles = ("staples", "december", "one_store", "stock_up")
    return next((kind for kind, role in enumerate(roles, 1) if name in words()[role]), PLAIN)


@cache
def product_table() -> ProductTable:
    """All products with their departments and aisles."""
    aisles: list[str] = []
    products: list[Product] = []
    for number, department in enumerate(words()["department"]):
        for aisle in department["aisle"]:
            products += [
                Product(
                    name,
                    department=number,
                    aisle=len(aisles),
                    sizes=tuple(aisle["sizes"]),
                    qualities=tuple(department["qualities"]),
                    kind=kind_of(name),
                    favoured=name in words()["favoured"],
                )
                for name in aisle["products"]
            ]
            aisles.append(aisle["name"])
    departments = tuple(department["name"] for department in words()["department"])
    return ProductTable(tuple(products), departments, tuple(aisles))


@cache
def product_kinds() -> npt.NDArray[np.int8]:
    """The kind of each product, shape (products,)."""
    return np.array([product.kind for product in product_table().products], dtype=np.int8)


@cache
def complementary_products() -> tuple[tuple[str, str], ...]:
    """Directed pairs of product names: the first brings the second."""
    pairs: list[tuple[str, str]] = []
    for line in words()["complements"]:
        first, sign, second = line.partition(" = ") if " = " in line else line.partition(" > ")
        pairs += [(first, second), (second, first)] if sign == " = " else [(first, second)]
    return tuple(pairs)


def products_by_priority() -> list[int]:
    """Numbers of all products; any beginning of the list holds products of each kind.

    A shop with fewer items than products takes a beginning: it has complements and traps too.
    """
    products = product_table().products
    planted = list(dict.fromkeys(name for pair in complementary_products() for name in pair))
    rank = {name: number for number, name in enumerate(planted)}
    kinds: dict[tuple[int, bool], list[int]] = {}
    for number, product in enumerate(products):
        kinds.setdefault((product.kind, product.name in rank), []).append(number)
    share: dict[int, float] = {}
    for members in kinds.values():
        members.sort(key=lambda number: rank.get(products[number].name, number))
        share |= {number: (n + 0.5) / len(members) for n, number in enumerate(members)}
    return sorted(share, key=lambda number: (share[number], number))


def draw_assortment(items: int, rng: np.random.Generator) -> Assortment:
    """`items` items of all products; codes are in random order, so that they carry no meaning."""
    counts = _items_per_product(items, rng)
    product = np.repeat(np.arange(len(counts)), counts)
    number = np.arange(items) - np.repeat(np.cumsum(counts) - counts, counts)
    order = rng.permutation(items)
    return Assortment(product[order].astype(np.int32), number[order].astype(np.int32))


def _items_per_product(items: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    products = product_table().products
    breadth = rng.lognormal(0.0, 0.4, len(products))
    counts = np.zeros(len(products), dtype=np.int64)
    counts[products_by_priority()[:items]] = 1
    if items <= len(products):
        return counts
    traps = np.isin(product_kinds(), TRAPS)
    counts[traps] = max(1, round((items / USUAL_ITEMS) ** 0.5))
    breadth[traps] = 0
    shares = breadth / breadth.sum() * max(0, items - counts.sum())
    counts += np.floor(shares).astype(np.int64)
    most_rounded_down = np.argsort(np.where(traps, 1.0, np.floor(shares) - shares), kind="stable")
    counts[most_rounded_down[: items - counts.sum()]] += 1
    return counts


def coarse_departments() -> Codes:
    """The department of each product if all products that go together share one, (products,)."""
    products = product_table().products
    number = {product.name: n for n, product in enumerate(products)}
    pairs = np.array([(number[a], number[b]) for a, b in complementary_products()])
    links = csr_matrix((np.ones(len(pairs)), pairs.T), (len(products), len(products)))
    _, group = connected_components(links, directed=False)
    _, first = np.unique(group, return_index=True)
    return np.array([products[n].department for n in first[group]], np.int32)


def make_catalog(assortment: Assortment, rng: np.random.Generator, *, coarse: bool) -> Catalog:
    """The catalogue with readable names, categories, and variants of some items.

    `coarse`: one level of departments, in which each item shares one with its complements.
    """
    table = product_table()
    items = len(assortment.product)
    ids = [str(10 ** len(str(items)) + code) for code in range(items)]
    codes, variants = _variants(assortment, ids, rng)
    paths = np.array([(product.department, product.aisle) for product in table.products], np.int32)
    levels: tuple[str, ...] = ("department", "aisle")
    names: tuple[tuple[str, ...], ...] = (table.departments, table.aisles)
    if coarse:
        paths, levels, names = coarse_departments()[:, None], levels[:1], names[:1]
    return Catalog(
        string_array(ids),
        string_array(_names(assortment, rng)),
        levels=levels,
        categories=paths[assortment.product],
        category_names=names,
        variants=string_array(variants),
        variant_codes=codes,
    )


@cache
def brands() -> tuple[str, ...]:
    """All brand names."""
    firsts, seconds = words()["brand_first"], words()["brand_second"]
    return tuple(f"{first} {second}" for first in firsts for second in seconds)


def _names(assortment: Assortment, rng: np.random.Generator) -> list[str]:
    products = product_table().products
    starts = rng.integers(0, len(brands()), len(products)).tolist()
    sizes = rng.integers(0, 4, len(assortment.product)).tolist()
    items = zip(assortment.product.tolist(), assortment.number.tolist(), sizes, strict=True)
    return [
        item_name(products[product], number, starts[product], size)
        for product, number, size in items
    ]


def item_name(product: Product, number: int, start: int, size: int) -> str:
    """The name of an item; the first item of a product has no brand, and no name occurs twice.

    >>> from neatrec.simulator.catalog import product_table
    >>> buns = next(p for p in product_table().products if p.name == "Hot Dog Buns")
    >>> [item_name(buns, number, start=3, size=2) for number in range(3)]
    ['Hot Dog Buns', 'Fox Hollow Mini Hot Dog Buns, 8 ct', 'Oak Bay Homestyle Hot Dog Buns, 8 ct']
    """
    if number == 0:
        return product.name
    combinations = len(brands()) * len(product.qualities)
    combination = (start * len(product.qualities) + number * _stride(combinations)) % combinations
    brand, quality = divmod(combination, len(product.qualities))
    size_name = product.sizes[size % len(product.sizes)]
    return f"{brands()[brand]} {product.qualities[quality]} {product.name}, {size_name}"


@cache
def _stride(combinations: int) -> int:
    """A step that visits all combinations, with neighbours far apart."""
    steps = range(int(combinations * 0.357), combinations)
    return next(step for step in steps if gcd(step, combinations) == 1)


def _variants(
    assortment: Assortment, ids: list[str], rng: np.random.Generator
) -> tuple[Codes, list[str]]:
    """Ids of flavours and pack sizes that were folded into one item."""
    plain = product_kinds()[assortment.product] == PLAIN
    count = rng.integers(2, 5, len(ids)) * (plain & (rng.random(len(ids)) < SHARE_WITH_VARIANTS))
    codes = np.repeat(np.arange(len(ids), dtype=np.int32), count)
    numbered = zip(ids, count.tolist(), strict=True)
    return codes, [f"{item}-{k + 1}" for item, times in numbered for k in range(times)]
