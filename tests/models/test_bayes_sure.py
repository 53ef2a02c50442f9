"""`bayes-sure`: what `bayes` learned, ranked by how surely a pair is no chance."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy import stats

from helpers.toyshop import toy_baskets
from neatrec.models import Run, make_model
from neatrec.models.bayes import Bayes, BayesSure
from neatrec.models.bayes.ranker_training import Judge
from neatrec.models.bayes.significance import DOUBTFUL, SURE_HINTS, dependent_pairs, sure_hints
from neatrec.models.counts import PairCounts
from neatrec.simulator import supermarket


@cache
def both() -> tuple[Bayes, BayesSure]:
    baskets = supermarket(baskets=12_000, items=500, seed=2).baskets
    bayes = make_model("bayes", rank=32).fit(baskets, Run(threads=1))
    sure = BayesSure.from_arrays(bayes.parameters, bayes.catalog, bayes.arrays())
    assert isinstance(bayes, Bayes)
    return bayes, sure


@pytest.mark.parametrize("ordered", [True, False])
def test_dependent_pairs_are_those_that_chance_does_not_make(ordered: bool) -> None:
    bayes = both()[0]
    counts = bayes.evidence.counts
    directed = counts.matrix if ordered else None
    query, item = dependent_pairs(Judge(PairCounts(counts.matrix), directed))
    dense = counts.matrix.toarray()
    chance = np.outer(counts.total, counts.total) / counts.records * (0.5 if ordered else 1.0)
    plain = (dense >= 2) & (dense > chance) & (stats.poisson.sf(dense - 1, chance) <= DOUBTFUL)
    assert plain.any()
    assert sorted(zip(query.tolist(), item.tolist(), strict=True)) == [tuple(pair) for pair in np.argwhere(plain)]


def test_it_learns_what_bayes_learns() -> None:
    bayes, sure = both()
    assert sure.fit_info() == bayes.fit_info()
    assert sure.fit_info()["sure_ranks_by"] == "odds of a dependence beyond doubt"
    assert tuple(sure.fit_info()["sure_ranking"]) == SURE_HINTS
    gains = sure.fit_info()["validation_of_sure_ranking"]
    assert gains["odds"] > gains["g2"] > 0


def test_its_odds_are_those_of_its_hints() -> None:
    _, sure = both()
    ranking = sure.lessons.sure
    assert ranking is not None
    rng = np.random.default_rng(0)
    queries, items = (rng.integers(0, 500, 300).astype(np.int32) for _ in range(2))
    known = sure.evidence.counts.total[queries] > 0
    queries, items = queries[known], items[known]
    plain = np.exp(ranking.level + sure_hints(sure.evidence, sure.weights, queries, items) @ ranking.weights)
    np.testing.assert_allclose(sure.score(queries, items), plain, rtol=1e-3)
    rows = sure.score_all(queries)
    np.testing.assert_allclose(rows[np.arange(len(queries)), items], plain, rtol=1e-3)


def test_it_prefers_the_surer_of_two_pairs() -> None:
    """Its first answers are seen more often than those of `bayes`, which asks for a high lift."""
    bayes, sure = both()
    queries = np.argsort(-bayes.item_count)[:100]
    counts = bayes.evidence.counts

    def times(model: Bayes) -> float:
        answers = [model.recommend(int(query), 5).codes for query in queries]
        query = np.repeat(queries, [len(codes) for codes in answers]).astype(np.int32)
        return float(counts.of_pairs(query, np.concatenate(answers)).mean())

    assert times(sure) > times(bayes)


def test_where_there_is_nothing_to_learn_g2_ranks() -> None:
    sure = make_model("bayes-sure").fit(toy_baskets(60))
    assert sure.fit_info()["sure_ranks_by"] == "G^2"
    llr = make_model("llr").fit(toy_baskets(60))
    np.testing.assert_allclose(sure.score_all(np.arange(22)), llr.score_all(np.arange(22)))
    np.testing.assert_allclose(sure.score([1, 2], [5, 6]), llr.score([1, 2], [5, 6]))
