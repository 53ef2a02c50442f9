"""Serving tables, tasks and leaderboards by a GPU beside those by the CPU."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from helpers.table_checks import assert_holds_what_recommend_names
from helpers.toyshop import toy_baskets
from neatrec.data.splits import Split, split_baskets
from neatrec.evaluation.task import EvaluationTask, build_task, evaluate_model
from neatrec.labels import make_labels
from neatrec.leaderboard.run import LeaderboardOptions, run_leaderboard
from neatrec.models import Run, make_model
from neatrec.models.base import Model
from neatrec.models.embeddings.kernels import gpu
from neatrec.serving.topk import best_answers
from neatrec.simulator import supermarket

TROUBLE = gpu.unavailable_reason()
pytestmark = pytest.mark.skipif(TROUBLE is not None, reason=f"needs a GPU: {TROUBLE}")
PRODUCTS = ("neat", "neat-bpr", "item2vec", "item2vec-product", "triple2vec")


@cache
def fitted(name: str) -> Model:
    return make_model(name, dim=16, epochs=20).fit(toy_baskets(), Run(rng=3, device="gpu"))


@cache
def shop() -> Split:
    return split_baskets(supermarket(baskets=6_000, items=600).baskets, "half")


@cache
def task() -> EvaluationTask:
    halves = shop()
    labels = make_labels(halves.test, protocol="paper", levels=(0.05,), threads=1)
    return build_task(halves.train, halves.test, labels, queries=100, carts=10)


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("k", [1, 5, 1000])
def test_the_table_holds_what_recommend_names(name: str, k: int) -> None:
    """The check that tables of the CPU must pass: only equals may change places."""
    model = fitted(name)
    assert_holds_what_recommend_names(best_answers(model, k, device="gpu"), model, k)


def test_the_tables_of_a_larger_shop_are_almost_the_same() -> None:
    model = make_model("neat", dim=32, epochs=3).fit(shop().train, Run(rng=0, device="gpu"))
    here, there = (best_answers(model, 100, device=device) for device in ("cpu", "gpu"))
    np.testing.assert_array_equal(here.start, there.start)
    np.testing.assert_allclose(here.score, there.score, rtol=1e-5, atol=1e-6)
    assert np.mean(here.item == there.item) > 0.99


@pytest.mark.parametrize("name", PRODUCTS)
def test_an_exam_is_answered_as_on_the_cpu(name: str) -> None:
    model = make_model(name, dim=16, epochs=3).fit(shop().train, Run(rng=0, device="gpu"))
    here, there = (evaluate_model(model, task(), device=device) for device in ("cpu", "gpu"))
    for which, label_ranks in here.label_ranks.items():
        found = there.label_ranks[which]
        assert np.mean(np.abs(label_ranks.higher - found.higher) <= 1) > 0.99
        np.testing.assert_array_equal(label_ranks.equal > 0, found.equal > 0)
        assert np.mean(label_ranks.best == found.best) > 0.98
    assert here.held_out is not None
    assert there.held_out is not None
    assert np.mean(here.held_out == there.held_out) > 0.98
    np.testing.assert_array_equal(here.cart_answers, there.cart_answers)


def test_a_leaderboard_trains_and_ranks_on_the_gpu_what_can_be(caplog: pytest.LogCaptureFixture) -> None:
    models: dict[str, Any] = {
        "pop": "pop",
        "neat": make_model("neat", dim=16, epochs=3),
        "neat-likelihood": make_model("neat-likelihood", dim=16, epochs=3),
    }
    said: list[str] = []
    quick: dict[str, Any] = {"levels": (0.05,), "rounds": 100, "queries": 50, "carts": 10}
    options = LeaderboardOptions(protocol="paper", device="gpu", **quick)
    with caplog.at_level(logging.DEBUG, logger="neatrec"):
        result = run_leaderboard(shop().train, shop().test, models, options, progress=said.append)
    assert {model.name for model in result.evaluation.results[0].summary.models} == set(models)
    assert "pop does not learn on device gpu: auto" in said
    assert "neat-likelihood is ranked on the CPU: its score is no product of vectors" in caplog.text
    auto = run_leaderboard(shop().train, shop().test, ["pop"], replace(options, device="auto"))
    same = {
        name: label_ranks.higher.tolist() for name, label_ranks in auto.trainings["pop"][0].ranks.label_ranks.items()
    }
    assert same == {
        name: label_ranks.higher.tolist() for name, label_ranks in result.trainings["pop"][0].ranks.label_ranks.items()
    }
