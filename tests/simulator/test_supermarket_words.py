"""The word tables of the simulated supermarket fit together, and its names are readable."""

import pytest

from neatrec.simulator import supermarket
from neatrec.simulator.catalog import (
    PLAIN,
    complementary_products,
    kind_of,
    product_table,
    products_by_priority,
    words,
)
from neatrec.text import printable

PRODUCTS = {product.name: product for product in product_table().products}


def test_every_product_is_listed_once() -> None:
    table = product_table()
    assert len(PRODUCTS) == len(table.products)
    assert len(set(table.aisles)) == len(table.aisles)
    assert len(table.products) > 350


@pytest.mark.parametrize("role", ["december", "favoured", "one_store", "staples", "stock_up"])
def test_every_special_product_is_listed(role: str) -> None:
    assert set(words()[role]) <= set(PRODUCTS)


def test_complements_are_ordinary_products_of_different_aisles() -> None:
    pairs = complementary_products()
    assert len(set(pairs)) == len(pairs)
    for first, second in pairs:
        assert PRODUCTS[first].aisle != PRODUCTS[second].aisle, (first, second)
        assert kind_of(first) == kind_of(second) == PLAIN, (first, second)


def test_no_quality_turns_one_product_into_another() -> None:
    for product in PRODUCTS.values():
        assert not {f"{quality} {product.name}" for quality in product.qualities} & set(PRODUCTS)


def test_any_beginning_of_the_range_holds_complements_and_all_traps() -> None:
    order = products_by_priority()
    assert sorted(order) == list(range(len(PRODUCTS)))
    beginning = {product_table().products[number].name for number in order[:60]}
    assert (
        sum(
            first in beginning and second in beginning for first, second in complementary_products()
        )
        >= 10
    )
    for role in ("december", "one_store", "stock_up", "staples"):
        assert len(beginning & set(words()[role])) >= 1


@pytest.mark.parametrize("items", [60, 396, 1_000, 50_000])
def test_names_are_unique_and_printable(items: int) -> None:
    catalog = supermarket(10, items, seed=3).baskets.catalog
    names = catalog.names.to_pylist()
    assert len(names) == len(set(names)) == items
    assert all(
        name == printable(name) and 3 <= len(name) <= 80 and name.isascii() for name in names
    )
