"""The bootstrap over units."""

from __future__ import annotations

import numpy as np
import pytest

from neatrec.errors import ParameterError
from neatrec.statistics import bootstrap_interval


def test_the_interval_holds_the_ratio_and_narrows_with_more_units():
    rng = np.random.default_rng(5)
    widths = []
    for units in (20, 2_000):
        below = rng.integers(1, 5, units)
        above = rng.binomial(below, 0.3)
        low, high = bootstrap_interval(above, below, rng=1)
        assert low <= above.sum() / below.sum() <= high
        widths.append(high - low)
    assert widths[1] < widths[0] / 4


def test_units_that_hang_together_widen_the_interval():
    alone = bootstrap_interval(np.tile([0, 1], 500), np.ones(1000), rng=1)
    together = bootstrap_interval(np.tile([0, 20], 25), np.full(50, 20), rng=1)
    assert together[1] - together[0] > 2 * (alone[1] - alone[0])


def test_the_same_seed_gives_the_same_interval():
    assert bootstrap_interval([1, 0, 3], [2, 2, 4], rng=7) == bootstrap_interval([1, 0, 3], [2, 2, 4], rng=7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"confidence": 1.0}, "`confidence` must be between 0 and 1, got 1.0"),
        ({"rounds": 0}, "`rounds` must be a whole number of at least 1, got 0"),
        ({"below": [1]}, "`below` must be 2 totals, at least one above 0, got 1"),
        ({"below": [0, 0]}, "`below` must be 2 totals, at least one above 0"),
    ],
)
def test_what_cannot_be_resampled_is_refused(arguments, message):
    with pytest.raises(ParameterError, match=message):
        bootstrap_interval(**{"above": [1, 1], "below": [2, 2], **arguments})
