"""The screen of `bayes` on a GPU: the rows of the CPU, and the same serving table to the bit."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from bayes_cases import toy_bayes
from neatrec.errors import ParameterError
from neatrec.index.topk import best_answers
from neatrec.kernels import gpu
from neatrec.models import Run, make_model
from neatrec.models.base import Model
from neatrec.models.bayes import Bayes
from neatrec.models.bayes.gpu_screen import GpuScreen
from neatrec.sources.supermarket import supermarket

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


@pytest.mark.parametrize("name", ["bayes", "bayes-sure"])
def test_a_fit_may_be_asked_for_on_a_gpu_and_learns_the_same(name: str) -> None:
    baskets = supermarket(baskets=3_000, items=200, seed=1).baskets
    here, there = (make_model(name, rank=16).fit(baskets, Run(rng=0, device=device)) for device in ("cpu", "gpu"))
    for key, value in here.arrays().items():
        np.testing.assert_array_equal(there.arrays()[key], value)


def test_as_many_answers_as_a_gpu_lists_and_more() -> None:
    model = learned("bayes")
    here, there = (best_answers(model, 250, device=device) for device in ("cpu", "gpu"))
    # some are answered by a scan of rows, which rounds its last bits otherwise than pairs do
    np.testing.assert_allclose(there.score, here.score, rtol=2e-5)
    assert (there.item == here.item).mean() > 0.999
    with pytest.raises(ParameterError, match="`k` must be from 1 to 256 on device gpu"):
        best_answers(model, 300, device="gpu")
    assert len(best_answers(model, 300, device="auto").item) == len(best_answers(model, 300).item)
