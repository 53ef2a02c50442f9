"""Small tables, visits and settings for the kernel tests; models compared bit by bit."""

from typing import NamedTuple

import numpy as np

from neatrec.models.base import Model
from neatrec.models.embeddings.kernels import draws as kernel_draws
from neatrec.models.embeddings.kernels.arguments import (
    Draws,
    KernelInput,
    KernelSettings,
    StepStats,
    TrainingVisit,
)
from neatrec.models.embeddings.kernels.dispatch import kernel
from neatrec.models.embeddings.kernels.layout import LOG_VARIANCE, Table, new_table, tail, vector
from neatrec.models.embeddings.sampling import units_of

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
    """How a kernel is set up."""

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
    """Baskets of the given sizes without repeated items, in a random order; category -1 for every
    fifth item."""
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
    items = len(visit.category)
    counts = np.bincount(visit.items, minlength=items) + 1.0
    known, owned = EMPTY, EMPTY
    if observed:
        known = kernel_draws.new_filter(1000)
        kernel_draws.add_pairs(known, visit.items, visit.offsets)
        if len(visit.users):
            owned = kernel_draws.new_filter(1000)
            kernel_draws.add_owned(owned, visit.users, visit.items, visit.offsets)
    return Draws(np.uint64(seed), kernel_draws.alias_table(counts**0.75), known, owned)


def make_table(rows: int, dim: int, *, seed: int = 1, scale: float = 0.5) -> Table:
    rng = np.random.default_rng(seed)
    table = new_table(rows, dim)
    vector(table, dim)[:] = rng.normal(size=(rows, dim)) * scale
    tail(table, dim, LOG_VARIANCE)[:] = rng.normal(size=rows) * 0.3
    return table


def make_tables(case: Case, items: int, dim: int, users: int = USERS) -> tuple[Table, ...]:
    sizes = [users if name == "users" else items for name in case.tables]
    return tuple(make_table(size, dim, seed=n) for n, size in enumerate(sizes))


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
    """The tables and the stats after one pass on a device, or of the reference."""
    tables = make_tables(case, len(visit.category), settings.dim, users)
    data = KernelInput(tables, visit, draws, settings)
    return tables, kernel(case.name, device)(data, 0, len(visit.start), threads)


def assert_equal_arrays(one: Model, other: Model, *, users: bool = True) -> None:
    """Two models have the same arrays, to the bit."""
    expected, found = one.arrays(users=users), other.arrays(users=users)
    assert expected.keys() == found.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
