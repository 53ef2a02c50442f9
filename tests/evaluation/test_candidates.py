"""Candidate sets: the items that compete for a query, and their order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.evaluation_data import pair_counts, random_baskets
from neatrec.data import Catalog
from neatrec.evaluation.candidates import candidate_set, id_order, partners


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 15))
def test_the_candidate_set_is_the_most_bought_with_ties_by_number(seed: int, size: int) -> None:
    baskets = random_baskets(np.random.default_rng(seed))
    queries = np.arange(len(baskets.catalog), dtype=np.int32)
    candidates = candidate_set(partners(baskets, queries), queries, size)
    together = pair_counts(baskets)
    number = [int(text) for text in baskets.catalog.ids.to_pylist()]
    for q in queries.tolist():
        bought = [v for (one, v) in together if one == q]
        expected = sorted(bought, key=lambda v: (-together[q, v], number[v]))[:size]
        row = slice(candidates.offsets[q], candidates.offsets[q + 1])
        assert candidates.items[row].tolist() == expected
    assert candidates.name == f"top{size}"


@pytest.mark.parametrize(
    ("ids", "order"),
    [
        (["10", "9", "100"], [1, 0, 2]),
        (["x10", "x9", "x100"], [0, 2, 1]),
        (["10", "9", "b"], [0, 1, 2]),
        (["007", "7", "1"], [1, 2, 0]),
    ],
)
def test_ids_are_sorted_as_numbers_only_where_all_are_numbers(
    ids: list[str], order: list[int]
) -> None:
    assert id_order(Catalog.from_ids(ids)).tolist() == order
