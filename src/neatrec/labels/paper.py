"""`protocol="paper"`: Pearson's chi-squared on 2x2 tables, with the choices that reproduce the published numbers.

`dependent_pairs` are all pairs that it calls dependent, positive and negative: what the audit looks at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.cooccurrence import CooccurrenceCounts, CountOptions, Margins, PairBlock, PairFilter, count
from neatrec.cooccurrence.expected_counts import fit_expected
from neatrec.data.baskets import Baskets
from neatrec.data.catalog import UNKNOWN
from neatrec.labels.record import Counts, Floats, Mask, PairTest
from neatrec.statistics import chi_squared, chi_squared_p, chi_squared_threshold

MIN_COUNT = 5
"""Pairs seen less often are no labels."""


@dataclass(frozen=True)
class PaperTest:
    """Chi-squared above the table value, seen at least 5 times and more often than F_q F_v / N.

    F counts the records with the item in either position while the pair and N are directed: the paper's choice, which
    makes E about four times too large.
    """

    levels: tuple[float, ...]
    directed: bool
    level_kind: str = "p"

    def prefilter(self, margins: Margins) -> PairFilter:
        """The same test with a little slack, for compiled code."""
        if margins.records == 0:
            return PairFilter(min_count=MIN_COUNT)
        total, n = self._totals(margins).astype(np.float64), float(margins.records)
        slack = 1 - 1e-9
        rate = slack * total / np.sqrt(n)
        spread = slack * np.sqrt(self._lowest()) * total * np.maximum(n - total, 0.0) / np.sqrt(n) ** 3
        return PairFilter(min_count=MIN_COUNT, expected=(rate, rate), spread=(spread, spread))

    def __call__(self, block: PairBlock, margins: Margins) -> Mask:
        expected, statistic = self.measure(block, margins)
        return (block.count >= MIN_COUNT) & (block.count > expected) & (statistic > self._lowest())

    def measure(self, block: PairBlock | CooccurrenceCounts, margins: Margins) -> tuple[Floats, Floats]:
        """E and chi-squared of pairs."""
        total, n = self._totals(margins), margins.records
        query_total, item_total = total[block.query], total[block.item]
        expected = query_total.astype(np.float64) * item_total / max(n, 1)
        return expected, chi_squared(block.count, query_total, item_total, n)

    def test(self, pairs: CooccurrenceCounts) -> PairTest:
        expected, statistic = self.measure(pairs, pairs.margins)
        return PairTest(pairs, expected, statistic, chi_squared_p(statistic), None)

    def thresholds(self, tested: PairTest, levels: tuple[float, ...]) -> dict[float, float]:
        return {level: chi_squared_threshold(level) for level in levels}

    def passes(self, tested: PairTest, threshold: float) -> Mask:
        return tested.statistic > threshold

    def _lowest(self) -> float:
        return chi_squared_threshold(max(self.levels))

    def _totals(self, margins: Margins) -> npt.NDArray[np.int64]:
        return margins.first + margins.second if self.directed else margins.first


@dataclass(frozen=True, eq=False)
class DependentPairs:
    """Pairs seen at least 5 times whose chi-squared passes at the widest level, of both signs."""

    pairs: CooccurrenceCounts
    expected: Floats
    """The paper's E = F_q F_v / N."""
    statistic: Floats
    true_lift: dict[str, Floats]
    """Count over the expected count of the directed margins: `product` F_q. F_.v / N, and `quasi`-independence."""
    pairs_by_category: Counts
    """Unique pairs by the category of their query, shape (categories + 1,); the last are those of no known category."""

    @property
    def positive(self) -> Mask:
        return self.pairs.count > self.expected

    def passing(self, level: float, *, positive: bool) -> Counts:
        """Positions of the pairs of one sign that pass at `level`."""
        return np.flatnonzero((self.positive == positive) & (self.statistic > chi_squared_threshold(level)))

    def strongest(self, k: int, *, positive: bool) -> Counts:
        """Positions of the k pairs of one sign with the largest chi-squared, largest first."""
        of_sign = np.flatnonzero(self.positive == positive)
        return of_sign[np.argsort(-self.statistic[of_sign], kind="stable")[:k]]


def dependent_pairs(
    baskets: Baskets,
    levels: tuple[float, ...],
    counting: CountOptions,
    category: npt.NDArray[np.int32],
    engine: Mapping[str, Any],
) -> DependentPairs:
    """The dependent pairs at the widest of `levels`; all pairs are counted by `category`, a code for each item."""
    collector = _Collector(PaperTest(levels, counting.directed), category)
    pairs = count(baskets, counting, keep=collector, **engine)
    expected, statistic = collector.test.measure(pairs, pairs.margins)
    true_lift = {
        kind: pairs.count / fit_expected(pairs.margins, kind, directed=counting.directed).of(pairs.query, pairs.item)
        for kind in ("product", "quasi")
    }
    return DependentPairs(pairs, expected, statistic, true_lift, collector.by_category)


class _Collector:
    """A `keep` for both signs that also counts every pair by the category of its query."""

    def __init__(self, test: PaperTest, category: npt.NDArray[np.int32]) -> None:
        self.test = test
        self.threshold = chi_squared_threshold(max(test.levels))
        last = int(category.max(initial=UNKNOWN)) + 1
        self.category = np.where(category == UNKNOWN, last, category)
        self.by_category = np.zeros(last + 1, dtype=np.int64)

    def __call__(self, block: PairBlock, margins: Margins) -> Mask:
        queries = block.query if self.test.directed else np.append(block.query, block.item)
        self.by_category += np.bincount(self.category[queries], minlength=len(self.by_category))
        mask: Mask = block.count >= MIN_COUNT
        often = np.flatnonzero(mask)
        _, statistic = self.test.measure(block.where(often), margins)
        mask[often] = statistic > self.threshold
        return mask

    def collected(self) -> Counts:
        """The pairs by category since it was asked last, for `add_collected` of another process."""
        found, self.by_category = self.by_category, np.zeros_like(self.by_category)
        return found

    def add_collected(self, found: Counts) -> None:
        self.by_category += found
