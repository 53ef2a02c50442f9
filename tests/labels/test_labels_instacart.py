"""Our numbers on the Instacart train orders; the published ones, to the digit, are checked with the reproduction."""

import numpy as np
import pytest

from neatrec.cooccurrence import margins
from neatrec.labels import LabelConfig, make_labels, shuffle_null
from neatrec.statistics import possible_pairs

pytestmark = pytest.mark.real
LEVELS = (0.05, 0.01, 0.001)


def counts(labels) -> list[int]:
    return [int(labels.at(level).sum()) for level in LEVELS]


def test_records_and_pairs(instacart_paper, instacart_calibrated):
    for labels in (instacart_paper, instacart_calibrated):
        assert (labels.baskets, labels.records, labels.pairs) == (100_745, 9_945_426, 6_249_219)


def test_calibrated_labels(instacart_calibrated):
    labels = instacart_calibrated
    assert counts(labels) == [6_992, 5_183, 3_752]
    assert labels.thresholds[0.05] == pytest.approx(2.51e-7, abs=0.01e-7)
    assert (labels.count >= 5).sum() == 5_573
    assert (labels.count == 1).sum() == 0
    assert labels.options["once_per_customer"] is False


def test_calibrated_labels_with_the_product_of_the_margins(instacart):
    assert counts(make_labels(instacart, expected="product")) == [8_137, 6_150, 4_461]


def test_calibrated_labels_within_bands_of_basket_size(instacart):
    assert counts(make_labels(instacart, strata=("basket_size",))) == [5_841, 4_269, 3_092]


def test_possible_pairs(instacart, instacart_paper):
    totals = margins(instacart, LabelConfig.of(instacart_paper).counting)
    assert possible_pairs(totals.first, totals.second, totals.category) == 1_389_792_244


def test_false_discoveries_of_the_paper_protocol(instacart, instacart_paper):
    null = shuffle_null(instacart, instacart_paper, 2)
    for level, low, high in ((0.05, 220, 295), (0.01, 80, 120), (0.001, 25, 50)):
        assert all(low <= n <= high for n in null.labels[level])
    assert null.fdr[0.05] == pytest.approx(0.032, abs=0.004)
    assert null.labels == null.rerun


def test_more_false_discoveries_when_size_and_position_are_kept(instacart, instacart_paper):
    null = shuffle_null(instacart, instacart_paper, 1, within="size+position")
    assert [null.labels[level][0] for level in LEVELS] == pytest.approx([372, 160, 56], rel=0.2)


def test_false_discoveries_of_the_calibrated_protocol(instacart, instacart_calibrated):
    null = shuffle_null(instacart, instacart_calibrated, 2)
    assert all(20 <= n <= 50 for n in null.labels[0.05])
    assert null.fdr[0.05] < 0.0075
    assert max(null.rerun[0.05]) <= 2


def test_labels_of_the_validation_folds(instacart):
    order = np.array(instacart.ids.to_pylist(), dtype=np.int64)
    inside = [
        make_labels(instacart.select(order % 4 == rest), protocol="paper", levels=(0.05,))
        for rest in (0, 2)
    ]
    assert [len(labels) for labels in inside] == [854, 886]


def test_hashes_stay(instacart_paper, instacart_calibrated):
    assert instacart_paper.hash.startswith("2945799ee9f707eb")
    assert instacart_calibrated.hash.startswith("534035ea69c48a5f")
