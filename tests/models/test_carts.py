"""Carts of several items: a ridge regression by counts of pairs, and sums of weights."""

import numpy as np
import pytest

from neatrec.cooccurrence import CountBook, CountOptions
from neatrec.models.carts import (
    DISCOUNT,
    LIFT_PSEUDO,
    LIFT_WEIGHT,
    POWER,
    RIDGE,
    CartRegression,
    same_category_pairs,
)
from neatrec.models.counts import PairCounts
from neatrec.simulator import supermarket


@pytest.mark.parametrize("size", [2, 5, 40])
def test_scores_are_those_of_the_formula(size: int) -> None:
    baskets = supermarket(baskets=2_000, items=120, seed=4).baskets
    book = CountBook(baskets)
    counts = PairCounts.of(book, CountOptions(directed=False))
    every = PairCounts.of(book, CountOptions(directed=False, category_level=None)).matrix.toarray()
    bought = baskets.item_counts.astype(float)
    cart = np.sort(np.random.default_rng(size).choice(120, size, replace=False)).astype(np.int32)
    candidates = np.setdiff1d(np.flatnonzero(bought > 0), cart).astype(np.int32)
    same = same_category_pairs(book, baskets.catalog.category_of())
    found = CartRegression(counts, same, bought).score(cart, candidates)
    table, total = counts.matrix.toarray().astype(float), counts.total
    gram = every[np.ix_(cart, cart)] + np.diag(bought[cart] + RIDGE)
    weight = np.maximum(np.linalg.inv(gram) @ table[cart], 0)
    expected = np.outer(total[cart], total) / total.sum()
    lift = np.log((table[cart] + LIFT_PSEUDO) / (expected + LIFT_PSEUDO))
    wanted = np.log(np.maximum((weight**POWER).sum(axis=0), 1e-30)) / POWER
    wanted += LIFT_WEIGHT * lift.sum(axis=0) - DISCOUNT * np.log(np.maximum(bought, 1))
    goes = candidates[(table[cart] > expected).any(axis=0)[candidates]]
    np.testing.assert_array_equal(found.codes, goes)
    np.testing.assert_allclose(found.total, wanted[goes], rtol=1e-6)
    np.testing.assert_allclose(found.parts(goes[:7]), lift.T[goes[:7]])
