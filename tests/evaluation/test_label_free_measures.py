"""The measures without labels: held-out lift and cart completion."""

from functools import partial

import numpy as np
import pytest

from helpers.evaluation_data import pair_counts, random_baskets
from neatrec.data import Baskets, Catalog
from neatrec.evaluation.label_free import (
    HeldOutPairs,
    HiddenItems,
    answer_counts,
    answer_hidden,
    cart_completion,
    held_out_lift,
    leave_one_out,
)
from neatrec.models import make_model, rank_carts


def padded(*answers: list[int]) -> np.ndarray:
    """Twenty answers to each query, -1 where there are fewer."""
    return np.array([row + [-1] * (20 - len(row)) for row in answers], dtype=np.int32)


def test_lift_is_pooled_over_the_recommended_pairs() -> None:
    test = random_baskets(np.random.default_rng(2), baskets=200)
    queries = np.array([0, 4], dtype=np.int32)
    held = HeldOutPairs.of(test, queries)
    row = held_out_lift(padded([1, 2], [5]), held, rounds=200)
    together = pair_counts(test)
    observed = together[0, 1] + together[0, 2] + together[4, 5]
    expected = held.chance.of(np.array([0, 0, 4]), np.array([1, 2, 5])).sum()
    assert row["held_out_lift@3"] == pytest.approx(observed / expected)
    assert row["held_out_lift@3_low"] <= row["held_out_lift@3"] <= row["held_out_lift@3_high"]
    assert row["sales_covered"] == pytest.approx(test.item_counts[queries].sum() / test.lines)


CATALOG = Catalog.from_ids(
    ["tea", "milk", "oats", "bran", "new"], categories=["tea", "milk", "cereal", "cereal", "new"]
)
TRAIN = Baskets.from_lists([["tea", "milk", "oats", "bran"]], catalog=CATALOG, ids=["0"])


def test_the_hidden_item_shares_no_category_with_the_cart_and_is_known() -> None:
    test = Baskets.from_lists([["tea", "milk", "oats", "bran", "new"]] * 40, catalog=CATALOG)
    left = leave_one_out(TRAIN, test, carts=40)
    assert len(left) == 40
    # oats and bran share their category with another item, new was never sold
    assert {CATALOG.id(code) for code in left.hidden} == {"tea", "milk"}
    for cart, item in zip(left.carts, left.hidden, strict=True):
        assert item not in cart
        assert CATALOG.code_of["new"] not in cart
        assert len(cart) == 3


def test_completion_counts_hidden_items_among_the_answers() -> None:
    carts = tuple(np.array([0], dtype=np.int32) for _ in range(4))
    pairs = HeldOutPairs.of(random_baskets(np.random.default_rng(1)), np.array([0], np.int32))
    hidden = HiddenItems(carts, np.array([3, 1, 9, 2], dtype=np.int32), pairs)
    row = cart_completion(padded(*[[3, 1, 2]] * 4), hidden)
    assert row["carts"] == 4
    assert [row[f"cart_hr@{k}"] for k in (1, 3, 20)] == [0.25, 0.75, 0.75]
    assert row["cart_ndcg@20"] == pytest.approx((1 + 1 / np.log2(3) + 0.5) / 4)
    assert row["cart_hr@3_low"] <= row["cart_hr@3"] <= row["cart_hr@3_high"]


def test_the_lift_of_cart_answers_is_counted_without_the_cart_itself() -> None:
    train, test = (random_baskets(np.random.default_rng(i), baskets=60) for i in (1, 2))
    hidden = leave_one_out(train, test, carts=25, rng=0)
    answers = answer_hidden(partial(rank_carts, make_model("popco").fit(train)), hidden)
    observed, expected = answer_counts(answers, hidden, (1, 5))
    together = HeldOutPairs.of(test, np.arange(len(test.catalog), dtype=np.int32))
    for c, cart in enumerate(hidden.carts):
        for column, k in enumerate((1, 5)):
            pairs = [(q, v) for q in cart for v in answers[c, :k] if v >= 0]
            query, item = (np.array(side, dtype=np.int32) for side in zip(*pairs, strict=True))
            own = int((item == hidden.hidden[c]).sum())
            others = together.bought_with.values("count", query, item).sum() - own
            assert observed[c, column] == others
            assert expected[c, column] == pytest.approx(together.chance.of(query, item).sum())
    row = cart_completion(answers, hidden)
    assert row["cart_lift@5"] == pytest.approx(observed[:, 1].sum() / expected[:, 1].sum())
    assert row["cart_lift@5_low"] <= row["cart_lift@5"] <= row["cart_lift@5_high"]
