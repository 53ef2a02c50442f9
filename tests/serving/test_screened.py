"""The table of a model with a screen is that of a scan of all its scores."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.bayes_cases import toy_bayes
from neatrec.models import Run, make_model
from neatrec.models.bayes import Bayes
from neatrec.serving import coarse_search as screened
from neatrec.serving.topk import TopKSearch, best_answers, search_of
from neatrec.simulator import supermarket


class Levels:
    """A model of given scores, as few different ones as wanted, and its screen, which errs by `error` at most."""

    def __init__(self, scores: np.ndarray, error: np.ndarray) -> None:
        self.scores, self.error = scores, error

    def score(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        return self.scores[queries, items]

    def score_all(self, queries: np.ndarray) -> np.ndarray:
        return self.scores[queries]

    def rows(self, queries: np.ndarray) -> np.ndarray:
        return (np.log(self.scores[queries]) + self.error[queries]).astype(np.float32)


@settings(max_examples=80, deadline=None)
@given(
    st.integers(2, 70), st.integers(1, 8), st.integers(1, 40), st.sampled_from([0.0, 4e-5, 0.3]), st.integers(0, 10**6)
)
def test_the_best_are_those_of_sorting_however_much_the_screen_errs(
    items: int, k: int, levels: int, error: float, seed: int
) -> None:
    """Errors within the margin, and errors so large that the scan of all scores must answer; many ties."""
    rng = np.random.default_rng(seed)
    scores = np.exp(rng.integers(0, levels, (items, items)) / 10)
    every = np.arange(items, dtype=np.int32)
    group = rng.integers(0, 4, items).astype(np.int32)
    wrong = np.where(rng.random((items, items)) < 0.5, -error, error)
    model: Any = Levels(scores, wrong)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(screened, "SPARE", int(rng.integers(0, 6)))
        patch.setattr(screened, "ROWS", int(rng.integers(1, 9)))
        patch.setattr(screened, "EXACT", int(rng.integers(1, 9)))
        search = TopKSearch(every, every, group, k, 0.0)
        screened.by_screen(search, model, model, 2)
    found = search.answers()
    for q in range(items):
        allowed = [v for v in range(items) if group[v] != group[q]]
        wanted = sorted(allowed, key=lambda v: (-scores[q, v], v))[: search.k]
        assert found.item[found.start[q] : found.start[q + 1]].tolist() == wanted


@pytest.mark.parametrize("name", ["bayes", "bayes-sure"])
@pytest.mark.parametrize("k", [1, 5, 1000])
def test_the_table_of_the_small_shop_is_what_recommend_answers(name: str, k: int) -> None:
    model = toy_bayes(1, name=name)
    found = best_answers(model, k, threads=2)
    for query in range(len(model.catalog)):
        row = slice(found.start[query], found.start[query + 1])
        wanted = model.recommend(query, k)
        assert found.item[row].tolist() == wanted.codes.tolist()
        np.testing.assert_allclose(found.score[row], wanted.scores, rtol=1e-5)


@cache
def learned() -> Bayes:
    model = make_model("bayes", rank=32).fit(supermarket(baskets=8_000, items=400, seed=2).baskets, Run(threads=1))
    if not isinstance(model, Bayes) or not model.has_screen:
        raise TypeError("this shop's strong pairs teach a prior")
    return model


def test_a_learned_table_is_that_of_all_scores(caplog: pytest.LogCaptureFixture) -> None:
    model = learned()
    with caplog.at_level("DEBUG", logger="neatrec.serving.coarse_search"):
        found = best_answers(model, 20, threads=2)
    plain = search_of(model, 20)
    plain.by_blocks(model, 1)
    wanted = plain.answers()
    np.testing.assert_array_equal(found.start, wanted.start)
    np.testing.assert_allclose(found.score, wanted.score, rtol=2e-5)
    # pairs and rows round otherwise: only equals may change places
    assert (found.item == wanted.item).mean() > 0.999
    scanned = int(caplog.messages[-1].split()[0])
    assert scanned < len(model.catalog) / 20
