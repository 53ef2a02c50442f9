"""Both protocols on the simulated supermarket, where the right answer is known.

The floors stand a little below what seeds 0 to 2 give (docs/studies/labels-and-nulls.md has the table for seed 0).
"""

import pytest

from neatrec.labels import Labels, make_labels
from neatrec.simulator import TRAP_NAMES, PlantedTruth, Supermarket, supermarket

ALL_STRATA = ("basket_size", "month", "store")


@pytest.fixture(scope="module", params=[0, 1])
def market(request: pytest.FixtureRequest) -> Supermarket:
    return supermarket(seed=request.param)


@pytest.fixture(scope="module")
def paper(market: Supermarket) -> Labels:
    return make_labels(market.baskets, protocol="paper")


@pytest.fixture(scope="module")
def calibrated(market: Supermarket) -> Labels:
    return make_labels(market.baskets, protocol="calibrated", strata=())


@pytest.fixture(scope="module")
def stratified(market: Supermarket) -> Labels:
    return make_labels(market.baskets, protocol="calibrated", strata=ALL_STRATA)


def precision_and_recall(
    truth: PlantedTruth, labels: Labels, level: float = 0.05
) -> tuple[float, float]:
    chosen = labels.at(level)
    right = int(truth.is_complement(labels.query[chosen], labels.item[chosen]).sum())
    return right / int(chosen.sum()), right / len(truth.query)


def trap_labels(truth: PlantedTruth, labels: Labels, trap: str | None = None) -> int:
    return int(truth.is_trap(labels.query, labels.item, trap).sum())


def other_mistakes(truth: PlantedTruth, labels: Labels) -> int:
    wrong = ~truth.is_complement(labels.query, labels.item) & ~truth.is_trap(
        labels.query, labels.item
    )
    return int(wrong.sum())


def test_the_paper_protocol_makes_visible_mistakes(market: Supermarket, paper: Labels) -> None:
    precision, recall = precision_and_recall(market.truth, paper)
    assert 0.55 < precision < 0.72
    assert 0.36 < recall < 0.50
    assert trap_labels(market.truth, paper) > 90
    assert (
        other_mistakes(market.truth, paper) > 60
    )  # mostly what one household buys again and again


def test_the_calibrated_protocol_is_righter_and_finds_more(
    market, paper: Labels, calibrated: Labels
) -> None:
    precision, recall = precision_and_recall(market.truth, calibrated)
    paper_precision, paper_recall = precision_and_recall(market.truth, paper)
    assert precision > max(0.66, paper_precision + 0.03)
    assert recall > max(0.47, paper_recall + 0.06)
    assert other_mistakes(market.truth, calibrated) < 0.05 * len(calibrated)


def test_strata_leave_no_trap_and_hardly_any_mistake(
    market: Supermarket, stratified: Labels
) -> None:
    assert trap_labels(market.truth, stratified) == 0
    precision, recall = precision_and_recall(market.truth, stratified)
    assert precision > 0.88
    assert recall > 0.43
    stricter, _ = precision_and_recall(market.truth, stratified, level=0.01)
    assert stricter > 0.94


@pytest.mark.parametrize(
    ("stratum", "trap"),
    [("month", "december"), ("store", "one_store"), ("basket_size", "large_basket")],
)
def test_each_stratum_catches_its_own_trap(
    market: Supermarket, calibrated: Labels, stratum: str, trap: str
) -> None:
    labels = make_labels(market.baskets, protocol="calibrated", strata=(stratum,))
    assert trap_labels(market.truth, calibrated, trap) > 40
    assert trap_labels(market.truth, labels, trap) <= 1
    for other in set(TRAP_NAMES) - {trap}:
        assert trap_labels(market.truth, labels, other) > 40
    recall, overall = (
        precision_and_recall(market.truth, found)[1] for found in (labels, calibrated)
    )
    assert recall >= 0.9 * overall


def test_where_nothing_goes_together_only_traps_are_found_and_strata_clear_them() -> None:
    market = supermarket(strength=0, seed=2)
    calibrated = make_labels(market.baskets, protocol="calibrated", strata=())
    assert other_mistakes(market.truth, calibrated) < 0.1 * trap_labels(market.truth, calibrated)
    stratified = make_labels(market.baskets, protocol="calibrated", strata=ALL_STRATA)
    assert trap_labels(market.truth, stratified) == 0
    assert len(stratified) < 25
