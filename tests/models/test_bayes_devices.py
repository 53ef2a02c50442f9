"""Where `bayes` learns, and that a fit whose best pairs are found elsewhere is the fit that scans rows."""

from __future__ import annotations

import logging
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.toyshop import toy_baskets, toy_catalog
from neatrec.cooccurrence.count_input import removal_codes
from neatrec.errors import MissingDependencyError, ParameterError
from neatrec.models import Run, make_model
from neatrec.models.bayes import Bayes, gpu_fit, lowrank
from neatrec.models.bayes.calibration import UNLEARNED
from neatrec.models.bayes.features import SIGNS, PairFeatures, Surroundings
from neatrec.models.bayes.fit import Lessons, _winners_of
from neatrec.models.bayes.prior import START, Weights
from neatrec.models.bayes.prior_tuning import COLUMNS, practise, search
from neatrec.models.bayes.ranker import HINTS, Ranking
from neatrec.models.bayes.ranker_training import Judge, exercise
from neatrec.models.bayes.scoring import block_of_pairs
from neatrec.models.bayes.screen import CoarseScorer
from neatrec.models.counts import CountParameters
from neatrec.models.embeddings.kernels import gpu
from neatrec.simulator import supermarket

COUNTING = CountParameters().counting()


def best_by_screen(
    evidence: PairFeatures,
    weights: Weights,
    ranking: Ranking | None,
    category: np.ndarray,
    queries: np.ndarray,
    most: int,
) -> tuple[np.ndarray, np.ndarray]:
    """What `gpu_fit.best_pairs` gives, by the screen of the CPU."""
    sold = np.flatnonzero(evidence.counts.total > 0).astype(np.int32)
    group = removal_codes(category)
    scores = CoarseScorer(evidence, weights, ranking, sold).rows(queries)
    scores[group[queries][:, None] == group[sold]] = -np.inf
    best = np.argsort(-scores, axis=1, kind="stable")[:, :most]
    real = np.isfinite(np.take_along_axis(scores, best, axis=1))
    return np.repeat(queries, real.sum(axis=1)), sold[best[real]]


@cache
def folds() -> tuple[PairFeatures, PairFeatures]:
    baskets = supermarket(baskets=12_000, items=300, seed=5).baskets
    around, half = Surroundings.of(baskets.catalog), np.arange(len(baskets)) % 2 == 0

    def evidence(mask: np.ndarray) -> PairFeatures:
        how = {"rank": 16, "min_pair_count": 2, "ordered": True, "rng": np.random.default_rng(0)}
        return PairFeatures.of(baskets.select(mask), COUNTING, around, **how)  # type: ignore[arg-type]

    return evidence(half), evidence(~half)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.booleans())
def test_blocks_of_pairs_hold_what_rows_hold(seed: int, ordered: bool) -> None:
    around = Surroundings.of(toy_catalog())
    how = {"rank": 6, "min_pair_count": 1, "ordered": ordered, "rng": np.random.default_rng(0)}
    evidence = PairFeatures.of(toy_baskets(), COUNTING, around, **how)  # type: ignore[arg-type]
    rng = np.random.default_rng(seed)
    queries, items = (rng.integers(0, 22, 40).astype(np.int32) for _ in range(2))
    rows, pairs = evidence.rows(np.arange(22)), block_of_pairs(evidence, queries, items)
    for name in COLUMNS:
        assert getattr(pairs, name).dtype == np.float32
        np.testing.assert_allclose(getattr(pairs, name), getattr(rows, name)[queries, items], rtol=1e-5, atol=1e-5)


def test_practice_is_the_same_where_others_find_the_candidates() -> None:
    one, other = folds()
    usual, found = (
        practise(one, other.counts, one.category, 3.0, np.random.default_rng(0), 50, best)
        for best in (None, best_by_screen)
    )
    assert usual is not None
    assert found is not None
    np.testing.assert_array_equal(found.start, usual.start)
    np.testing.assert_array_equal(found.strong, usual.strong)
    np.testing.assert_allclose(found.weight, usual.weight)
    for name in COLUMNS:
        np.testing.assert_allclose(getattr(found, name), getattr(usual, name), rtol=1e-4, atol=1e-5)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000))
def test_practice_laid_out_for_a_gpu_is_worth_the_same(seed: int) -> None:
    one, other = folds()
    usual = practise(one, other.counts, one.category, 3.0, np.random.default_rng(0), 50)
    assert usual is not None
    there, rng = gpu_fit.PracticeThere(usual, np), np.random.default_rng(seed)
    for signs in (None, rng.normal(0.2, 0.5, len(SIGNS))):
        weights = Weights(float(rng.uniform(0.2, 9)), float(rng.uniform()), signs)
        assert there.value(weights) == pytest.approx(usual.value(weights), abs=2e-3)


def test_weights_found_there_are_those_found_here() -> None:
    one, other = folds()
    usual = practise(one, other.counts, one.category, 3.0, np.random.default_rng(0), 50)
    assert usual is not None
    here, there = (search(part, one.signs_there, near=True) for part in (usual, gpu_fit.PracticeThere(usual, np)))
    assert there[1] == pytest.approx(here[1], abs=5e-3)
    assert usual.value(there[0]) == pytest.approx(usual.value(here[0]), abs=5e-3)


def test_exercise_and_winners_are_the_same_where_others_find_them() -> None:
    one, other = folds()
    judge = Judge(other.counts, other.directed)
    usual, found = (
        exercise(one, judge, START, one.category, 2.0, np.random.default_rng(0), 50, best)
        for best in (None, best_by_screen)
    )
    assert usual is not None
    assert found is not None
    np.testing.assert_array_equal(found.start, usual.start)
    assert found.strong.sum() == usual.strong.sum() > 0
    np.testing.assert_allclose(np.sort(found.hints[:, 0]), np.sort(usual.hints[:, 0]), rtol=1e-4, atol=1e-5)
    lessons = Lessons(START, Ranking(0.0, np.full(len(HINTS), 0.3)), UNLEARNED, 0, 0.0, 0.0)
    winners, again = (
        _winners_of((one, judge), one.category, lessons, np.random.default_rng(0), 50, best)
        for best in (None, best_by_screen)
    )
    assert len(winners.count) == len(again.count)
    for name in ("count", "expected", "later_count", "later_expected"):
        np.testing.assert_allclose(np.sort(getattr(again, name)), np.sort(getattr(winners, name)))


def test_factors_and_company_take_what_works_them_out_elsewhere() -> None:
    matrix = lowrank.log_lifts(folds()[0].counts, 2)
    usual = lowrank.factors(matrix, 8, np.random.default_rng(1))
    asked = []

    def elsewhere(inner: object, basis: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
        asked.append(rank)
        return lowrank.subspace(inner, basis, rank, np)

    again = lowrank.factors(matrix, 8, np.random.default_rng(1), subspace=elsewhere)
    assert asked == [8]
    np.testing.assert_allclose(again[1], usual[1], rtol=1e-5)
    unit, category = folds()[0].unit, folds()[0].category

    def near(rows: np.ndarray, members: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return lowrank.nearest(unit[rows] @ unit[members].T, rows, members, lowrank.COMPANY)

    company = lowrank.like_company(unit, category, near=near)
    np.testing.assert_array_equal(company.toarray(), lowrank.like_company(unit, category).toarray())


def test_the_cpu_is_asked_for_by_name_and_for_the_same_bits(caplog: pytest.LogCaptureFixture) -> None:
    assert gpu_fit.device_of(Run(device="cpu")) == "cpu"
    with caplog.at_level(logging.INFO, "neatrec"):
        assert gpu_fit.device_of(Run(device="auto", reproducible=True)) == "cpu"
    assert "learning on the CPU: `reproducible` must be false on device gpu" in caplog.text
    caplog.clear()
    with pytest.raises(ParameterError, match="`reproducible` must be false on device gpu"):
        gpu_fit.device_of(Run(device="gpu", reproducible=True))
    with caplog.at_level(logging.INFO, "neatrec"):
        fitted = make_model("bayes", rank=4).fit(toy_baskets(), Run(device="cpu"))
    assert "learning on the CPU" in caplog.text
    assert isinstance(fitted, Bayes)
    assert fitted.fit_info()["learned_on"] == "cpu"


@pytest.mark.skipif(gpu.trouble() is None, reason="there is a GPU, so that nothing is refused")
def test_without_a_gpu_auto_learns_on_the_cpu_and_gpu_is_refused() -> None:
    assert gpu_fit.device_of(Run(device="auto")) == "cpu"
    with pytest.raises(MissingDependencyError, match="device 'gpu' needs"):
        make_model("bayes").fit(toy_baskets(), Run(device="gpu"))
