"""The GPU kernels do what the reference says: unit by unit exactly, thousands at once in what they learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers.gpu_cases import assert_equal_to_the_reference, large_tables, needs_gpu, one_by_one
from helpers.kernel_cases import CASES, SETTINGS, Case, make_draws, make_shard, make_tables
from neatrec.errors import ParameterError
from neatrec.models.embeddings.kernels import reference
from neatrec.models.embeddings.kernels.arguments import KernelInput
from neatrec.models.embeddings.kernels.dispatch import kernel
from neatrec.models.embeddings.kernels.gpu_call import to_gpu
from neatrec.models.embeddings.kernels.layout import LOG_VARIANCE, tail, width

pytestmark = needs_gpu

SIZES = [6, 2, 9, 1, 4, 7, 3]
GPU_CASES = list(CASES.values())
EVERY_KERNEL = pytest.mark.parametrize("case", GPU_CASES, ids=lambda case: case.name)


@EVERY_KERNEL
@pytest.mark.parametrize("shared", [True, False])
def test_units_one_by_one_equal_the_reference(case: Case, shared: bool) -> None:
    shard = make_shard([4, 2, 1, 5, 3], 200_000, users=case.users)
    settings = SETTINGS._replace(shared=shared, negatives=5 if shared else 2)
    assert_equal_to_the_reference(case, shard, make_draws(shard), settings)


@EVERY_KERNEL
@pytest.mark.parametrize("dim", [1, 3, 100, 130, 512])
def test_odd_and_large_dims_equal_the_reference(case: Case, dim: int) -> None:
    shard = make_shard([4, 2, 1, 5], 20_000, users=case.users, seed=dim)
    assert_equal_to_the_reference(case, shard, make_draws(shard), SETTINGS._replace(dim=dim, negatives=2))


@EVERY_KERNEL
@pytest.mark.parametrize(
    "changes",
    [{"window": 1, "negatives": 1}, {"window": 9, "negatives": 11, "margin": 3.0}, {"window": 16, "negatives": 32}],
    ids=["narrow", "wide", "widest"],
)
def test_windows_and_numbers_of_negatives_equal_the_reference(case: Case, changes: dict[str, Any]) -> None:
    shard = make_shard([4, 2, 3], 400_000, users=case.users)
    assert_equal_to_the_reference(case, shard, make_draws(shard), SETTINGS._replace(**changes))


@EVERY_KERNEL
def test_negatives_that_were_observed_or_bought_are_refused_as_in_the_reference(case: Case) -> None:
    shard = make_shard([5, 4, 6], 30_000, users=case.users)
    assert_equal_to_the_reference(case, shard, make_draws(shard, observed=True), SETTINGS._replace(negatives=2))


@pytest.mark.parametrize("logistic", [True, False])
def test_both_ranking_losses_equal_the_reference(logistic: bool) -> None:
    case = CASES["neat_bpr"]
    shard = make_shard([4, 2, 5], 100_000, users=case.users)
    assert_equal_to_the_reference(case, shard, make_draws(shard), SETTINGS._replace(logistic=logistic))


@EVERY_KERNEL
def test_long_baskets_are_cut_and_lose_no_pair(case: Case) -> None:
    shard = make_shard([300, 2], 400_000, categories=1000, users=case.users)
    assert len(shard.start) == 3
    settings = SETTINGS._replace(negatives=1, rate=0.01, last_rate=0.01)
    assert_equal_to_the_reference(case, shard, make_draws(shard), settings)


@EVERY_KERNEL
def test_a_basket_that_holds_every_item_has_no_negatives(case: Case) -> None:
    shard = make_shard([6], 6, categories=1000, users=case.users)
    assert_equal_to_the_reference(case, shard, make_draws(shard), SETTINGS)


@EVERY_KERNEL
def test_one_item_baskets_of_one_and_one_category_make_no_pairs(case: Case) -> None:
    alone = make_shard([1, 1], 1, users=case.users)
    same = make_shard([3, 2], 4, users=case.users)._replace(category=np.zeros(4, np.int32))
    for shard in (alone, same):
        tables = make_tables(case, len(shard.category), SETTINGS.dim)
        before = [table.copy() for table in tables]
        stats = kernel(case.name, "gpu")(
            KernelInput(tables, shard, make_draws(shard), SETTINGS), 0, len(shard.start), 1
        )
        assert stats == (0, 0.0, 0)
        for found, start in zip(tables, before, strict=True):
            np.testing.assert_array_equal(found, start)


@EVERY_KERNEL
def test_rate_zero_changes_nothing(case: Case) -> None:
    shard = make_shard(SIZES, 5_000, users=case.users)
    settings = SETTINGS._replace(rate=0.0, last_rate=0.0)
    tables = large_tables(case, 5_000, settings.dim)
    stats = kernel(case.name, "gpu")(KernelInput(tables, shard, make_draws(shard), settings), 0, len(shard.start), 1)
    for found, start in zip(tables, large_tables(case, 5_000, settings.dim), strict=True):
        np.testing.assert_array_equal(found, start)
    wanted = one_by_one(case, "reference", tables, shard, make_draws(shard), settings)
    assert stats.pairs == wanted.pairs
    assert stats.loss == pytest.approx(wanted.loss, rel=1e-4)


@EVERY_KERNEL
def test_thousands_of_units_at_once_see_every_pair_and_learn_as_much(case: Case) -> None:
    sizes = np.random.default_rng(3).integers(2, 15, size=3_000).tolist()
    shard = make_shard(sizes, 300, users=case.users)
    draws = make_draws(shard)
    together, in_turn = (to_gpu(make_tables(case, 300, SETTINGS.dim)) for _ in range(2))
    for epoch in range(3):
        several = kernel(case.name, "gpu")(KernelInput(together, shard, draws, SETTINGS), 0, len(shard.start), 1)
        alone = one_by_one(case, "gpu", in_turn, shard, draws, SETTINGS)
        assert several.pairs == alone.pairs
        assert several.loss == pytest.approx(alone.loss, rel=0.15 if epoch == 0 else 0.07)


@EVERY_KERNEL
@pytest.mark.parametrize("negatives", [5, 10])
def test_a_small_shop_at_its_start_learns_as_the_reference_does(case: Case, negatives: int) -> None:
    """Negatives repeat within a basket, and steps are at their longest: sums of squares are zero."""
    shard = make_shard([6, 3, 5, 2, 7, 4] * 10, 22, users=case.users)
    draws, settings = make_draws(shard), SETTINGS._replace(negatives=negatives, rate=0.3)
    found, wanted = (make_tables(case, 22, SETTINGS.dim) for _ in range(2))
    for _ in range(2):
        seen = kernel(case.name, "gpu")(KernelInput(found, shard, draws, settings), 0, len(shard.start), 1)
        expected = getattr(reference, case.name)(KernelInput(wanted, shard, draws, settings), 0, len(shard.start))
        assert seen.pairs == expected.pairs
        assert expected.loss / 2 < seen.loss < expected.loss * 2  # one that runs away is out by a hundred


@EVERY_KERNEL
def test_padding_stays_zero_and_variances_inside_their_bounds(case: Case) -> None:
    shard = make_shard([12] * 3_000, 40, users=case.users)
    tables = make_tables(case, 40, SETTINGS.dim)
    settings = SETTINGS._replace(low=-0.5, high=0.5, variance_rate=3.0)
    kernel(case.name, "gpu")(KernelInput(tables, shard, make_draws(shard), settings), 0, len(shard.start), 1)
    for table in tables:
        assert not table[:, 10 : width(10)].any()
        assert not table[:, width(10) + 3 :].any()
    if case.name.startswith("neat"):
        assert np.abs(tail(tables[0], 10, LOG_VARIANCE)).max() <= 0.5


@EVERY_KERNEL
def test_a_part_of_a_shard_can_be_trained_on(case: Case) -> None:
    shard = make_shard(SIZES, 30_000, users=case.users)
    draws = make_draws(shard)
    settings = SETTINGS._replace(rate=0.0, last_rate=0.0)
    function, tables = kernel(case.name, "gpu"), make_tables(case, 30_000, SETTINGS.dim)
    data = KernelInput(tables, shard, draws, settings)
    whole = function(data, 0, 6, 1)
    parts = [function(data, *span, 1) for span in ((0, 2), (2, 2), (2, 6))]
    assert sum(part.pairs for part in parts) == whole.pairs
    assert sum(part.loss for part in parts) == pytest.approx(whole.loss, rel=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch": 8}, "`optimizer` must be adagrad on device gpu"),
        ({"block": 64}, "`reproducible` must be false on device gpu"),
        ({"window": 17}, "`window` must be at most 16 on device gpu, got 17"),
        ({"negatives": 33}, "`negatives` must be at most 32 on device gpu, got 33"),
        ({"dim": 4096, "window": 16}, "`window` must be smaller at dim 4096 on device gpu"),
    ],
)
def test_what_a_gpu_cannot_do_is_refused(changes: dict[str, Any], message: str) -> None:
    shard = make_shard([3], 10)
    settings = SETTINGS._replace(**changes)
    tables = make_tables(CASES["neat"], 10, settings.dim)
    with pytest.raises(ParameterError, match=message):
        kernel("neat", "gpu")(KernelInput(tables, shard, make_draws(shard), settings), 0, 1, 1)
