"""The catalogue of a simulated shop: its products, how many items of each, their names and variants."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import gcd
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.data.catalog import Catalog, string_array

PLAIN, STAPLE, DECEMBER_ONLY, ONE_STORE_ONLY, LARGE_BASKET = 0, 1, 2, 3, 4
"""What can be special about an item: popular noise, or one of the three traps."""

TRAPS = (DECEMBER_ONLY, ONE_STORE_ONLY, LARGE_BASKET)


@dataclass(frozen=True)
class Product:
    """A kind of product, such as "Hot Dog Buns". Its items differ in brand, quality and size."""

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


@cache
def words() -> dict[str, Any]:
    """Names of departments, aisles, products and brands, and which products go together: `words.toml`."""
    return tomllib.loads(
        files("neatrec.simulator").joinpath("words.toml").read_text(encoding="utf-8")
    )


def kind_of(name: str) -> int:
    """The special role of a product; the traps have products of their own."""
    roles = {
        "december": DECEMBER_ONLY,
        "one_store": ONE_STORE_ONLY,
        "stock_up": LARGE_BASKET,
        "staples": STAPLE,
    }
    return next((kind for role, kind in roles.items() if name in words()[role]), PLAIN)


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
def complementary_products() -> tuple[tuple[str, str], ...]:
    """Directed pairs of product names: the first brings the second."""
    pairs: list[tuple[str, str]] = []
    for line in words()["complements"]:
        first, sign, second = line.partition(" = ") if " = " in line else line.partition(" > ")
        pairs += [(first, second), (second, first)] if sign == " = " else [(first, second)]
    return tuple(pairs)


PARTNERS = 5
"""Products that go with a product, for each pair of `complementary_products`, in each half of a year with a change."""


def changing_products(half: int) -> tuple[tuple[str, str], ...]:
    """`complementary_products` of the first (0) or second half (1) of a year with a change.

    Each product goes with several others of other aisles, and with none of them in both halves.
    """
    pairs, aisle = (
        complementary_products(),
        {product.name: product.aisle for product in product_table().products},
    )
    found: dict[tuple[str, str], int] = {}
    for turn in range(2 * PARTNERS):
        for number, (first, _) in enumerate(pairs):
            second = pairs[(number + turn * len(pairs) // (2 * PARTNERS)) % len(pairs)][1]
            if aisle[first] != aisle[second]:
                found.setdefault((first, second), turn % 2)
    return tuple(pair for pair, when in found.items() if when == half)


def products_by_priority() -> list[int]:
    """Numbers of all products, ordered so that any beginning of the list holds some of each role.

    A shop with fewer items than there are products takes a beginning of it, and still has complements and traps.
    """
    products = product_table().products
    planted = list(dict.fromkeys(name for pair in complementary_products() for name in pair))
    place = {name: number for number, name in enumerate(planted)}
    roles: dict[tuple[int, bool], list[int]] = {}
    for number, product in enumerate(products):
        roles.setdefault((product.kind, product.name in place), []).append(number)
    share: dict[int, float] = {}
    for members in roles.values():
        members.sort(key=lambda number: place.get(products[number].name, number))
        share |= {
            number: (position + 0.5) / len(members) for position, number in enumerate(members)
        }
    return sorted(share, key=lambda number: (share[number], number))


SHARE_WITH_VARIANTS = 0.15
USUAL_ITEMS = 1_500
"""A shop of this size has one item of each trap product; larger shops have more."""


@dataclass(frozen=True)
class Assortment:
    """The items of a shop by code: which product each one is, and its number among the items of that product."""

    product: npt.NDArray[np.int32]
    number: npt.NDArray[np.int32]

    def of_product(self, product: int) -> npt.NDArray[np.int32]:
        """Codes of the product's items, the best known first."""
        codes = np.flatnonzero(self.product == product)
        return codes[np.argsort(self.number[codes])].astype(np.int32)


def choose_assortment(items: int, rng: np.random.Generator) -> Assortment:
    """`items` items, shared out over the products; codes are in random order, so that a small code means nothing."""
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
    traps = np.array([product.kind in TRAPS for product in products])
    counts[traps] = max(1, round((items / USUAL_ITEMS) ** 0.5))
    breadth[traps] = 0
    shares = breadth / breadth.sum() * max(0, items - counts.sum())
    counts += np.floor(shares).astype(np.int64)
    most_rounded_down = np.argsort(np.where(traps, 1.0, np.floor(shares) - shares), kind="stable")
    counts[most_rounded_down[: items - counts.sum()]] += 1
    return counts


def make_catalog(chosen: Assortment, rng: np.random.Generator) -> Catalog:
    """The catalogue with readable names, departments and aisles, and variants of some items."""
    table = product_table()
    items = len(chosen.product)
    ids = [str(10 ** len(str(items)) + code) for code in range(items)]
    codes, variants = _variants(chosen, ids, rng)
    paths = np.array(
        [(product.department, product.aisle) for product in table.products], dtype=np.int32
    )
    return Catalog(
        string_array(ids),
        string_array(_names(chosen, rng)),
        levels=("department", "aisle"),
        categories=paths[chosen.product],
        category_names=(table.departments, table.aisles),
        variants=string_array(variants),
        variant_codes=codes,
    )


@cache
def brands() -> tuple[str, ...]:
    return tuple(
        f"{first} {second}"
        for first in words()["brand_first"]
        for second in words()["brand_second"]
    )


def _names(chosen: Assortment, rng: np.random.Generator) -> list[str]:
    products = product_table().products
    starts = rng.integers(0, len(brands()), len(products))
    sizes = rng.integers(0, 4, len(chosen.product))
    return [
        item_name(products[product], number, int(starts[product]), size)
        for product, number, size in zip(
            chosen.product.tolist(), chosen.number.tolist(), sizes.tolist(), strict=True
        )
    ]


def item_name(product: Product, number: int, start: int, size: int) -> str:
    """The name of the product's item: no brand for the first, then brand and quality, never the same two twice.

    >>> from neatrec.simulator.catalog import product_table
    >>> buns = next(p for p in product_table().products if p.name == "Hot Dog Buns")
    >>> [item_name(buns, number, start=3, size=2) for number in range(3)]
    ['Hot Dog Buns', 'Fox Hollow Mini Hot Dog Buns, 8 ct', 'Oak Bay Homestyle Hot Dog Buns, 8 ct']
    """
    if number == 0:
        return product.name
    combinations = len(brands()) * len(product.qualities)
    place = (start * len(product.qualities) + number * _stride(combinations)) % combinations
    brand, quality = divmod(place, len(product.qualities))
    return f"{brands()[brand]} {product.qualities[quality]} {product.name}, {product.sizes[size % len(product.sizes)]}"


@cache
def _stride(combinations: int) -> int:
    """A step that visits all combinations, with neighbours far apart."""
    return next(
        step
        for step in range(int(combinations * 0.357), combinations)
        if gcd(step, combinations) == 1
    )


def _variants(
    chosen: Assortment, ids: list[str], rng: np.random.Generator
) -> tuple[npt.NDArray[np.int32], list[str]]:
    """Ids of flavours and pack sizes that were folded into one item."""
    plain = np.array([product.kind == PLAIN for product in product_table().products])[
        chosen.product
    ]
    count = rng.integers(2, 5, len(ids)) * (plain & (rng.random(len(ids)) < SHARE_WITH_VARIANTS))
    codes = np.repeat(np.arange(len(ids), dtype=np.int32), count)
    return codes, [
        f"{item}-{k + 1}"
        for item, times in zip(ids, count.tolist(), strict=True)
        for k in range(times)
    ]
