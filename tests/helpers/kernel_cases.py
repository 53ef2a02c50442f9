"""Small tables, visits and settings for the kernel tests; models compared bit by bit."""

from typing import NamedTuple

import numpy as np
import pytest

from neatrec.models import Model
from neatrec.models.embeddings.kernels import draws as kernel_draws
from neatrec.models.embeddings.kernels.arguments import (
    LOG_VARIANCE,
    Draws,
    KernelInput,
    KernelSettings,
    StepStats,
    Table,
    TrainingVisit,
    new_table,
    width,
)
from neatrec.models.embeddings.kernels.dispatch import kernel
from neatrec.models.embeddings.trainer import units_of

SETTINGS = KernelSettings(
    dim=10,
    window=3,
    negatives=5,
    shared=True,
    margin=0.5,
    rate=0.1,
    last_rate=0.05,
    variance_rate=0.3,
    low=-4.0,
    high=2.0,
)
EMPTY = np.zeros(0, dtype=np.uint64)
USERS, MANY_USERS = 4, 100_000
"""Users of the visits; rows of the users' table where none may be drawn twice in a basket."""


class Case(NamedTuple):
    """A kernel and its tables."""

    name: str
    tables: tuple[str, ...]

    @property
    def users(self) -> int:
        return USERS if "users" in self.tables else 0


CASES = {
    case.name: case
    for case in (
        Case("neat", ("items",)),
        Case("item2vec", ("input", "output")),
        Case("neat_bpr", ("items", "users")),
        Case("triple2vec", ("queries", "partners", "users")),
    )
}


def make_visit(
    sizes: list[int], items: int, *, categories: int = 4, users: int = 0, seed: int = 0
) -> TrainingVisit:
    """Baskets of the given sizes in a random order, no item twice; every fifth has no category."""
    rng = np.random.default_rng(seed)
    lines = [rng.choice(items, size=size, replace=False) for size in sizes]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    category = rng.integers(0, categories, size=items).astype(np.int32)
    category[::5] = -1
    units = units_of(offsets)
    order = rng.permutation(len(units[0]))
    return TrainingVisit(
        np.concatenate(lines).astype(np.int32),
        offsets,
        rng.integers(0, users, size=len(sizes) if users else 0).astype(np.int32),
        category,
        *(each[order] for each in units),
    )


def make_draws(visit: TrainingVisit, *, observed: bool = False, seed: int = 7) -> Draws:
    counts = np.bincount(visit.items, minlength=len(visit.category)) + 1.0
    pairs, bought = EMPTY, EMPTY
    if observed:
        pairs = kernel_draws.new_filter(1000)
        kernel_draws.add_pairs(pairs, visit.items, visit.offsets)
        if len(visit.users):
            bought = kernel_draws.new_filter(1000)
            kernel_draws.add_bought(bought, visit.users, visit.items, visit.offsets)
    return Draws(np.uint64(seed), kernel_draws.alias_table(counts**0.75), pairs, bought)


def make_tables(case: Case, items: int, dim: int, users: int = USERS) -> tuple[Table, ...]:
    tables = []
    for seed, name in enumerate(case.tables):
        rng, rows = np.random.default_rng(seed), users if name == "users" else items
        table = new_table(rows, dim)
        table[:, :dim] = rng.normal(size=(rows, dim)) * 0.5
        table[:, width(dim) + LOG_VARIANCE] = rng.normal(size=rows) * 0.3
        tables.append(table)
    return tuple(tables)


def train(
    case: Case,
    visit: TrainingVisit,
    draws: Draws,
    settings: KernelSettings,
    *,
    device: str = "cpu",
    threads: int = 1,
    users: int = USERS,
) -> tuple[tuple[Table, ...], StepStats]:
    """The tables and statistics after one pass."""
    tables = make_tables(case, len(visit.category), settings.dim, users)
    data = KernelInput(tables, visit, draws, settings)
    return tables, kernel(case.name, device)(data, 0, len(visit.start), threads)


def assert_equal_to_the_reference(
    case: Case, visit: TrainingVisit, draws: Draws, settings: KernelSettings
) -> None:
    """With enough items that no negative is drawn twice in a basket."""
    wanted, expected = train(case, visit, draws, settings, device="reference", users=MANY_USERS)
    tables, stats = train(case, visit, draws, settings, users=MANY_USERS)
    assert stats.pairs == expected.pairs > 0
    assert stats.active == expected.active
    assert stats.loss == pytest.approx(expected.loss, rel=1e-4)
    for one, other in zip(tables, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=3e-4, atol=3e-5)


def assert_equal_arrays(one: Model, other: Model, *, users: bool = True) -> None:
    """Two models have the same arrays, to the bit."""
    expected, arrays = one.arrays(users=users), other.arrays(users=users)
    assert expected.keys() == arrays.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(arrays[name], array, err_msg=name)
