"""The products of the shelves, read from the word tables: what an item can be before it has a brand and a size."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from neatrec.simulator.complements import COMPLEMENTS
from neatrec.simulator.shelves import DECEMBER, FAVOURED, ONE_STORE, SHELVES, STAPLES, STOCK_UP

PLAIN, STAPLE, DECEMBER_ONLY, ONE_STORE_ONLY, LARGE_BASKET = 0, 1, 2, 3, 4
"""What can be special about an item: popular noise, or one of the three traps."""

TRAPS = (DECEMBER_ONLY, ONE_STORE_ONLY, LARGE_BASKET)


@dataclass(frozen=True)
class Product:
    """A kind of goods, such as "Hot Dog Buns". Its items differ in brand, quality and size."""

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


def kind_of(name: str) -> int:
    """The special role of a product; the traps have products of their own."""
    for kind, names in ((DECEMBER_ONLY, DECEMBER), (ONE_STORE_ONLY, ONE_STORE), (LARGE_BASKET, STOCK_UP)):
        if name in names:
            return kind
    return STAPLE if name in STAPLES else PLAIN


@cache
def all_goods() -> ProductTable:
    """The whole range, as the shelves list it."""
    departments: list[str] = []
    aisles: list[str] = []
    products: list[Product] = []
    qualities: tuple[str, ...] = ()
    for line in filter(None, SHELVES.splitlines()):
        if not line.startswith(" "):
            department, words = line.split(": ")
            departments.append(department)
            qualities = tuple(words.split(", "))
            continue
        aisle, sizes, names = line.strip().split(" | ")
        aisles.append(aisle)
        products += [
            Product(
                name,
                department=len(departments) - 1,
                aisle=len(aisles) - 1,
                sizes=tuple(sizes.split(", ")),
                qualities=qualities,
                kind=kind_of(name),
                favoured=name in FAVOURED,
            )
            for name in names.split(", ")
        ]
    return ProductTable(tuple(products), tuple(departments), tuple(aisles))


@cache
def complementary_products() -> tuple[tuple[str, str], ...]:
    """Directed pairs of product names: the first brings the second."""
    pairs: list[tuple[str, str]] = []
    for line in COMPLEMENTS.split("\n"):
        if " = " in line:
            first, second = line.split(" = ")
            pairs += [(first, second), (second, first)]
        elif " > " in line:
            first, second = line.split(" > ")
            pairs.append((first, second))
    return tuple(pairs)


def most_needed_first() -> list[int]:
    """Numbers of all products, ordered so that any beginning of the list holds some of each role.

    A shop with fewer items than there are products takes a beginning of it, and still has complements and traps.
    """
    products = all_goods().products
    planted = list(dict.fromkeys(name for pair in complementary_products() for name in pair))
    place = {name: number for number, name in enumerate(planted)}
    roles: dict[tuple[int, bool], list[int]] = {}
    for number, product in enumerate(products):
        roles.setdefault((product.kind, product.name in place), []).append(number)
    share: dict[int, float] = {}
    for members in roles.values():
        members.sort(key=lambda number: place.get(products[number].name, number))
        share |= {number: (position + 0.5) / len(members) for position, number in enumerate(members)}
    return sorted(share, key=lambda number: (share[number], number))
