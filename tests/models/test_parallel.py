"""Work on slices of rows by several threads, and the limit on BLAS threads."""

from typing import Any

import numpy as np
import pytest
import threadpoolctl

from helpers.toyshop import toy_baskets
from neatrec import memory
from neatrec.memory import one_blas_thread, parallel_slices
from neatrec.models import Run, make_model, vectors
from neatrec.models.odds import features


@pytest.fixture
def three_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_processors", lambda: 3)


@pytest.mark.usefixtures("three_cores")
@pytest.mark.parametrize(("threads", "expected"), [(None, 3), (1, 1), (2, 2)])
def test_no_more_threads_than_the_caller_allows(threads: int | None, expected: int) -> None:
    found: list[slice] = []
    parallel_slices(10, found.append, threads)
    assert len(found) == expected


@pytest.mark.parametrize("name", ["cf", "odds"])
def test_a_fitted_model_scores_with_the_threads_of_its_fit(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted = make_model(name, {"epochs": 1} if name == "cf" else {}).fit(
        toy_baskets(), Run(rng=0, threads=2)
    )
    used: list[int | None] = []

    def note(rows: int, work: Any, threads: int | None = None, *, min_rows: int = 1) -> None:
        used.append(threads)
        parallel_slices(rows, work, threads, min_rows=min_rows)

    for module in (vectors, features):
        monkeypatch.setattr(module, "parallel_slices", note)
    fitted.score([0, 1], [2, 3])
    fitted.score_all([0])
    assert set(used) == {2}


@pytest.mark.usefixtures("three_cores")
def test_pairs_of_odds_score_the_same_at_any_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fitted = make_model("odds").fit(toy_baskets(), Run(rng=0))
    queries, items = np.random.default_rng(2).integers(0, len(fitted.catalog), (2, 60))
    alone = fitted.score(queries, items)
    monkeypatch.setattr(features, "MIN_PAIRS_PER_THREAD", 9)
    monkeypatch.setattr(vectors, "MIN_PAIRS_PER_THREAD", 9)
    np.testing.assert_array_equal(fitted.score(queries, items), alone)


def blas_threads() -> list[int]:
    return [
        pool["num_threads"]
        for pool in threadpoolctl.threadpool_info()
        if pool["user_api"] == "blas"
    ]


def test_overlapping_blocks_hold_the_blas_limit_until_the_last_ends() -> None:
    with threadpoolctl.threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        one, other = one_blas_thread(), one_blas_thread()
        one.__enter__()
        other.__enter__()
        one.__exit__(None, None, None)
        assert set(blas_threads()) == {1}
        other.__exit__(None, None, None)
        assert blas_threads() == before
