"""The ranking of `bayes`: order in the cart, company, hints, and the odds learned from them."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.toyshop import toy_baskets, toy_catalog
from neatrec.data.catalog import UNKNOWN
from neatrec.models.bayes.features import PairFeatures, Surroundings
from neatrec.models.bayes.lowrank import like_company, unit_vectors
from neatrec.models.bayes.order import Order
from neatrec.models.bayes.prior import START
from neatrec.models.bayes.ranker import HINTS, Ranking, hints, rank_pairs
from neatrec.models.bayes.ranker_training import Exercise, Judge, exercise, learn_ranking, sure_pairs
from neatrec.models.bayes.rows import rank_rows, score_rows
from neatrec.models.bayes.scoring import score_pairs
from neatrec.models.counts import CountParameters, PairCounts

COUNTING = CountParameters().counting()
SIZE = 22


def toy_evidence(*, ordered: bool = True) -> PairFeatures:
    around = Surroundings.of(toy_catalog())
    return PairFeatures.of(
        toy_baskets(), COUNTING, around, rank=6, min_pair_count=1, ordered=ordered, rng=np.random.default_rng(0)
    )


def test_directed_counts_add_up_to_the_undirected_ones() -> None:
    evidence = toy_evidence()
    assert evidence.directed is not None
    both = (evidence.directed + evidence.directed.T).toarray()
    np.testing.assert_array_equal(both, PairCounts.of(toy_baskets(), COUNTING).matrix.toarray())
    np.testing.assert_array_equal(both, evidence.counts.matrix.toarray())


def test_who_comes_first_by_item_and_by_category() -> None:
    directed = np.array([[0, 30, 5], [10, 0, 0], [0, 4, 0]])
    before = directed.sum(axis=1)
    order = Order.of(before, directed.sum(axis=0), directed[:2, :2])
    np.testing.assert_allclose(order.first, np.log([55 / 30, 30 / 54, 24 / 25]), rtol=1e-6)
    np.testing.assert_allclose(order.categories[0, 1], np.log(50 / 30), rtol=1e-6)
    np.testing.assert_allclose(order.categories, -order.categories.T)
    assert not order.categories[2].any()


def test_without_order_nobody_comes_first() -> None:
    evidence = toy_evidence(ordered=False)
    assert not evidence.order.first.any()
    assert not evidence.order.categories.any()
    assert evidence.directed is None


def test_like_company_is_kept_within_a_category() -> None:
    vectors = np.array([[1, 0], [0.9, 0.1], [1, 0], [0, 1], [0, 0], [1, 0]], dtype=np.float32)
    unit = unit_vectors(vectors, np.array([4.0, -1.0], dtype=np.float32))
    category = np.array([0, 0, 1, 0, 0, UNKNOWN], dtype=np.int32)
    like = like_company(unit, category).toarray()
    assert np.diag(like).tolist() == [1.0] * 6
    cosine = 1.8 / np.hypot(1.8, 0.1)
    assert like[0, 1] == pytest.approx(cosine**2, rel=1e-5)
    assert like[0, 2] == like[0, 3] == like[0, 4] == like[0, 5] == 0


@pytest.mark.parametrize("ordered", [True, False])
def test_odds_of_pairs_and_rows_are_those_of_the_hints(ordered: bool) -> None:
    evidence = toy_evidence(ordered=ordered)
    ranking = Ranking(-1.0, np.array([1.5, 0.3, -0.2, 0.8, 0.1, 0.5, 0.4, 0.6]))
    assert len(ranking.weights) == len(HINTS)
    rng = np.random.default_rng(0)
    queries, items = (rng.integers(0, SIZE, 300).astype(np.int32) for _ in range(2))
    lift = score_pairs(evidence, START, queries, items)
    plain = np.exp(ranking.level + hints(evidence, queries, items, lift) @ ranking.weights)
    np.testing.assert_allclose(rank_pairs(evidence, START, ranking, queries, items), plain, rtol=1e-3)
    some = np.array([7, 3, 21], dtype=np.int32)
    rows = rank_rows(evidence, START, ranking, some)
    pairs = rank_pairs(evidence, START, ranking, np.repeat(some, SIZE), np.tile(np.arange(SIZE, dtype=np.int32), 3))
    np.testing.assert_allclose(rows.ravel(), pairs, rtol=1e-3)


def test_the_hint_of_company_leaves_the_query_itself_out() -> None:
    evidence = toy_evidence()
    counts = evidence.counts.matrix.toarray().astype(np.float64)
    others = evidence.company.toarray().astype(np.float64)
    np.fill_diagonal(others, 0.0)
    together, total = others @ counts, others @ counts.sum(axis=1)
    chance = np.outer(total, counts.sum(axis=1)) / counts.sum()
    query, item = (place.ravel().astype(np.int32) for place in np.indices((SIZE, SIZE)))
    found = hints(evidence, query, item, np.ones(SIZE * SIZE))[:, HINTS.index("company")]
    np.testing.assert_allclose(found.reshape(SIZE, SIZE), np.log((together + 1) / (chance + 1)), atol=1e-5)


def test_without_a_ranking_the_posterior_lift_ranks() -> None:
    evidence, some = toy_evidence(), np.array([4, 2], dtype=np.int32)
    np.testing.assert_array_equal(rank_rows(evidence, START, None, some), score_rows(evidence, START, some))
    assert Ranking.from_array(np.zeros(0)) is None


@pytest.mark.parametrize("ordered", [True, False])
def test_sure_pairs_are_those_far_above_the_bar(ordered: bool) -> None:
    evidence = toy_evidence(ordered=ordered)
    query, item = sure_pairs(Judge(evidence.counts, evidence.directed), 1.2)
    counts = evidence.counts.matrix.toarray()
    total = counts.sum(axis=1)
    count = counts if evidence.directed is None else evidence.directed.toarray()
    bar = 0.6 * np.outer(total, total) / counts.sum()
    plain = (count >= 5) & (count > bar + 1.96 * np.sqrt(bar))
    assert plain.any()
    assert sorted(zip(query.tolist(), item.tolist(), strict=True)) == [tuple(pair) for pair in np.argwhere(plain)]


def test_an_exercise_holds_the_first_answers_and_which_were_strong() -> None:
    evidence = toy_evidence()
    judge = Judge(evidence.counts, evidence.directed)
    category = COUNTING.category_of(toy_catalog())
    found = exercise(evidence, judge, START, category, 1.2, np.random.default_rng(0), 3)
    assert found is not None
    assert 0 < found.strong.sum() <= len(sure_pairs(judge, 1.2)[0])
    assert found.hints.shape == (found.start[-1], len(HINTS))
    assert np.isfinite(found.hints).all()
    assert exercise(evidence, judge, START, category, 1e6, np.random.default_rng(0), 3) is None


def lesson(weights: np.ndarray, queries: int = 400, seed: int = 0) -> Exercise:
    rng = np.random.default_rng(seed)
    columns = rng.standard_normal((queries * 50, len(HINTS)))
    strong = rng.random(len(columns)) < 1 / (1 + np.exp(4.0 - columns @ weights))
    return Exercise(np.arange(0, queries * 50 + 1, 50, dtype=np.int64), columns, strong)


def test_the_ranking_finds_the_weights_that_made_the_pairs_strong() -> None:
    weights = np.array([1.0, 0.5, 0.0, 1.5, 0.0, 0.0, -0.5, 0.0])
    ranking, ranked, lifted = learn_ranking([lesson(weights), None, lesson(weights, seed=1)])
    assert ranking is not None
    np.testing.assert_allclose(ranking.weights, weights, atol=0.12)
    assert ranking.level == pytest.approx(-4.0, abs=0.2)
    assert ranked > lifted + 0.1


def test_hints_that_say_nothing_leave_the_posterior_lift_to_rank() -> None:
    ranking, ranked, lifted = learn_ranking([lesson(np.array([2.0, 0, 0, 0, 0, 0, 0, 0]))])
    assert ranking is None
    assert ranked == pytest.approx(lifted, abs=0.02)


def test_too_few_sure_pairs_teach_nothing() -> None:
    assert learn_ranking([None, lesson(np.zeros(len(HINTS)), queries=10)]) == (None, 0.0, 0.0)
