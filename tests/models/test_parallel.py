"""Work on slices of rows by several threads, and the limit on BLAS threads."""

import numpy as np
import pytest
import threadpoolctl

from helpers.toyshop import toy_baskets
from neatrec.memory import one_blas_thread
from neatrec.models import Run, make_model, parallel, vectors
from neatrec.models.odds import features
from neatrec.models.parallel import parallel_slices, thread_limit
from neatrec.models.statistics import Pop
from neatrec.models.vectors import all_products, pair_products


@pytest.fixture
def three_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "available_processors", lambda: 3)


@pytest.mark.usefixtures("three_cores")
@pytest.mark.parametrize(
    ("rows", "min_rows", "expected"), [(10, 1, 3), (10, 4, 2), (3, 4, 1), (0, 1, 1), (2, 1, 2)]
)
def test_slices_cover_each_row_once(rows: int, min_rows: int, expected: int) -> None:
    found: list[slice] = []
    parallel_slices(rows, found.append, min_rows=min_rows)
    assert len(found) == expected
    assert sorted(row for part in found for row in range(part.start, part.stop)) == list(
        range(rows)
    )


@pytest.mark.usefixtures("three_cores")
def test_no_more_threads_than_the_caller_allows_and_none_inside_a_part() -> None:
    allowed: list[slice] = []
    with thread_limit(2):
        parallel_slices(10, allowed.append)
    assert len(allowed) == 2
    inside: list[slice] = []
    parallel_slices(3, lambda part: parallel_slices(10, inside.append))
    assert len(inside) == 3  # one for each part
    assert all(part == slice(0, 10) for part in inside)


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
def test_what_fails_in_a_part_fails_as_a_whole() -> None:
    def work(part: slice) -> None:
        if part.stop == 9:
            raise ValueError("the last part")

    with pytest.raises(ValueError, match="the last part"):
        parallel_slices(9, work)


@pytest.mark.usefixtures("three_cores")
def test_products_of_pairs_are_the_same_at_any_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(4)
    ours, theirs = rng.normal(size=(2, 9, 5)).astype(np.float32)
    queries, items = rng.integers(0, 9, (2, 50)).astype(np.int32)
    alone = pair_products(ours, theirs, queries, items)
    np.testing.assert_allclose(
        alone, (ours[queries].astype(float) * theirs[items]).sum(axis=1), rtol=1e-12
    )
    monkeypatch.setattr(vectors, "MIN_PAIRS_PER_THREAD", 7)
    assert pair_products(ours, theirs, queries, items).tolist() == alone.tolist()


@pytest.mark.usefixtures("three_cores")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_are_the_same_at_any_number_of_threads(
    dtype: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = np.split(np.random.default_rng(6).integers(-4, 5, (13, 5)).astype(dtype), [3])
    for min_rows in (vectors.MIN_PRODUCTS_PER_THREAD, 1):
        monkeypatch.setattr(vectors, "MIN_PRODUCTS_PER_THREAD", min_rows)
        found = all_products(ours, theirs)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, ours @ theirs.T)
    assert all_products(ours[:0], theirs).shape == (0, 10)


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


def test_the_blas_limit_ends_with_an_error() -> None:
    with threadpoolctl.threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        with pytest.raises(ValueError, match="of the caller"), one_blas_thread():
            raise ValueError("of the caller")
        assert blas_threads() == before
