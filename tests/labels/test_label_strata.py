"""Strata: what differs between them makes no labels."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from helpers.label_reference import expected_plainly, pairs_of, records_plainly, shops
from neatrec.cooccurrence import CountOptions, margins, strata_of
from neatrec.cooccurrence.expected_counts import Occasions, fit_strata
from neatrec.cooccurrence.totals import stratum_margins
from neatrec.data import Attribute, Baskets
from neatrec.labels import make_labels


def in_stores(baskets: Baskets, codes) -> Baskets:
    return replace(
        baskets,
        attributes={"store": Attribute(np.asarray(codes, dtype=np.int32), ("north", "south", "e"))},
    )


@given(shops(), st.sampled_from(["quasi", "product"]), st.data())
def test_expected_counts_are_the_sum_over_strata(baskets, kind, data):
    stores = np.array(
        data.draw(st.lists(st.integers(0, 2), min_size=len(baskets), max_size=len(baskets))),
        dtype=int,
    )
    counting = CountOptions(directed=baskets.ordered)
    parts = stratum_margins(baskets, stores, counting)
    got = fit_strata(parts, baskets.catalog.category_of(), kind)
    wanted = np.zeros((len(baskets.catalog),) * 2)
    for store in set(stores):
        part = baskets.select(stores == store)
        wanted += expected_plainly(records_plainly(part, 2), part, kind)
    seen = sorted(records_plainly(baskets, 2))
    query, item = (np.array([pair[i] for pair in seen], dtype=np.int32) for i in (0, 1))
    np.testing.assert_allclose(got.of(query, item), wanted[query, item], rtol=1e-3, atol=1e-6)


@given(shops(), st.booleans(), st.data())
def test_margins_of_strata_sum_to_those_of_the_count(baskets, once, data):
    once = once and baskets.users is not None
    stores = np.array(
        data.draw(st.lists(st.integers(0, 2), min_size=len(baskets), max_size=len(baskets))),
        dtype=int,
    )
    counting = CountOptions(directed=baskets.ordered, once_per_customer=once)
    parts, wanted = stratum_margins(baskets, stores, counting), margins(baskets, counting)
    cells = list(zip(parts.stratum.tolist(), parts.item.tolist(), strict=True))
    assert cells == sorted(set(cells))
    for of_parts, of_all in ((parts.first, wanted.first), (parts.second, wanted.second)):
        sums = np.bincount(parts.item, of_parts, len(baskets.catalog))
        assert sums.tolist() == of_all.tolist()


@given(shops(), st.booleans())
def test_occasions_are_the_baskets_or_the_customers_of_an_item(baskets, once):
    once = once and baskets.users is not None
    found = Occasions.of(baskets, CountOptions(once_per_customer=once))
    weights: dict[int, dict] = {item: {} for item in range(len(baskets.catalog))}
    for number, size in enumerate(baskets.sizes.tolist()):
        lines = baskets.items[baskets.offsets[number] : baskets.offsets[number + 1]]
        for place, item in enumerate(lines.tolist() if size >= 2 else []):
            key = baskets.users[number] if once else (number, place)
            weights[item][key] = 1.0 if once else size - 1.0
    total = [sum(each.values()) for each in weights.values()]
    squares = [sum(weight**2 for weight in each.values()) for each in weights.values()]
    np.testing.assert_allclose(found.total, total)
    effective = [t**2 / s if s else 0.0 for t, s in zip(total, squares, strict=True)]
    np.testing.assert_allclose(found.effective, effective)
    assert np.isclose(found.square, sum(squares) / max(sum(map(len, weights.values())), 1))


def store_trap() -> Baskets:
    """Pretzels and ice are popular in one store only; buns and sausages go together everywhere."""
    rng = np.random.default_rng(3)
    contents, stores = [], []
    for store in (0, 1):
        for _ in range(1_500):
            chance = {"pretzel": 0.4, "ice": 0.4} if store else {"pretzel": 0.01, "ice": 0.01}
            chance |= {"rice": 0.4, "pen": 0.4, "bun": 0.15}
            basket = [item for item, p in chance.items() if rng.random() < p]
            if "bun" in basket and rng.random() < 0.7:
                basket.append("sausage")
            contents.append(basket)
            stores.append(store)
    return in_stores(Baskets.from_lists(contents, ordered=False), stores)


def names_of(labels) -> set[frozenset[str]]:
    return {frozenset((labels.catalog.id(q), labels.catalog.id(v))) for q, v in pairs_of(labels)}


def test_a_pair_that_only_shares_a_store_is_caught_and_a_true_one_stays():
    baskets = store_trap()
    without, with_strata = (
        make_labels(baskets, min_basket=2, strata=names) for names in ((), ("store",))
    )
    assert {frozenset(("pretzel", "ice")), frozenset(("bun", "sausage"))} <= names_of(without)
    assert frozenset(("pretzel", "ice")) not in names_of(with_strata)
    assert frozenset(("bun", "sausage")) in names_of(with_strata)
    assert with_strata.options["strata"] == ["store"]


def test_strata_are_months_of_a_year_widening_bands_of_size_and_combine():
    days = ["2024-01-31", "2024-02-01", "2025-01-01", "2024-01-01"]
    times = np.array(days, dtype="datetime64[us]").astype(np.int64)
    assert strata_of(replace(Baskets.from_lists([["a"]] * 4), times=times), ["month"]).tolist() == [
        0,
        1,
        2,
        0,
    ]
    sizes = Baskets.from_lists([[f"i{i}" for i in range(size)] for size in (5, 6, 7, 8, 11, 12)])
    assert strata_of(sizes, ["basket_size"]).tolist() == [0, 1, 1, 2, 2, 3]
    stores = in_stores(
        Baskets.from_lists([["a"], ["a"], ["a", "b", "c"], ["a", "b", "c"]]), [0, 1, 0, 1]
    )
    assert sorted(strata_of(stores, ["store", "basket_size"]).tolist()) == [0, 1, 2, 3]


def test_a_customer_counts_once_whatever_the_strata():
    contents = [["bun", "sausage"], ["tea", "milk"]] * 40
    users = ["ann", "bob"] * 20 + [f"u{i}" for i in range(40)]
    baskets = in_stores(Baskets.from_lists(contents, users=users), ([0, 0, 1, 1] * 20))
    labels = make_labels(baskets, min_basket=2, strata=("store",))
    # ann buys buns in two stores, others once each
    assert labels.count.tolist() == labels.customers.tolist() == [21, 21]
