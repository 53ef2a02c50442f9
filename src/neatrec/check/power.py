"""Statistical power of the baskets: detectable lifts, and coverage of the evidence."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import special

from neatrec.cooccurrence import Margins
from neatrec.cooccurrence.counting import MEMORY, CountBook, Engine
from neatrec.cooccurrence.expected_counts import fit_expected
from neatrec.data.baskets import Baskets
from neatrec.labels import LabelOptions
from neatrec.labels.config import LabelConfig
from neatrec.labels.protocols import run_test
from neatrec.statistics import poisson_tail, possible_pairs

LEVEL = 0.05
POWER = 0.8
MIN_BASKET = 5
TRIAL = LabelOptions(levels=(LEVEL,), min_basket=MIN_BASKET)
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PowerTier:
    """Items of similar popularity, with the smallest detectable lift of a typical item."""

    items: int
    sales: float
    """Baskets with the median item."""
    lift_with_like: float | None
    """With a partner of the same popularity; None if no lift is detectable."""
    lift_with_popular: float | None
    """With a typical partner of the most popular tenth."""


@dataclass(frozen=True)
class Power:
    """Results and power of the calibrated protocol."""

    records: int
    possible_pairs: int
    threshold: float
    """Largest p-value of a label; without labels, the p-value that a first label needs."""
    labels: int
    deciles: tuple[PowerTier, ...]
    """Tenths of the bought items, the rarest first; fewer where there are fewer items."""
    best_sellers: PowerTier
    """The most popular hundredth."""
    items_with_evidence: float
    """Share of bought items with at least one label."""
    sales_with_evidence: float
    """Share of basket lines with such items."""
    same_category: float
    """Share of the pairs with evidence whose items are of one category; 0 without categories."""
    protocol: str = "calibrated"
    level: float = LEVEL
    power: float = POWER
    min_basket: int = MIN_BASKET


def measure_power(
    baskets: Baskets, options: LabelOptions = TRIAL, engine: Engine = MEMORY
) -> Power | None:
    """Try the calibrated protocol at q = 0.05; None if the baskets hold no pair to count."""
    config, book = options.resolve(baskets), CountBook(baskets, engine)
    pairs = run_test(config, book)
    labels, margins = pairs.labels, pairs.tested.margins
    if not margins.records:
        return None
    possible = possible_pairs(
        margins.first, margins.second, margins.category, directed=config.directed
    )
    needed = pairs.thresholds[LEVEL] or LEVEL / max(possible, 1)
    known = np.zeros(len(baskets.catalog), dtype=bool)
    known[labels.query] = True
    known[labels.item] = True
    sales = baskets.item_counts
    *tenths, best = _tiers(baskets, margins, needed)
    return Power(
        records=margins.records,
        possible_pairs=possible,
        threshold=needed,
        labels=len(labels) if config.directed else 2 * len(labels),
        deciles=tuple(tenths),
        best_sellers=best,
        items_with_evidence=float(known.sum() / max((sales > 0).sum(), 1)),
        sales_with_evidence=float(sales[known].sum() / max(sales.sum(), 1)),
        same_category=_same_category_share(config, book),
    )


def _same_category_share(config: LabelConfig, book: CountBook) -> float:
    """The share of same-category pairs among the labels if these count, too."""
    if config.category_level is None:
        return 0.0
    category = config.counting.category_of(book.baskets.catalog)
    pairs = run_test(replace(config, category_level=None), book).labels
    one, other = category[pairs.query], category[pairs.item]
    return float(((one == other) & (one >= 0)).mean()) if len(pairs) else 0.0


def smallest_lift(expected: Floats, threshold: float) -> Floats:
    """The smallest lift detected with a probability of 80 %, by expected count; infinite for E = 0.

    A count c is significant if P(X >= c | E) <= threshold. With a true mean m, P(X >= c) is the
    regularised gamma function of (c, m): its inverse at 0.8 is the smallest detectable mean.

    >>> smallest_lift(np.array([1.0, 100.0]), 0.001).round(2).tolist()
    [7.91, 1.43]
    """
    expected = np.asarray(expected, dtype=np.float64)
    lift = np.full(expected.shape, np.inf)
    seen = expected > 0
    needed = special.gammaincinv(_critical_count(expected[seen], threshold), POWER)
    lift[seen] = needed / expected[seen]
    return lift


def _critical_count(expected: Floats, threshold: float) -> Floats:
    """The smallest c with P(X >= c | E) <= threshold, by bisection on integers."""
    low = np.zeros(len(expected))  # P(X >= 0) = 1: never significant
    high = np.ceil(expected) + 1
    while (too_low := poisson_tail(high, expected) > threshold).any():
        high[too_low] *= 2
    while (high - low > 1).any():
        middle = np.floor((low + high) / 2)
        significant = poisson_tail(middle, expected) <= threshold
        high, low = np.where(significant, middle, high), np.where(significant, low, middle)
    return high


def _tiers(baskets: Baskets, margins: Margins, threshold: float) -> tuple[PowerTier, ...]:
    """Tenths of the bought items, the rarest first, and then the most popular hundredth."""
    sales = baskets.item_counts
    bought = np.flatnonzero(sales)
    by_sales = bought[np.argsort(sales[bought], kind="stable")]
    tenths = [part for part in np.array_split(by_sales, 10) if len(part)]
    parts = [*tenths, by_sales[-max(len(by_sales) // 100, 1) :]]
    factors = fit_expected(margins, "quasi")
    # a typical item has the mean factors of its tier
    query, item = (
        np.array([f[part].mean() for part in parts]) for f in (factors.query, factors.item)
    )
    like = smallest_lift(query * item, threshold)
    popular = smallest_lift(query * item[-2], threshold)
    return tuple(
        PowerTier(len(part), float(np.median(sales[part])), _finite(like[i]), _finite(popular[i]))
        for i, part in enumerate(parts)
    )


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
