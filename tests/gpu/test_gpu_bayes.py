"""`bayes` on a GPU: rows as on the CPU, the same serving table to the bit, a fit that is the same but for rounding."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from helpers.bayes_cases import toy_bayes
from helpers.toyshop import toy_baskets
from neatrec.errors import ParameterError
from neatrec.models import Run, make_model
from neatrec.models.base import Model
from neatrec.models.bayes import Bayes, gpu_fit, lowrank
from neatrec.models.bayes.features import SIGNS
from neatrec.models.bayes.gpu_screen import GpuScreen
from neatrec.models.bayes.prior import Weights
from neatrec.models.bayes.prior_tuning import allowed, practise
from neatrec.models.bayes.rows import rank_rows
from neatrec.models.embeddings.kernels import gpu
from neatrec.serving.topk import best_answers
from neatrec.simulator import supermarket

TROUBLE = gpu.trouble()
pytestmark = pytest.mark.skipif(TROUBLE is not None, reason=f"needs a GPU: {TROUBLE}")


@cache
def learned(name: str) -> Model:
    return make_model(name, rank=32).fit(supermarket(baskets=8_000, items=400, seed=2).baskets, Run(rng=0, threads=1))


@pytest.mark.parametrize("name", ["bayes", "bayes-sure"])
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("ranked", [True, False])
def test_rows_are_those_of_the_cpu(name: str, ordered: bool, ranked: bool) -> None:
    model = toy_bayes(2, ordered=ordered, ranked=ranked, name=name)
    if not model.has_screen:
        assert name == "bayes-sure"
        return
    screen = model.screen(np.flatnonzero(model.item_count > 0).astype(np.int32))
    every = np.arange(len(model.catalog), dtype=np.int32)
    rows = np.clip(screen.on_gpu().rows(every).get(), -60, 60)
    np.testing.assert_allclose(rows, screen.rows(every), atol=2e-5)


@pytest.mark.parametrize("name", ["bayes", "bayes-sure"])
@pytest.mark.parametrize("k", [1, 7, 100])
def test_the_table_is_that_of_the_cpu_to_the_bit(name: str, k: int) -> None:
    model = learned(name)
    assert isinstance(model, Bayes)
    assert model.has_screen
    here, there = (best_answers(model, k, threads=2, device=device) for device in ("cpu", "gpu"))
    np.testing.assert_array_equal(there.start, here.start)
    np.testing.assert_array_equal(there.item, here.item)
    np.testing.assert_array_equal(there.score, here.score)


def test_blocks_of_any_size_find_the_same() -> None:
    model = learned("bayes")
    assert isinstance(model, Bayes)
    sold = np.flatnonzero(model.item_count > 0).astype(np.int32)
    group = np.arange(len(model.catalog), dtype=np.int32) % 7
    screen = model.screen(sold)
    places, scores = GpuScreen(screen).best(sold, group, 20)
    for size in (1, 1_000, 50_000):
        again, once_more = GpuScreen(screen, block_scores=size).best(sold, group, 20)
        # products of other sizes round their last bits otherwise
        np.testing.assert_allclose(once_more, scores, atol=1e-5)
        assert (again == places).mean() > 0.99
    assert (group[sold[places]] != group[sold][:, None]).all()
    assert (np.diff(scores, axis=1) <= 0).all()


def test_few_answers_are_all_there_are() -> None:
    model = toy_bayes(1)
    sold = np.flatnonzero(model.item_count > 0).astype(np.int32)
    group = np.zeros(len(model.catalog), dtype=np.int32)
    group[sold[:3]] = 1
    places, scores = model.screen(sold).on_gpu().best(sold, group, 30)
    assert (places[:3] >= 0).sum(axis=1).tolist() == [len(sold) - 3] * 3
    assert (places[3:] >= 0).sum(axis=1).tolist() == [3] * (len(sold) - 3)
    assert places.shape == scores.shape == (len(sold), 30)


@cache
def fitted(device: str) -> Bayes:
    baskets = supermarket(baskets=8_000, items=400, seed=2).baskets
    model = make_model("bayes", rank=32).fit(baskets, Run(rng=0, device=device))
    assert isinstance(model, Bayes)
    return model


def test_a_fit_on_a_gpu_learns_the_same_but_for_rounding() -> None:
    here, there = fitted("cpu"), fitted("gpu")
    assert [model.fit_info()["learned_on"] for model in (here, there)] == ["cpu", "gpu"]
    for key in ("pair_start", "pair_item", "pair_count", "near_count", "category_lift", "order_first", "like_count"):
        np.testing.assert_array_equal(there.arrays()[key], here.arrays()[key])
    np.testing.assert_allclose(there.evidence.values, here.evidence.values, rtol=1e-3)
    one, other = (model.fit_info() for model in (here, there))
    assert one["prior"] == other["prior"]
    assert one["ranks_by"] == other["ranks_by"]
    assert one["strong_pairs"] == other["strong_pairs"]
    assert other["validation"]["bayes"] == pytest.approx(one["validation"]["bayes"], abs=0.02)
    sold = np.flatnonzero(here.item_count > 0).astype(np.int32)
    best = [np.argsort(-model.score_all(sold), axis=1, kind="stable")[:, :10] for model in (here, there)]
    same = np.mean([len(np.intersect1d(*pair)) for pair in zip(*best, strict=True)])
    assert same > 9


def test_a_model_learned_on_a_gpu_says_so_when_it_is_back() -> None:
    there = fitted("gpu")
    again = Bayes.from_arrays(there.parameters, there.catalog, there.arrays())
    assert again.fit_info() == there.fit_info()


def test_auto_learns_on_the_gpu_and_the_same_bits_are_wanted_of_the_cpu() -> None:
    baskets = toy_baskets()
    assert make_model("bayes", rank=4).fit(baskets, Run(rng=0)).fit_info()["learned_on"] == "gpu"
    sure = make_model("bayes", rank=4).fit(baskets, Run(rng=0, reproducible=True))
    assert sure.fit_info()["learned_on"] == "cpu"
    with pytest.raises(ParameterError, match="`reproducible` must be false on device gpu"):
        make_model("bayes", rank=4).fit(baskets, Run(rng=0, device="gpu", reproducible=True))


def test_factors_and_company_are_those_of_the_cpu() -> None:
    model = fitted("cpu")
    counts, category = model.evidence.counts, model.evidence.category
    matrix = lowrank.log_lifts(counts, 2)
    (mine, values), (others, found) = (
        part.factors(matrix, 32, np.random.default_rng(0)) for part in (lowrank, gpu_fit)
    )
    np.testing.assert_allclose(found, values, rtol=1e-3)
    np.testing.assert_allclose((others * found) @ others.T, (mine * values) @ mine.T, atol=2e-3)
    dense, again = (part.factors(matrix.toarray(), 5, np.random.default_rng(0))[1] for part in (lowrank, gpu_fit))
    np.testing.assert_allclose(again, dense, rtol=1e-3)
    unit = model.evidence.unit
    here, there = (part.like_company(unit, category) for part in (lowrank, gpu_fit))
    assert abs(here.nnz - there.nnz) <= 0.001 * here.nnz
    np.testing.assert_allclose(there.sum(axis=1), here.sum(axis=1), atol=0.1)


def test_practice_on_a_gpu_is_worth_the_same() -> None:
    model = fitted("cpu")
    category = model.parameters.counting().category_of(model.catalog)
    rng = np.random.default_rng(0)
    usual = practise(model.evidence, model.evidence.counts, category, 3.0, rng, 100)
    assert usual is not None
    there = gpu_fit.PracticeThere(usual)
    for signs in (None, rng.normal(0.2, 0.5, len(SIGNS))):
        weights = Weights(1.5, 0.3, signs)
        assert there.value(weights) == pytest.approx(usual.value(weights), abs=2e-3)


@pytest.mark.parametrize("ranked", [True, False])
@pytest.mark.parametrize("block_scores", [1, 5_000, 2**24])
def test_the_best_pairs_are_those_that_rows_rank_first(
    ranked: bool, block_scores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_fit, "BLOCK_SCORES", block_scores)
    model = fitted("cpu")
    evidence, ranking = model.evidence, model.ranking if ranked else None
    category = model.parameters.counting().category_of(model.catalog)
    queries = np.flatnonzero(model.item_count > 0).astype(np.int32)[::3]
    asked, items = gpu_fit.best_pairs(evidence, model.weights, ranking, category, queries, 30)
    scores = np.where(
        allowed(evidence, category, queries), rank_rows(evidence, model.weights, ranking, queries), -np.inf
    )
    assert np.unique(asked).tolist() == queries.tolist()
    for row, query in enumerate(queries):
        chosen = items[asked == query]
        assert len(np.unique(chosen)) == 30
        worst, bar = scores[row, chosen].min(), np.sort(scores[row])[-30]
        assert np.isfinite(worst)
        assert np.log(worst) >= np.log(bar) - 1e-4


def test_as_many_answers_as_a_gpu_lists_and_more() -> None:
    model = learned("bayes")
    here, there = (best_answers(model, 250, device=device) for device in ("cpu", "gpu"))
    # some are answered by a scan of rows, which rounds its last bits otherwise than pairs do
    np.testing.assert_allclose(there.score, here.score, rtol=2e-5)
    assert (there.item == here.item).mean() > 0.999
    with pytest.raises(ParameterError, match="`k` must be from 1 to 256 on device gpu"):
        best_answers(model, 300, device="gpu")
    assert len(best_answers(model, 300, device="auto").item) == len(best_answers(model, 300).item)
