"""`protocol="paper"`: Pearson's chi-squared on 2x2 tables, with the choices that reproduce the published numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from neatrec.cooccurrence import CooccurrenceCounts, Margins, PairBlock, PairFilter
from neatrec.labels.evidence import Floats, Mask, PairTest
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

    def screen(self, margins: Margins) -> PairFilter:
        """The same test with a hair of slack, for compiled code."""
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

    def judge(self, pairs: CooccurrenceCounts) -> PairTest:
        expected, statistic = self.measure(pairs, pairs.margins)
        return PairTest(pairs, expected, statistic, chi_squared_p(statistic), None)

    def thresholds(self, evidence: PairTest, levels: tuple[float, ...]) -> dict[float, float]:
        return {level: chi_squared_threshold(level) for level in levels}

    def passes(self, evidence: PairTest, threshold: float) -> Mask:
        return evidence.statistic > threshold

    def _lowest(self) -> float:
        return chi_squared_threshold(max(self.levels))

    def _totals(self, margins: Margins) -> npt.NDArray[np.int64]:
        return margins.first + margins.second if self.directed else margins.first
