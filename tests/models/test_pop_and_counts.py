"""The models made of counts, against counts and formulas written out in plain Python."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from helpers.counting_reference import count_plainly
from helpers.toyshop import code, toy_baskets
from neatrec.cooccurrence import CountOptions
from neatrec.data import Baskets, Catalog
from neatrec.models import Run, make_model
from neatrec.models.counts import PairCounts

ITEMS = [f"i{n}" for n in range(7)]
CATALOG = Catalog.from_ids(ITEMS, categories=["a", "a", "b", "c", "c", None, None])
baskets_of_items = st.lists(
    st.lists(st.sampled_from(ITEMS), min_size=1, max_size=6, unique=True), min_size=1, max_size=12
)


def plain_counts(baskets: list[list[str]], window: int | None = None) -> np.ndarray:
    """C: all pairs (or those at most `window` apart) of different category, both directions."""
    ordered = CountOptions(window=window)
    counts = np.zeros((7, 7))
    for pair, (n, _) in count_plainly(
        Baskets.from_lists(baskets, catalog=CATALOG), ordered
    ).items():
        counts[pair] += n
    return counts + counts.T


def plain_llr(c: float, fq: float, fv: float, n: float) -> float:
    """Signed G^2 with O ln(O / E) summed over the four cells."""
    observed = [c, fq - c, fv - c, n - fq - fv + c]
    expected = [fq * fv / n, fq * (n - fv) / n, (n - fq) * fv / n, (n - fq) * (n - fv) / n]
    g2 = 2 * sum(o * math.log(o / e) for o, e in zip(observed, expected, strict=True) if o > 0)
    return g2 if c >= expected[0] else -g2


def formulas(name: str, c: float, fq: float, fv: float, n: float) -> float:
    expected = fq * fv / n if n else 0.0
    if name == "popco":
        return c
    if name == "lift":
        return c / expected if c else 0.0
    if name == "shrunk-lift":
        return c / (expected + 1)
    if name == "jaccard":
        return c / (fq + fv - c) if c else 0.0
    return plain_llr(c, fq, fv, n) if n else 0.0


@pytest.mark.parametrize("name", ["popco", "lift", "shrunk-lift", "jaccard", "llr"])
@given(baskets=baskets_of_items)
@settings(max_examples=40)
def test_scores_are_the_formula_on_plain_counts(name: str, baskets: list[list[str]]) -> None:
    model = make_model(name).fit(Baskets.from_lists(baskets, catalog=CATALOG), Run(threads=1))
    counts = plain_counts(baskets)
    total, records = counts.sum(axis=1), counts.sum()
    wanted = [
        [formulas(name, counts[q, v], total[q], total[v], records) for v in range(7)]
        for q in range(7)
    ]
    np.testing.assert_allclose(model.score_all(np.arange(7)), wanted, rtol=1e-9, atol=1e-9)
    queries, items = np.divmod(np.arange(49), 7)
    np.testing.assert_allclose(model.score(queries, items), np.ravel(wanted), rtol=1e-9, atol=1e-9)


@given(baskets=baskets_of_items, window=st.integers(1, 4))
@settings(max_examples=40)
def test_popco_with_a_window_counts_near_lines_only(baskets: list[list[str]], window: int) -> None:
    model = make_model("popco", window=window).fit(
        Baskets.from_lists(baskets, catalog=CATALOG), Run(threads=1)
    )
    assert model.score_all(np.arange(7)).tolist() == plain_counts(baskets, window).tolist()


def test_pop_gives_everyone_the_most_bought_items() -> None:
    model = make_model("pop").fit(toy_baskets())
    counts = toy_baskets().item_counts
    answer = model.rank("Mystery", 5)
    assert answer.codes.tolist() == sorted(range(22), key=lambda i: (-counts[i], i))[:5]
    assert answer.scores.tolist() == counts[answer.codes].tolist()


def test_what_was_never_bought_together_is_not_recommended_and_ties_go_to_the_smaller_code() -> (
    None
):
    baskets = Baskets.from_lists([["tea", "milk"], ["tea", "milk"], ["rice", "salt"]])
    for name in ("popco", "lift", "shrunk-lift", "jaccard", "llr"):
        assert make_model(name).fit(baskets).rank("tea").names == ["milk"]
    assert make_model("popco").fit(Baskets.from_lists([["q", "c", "b", "a"]])).rank("q").names == [
        "a",
        "b",
        "c",
    ]


def test_counting_options_are_model_parameters() -> None:
    baskets = toy_baskets()
    kept = make_model("popco", category_level=None).fit(baskets)
    assert kept.score([code("apple")], [code("banana")])[0] > 0
    assert make_model("popco").fit(baskets).score([code("apple")], [code("banana")])[0] == 0
    by_department = make_model("popco", category_level="department").fit(baskets)
    assert by_department.score([code("bread")], [code("butter")])[0] == 0
    assert "Butter" not in by_department.rank("Bread", 50).names
    large = make_model("popco", min_basket=99)
    assert not large.fit(baskets).score_all([code("tea")]).any()
    once = make_model("popco", once_per_customer=True).fit(baskets)
    assert once.score([code("tea")], [code("biscuits")]) <= kept.score(
        [code("tea")], [code("biscuits")]
    )


def test_a_shrunk_lift_with_no_strength_is_the_lift() -> None:
    queries, items = np.divmod(np.arange(22 * 22), 22)
    lift = make_model("lift").fit(toy_baskets()).score(queries, items)
    assert np.array_equal(
        make_model("shrunk-lift", k=0).fit(toy_baskets()).score(queries, items), lift
    )


def test_a_catalogue_without_pairs_is_scored_with_zeros() -> None:
    baskets = Baskets.from_lists([["tea"], ["milk"]])
    for name in ("popco", "lift", "shrunk-lift", "shrunk-lift-tuned", "jaccard", "llr"):
        model = make_model(name).fit(baskets)
        assert not model.score_all([0, 1]).any()
        assert len(model.rank("tea")) == 0


@given(st.integers(0, 2**32 - 1), st.booleans())
@settings(max_examples=25)
def test_a_pair_is_found_in_an_unsorted_row(seed: int, shuffled: bool) -> None:
    rng = np.random.default_rng(seed)
    dense = rng.integers(0, 3, (9, 9)).astype(np.int32)
    matrix = sparse.csr_matrix(dense)
    if shuffled:
        for row in range(9):
            part = slice(matrix.indptr[row], matrix.indptr[row + 1])
            order = rng.permutation(part.stop - part.start)
            matrix.indices[part], matrix.data[part] = (
                matrix.indices[part][order],
                matrix.data[part][order],
            )
        matrix.has_sorted_indices = bool((np.diff(matrix.indices) > 0).all())
    total = dense.sum(axis=1, dtype=np.int64)
    queries, items = (rng.integers(0, 9, 40).astype(np.int32) for _ in range(2))
    assert (
        PairCounts(matrix, total).of_pairs(queries, items).tolist()
        == dense[queries, items].tolist()
    )
