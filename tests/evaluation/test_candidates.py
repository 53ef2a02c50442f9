"""Candidate sets: who competes, in which order, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.evaluation_data import candidates_of, pair_counts, random_baskets
from neatrec.data import Baskets, Catalog
from neatrec.errors import ParameterError
from neatrec.evaluation.candidates import candidate_set, catalogue, id_order, partners


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 15))
def test_the_candidate_set_is_the_most_bought_with_ties_by_number(seed: int, size: int) -> None:
    baskets = random_baskets(np.random.default_rng(seed))
    queries = np.arange(len(baskets.catalog), dtype=np.int32)
    found = candidate_set(partners(baskets, queries), queries, size)
    together = pair_counts(baskets)
    number = [int(text) for text in baskets.catalog.ids.to_pylist()]
    for q in queries.tolist():
        bought = [v for (one, v) in together if one == q]
        wanted = sorted(bought, key=lambda v: (-together[q, v], number[v]))[:size]
        mine = slice(found.offsets[q], found.offsets[q + 1])
        assert found.items[mine].tolist() == wanted
    assert found.name == f"top{size}"


@settings(max_examples=20)
@given(st.integers(0, 10_000))
def test_membership_is_what_the_definitions_say(seed: int) -> None:
    baskets = random_baskets(np.random.default_rng(seed), baskets=8)
    items = len(baskets.catalog)
    query, item = (codes.ravel().astype(np.int32) for codes in np.indices((items, items)))
    queries = np.unique(query)
    everything = catalogue(baskets, queries)
    assert everything.holds(query, item).tolist() == [
        v in candidates_of(baskets, q) for q, v in zip(query.tolist(), item.tolist(), strict=True)
    ]
    few = candidate_set(partners(baskets, queries), queries, 3)
    inside = [set(few.items[few.offsets[q] : few.offsets[q + 1]].tolist()) for q in range(items)]
    assert few.holds(query, item).tolist() == [
        v in inside[q] for q, v in zip(query.tolist(), item.tolist(), strict=True)
    ]


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


@pytest.mark.parametrize("size", [0, -1, 2.5, True])
def test_a_candidate_set_of_no_size_is_refused(size: int) -> None:
    queries = np.array([0], dtype=np.int32)
    found = partners(Baskets.from_lists([["a", "b"]]), queries)
    with pytest.raises(ParameterError, match="`candidates` must be a whole number of at least 1"):
        candidate_set(found, queries, size)
