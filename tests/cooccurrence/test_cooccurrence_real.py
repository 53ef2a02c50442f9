"""The numbers of the Instacart train orders."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from neatrec.cooccurrence import CountOptions, FilteredPairs, PairFilter, count, forecast, margins
from neatrec.data.baskets import Baskets
from neatrec.data.catalog import Catalog, string_array

pytestmark = pytest.mark.real

PAPER = CountOptions(min_basket=5)


@pytest.fixture(scope="module")
def orders(instacart_folder: Path) -> Baskets:
    """Read without neatrec.io: these tests are about counting."""
    if not (instacart_folder / "order_products__train.parquet").exists():
        pytest.skip("reads the Parquet form of the Instacart files, which is not in NEATREC_DATA")
    table = pq.read_table(instacart_folder / "order_products__train.parquet")
    order, product, position = (table[c].to_numpy() for c in ("order_id", "product_id", "add_to_cart_order"))
    products = pq.read_table(instacart_folder / "products.parquet").sort_by("product_id")
    ids, aisles = products["product_id"].to_numpy(), products["aisle_id"].to_numpy()
    names, aisle = np.unique(aisles, return_inverse=True)
    catalog = Catalog(
        string_array([str(i) for i in ids]),
        levels=("aisle",),
        categories=aisle.reshape(-1, 1),
        category_names=(tuple(str(name) for name in names),),
    )
    by_cart = np.lexsort((position, order))
    number, start = np.unique(order[by_cart], return_index=True)
    return Baskets(
        catalog,
        np.searchsorted(ids, product[by_cart]),
        np.append(start, len(order)),
        string_array([str(n) for n in number]),
        ordered=True,
    )


def test_the_papers_records_and_pairs_come_out(orders: Baskets) -> None:
    pairs = count(orders, PAPER, engine="memory")
    assert pairs.margins.baskets == 100_745
    assert pairs.margins.records == 9_945_426
    assert len(pairs) == pairs.margins.pairs == 6_249_219
    assert pairs.count.sum() == 9_945_426
    np.testing.assert_array_equal(np.bincount(pairs.query, pairs.count, len(orders.catalog)), pairs.margins.first)
    np.testing.assert_array_equal(np.bincount(pairs.item, pairs.count, len(orders.catalog)), pairs.margins.second)


def test_the_forecast_is_near_the_truth(orders: Baskets) -> None:
    guess = forecast(orders, PAPER, keep_all=True)
    assert 6_249_219 < guess.pairs < 1.2 * 6_249_219
    assert 9_945_426 < guess.records < 1.1 * 9_945_426


def test_margins_alone_are_those_of_the_count(orders: Baskets) -> None:
    alone, counted = (
        margins(orders, PAPER),
        count(orders, PAPER, keep=FilteredPairs(lambda _: PairFilter(1000))).margins,
    )
    assert (alone.records, counted.pairs) == (9_945_426, 6_249_219)
    np.testing.assert_array_equal(alone.first, counted.first)
    np.testing.assert_array_equal(alone.second, counted.second)


def test_both_engines_agree_on_real_orders(orders: Baskets) -> None:
    often = FilteredPairs(lambda _: PairFilter(min_count=5))
    for counting in (PAPER, CountOptions(window=5, directed=False)):
        memory, duck = (count(orders, counting, keep=often, engine=engine) for engine in ("memory", "disk"))
        assert memory.margins.pairs == duck.margins.pairs
        np.testing.assert_array_equal(memory.margins.first, duck.margins.first)
        for name in ("query", "item", "count", "reverse"):
            np.testing.assert_array_equal(getattr(memory, name), getattr(duck, name))
