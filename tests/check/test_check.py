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
from neatrec import check_baskets
from neatrec.check import run as check_run
from neatrec.check.power import POWER, smallest_lift
from neatrec.cli.main import exit_code_of
from neatrec.data import Baskets, Catalog
from neatrec.errors import ParameterError
from neatrec.simulator import supermarket


@settings(max_examples=60)
@given(st.floats(1e-6, 1e4), st.floats(1e-12, 0.05))
def test_the_smallest_lift_shows_four_times_out_of_five(expected: float, threshold: float) -> None:
    lift = float(smallest_lift(np.array([expected]), threshold)[0])
    enough = np.arange(0, int(expected * lift * 3) + 200)
    tail = stats.poisson.sf(enough - 1, expected)
    critical = int(enough[tail <= threshold][0])
    shows = stats.poisson.sf(critical - 1, expected * lift)
    assert shows == pytest.approx(POWER, abs=1e-6)


def test_a_pair_that_cannot_be_expected_never_shows() -> None:
    assert np.isinf(smallest_lift(np.array([0.0]), 0.01)).all()


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
    found = check_baskets(baskets)
    assert found.warnings[0] == (
        "Item 'NONE' is in 50.0% of the baskets: if it is not a product, leave it out with --exclude-item NONE."
    )
    assert not any(
        "if it is not a product" in warning
        for warning in check_baskets(Baskets.from_lists([["tea"]])).warnings
    )


def test_bags_and_gifts_are_suspects() -> None:
    found = check_baskets(Baskets.from_lists(shop(), ordered=False))
    assert "bag" in {item.item for item in found.frequent}
    assert [item.share for item in found.frequent] == sorted(
        (item.share for item in found.frequent), reverse=True
    )
    assert found.inseparable is not None
    assert [(pair.item, pair.partner, pair.share) for pair in found.inseparable] == [
        ("gift", "item 0", 1.0)
    ]
    assert "suspect: gift is hardly ever bought without item 0 (100% of" in found.to_text()
    assert "left out with --exclude-item ID or --exclude-items FILE" in found.to_text()


def test_what_is_in_everybodys_basket_makes_no_partner() -> None:
    found = check_baskets(
        Baskets.from_lists([["bag", *basket] for basket in shop()], ordered=False)
    )
    assert found.inseparable is not None
    assert all(pair.partner != "bag" for pair in found.inseparable)


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
    assert (found.catalogue_items, found.bought_items) == (32, 32)
    assert (found.users, found.guests) == (52, 2)
    assert found.sizes.ones == 2
    assert found.sizes.counted == sum(size >= 5 for size in sizes)
    assert found.sizes.mean == pytest.approx(np.mean(sizes))
    assert found.sizes.quantiles["0.5"] == sorted(sizes)[(len(sizes) - 1) // 2]
    assert found.sizes.quantiles["1"] == max(sizes)
    assert found.period == ("1970-01-01T00:00:00Z", "1971-02-06T00:00:00Z")
    assert "left out: 7 returns" in found.to_text()
    assert "52 customers, 2 of them guests" in found.to_text()
    assert 0 <= found.power.items_with_evidence <= 1


def test_the_answer_is_json_without_nan() -> None:
    found = check_baskets(Baskets.from_lists(shop()))
    answer = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert answer["suspects"]["inseparable"][0]["item"] == "gift"
    assert len(answer["power"]["deciles"]) == 10
    assert answer["power"]["protocol"] == "calibrated"
    assert answer["sizes"]["ones"] == 2


def test_more_data_and_popular_items_show_smaller_lifts() -> None:
    small, large = (
        check_baskets(supermarket(baskets=n, seed=1).baskets).power for n in (1_000, 20_000)
    )
    for few, many in zip(small.deciles, large.deciles, strict=True):
        assert (many.lift_with_popular or 0) < (few.lift_with_popular or np.inf)
    assert small.sales_with_evidence < large.sales_with_evidence
    lifts = [tier.lift_with_popular for tier in large.deciles]
    assert lifts[0] > lifts[5] > lifts[-1]
    assert large.best_sellers.sales > large.deciles[-1].sales


@pytest.mark.parametrize("lists", [[], [["tea"]], [["tea"], ["milk"]], [["tea", "milk"]] * 3])
def test_little_or_nothing_is_no_error(lists: list[list[str]]) -> None:
    found = check_baskets(Baskets.from_lists(lists))
    assert (found.power, found.strata, found.repeats) == (None, (), ())
    assert "no pair in baskets of 5 or more items" in found.to_text()
    assert (
        "Note: Seasons and stores could not be ruled out as the reason of a pair. Name a time"
        in found.to_text()
    )
    json.dumps(found.to_json(), allow_nan=False)


def test_one_category_for_everything_leaves_nothing_to_count() -> None:
    items = [f"item {i}" for i in range(6)]
    catalog = Catalog.from_ids(items, categories=["food"] * 6)
    found = check_baskets(Baskets.from_lists([items] * 50, catalog=catalog))
    assert found.power is None
    assert found.categories == {"category": 1}


def test_what_is_missing_is_said() -> None:
    lists = shop()
    unordered = check_baskets(Baskets.from_lists(lists, ordered=False))
    assert any(
        "substitutes cannot be told from complements" in warning for warning in unordered.warnings
    )
    assert any("pairs have no direction" in warning for warning in unordered.warnings)
    assert any("Customers are not known" in warning for warning in unordered.warnings)
    assert any(
        "Only 400 baskets of more than one item" in warning for warning in unordered.warnings
    )
    assert "Note: There is no category" in unordered.to_text()
    market = supermarket(baskets=3_000).baskets
    assert check_baskets(market).warnings == ()
    halved = check_baskets(replace(market, dropped={"returns": market.lines}))
    assert halved.warnings == ("50% of the rows were left out.",)


def half_a_year_later(baskets: Baskets) -> Baskets:
    """The same year from July on: what sells in December sells in the first half of the period."""
    first, last = baskets.times.min(), baskets.times.max()
    return replace(
        baskets, times=(baskets.times - first + (last - first) // 2) % (last - first) + first
    )


def test_labels_of_a_season_do_not_repeat_and_strata_leave_them_out() -> None:
    baskets = half_a_year_later(supermarket(baskets=8_000, items=300, seed=3).baskets)
    found = check_baskets(baskets)
    assert found.strata == ("basket_size", "month", "store")
    without, within = found.repeats
    assert (without.strata, within.strata) == ((), found.strata)
    assert within.labels < without.labels
    assert within.repeated / within.labels > without.repeated / without.labels
    shown = f"{without.repeated / without.labels:.0%} of {without.labels} labels of the first half without strata, "
    assert f"period: {shown}" in found.to_text()
    assert "could not be ruled out" not in found.to_text()
    assert found.to_json()["repeats"][1]["labels"] == within.labels


def test_a_time_that_is_known_is_not_asked_for() -> None:
    said = check_baskets(dated_shop(), strata=("month",)).to_text()
    assert (
        "the reason of a pair. Name a store or another column: --strata size,month,COLUMN.\n"
        in said + "\n"
    )
    assert "--time" not in said


def test_a_giant_basket_is_reported_and_does_not_stop_the_check() -> None:
    giant = [f"item {i}" for i in range(60_000)]
    found = check_baskets(Baskets.from_lists([*shop(), giant]))
    assert (found.long_baskets, found.long_lines) == (1, 60_000)
    assert any("1 basket has over 2,000 lines" in warning for warning in found.warnings)
    assert any(
        "`labels` will refuse 1 basket of more than 200,000,000 pairs of lines (the largest has 1,799,970,000)"
        in warning
        for warning in found.warnings
    )
    assert found.power is not None
    assert "not counted as evidence: 1 basket of over 2,000 lines (60,000 lines)" in found.to_text()
    answer = found.to_json()
    assert answer["trial_count"] == {
        "counted": True,
        "excluded_baskets": 1,
        "excluded_lines": 60_000,
        "longest": 2_000,
    }
    assert answer["over_cap"] == {
        "baskets": 1,
        "max_pairs": 1_799_970_000,
        "max_basket_pairs": 200_000_000,
    }


def test_suspects_are_shown_with_the_id_that_leaves_them_out() -> None:
    lists = shop()
    items = sorted({item for basket in lists for item in basket})
    names = {"bag": "Paper Bag", "gift": "A Gift", "item 0": "item 0\x1b[31m"}
    catalog = Catalog.from_ids(items, names=[names.get(item) for item in items])
    text = check_baskets(Baskets.from_lists(lists, ordered=False, catalog=catalog)).to_text()
    assert "\x1b" not in text
    assert re.search(r"in over 10% of all baskets: .*Paper Bag \(bag\) \d+\.\d%", text)
    assert "suspect: Paper Bag" not in text
    assert "suspect: A Gift (gift) is hardly ever bought without item 0" in text


def test_too_much_data_is_described_without_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_run, "MAX_RECORDS", 100)
    found = check_baskets(Baskets.from_lists(shop()))
    assert found.inseparable is None
    assert found.power is None
    assert "too many pairs to count here" in found.to_text()


def test_strata_are_those_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    shop = dated_shop()
    found = check_baskets(shop, strata=("store",))
    assert found.strata == ("store",)
    assert [repeat.strata for repeat in found.repeats] == [(), ("store",)]
    assert "Seasons could not be ruled out" in found.to_text()
    none = check_baskets(shop, strata=("none",))
    assert (none.strata, len(none.repeats)) == ((), 1)
    assert "Seasons and stores could not be ruled out" in none.to_text()
    with pytest.raises(
        ParameterError, match="`strata` must be one of basket_size, month, store, got 'shelf'"
    ):
        check_baskets(shop, strata=("shelf",))
    assert (
        exit_code_of(
            ["check", "supermarket:baskets=2000,items=100", "--strata", "store,size", "--json"]
        )
        == 0
    )
    assert json.loads(capsys.readouterr().out)["strata"] == ["store", "basket_size"]
    assert (
        exit_code_of(["check", "supermarket:baskets=2000,items=100", "--strata", "none,store"]) == 2
    )
    assert "`strata` must be `none` alone, or columns" in capsys.readouterr().err
