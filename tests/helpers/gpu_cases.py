"""What the tests of the GPU kernels share: a sentence where there is no GPU, and units trained one after the other."""

import numpy as np
import pytest

from helpers.kernel_cases import Case, make_table
from neatrec.models.embeddings.kernels import gpu, reference
from neatrec.models.embeddings.kernels.arguments import Draws, KernelInput, KernelSettings, Shard, StepStats
from neatrec.models.embeddings.kernels.dispatch import kernel
from neatrec.models.embeddings.kernels.layout import Table

TROUBLE = gpu.unavailable_reason()
needs_gpu = pytest.mark.skipif(TROUBLE is not None, reason=f"needs a GPU: {TROUBLE}")
MANY_USERS = 100_000


def large_tables(case: Case, items: int, dim: int) -> tuple[Table, ...]:
    """So many users that none is drawn twice in a basket."""
    sizes = [MANY_USERS if name == "users" else items for name in case.tables]
    return tuple(make_table(size, dim, seed=n) for n, size in enumerate(sizes))


def one_by_one(
    case: Case, device: str, tables: tuple[Table, ...], shard: Shard, draws: Draws, settings: KernelSettings
) -> StepStats:
    """Train on one unit after the other, as the reference does: no two units are ever under way together."""
    function = kernel(case.name, device)
    total = StepStats(0, 0.0, 0)
    units = len(shard.start)
    for unit in range(units):
        rate = settings.rate_at(unit, 0, units)
        data = KernelInput(tables, shard, draws, settings._replace(rate=rate, last_rate=rate))
        seen = function(data, unit, unit + 1, 1)
        total = StepStats(total.pairs + seen.pairs, total.loss + seen.loss, total.active + seen.active)
    return total


def assert_equal_to_the_reference(case: Case, shard: Shard, draws: Draws, settings: KernelSettings) -> None:
    """Tables and stats of the GPU, unit by unit, against the reference."""
    items = len(shard.category)
    wanted = large_tables(case, items, settings.dim)
    found = tuple(table.copy() for table in wanted)
    stats = one_by_one(case, "gpu", found, shard, draws, settings)
    seen = getattr(reference, case.name)(
        KernelInput(wanted, shard, draws, settings._replace(block=1)), 0, len(shard.start)
    )
    assert stats.pairs == seen.pairs
    assert stats.active == seen.active
    assert stats.loss == pytest.approx(seen.loss, rel=1e-4, abs=1e-6)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=5e-5)
