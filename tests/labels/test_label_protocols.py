"""Both protocols against their definitions."""

import logging

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.label_reference import calibrated_plainly, pairs_of, paper_plainly, shops
from neatrec.data import Baskets, Catalog
from neatrec.errors import ParameterError
from neatrec.labels import make_labels
from neatrec.statistics import garwood_interval

LEVELS = (0.05, 0.2, 0.001)


def buns_and_sausages(repeat: int = 40, **more) -> Baskets:
    """Two planted pairs, and staples bought with everything."""
    contents = [
        ["bun", "sausage", "banana"],
        ["tea", "milk", "banana"],
        ["banana", "rice"],
        ["rice", "tea"],
    ] * repeat
    return Baskets.from_lists(contents, **more)


@given(shops(), st.integers(2, 4))
def test_paper_labels_are_those_of_the_definition(baskets, min_basket):
    labels = make_labels(baskets, protocol="paper", levels=LEVELS, min_basket=min_basket)
    for level in LEVELS:
        assert pairs_of(labels, labels.at(level)) == paper_plainly(baskets, level, min_basket)


@given(shops(), st.integers(2, 4), st.sampled_from(["quasi", "product"]))
def test_calibrated_labels_are_those_of_the_definition(baskets, min_basket, expected):
    labels = make_labels(
        baskets, protocol="calibrated", levels=LEVELS, min_basket=min_basket, expected=expected
    )
    for level in LEVELS:
        assert pairs_of(labels, labels.at(level)) == calibrated_plainly(
            baskets, level, min_basket, expected
        )


@given(shops(users=True))
def test_a_pair_counts_once_a_customer_where_customers_return(baskets):
    labels = make_labels(baskets, protocol="calibrated", levels=LEVELS, min_basket=2)
    returning = len(set(baskets.users.tolist())) < len(baskets)
    assert labels.options["once_per_customer"] is returning
    for level in LEVELS:
        assert pairs_of(labels, labels.at(level)) == calibrated_plainly(
            baskets, level, 2, once=True
        )
    assert labels.count.tolist() == labels.customers.tolist()


def test_evidence_of_a_label_adds_up():
    labels = make_labels(buns_and_sausages(), min_basket=2)
    catalog = labels.catalog
    found = {
        (catalog.id(q), catalog.id(v)): i
        for i, (q, v) in enumerate(zip(labels.query, labels.item, strict=True))
    }
    at = found["bun", "sausage"]
    assert labels.count[at] == 40
    assert labels.reverse[at] == 0
    assert labels.lift[at] == pytest.approx(40 / labels.expected[at])
    low, high = garwood_interval(40)
    assert (labels.lift_low[at], labels.lift_high[at]) == pytest.approx(
        (low / labels.expected[at], high / labels.expected[at])
    )
    assert labels.statistic[at] == pytest.approx(-np.log10(labels.p[at]))
    assert labels.p[at] <= labels.q[at] <= 0.001


def test_same_category_pairs_are_no_labels_unless_kept():
    ids = ["bun", "sausage", "tea", "milk", "pen", "ink"]
    catalog = Catalog.from_ids(ids, categories=["dinner", "dinner", "tea", "dairy", "pens", "inks"])
    baskets = Baskets.from_lists(
        [["bun", "sausage"], ["tea", "milk"], ["pen", "ink"]] * 40, catalog=catalog
    )
    assert pairs_of(make_labels(baskets, min_basket=2)) == {(2, 3), (4, 5)}
    assert pairs_of(make_labels(baskets, min_basket=2, category_level=None)) == {
        (0, 1),
        (2, 3),
        (4, 5),
    }


@pytest.mark.parametrize("protocol", ["paper", "calibrated"])
def test_no_labels_is_an_answer_and_a_warning(protocol, caplog):
    baskets = Baskets.from_lists([["a", "b"], ["b", "c"]])
    with caplog.at_level(logging.WARNING):
        labels = make_labels(baskets, protocol=protocol, min_basket=2)
    assert len(labels) == 0
    assert set(labels.to_json()["labels"].values()) == {0}
    assert labels.table().num_rows == 0
    assert "no labels at" in caplog.text
    assert "2 pair records of 2 baskets" in caplog.text


def test_an_item_in_every_pair_hides_no_true_pair():
    baskets = Baskets.from_lists([["bag", "bun", "sausage"], ["bag", "tea", "milk"]] * 40)
    labels = make_labels(baskets, min_basket=2)
    names = {(labels.catalog.id(q), labels.catalog.id(v)) for q, v in pairs_of(labels)}
    assert names == {("bun", "sausage"), ("tea", "milk")}


def test_a_pair_so_sure_that_its_p_underflows_is_a_label():
    baskets = Baskets.from_lists([["a", "b"]] * 4_000 + [[f"c{i}", f"d{i}"] for i in range(4_000)])
    labels = make_labels(baskets, min_basket=2)
    assert labels.at(0.001).sum() == 1
    assert labels.p[0] > 0
    assert labels.statistic[0] > 308


def test_order_of_levels_repeats_and_order_of_baskets_do_not_matter():
    baskets = buns_and_sausages()
    one = make_labels(baskets, levels=(0.001, 0.05, 0.05), min_basket=2)
    assert one.levels == (0.001, 0.05)
    assert one.hash == make_labels(baskets, levels=(0.05, 0.001), min_basket=2).hash
    turned = baskets.select(np.arange(len(baskets))[::-1])
    for protocol in ("paper", "calibrated"):
        first, second = (
            make_labels(each, protocol=protocol, min_basket=2) for each in (turned, baskets)
        )
        assert first.hash == second.hash


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"protocol": "papr"},
            "`protocol` must be one of calibrated, paper, got 'papr'. Did you mean 'paper'",
        ),
        ({"levels": (0.05, 0.0)}, r"`level` must be between 0 and 1, got 0\.0"),
        ({"levels": (float("nan"),)}, "`level`"),
        ({"levels": ()}, "`levels`"),
        ({"levels": ("x",)}, "`levels`"),
        ({"expected": "quasy"}, "`expected`"),
        ({"strata": "month"}, "`strata` must be a sequence of names, got 'month'"),
        ({"strata": ("stor",)}, "`strata` must be one of basket_size, month, got 'stor'"),
        ({"strata": ("month",)}, "`strata` must not name month: these baskets have no times"),
        ({"protocol": "paper", "expected": "product"}, "must be left alone with the paper"),
        ({"min_basket": 0}, "`min_basket`"),
        ({"category_level": "shelf"}, "`category_level`"),
    ],
)
def test_wrong_options_are_refused(arguments, message):
    catalog = Catalog.from_ids(["a", "b"], categories=["x", "y"])
    with pytest.raises(ParameterError, match=message):
        make_labels(Baskets.from_lists([["a", "b"]], catalog=catalog), **arguments)
