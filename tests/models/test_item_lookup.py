"""Items and categories as people say them."""

from typing import Any

import numpy as np
import pytest

from helpers.toyshop import code, toy_catalog
from neatrec.data import Catalog
from neatrec.errors import ParameterError, UnknownItemError
from neatrec.models import find_items, suggest_items
from neatrec.models.items import in_categories


@pytest.mark.parametrize(
    ("ids", "names", "asked", "codes"),
    [
        (["Tea", "7"], ["Milk", "Tea"], "Tea", [0]),  # an id wins over a name
        (["1", "2"], ["TEA", "Tea"], ["Tea", "TEA"], [1, 0]),  # the exact spelling wins
        (["1", "2"], ["Tea", None], ["2", "Tea"], [1, 0]),
        (["2", "1", "0"], None, [0, np.int64(1), 2], [2, 1, 0]),  # an integer is an id, no code
    ],
)
def test_items_are_found_by_id_then_by_name(
    ids: list[str], names: list[Any], asked: Any, codes: list[int]
) -> None:
    assert find_items(Catalog.from_ids(ids, names=names), asked).tolist() == codes


@pytest.mark.parametrize(
    ("catalog", "asked", "sentence"),
    [
        (
            Catalog.from_ids(["1", "2"], names=["TEA", "Tea"]),
            "tea",
            r"2 items are called 'tea'\. Ask by id: 1, 2\.",
        ),
        (Catalog.from_ids(["1", "2"], names=["Tea", None]), "", "no item has the id or name ''"),
        (Catalog.from_ids(["sku-4711", "sku-0815"]), "sku-4712", r"Did you mean 'sku-4711'"),
        (toy_catalog(), 3, "no item has the id or name '3'"),
        (Catalog.from_ids(["1", "2"]), [-1], r"name '-1'\. Ask by id or name, such as '1'\."),
    ],
)
def test_an_item_that_is_not_one_is_refused(catalog: Catalog, asked: Any, sentence: str) -> None:
    with pytest.raises(UnknownItemError, match=sentence):
        find_items(catalog, asked)
    for wrong in (True, 1.5, None):
        with pytest.raises(ParameterError, match="`items` must be ids"):
            find_items(catalog, [wrong])


@pytest.mark.parametrize(("said", "meant"), [("chps", "Chips"), ("bred", "Bread")])
def test_near_names_forgive_typing_errors(said: str, meant: str) -> None:
    assert toy_catalog().name(suggest_items(toy_catalog(), said)[0]) == meant


def test_a_word_finds_the_long_name_that_holds_it_and_nothing_near_suggests_nothing() -> None:
    catalog = Catalog.from_ids(
        ["1", "2"], names=["Fabric Softener Dryer Sheet Outdoor Fresh 160CT", "Something else"]
    )
    assert suggest_items(catalog, "softener") == [0]
    assert suggest_items(toy_catalog(), "xylophone") == []
    with pytest.raises(UnknownItemError) as caught:
        find_items(toy_catalog(), "xylophone\x1b[0m")
    assert "Did you mean" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_a_category_is_found_at_any_level_and_by_its_path() -> None:
    catalog = toy_catalog()
    drinks = {code(name) for name in ("tea", "water", "cola", "juice")}
    assert set(np.flatnonzero(in_categories(catalog, "drinks"))) == drinks
    for path in ("drinks / cold", "drinks/cold", "Drinks > Cold"):
        assert set(np.flatnonzero(in_categories(catalog, path))) == drinks - {code("tea")}
    assert not in_categories(catalog, "food / cold").any()
    assert set(np.flatnonzero(in_categories(catalog, ["hot", "cold"]))) == drinks
    soups = Catalog.from_ids(
        ["1", "2"], categories=["soup/stock", "soup"]
    )  # a slash in a name is a name first
    assert in_categories(soups, "soup/stock").tolist() == [True, False]
