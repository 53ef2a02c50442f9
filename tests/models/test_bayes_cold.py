"""`bayes` asked about an item that no basket holds: similar items and best sellers of its category stand in for it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from helpers.new_items import PER_KIND, new_item, shop_with_new_items
from helpers.toyshop import toy_baskets
from neatrec.bundle import load_bundle, save_bundle
from neatrec.data.baskets import Baskets
from neatrec.data.catalog import Catalog
from neatrec.errors import ParameterError
from neatrec.models import Run, make_model
from neatrec.models.bayes import GOALS, Bayes
from neatrec.models.bayes.cold_start import (
    CATEGORY_WEIGHT,
    NEW_DISCOUNT,
    OWN_WEIGHT,
    RARE,
    TRUST_POWER,
    StandIns,
)
from neatrec.simulator import supermarket


@cache
def hidden() -> int:
    """An item of the simulated supermarket that has partners and is often bought."""
    market = supermarket(baskets=12_000, items=500, seed=2)
    sold = market.baskets.item_counts
    with_partners = np.unique(market.truth.query)
    return int(with_partners[np.argsort(-sold[with_partners])[0]])


@cache
def model(name: str = "bayes") -> Bayes:
    """Fitted on the supermarket's baskets without the hidden item."""
    baskets = supermarket(baskets=12_000, items=500, seed=2).baskets
    lines = baskets.items != hidden()
    ends = np.concatenate([[0], np.cumsum(lines)])
    kept = Baskets(
        catalog=baskets.catalog,
        ids=baskets.ids,
        items=baskets.items[lines],
        offsets=ends[baskets.offsets],
        ordered=True,
        source="without one",
    )
    fitted = make_model(name, rank=32).fit(kept, Run(threads=1))
    assert isinstance(fitted, Bayes)
    return fitted


def stand_ins_of_five() -> StandIns:
    """Item 3 is new and like 0 and 1, item 4 was bought once and is like 2; nothing is like itself."""
    alike = np.eye(5)
    alike[3, 0], alike[3, 1], alike[4, 2], alike[0, 1] = 0.8, 0.4, 0.5, 0.9
    return StandIns.of(np.array([95, 5, 15, 0, 1]), np.full(5, -1, dtype=np.int32), sparse.csr_matrix(alike))


def test_stand_ins_weigh_by_similarity_and_purchases() -> None:
    weights = stand_ins_of_five().weights.toarray()
    assert not weights[:3].any()  # bought often enough
    new, rare = np.array([0.8 * 0.95, 0.4 * 0.5]), 0.5 * 0.75
    np.testing.assert_allclose(weights[3, :2], new / (new.sum() + OWN_WEIGHT), rtol=1e-6)
    np.testing.assert_allclose(weights[4, 2], rare / (rare + 2 * OWN_WEIGHT), rtol=1e-6)


def test_scores_of_stand_ins_are_averaged_on_both_sides() -> None:
    stand_ins, table = stand_ins_of_five(), np.random.default_rng(0).random((5, 5)) + 0.1
    weights = stand_ins.weights.toarray().astype(np.float64)
    others = table * ~np.eye(5, dtype=bool)  # an item does not go with itself
    rows = weights @ others + (1 - weights.sum(axis=1))[:, None] * others
    trust = (0.8 * 0.95 + 0.4 * 0.5) ** TRUST_POWER / NEW_DISCOUNT
    rows[:, 3] = rows @ (weights[3] / weights[3].sum()) * trust
    every = np.arange(5, dtype=np.int32)
    found = stand_ins.rows(table[stand_ins.asked(every)], every)
    off = ~np.eye(5, dtype=bool)
    np.testing.assert_allclose(found[off], rows[off], rtol=1e-5)
    queries, items = np.repeat(every, 5), np.tile(every, 5)
    pairs = stand_ins.pairs(lambda q, v: table[q, v][None], queries, items).reshape(5, 5)
    np.testing.assert_allclose(pairs[off], rows[off], rtol=1e-5)


def test_often_bought_items_keep_their_scores_to_the_bit() -> None:
    stand_ins, table = stand_ins_of_five(), np.random.default_rng(0).random((5, 5)).astype(np.float32)
    often = np.array([0, 1, 2], dtype=np.int32)
    found = stand_ins.rows(table[stand_ins.asked(often)], often)
    assert np.array_equal(found[:, [0, 1, 2, 4]], table[:3][:, [0, 1, 2, 4]])
    scores = stand_ins.pairs(lambda q, v: table[q, v][None], often, often[::-1])
    assert np.array_equal(scores[0], table[often, often[::-1]])


@cache
def named_shop() -> Bayes:
    fitted = make_model("bayes", rank=16).fit(shop_with_new_items())
    assert isinstance(fitted, Bayes)
    return fitted


def test_names_answer_for_a_new_item_without_categories() -> None:
    assert named_shop().item_count[new_item(7)] == 0
    first = named_shop().rank(str(new_item(7)), 3).codes
    assert (first // PER_KIND == 27).all()


@pytest.mark.parametrize("goal", GOALS)
def test_a_new_item_is_an_answer_only_when_asked_for(goal: str) -> None:
    fitted = named_shop().with_goal(goal)
    query = str(7 * PER_KIND + 1)
    usual, with_new = fitted.rank(query, 12), fitted.rank(query, 12, include_new=True)
    assert (fitted.item_count[usual.codes] > 0).all()
    new = with_new.codes[fitted.item_count[with_new.codes] == 0]
    assert new[0] == new_item(27)
    bought = fitted.item_count > 0
    code = np.array([int(query)], dtype=np.int32)
    assert np.array_equal(fitted.score_all(code)[0, with_new.codes], with_new.scores.astype(np.float32))
    assert np.array_equal(usual.codes[:3], with_new.codes[bought[with_new.codes]][:3])


def test_a_new_item_with_a_category_alone_is_scored_by_its_best_sellers() -> None:
    count, category = np.array([30, 10, 0, 5, 0, 0]), np.array([0, 0, 0, 1, -1, 2], dtype=np.int32)
    stand_ins, table = StandIns.of(count, category), np.random.default_rng(0).random((6, 6))
    assert stand_ins.new.tolist() == [False, False, True, False, False, False]
    asked = np.array([2, 4], dtype=np.int32)  # its category has best sellers; nothing is known of the other
    found = stand_ins.rows(table[stand_ins.asked(asked)], asked)
    assert found[0, 3] == pytest.approx(0.75 * table[0, 3] + 0.25 * table[1, 3], rel=1e-6)
    assert found[1, 3] == table[4, 3]
    query = np.array([3], dtype=np.int32)
    found = stand_ins.rows(table[stand_ins.asked(query)], query)[0]
    trust = CATEGORY_WEIGHT**TRUST_POWER / NEW_DISCOUNT
    assert found[2] == pytest.approx(trust * (0.75 * found[0] + 0.25 * found[1]), rel=1e-6)


def test_models_of_counts_have_no_new_answers() -> None:
    with pytest.raises(ParameterError, match="`include_new` must be left out: model 'llr' has no scores for items"):
        make_model("llr").fit(toy_baskets()).rank("Salsa", include_new=True)


def test_vectors_choose_stand_ins_for_rare_items_only() -> None:
    angle = np.array([0.1, 1.6, 3.1, 0.2, 1.5, np.nan, 4.6])
    vectors = np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)
    count, category = np.array([50, 50, 50, 0, 2, 0, 50]), np.full(7, -1, dtype=np.int32)
    weights = StandIns.of(count, category, None, vectors).weights.toarray()
    assert weights[3].argmax() == 0
    assert weights[4].argmax() == 1
    assert weights[3, 0] > weights[4, 1] > 0  # two purchases of its own
    assert not weights[[0, 1, 2, 5, 6]].any()
    within = StandIns.of(count, np.array([0, 1, 0, 1, 1, 1, 0], dtype=np.int32), None, vectors).weights.toarray()
    assert not within[3, [0, 2, 6]].any()


def test_vectors_change_nothing_for_items_bought_often(tmp_path: Path) -> None:
    baskets = toy_baskets()
    vectors = np.random.default_rng(0).standard_normal((len(baskets.catalog), 4)).astype(np.float32)
    plain, with_vectors = (make_model("bayes").fit(baskets, Run(vectors=given)) for given in (None, vectors))
    often = np.flatnonzero(plain.item_count >= RARE)
    sold = np.flatnonzero(plain.item_count > 0)
    assert np.array_equal(plain.score_all(often)[:, sold], with_vectors.score_all(often)[:, sold])
    save_bundle(with_vectors, tmp_path / "b", baskets_hash=baskets.hash, seed=0)
    every = np.arange(len(baskets.catalog))
    assert np.array_equal(load_bundle(tmp_path / "b").score_all(every), with_vectors.score_all(every))


def test_an_item_in_no_basket_is_answered_from_its_category_with_a_note() -> None:
    answer = model().rank(hidden(), 10)
    assert len(answer) == 10
    assert "is in no training basket: what is known comes from its name and category" in answer.notes[0]
    category = model().catalog.category_of()
    assert category[hidden()] not in category[answer.codes]


def test_what_goes_with_its_category_goes_with_it() -> None:
    """Twenty pairs of categories that are bought together, eight items each, and one item that is new."""
    rng = np.random.default_rng(1)
    items = [(side, pair, n) for side in "ab" for pair in range(20) for n in range(8)] + [("a", 7, 8)]
    categories = [f"{side}{pair}" for side, pair, _ in items]
    catalog = Catalog.from_ids([f"{side}{pair}-{n}" for side, pair, n in items], categories=categories)
    lists = []
    for pair, other, *drawn in rng.integers(0, [20, 20, 8, 8, 8], (6000, 5)):
        lists.append(list(dict.fromkeys([f"a{pair}-{drawn[0]}", f"b{pair}-{drawn[1]}", f"b{other}-{drawn[2]}"])))
    fitted = make_model("bayes", rank=16).fit(Baskets.from_lists(lists, catalog=catalog))
    assert fitted.scores_unseen_items
    first = fitted.rank("a7-8", 8).codes
    assert [categories[item] for item in first] == ["b7"] * 8


def test_pairs_and_rows_of_an_item_in_no_basket_agree() -> None:
    every = np.arange(len(model().catalog))
    row = model().score_all([hidden()])[0]
    np.testing.assert_allclose(model().score(np.full(len(every), hidden()), every), row, rtol=1e-3)


def test_shrunk_lift_has_nothing_to_say_about_an_item_in_no_basket_without_stand_ins() -> None:
    fitted = make_model("bayes").fit(toy_baskets(60))
    assert not fitted.scores_unseen_items
    assert len(fitted.rank("Saffron")) == 0


def test_a_statistic_answers_for_an_item_in_no_basket_as_its_category_does() -> None:
    catalog = Catalog.from_ids(["tea", "milk", "new tea"], categories=["tea", "dairy", "tea"])
    fitted = make_model("bayes").fit(Baskets.from_lists([["tea", "milk"]] * 9 + [["milk"]], catalog=catalog))
    assert isinstance(fitted, Bayes)
    assert fitted.summary.prior.weights is None
    assert fitted.rank("new tea").ids == ["milk"]


def test_without_categories_nothing_stands_in_for_an_item_in_no_basket() -> None:
    catalog = Catalog.from_ids(["a", "b", "never"])
    baskets = Baskets.from_lists([["a", "b"]] * 3, catalog=catalog)
    fitted = make_model("bayes", rank=2).fit(baskets)
    assert fitted.score_all([2]).shape == (1, 3)
    assert fitted.rank("never").notes == ("never is in no training basket",)
