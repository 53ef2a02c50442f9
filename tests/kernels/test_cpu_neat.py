"""The compiled NEAT kernel does what the reference says, in every mode and in odd shapes."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_cases import SETTINGS, change, make_draws, make_shard, make_table

from neatrec.kernels import cpu_neat, reference
from neatrec.kernels.layout import VISITOR, tail, width

SIZES = [6, 2, 9, 1, 4, 7, 3]


def both(shard, draws, settings, *, items, threads=1, seed=1):
    """The tables and tallies of the reference and of the compiled kernel."""
    units = len(shard.start)
    out = []
    for kernel in (reference.neat, cpu_neat.neat):
        table = make_table(items, settings.dim, seed=seed)
        tally = kernel((table,), shard, draws, settings, 0, units, threads)
        tail(table, settings.dim, VISITOR)[:] = 0  # the quick kernel's own note
        out.append((table, tally))
    return out


def assert_equal(wanted, found):
    assert found[1].pairs == wanted[1].pairs
    assert found[1].active == wanted[1].active
    assert found[1].loss == pytest.approx(wanted[1].loss, rel=1e-4)
    np.testing.assert_allclose(found[0], wanted[0], rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("dim", [1, 7, 8, 10, 100, 130])
def test_at_once_equals_the_reference_at_odd_dims(dim: int) -> None:
    shard = make_shard(SIZES, 3000)
    wanted, found = both(shard, make_draws(shard), change(SETTINGS, dim=dim), items=3000)
    assert_equal(wanted, found)
    assert wanted[1].active > 0


@pytest.mark.parametrize(
    "changes",
    [
        {"shared": False},
        {"window": 1},
        {"window": 9},
        {"negatives": 1},
        {"negatives": 11},
        {"margin": 5.0},
        {"variance_rate": 0.0},
    ],
)
def test_at_once_equals_the_reference_for_other_settings(changes) -> None:
    # so many items that no negative is drawn twice in a basket
    shard = make_shard(SIZES[:2], 50_000) if changes.keys() & {"shared", "negatives"} else make_shard(SIZES, 3000)
    assert_equal(*both(shard, make_draws(shard), change(SETTINGS, **changes), items=len(shard.category)))


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize("block", [1, 3, 100])
def test_blocks_equal_the_reference_on_few_items(block: int, observed: bool, shared: bool) -> None:
    shard = make_shard(SIZES, 25)
    settings = change(SETTINGS, block=block, shared=shared)
    assert_equal(*both(shard, make_draws(shard, observed=observed), settings, items=25))


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("batch", [1, 7, 64])
def test_batches_equal_the_reference(batch: int, average: bool) -> None:
    shard = make_shard(SIZES, 25)
    settings = change(SETTINGS, batch=batch, average=average, shared=False, rate=0.01, last_rate=0.005)
    assert_equal(*both(shard, make_draws(shard, observed=True), settings, items=25))


@pytest.mark.parametrize("shared", [True, False])
def test_long_baskets_are_cut_and_lose_no_pair(shared: bool) -> None:
    shard = make_shard([600, 2], 3000, categories=1000)
    settings = change(SETTINGS, dim=8, shared=shared, window=2, negatives=2, block=2)
    wanted, found = both(shard, make_draws(shard), settings, items=3000)
    assert found[1].pairs == wanted[1].pairs > 2 * 2 * 600 - 30
    assert_equal(wanted, found)
    (_, quick) = both(shard, make_draws(shard), change(settings, block=0), items=3000)
    assert quick[1].pairs == wanted[1].pairs


@pytest.mark.parametrize("block", [0, 2])
def test_rate_zero_changes_nothing(block: int) -> None:
    shard = make_shard(SIZES, 40)
    settings = change(SETTINGS, rate=0.0, last_rate=0.0, block=2)
    (_, wanted), (table, tally) = both(shard, make_draws(shard), settings, items=40)
    np.testing.assert_array_equal(table, make_table(40, SETTINGS.dim))
    assert tally.loss == pytest.approx(wanted.loss, rel=1e-4)


@pytest.mark.parametrize("threads", [2, 3, 5])
def test_blocks_give_the_same_bits_at_any_number_of_threads(threads: int) -> None:
    rng = np.random.default_rng(3)
    shard = make_shard(rng.integers(2, 15, size=400).tolist(), 60)
    settings, draws = change(SETTINGS, block=16), make_draws(shard)
    tables, tallies = [], []
    for count in (1, threads):
        table = make_table(60, settings.dim)
        tallies.append(cpu_neat.neat((table,), shard, draws, settings, 0, len(shard.start), count))
        tables.append(table)
    np.testing.assert_array_equal(tables[0], tables[1])
    assert tallies[0] == tallies[1]


def test_padding_stays_zero() -> None:
    shard = make_shard(SIZES, 40)
    for block in (0, 2):
        table = make_table(40, 10)
        cpu_neat.neat((table,), shard, make_draws(shard), change(SETTINGS, block=block), 0, len(shard.start))
        assert not table[:, 10 : width(10)].any()
        assert not table[:, width(10) + 4 :].any()


def test_an_item_alone_in_a_unit_with_one_item_catalogue_does_no_harm() -> None:
    shard = make_shard([1], 1)
    table = make_table(1, 10)
    assert cpu_neat.neat((table,), shard, make_draws(shard), SETTINGS, 0, 0).pairs == 0


def test_when_every_item_is_in_the_basket_there_are_no_negatives() -> None:
    shard = make_shard([6], 6, categories=1000)
    for block in (0, 1):
        wanted, found = both(shard, make_draws(shard), change(SETTINGS, block=block), items=6)
        assert found[1].active == 0
        assert found[1].pairs == wanted[1].pairs > 0
        np.testing.assert_array_equal(found[0], make_table(6, SETTINGS.dim))
