"""Intervals by resampling."""

from __future__ import annotations

import numpy as np

from neatrec.data.randomness import Seed, as_generator
from neatrec.errors import must_be
from neatrec.statistics.types import Numbers, as_floats


def bootstrap_interval(
    above: Numbers, below: Numbers, *, rounds: int = 1000, confidence: float = 0.95, rng: Seed = 0
) -> tuple[float, float]:
    """The percentile interval of sum(above) / sum(below) when whole units are drawn again with replacement.

    One unit per row, for instance a query with its hits above and its labels below: labels of one query stand or fall
    together, so queries are what is drawn.

    >>> low, high = bootstrap_interval([1, 0, 1, 1], [2, 2, 2, 2], rng=1)
    >>> 0 < low < 0.375 < high <= 0.5
    True
    """
    if not 0 < confidence < 1:
        raise must_be("confidence", "between 0 and 1", confidence)
    if rounds < 1:
        raise must_be("rounds", "a whole number of at least 1", rounds)
    a, b = as_floats(above), as_floats(below)
    if len(a) != len(b) or len(a) == 0 or b.sum() <= 0:
        raise must_be("below", f"{len(a)} totals, at least one above 0", len(b))
    generator = as_generator(rng)
    ratios = np.empty(rounds)
    for r in range(rounds):
        drawn = generator.integers(0, len(a), len(a))
        total = b[drawn].sum()
        ratios[r] = a[drawn].sum() / total if total > 0 else np.nan
    low, high = np.nanquantile(ratios, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)
