"""Counting the Instacart train orders; how many records and pairs they have: tests/labels/test_labels_instacart.py."""

import numpy as np
import pytest

from neatrec.cooccurrence import CountOptions, FilteredPairs, PairFilter, count, forecast
from neatrec.data.baskets import Baskets

pytestmark = pytest.mark.real

PAPER = CountOptions(min_basket=5)


def test_the_forecast_is_near_the_truth(instacart: Baskets) -> None:
    guess = forecast(instacart, PAPER, keep_all=True)
    assert 6_249_219 < guess.pairs < 1.2 * 6_249_219
    assert 9_945_426 < guess.records < 1.1 * 9_945_426


def test_both_engines_agree_on_real_orders(instacart: Baskets) -> None:
    often = FilteredPairs(lambda _: PairFilter(min_count=5))
    for counting in (PAPER, CountOptions(window=5, directed=False)):
        memory, duck = (count(instacart, counting, keep=often, engine=engine) for engine in ("memory", "disk"))
        assert memory.margins.pairs == duck.margins.pairs
        np.testing.assert_array_equal(memory.margins.first, duck.margins.first)
        for name in ("query", "item", "count", "reverse"):
            np.testing.assert_array_equal(getattr(memory, name), getattr(duck, name))
