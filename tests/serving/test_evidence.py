"""The evidence of a pair is what counting by hand gives, in numbers and in words."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import poisson

from helpers.toyshop import code, toy_baskets
from neatrec.data.baskets import Baskets
from neatrec.data.catalog import Catalog
from neatrec.labels import make_labels
from neatrec.serving.evidence import FOOTER, GRADES, about, at_least, evidence_words, grade_pairs, one_in
from neatrec.serving.pairs import PairTable

ITEMS = "abcdefgh"
CATEGORIES = ["x", "x", "y", "y", "z", "z", None, None]


def shop(lists: list[list[str]], users: list[str] | None, ordered: bool = True) -> Baskets:
    catalog = Catalog.from_ids(ITEMS, categories=CATEGORIES)
    return Baskets.from_lists(lists, catalog=catalog, users=users, ordered=ordered)


baskets_of_letters = st.lists(
    st.lists(st.sampled_from(ITEMS), min_size=1, max_size=6, unique=True), min_size=1, max_size=25
)


@settings(max_examples=60, deadline=None)
@given(baskets_of_letters, st.booleans(), st.integers(0, 99))
def test_counts_customers_and_directions_are_those_of_the_baskets(
    lists: list[list[str]], ordered: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    users = [f"u{n}" for n in rng.integers(0, 4, len(lists))]
    pairs = PairTable.of(shop(lists, users, ordered), threads=1)
    count: Counter[tuple[int, int]] = Counter()
    people: dict[tuple[int, int], set[str]] = {}
    for basket, user in zip(lists, users, strict=True):
        for one, other in combinations(basket, 2):
            count[ITEMS.index(one), ITEMS.index(other)] += 1
            people.setdefault(tuple(sorted((ITEMS.index(one), ITEMS.index(other)))), set()).add(user)  # type: ignore[arg-type]
    query, item = (part.ravel() for part in np.meshgrid(np.arange(8), np.arange(8), indexing="ij"))
    found = pairs.columns(query, item)
    for place, (q, v) in enumerate(zip(query.tolist(), item.tolist(), strict=True)):
        same = q == v or (CATEGORIES[q] == CATEGORIES[v] and CATEGORIES[q] is not None)
        assert found["count"][place] == (-1 if same else count[q, v] + count[v, q])
        assert found["customers"][place] == (-1 if same else len(people.get((min(q, v), max(q, v)), ())))
        if same or not ordered:
            assert found["forward"][place] == found["backward"][place] == -1
        else:
            assert (found["forward"][place], found["backward"][place]) == (count[q, v], count[v, q])


def test_customers_are_what_is_tested_where_they_return() -> None:
    """Thirty times by one customer is one piece of evidence."""
    lists = [["a", "c"]] * 30 + [["a", "e"], ["c", "e"], ["e", "g"], ["c", "g"]] * 3
    users = ["one"] * 30 + [f"u{n}" for n in range(12)]
    pair = np.array([0]), np.array([2])
    by_customer = PairTable.of(shop(lists, users)).columns(*pair)
    by_basket = PairTable.of(shop(lists, None)).columns(*pair)
    assert (by_customer["count"][0], by_customer["customers"][0]) == (30, 1)
    assert by_customer["q"][0] > 0.05
    assert GRADES[by_customer["grade"][0]] == "predicted"
    assert (by_basket["count"][0], by_basket["customers"][0]) == (30, -1)
    assert by_basket["lift"][0] > by_customer["lift"][0]


def test_expected_counts_and_q_are_those_of_the_calibrated_protocol() -> None:
    baskets = toy_baskets()
    unordered = Baskets.from_lists(
        [[baskets.catalog.id(i) for i in baskets.items[a:b]] for a, b in pairwise(baskets.offsets)],
        catalog=baskets.catalog,
        ordered=False,
        users=[baskets.user_ids[int(u)].as_py() for u in baskets.users],
    )
    undirected = make_labels(unordered, protocol="calibrated", levels=(0.05,), min_basket=2)
    found = PairTable.of(baskets).columns(undirected.query, undirected.item)
    assert len(undirected) > 0
    assert undirected.options["once_per_customer"]
    np.testing.assert_allclose(found["expected"], undirected.expected, rtol=1e-6)
    np.testing.assert_allclose(found["lift_low"], undirected.lift_low, rtol=1e-6)
    np.testing.assert_allclose(found["lift_high"], undirected.lift_high, rtol=1e-6)
    np.testing.assert_allclose(found["q"], undirected.q, rtol=1e-6)
    assert np.array_equal(found["customers"], undirected.count)


def test_the_interval_is_exact() -> None:
    pairs = PairTable.of(toy_baskets())
    found = pairs.columns([code("bread")], [code("butter")])
    times, expected = int(found["customers"][0]), float(found["expected"][0])
    low, high = float(found["lift_low"][0]) * expected, float(found["lift_high"][0]) * expected
    assert poisson.sf(times - 1, low) == pytest.approx(0.025, rel=1e-4)
    assert poisson.cdf(times, high) == pytest.approx(0.025, rel=1e-4)


def test_pairs_below_the_least_count_are_not_kept_and_said_to_be_unknown() -> None:
    lists = [["a", "c"]] * 3 + [["a", "e"], ["g", "h"]]
    every, some = PairTable.of(shop(lists, None)), PairTable.of(shop(lists, None), min_count=2)
    assert (len(every.item), len(some.item)) == (3, 1)
    assert every.columns([0, 0], [2, 6])["count"].tolist() == [3, 0]
    assert some.columns([0, 0], [2, 6])["count"].tolist() == [3, -1]
    assert np.isnan(some.columns([0], [4])["lift"][0])
    np.testing.assert_allclose(some.columns([0], [2])["expected"], every.columns([0], [2])["expected"])


def test_shards_count_as_one() -> None:
    baskets = toy_baskets()
    half = len(baskets) // 2
    shards = [baskets.select(np.arange(half)), baskets.select(np.arange(half, len(baskets)))]
    one, two = PairTable.of(baskets), PairTable.of(shards)
    assert one.by_customer
    assert two.by_customer
    for name in ("start", "item", "count", "customers", "forward", "q"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name), err_msg=name)


def test_a_customer_of_two_shards_returns() -> None:
    lists = [["a", "c"], ["a", "c"]]
    baskets = shop(lists, ["u", "u"])
    assert PairTable.of([baskets.select(np.array([0])), baskets.select(np.array([1]))]).by_customer
    assert not PairTable.of(shop(lists, ["u", "v"])).by_customer


def test_one_basket_of_one_item_is_no_evidence() -> None:
    pairs = PairTable.of(shop([["a"]], None))
    found = pairs.columns([0], [2])
    assert found["count"][0] == 0
    assert GRADES[found["grade"][0]] == "predicted"


@pytest.mark.parametrize(
    ("times", "low", "q", "grade"),
    [
        (37, 9.2, 1e-4, "strong"),
        (3, 2.0, 0.001, "strong"),
        (2, 9.0, 0.0001, "some"),
        (9, 1.9, 0.0001, "some"),
        (9, 9.0, 0.01, "some"),
        (9, 1.0, 0.01, "predicted"),
        (9, 9.0, 0.051, "predicted"),
        (-1, np.nan, np.nan, "predicted"),
    ],
)
def test_grades_follow_the_stated_thresholds(times: int, low: float, q: float, grade: str) -> None:
    assert GRADES[grade_pairs(np.array([times]), np.array([low]), np.array([q]))[0]] == grade


WORDS = {"count": 37, "customers": 31, "expected": 2.3, "lift_low": 9.16, "q": 0.001, "reason": "similar"}


@pytest.mark.parametrize(
    ("grade", "changed", "private", "public"),
    [
        (
            0,
            {},
            "In 37 orders by 31 customers; 2.3 expected by chance; at least 9x chance (95 %). "
            "Of pairs with evidence this strong about 1 in 1,000 is expected to be coincidence.",
            "Bought together at least 9x as often as by chance (95 %). "
            "Of pairs with evidence this strong about 1 in 1,000 is expected to be coincidence.",
        ),
        (
            1,
            {"count": 1, "customers": -1, "q": 0.04, "lift_low": 1.27},
            "In 1 order; 2.3 expected by chance; at least 1.2x chance (95 %). "
            "Of pairs with evidence this strong about 1 in 20 is expected to be coincidence.",
            "Bought together at least 1.2x as often as by chance (95 %). "
            "Of pairs with evidence this strong about 1 in 20 is expected to be coincidence.",
        ),
        (
            0,
            {"q": 1e-30},
            "In 37 orders by 31 customers; 2.3 expected by chance; at least 9x chance (95 %). "
            "Of pairs with evidence this strong fewer than 1 in 1,000,000 is expected to be coincidence.",
            "Bought together at least 9x as often as by chance (95 %). "
            "Of pairs with evidence this strong fewer than 1 in 1,000,000 is expected to be coincidence.",
        ),
        (
            2,
            {"count": 1},
            "Bought together once; suggested because similar items go together.",
            "Suggested because similar items go together.",
        ),
        (
            2,
            {"count": 0, "reason": "popular"},
            "Never bought together; suggested because it is bought often.",
            "Suggested because it is bought often.",
        ),
        (
            2,
            {"count": 2, "reason": "counts"},
            "Bought together twice; chance may explain it.",
            "Chance may explain it.",
        ),
        (
            2,
            {"count": -1},
            "Seldom or never bought together; suggested because similar items go together.",
            "Suggested because similar items go together.",
        ),
        (
            2,
            {"count": 1234},
            "Bought together 1,234 times; suggested because similar items go together.",
            "Suggested because similar items go together.",
        ),
        (
            2,
            {"count": -1, "expected": float("nan")},
            "Items of one category are not counted together.",
            "Items of one category are not counted together.",
        ),
        (
            3,
            {},
            "A new item: suggested because items of its category go together.",
            "A new item: suggested because items of its category go together.",
        ),
        (4, {}, "Placed here by a rule of the shop.", "Placed here by a rule of the shop."),
    ],
)
def test_evidence_in_words(grade: int, changed: dict[str, object], private: str, public: str) -> None:
    numbers = {**WORDS, **changed}
    assert evidence_words(grade, public=False, **numbers) == private  # type: ignore[arg-type]
    assert evidence_words(grade, public=True, **numbers) == public  # type: ignore[arg-type]


def test_the_footer_claims_no_more() -> None:
    assert FOOTER == "Association, not proof of extra sales."


@given(st.floats(1e-6, 1.0), st.floats(1e-9, 1e9), st.floats(1.0, 1e6))
def test_words_never_claim_more_than_the_numbers(q: float, expected: float, low: float) -> None:
    assert one_in(q) <= 1 / q * (1 + 1e-5)
    assert float(at_least(low).replace(",", "")) <= low
    assert about(expected)
