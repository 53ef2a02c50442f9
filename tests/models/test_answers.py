"""Ranking with ties, carts on one scale, and what an answer shows."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from neatrec.catalog import Catalog
from neatrec.models.answers import Recommendations, best, combined

few_values = hnp.arrays(np.float64, st.integers(1, 40), elements=st.sampled_from([-1.0, 0.0, 0.5, 2.0, 7.0]))


@given(few_values, st.integers(1, 45))
def test_best_is_a_full_sort_with_ties_to_the_smaller_position(scores: np.ndarray, k: int) -> None:
    plain = sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:k]
    assert best(scores, k).tolist() == plain


@given(hnp.arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 12)), elements=st.integers(-9, 9).map(float)))
def test_a_cart_item_says_zero_for_its_median_and_one_for_its_best(parts: np.ndarray) -> None:
    for row, scaled in zip(parts, combined(parts), strict=True):
        if row.max() > np.median(row):
            assert scaled.max() == 1.0
            assert abs(np.median(scaled)) < 1e-12
            assert (np.argsort(row, kind="stable") == np.argsort(scaled, kind="stable")).all()
        else:
            assert (scaled == 0).all()


def test_a_loud_item_does_not_drown_the_others() -> None:
    """Item 0 has scores a thousand times as large; both best partners still come out level."""
    scaled = combined(np.array([[1000.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]]))
    assert scaled.mean(axis=0).tolist() == [0.5, 0.5, 0.0, 0.0]


@pytest.fixture
def answer() -> Recommendations:
    catalog = Catalog.from_ids(
        ["1", "2", "3", "4"], names=["Tea", "Milk\x1b[31m", None, "Rice"], categories=["hot", None, "x", "x"]
    )
    codes = np.array([1, 2], dtype=np.int32)
    cart = np.array([0, 3], dtype=np.int32)
    return Recommendations(
        catalog, cart, codes, np.array([0.75, 0.5]), cart, np.array([[0.5, 1.0], [1.0, 0.0]]), ("a",)
    )


def test_an_answer_reads_line_by_line(answer: Recommendations) -> None:
    first, second = answer
    assert (first.rank, first.id, first.score, first.category) == (1, "2", 0.75, ())
    assert first.goes_with == ("Rice", "Tea")
    assert (second.name, second.category, second.goes_with) == ("3", ("x",), ("Tea",))
    assert answer.ids == ["2", "3"]


def test_an_answer_as_json_and_table(answer: Recommendations) -> None:
    entry = json.loads(json.dumps(answer.to_dict()))
    assert [line["rank"] for line in entry["recommendations"]] == [1, 2]
    assert entry["items"] == [{"id": "1", "name": "Tea"}, {"id": "4", "name": "Rice"}]
    assert entry["notes"] == ["a"]
    table = answer.table()
    assert table.column_names == ["rank", "id", "name", "score"]
    assert table["score"].to_pylist() == [0.75, 0.5]


def test_a_shown_answer_carries_no_control_characters(answer: Recommendations) -> None:
    assert "\x1b" not in repr(answer)
    assert "<2 recommendations for Tea, Rice>" in repr(answer)


def test_no_answer_is_an_answer(answer: Recommendations) -> None:
    empty = Recommendations.empty(answer.catalog, answer.cart, ("why",))
    assert (len(empty), list(empty), empty.names, empty.table().num_rows) == (0, [], [], 0)
    assert "why" in repr(empty)
