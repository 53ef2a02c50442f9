"""Work on slices of rows by several threads, and the limit on BLAS threads."""

import numpy as np
import pytest
import threadpoolctl

from helpers.toyshop import toy_baskets
from neatrec.memory import one_blas_thread
from neatrec.models import Run, make_model, parallel, vectors
from neatrec.models.odds import features
from neatrec.models.parallel import parallel_slices
from neatrec.models.statistics import Pop


@pytest.fixture
def three_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "available_processors", lambda: 3)


@pytest.mark.usefixtures("three_cores")
@pytest.mark.parametrize(("threads", "expected"), [(None, 3), (1, 1), (2, 2)])
def test_a_fit_keeps_to_its_threads(
    threads: int | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[slice] = []
    monkeypatch.setattr(Pop, "_fit", lambda self, baskets, run: parallel_slices(10, found.append))
    make_model("pop").fit(toy_baskets(), Run(rng=0, threads=threads))
    assert len(found) == expected


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
