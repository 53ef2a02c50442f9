"""Small tables, shards and settings for the kernel tests; models compared bit by bit."""

from typing import NamedTuple

import numpy as np

from neatrec.models.base import Model
from neatrec.models.embeddings.kernels import draws as kernel_draws
from neatrec.models.embeddings.kernels import reference
from neatrec.models.embeddings.kernels.arguments import Draws, KernelInput, KernelSettings, Shard, StepStats, units_of
from neatrec.models.embeddings.kernels.dispatch import kernel
from neatrec.models.embeddings.kernels.layout import LOG_VARIANCE, VISITOR, Table, new_table, tail, vector

SETTINGS = KernelSettings(
    dim=10,
    window=3,
    negatives=5,
    shared=True,
    margin=0.5,
    logistic=False,
    rate=0.1,
    last_rate=0.05,
    variance_rate=0.3,
    low=-4.0,
    high=2.0,
    block=0,
    batch=0,
    average=False,
)
EMPTY = np.zeros(0, dtype=np.uint64)
USERS = 4


class Case(NamedTuple):
    """How a kernel is set up."""

    name: str
    tables: tuple[str, ...]
    quick: bool = True
    """Whether it has a quick way of its own."""

    @property
    def users(self) -> int:
        return USERS if "users" in self.tables else 0


CASES = {
    case.name: case
    for case in (
        Case("neat", ("items",)),
        Case("item2vec", ("input", "output")),
        Case("neat_bpr", ("items", "users"), quick=False),
        Case("triple2vec", ("queries", "partners", "users"), quick=False),
    )
}


def make_shard(sizes: list[int], items: int, *, categories: int = 4, users: int = 0, seed: int = 0) -> Shard:
    """Baskets of the given sizes without repeated items; category -1 for every fifth item."""
    rng = np.random.default_rng(seed)
    lines = [rng.choice(items, size=size, replace=False) for size in sizes]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    category = rng.integers(0, categories, size=items).astype(np.int32)
    category[::5] = -1
    basket, start, stop = units_of(offsets)
    return Shard(
        items=np.concatenate(lines).astype(np.int32),
        offsets=offsets,
        number=rng.permutation(len(sizes)).astype(np.int64),
        users=rng.integers(0, users, size=len(sizes)).astype(np.int32) if users else np.zeros(0, np.int32),
        category=category,
        basket=basket,
        start=start,
        stop=stop,
    )


def make_draws(shard: Shard, *, observed: bool = False, seed: int = 7) -> Draws:
    items = len(shard.category)
    counts = np.bincount(shard.items, minlength=items) + 1.0
    known, owned = EMPTY, EMPTY
    if observed:
        known = kernel_draws.new_filter(1000)
        kernel_draws.add_pairs(known, shard.items, shard.offsets)
        if len(shard.users):
            owned = kernel_draws.new_filter(1000)
            kernel_draws.add_owned(owned, shard.users, shard.items, shard.offsets)
    return Draws(np.uint64(seed), kernel_draws.alias_table(counts**0.75), known, owned)


def make_table(rows: int, dim: int, *, seed: int = 1, scale: float = 0.5) -> Table:
    rng = np.random.default_rng(seed)
    table = new_table(rows, dim)
    vector(table, dim)[:] = rng.normal(size=(rows, dim)) * scale
    tail(table, dim, LOG_VARIANCE)[:] = rng.normal(size=rows) * 0.3
    return table


def make_tables(case: Case, items: int, dim: int) -> tuple[Table, ...]:
    sizes = [USERS if name == "users" else items for name in case.tables]
    return tuple(make_table(size, dim, seed=n) for n, size in enumerate(sizes))


def train(
    case: Case, shard: Shard, draws: Draws, settings: KernelSettings, *, compiled: bool, threads: int = 1
) -> tuple[tuple[Table, ...], StepStats]:
    """The tables and the stats after one pass, of the compiled kernel or of the reference."""
    tables = make_tables(case, len(shard.category), settings.dim)
    function = kernel(case.name) if compiled else getattr(reference, case.name)
    stats = function(KernelInput(tables, shard, draws, settings), 0, len(shard.start), threads)
    for table in tables:
        tail(table, settings.dim, VISITOR)[:] = 0  # the quick kernels' own note
    return tables, stats


def assert_equal_arrays(one: Model, other: Model, *, users: bool = True) -> None:
    """Two models have the same arrays, to the bit."""
    expected, found = one.arrays(users=users), other.arrays(users=users)
    assert expected.keys() == found.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
