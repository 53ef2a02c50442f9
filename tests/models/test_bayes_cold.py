"""`bayes` asked about an item that no basket holds: the mean of its category replaces what baskets would show."""

from __future__ import annotations

from functools import cache

import numpy as np

from helpers.toyshop import toy_baskets
from neatrec.data.baskets import Baskets
from neatrec.data.catalog import Catalog
from neatrec.models import Run, make_model
from neatrec.models.bayes import Bayes
from neatrec.models.bayes.cold_start import ColdStartMeans
from neatrec.simulator import supermarket


@cache
def hidden() -> int:
    """An item of the simulated supermarket that has partners and is often bought."""
    market = supermarket(baskets=12_000, items=500, seed=2)
    sold = market.baskets.item_counts
    with_partners = np.unique(market.truth.query)
    return int(with_partners[np.argsort(-sold[with_partners])[0]])


@cache
def model(name: str = "bayes") -> Bayes:
    """Fitted on the supermarket's baskets without the hidden item."""
    baskets = supermarket(baskets=12_000, items=500, seed=2).baskets
    lines = baskets.items != hidden()
    ends = np.concatenate([[0], np.cumsum(lines)])
    kept = Baskets(
        catalog=baskets.catalog,
        ids=baskets.ids,
        items=baskets.items[lines],
        offsets=ends[baskets.offsets],
        ordered=True,
        source="without one",
    )
    fitted = make_model(name, rank=32).fit(kept, Run(threads=1))
    assert isinstance(fitted, Bayes)
    return fitted


def test_means_of_a_category_go_by_purchases() -> None:
    vectors = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [5.0, 5.0], [0.0, 0.0]], dtype=np.float32)
    means = ColdStartMeans(vectors, np.array([30, 10, 0, 4, 0]), np.array([0, 0, 0, 1, -1], dtype=np.int32))
    found = means.query_vectors(vectors, np.arange(5))
    np.testing.assert_allclose(found, [[1, 0], [0, 1], [0.75, 0.25], [5, 5], [0, 0]])


def test_an_item_in_no_basket_is_answered_from_its_category_with_a_note() -> None:
    answer = model().recommend(hidden(), 10)
    assert len(answer) == 10
    assert "is in no training basket: what is known comes from its name and category" in answer.notes[0]
    category = model().catalog.category_of()
    assert category[hidden()] not in category[answer.codes]


def test_what_goes_with_its_category_goes_with_it() -> None:
    """Twenty pairs of categories that are bought together, eight items each, and one item that is new."""
    rng = np.random.default_rng(1)
    items = [(side, pair, n) for side in "ab" for pair in range(20) for n in range(8)] + [("a", 7, 8)]
    categories = [f"{side}{pair}" for side, pair, _ in items]
    catalog = Catalog.from_ids([f"{side}{pair}-{n}" for side, pair, n in items], categories=categories)
    lists = []
    for pair, other, *drawn in rng.integers(0, [20, 20, 8, 8, 8], (6000, 5)):
        lists.append(list(dict.fromkeys([f"a{pair}-{drawn[0]}", f"b{pair}-{drawn[1]}", f"b{other}-{drawn[2]}"])))
    fitted = make_model("bayes", rank=16).fit(Baskets.from_lists(lists, catalog=catalog))
    assert fitted.scores_unseen_items
    first = fitted.recommend("a7-8", 8).codes
    assert [categories[item] for item in first] == ["b7"] * 8


def test_pairs_and_rows_of_an_item_in_no_basket_agree() -> None:
    every = np.arange(len(model().catalog))
    row = model().score_all([hidden()])[0]
    np.testing.assert_allclose(model().score(np.full(len(every), hidden()), every), row, rtol=1e-3)


def test_its_posterior_is_as_wide_as_the_prior() -> None:
    items = model().recommend(hidden(), 10).codes
    found = model().posterior(np.full(len(items), hidden()), items)
    assert ((found.high - found.low) / found.mean > 1).all()


def test_shrunk_lift_has_nothing_to_say_about_it() -> None:
    fitted = make_model("bayes").fit(toy_baskets(60))
    assert not fitted.scores_unseen_items
    assert len(fitted.recommend("Saffron")) == 0


def test_without_categories_an_item_in_no_basket_has_no_mean() -> None:
    catalog = Catalog.from_ids(["a", "b", "never"])
    baskets = Baskets.from_lists([["a", "b"]] * 3, catalog=catalog)
    fitted = make_model("bayes", rank=2).fit(baskets)
    assert fitted.score_all([2]).shape == (1, 3)
    assert fitted.recommend("never").notes == ("never is in no training basket",)


def test_an_item_that_was_bought_keeps_its_own_vector() -> None:
    features, bought = model().features, np.flatnonzero(model().features.counts.total > 0)
    assert np.array_equal(features.query_vectors(bought), features.scaled[bought])
    assert not features.scaled[hidden()].any()
    assert features.query_vectors(np.array([hidden()])).any()
