"""`check`: counts that are right, suspects that are found, a power that scipy confirms."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from helpers.dated_shop import dated_shop
from neatrec import Baskets, Catalog, check_baskets, supermarket
from neatrec.check.power import POWER, smallest_lift
from neatrec.errors import ParameterError

NOTHING = "evidence: no pair in baskets of 5 or more items"


@settings(max_examples=60)
@given(st.floats(1e-6, 1e4), st.floats(1e-12, 0.05))
def test_the_smallest_lift_shows_four_times_out_of_five(expected: float, threshold: float) -> None:
    lift = float(smallest_lift(np.array([expected]), threshold)[0])
    enough = np.arange(0, int(expected * lift * 3) + 200)
    tail = stats.poisson.sf(enough - 1, expected)
    critical = int(enough[tail <= threshold][0])
    shows = stats.poisson.sf(critical - 1, expected * lift)
    assert shows == pytest.approx(POWER, abs=1e-6)


def shop(seed: int = 0, baskets: int = 400) -> list[list[str]]:
    """Random baskets of 5 to 8 of thirty items, a bag in a third of them, a gift that comes with item 0 only."""
    rng = np.random.default_rng(seed)
    lists = []
    for number in range(baskets):
        items = [f"item {i}" for i in rng.choice(30, rng.integers(5, 9), replace=False)]
        items += ["bag"] * (number % 3 == 0)
        items += ["gift"] * ("item 0" in items and number % 2 == 0)
        lists.append(items)
    return [*lists, ["item 1"], ["item 2"]]


def test_an_item_called_nothing_is_questioned() -> None:
    baskets = Baskets.from_lists([["tea", "NONE"], ["tea", "milk"], ["NONE"], ["tea"]])
    assert check_baskets(baskets).warnings[0] == (
        "Item 'NONE' is in 50.0% of the baskets: if it is not a product, leave it out with --exclude-item NONE."
    )


def test_bags_and_gifts_are_suspects_with_the_id_that_leaves_them_out() -> None:
    lists = shop()
    items = sorted({item for basket in lists for item in basket})
    names = {"bag": "Paper Bag", "gift": "A Gift", "item 0": "item 0\x1b[31m"}
    catalog = Catalog.from_ids(items, names=[names.get(item) for item in items])
    found = check_baskets(Baskets.from_lists(lists, ordered=False, catalog=catalog))
    shares = [item.share for item in found.suspects.frequent]
    assert shares == sorted(shares, reverse=True)
    [gift] = found.suspects.inseparable
    assert (gift.item, gift.partner, gift.share) == ("gift", "item 0", 1.0)
    text = found.to_text()
    assert "\x1b" not in text
    assert re.search(r"in over 10% of all baskets: .*Paper Bag \(bag\) \d+\.\d%", text)
    assert "suspect: A Gift (gift) is hardly ever bought without item 0" in text
    assert "suspect: Paper Bag" not in text
    assert "left out with --exclude-item ID." in text


def test_contents_are_counted() -> None:
    lists = shop()
    users = [str(number % 50) for number in range(len(lists) - 2)] + ["guest:400", "guest:401"]
    baskets = replace(
        Baskets.from_lists(lists, users=users),
        dropped={"returns": 7},
        times=np.arange(len(lists)) * 86_400_000_000,
    )
    found = check_baskets(baskets)
    sizes = [len(basket) for basket in lists]
    assert (found.lines, found.baskets, found.ordered) == (sum(sizes), len(lists), True)
    assert (found.items.catalogue, found.items.bought) == (32, 32)
    assert (found.users, found.guests) == (52, 2)
    assert (found.sizes.ones, found.sizes.counted) == (2, sum(size >= 5 for size in sizes))
    assert found.sizes.mean == pytest.approx(np.mean(sizes))
    median, largest = (found.sizes.quantiles[key] for key in ("0.5", "1"))
    assert (median, largest) == (sorted(sizes)[(len(sizes) - 1) // 2], max(sizes))
    assert found.period.last == "1971-02-06T00:00:00Z"
    assert "left out: 7 returns" in found.to_text()
    assert "52 customers, 2 of them guests" in found.to_text()
    answer = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert answer["period"] == {"first": "1970-01-01T00:00:00Z", "last": "1971-02-06T00:00:00Z"}
    assert answer["suspects"]["inseparable"][0]["item"] == "gift"
    assert len(answer["power"]["deciles"]) == 10


def test_more_data_and_popular_items_show_smaller_lifts() -> None:
    small, large = (
        check_baskets(supermarket(baskets=n, seed=1).baskets).power for n in (1_000, 20_000)
    )
    for few, many in zip(small.deciles, large.deciles, strict=True):
        assert (many.lift_with_popular or 0) < (few.lift_with_popular or np.inf)
    assert small.sales_with_evidence < large.sales_with_evidence <= 1
    lifts = [tier.lift_with_popular for tier in large.deciles]
    assert lifts[0] > lifts[5] > lifts[-1]
    assert large.best_sellers.sales > large.deciles[-1].sales


@pytest.mark.parametrize("lists", [[], [["tea"]], [["tea"], ["milk"]], [["tea", "milk"]] * 3])
def test_little_or_nothing_is_no_error(lists: list[list[str]]) -> None:
    found = check_baskets(Baskets.from_lists(lists))
    assert (found.power, found.strata) == (None, ())
    text = found.to_text()
    assert NOTHING in text
    assert "Note: Seasons and stores could not be ruled out as the reason of a pair. Name a" in text
    json.dumps(found.to_json(), allow_nan=False)


def test_what_is_missing_is_said() -> None:
    said = check_baskets(Baskets.from_lists(shop(), ordered=False)).to_text()
    for words in (
        "Note: There is no category: substitutes cannot be told from complements.",
        "pairs have no direction",
        "Customers are not known",
        "Only 400 baskets of more than one item",
    ):
        assert words in said
    market = supermarket(baskets=3_000).baskets
    assert check_baskets(market).warnings == ()
    halved = check_baskets(replace(market, dropped={"returns": market.lines}))
    assert halved.warnings == ("50% of the rows were left out.",)


def test_a_giant_basket_is_reported_and_does_not_stop_the_check() -> None:
    giant = [f"item {i}" for i in range(60_000)]
    found = check_baskets(Baskets.from_lists([*shop(), giant]))
    assert (found.suspects.long_baskets, found.suspects.long_lines) == (1, 60_000)
    assert any("1 basket has over 2,000 lines" in warning for warning in found.warnings)
    assert found.power is not None
    assert "not counted as evidence: 1 basket of over 2,000 lines (60,000 lines)" in found.to_text()


def test_strata_are_those_asked_for_and_those_that_lack_are_named() -> None:
    found = check_baskets(dated_shop(), strata=("store",))
    assert found.strata == ("store",)
    assert "Seasons could not be ruled out" in found.to_text()
    assert check_baskets(dated_shop(), strata=("none",)).strata == ()
    said = check_baskets(dated_shop(), strata=("month",)).to_text()
    assert "Name a store or another column: --strata size,month,COLUMN." in said
    assert "--time" not in said
    with pytest.raises(ParameterError, match=r"`strata` must be one of .*, got 'shelf'"):
        check_baskets(dated_shop(), strata=("shelf",))
