"""The label-free measures: held-out lift and basket completion."""

from types import SimpleNamespace

import numpy as np
import pytest

from helpers.evaluation_data import pair_counts, random_baskets
from neatrec.data import Baskets, Catalog
from neatrec.errors import ParameterError
from neatrec.evaluation.cart_completion import (
    HiddenItems,
    answer_counts,
    answer_hidden,
    completion,
    leave_one_out,
)
from neatrec.evaluation.held_out_lift import best_sellers, held_out_lifts, held_out_pairs
from neatrec.models import make_model


def test_lift_is_pooled_over_the_recommended_pairs() -> None:
    test = random_baskets(np.random.default_rng(2), baskets=200)
    queries = np.array([0, 4], dtype=np.int32)
    held = held_out_pairs(test, queries)
    best = np.array([[1, 2, -1], [5, -1, -1]], dtype=np.int32)
    found = held_out_lifts({"m": best}, held, ks=(1, 3), rounds=200)["m"]
    together = pair_counts(test)
    observed = together[0, 1] + together[0, 2] + together[4, 5]
    expected = held.chance.of(np.array([0, 0, 4]), np.array([1, 2, 5])).sum()
    assert found.lift[3][0] == pytest.approx(observed / expected)
    assert found.lift[3][1] <= found.lift[3][0] <= found.lift[3][2]
    assert found.sales_covered == pytest.approx(test.item_counts[queries].sum() / test.lines)


def test_a_model_that_answers_seldom_covers_fewer_sales() -> None:
    test = random_baskets(np.random.default_rng(1), baskets=60)
    queries = np.array([0, 1, 2], dtype=np.int32)
    held = held_out_pairs(test, queries)
    shy = np.array([[-1], [2], [-1]], dtype=np.int32)
    found = held_out_lifts(
        {"shy": shy, "silent": np.full((3, 1), -1, dtype=np.int32)}, held, ks=(1,), rounds=100
    )
    assert found["shy"].sales_covered == pytest.approx(test.item_counts[1] / test.lines)
    assert found["silent"].sales_covered == 0.0
    assert np.isnan(found["silent"].lift[1][0])


def test_too_few_answers_or_carts_are_refused_and_none_at_all_are_an_answer() -> None:
    held = held_out_pairs(
        random_baskets(np.random.default_rng(1)), np.array([0, 1], dtype=np.int32)
    )
    with pytest.raises(ParameterError, match="'m' must have 5 answers to each of the 2 queries"):
        held_out_lifts({"m": np.zeros((2, 3), dtype=np.int32)}, held, ks=(5,))
    assert held_out_lifts({}, held) == {}
    with pytest.raises(ParameterError, match="`carts` must be at least 1, got 0"):
        leave_one_out(TRAIN, TRAIN, carts=0)
    nothing = HiddenItems((), np.zeros(0, dtype=np.int32))
    assert completion(np.zeros((0, 20), dtype=np.int32), nothing).carts == 0


def test_best_sellers_are_asked_and_items_never_sold_are_not() -> None:
    baskets = Baskets.from_lists(
        [["b", "a"], ["b", "c"], ["b", "c"]], catalog=Catalog.from_ids(["a", "b", "c", "unsold"])
    )
    assert best_sellers(baskets, 2).tolist() == [1, 2]
    assert best_sellers(baskets, 10).tolist() == [0, 1, 2]
    with pytest.raises(ParameterError, match="`queries` must be at least 1, got 0"):
        best_sellers(baskets, 0)


CATALOG = Catalog.from_ids(
    ["tea", "milk", "oats", "bran", "new"], categories=["tea", "milk", "cereal", "cereal", "new"]
)
TRAIN = Baskets.from_lists([["tea", "milk", "oats", "bran"]], catalog=CATALOG, ids=["0"])


def test_the_hidden_item_shares_no_category_with_the_cart_and_is_known() -> None:
    test = Baskets.from_lists([["tea", "milk", "oats", "bran", "new"]] * 40, catalog=CATALOG)
    left = leave_one_out(TRAIN, test, carts=40)
    assert len(left) == 40
    hidden = {CATALOG.id(code) for code in left.hidden}
    assert hidden == {
        "tea",
        "milk",
    }  # oats and bran share their category with another item, new was never sold
    for cart, item in zip(left.carts, left.hidden, strict=True):
        assert item not in cart
        assert CATALOG.code_of["new"] not in cart
        assert len(cart) == 3


class AlwaysTheSame:
    """Recommends items 3, 1, 2 for every cart."""

    def rank(self, items: np.ndarray, k: int = 10) -> SimpleNamespace:
        return SimpleNamespace(codes=np.array([3, 1, 2], dtype=np.int32)[:k])


def test_completion_counts_where_the_hidden_item_comes_back() -> None:
    carts = tuple(np.array([0], dtype=np.int32) for _ in range(4))
    hidden = HiddenItems(carts, np.array([3, 1, 9, 2], dtype=np.int32))
    answers = answer_hidden(AlwaysTheSame(), hidden)
    assert answers[:, :4].tolist() == [[3, 1, 2, -1]] * 4
    found = completion(answers, hidden, ks=(1, 2, 20))
    assert found.carts == 4
    assert {k: value for k, (value, _, _) in found.hr.items()} == {1: 0.25, 2: 0.5, 20: 0.75}
    assert found.ndcg[20][0] == pytest.approx((1 + 1 / np.log2(3) + 0.5) / 4)
    assert all(low <= value <= high for value, low, high in found.hr.values())


def test_the_lift_of_cart_answers_is_counted_without_the_cart_itself() -> None:
    train, test = (random_baskets(np.random.default_rng(i), baskets=60) for i in (1, 2))
    hidden = leave_one_out(train, test, carts=25, rng=0)
    answers = answer_hidden(make_model("popco").fit(train), hidden, k=5)
    observed, expected = answer_counts(answers, hidden, (1, 5))
    assert hidden.pairs is not None
    together = held_out_pairs(test, np.arange(len(test.catalog), dtype=np.int32))
    for c, cart in enumerate(hidden.carts):
        for column, k in enumerate((1, 5)):
            pairs = [(q, v) for q in cart for v in answers[c, :k] if v >= 0]
            query, item = (np.array(side, dtype=np.int32) for side in zip(*pairs, strict=True))
            own = int((item == hidden.hidden[c]).sum())
            assert (
                observed[c, column] == together.bought_with.values("count", query, item).sum() - own
            )
            assert expected[c, column] == pytest.approx(together.chance.of(query, item).sum())
    lift = completion(answers, hidden, ks=(1, 5)).lift[5]
    assert lift[0] == pytest.approx(observed[:, 1].sum() / expected[:, 1].sum())
    assert lift[1] <= lift[0] <= lift[2]
