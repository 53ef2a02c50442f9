"""`ease` is its closed form, on every device, and sums its weights over a cart."""

import numpy as np
import pytest

from helpers.toyshop import toy_baskets
from neatrec.errors import ResourceError
from neatrec.models import Model, Run, ease, make_model, rank, rank_carts
from neatrec.simulator import supermarket


def plain_weights(regularization: float) -> np.ndarray:
    """B of the toy baskets in float64, shape (items, items)."""
    baskets = toy_baskets()
    x = np.zeros((len(baskets), len(baskets.catalog)))
    x[np.repeat(np.arange(len(baskets)), baskets.sizes), baskets.items] = 1.0
    p = np.linalg.inv(x.T @ x + regularization * np.eye(x.shape[1]))
    weights = -p / np.diag(p)
    np.fill_diagonal(weights, 0.0)
    return weights


@pytest.mark.parametrize(("regularization", "block"), [(50.0, 7), (0.001, 1024)])
def test_the_weights_are_the_closed_form(
    regularization: float, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small regularization needs float64."""
    monkeypatch.setattr(ease, "BLOCK", block)
    run = Run(threads=1)
    model = make_model("ease", regularization=regularization, min_count=1).fit(toy_baskets(), run)
    items = np.arange(len(model.catalog))
    np.testing.assert_allclose(
        model.score_all(items), plain_weights(regularization), rtol=1e-4, atol=1e-6
    )


def test_the_strongest_weights_are_kept() -> None:
    whole = plain_weights(50.0)
    model = make_model("ease", regularization=50.0, min_count=1, max_weights=3).fit(toy_baskets())
    for item in np.flatnonzero(model.item_count):
        row = model.score_all([item])[0]
        expected = np.sort(np.abs(whole[item]))[::-1][:3]
        np.testing.assert_allclose(np.sort(np.abs(row[row != 0]))[::-1], expected, rtol=1e-4)


def test_a_shop_without_frequent_items_gets_no_answers(caplog: pytest.LogCaptureFixture) -> None:
    model = make_model("ease", min_count=10**6).fit(toy_baskets())
    assert "no item was bought 1000000 times" in caplog.text
    assert not model.score_all(np.arange(len(model.catalog))).any()
    assert len(rank(model, ["Tea", "Chips"])) == 0
    assert [len(codes) for codes in rank_carts(model, [np.array([0, 1], dtype=np.int32)])] == [0]


@pytest.fixture(scope="module")
def market() -> Model:
    return make_model("ease", regularization=20.0).fit(
        supermarket(baskets=2_000, items=150, seed=2).baskets
    )


def carts_of(model: Model, count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [
        rng.choice(len(model.catalog), rng.integers(1, 9), replace=False).astype(np.int32)
        for _ in range(count)
    ]


def test_a_cart_is_scored_by_the_sum_of_the_weights(market: Model) -> None:
    for cart in carts_of(market, 30):
        answer = rank(market, [market.catalog.id(code) for code in cart], 5)
        sums = market.score_all(cart)[:, answer.codes].sum(axis=0)
        np.testing.assert_allclose(answer.scores, sums, rtol=1e-5)
        np.testing.assert_allclose(answer.parts.sum(axis=1), sums, rtol=1e-5)
        assert (answer.parts.max(axis=1) > 0).all()


def test_what_does_not_fit_into_memory_is_refused_with_a_hint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ease, "available_memory", lambda: 1_500)
    monkeypatch.setattr(ease, "BLOCK", 1)
    with pytest.raises(ResourceError, match="Raise min_count") as refused:
        make_model("ease").fit(toy_baskets())
    assert "21 items" in str(refused.value)
    hint = int(str(refused.value).split("Raise min_count: ")[1].split(" ")[0])
    assert make_model("ease", min_count=hint).fit(toy_baskets()).learned["items"] > 0
