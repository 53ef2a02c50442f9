"""The compiled kernels do what the reference says, in every mode and in odd shapes."""

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
    train,
)
from neatrec.models.embeddings.kernels.arguments import (
    Draws,
    KernelInput,
    KernelSettings,
    TrainingVisit,
)
from neatrec.models.embeddings.kernels.dispatch import kernel
from neatrec.models.embeddings.kernels.layout import Table, width

SIZES = [6, 2, 5, 1, 4]
EVERY_KERNEL = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))


def assert_equal_to_the_reference(
    case: Case, visit: TrainingVisit, draws: Draws, settings: KernelSettings
) -> None:
    """Of so many items that no negative is drawn twice in a basket."""
    wanted, seen = train(case, visit, draws, settings, device="reference", users=MANY_USERS)
    found, stats = train(case, visit, draws, settings, users=MANY_USERS)
    assert seen.pairs > 0
    assert stats.pairs == seen.pairs
    assert stats.active == seen.active
    assert stats.loss == pytest.approx(seen.loss, rel=1e-4)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=3e-4, atol=3e-5)


@EVERY_KERNEL
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"shared": False, "negatives": 2},
        {"window": 9, "negatives": 11, "margin": 3.0},
        {"adagrad": False, "rate": 0.01, "last_rate": 0.005},
    ],
    ids=["usual", "fresh", "wide", "plain descent"],
)
def test_a_kernel_equals_the_reference(case: Case, changes: dict[str, Any]) -> None:
    visit = make_visit(SIZES, 60_000, users=case.users)
    settings = SETTINGS._replace(**changes)
    assert_equal_to_the_reference(case, visit, make_draws(visit), settings)


@pytest.mark.parametrize("dim", [1, 130])
def test_odd_dims_equal_the_reference(dim: int) -> None:
    visit = make_visit(SIZES, 60_000)
    settings = SETTINGS._replace(dim=dim)
    assert_equal_to_the_reference(CASES["neat"], visit, make_draws(visit), settings)


@EVERY_KERNEL
def test_refused_negatives_are_those_of_the_reference(case: Case) -> None:
    visit = make_visit([5, 2, 6, 4], 60_000, users=case.users)
    assert_equal_to_the_reference(case, visit, make_draws(visit, observed=True), SETTINGS)


def test_both_ranking_losses_equal_the_reference() -> None:
    case = CASES["neat_bpr"]
    visit = make_visit(SIZES, 60_000, users=case.users)
    settings = SETTINGS._replace(logistic=True)
    assert_equal_to_the_reference(case, visit, make_draws(visit), settings)


@EVERY_KERNEL
def test_long_baskets_are_cut_and_lose_no_pair(case: Case) -> None:
    visit = make_visit([600, 2], 20_000, categories=1000, users=case.users)
    assert len(visit.start) == 4
    settings = SETTINGS._replace(negatives=1, rate=1e-5, last_rate=1e-5)  # negatives repeat
    assert_equal_to_the_reference(case, visit, make_draws(visit), settings)


@EVERY_KERNEL
def test_one_thread_gives_the_same_bits_every_time(case: Case) -> None:
    visit = make_visit(SIZES * 20, 60, users=case.users)
    (one, stats), (other, again) = (
        train(case, visit, make_draws(visit), SETTINGS) for _ in range(2)
    )
    assert stats == again
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


@EVERY_KERNEL
def test_threads_side_by_side_see_every_pair_and_learn(case: Case) -> None:
    """What was learned is compared, not what the pass cost: that hangs on which thread was stopped in the middle."""
    sizes = np.random.default_rng(3).integers(2, 15, size=400).tolist()
    visit = make_visit(sizes, 60, users=case.users)
    draws, looking = make_draws(visit), SETTINGS._replace(rate=0.0, last_rate=0.0)

    def loss(tables: tuple[Table, ...]) -> float:
        data = KernelInput(tables, visit, draws, looking)
        return kernel(case.name)(data, 0, len(visit.start), 1).loss

    by_one, alone = train(case, visit, draws, SETTINGS)
    by_three, several = train(case, visit, draws, SETTINGS, threads=3)
    assert several.pairs == alone.pairs
    start = loss(make_tables(case, 60, SETTINGS.dim))
    assert start - loss(by_three) > 0.5 * (start - loss(by_one)) > 0


@EVERY_KERNEL
def test_a_second_pass_costs_less(case: Case) -> None:
    visit = make_visit([8] * 60, 200, users=case.users)
    data = KernelInput(make_tables(case, 200, SETTINGS.dim), visit, make_draws(visit), SETTINGS)
    losses = [kernel(case.name)(data, 0, 60, 1).loss for _ in range(4)]
    assert losses[-1] < 0.8 * losses[0]


@EVERY_KERNEL
def test_padding_stays_zero(case: Case) -> None:
    visit = make_visit(SIZES, 40, users=case.users)
    tables, _ = train(case, visit, make_draws(visit), SETTINGS)
    for table in tables:
        assert not table[:, 10 : width(10)].any()
        assert not table[:, width(10) + 3 :].any()


@EVERY_KERNEL
def test_no_units_no_pairs(case: Case) -> None:
    visit = make_visit([1, 1], 3, users=case.users)
    assert train(case, visit, make_draws(visit), SETTINGS)[1] == (0, 0.0, 0)


@EVERY_KERNEL
def test_a_basket_that_holds_every_item_has_no_negatives(case: Case) -> None:
    visit = make_visit([6], 6, categories=1000, users=case.users)
    assert_equal_to_the_reference(case, visit, make_draws(visit), SETTINGS)
