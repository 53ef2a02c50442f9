"""The compiled scorer of `bayes` against the slow reference, and the features against plain computations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.bayes_cases import ITEMS, random_weights, reference_scores, toy_bayes, toy_features
from helpers.toyshop import code, toy_catalog
from neatrec.compiled import logarithm
from neatrec.data.baskets import Baskets
from neatrec.data.catalog import Catalog
from neatrec.models.bayes import Bayes
from neatrec.models.bayes.counting import FeatureOptions
from neatrec.models.bayes.features import (
    PRIOR_FEATURES,
    RANKER_FEATURES,
    CatalogFeatures,
    PairFeatures,
)
from neatrec.models.bayes.fit import FitSummary
from neatrec.models.bayes.old_bundles import upgraded
from neatrec.models.bayes.ranker import BY_LIFT, GOALS, GoalRanking
from neatrec.models.bayes.scoring import PairScorer
from neatrec.models.counts import CountParameters, PairCounts

EVERY = np.arange(ITEMS, dtype=np.int32)
QUERY, ITEM = (part.ravel().astype(np.int32) for part in np.indices((ITEMS, ITEMS)))


def column(name: str) -> np.ndarray:
    """A feature of all pairs of the small shop, (items, items)."""
    features = toy_features()
    if name in PRIOR_FEATURES:
        return features.prior_features(QUERY, ITEM)[:, list(PRIOR_FEATURES).index(name)].reshape(ITEMS, ITEMS)
    found = features.ranker_features(QUERY, ITEM, np.ones(len(QUERY)))
    return found[:, list(RANKER_FEATURES).index(name)].reshape(ITEMS, ITEMS)


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("max_pairs", [None, 60])
@pytest.mark.parametrize("ranked", [True, False])
@pytest.mark.parametrize("seed", [0, 1])
def test_rows_and_pairs_are_those_of_the_reference(
    ordered: bool, named: bool, max_pairs: int | None, ranked: bool, seed: int
) -> None:
    features = toy_features(ordered=ordered, max_pairs=max_pairs)
    features = features if named else replace(features, similar=None)
    prior, ranker = random_weights(seed, ordered=ordered)
    scorer = PairScorer(features, prior, *([[[ranker]]] if ranked else []))
    wanted = np.log(reference_scores(features, prior, ranker if ranked else None, QUERY, ITEM))
    np.testing.assert_allclose(np.log(scorer.rows(EVERY)).ravel(), wanted, atol=5e-5)
    chosen = np.random.default_rng(seed).integers(0, len(QUERY), 300)
    np.testing.assert_allclose(np.log(scorer.pairs(QUERY[chosen], ITEM[chosen])[0]), wanted[chosen], atol=5e-5)
    assert scorer.pairs(EVERY[:0], EVERY[:0]).shape == (1, 0)
    assert scorer.rows(EVERY[:0]).shape == (1, 0, ITEMS)


@pytest.mark.parametrize("lists", [[["a", "b"]], [["a"], ["b"]], [["a", "b", "c"]] * 3 + [["c", "a"]]])
def test_degenerate_baskets_score_as_the_reference(lists: list[list[str]]) -> None:
    catalog = Catalog.from_ids(["a", "b", "c", "never"])
    baskets = Baskets.from_lists(lists, catalog=catalog)
    options = FeatureOptions(CountParameters().counting(), ordered=True, rank=3, min_pair_count=1)
    features = PairFeatures.of(baskets, CatalogFeatures.of(catalog), options, np.random.default_rng(0))
    prior, ranker = random_weights(1)
    query, item = (part.ravel().astype(np.int32) for part in np.indices((4, 4)))
    wanted = np.log(reference_scores(features, prior, ranker, query, item))
    found = PairScorer(features, prior, [[ranker]]).rows(np.arange(4, dtype=np.int32))
    np.testing.assert_allclose(np.log(found).ravel(), wanted, atol=5e-5)


def test_scores_are_clipped_as_the_reference() -> None:
    features, (prior, ranker) = toy_features(), random_weights(0)
    steep = replace(ranker, weights=(ranker.weights - 0.5) * 50)
    found = np.log(PairScorer(features, prior, [[steep]]).rows(EVERY).astype(np.float64))
    assert (found.min(), found.max()) == pytest.approx((-60.0, 60.0))
    np.testing.assert_allclose(found.ravel(), np.log(reference_scores(features, prior, steep, QUERY, ITEM)), atol=5e-3)


@pytest.mark.parametrize("goal", GOALS)
def test_each_goal_scores_by_the_largest_of_its_odds(goal: str) -> None:
    model = toy_bayes(2, goal="lift")
    lift, evidence = (random_weights(seed)[1] for seed in (1, 2))
    weights = dict(zip(GOALS, (0.3, 1.0, 0.0), strict=True))
    rankings = {name: GoalRanking.of_odds(lift, evidence, weight) for name, weight in weights.items()}
    levels = [[one.level for one in rankings[name].rankers] for name in GOALS]
    both = pytest.approx([lift.level + np.log(0.3), evidence.level + np.log(0.7)])
    assert levels == [both, [lift.level], [evidence.level]]
    model._set_fit(model.features, replace(model.summary, rankings=rankings))
    odds = (model.features, model.summary.prior)
    wanted = np.max([reference_scores(*odds, one, QUERY, ITEM) for one in rankings[goal].rankers], axis=0)
    answering = model.with_goal(goal)
    np.testing.assert_allclose(answering.score_all(EVERY).ravel(), wanted, rtol=1e-4)
    np.testing.assert_allclose(answering.score(QUERY, ITEM), wanted, rtol=1e-4)
    np.testing.assert_allclose(model.score_goals(EVERY)[goal], answering.score_all(EVERY), rtol=1e-6)
    np.testing.assert_allclose(model.score_pairs_by_goal(QUERY, ITEM)[goal], answering.score(QUERY, ITEM), rtol=1e-6)
    loaded = Bayes.from_arrays(answering.parameters, answering.catalog, answering.arrays())
    np.testing.assert_array_equal(loaded.score_all(EVERY), answering.score_all(EVERY))
    assert (answering.parameters.goal, model.parameters.goal) == (goal, "lift")
    assert answering.features is model.features


def test_goals_that_statistics_rank_for_score_pairs_as_each_does() -> None:
    model = toy_bayes(2)
    statistics = (GoalRanking("shrunk-lift", k=0.5), GoalRanking("lift"), GoalRanking("llr"))
    model._set_fit(model.features, replace(model.summary, rankings=dict(zip(GOALS, statistics, strict=True))))
    assert isinstance(model.scorer, PairScorer)
    found = model.score_pairs_by_goal(QUERY, ITEM)
    for goal in GOALS:
        np.testing.assert_array_equal(found[goal], model.with_goal(goal).score(QUERY, ITEM))


def test_several_rankers_score_in_one_pass_as_each_does_alone() -> None:
    scorer = PairScorer(toy_features(), random_weights(0)[0])
    rankers = [BY_LIFT, *(random_weights(seed)[1] for seed in (1, 2))]
    together = scorer.with_rankings([[ranker] for ranker in rankers]).rows(EVERY)
    assert together.shape == (3, ITEMS, ITEMS)
    for ranker, rows in zip(rankers, together, strict=True):
        np.testing.assert_array_equal(rows, scorer.with_rankings([[ranker]]).rows(EVERY)[0])


@settings(max_examples=100, deadline=None)
@given(st.floats(2.0**-100, 2.0**100, width=32))
def test_the_fast_logarithm_is_a_logarithm(value: float) -> None:
    wanted = float(np.log(np.float64(np.float32(value))))
    assert logarithm(np.float32(value)) == pytest.approx(wanted, abs=2e-7, rel=3e-7)


# ---- features


def test_the_category_feature_is_the_log_lift_of_two_categories() -> None:
    counts, category = toy_features().counts, toy_catalog().category_of()
    bread, butter = code("bread"), code("butter")
    bakery, dairy = category == category[bread], category == category[butter]
    together = counts.matrix.toarray()[np.ix_(bakery, dairy)].sum()
    expected = counts.total[bakery].sum() * counts.total[dairy].sum() / counts.records
    assert column("categories")[bread, butter] == pytest.approx(np.log((together + 10) / (expected + 10)), rel=1e-5)
    assert not column("categories")[code("mystery")].any()


def test_neighbours_leave_the_query_itself_out() -> None:
    features = toy_features()
    counts, others = features.counts.matrix.toarray().astype(float), features.neighbours.toarray().astype(float)
    np.fill_diagonal(others, 0.0)
    together, total = others @ counts, others @ counts.sum(axis=1)
    expected = np.outer(total, counts.sum(axis=1)) / counts.sum()
    np.testing.assert_allclose(column("neighbours"), np.log((together + 1) / (expected + 1)), atol=1e-5)


def test_category_order_is_antisymmetric_and_zero_without_cart_order() -> None:
    order = toy_features().category_order
    assert order.any()
    np.testing.assert_allclose(order, -order.T)
    assert not toy_features(ordered=False).category_order.any()


def test_directed_counts_add_up_to_the_undirected_ones() -> None:
    features = toy_features()
    assert features.directed is not None
    both = (features.directed + features.directed.T).toarray()
    np.testing.assert_array_equal(both, features.counts.matrix.toarray())
    assert toy_features(ordered=False).directed is None


def test_near_pairs_add_up_to_all_pairs() -> None:
    features = toy_features()
    for share in (0.0, 1.0):
        count, expected = features.count_and_expected(QUERY, ITEM, share)
        assert count.sum() == pytest.approx(features.counts.records)
        assert expected.sum() == pytest.approx(features.counts.records)
    without = toy_features(ordered=False).count_and_expected(QUERY, ITEM, 1.0)[0]
    np.testing.assert_array_equal(without.reshape(ITEMS, ITEMS), PairCounts(features.counts.matrix).matrix.toarray())


def test_old_weights_of_pruned_features_are_ignored_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    old = {"weights": np.arange(8.0), "ranking": np.arange(9.0), "lessons": np.array([5, 0.4, 0.3, 0.2, 0.1])}
    old |= {"calibration": np.arange(3.0), "company_start": np.zeros(1)}
    with caplog.at_level("WARNING", logger="neatrec"):
        found = upgraded(old)
    assert "features that do not exist any more: words" in caplog.text
    assert "features that do not exist any more: item_order" in caplog.text
    ranker = dict(zip(("level", *RANKER_FEATURES), found["lift_ranker"][0], strict=True))
    names = ("level", "log_lift", "log_expected", "log_count", "neighbours")
    assert [ranker[name] for name in names] == [0.0, 1.0, 2.0, 3.0, 8.0]
    prior = dict(zip(("k", "near", *PRIOR_FEATURES), found["prior"], strict=True))
    assert list(prior.values()) == [0, 1, 2, 3, 4, 5, 7]
    assert list(prior)[-2:] == ["categories", "item_popularity"]
    summary = FitSummary.from_arrays(found)
    assert {goal: ranking.name for goal, ranking in summary.rankings.items()} == {
        "balanced": "odds",
        "lift": "odds",
        "evidence": "llr",
    }
    assert (summary.strong_pairs, summary.prior_gain, summary.shrunk_lift_gain) == (5, 0.4, 0.3)
    assert "company_start" not in found
    assert upgraded(found) is found


def test_a_bundle_that_still_weighs_words_is_upgraded(caplog: pytest.LogCaptureFixture) -> None:
    """As they were written while words of names were a feature: six weights of the prior, and two arrays more."""
    arrays = toy_bayes(3).arrays()
    words = np.zeros((ITEMS, 32), dtype=np.float32)
    old = {**arrays, "prior": np.insert(arrays["prior"], 6, 0.3), "word_vectors": words, "word_values": words[0]}
    model = toy_bayes(3)
    with caplog.at_level("WARNING", logger="neatrec"):
        loaded = Bayes.from_arrays(model.parameters, model.catalog, old)
    assert "features that do not exist any more: words" in caplog.text
    np.testing.assert_array_equal(loaded.score_all(EVERY), model.score_all(EVERY))


def test_arrays_of_two_named_rankers_are_upgraded() -> None:
    """As they were written between version 1 and the goals: without what is now the last feature."""
    lift, sure = (np.random.default_rng(seed).normal(size=len(RANKER_FEATURES)) for seed in (1, 2))
    old = {"prior": np.arange(8.0), "calibration": np.arange(3.0), "fit_summary": np.arange(7.0)}
    rankings = FitSummary.from_arrays(upgraded(old | {"lift_ranker": lift, "sure_ranker": sure})).rankings
    np.testing.assert_array_equal(rankings["lift"].rankers[0].to_array(), np.append(lift, 0.0))
    np.testing.assert_array_equal(rankings["evidence"].rankers[0].to_array(), np.append(sure, 0.0))
    np.testing.assert_allclose(rankings["balanced"].rankers[0].to_array(), np.append((lift + sure) / 2, 0.0))
