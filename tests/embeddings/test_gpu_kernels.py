"""The GPU kernels equal the reference unit by unit, and learn as much with thousands at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers.kernel_cases import (
    CASES,
    MANY_USERS,
    SETTINGS,
    Case,
    make_draws,
    make_tables,
    make_visit,
)
from neatrec.models.embeddings.kernels import gpu
from neatrec.models.embeddings.kernels.arguments import (
    Draws,
    KernelInput,
    KernelSettings,
    StepStats,
    TrainingVisit,
)
from neatrec.models.embeddings.kernels.dispatch import kernel, training_device

REASON = gpu.unavailable_reason()
pytestmark = pytest.mark.skipif(REASON is not None, reason=f"needs a GPU: {REASON}")
EVERY_KERNEL = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))


def train_on_gpu(case: Case, data: KernelInput, epochs: int = 1) -> StepStats:
    """Train the tables of `data`, which lie on the host, and return the stats of the last epoch."""
    device, units = training_device("gpu"), len(data.visit.start)
    there = device.put(data)
    for epoch in range(epochs):
        stats = kernel(case.name, "gpu")(there._replace(done=epoch * units), 0, units, 1)
    device.get(there.tables, data.tables)
    return stats


def one_by_one(case: Case, data: KernelInput) -> StepStats:
    """Train on one unit after the other, as the reference does."""
    device, units = training_device("gpu"), len(data.visit.start)
    there, total = device.put(data), StepStats(0, 0.0, 0)
    for unit in range(units):
        rate = data.settings.rate_at(unit, 0, units)
        call = there._replace(settings=data.settings._replace(rate=rate, last_rate=rate), done=unit)
        seen = kernel(case.name, "gpu")(call, unit, unit + 1, 1)
        total = StepStats(*(a + b for a, b in zip(total, seen, strict=True)))
    device.get(there.tables, data.tables)
    return total


def assert_equal_to_the_reference(
    case: Case, visit: TrainingVisit, draws: Draws, settings: KernelSettings
) -> None:
    """Tables and stats of the GPU, unit by unit, against the reference."""
    items = len(visit.category)
    wanted, found = (
        KernelInput(make_tables(case, items, settings.dim, MANY_USERS), visit, draws, settings)
        for _ in range(2)
    )
    stats = one_by_one(case, found)
    seen = kernel(case.name, "reference")(wanted, 0, len(visit.start), 1)
    assert stats.pairs == seen.pairs
    assert stats.active == seen.active
    assert stats.loss == pytest.approx(seen.loss, rel=1e-4, abs=1e-6)
    for one, other in zip(found.tables, wanted.tables, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=5e-5)


@EVERY_KERNEL
@pytest.mark.parametrize(
    ("sizes", "items", "changes"),
    [
        ([4, 2, 1, 5, 3], 200_000, {}),
        ([4, 2, 1, 5, 3], 200_000, {"shared": False, "negatives": 2}),
        ([4, 2, 3], 400_000, {"window": 1, "negatives": 1}),
        ([4, 2, 3], 400_000, {"window": 9, "negatives": 11, "margin": 3.0}),
        ([4, 2, 3], 400_000, {"window": 16, "negatives": 32}),
        ([4, 2, 5], 100_000, {"logistic": True}),
        *(([4, 2, 1, 5], 20_000, {"dim": dim, "negatives": 2}) for dim in (1, 3, 100, 130, 512)),
    ],
)
def test_units_one_by_one_equal_the_reference(
    case: Case, sizes: list[int], items: int, changes: dict[str, Any]
) -> None:
    visit = make_visit(sizes, items, users=case.users, seed=changes.get("dim", 0))
    assert_equal_to_the_reference(case, visit, make_draws(visit), SETTINGS._replace(**changes))


@EVERY_KERNEL
def test_refused_negatives_are_those_of_the_reference(case: Case) -> None:
    visit = make_visit([5, 4, 6], 30_000, users=case.users)
    settings = SETTINGS._replace(negatives=2)
    assert_equal_to_the_reference(case, visit, make_draws(visit, observed=True), settings)
    every_item = make_visit([6], 6, categories=1000, users=case.users)  # none is left to draw
    assert_equal_to_the_reference(case, every_item, make_draws(every_item), SETTINGS)


@EVERY_KERNEL
def test_long_baskets_are_cut_and_lose_no_pair(case: Case) -> None:
    visit = make_visit([300, 2], 400_000, categories=1000, users=case.users)
    assert len(visit.start) == 3
    settings = SETTINGS._replace(negatives=1, rate=0.01, last_rate=0.01)
    assert_equal_to_the_reference(case, visit, make_draws(visit), settings)


@EVERY_KERNEL
def test_thousands_of_units_at_once_see_every_pair_and_learn_as_much(case: Case) -> None:
    sizes = np.random.default_rng(3).integers(2, 15, size=3_000).tolist()
    visit = make_visit(sizes, 300, users=case.users)
    together, in_turn = (
        KernelInput(make_tables(case, 300, SETTINGS.dim), visit, make_draws(visit), SETTINGS)
        for _ in range(2)
    )
    for epoch in range(3):
        several = train_on_gpu(case, together._replace(done=epoch * len(visit.start)))
        alone = one_by_one(case, in_turn)
        assert several.pairs == alone.pairs
        assert several.loss == pytest.approx(alone.loss, rel=0.15 if epoch == 0 else 0.07)


@EVERY_KERNEL
@pytest.mark.parametrize("negatives", [5, 10])
def test_a_small_shop_at_its_start_learns_as_the_reference_does(case: Case, negatives: int) -> None:
    """Negatives repeat within a basket; steps are longest while sums of squares are zero."""
    visit = make_visit([6, 3, 5, 2, 7, 4] * 10, 22, users=case.users)
    settings = SETTINGS._replace(negatives=negatives, rate=0.3)
    found, wanted = (
        KernelInput(make_tables(case, 22, SETTINGS.dim), visit, make_draws(visit), settings)
        for _ in range(2)
    )
    for _ in range(2):
        seen = train_on_gpu(case, found)
        expected = kernel(case.name, "reference")(wanted, 0, len(visit.start), 1)
        assert seen.pairs == expected.pairs
        # one that runs away is out by a hundred
        assert expected.loss / 2 < seen.loss < expected.loss * 2
