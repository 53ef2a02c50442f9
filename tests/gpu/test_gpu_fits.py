"""Whole fits on a GPU: the same contract as on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers.kernel_cases import SETTINGS, make_draws, make_visit
from helpers.toyshop import toy_baskets
from neatrec.errors import DivergedError
from neatrec.models import Model, Run, make_model, rank
from neatrec.models.embeddings.kernels import gpu
from neatrec.models.embeddings.kernels.arguments import KernelInput
from neatrec.models.embeddings.kernels.draws import shuffle_lines
from neatrec.models.embeddings.kernels.gpu import GpuDevice

REASON = gpu.unavailable_reason()
pytestmark = pytest.mark.skipif(REASON is not None, reason=f"needs a GPU: {REASON}")
MODELS = ("neat", "neat-bpr", "item2vec", "triple2vec")
ON_GPU = Run(rng=5, device="gpu")


def fit(name: str, run: Run = ON_GPU, baskets: Any = None, **changes: Any) -> Model:
    settings = {"dim": 8, "epochs": 4, **changes}
    return make_model(name, settings).fit(toy_baskets() if baskets is None else baskets, run)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_learns_as_on_the_cpu_and_comes_back_from_its_arrays(name: str) -> None:
    model, on_cpu = fit(name), fit(name, Run(rng=5, device="cpu", threads=1))
    assert model.losses == pytest.approx(on_cpu.losses, rel=0.6)  # another order of the baskets
    assert model.losses[-1] == pytest.approx(on_cpu.losses[-1], rel=0.15)
    assert model.losses[-1] < model.losses[0]
    again = type(model).from_arrays(model.parameters, model.catalog, model.arrays(users=True))
    item = model.catalog.id(int(np.argmax(model.item_count)))
    assert rank(again, item, k=3).codes.tolist() == rank(model, item, k=3).codes.tolist()


def test_a_fit_that_runs_away_says_so_and_leaves_the_card_usable() -> None:
    with pytest.raises(DivergedError, match="model 'neat' diverged in epoch"):
        fit("neat", learning_rate=1e30, margin=50.0)
    assert np.isfinite(fit("neat").losses).all()


@pytest.mark.parametrize("ordered", [True, False])
def test_units_come_in_a_random_order_and_lines_as_on_the_cpu(ordered: bool) -> None:
    sizes = [3, 1, 700, 2, 40]
    visit = make_visit(sizes, 1_000)
    data = KernelInput((), visit, make_draws(visit), SETTINGS)
    device = GpuDevice()
    there = device.put(data).visit
    rng, again = np.random.default_rng(3), np.random.default_rng(3)
    found, other = (device.shuffled(there, ordered, each) for each in (rng, again))
    order = np.argsort(found.start.get())
    for name in ("basket", "start", "stop"):
        one = getattr(found, name).get()
        np.testing.assert_array_equal(one, getattr(other, name).get())
        wanted = getattr(visit, name)[np.argsort(visit.start)]
        np.testing.assert_array_equal(one[order], wanted)
    items = visit.items.copy()
    if not ordered:
        shuffle_lines(items, visit.offsets, np.uint64(np.random.default_rng(3).integers(2**63)))
    np.testing.assert_array_equal(found.items.get(), items)


def test_auto_trains_on_the_gpu_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="neatrec"):
        fit("neat", Run(rng=5))
    assert "training on the GPU" in caplog.text
