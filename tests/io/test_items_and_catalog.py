"""Catalogues, variants, category paths."""

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from neatrec.data import Baskets
from neatrec.errors import SourceError
from neatrec.io import read_baskets

ORDERS = "order_id,sku\n1,tea-s\n1,milk\n2,tea-l\n2,milk\n3,tea-s\n3,tea-l\n3,tea-s\n4,bag\n"
PRODUCTS = (
    "sku,title,parent,dep,aisle\n"
    "tea-s,Tea 50 g,tea,drinks,other\n"
    "tea-l,Tea 1 kg,tea,drinks,other\n"
    "milk,Milk,,dairy,other\n"
    "jam,Jam,,spreads,sweet\n"
)
OPTIONS = {
    "basket": "order_id",
    "item": "sku",
    "name": "title",
    "group": "parent",
    "category": ("dep", "aisle"),
}


@pytest.fixture
def shop(tmp_path: Path) -> Baskets:
    (tmp_path / "orders.csv").write_text(ORDERS)
    (tmp_path / "products.csv").write_text(PRODUCTS)
    return read_baskets(tmp_path / "orders.csv", catalog=tmp_path / "products.csv", **OPTIONS)


def test_variants_count_as_one_item(shop: Baskets) -> None:
    assert shop.catalog.ids.to_pylist() == ["bag", "jam", "milk", "tea"]
    assert shop.catalog.code_of_variant == {"tea-l": 3, "tea-s": 3}
    assert shop.sizes.tolist() == [2, 2, 1, 1]
    assert shop.dropped == {"repeated lines": 2}
    assert shop.catalog.name(3) == "Tea 50 g"  # the most bought variant gives the name


def test_items_never_bought_stay_and_items_not_in_the_catalogue_too(shop: Baskets) -> None:
    assert shop.item_counts.tolist() == [1, 0, 2, 3]
    assert shop.catalog.category_path(0) == ()
    assert shop.catalog.category_path(1) == ("spreads", "sweet")


def test_a_category_name_below_two_parents_is_two_categories(shop: Baskets) -> None:
    assert shop.catalog.levels == ("dep", "aisle")
    assert shop.catalog.category_names[1] == ("dairy > other", "drinks > other", "sweet")
    assert shop.catalog.category_of().tolist() == [-1, 2, 0, 1]


def test_a_catalogue_may_be_a_data_frame(shop: Baskets, tmp_path: Path) -> None:
    orders, products = pd.read_csv(tmp_path / "orders.csv"), pd.read_csv(tmp_path / "products.csv")
    assert read_baskets(orders, catalog=products, **OPTIONS).hash == shop.hash


def test_texts_in_the_lines_do_as_well_and_the_most_frequent_wins(tmp_path: Path) -> None:
    path = tmp_path / "o.csv"
    path.write_text(
        "order_id,sku,title,dep\n1,a,Old,x\n2,a,New,y\n3,a,New,y\n4,a,,\n5,b,Bee,\n6,b,Abe,\n7,c,,z\n"
    )
    catalog = read_baskets(
        path, basket="order_id", item="sku", name="title", category="dep"
    ).catalog
    assert [catalog.name(code) for code in range(3)] == ["New", "Abe", "c"]
    assert [catalog.category_path(code) for code in range(3)] == [("y",), (), ("z",)]


def described(bought: dict[str, int], **columns: list[Any]) -> Baskets:
    """Orders of one item each, so many of each item, and a catalogue with these columns."""
    items = [item for item, count in bought.items() for _ in range(count)]
    lines = pa.table({"order_id": [str(order) for order in range(len(items))], "sku": items})
    return read_baskets(lines, catalog=pa.table(columns), item="sku")


def test_an_item_called_like_its_group_stands_for_it() -> None:
    baskets = described(
        {"v": 5, "w": 9},
        sku=["p", "v", "w"],
        name=["Parent", "Variant", None],
        parent_sku=["p", "p", "p"],
    )
    assert baskets.catalog.ids.to_pylist() == ["p"]
    assert baskets.catalog.name(0) == "Parent"
    assert baskets.catalog.code_of_variant == {"v": 0, "w": 0}
    assert baskets.item_counts.tolist() == [14]


def test_a_whole_group_can_be_left_out() -> None:
    lines = pa.table({"order_id": ["1", "1", "1"], "sku": ["v", "w", "x"]})
    items = pa.table({"sku": ["v", "w", "x"], "parent_sku": ["p", "p", None]})
    baskets = read_baskets(lines, catalog=items, exclude_item=("p",))
    assert baskets.catalog.ids.to_pylist() == ["x"]
    assert baskets.dropped == {"excluded items": 2}


def test_a_catalogue_whose_item_column_has_another_name(tmp_path: Path) -> None:
    (tmp_path / "o.csv").write_text("order_id,sku\n1,tea\n1,milk\n")
    (tmp_path / "c.csv").write_text("number,label\ntea,Tea\nmilk,Milk\n")
    options = {"basket": "order_id", "item": "sku", "catalog": tmp_path / "c.csv", "name": "label"}
    with pytest.raises(SourceError, match=r"c\.csv has no column 'sku' for catalog_item"):
        read_baskets(tmp_path / "o.csv", **options)
    baskets = read_baskets(tmp_path / "o.csv", catalog_item="number", **options)
    assert baskets.catalog.name(1) == "Tea"


def test_usual_names_in_a_catalogue_need_no_telling(tmp_path: Path) -> None:
    (tmp_path / "o.csv").write_text("order_id,sku\n1,tea\n1,milk\n")
    (tmp_path / "c.csv").write_text(
        "sku,product_name,department,aisle\ntea,Tea,drinks,hot\nmilk,Milk,dairy,cold\n"
    )
    catalog = read_baskets(
        tmp_path / "o.csv", basket="order_id", item="sku", catalog=tmp_path / "c.csv"
    ).catalog
    assert catalog.name(1) == "Tea"
    assert catalog.category_path(1) == ("drinks", "hot")
