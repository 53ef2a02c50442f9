"""Baskets that count less with their age: against a plain reference, by engine, with customers and strata."""

from dataclasses import replace

import numpy as np
import pytest

from neatrec.cooccurrence import CountOptions, count, count_parts, margins
from neatrec.cooccurrence.recency import DAY, parse_half_life
from neatrec.cooccurrence.strata import strata_of, stratum_margins
from neatrec.data.baskets import Baskets
from neatrec.errors import ParameterError
from neatrec.labels import LabelOptions
from neatrec.labels.make import run_labels
from neatrec.simulator import supermarket

HALF_LIFE = 20.0
PLAIN = CountOptions(directed=False)
WEIGHTED = replace(PLAIN, half_life=HALF_LIFE)


def shop(lists: list[list[str]], ages: list[float], users: list[str] | None = None) -> Baskets:
    """Baskets of these ages in days."""
    times = np.array([int((1_000 - age) * DAY) for age in ages])
    return replace(Baskets.from_lists(lists, users=users), times=times)


@pytest.fixture(scope="module")
def market() -> Baskets:
    return supermarket(3_000, 100, seed=4, threads=1).baskets


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("once", [False, True])
def test_counts_are_sums_of_weights_rounded_without_bias(market: Baskets, directed: bool, once: bool) -> None:
    counting = replace(WEIGHTED, directed=directed, once_per_customer=once, half_life=60.0)
    weight = np.exp2(-(market.times.max() - market.times) / DAY / 60.0)
    category, users, newest = counting.category_of(market.catalog), market.users, {}
    for b in np.argsort(-weight):
        items = market.items[market.offsets[b] : market.offsets[b + 1]].tolist()
        for i, q in enumerate(items):
            for v in items[i + 1 :]:
                if category[q] != category[v]:
                    pair = (q, v) if directed or q < v else (v, q)
                    who = int(users[b]) if once else int(b)
                    newest.setdefault((pair, who), weight[b])  # a customer's newest basket with the pair
    expected = np.zeros((len(market.catalog), len(market.catalog)))
    for (pair, _), value in newest.items():
        expected[pair] += value
    found = count(market, counting, threads=1)
    got = np.zeros_like(expected)
    got[found.query, found.item] = found.count
    error = got - expected
    assert np.abs(error).max() < 6  # sums of hundreds of baskets
    assert abs(error.sum()) < 0.02 * expected.sum()
    assert found.margins.first.sum() == pytest.approx(expected.sum() * (1 if directed else 2), rel=0.02)
    assert found.margins.baskets == len(market.sizes[market.sizes >= 2])
    assert found.margins.pairs == len(found)


def test_baskets_of_one_day_count_as_without_weights(market: Baskets) -> None:
    today = replace(market, times=np.full(len(market), 5 * DAY))
    plain, weighted = count(today, PLAIN), count(today, WEIGHTED)
    for column in ("query", "item", "count", "customers"):
        np.testing.assert_array_equal(getattr(weighted, column), getattr(plain, column))
    np.testing.assert_array_equal(weighted.margins.first, plain.margins.first)
    assert weighted.margins.records == plain.margins.records


@pytest.mark.parametrize("counting", [WEIGHTED, replace(WEIGHTED, directed=True, once_per_customer=True)])
def test_engines_threads_and_shards_agree(market: Baskets, counting: CountOptions) -> None:
    shards = [market.select(np.arange(len(market)) % 3 == part) for part in range(3)]
    found = [
        count(market, counting, engine="memory", threads=1),
        count(shards, counting, engine="disk", threads=2, memory_limit="1GiB"),
        count(market, counting, keep=lambda block, _: block.count > 0),
    ]
    for other in found[1:]:
        for column in ("query", "item", "count", "reverse", "customers"):
            np.testing.assert_array_equal(getattr(other, column), getattr(found[0], column))
        np.testing.assert_array_equal(other.margins.first, found[0].margins.first)
    np.testing.assert_array_equal(margins(shards, counting, engine="disk").second, found[0].margins.second)


def test_a_customer_counts_with_the_newest_basket() -> None:
    lists, ages = [["tea", "milk"]] * 400, [0.0, 400.0] * 200
    users = [f"u{number // 2}" for number in range(400)]
    once = count(shop(lists, ages, users), replace(WEIGHTED, once_per_customer=True))
    assert once.count.tolist() == once.customers.tolist() == [200]


def test_what_strata_expect_adds_up_to_the_weighted_margins(market: Baskets) -> None:
    for counting in (WEIGHTED, replace(WEIGHTED, directed=True, once_per_customer=True)):
        parts = stratum_margins(market, strata_of(market, ("month",)), counting)
        whole = np.bincount(parts.item, parts.first, len(market.catalog))
        np.testing.assert_allclose(whole, margins(market, counting).first)


@pytest.mark.parametrize("half_life", ["60d", "1y"])
def test_chance_makes_no_more_labels_than_without_weights(half_life: str) -> None:
    """Shuffled baskets: of the labels fewer than 1 in 100 are chance."""
    baskets = supermarket(6_000, 150, strength=2.0, seed=7, threads=1).baskets
    options = LabelOptions(levels=(0.05,), min_basket=2, half_life=half_life, strata=())
    run = run_labels(baskets, options, null_rounds=3, threads=1)
    assert len(run.labels) > 10
    assert sum(run.null.labels[0.05]) / 3 <= 0.01 * len(run.labels)
    assert run.labels.options["half_life"] == parse_half_life(half_life)


@pytest.mark.parametrize("value", ["90x", "-3d", "0d", "", True, "nan", "1e9d"])
def test_what_is_no_half_life_is_refused(value: object) -> None:
    with pytest.raises(
        ParameterError, match="`half_life` must be days, weeks or years such as 90d, 12w or 1y, or none"
    ):
        parse_half_life(value)


def test_baskets_without_times_and_spark_are_refused(market: Baskets) -> None:
    with pytest.raises(ParameterError, match=r"`half_life` must be none: these baskets have no times. Name the time"):
        count(replace(market, times=None), WEIGHTED)
    with pytest.raises(
        ParameterError, match=r"`half_life` must be none where Spark counts. Count with --engine memory"
    ):
        count(market, WEIGHTED, engine="spark")
    with pytest.raises(ParameterError, match="`half_life` must be none for counts in parts"):
        count_parts(market, WEIGHTED)
    with pytest.raises(ParameterError, match="`half_life` must be left alone with the paper protocol"):
        LabelOptions("paper", half_life="90d")
