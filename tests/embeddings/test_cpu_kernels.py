"""The compiled kernels do what the reference says, in every mode and in odd shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers.kernel_cases import CASES, SETTINGS, Case, make_draws, make_shard, make_tables, train
from neatrec.models.embeddings.kernels import cpu_rows
from neatrec.models.embeddings.kernels.arguments import Draws, KernelInput, KernelSettings, Shard
from neatrec.models.embeddings.kernels.dispatch import kernel
from neatrec.models.embeddings.kernels.layout import Table, chunks, width

SIZES = [6, 2, 9, 1, 4, 7, 3]
EVERY_KERNEL = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
QUICK_KERNELS = pytest.mark.parametrize("case", [c for c in CASES.values() if c.quick], ids=lambda case: case.name)


def assert_equal_to_the_reference(case: Case, shard: Shard, draws: Draws, settings: KernelSettings) -> None:
    wanted, seen = train(case, shard, draws, settings, compiled=False)
    found, stats = train(case, shard, draws, settings, compiled=True)
    assert seen.pairs > 0
    assert stats.pairs == seen.pairs
    assert stats.active == seen.active
    assert stats.loss == pytest.approx(seen.loss, rel=1e-4)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=3e-4, atol=3e-5)


@EVERY_KERNEL
def test_at_once_equals_the_reference(case: Case) -> None:
    # so many items that no negative is drawn twice in a basket
    shard = make_shard(SIZES, 30_000, users=case.users)
    assert_equal_to_the_reference(case, shard, make_draws(shard), SETTINGS)


@pytest.mark.parametrize("dim", [1, 130])
def test_at_once_equals_the_reference_at_odd_dims(dim: int) -> None:
    shard = make_shard(SIZES, 30_000)
    assert_equal_to_the_reference(CASES["neat"], shard, make_draws(shard), SETTINGS._replace(dim=dim))


@QUICK_KERNELS
def test_at_once_equals_the_reference_with_negatives_of_their_own(case: Case) -> None:
    shard = make_shard([5, 2, 4], 60_000, users=case.users)
    assert_equal_to_the_reference(case, shard, make_draws(shard), SETTINGS._replace(shared=False))


@QUICK_KERNELS
def test_at_once_equals_the_reference_with_a_wide_window_and_many_negatives(case: Case) -> None:
    shard = make_shard([6, 3], 60_000)
    settings = SETTINGS._replace(window=9, negatives=11, margin=3.0)
    assert_equal_to_the_reference(case, shard, make_draws(shard), settings)


@EVERY_KERNEL
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize("block", [1, 3, 100])
def test_blocks_equal_the_reference_on_few_items(case: Case, block: int, observed: bool, shared: bool) -> None:
    shard = make_shard(SIZES, 25, users=case.users)
    settings = SETTINGS._replace(block=block, shared=shared)
    assert_equal_to_the_reference(case, shard, make_draws(shard, observed=observed), settings)


@EVERY_KERNEL
@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("batch", [1, 7, 64])
def test_batches_equal_the_reference(case: Case, batch: int, average: bool) -> None:
    shard = make_shard(SIZES, 25, users=case.users)
    settings = SETTINGS._replace(batch=batch, average=average, shared=False, rate=0.01, last_rate=0.005)
    assert_equal_to_the_reference(case, shard, make_draws(shard, observed=True), settings)


@EVERY_KERNEL
@pytest.mark.parametrize("shared", [True, False])
def test_long_baskets_are_cut_and_lose_no_pair(case: Case, shared: bool) -> None:
    shard = make_shard([600, 2], 3000, categories=1000, users=case.users)
    settings = SETTINGS._replace(shared=shared, block=2)
    assert len(shard.start) == 4
    assert_equal_to_the_reference(case, shard, make_draws(shard), settings)
    _, wanted = train(case, shard, make_draws(shard), settings, compiled=True)
    _, quick = train(case, shard, make_draws(shard), settings._replace(block=0), compiled=True)
    assert quick.pairs == wanted.pairs > 2 * 3 * 600 - 50


@EVERY_KERNEL
def test_rate_zero_changes_nothing(case: Case) -> None:
    shard = make_shard(SIZES, 40, users=case.users)
    settings = SETTINGS._replace(rate=0.0, last_rate=0.0, block=2)
    tables, stats = train(case, shard, make_draws(shard), settings, compiled=True)
    for found, start in zip(tables, make_tables(case, 40, settings.dim), strict=True):
        np.testing.assert_array_equal(found, start)
    _, wanted = train(case, shard, make_draws(shard), settings, compiled=False)
    assert stats.loss == pytest.approx(wanted.loss, rel=1e-4)


@EVERY_KERNEL
@pytest.mark.parametrize(("threads", "negatives", "window"), [(2, 5, 3), (5, 5, 3), (3, 20, 9), (3, 70, 2)])
def test_blocks_give_the_same_bits_at_any_number_of_threads(
    case: Case, threads: int, negatives: int, window: int
) -> None:
    """Also where loops over negatives and windows are long enough for vector registers."""
    sizes = np.random.default_rng(3).integers(2, 15, size=400).tolist()
    shard = make_shard(sizes, 60, users=case.users)
    settings, draws = SETTINGS._replace(block=16, negatives=negatives, window=window), make_draws(shard)
    wanted, seen = train(case, shard, draws, settings, compiled=True)
    found, stats = train(case, shard, draws, settings, compiled=True, threads=threads)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    assert stats == seen


@pytest.mark.parametrize("size", range(1, 13))
def test_rows_that_repeat_are_changed_one_after_the_other(size: int) -> None:
    """Five rows are worked on at a time: a row that is drawn twice must see its own change."""
    rng = np.random.default_rng(size)
    table, vector, gradient = (rng.normal(size=(rows, 16)).astype(np.float32) for rows in (3, 2, 2))
    rows = rng.integers(3, size=size)
    weights, steps = rng.normal(size=(2, size)).astype(np.float32)
    wanted, drawn = table.astype(np.float64), gradient[1].astype(np.float64)
    for row, weight, step in zip(rows, weights, steps, strict=True):
        drawn += weight * wanted[row]
        wanted[row] += step * vector[1]
    products, sums = np.zeros(size, np.float32), gradient.copy()
    cpu_rows.dots(products, vector, 1, table, rows, chunks(16))
    np.testing.assert_allclose(products, table[rows] @ vector[1], rtol=1e-4, atol=1e-5)
    squared = cpu_rows.add_rows(sums, 1, table, cpu_rows.RowWeights(rows, weights, size), chunks(16))
    added = gradient[1] + weights @ table[rows]
    np.testing.assert_allclose(sums[1], added, rtol=1e-4, atol=1e-4)
    assert squared == pytest.approx(added @ added, rel=1e-3)
    cpu_rows.exchange(table, rows, cpu_rows.Line(vector, gradient, 1), weights, steps, chunks(16))
    np.testing.assert_allclose(table, wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(gradient[1], drawn, rtol=1e-3, atol=1e-3)


def test_numbers_have_the_same_bits_alone_and_among_others() -> None:
    """Loops in vector registers and their scalar ends round alike: see `neatrec.compiled.FUSED`."""
    values = np.abs(np.random.default_rng(0).normal(scale=5, size=1_000)).astype(np.float32)
    for function in (cpu_rows.exponentials, cpu_rows.logarithms, lambda x: cpu_rows.sigmoids(x, x.copy())):
        whole = values.copy()
        function(whole)
        for piece in (1, 3, 7, 9, 17, 33, 70):
            found = values.copy()
            for first in range(0, len(found), piece):
                function(found[first : first + piece])
            np.testing.assert_array_equal(found, whole)


@EVERY_KERNEL
@pytest.mark.parametrize("changes", [{}, {"block": 2}, {"batch": 7, "shared": False}])
def test_sums_are_in_the_machine_code_of_the_loop_itself(case: Case, changes: dict[str, Any]) -> None:
    """Of a function that is called there are several copies; see `neatrec.compiled.RELAXED`."""
    shard = make_shard(SIZES, 25, users=case.users)
    train(case, shard, make_draws(shard), SETTINGS._replace(**changes), compiled=True)
    loops = [value for value in vars(kernel(case.name)).values() if hasattr(value, "overloads")]
    overloads = [overload for loop in loops for overload in loop.overloads.values()]
    assert overloads
    for overload in overloads:
        functions = overload.library._get_module_for_linking().functions
        found = [function.name for function in functions if " reassoc " in str(function)]
        assert found == [overload.fndesc.llvm_func_name]


@EVERY_KERNEL
def test_threads_side_by_side_see_every_pair_and_learn(case: Case) -> None:
    """What was learned is compared, not what the pass cost: that hangs on which thread was stopped in the middle."""
    sizes = np.random.default_rng(3).integers(2, 15, size=400).tolist()
    shard = make_shard(sizes, 60, users=case.users)
    draws, looking = make_draws(shard), SETTINGS._replace(rate=0.0, last_rate=0.0)

    def loss(tables: tuple[Table, ...]) -> float:
        return kernel(case.name)(KernelInput(tables, shard, draws, looking), 0, len(shard.start), 1).loss

    by_one, alone = train(case, shard, draws, SETTINGS, compiled=True)
    by_three, several = train(case, shard, draws, SETTINGS, compiled=True, threads=3)
    assert several.pairs == alone.pairs
    start = loss(make_tables(case, 60, SETTINGS.dim))
    assert start - loss(by_three) > 0.5 * (start - loss(by_one)) > 0


@EVERY_KERNEL
def test_a_second_pass_costs_less(case: Case) -> None:
    shard = make_shard([8] * 60, 200, users=case.users)
    tables, draws = make_tables(case, 200, SETTINGS.dim), make_draws(shard)
    losses = [kernel(case.name)(KernelInput(tables, shard, draws, SETTINGS), 0, 60, 1).loss for _ in range(4)]
    assert losses[-1] < 0.8 * losses[0]


@EVERY_KERNEL
@pytest.mark.parametrize("changes", [{}, {"block": 2}])
def test_padding_stays_zero(case: Case, changes: dict[str, Any]) -> None:
    shard = make_shard(SIZES, 40, users=case.users)
    tables, _ = train(case, shard, make_draws(shard), SETTINGS._replace(**changes), compiled=True)
    for table in tables:
        assert not table[:, 10 : width(10)].any()
        assert not table[:, width(10) + 3 :].any()


@EVERY_KERNEL
def test_no_units_no_pairs(case: Case) -> None:
    shard = make_shard([1, 1], 3, users=case.users)
    assert train(case, shard, make_draws(shard), SETTINGS, compiled=True)[1] == (0, 0.0, 0)


@EVERY_KERNEL
@pytest.mark.parametrize("block", [0, 1])
def test_a_basket_that_holds_every_item_has_no_negatives(case: Case, block: int) -> None:
    shard = make_shard([6], 6, categories=1000, users=case.users)
    settings = SETTINGS._replace(block=block)
    assert_equal_to_the_reference(case, shard, make_draws(shard), settings)
