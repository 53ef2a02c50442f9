"""The table holds what `Model.rank` answers, for every model there is."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.bayes_cases import random_weights, toy_bayes
from helpers.table_checks import assert_holds_what_recommend_names
from helpers.toyshop import code, toy_baskets, toy_catalog
from neatrec.data.catalog import Catalog
from neatrec.errors import DivergedError, ParameterError
from neatrec.models import MODEL_NAMES, Model, Run, make_model
from neatrec.models.bayes.fit import GOALS, GoalRanking
from neatrec.models.embeddings.item2vec import Item2Vec
from neatrec.serving import topk
from neatrec.serving.topk import TopKSearch, best_answers, best_by_goal

EMBEDDING = {"dim": 16, "epochs": 20}
SETTINGS = {
    "cf": {"dim": 12, "epochs": 5},
    "bprmf": {"dim": 12, "epochs": 20},
    **dict.fromkeys(("item2vec", "item2vec-product", "triple2vec", "neat", "neat-likelihood", "neat-bpr"), EMBEDDING),
}


@cache
def fitted(name: str) -> Model:
    run = Run(rng=3, device="cpu", threads=1, reproducible=True)
    return make_model(name, **SETTINGS.get(name, {})).fit(toy_baskets(), run)


@pytest.mark.parametrize("name", MODEL_NAMES)
@pytest.mark.parametrize("k", [1, 5, 1000])
def test_the_best_of_every_item_are_those_that_recommend_names(name: str, k: int) -> None:
    model = fitted(name)
    assert_holds_what_recommend_names(best_answers(model, k, threads=2), model, k)


@pytest.mark.parametrize("name", ["pop", "popco", "lift", "shrunk-lift", "llr", "jaccard", "bayes", "neat-likelihood"])
def test_scores_that_are_not_a_product_give_the_very_same_order(name: str) -> None:
    model = fitted(name)
    found = best_answers(model, 7)
    for query in range(len(toy_catalog())):
        row = slice(found.start[query], found.start[query + 1])
        assert found.item[row].tolist() == model.rank(query, 7).codes.tolist()


@pytest.mark.parametrize("goal", GOALS)
def test_the_best_by_each_goal_come_from_one_pass(goal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topk, "BLOCK_NUMBERS", 200)  # several blocks
    model = toy_bayes(4)
    rankings = {"balanced": GoalRanking("odds", (random_weights(1)[1],)), "lift": GoalRanking("posterior-lift")}
    rankings["evidence"] = GoalRanking("llr")  # which has no answers for an item never bought
    model._set_fit(model.features, replace(model.summary, rankings=rankings))
    found, alone = best_by_goal(model, 7, threads=2)[goal], best_answers(model.with_goal(goal), 7)
    np.testing.assert_array_equal(found.start, alone.start)
    np.testing.assert_array_equal(found.item, alone.item)
    np.testing.assert_array_equal(found.score, alone.score)
    saffron = code("saffron")
    assert (found.start[saffron] == found.start[saffron + 1]) == (goal == "evidence")


def test_a_search_has_places_for_the_items_it_is_asked_for_only() -> None:
    """With a million items, heaps of all of them do not fit into memory beside the model."""
    model, some = toy_bayes(1), np.array([7, 3], dtype=np.int32)
    for search in topk.searches_by_goal(model, 5, some).values():
        assert search.query.tolist() == [3, 7]
        assert search.best_item.shape == search.best.shape == (2, 5)


def test_an_item_never_bought_has_no_answers_and_is_none() -> None:
    found = best_answers(fitted("neat"), 100)
    saffron = code("saffron")
    assert found.start[saffron] == found.start[saffron + 1]
    assert saffron not in found.item
    assert best_answers(fitted("pop"), 5).start[saffron + 1] - best_answers(fitted("pop"), 5).start[saffron] == 5


def test_ties_go_to_the_smaller_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topk, "TILE", 5)
    items = 23
    vectors = np.zeros((items, 4), dtype=np.float32)
    vectors[:, 0] = 1.0
    model = Item2Vec.from_arrays(
        None,
        Catalog.from_ids([f"{n:03d}" for n in range(items)]),
        {"item_count": np.ones(items), "vectors": vectors, "output": vectors, "losses": np.zeros(0)},
    )
    found = best_answers(model, 6, threads=2)
    for query in range(items):
        expected = [other for other in range(items) if other != query][:6]
        assert found.item[found.start[query] : found.start[query + 1]].tolist() == expected


@settings(max_examples=60)
@given(st.integers(1, 60), st.integers(1, 70), st.integers(1, 12), st.integers(1, 30), st.integers(0, 10**6))
def test_the_scan_keeps_what_sorting_would(queries: int, items: int, k: int, levels: int, seed: int) -> None:
    """Whole-number scores, so that there are many ties; groups, so that some are left out; a minimum score."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, levels, (queries, items)).astype(np.float64)
    size = max(queries, items)
    group = rng.integers(0, 5, size).astype(np.int32)
    query, item = np.arange(queries, dtype=np.int32), np.arange(items, dtype=np.int32)
    search = TopKSearch(query, item, group, k, min_score=1.0)
    cut = int(rng.integers(0, items + 1))
    for part in (slice(0, cut), slice(cut, items)):
        search.scan(np.ascontiguousarray(scores[:, part]), np.arange(queries), item[part])
    found = search.answers()
    for q in range(queries):
        allowed = [v for v in range(items) if group[v] != group[q] and scores[q, v] > 1.0]
        wanted = sorted(allowed, key=lambda v: (-scores[q, v], v))[: search.k]
        assert found.item[found.start[q] : found.start[q + 1]].tolist() == wanted
        assert found.score[found.start[q] : found.start[q + 1]].tolist() == [scores[q, v] for v in wanted]


@settings(max_examples=30)
@given(st.integers(2, 80), st.integers(1, 20), st.booleans(), st.integers(0, 10**6))
def test_tiles_of_any_size_give_the_whole_product(items: int, k: int, symmetric: bool, seed: int) -> None:
    """Small whole numbers: products are exact, and there are many ties."""
    rng = np.random.default_rng(seed)
    left, right = (rng.integers(-3, 4, (items, 5)).astype(np.float32) for _ in range(2))
    right = left if symmetric else right
    every = np.arange(items, dtype=np.int32)
    search = TopKSearch(every, every, every, k, min_score=-np.inf)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topk, "TILE", int(rng.integers(1, 40)))
        search.by_product(left, right, threads=2)
    found = search.answers()
    scores = left @ right.T
    for q in range(items):
        wanted = sorted((v for v in range(items) if v != q), key=lambda v: (-scores[q, v], v))[:k]
        assert found.item[found.start[q] : found.start[q + 1]].tolist() == wanted


@pytest.mark.parametrize("k", [0, -1, 2.5, True, "ten"])
def test_k_must_be_a_whole_number_above_zero(k: object) -> None:
    with pytest.raises(ParameterError, match="`k` must be a whole number of at least 1"):
        best_answers(fitted("pop"), k)


def test_vectors_that_are_not_numbers_are_refused() -> None:
    every = np.arange(3, dtype=np.int32)
    search = TopKSearch(every, every, every, 2, min_score=-np.inf)
    bad = np.full((3, 2), np.nan, dtype=np.float32)
    with pytest.raises(DivergedError, match="vectors that are not numbers"):
        search.take(bad, bad)
