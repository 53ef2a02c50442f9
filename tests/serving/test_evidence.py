"""The evidence of a pair is what counting by hand gives, in numbers and in words."""

from collections import Counter
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.dated_shop import dated_shop
from neatrec import fit
from neatrec.data import Attribute, Baskets, Catalog
from neatrec.errors import ParameterError
from neatrec.labels import Labels, make_labels
from neatrec.serving import GRADES, Evidence, EvidenceTable, PairTable, strata_words
from neatrec.serving.evidence import (
    LIKELY,
    PUBLIC,
    at_least,
    coincidence_words,
    grade_names,
    grade_pairs,
    one_in,
)
from neatrec.simulator import supermarket
from neatrec.statistics import LiftEstimate
from neatrec.training.train import ModelChoice, TrainOptions, train_bundle

ITEMS = "abcdefgh"
EVERY_PAIR: dict[str, Any] = {"min_basket": 2, "category_level": None}
"""Labels of the pairs that evidence is counted for."""
CATEGORIES = ["x", "x", "y", "y", "z", "z", None, None]


def shop(lists: list[list[str]], users: list[str] | None, ordered: bool = True) -> Baskets:
    catalog = Catalog.from_ids(ITEMS, categories=CATEGORIES)
    return Baskets.from_lists(lists, catalog=catalog, users=users, ordered=ordered)


baskets_of_letters = st.lists(
    st.lists(st.sampled_from(ITEMS), min_size=1, max_size=6, unique=True), min_size=1, max_size=25
)


@settings(max_examples=60)
@given(baskets_of_letters, st.booleans(), st.integers(0, 99))
def test_counts_customers_and_directions_are_those_of_the_baskets(
    lists, ordered: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    users = [f"u{n}" for n in rng.integers(0, 4, len(lists))]
    pairs = EvidenceTable.of(shop(lists, users, ordered))
    count: Counter[tuple[int, int]] = Counter()
    people: dict[tuple[int, int], set[str]] = {}
    for basket, user in zip(lists, users, strict=True):
        for one, other in combinations(basket, 2):
            count[ITEMS.index(one), ITEMS.index(other)] += 1
            people.setdefault(tuple(sorted((ITEMS.index(one), ITEMS.index(other)))), set()).add(
                user
            )
    query, item = (part.ravel() for part in np.meshgrid(np.arange(8), np.arange(8), indexing="ij"))
    found = pairs.of_pairs(query, item)
    for place, (q, v) in enumerate(zip(query.tolist(), item.tolist(), strict=True)):
        same = CATEGORIES[q] == CATEGORIES[v] and CATEGORIES[q] is not None
        assert found["count"][place] == count[q, v] + count[v, q]
        assert found["customers"][place] == len(people.get((min(q, v), max(q, v)), ()))
        assert found["same_category"][place] == same
        if ordered:
            assert (found["forward"][place], found["backward"][place]) == (count[q, v], count[v, q])
        else:
            assert "forward" not in found


def test_customers_are_what_is_tested_where_they_return() -> None:
    """Thirty times by one customer is one piece of evidence."""
    lists = [["a", "c"]] * 30 + [["a", "e"], ["c", "e"], ["e", "g"], ["c", "g"]] * 3
    users = ["one"] * 30 + [f"u{n}" for n in range(12)]
    pair = np.array([0]), np.array([2])
    by_customer = EvidenceTable.of(shop(lists, users)).of_pairs(*pair)
    by_basket = EvidenceTable.of(shop(lists, None)).of_pairs(*pair)
    assert (by_customer["count"][0], by_customer["customers"][0]) == (30, 1)
    assert by_customer["q"][0] > 0.05
    assert GRADES[by_customer["grade"][0]] == "guess"
    assert by_basket["count"][0] == 30
    assert "customers" not in by_basket
    assert by_basket["lift"][0] > by_customer["lift"][0]


@pytest.mark.parametrize(
    ("times", "low", "high", "q", "grade"),
    [
        (37, 9.2, 20, 1e-4, "certain"),
        (3, 2.0, 9, 0.001, "certain"),
        (2, 9.0, 30, 0.0001, "likely"),
        (9, 9.0, 30, 0.01, "likely"),
        (9, 1.0, 3, 0.01, "guess"),
        (9, 9.0, 30, 0.051, "guess"),
        (337, 0.93, 1.09, 0.4, "chance"),
        (0, 0.0, 0.3, 1.0, "chance"),
        (0, 0.0, 5.0, 1.0, "guess"),
        (-1, np.nan, np.nan, np.nan, "guess"),
    ],
)
def test_grades_follow_the_stated_thresholds(
    times: int, low: float, high: float, q: float, grade: str
) -> None:
    lift = LiftEstimate(np.ones(1), np.array([low]), np.array([high]))
    assert GRADES[grade_pairs(np.array([times]), lift, np.array([q]))[0]] == grade


NAN = float("nan")
PAIR = Evidence(
    count=37,
    customers=31,
    expected=2.3,
    beyond=18.8,
    lift=13.5,
    lift_low=9.16,
    lift_high=19.1,
    q=0.001,
    forward=21,
    backward=16,
    overall_lift=14.0,
    season=0,
    same_category=0,
    query_count=410,
    item_count=388,
    grade="certain",
)
DECEMBER, NOVEMBER = 1 << 11, 1 << 10


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, "Bought together by 31 customers, 14x as often as by chance (at least 9.1x)."),
        (
            {"overall_lift": 11.2, "lift": 1.02, "grade": "seasonal", "season": DECEMBER},
            "Bought together by 31 customers, 11x overall, 1.0x within December: seasonal.",
        ),
        (
            {"overall_lift": 2.6, "lift": 1.02, "grade": "explained by store"},
            "Bought together by 31 customers, 2.6x overall, 1.0x within one store: explained by store.",
        ),
        (
            {"customers": 2, "reason": "counts", "grade": "guess"},
            "Bought together by 2 customers; chance may explain it.",
        ),
        (
            {"count": -1, "customers": -1, "grade": "guess"},
            "Seldom or never bought together; suggested because similar items go together.",
        ),
        (
            {
                "customers": 337,
                "lift": 1.01,
                "lift_low": 0.93,
                "lift_high": 1.09,
                "grade": "chance",
            },
            "Bought together by 337 customers, about as often as chance: 1.01x (0.93 to 1.09).",
        ),
    ],
)
def test_evidence_in_words(changed: dict[str, Any], words: str) -> None:
    evidence = replace(PAIR, **changed)
    assert evidence.words() == words


def test_two_words_say_how_sure_and_how_strong() -> None:
    """692 orders, q = 1e-37, 1.9 times chance: certain and moderate."""
    salsa = replace(PAIR, count=692, lift=1.9, lift_low=1.76, q=1e-37)
    assert (salsa.grade, salsa.strength) == ("certain", "moderate")
    assert PAIR.strength == "strong"
    assert replace(PAIR, lift_low=1.1).strength == "weak"
    assert replace(PAIR, grade="guess").strength is None
    assert replace(PAIR, grade="seasonal").strength is None


def test_json_has_what_is_known_in_six_digits() -> None:
    found = replace(
        PAIR, season=NOVEMBER | DECEMBER, lift=13.1234567, customers=-1, q=NAN
    ).to_dict()
    assert list(found) == list(PUBLIC)
    assert (found["season"], found["lift"]) == (["November", "December"], 13.1235)
    assert (found["customers"], found["q"], found["same_category"]) == (None, None, False)
    assert PAIR.to_dict()["season"] is None
    assert ("Baskets that hold both", "37") in PAIR.facts()
    assert "Months of a seasonal pair" not in dict(PAIR.facts())


def test_what_could_not_be_ruled_out_is_said_and_less_is_claimed() -> None:
    assert strata_words(()) == "Seasons and stores could not be ruled out as the reason of a pair."
    assert coincidence_words(1e-30, ()) == "fewer than 1 in 1,000"
    strata = ("basket_size", "month", "Store\x1b ID")
    said = "Evidence is measured within basket size, month, Store\\x1b ID."
    assert strata_words(strata) == said
    assert coincidence_words(1e-30, strata) == "fewer than 1 in 1,000,000"
    assert coincidence_words(0.013, strata) == "about 1 in 70"


@given(st.floats(1e-6, 1.0), st.floats(1.0, 1e6))
def test_words_never_claim_more_than_the_numbers(q: float, low: float) -> None:
    assert one_in(q) <= 1 / q * (1 + 1e-5)
    assert float(at_least(low).replace(",", "").removesuffix("x")) <= low * (1 + 1e-6)


def assert_same_evidence(labels: Labels, table: EvidenceTable) -> None:
    """Every number of every label is the one served for its pair; a bundle holds 32 bits of each."""
    assert len(labels) > 0
    assert labels.options["strata"] == list(table.strata)
    found = table.of_pairs(labels.query, labels.item)
    for name in ("expected", "lift", "lift_low", "lift_high"):
        np.testing.assert_array_equal(
            found[name], getattr(labels, name).astype(np.float32), err_msg=name
        )
    np.testing.assert_array_equal(found["q"], np.maximum(labels.q, 1e-37).astype(np.float32))
    np.testing.assert_array_equal(
        found["customers" if table.by_customer else "count"], labels.count
    )


def test_served_evidence_and_calibrated_labels_of_few_pairs_agree_to_the_digit() -> None:
    table = EvidenceTable.of(baskets := dated_shop())
    assert table.prior is None
    assert_same_evidence(make_labels(baskets, levels=(0.05,), **EVERY_PAIR), table)


@pytest.mark.parametrize("households", [700, 6_000])
def test_a_label_and_the_evidence_a_bundle_serves_agree_to_the_digit(
    tmp_path: Path, households: int
) -> None:
    """Under one prior, within size, month and store: where customers return, and where they do not."""
    baskets = supermarket(baskets=6_000, items=200, households=households, stores=2, seed=4).baskets
    baskets = replace(baskets, ordered=False)
    if households == len(baskets):
        baskets = replace(baskets, users=None, user_ids=None)
    train_bundle(lambda: baskets, tmp_path / "bundle", ModelChoice("shrunk-lift"), TrainOptions())
    table = PairTable.open(tmp_path / "bundle").pairs
    assert table.prior is not None
    assert table.strata == ("basket_size", "month", "store")
    assert table.by_customer == (households == 700)
    labels = make_labels(baskets, levels=(0.05,), **EVERY_PAIR)
    assert_same_evidence(labels, table)
    assert not np.allclose(labels.lift, labels.count / labels.expected, rtol=0.01)


def test_a_pair_explained_by_its_season_or_its_store_has_a_grade_of_its_own() -> None:
    baskets = dated_shop()
    place = baskets.catalog.code_of
    asked = [("candy", "wreath"), ("ice", "charcoal"), ("bun", "sausage")]
    query, item = ([place[pair[side]] for pair in asked] for side in (0, 1))
    within, plain = EvidenceTable.of(baskets), EvidenceTable.of(baskets, strata=("none",))
    found = within.of_pairs(query, item)
    names = grade_names(within.strata)
    assert [names[grade] for grade in found["grade"]] == [
        "seasonal",
        "explained by store",
        "certain",
    ]
    assert [GRADES[grade] for grade in plain.of_pairs(query, item)["grade"]] == ["certain"] * 3
    assert found["season"].tolist() == [DECEMBER, 0, 0]
    np.testing.assert_array_equal(found["overall_lift"], plain.of_pairs(query, item)["lift"])
    assert found["overall_lift"][0] > 4
    assert 0.8 < found["lift"][0] < 1.2
    assert plain.strata == ()


def test_columns_whose_values_have_few_baskets_are_left_out_by_default() -> None:
    baskets = dated_shop()
    assert EvidenceTable.of(baskets.select(np.arange(2_500))).strata == (
        "basket_size",
        "month",
        "store",
    )
    assert EvidenceTable.of(baskets.select(np.arange(700))).strata == ("store",)
    assert EvidenceTable.of(baskets.select(np.arange(300))).strata == ()
    plain = replace(baskets, times=None, attributes={})
    assert EvidenceTable.of(plain).strata == ()
    assert EvidenceTable.of(plain, strata=("size",)).strata == ("basket_size",)


@pytest.mark.parametrize("values", [2, 4, 50])
def test_a_column_that_explains_nothing_moves_no_lift(values: int) -> None:
    """Random strata change shown lifts and intervals by less than 10 %, and lose no evidence."""
    baskets = supermarket(baskets=8_000, items=300, seed=4).baskets
    drawn = np.random.default_rng(values).integers(0, values, len(baskets)).astype(np.int32)
    noise = Attribute(drawn, tuple(map(str, range(values))))
    noisy = replace(baskets, attributes={**baskets.attributes, "noise": noise})
    strata = ("basket_size", "month", "store")
    plain = EvidenceTable.of(baskets, strata=strata)
    rows = plain.evident
    assert len(rows) > 50
    found = EvidenceTable.of(noisy, strata=(*strata, "noise"))
    np.testing.assert_array_equal(found.one, plain.one)
    for name in ("lift", "lift_low", "lift_high"):
        np.testing.assert_allclose(found.columns[name][rows], plain.columns[name][rows], rtol=0.1)
    assert (found.columns["grade"][rows] <= LIKELY).all()


def test_revenue_is_the_count_beyond_chance_at_the_prices_of_both_items_per_month() -> None:
    rng = np.random.default_rng(0)
    orders = [["tea", "milk"] if rng.random() < 0.3 else ["rice", "soap"] for _ in range(600)]
    lines = [
        {"order_id": n, "sku": item, "order_date": f"2024-{1 + n // 100:02}-15", "Preis": price}
        for n, order in enumerate(orders)
        for item, price in ((item, f"{len(item)},50") for item in order)
    ]
    shop = fit(pa.Table.from_pylist(lines), model="shrunk-lift")
    found = shop.pairs(sort="revenue").to_arrow().to_pylist()
    months = (152 * 86_400e6) / (365.25 / 12 * 86_400e6)
    for row in found:
        prices = len(row["item"]) + len(row["other"]) + 1
        assert row["revenue"] == pytest.approx(row["beyond"] * prices / months, rel=1e-4)
    revenue = [row["revenue"] for row in found]
    assert revenue == sorted(revenue, reverse=True)
    assert len(revenue) > 1
    unseen = shop.table.evidence(*map(shop.table.catalog.code_of.get, ("tea", "rice")))
    assert unseen.to_dict()["revenue"] is None
    plain = fit(pa.Table.from_pylist(lines).drop(["Preis"]), model="shrunk-lift")
    assert plain.pairs().to_arrow()["revenue"].null_count == len(plain.pairs())
    with pytest.raises(ParameterError, match="`sort` must be one of beyond, strength, customers"):
        plain.pairs(sort="revenue")
