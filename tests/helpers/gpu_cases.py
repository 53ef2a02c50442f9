"""What the tests of the GPU kernels share: a sentence where there is no GPU, and units trained one
after the other."""

import numpy as np
import pytest

from helpers.kernel_cases import MANY_USERS, Case, make_tables
from neatrec.models.embeddings.kernels import gpu
from neatrec.models.embeddings.kernels.arguments import (
    Draws,
    KernelInput,
    KernelSettings,
    StepStats,
    TrainingVisit,
)
from neatrec.models.embeddings.kernels.dispatch import kernel, training_device

TROUBLE = gpu.unavailable_reason()
needs_gpu = pytest.mark.skipif(TROUBLE is not None, reason=f"needs a GPU: {TROUBLE}")


def train_on_gpu(case: Case, data: KernelInput, epochs: int = 1) -> StepStats:
    """Train the tables of `data`, which lie on the host, and return the stats of the last epoch."""
    device, units = training_device("gpu"), len(data.visit.start)
    there = device.put(data)
    for epoch in range(epochs):
        stats = kernel(case.name, "gpu")(there._replace(done=epoch * units), 0, units, 1)
    device.get(there.tables, data.tables)
    return stats


def one_by_one(case: Case, data: KernelInput) -> StepStats:
    """Train on one unit after the other, as the reference does: no two units are ever under way
    together."""
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
    wanted, found = (
        KernelInput(
            make_tables(case, len(visit.category), settings.dim, MANY_USERS), visit, draws, settings
        )
        for _ in range(2)
    )
    stats = one_by_one(case, found)
    seen = kernel(case.name, "reference")(wanted, 0, len(visit.start), 1)
    assert stats.pairs == seen.pairs
    assert stats.active == seen.active
    assert stats.loss == pytest.approx(seen.loss, rel=1e-4, abs=1e-6)
    for one, other in zip(found.tables, wanted.tables, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=5e-5)
