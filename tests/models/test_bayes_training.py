"""How `bayes` is trained: held-out pairs, prior, rankers, and what each goal makes of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from helpers.bayes_cases import ITEMS, toy_features
from helpers.toyshop import toy_baskets, toy_catalog
from neatrec.data.baskets import Baskets
from neatrec.models import make_model
from neatrec.models.bayes import GOALS
from neatrec.models.bayes.counting import FeatureOptions
from neatrec.models.bayes.features import RANKER_FEATURES, CatalogFeatures, PairFeatures
from neatrec.models.bayes.fit import choose_rankings, make_folds
from neatrec.models.bayes.prior import INITIAL_PRIOR, Prior
from neatrec.models.bayes.ranker import (
    BY_LIFT,
    STATISTICS,
    Competition,
    GoalRanking,
    OddsRanker,
    logistic_ranker,
    statistic_models,
    statistic_scores,
)
from neatrec.models.bayes.training_set import (
    MAX_P_VALUE,
    Fold,
    HeldOut,
    PairSampler,
    PriorTrainingSet,
    RankerTrainingSet,
    count_higher,
)
from neatrec.models.counts import CountParameters

CATEGORY = toy_catalog().category_of()


def dense(pairs: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    out = np.zeros((ITEMS, ITEMS), dtype=bool)
    out[pairs] = True
    return out


@pytest.mark.parametrize("ordered", [True, False])
def test_held_out_pairs_are_those_of_their_definitions(ordered: bool) -> None:
    features = toy_features(ordered=ordered)
    held_out = HeldOut(features.counts, features.directed)
    counts = features.counts.matrix.toarray()
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=1)) / counts.sum()
    times = counts if features.directed is None else features.directed.toarray()
    bar = 0.6 * expected
    significant = (times >= 5) & (times > bar + 1.96 * np.sqrt(bar))
    assert significant.any()
    np.testing.assert_array_equal(dense(held_out.significant_pairs(1.2)), significant)
    chance = expected * (0.5 if ordered else 1.0)
    dependent = (times >= 2) & (times > chance) & (stats.poisson.sf(times - 1, chance) <= MAX_P_VALUE)
    assert dependent.any()
    np.testing.assert_array_equal(dense(held_out.dependent_pairs(MAX_P_VALUE)), dependent)


@pytest.mark.parametrize(("customers", "dependent"), [(1, 0), (60, 6)])
def test_the_habit_of_one_customer_is_no_evidence(customers: int, dependent: int) -> None:
    lists = [["a", "b"], ["c", "d"], ["e", "f"]] * 40
    baskets = Baskets.from_lists(lists, users=[str(n % customers) for n in range(len(lists))])
    options = FeatureOptions(CountParameters().counting(), ordered=False, rank=2, min_pair_count=1)
    catalog, rng = CatalogFeatures.of(baskets.catalog), np.random.default_rng(0)
    folds = make_folds([baskets], lambda part, **how: PairFeatures.of(part, catalog, options, rng, **how), options, 1.2)
    held_out = next(folds).held_out
    assert len(held_out.significant_pairs(1.2)[0]) == 6
    assert len(held_out.dependent_pairs(MAX_P_VALUE)[0]) == dependent


def test_halves_are_of_one_period_so_that_a_change_is_in_both() -> None:
    lists = [["a", "b"]] * 60 + [["a", "c"]] * 60
    baskets = replace(Baskets.from_lists(lists), times=np.arange(120, dtype=np.int64) * 86_400)
    options = FeatureOptions(CountParameters().counting(), ordered=False, rank=2, min_pair_count=1)
    catalog, rng = CatalogFeatures.of(baskets.catalog), np.random.default_rng(0)
    folds = list(
        make_folds([baskets], lambda part, **how: PairFeatures.of(part, catalog, options, rng, **how), options, 1.2)
    )
    assert len(folds) == 2
    for features, held_out in folds:
        assert features.counts.matrix[0, 1:].toarray().min() > 20
        assert held_out.counts.matrix[0, 1:].toarray().min() > 20


def test_training_sets_hold_candidates_and_which_are_positive() -> None:
    features = toy_features()
    folds = [Fold(features, HeldOut(features.counts, features.directed))] * 2
    sampler = PairSampler(CATEGORY, np.random.default_rng(0))
    training = PriorTrainingSet.of_folds(folds, sampler, 1.2)
    assert training is not None
    assert training.positive.any()
    assert (training.weight[training.positive] > 0).all()
    halves = [training.of_queries(np.arange(training.queries) % 2 == part) for part in (0, 1)]
    assert sum(len(half.features) for half in halves) == len(training.features)
    assert 0 < training.value(INITIAL_PRIOR) <= 2
    pairs = RankerTrainingSet.of_folds(folds, INITIAL_PRIOR, sampler, 1.2)
    assert pairs is not None
    assert pairs.features.shape == (pairs.start[-1], len(RANKER_FEATURES))
    assert np.isfinite(pairs.features).all()
    assert pairs.positive.any()
    assert pairs.dependent.any()
    assert (pairs.weights > 0).any(axis=0).all()
    assert pairs.first.any(axis=0).all()
    assert pairs.statistics.shape == (pairs.start[-1], len(STATISTICS))
    assert PriorTrainingSet.of_folds(folds, sampler, 1e6) is None


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=8), min_size=1, max_size=5))
def test_count_higher_counts_within_the_query(groups: list[list[int]]) -> None:
    score = np.concatenate(groups).astype(np.float32)
    start = np.concatenate([[0], np.cumsum([len(group) for group in groups])]).astype(np.int64)
    wanted = [sum((other > mine) + (other == mine) / 2 for other in group) - 0.5 for group in groups for mine in group]
    assert count_higher(score, start, np.arange(len(score))).tolist() == wanted


LIFT, G2 = (next(n for n, one in enumerate(STATISTICS) if one == GoalRanking(name)) for name in ("lift", "llr"))
K_2 = next(n for n, one in enumerate(STATISTICS) if one.k == 2.0)


def training_set(
    weights: dict[str, float], dependent: dict[str, float] | None = None, *, queries: int = 300, level: float = -4.0
) -> RankerTrainingSet:
    """Pairs that are positive by the odds of `weights`, and dependent by those of `dependent`; statistics are noise but
    for the lift, which is `log_lift`, and G^2, which is `significance`.
    """
    rng = np.random.default_rng(0)
    features = rng.standard_normal((queries * 50, len(RANKER_FEATURES)))
    names = list(RANKER_FEATURES)

    def drawn(of: dict[str, float]) -> np.ndarray:
        log_odds = level + features @ np.array([of.get(name, 0.0) for name in names])
        return rng.random(len(features)) < 1 / (1 + np.exp(-log_odds))

    statistics = rng.standard_normal((len(features), len(STATISTICS)))
    statistics[:, LIFT], statistics[:, G2] = (
        features[:, names.index("log_lift")],
        features[:, names.index("significance")],
    )
    start = np.arange(0, queries * 50 + 1, 50, dtype=np.int64)
    kinds = drawn(weights), drawn(dependent or weights)
    measures = np.stack(kinds, axis=1).astype(np.float64)
    return RankerTrainingSet(start, features, *kinds, np.ones((len(features), 2), dtype=bool), measures, statistics)


def test_the_ranker_finds_the_weights_that_made_pairs_positive() -> None:
    weights = {"log_lift": 1.0, "cosine": 1.5, "category_order": -0.5, "significance": 0.5}
    pairs = training_set(weights, queries=800)
    fitted = dict(zip(RANKER_FEATURES, logistic_ranker(pairs.features, pairs.positive).weights, strict=True))
    for name in RANKER_FEATURES:
        assert fitted[name] == pytest.approx(weights.get(name, 0.0), abs=0.12)
    used = np.array([name != "significance" for name in RANKER_FEATURES])
    assert logistic_ranker(pairs.features, pairs.positive, used).weights[~used] == 0.0


def test_calibrated_odds_are_right_at_each_popularity_and_keep_the_order_within_a_query() -> None:
    names = list(RANKER_FEATURES)
    rng = np.random.default_rng(0)
    features = rng.standard_normal((40_000, len(names)))
    popularity = features[:, names.index("query_popularity")]
    features[:, names.index("query_popularity_x_query_popularity")] = popularity**2
    ranker = OddsRanker(1.0, (np.array(names) == "log_lift").astype(np.float64))
    wanted = -2.0 + 2.0 * ranker.log_odds(features) - popularity + 0.5 * popularity**2
    positive = rng.random(len(features)) < 1 / (1 + np.exp(-wanted))
    np.testing.assert_allclose(ranker.calibrated(features, positive).log_odds(features), wanted, atol=0.5)
    # pairs that say the reverse of the odds do not turn these around
    assert ranker.calibrated(features, ~positive) is ranker


def chosen(pairs: RankerTrainingSet | None, prior: Prior = INITIAL_PRIOR) -> dict[str, GoalRanking]:
    return choose_rankings(pairs, prior, lambda: 2.0)[0]


def test_each_goal_is_ranked_by_its_odds_where_these_win() -> None:
    found = chosen(training_set({"log_lift": 1.0, "cosine": 1.0}, {"significance": 1.0, "neighbours": 1.0}))
    assert [found[goal].name for goal in GOALS] == ["odds"] * 3
    assert (found["lift"].lift_weight, found["evidence"].lift_weight) == (1.0, None)
    assert 0.0 < (found["balanced"].lift_weight or 0.0) < 1.0


def test_odds_of_dependent_pairs_stand_in_where_no_high_lift_pair_is_known() -> None:
    pairs = training_set({}, {"significance": 1.0, "neighbours": 1.0}, level=-4.0)
    none = replace(pairs, positive=np.zeros_like(pairs.positive), weights=pairs.weights * [0.0, 1.0])
    found, rows = choose_rankings(none, INITIAL_PRIOR, lambda: 2.0)
    assert (found["balanced"].name, found["lift"]) == ("odds", GoalRanking("shrunk-lift", k=2.0))
    assert np.isnan(rows[0].lift_gain)
    assert rows[0].evidence_low > rows[1].evidence_high


def test_without_a_prior_a_clearly_better_statistic_ranks() -> None:
    pairs = training_set({"log_lift": 2.0}, {"significance": 2.0})
    found = chosen(pairs, Prior(1.0))
    assert (found["lift"].name, found["evidence"].name) == ("lift", "llr")
    assert chosen(pairs)["lift"].name == "lift"  # what ranks equally well and is simpler


def test_what_cannot_be_told_from_noise_is_ranked_by_the_tuned_shrunk_lift(caplog: pytest.LogCaptureFixture) -> None:
    noise = training_set({}, queries=100, level=-3.0)
    assert chosen(noise)["balanced"] == GoalRanking("shrunk-lift", k=2.0)
    for few in (training_set({"log_lift": 2.0}, queries=3), None):
        with caplog.at_level("INFO", "neatrec"):
            assert chosen(few)["balanced"] == GoalRanking("shrunk-lift", k=2.0)
        assert "positive pairs" in caplog.text
        caplog.clear()


@pytest.mark.parametrize(("certain", "wanted"), [(100, "posterior-lift"), (5, "shrunk-lift")])
def test_the_posterior_lift_must_win_by_both_measures_to_be_balanced(certain: int, wanted: str) -> None:
    """Its prior was tuned on the strong pairs, so that winning by these alone says nothing."""
    each = np.ones((200, 2))
    simple, rich = {GoalRanking("shrunk-lift", k=1.0): 0.5 * each}, {GoalRanking("posterior-lift"): each}
    competition = Competition(np.array([100, certain]), each, simple, rich)
    assert competition.winner("balanced", lambda goal: GoalRanking("shrunk-lift", k=1.0)).name == wanted
    assert competition.winner("lift", lambda goal: GoalRanking("shrunk-lift", k=1.0)).name == "posterior-lift"


@pytest.mark.parametrize(("certain", "wanted"), [(100, 8.0), (5, 1.0)])
def test_balanced_takes_another_statistic_only_where_both_measures_have_enough_pairs(
    certain: int, wanted: float
) -> None:
    each = np.ones((200, 2))
    simple = {GoalRanking("shrunk-lift", k=1.0): 0.5 * each, GoalRanking("shrunk-lift", k=8.0): each}
    competition = Competition(np.array([100, certain]), each, simple, {})
    assert competition.winner("balanced", lambda goal: GoalRanking("shrunk-lift", k=1.0)).k == wanted
    assert competition.winner("lift", lambda goal: GoalRanking("shrunk-lift", k=1.0)).k == 8.0


@pytest.mark.parametrize(("more", "wanted"), [(0.005, 0.0), (0.05, 0.5)])
def test_of_odds_that_are_about_equal_the_smallest_lift_weight_ranks(more: float, wanted: float) -> None:
    """Both have a tenth more than the statistic by evidence."""
    each = np.ones((200, 2))
    odds = [GoalRanking("odds", (BY_LIFT,), lift_weight=weight) for weight in (0.0, 0.5)]
    rich = {odds[0]: 1.1 * each, odds[1]: [1.1 + more, 1.1] * each}
    competition = Competition(np.array([100, 100]), each, {GoalRanking("shrunk-lift", k=1.0): each}, rich)
    assert competition.winner("balanced", lambda goal: GoalRanking("shrunk-lift", k=1.0)).lift_weight == wanted


def test_k_is_tuned_once_for_all_goals_and_only_where_it_is_needed() -> None:
    tuned: list[float] = []

    def tuned_k() -> float:
        tuned.append(2.0)
        return 2.0

    choose_rankings(training_set({}, queries=100, level=-3.0), Prior(1.0), tuned_k)
    assert tuned == [2.0]
    choose_rankings(training_set({"log_lift": 1.0, "cosine": 1.0}), INITIAL_PRIOR, tuned_k)
    assert tuned == [2.0]


def test_the_comparison_reports_goals_and_statistics_with_intervals() -> None:
    _, rows = choose_rankings(training_set({"log_lift": 1.0, "cosine": 1.0}), INITIAL_PRIOR, lambda: 2.0)
    names = [row.name for row in rows]
    assert names[:3] == ["bayes balanced", "bayes lift", "bayes evidence"]
    assert names[3].startswith("shrunk-lift, k = ")
    assert names[4:] == ["lift", "llr", "jaccard", "popco"]
    assert all(row.lift_low < row.lift_gain < row.lift_high for row in rows)
    assert rows[1].lift_low > rows[5].lift_high


def test_statistics_are_those_of_their_models() -> None:
    features = toy_features()
    counts = features.counts
    query, item = (part.ravel().astype(np.int32) for part in np.indices((ITEMS, ITEMS)))
    total = counts.total
    scores = statistic_scores(statistic_models(counts), counts.of_pairs(query, item), total[query], total[item])
    for number, ranking in enumerate(STATISTICS):
        model = make_model(ranking.name, ranking.settings()).fit(toy_baskets())
        np.testing.assert_allclose(scores[:, number], model.score(query, item), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("ordered", [True, False])
def test_pairs_seen_once_are_not_needed_to_find_dependent_ones(ordered: bool) -> None:
    features = toy_features(ordered=ordered)
    held_out = HeldOut(features.counts, features.directed)
    fewer = held_out.repeated()
    assert fewer.counts.matrix.nnz < held_out.counts.matrix.nnz or held_out.counts.matrix.data.min() > 1
    for max_p_value in (0.5, MAX_P_VALUE):
        np.testing.assert_array_equal(
            dense(fewer.dependent_pairs(max_p_value)), dense(held_out.dependent_pairs(max_p_value))
        )
