"""The prior of lifts: fitted to a part of very many pairs, widened by what changes between periods."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from neatrec.cooccurrence import CountBook, CountOptions, lift_prior
from neatrec.data import Baskets
from neatrec.statistics import LiftPrior

UNDIRECTED = CountOptions(directed=False)
PAIRS, BASKETS = 150, 12_000


@cache
def shop(spread: float) -> Baskets:
    """Items 2n and 2n + 1 go together, in each half of the year with other odds: their logs have this spread."""
    rng = np.random.default_rng(8)
    chance = 1 / (1 + np.exp(-rng.normal(0, spread, (2, PAIRS))))
    lists = []
    for number in range(BASKETS):
        first = rng.choice(PAIRS, 3, replace=False)
        together = rng.random(3) < chance[number * 2 // BASKETS, first]
        second = np.where(together, first, rng.integers(0, PAIRS, 3))
        lists.append([str(item) for item in np.unique(np.concatenate([2 * first, 2 * second + 1]))])
    baskets = Baskets.from_lists(lists, ordered=False)
    return replace(baskets, times=np.arange(BASKETS) * 2_000_000_000)


def prior_of(baskets: Baskets) -> LiftPrior:
    book = CountBook(baskets)
    found = lift_prior.lift_prior(book.count("all", UNDIRECTED), book)
    assert found is not None
    return found


def test_lifts_that_change_between_periods_widen_the_interval() -> None:
    same, changing = prior_of(shop(0.0)), prior_of(shop(0.5))
    assert same.drift < 0.01
    assert changing.drift > 0.03
    assert changing.describes_the_data
    undated = prior_of(replace(shop(0.5), times=None))
    assert undated.drift == 0
    wide, narrow = (prior.estimate([100.0], [10.0]) for prior in (changing, undated))
    assert wide.lift == pytest.approx(narrow.lift)
    assert wide.low < 0.9 * narrow.low
