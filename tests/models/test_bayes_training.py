"""How `bayes` is trained: held-out pairs, prior, rankers, calibration, and what each goal makes of them."""

from __future__ import annotations

import logging
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from helpers.bayes_cases import ITEMS, toy_features
from helpers.toyshop import toy_baskets, toy_catalog
from neatrec.errors import ParameterError
from neatrec.models import Run, make_model
from neatrec.models.bayes import GOALS, Bayes
from neatrec.models.bayes.calibration import UNCALIBRATED, CalibrationPairs, calibrate, negative_binomial
from neatrec.models.bayes.features import RANKER_FEATURES
from neatrec.models.bayes.fit import BAYES_FEATURES, Fold, lift_training_set, prior_training_set
from neatrec.models.bayes.prior import INITIAL_PRIOR
from neatrec.models.bayes.ranker import NOT_FITTED, fit_ranker
from neatrec.models.bayes.training_set import MAX_P_VALUE, HeldOut, PairSampler, RankerTrainingSet, count_higher
from neatrec.simulator import supermarket

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
    np.testing.assert_array_equal(dense(held_out.dependent_pairs()), dependent)


def test_training_sets_hold_candidates_and_which_are_positive() -> None:
    features = toy_features()
    folds = [Fold(features, HeldOut(features.counts, features.directed))] * 2
    rng = np.random.default_rng(0)
    training = prior_training_set(folds, CATEGORY, 1.2, rng)
    assert training is not None
    assert training.positive.any()
    assert (training.weight[training.positive] > 0).all()
    halves = [training.of_queries(np.arange(training.queries) % 2 == part) for part in (0, 1)]
    assert sum(len(half.features) for half in halves) == len(training.features)
    assert 0 < training.value(INITIAL_PRIOR) <= 2
    parts = lift_training_set(folds, INITIAL_PRIOR, PairSampler(CATEGORY, rng), 1.2)
    assert all(part.features.shape == (part.start[-1], len(RANKER_FEATURES)) for part in parts)
    assert all(np.isfinite(part.features).all() and part.positive.any() for part in parts)
    assert lift_training_set(folds, INITIAL_PRIOR, PairSampler(CATEGORY, rng), 1e6) == []
    assert prior_training_set(folds, CATEGORY, 1e6, rng) is None


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=8), min_size=1, max_size=5))
def test_count_higher_counts_within_the_query(groups: list[list[int]]) -> None:
    score = np.concatenate(groups).astype(np.float32)
    start = np.concatenate([[0], np.cumsum([len(group) for group in groups])]).astype(np.int64)
    wanted = [sum(other > mine for other in group) for group in groups for mine in group]
    assert count_higher(score, start, np.arange(len(score))).tolist() == wanted


def training_set(weights: dict[str, float], queries: int = 800) -> RankerTrainingSet:
    rng = np.random.default_rng(0)
    features = rng.standard_normal((queries * 50, len(RANKER_FEATURES)))
    log_odds = -4.0 + features @ np.array([weights.get(name, 0.0) for name in RANKER_FEATURES])
    positive = rng.random(len(features)) < 1 / (1 + np.exp(-log_odds))
    return RankerTrainingSet(np.arange(0, queries * 50 + 1, 50, dtype=np.int64), features, positive)


def test_the_ranker_finds_the_weights_that_made_pairs_positive() -> None:
    weights = {"log_lift": 1.0, "cosine": 1.5, "category_order": -0.5, "significance": 0.5}
    found = fit_ranker(training_set(weights), BAYES_FEATURES, "log_lift", goal="lift")
    assert found.ranker is not None
    fitted = dict(zip(RANKER_FEATURES, found.ranker.weights, strict=True))
    assert fitted["significance"] == 0.0
    for name in BAYES_FEATURES:
        assert fitted[name] == pytest.approx(weights.get(name, 0.0), abs=0.12)
    assert found.gain > found.baseline_gain + 0.1


def test_features_without_information_leave_the_baseline_to_rank() -> None:
    found = fit_ranker(training_set({"log_lift": 2.0}, 400), BAYES_FEATURES, "log_lift", goal="lift")
    assert found.ranker is None
    assert found.gain == pytest.approx(found.baseline_gain, abs=0.02)
    few = training_set({"log_lift": 2.0}, 5)
    assert fit_ranker(few, BAYES_FEATURES, "log_lift", goal="lift") is NOT_FITTED


def test_the_negative_binomial_is_that_of_scipy() -> None:
    count, shape, success = np.array([0.0, 1.0, 7.0]), np.array([0.3, 2.0, 5.5]), np.array([0.2, 0.5, 0.9])
    np.testing.assert_allclose(negative_binomial(count, shape, success), stats.nbinom.logpmf(count, shape, success))


def test_calibration_finds_the_prior_that_made_the_counts(caplog: pytest.LogCaptureFixture) -> None:
    rng = np.random.default_rng(3)
    log_prior = rng.normal(0.5, 1.0, 60_000)
    mean, k = np.exp(-0.4 + 0.7 * log_prior), 2.5
    lift = rng.gamma(k * mean) / k
    expected, later = rng.uniform(0.2, 4.0, (2, len(lift)))
    counts = [rng.poisson(lift * part).astype(float) for part in (expected, later)]
    with caplog.at_level(logging.INFO, "neatrec"):
        found = calibrate(CalibrationPairs(counts[0], expected, log_prior, counts[1], later), sloped=True)
    assert (found.level, found.slope, found.k) == pytest.approx((-0.4, 0.7, 2.5), rel=0.12)
    assert "bound" not in caplog.text
    shape, rate = found.shape_and_rate(counts[0], expected, log_prior)
    low, high = stats.gamma.ppf([[0.05], [0.95]], shape) / rate
    assert ((low < lift) & (lift < high)).mean() == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize("sloped", [True, False])
def test_a_calibration_that_ends_at_a_bound_is_logged(sloped: bool, caplog: pytest.LogCaptureFixture) -> None:
    rng = np.random.default_rng(0)
    expected, later = rng.uniform(1.0, 4.0, (2, 5_000))
    # every lift is 2: no prior is strong enough
    counts = [rng.poisson(2 * part).astype(float) for part in (expected, later)]
    pairs = CalibrationPairs(counts[0], expected, rng.normal(0.0, 0.5, 5_000), counts[1], later)
    with caplog.at_level(logging.INFO, "neatrec"):
        assert calibrate(pairs, sloped=sloped).k == pytest.approx(50.0)
    assert "posterior calibration ends at a bound of" in caplog.text
    assert "k (intervals, not the ranking)" in caplog.text
    assert calibrate(CalibrationPairs(*(np.ones(5) for _ in range(5))), sloped=sloped) is UNCALIBRATED


# ---- goals


@cache
def by_goal() -> dict[str, Bayes]:
    baskets = supermarket(baskets=12_000, items=500, seed=2).baskets
    bayes = make_model("bayes", rank=32).fit(baskets, Run(threads=1))
    assert isinstance(bayes, Bayes)
    return {goal: bayes.with_goal(goal) for goal in GOALS}


def test_goals_share_a_fit() -> None:
    models = by_goal()
    assert models["balanced"].fit_info() == models["evidence"].fit_info()
    assert len({str(model.fit_key()) for model in models.values()}) == 1
    goals = models["lift"].fit_info()["goals"]
    assert tuple(goals) == GOALS
    assert tuple(goals["evidence"]["weights"]) == tuple(RANKER_FEATURES)
    rows = {row["name"]: row for row in models["lift"].fit_info()["comparison"]}
    odds, g2 = rows["bayes evidence"], rows["llr"]
    assert odds["evidence_gain"] > g2["evidence_gain"] > g2["evidence_low"] > 0
    assert odds["lift_gain"] is None


def test_goal_evidence_prefers_the_more_significant_of_two_pairs() -> None:
    models = by_goal()
    bayes = models["lift"]
    queries, counts = np.argsort(-bayes.item_count)[:100], bayes.features.counts

    def times(model: Bayes) -> float:
        answers = [model.recommend(int(query), 5).codes for query in queries]
        query = np.repeat(queries, [len(codes) for codes in answers]).astype(np.int32)
        return float(counts.of_pairs(query, np.concatenate(answers)).mean())

    assert times(models["evidence"]) > times(models["balanced"]) > times(models["lift"])


def test_without_odds_of_evidence_g2_ranks() -> None:
    evidence, llr = (make_model(name).fit(toy_baskets(60)) for name in ("bayes-sure", "llr"))
    assert evidence.fit_info()["goals"]["evidence"] == {"ranks_by": "llr"}
    np.testing.assert_allclose(evidence.score_all(np.arange(22)), llr.score_all(np.arange(22)))
    np.testing.assert_allclose(evidence.score([1, 2], [5, 6]), llr.score([1, 2], [5, 6]))


def test_the_older_name_of_goal_evidence_is_a_model() -> None:
    assert make_model("bayes-sure").parameters == make_model("bayes", goal="evidence").parameters
    assert make_model("bayes").parameters.goal == "balanced"
    with pytest.raises(ParameterError, match="`goal` must be one of balanced, lift, evidence, got 'best'"):
        make_model("bayes", goal="best")
