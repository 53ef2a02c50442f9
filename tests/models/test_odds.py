"""`odds`: features against plain formulas, outcomes of held-out baskets, what the fit learns."""

from dataclasses import replace

import numpy as np
import pytest

import neatrec
from helpers.toyshop import code, toy_baskets
from neatrec.cooccurrence import CountBook, CountOptions
from neatrec.data import Baskets, Catalog
from neatrec.models import Run, make_model, rank
from neatrec.models.odds import model as fit
from neatrec.models.odds.features import (
    WORDS,
    CatalogFeatures,
    PairFeatures,
)
from neatrec.models.odds.model import Outcome, Pairs, learn
from neatrec.simulator import supermarket

COUNTING = CountOptions(directed=False)


@pytest.fixture(scope="module")
def features() -> PairFeatures:
    baskets = supermarket(baskets=2_000, items=120, seed=4).baskets
    catalog = CatalogFeatures.of(baskets.catalog)
    return PairFeatures.of(CountBook(baskets), COUNTING, (), catalog, 8, np.random.default_rng(0))


def test_features_are_those_of_the_formulas(features: PairFeatures) -> None:
    queries, items = np.random.default_rng(1).integers(0, 120, (2, 300)).astype(np.int32)
    queries.sort()
    columns, count, expected = features.design(queries, items)
    table, names = features.counts.matrix.toarray(), features.catalog.names.toarray()
    near, total, records = features.neighbours.toarray(), table.sum(axis=1), table.sum()
    np.testing.assert_array_equal(count, table[queries, items])
    np.testing.assert_allclose(expected, total[queries] * total[items] / records)
    low_rank = features.vectors * features.signs @ features.vectors.T
    np.testing.assert_allclose(columns[:, 0], low_rank[queries, items], atol=1e-5)
    pooled, alike = names @ table @ names.T, names @ total
    chance = np.outer(alike, alike) / records
    np.testing.assert_allclose(
        columns[:, 1], np.log((pooled + 3) / (chance + 3))[queries, items], atol=1e-4
    )
    around = near @ table
    chance = np.outer(near @ total, total) / records
    np.testing.assert_allclose(
        columns[:, 2], np.log((around + 1) / (chance + 1))[queries, items], atol=1e-4
    )
    category = features.catalog.category
    member = (category[:, None] == np.arange(category.max() + 1)).astype(float)
    together, of_category = member.T @ table @ member, member.T @ total
    lift = (together + 10) / (np.outer(of_category, of_category) / records + 10)
    np.testing.assert_allclose(
        columns[:, 4], np.log(lift)[category[queries], category[items]], atol=1e-5
    )


def test_the_order_of_categories_is_that_of_the_carts() -> None:
    """Tea before milk in 30 carts and after it in 10; no order where carts have none."""
    items = Catalog.from_ids(["tea", "milk", "pen"], categories=["hot", "cold", None])
    lists = [["tea", "milk"]] * 30 + [["milk", "tea"]] * 10 + [["tea", "pen"]] * 5
    baskets = Baskets.from_lists(lists, catalog=items)
    tea, milk, pen = (baskets.catalog.code_of[item] for item in ("tea", "milk", "pen"))
    for ordered, wanted in ((True, np.log(50 / 30)), (False, 0.0)):
        book = CountBook(replace(baskets, ordered=ordered))
        catalog, rng = CatalogFeatures.of(items), np.random.default_rng(0)
        features = PairFeatures.of(book, COUNTING, (), catalog, 2, rng)
        columns, _, _ = features.design(np.array([tea, milk, tea]), np.array([milk, tea, pen]))
        np.testing.assert_allclose(columns[:, 5], [wanted, -wanted, 0], atol=1e-6)


def test_strong_and_dependent_pairs_are_those_of_the_definition() -> None:
    """12 carts of tea then milk, 8 of milk then tea, and noise of other items."""
    noise = [[f"n{i}", f"n{(i * 7 + j) % 40 + 40}"] for i in range(40) for j in range(10)]
    baskets = Baskets.from_lists([["tea", "milk"]] * 12 + [["milk", "tea"]] * 8 + noise)
    items = len(baskets.catalog)
    tea, milk = (baskets.catalog.code_of[item] for item in ("tea", "milk"))
    both = sorted([tea * items + milk, milk * items + tea])
    found = Outcome.of(CountBook(baskets), COUNTING, ())
    assert found.strong.tolist() == both
    assert set(both) <= set(found.dependent.tolist())
    once = Outcome.of(CountBook(baskets.select(np.arange(12, len(baskets)))), COUNTING, ())
    assert once.strong.tolist() == [milk * items + tea]
    unordered = Outcome.of(CountBook(replace(baskets, ordered=False)), COUNTING, ())
    assert unordered.strong.tolist() == both


def test_the_habit_of_one_customer_is_no_dependent_pair() -> None:
    others = [["milk", f"m{i}"] for i in range(60)] + [[f"a{i}", f"b{i}"] for i in range(200)]
    lists = [["tea", "milk"]] * 12 + others
    habit = ["ann"] * 12 + [f"user {n}" for n in range(260)]
    baskets = Baskets.from_lists(lists, users=habit)
    items = len(baskets.catalog)
    key = baskets.catalog.code_of["tea"] * items + baskets.catalog.code_of["milk"]
    assert key in Outcome.of(CountBook(baskets), COUNTING, ()).strong
    assert key not in Outcome.of(CountBook(baskets), COUNTING, ()).dependent


def test_gains_are_those_of_queries_that_were_not_learned_from() -> None:
    """Two of three features of the pairs are noise; the third says which pairs are strong."""
    rng = np.random.default_rng(5)
    group = np.repeat(np.arange(200), 40)
    outcome = rng.random(len(group)) < 0.1
    design = rng.standard_normal((len(group), len(WORDS)))
    design[:, 0] += 4 * outcome
    starts = rng.standard_normal((len(group), 2))
    outcomes = np.column_stack([outcome, rng.permutation(outcome)])
    _, learned = learn(Pairs(group, group, design, starts, outcomes))
    strong, dependent = learned["strong"], learned["dependent"]
    assert strong["pairs"] == outcome.sum()
    assert strong["hit_rate"] > 0.95
    assert strong["more"][0] > 0.5
    assert next(iter(strong["weights"])) == "low_rank"
    assert dependent["more"][0] < 0 < dependent["more"][1]


def test_noise_has_no_gain_for_a_query_that_stands_in_both_parts(monkeypatch) -> None:
    """The same pairs twice: a half that held the other copy of a query would know its outcome."""
    monkeypatch.setattr(fit, "RIDGES", (0.01, 0.01))
    gains = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        outcome = np.tile(rng.random(420) < 0.1, 2)
        design = np.tile(rng.standard_normal((420, len(WORDS))), (2, 1))
        group = np.repeat(np.arange(42), 20)
        starts, outcomes = rng.standard_normal((840, 2)), np.column_stack([outcome, outcome])
        _, learned = learn(Pairs(group % 21, group, design, starts, outcomes))
        gains.append(learned["strong"]["hit_rate"] - learned["strong"]["start_hit_rate"])
    assert np.mean(gains) < 0.05


def test_a_shop_without_held_out_pairs_is_ranked_by_the_statistics() -> None:
    rows = [["tea", "milk"], ["tea", "milk", "sugar"], ["rice", "oil"], ["tea", "oil"]] * 5
    shop = neatrec.fit(rows)
    model = make_model("odds").fit(neatrec.Baskets.from_lists(rows, ordered=False), Run(rng=0))
    assert model.learned["strong"]["pairs"] == 0
    scores = model.score_all(np.arange(len(model.catalog)))
    assert np.isfinite(scores).all()
    assert len(shop.goes_with("tea", min_evidence="guess").to_pandas())


def test_goals_add_up_to_the_balanced_score() -> None:
    baskets = toy_baskets()
    balanced = make_model("odds").fit(baskets, Run(rng=0))
    queries, items = np.arange(6), np.arange(6)[::-1].copy()
    parts = {}
    for goal in ("lift", "evidence"):
        made = make_model("odds", goal=goal)
        parts[goal] = made.from_arrays(made.parameters, baskets.catalog, balanced.arrays())
    wanted = 2 * parts["lift"].score(queries, items) + parts["evidence"].score(queries, items)
    np.testing.assert_allclose(balanced.score(queries, items), wanted)


def test_a_rare_item_is_answered_with_the_partners_of_its_like() -> None:
    baskets = toy_baskets()
    kept = baskets.items != code("chips")
    ends = np.concatenate([[0], np.cumsum(kept)])
    without = replace(baskets, items=baskets.items[kept], offsets=ends[baskets.offsets])
    model = make_model("odds").fit(without, Run(rng=0))
    assert model.item_count[code("chips")] == 0
    answer = rank(model, "Chips", 5)
    assert len(answer)
    assert answer.notes == ("Chips is in no training basket",)
