"""The GPU kernels do what the reference says: unit by unit exactly, thousands at once in what they learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers.gpu_cases import (
    assert_equal_to_the_reference,
    needs_gpu,
    one_by_one,
    train_on_gpu,
)
from helpers.kernel_cases import CASES, SETTINGS, Case, make_draws, make_tables, make_visit
from neatrec.errors import ParameterError
from neatrec.models.embeddings.kernels.arguments import KernelInput
from neatrec.models.embeddings.kernels.dispatch import kernel
from neatrec.models.embeddings.kernels.gpu_call import prepare
from neatrec.models.embeddings.kernels.layout import LOG_VARIANCE, tail, width

pytestmark = needs_gpu

EVERY_KERNEL = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))


@EVERY_KERNEL
@pytest.mark.parametrize("shared", [True, False])
def test_units_one_by_one_equal_the_reference(case: Case, shared: bool) -> None:
    visit = make_visit([4, 2, 1, 5, 3], 200_000, users=case.users)
    settings = SETTINGS._replace(shared=shared, negatives=5 if shared else 2)
    assert_equal_to_the_reference(case, visit, make_draws(visit), settings)


@EVERY_KERNEL
@pytest.mark.parametrize("dim", [1, 3, 100, 130, 512])
def test_odd_and_large_dims_equal_the_reference(case: Case, dim: int) -> None:
    visit = make_visit([4, 2, 1, 5], 20_000, users=case.users, seed=dim)
    assert_equal_to_the_reference(
        case, visit, make_draws(visit), SETTINGS._replace(dim=dim, negatives=2)
    )


@EVERY_KERNEL
@pytest.mark.parametrize(
    "changes",
    [
        {"window": 1, "negatives": 1},
        {"window": 9, "negatives": 11, "margin": 3.0},
        {"window": 16, "negatives": 32},
    ],
    ids=["narrow", "wide", "widest"],
)
def test_windows_and_numbers_of_negatives_equal_the_reference(
    case: Case, changes: dict[str, Any]
) -> None:
    visit = make_visit([4, 2, 3], 400_000, users=case.users)
    assert_equal_to_the_reference(case, visit, make_draws(visit), SETTINGS._replace(**changes))


@EVERY_KERNEL
def test_negatives_that_were_observed_or_bought_are_refused_as_in_the_reference(case: Case) -> None:
    visit = make_visit([5, 4, 6], 30_000, users=case.users)
    assert_equal_to_the_reference(
        case, visit, make_draws(visit, observed=True), SETTINGS._replace(negatives=2)
    )


@pytest.mark.parametrize("logistic", [True, False])
def test_both_ranking_losses_equal_the_reference(logistic: bool) -> None:
    case = CASES["neat_bpr"]
    visit = make_visit([4, 2, 5], 100_000, users=case.users)
    assert_equal_to_the_reference(
        case, visit, make_draws(visit), SETTINGS._replace(logistic=logistic)
    )


@EVERY_KERNEL
def test_long_baskets_are_cut_and_lose_no_pair(case: Case) -> None:
    visit = make_visit([300, 2], 400_000, categories=1000, users=case.users)
    assert len(visit.start) == 3
    settings = SETTINGS._replace(negatives=1, rate=0.01, last_rate=0.01)
    assert_equal_to_the_reference(case, visit, make_draws(visit), settings)


@EVERY_KERNEL
def test_a_basket_that_holds_every_item_has_no_negatives(case: Case) -> None:
    visit = make_visit([6], 6, categories=1000, users=case.users)
    assert_equal_to_the_reference(case, visit, make_draws(visit), SETTINGS)


@EVERY_KERNEL
def test_one_item_baskets_of_one_and_one_category_make_no_pairs(case: Case) -> None:
    alone = make_visit([1, 1], 1, users=case.users)
    same = make_visit([3, 2], 4, users=case.users)._replace(category=np.zeros(4, np.int32))
    for visit in (alone, same):
        tables = make_tables(case, len(visit.category), SETTINGS.dim)
        before = [table.copy() for table in tables]
        stats = train_on_gpu(case, KernelInput(tables, visit, make_draws(visit), SETTINGS))
        assert stats == (0, 0.0, 0)
        for found, start in zip(tables, before, strict=True):
            np.testing.assert_array_equal(found, start)


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
    """Negatives repeat within a basket, and steps are at their longest: sums of squares are zero."""
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


@EVERY_KERNEL
def test_padding_stays_zero_and_variances_inside_their_bounds(case: Case) -> None:
    visit = make_visit([12] * 3_000, 40, users=case.users)
    tables = make_tables(case, 40, SETTINGS.dim)
    settings = SETTINGS._replace(low=-0.5, high=0.5, variance_rate=3.0)
    train_on_gpu(case, KernelInput(tables, visit, make_draws(visit), settings))
    for table in tables:
        assert not table[:, 10 : width(10)].any()
        assert not table[:, width(10) + 3 :].any()
    if case.name.startswith("neat"):
        assert np.abs(tail(tables[0], 10, LOG_VARIANCE)).max() <= 0.5


def test_a_window_of_vectors_that_is_too_large_is_refused() -> None:
    with pytest.raises(ParameterError, match="`window` must be smaller at dim 4096 on device gpu"):
        prepare("neat", SETTINGS._replace(dim=4096, window=16))
