"""Rows shared out among threads."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest
from test_bayes_parts import toy_evidence

from helpers.toyshop import toy_baskets
from neatrec.models import Run, cosine, make_model, products
from neatrec.models import parallel as parts
from neatrec.models.bayes import model as bayes_model
from neatrec.models.bayes.prior import START
from neatrec.models.bayes.ranker import Ranking
from neatrec.models.bayes.rows import rank_rows
from neatrec.models.cosine import pair_products
from neatrec.models.embeddings import likelihood
from neatrec.models.embeddings.likelihood import likelihood_pairs
from neatrec.models.parallel import at_most, in_parts
from neatrec.models.popularity import Pop


@pytest.fixture
def three_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "thread_count", lambda threads: threads or 3)


@pytest.mark.usefixtures("three_cores")
@pytest.mark.parametrize(
    ("rows", "min_pair_count", "expected"), [(10, 1, 3), (10, 4, 2), (3, 4, 1), (0, 1, 1), (2, 1, 2)]
)
def test_the_parts_are_all_rows_once(rows: int, min_pair_count: int, expected: int) -> None:
    found: list[slice] = []
    in_parts(rows, found.append, min_rows=min_pair_count)
    assert len(found) == expected
    assert sorted(row for part in found for row in range(part.start, part.stop)) == list(range(rows))


@pytest.mark.usefixtures("three_cores")
def test_no_more_threads_than_the_caller_allows_and_none_inside_a_part() -> None:
    allowed: list[slice] = []
    with at_most(2):
        in_parts(10, allowed.append)
    assert len(allowed) == 2
    inside: list[slice] = []
    in_parts(3, lambda part: in_parts(10, inside.append))
    assert len(inside) == 3  # one for each part
    assert all(part == slice(0, 10) for part in inside)


@pytest.mark.usefixtures("three_cores")
@pytest.mark.parametrize(("threads", "expected"), [(None, 3), (1, 1), (2, 2)])
def test_a_fit_keeps_to_its_threads(threads: int | None, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[slice] = []
    monkeypatch.setattr(Pop, "_learn", lambda self, shards, run: in_parts(10, found.append))
    make_model("pop").fit(toy_baskets(), Run(rng=0, threads=threads))
    assert len(found) == expected


@pytest.mark.usefixtures("three_cores")
def test_what_fails_in_a_part_fails_as_a_whole() -> None:
    def work(part: slice) -> None:
        if part.stop == 9:
            raise ValueError("the last part")

    with pytest.raises(ValueError, match="the last part"):
        in_parts(9, work)


@pytest.mark.usefixtures("three_cores")
@pytest.mark.parametrize("module", [cosine, likelihood])
def test_pairs_score_the_same_however_many_threads_share_them(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(4)
    vectors, spread = rng.normal(size=(9, 5)).astype(np.float32), rng.normal(size=9).astype(np.float32)
    queries, items = rng.integers(0, 9, (2, 50)).astype(np.int32)
    work = pair_products if module is cosine else likelihood_pairs
    other = vectors[::-1].copy() if module is cosine else spread
    alone = work(vectors, other, queries, items)
    shares: list[slice] = []

    def watched(rows: int, work: Callable[[slice], None], *, min_pair_count: int) -> None:
        in_parts(rows, lambda part: (shares.append(part), work(part))[1], min_rows=min_pair_count)

    monkeypatch.setattr(module, "in_parts", watched)
    monkeypatch.setattr(module, "MIN_PAIRS_PER_THREAD", 7)
    assert work(vectors, other, queries, items).tolist() == alone.tolist()
    assert len(shares) == 3


@pytest.mark.usefixtures("three_cores")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_are_summed_over_both_sides_however_many_threads_share_them(
    dtype: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(6)
    sides = [
        (rng.integers(-4, 5, (3, dim)).astype(dtype), rng.integers(-4, 5, (10, dim)).astype(dtype)) for dim in (5, 2)
    ]
    whole = sum(ours @ theirs.T for ours, theirs in sides)
    for min_pair_count in (products.MIN_ROWS_PER_THREAD, 1):
        monkeypatch.setattr(products, "MIN_ROWS_PER_THREAD", min_pair_count)
        found = products.all_products(*sides)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, whole)
    assert products.all_products((sides[0][0][:0], sides[0][1])).shape == (0, 10)


@pytest.mark.usefixtures("three_cores")
def test_rows_of_bayes_are_the_same_however_many_threads_share_them() -> None:
    evidence, queries = toy_evidence(), np.arange(22, dtype=np.int32)
    ranking = Ranking(-1.0, np.array([1.5, 0.3, -0.2, 0.8, 0.1, 0.5, 0.4, 0.6]))
    one_by_one = np.concatenate([rank_rows(evidence, START, ranking, queries[i : i + 1]) for i in queries])
    # products of vectors may be added up in another order
    together = rank_rows(evidence, START, ranking, queries)
    np.testing.assert_allclose(together, one_by_one, rtol=1e-5)
    out = np.zeros_like(together)
    assert rank_rows(evidence, START, ranking, queries, out) is out
    np.testing.assert_array_equal(out, together)


@pytest.mark.usefixtures("three_cores")
@pytest.mark.parametrize("name", ["bayes", "bayes-sure"])
def test_pairs_of_bayes_score_the_same_however_many_threads_share_them(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted = make_model(name).fit(toy_baskets(), Run(rng=0))
    queries, items = np.random.default_rng(2).integers(0, len(fitted.catalog), (2, 60))
    alone = fitted.score(queries, items)
    monkeypatch.setattr(bayes_model, "MIN_PAIRS_PER_THREAD", 9)
    np.testing.assert_array_equal(fitted.score(queries, items), alone)
