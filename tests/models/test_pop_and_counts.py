"""The models made of counts, against counts and formulas written out in plain Python."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.counting_reference import count_plainly
from helpers.toyshop import code, toy_baskets
from neatrec.cooccurrence import CountOptions
from neatrec.data import Baskets, Catalog
from neatrec.models import Run, make_model, rank
from neatrec.models.counts import candidates, largest

ITEMS = [f"i{n}" for n in range(7)]
CATALOG = Catalog.from_ids(ITEMS, categories=["a", "a", "b", "c", "c", None, None])
baskets_of_items = st.lists(
    st.lists(st.sampled_from(ITEMS), min_size=1, max_size=6, unique=True), min_size=1, max_size=12
)


def plain_counts(baskets: list[list[str]]) -> np.ndarray:
    """C: all pairs of different category, both directions."""
    counts = np.zeros((7, 7))
    train = Baskets.from_lists(baskets, catalog=CATALOG)
    for pair, (n, _) in count_plainly(train, CountOptions()).items():
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


def test_pop_gives_everyone_the_most_bought_items() -> None:
    model = make_model("pop").fit(toy_baskets())
    counts = toy_baskets().item_counts
    answer = rank(model, "Mystery", 5)
    assert answer.codes.tolist() == sorted(range(22), key=lambda i: (-counts[i], i))[:5]
    assert answer.scores.tolist() == counts[answer.codes].tolist()


def test_only_what_was_bought_together_answers_and_ties_go_to_the_smaller_code() -> None:
    baskets = Baskets.from_lists([["tea", "milk"], ["tea", "milk"], ["rice", "salt"]])
    for name in ("popco", "lift", "shrunk-lift", "jaccard", "llr"):
        assert rank(make_model(name).fit(baskets), "tea").names == ["milk"]
    tied = make_model("popco").fit(Baskets.from_lists([["q", "c", "b", "a"]]))
    assert rank(tied, "q").names == ["a", "b", "c"]


def test_counting_options_are_model_parameters() -> None:
    baskets = toy_baskets()
    kept = make_model("popco", category_level=None).fit(baskets)
    assert kept.score([code("apple")], [code("banana")])[0] > 0
    assert make_model("popco").fit(baskets).score([code("apple")], [code("banana")])[0] == 0
    by_department = make_model("popco", category_level="department").fit(baskets)
    assert by_department.score([code("bread")], [code("butter")])[0] == 0
    assert "Butter" not in rank(by_department, "Bread", 50).names
    large = make_model("popco", min_basket=99)
    assert not large.fit(baskets).score_all([code("tea")]).any()
    once = make_model("popco", once_per_customer=True).fit(baskets)
    assert once.score([code("tea")], [code("biscuits")]) <= kept.score(
        [code("tea")], [code("biscuits")]
    )


@given(
    rows=st.lists(st.lists(st.integers(0, 4), max_size=9), max_size=4),
    size=st.integers(1, 5),
)
def test_the_largest_of_each_row_are_those_of_a_stable_sort(
    rows: list[list[int]], size: int
) -> None:
    start = np.cumsum([0, *map(len, rows)])
    wanted = [
        index in sorted(range(len(row)), key=lambda place: -row[place])[:size]
        for row in rows
        for index in range(len(row))
    ]
    values = np.array([value for row in rows for value in row])
    for dtype in (np.int32, np.float32, np.float64):
        assert largest(start, values.astype(dtype), size).tolist() == wanted


def test_candidates_are_the_most_frequent_and_the_best_by_shrunk_lift() -> None:
    rng = np.random.default_rng(0)
    times, expected = rng.permutation(1_000), rng.random(1_000) * 100
    selected = candidates(np.array([0, 600, 750, 1_000]), times, expected)
    for row in (slice(0, 600), slice(600, 750), slice(750, 1_000)):
        by_count = np.argsort(-times[row])[:200]
        by_lift = np.argsort(-times[row] / (expected[row] + 1))[:100]
        wanted = np.union1d(by_count, by_lift)
        assert np.flatnonzero(selected[row]).tolist() == wanted.tolist()
