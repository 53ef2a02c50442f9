"""Labels where the truth is known: precision and recall, and the traps that strata catch."""

from __future__ import annotations

import pytest

from neatrec.labels import make_labels, shuffle_null
from neatrec.labels.record import score_against


@pytest.fixture(scope="module")
def by_strata(market):
    """Labels by the strata they were made with."""
    choices = ((), ("month",), ("store",), ("basket_size",), ("month", "store", "basket_size"))
    return {strata: make_labels(market.baskets, strata=strata) for strata in choices}


def traps(market, labels, kind: str) -> int:
    return int(market.truth.is_trap(labels.query, labels.item, kind).sum())


def score(market, labels, level):
    at = labels.at(level)
    return score_against(market.truth, labels.query[at], labels.item[at], directed=True)


@pytest.mark.parametrize(
    ("kind", "stratum"), [("december", "month"), ("one_store", "store"), ("large_basket", "basket_size")]
)
def test_a_trap_makes_labels_and_strata_catch_it(market, by_strata, kind, stratum):
    assert traps(market, by_strata[()], kind) >= 12
    assert traps(market, by_strata[stratum,], kind) <= 1


def test_strata_against_one_trap_leave_the_true_pairs(market, by_strata):
    found = score(market, by_strata[()], 0.05).right
    for strata in (("month",), ("store",), ("basket_size",)):
        assert score(market, by_strata[strata], 0.05).right >= 0.9 * found


def test_all_strata_together_catch_every_trap(market, by_strata):
    labels = by_strata["month", "store", "basket_size"]
    assert sum(traps(market, labels, kind) for kind in ("december", "one_store", "large_basket")) <= 1
    assert score(market, labels, 0.05).precision >= 0.95


def test_floors_of_precision_and_recall(market, by_strata):
    paper = make_labels(market.baskets, protocol="paper")
    floors = {"paper": (paper, 0.48, 0.21), "calibrated": (by_strata[()], 0.62, 0.32)}
    for labels, precision, recall in floors.values():
        got = score(market, labels, 0.05)
        assert got.precision >= precision
        assert got.recall >= recall
    one, other = score(market, by_strata[()], 0.05), score(market, paper, 0.05)
    assert one.precision > other.precision
    assert one.recall > other.recall


def test_few_labels_come_out_of_shuffled_baskets(market, by_strata):
    null = shuffle_null(market.baskets, by_strata[()], 1)
    assert null.fdr[0.05] < 0.05
