"""The compiled kernels compute what the reference states, in every mode and in odd shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers.kernel_cases import (
    CASES,
    SETTINGS,
    Case,
    assert_equal_to_the_reference,
    make_draws,
    make_tables,
    make_visit,
    train,
)
from neatrec.models.embeddings.kernels.arguments import KernelInput, Table, width
from neatrec.models.embeddings.kernels.dispatch import kernel

SIZES = [6, 2, 5, 1, 4]
EVERY_KERNEL = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
MODES: dict[str, dict[str, Any]] = {
    "usual": {},
    "fresh negatives": {"shared": False, "negatives": 2},
    "wide": {"window": 9, "negatives": 11, "margin": 3.0},
    "sgd": {"adagrad": False, "rate": 0.01, "last_rate": 0.005},
}


@EVERY_KERNEL
@pytest.mark.parametrize("mode", MODES)
def test_a_kernel_equals_the_reference(case: Case, mode: str) -> None:
    visit = make_visit(SIZES, 60_000, users=case.users)
    settings = SETTINGS._replace(**MODES[mode])
    assert_equal_to_the_reference(case, visit, make_draws(visit), settings)


@EVERY_KERNEL
def test_refused_negatives_are_those_of_the_reference(case: Case) -> None:
    visit = make_visit([5, 2, 6, 4], 60_000, users=case.users)
    assert_equal_to_the_reference(case, visit, make_draws(visit, observed=True), SETTINGS)
    every_item = make_visit([6], 6, categories=1000, users=case.users)  # none is left to draw
    assert_equal_to_the_reference(case, every_item, make_draws(every_item), SETTINGS)


@pytest.mark.parametrize(
    ("name", "changes"),
    [("neat", {"dim": 1}), ("neat", {"dim": 130}), ("neat_bpr", {"logistic": True})],
)
def test_odd_dims_and_the_other_ranking_loss_equal_the_reference(
    name: str, changes: dict[str, Any]
) -> None:
    visit = make_visit(SIZES, 60_000, users=CASES[name].users)
    settings = SETTINGS._replace(**changes)
    assert_equal_to_the_reference(CASES[name], visit, make_draws(visit), settings)


@EVERY_KERNEL
def test_long_baskets_are_cut_and_lose_no_pair(case: Case) -> None:
    visit = make_visit([600, 2], 20_000, categories=1000, users=case.users)
    assert len(visit.start) == 4
    settings = SETTINGS._replace(negatives=1, rate=1e-5, last_rate=1e-5)  # negatives repeat
    assert_equal_to_the_reference(case, visit, make_draws(visit), settings)


@EVERY_KERNEL
def test_one_thread_gives_the_same_bits_every_time_and_zeros_as_padding(case: Case) -> None:
    visit = make_visit(SIZES * 20, 60, users=case.users)
    (one, stats), (other, again) = (
        train(case, visit, make_draws(visit), SETTINGS) for _ in range(2)
    )
    assert stats == again
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)
        assert not a[:, 10 : width(10)].any()
        assert not a[:, width(10) + 3 :].any()
    nothing = make_visit([1, 1], 3, users=case.users)
    assert train(case, nothing, make_draws(nothing), SETTINGS)[1] == (0, 0.0, 0)


@EVERY_KERNEL
def test_several_threads_see_every_pair_and_learn(case: Case) -> None:
    """Losses are compared after the pass: that of the pass depends on how threads interleave."""
    sizes = np.random.default_rng(3).integers(2, 15, size=400).tolist()
    visit = make_visit(sizes, 60, users=case.users)
    draws, still = make_draws(visit), SETTINGS._replace(rate=0.0, last_rate=0.0)

    def loss(tables: tuple[Table, ...]) -> float:
        data = KernelInput(tables, visit, draws, still)
        return kernel(case.name)(data, 0, len(visit.start), 1).loss

    by_one, alone = train(case, visit, draws, SETTINGS)
    by_three, several = train(case, visit, draws, SETTINGS, threads=3)
    assert several.pairs == alone.pairs
    start = loss(make_tables(case, 60, SETTINGS.dim))
    assert start - loss(by_three) > 0.5 * (start - loss(by_one)) > 0
