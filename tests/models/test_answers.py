"""Ranking with ties, carts on one scale, and what an answer shows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from neatrec.data import Baskets, Catalog
from neatrec.errors import ParameterError
from neatrec.models import Model, Ranking, make_model, rank, rank_carts
from neatrec.models.ranking import best, mean_of_scaled


@given(
    hnp.arrays(
        np.float32, st.tuples(st.integers(1, 4), st.just(9)), elements=st.integers(-2, 5).map(float)
    ),
    st.sets(st.integers(0, 8), min_size=1).map(sorted),
    st.sampled_from([-np.inf, 0.0, 4.0]),
    st.integers(1, 10),
)
def test_the_best_of_a_cart_are_those_of_a_plain_computation(
    rows, candidates, min_score: float, k: int
) -> None:
    chosen = [v for v in candidates if any(row[v] > min_score for row in rows)]
    parts = rows[:, chosen].astype(np.float64)
    if len(rows) > 1 and chosen:
        middle = np.median(parts, axis=1, keepdims=True)
        reach = parts.max(axis=1, keepdims=True) - middle
        scaled = (parts - middle) / np.where(reach > 0, reach, np.inf)
    else:
        scaled = parts
    total = scaled.sum(axis=0) / len(rows)
    order = sorted(range(len(chosen)), key=lambda c: (-total[c], c))[:k]
    scored = mean_of_scaled(rows, np.array(candidates, dtype=np.int32), min_score)
    top = best(scored.total, k)
    codes = scored.codes[top]
    assert codes.tolist() == [chosen[c] for c in order]
    assert scored.total[top].tolist() == [total[c] for c in order]
    assert scored.parts(codes).tolist() == [scaled[:, c].tolist() for c in order]


@pytest.fixture(scope="module")
def trained() -> dict[str, Model]:
    rng = np.random.default_rng(0)
    lists = [[f"i{v}" for v in rng.choice(40, size=5, replace=False)] for _ in range(300)]
    catalog = Catalog.from_ids(
        [f"i{v}" for v in range(42)], categories=[f"c{v % 7}" for v in range(42)]
    )
    baskets = Baskets.from_lists(lists, catalog=catalog, ordered=True)
    fitted = {name: make_model(name).fit(baskets) for name in ("pop", "popco", "llr", "cf", "ease")}
    return {**fitted, "neat": make_model("neat", dim=8, epochs=1).fit(baskets)}


@pytest.mark.parametrize("name", ["pop", "popco", "llr", "cf", "ease", "neat"])
def test_many_carts_are_answered_as_one_by_one(trained: dict[str, Model], name: str) -> None:
    """Carts of one, of a repeated item, with an item never bought (40) and of nothing else (41)."""
    carts = [[3], [1, 2, 3], [7, 7, 9], [40, 5, 6], [41], [0, 10, 20, 30, 33]]
    together = rank_carts(trained[name], [np.array(cart, dtype=np.int32) for cart in carts], k=4)
    assert [codes.tolist() for codes in together] == [
        rank(trained[name], [trained[name].catalog.id(code) for code in cart], 4).codes.tolist()
        for cart in carts
    ]
    assert rank_carts(trained[name], [], k=4) == []
    with pytest.raises(ParameterError, match="`k` must be an integer of at least 1"):
        rank_carts(trained[name], [np.array([1], dtype=np.int32)], 0)


def test_an_answer_is_a_table_with_notes() -> None:
    catalog = Catalog.from_ids(
        ["1", "2", "3", "4"],
        names=["Tea", "Milk\x1b[31m", None, "Rice"],
        categories=["hot", None, "x", "x"],
    )
    codes, cart = np.array([[1, 2], [0, 3]], dtype=np.int32)
    parts = np.array([[0.5, 1.0], [1.0, 0.0]])
    answer = Ranking(catalog, cart, codes, np.array([0.75, 0.5]), cart, parts, ("a note",))
    assert answer.to_arrow().to_pydict() == {
        "rank": [1, 2],
        "id": ["2", "3"],
        "name": ["Milk\x1b[31m", "3"],
        "category": [[], ["x"]],
        "score": [0.75, 0.5],
        "goes_with": [["Rice", "Tea"], ["Tea"]],
    }
    assert (answer.ids, answer.names[1]) == (["2", "3"], "3")
    assert repr(answer).startswith("Answers for Tea, Rice (2 rows)")
    assert repr(answer).endswith("a note")
    assert "\x1b" not in repr(answer)
