"""The training loop: progress, divergence, threads, the order of the baskets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from helpers.kernel_cases import assert_equal_arrays
from helpers.toyshop import toy_baskets
from neatrec.data import Baskets
from neatrec.errors import DivergedError, ParameterError
from neatrec.models import Model, Run, make_model
from neatrec.models.embeddings import trainer as training
from neatrec.models.embeddings.kernels.cpu.shared import CpuDevice
from neatrec.models.embeddings.trainer import TrainingData, prepare
from neatrec.models.run import Progress

SETTINGS: dict[str, Any] = {"dim": 8, "epochs": 4}
REPRODUCIBLE = Run(rng=5, threads=1, reproducible=True)
MODELS = ("neat", "neat-bpr", "item2vec", "triple2vec")


def fit(name: str = "neat", run: Run = REPRODUCIBLE, **changes: Any) -> Model:
    return make_model(name, {**SETTINGS, **changes}).fit(toy_baskets(), run)


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several steps in an epoch of the toy baskets."""
    monkeypatch.setattr(CpuDevice, "units_per_call", 20)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.usefixtures("small_steps")
def test_a_reproducible_fit_learns_and_has_the_bits_of_its_seed_at_any_number_of_threads(
    name: str,
) -> None:
    alone = fit(name)
    assert_equal_arrays(alone, fit(name, replace(REPRODUCIBLE, threads=3)))
    other = fit(name, replace(REPRODUCIBLE, rng=6))
    assert not np.array_equal(alone.vectors, other.vectors)
    losses = alone.learned["losses"]
    assert len(losses) == 4
    assert losses[-1] < losses[0]


@pytest.mark.usefixtures("small_steps")
def test_progress_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "PROGRESS_SECONDS", 0.0)
    seen: list[Progress] = []
    fit(run=replace(REPRODUCIBLE, progress=seen.append))
    done = [p.done for p in seen]
    assert done == sorted(done)
    assert done[-1] == 1.0
    assert len(seen) > 8
    for p in seen:
        assert p.epochs == 4
        assert p.pairs_per_second > 0
        assert np.isfinite(p.loss)
        assert p.active is not None
        assert 0 <= p.active <= 1
        assert p.seconds_left >= 0
    assert (seen[-1].epoch, seen[-1].seconds_left) == (4, 0)
    assert seen[-1].loss < seen[0].loss
    fit("item2vec", replace(REPRODUCIBLE, progress=seen.append))
    assert seen[-1].active is None  # it has no hinges


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        (
            "item2vec",
            {"optimizer": "sgd", "negatives_shared": False, "learning_rate": 1e6, "epochs": 40},
            r"model 'item2vec' diverged in epoch \d: .* Lower `learning_rate`",
        ),
        (
            "neat",
            {"variance_learning_rate": 100.0},
            r"upper bound\. Lower `variance_learning_rate`",
        ),
    ],
)
def test_a_fit_that_diverges_names_the_cause(
    name: str, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(DivergedError, match=message):
        fit(name, **changes)


def prepared(baskets: Baskets) -> TrainingData:
    return prepare(baskets, baskets.catalog.category_of(), with_users=baskets.users is not None)


@pytest.mark.parametrize("ordered", [True, False])
def test_lines_are_shuffled_within_their_basket_where_order_is_unknown(ordered: bool) -> None:
    data, device = prepared(toy_baskets()), CpuDevice()
    first, again, second = (
        device.shuffled(data.visit, ordered, np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    assert np.array_equal(first.items, again.items)
    assert np.array_equal(first.items, second.items) == ordered
    basket = np.repeat(np.arange(len(first.offsets) - 1), np.diff(first.offsets))
    for visit in (first, second):
        by_item = [np.lexsort((items, basket)) for items in (visit.items, data.visit.items)]
        assert np.array_equal(visit.items[by_item[0]], data.visit.items[by_item[1]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "tpu"}, "`device` must be one of auto, cpu, gpu, got 'tpu'"),
        ({"threads": 0}, "`threads` must be an integer of at least 1, got 0"),
        ({"threads": True}, "`threads` must be an integer of at least 1, got True"),
        ({"rng": -1}, "`rng` must be an integer of at least 0"),
    ],
)
def test_options_of_a_run_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Run(**options)
