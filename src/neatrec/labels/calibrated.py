"""`protocol="calibrated"`: exact Poisson tails against quasi-independence, a false-discovery rate over all pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from neatrec.cooccurrence import CooccurrenceCounts, Margins, PairBlock, PairFilter
from neatrec.cooccurrence.expected_counts import Expected, Factors
from neatrec.labels.record import Counts, Floats, Mask, PairTest
from neatrec.statistics import benjamini_hochberg, largest_mean, poisson_log_tail, poisson_tail, possible_pairs
from neatrec.statistics.discovery import largest_possible_discovery

SMALLEST_P = float(np.finfo(np.float64).tiny)
"""Smaller p-values are given as this one; `statistic` (-log10 p) distinguishes them."""
TABLE_SIZE = 1024
"""Counts below this have their largest expected count in a table."""


class CalibratedTest:
    """P(X >= count | E) with E from the margins of the same count, then Benjamini and Hochberg over all possible pairs.

    One object serves one count: expected counts are fitted at the first look at its margins.
    """

    level_kind = "q"

    def __init__(
        self, levels: tuple[float, ...], *, directed: bool, fit: Callable[[Margins], Expected], at_least: float = 0.0
    ) -> None:
        """`fit` makes expected counts of margins; pairs with p <= `at_least` are kept whatever the levels are."""
        self.levels, self.directed = levels, directed
        self.at_least = at_least
        self._fit_to = fit
        self._fitted: Expected | None = None
        self._tests: int | None = None
        self._limits: Floats | None = None

    def prefilter(self, margins: Margins) -> PairFilter:
        """The normal tail never exceeds the Poisson tail at as many standard deviations, so it may drop pairs first."""
        fitted, highest = self._fit(margins), self.highest_p(margins)
        if not isinstance(fitted, Factors) or not 0 < highest < 0.1:
            return PairFilter()
        slack = 1 - 1e-6
        deviations = -float(special.ndtri(highest)) * slack
        a, b = fitted.query * slack, fitted.item
        return PairFilter(expected=(a, b), spread=(deviations**2 * a, b))

    def __call__(self, block: PairBlock, margins: Margins) -> Mask:
        """Pairs whose E is small enough for their count: looked up by count, no tail is computed here."""
        if self._limits is None:
            self._limits = self._largest_expected(np.arange(TABLE_SIZE), margins)
        limit = self._limits[np.minimum(block.count, TABLE_SIZE - 1)]
        often = np.flatnonzero(block.count >= TABLE_SIZE)
        limit[often] = self._largest_expected(block.count[often], margins)
        return self._fit(margins).of(block.query, block.item) <= limit

    def _largest_expected(self, count: Counts, margins: Margins) -> Floats:
        return largest_mean(count, self.highest_p(margins)) * (1 + 1e-6)

    def highest_p(self, margins: Margins) -> float:
        """No p above this can be a discovery: there are at most as many discoveries as records, so p <= q N / M."""
        tests = self.tests(margins)
        return max(self.at_least, max(self.levels) * min(margins.records, tests) / max(tests, 1))

    def test(self, pairs: CooccurrenceCounts) -> PairTest:
        expected = self._fit(pairs.margins).of(pairs.query, pairs.item)
        p = _tail(pairs.count, expected)
        # zero where p is 1; finite where p underflows
        surprise = np.maximum(-poisson_log_tail(pairs.count, expected) / np.log(10.0), 0.0)
        return PairTest(pairs, expected, surprise, p, benjamini_hochberg(p, self.tests(pairs.margins)).q)

    def p_of(self, block: PairBlock, margins: Margins) -> Floats:
        """The p-value of each pair, for an engine that tests pairs where they are."""
        return _tail(block.count, self._fit(margins).of(block.query, block.item))

    def cut(self, margins: Margins, edges: Floats, counts: Counts) -> float:
        """From here on p-values decide nothing: pairs beyond change no label, threshold or q-value of a label."""
        return max(self.at_least, largest_possible_discovery(edges, counts, max(self.levels), self.tests(margins)))

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs: the fit, not the baskets it was made from."""
        return {**self.__dict__, "_fit_to": self._fit_to if self._fitted is None else None}

    def thresholds(self, tested: PairTest, levels: tuple[float, ...]) -> dict[float, float]:
        """The largest p that is a discovery at each level; 0 where there is none."""
        q = tested.q if tested.q is not None else np.ones_like(tested.p)
        return {level: float(tested.p[q <= level].max(initial=0.0)) for level in levels}

    def passes(self, tested: PairTest, threshold: float) -> Mask:
        return (tested.p <= threshold) & (threshold > 0)

    def _fit(self, margins: Margins) -> Expected:
        if self._fitted is None:
            self._fitted = self._fit_to(margins)
        return self._fitted

    def tests(self, margins: Margins) -> int:
        """M: the pairs that could have been seen."""
        if self._tests is None:
            self._tests = possible_pairs(margins.first, margins.second, margins.category, directed=self.directed)
        return self._tests


def _tail(count: Counts, expected: Floats) -> Floats:
    """P(X >= count); never 0: a threshold of 0 means that there are no labels."""
    return np.maximum(poisson_tail(count, expected), SMALLEST_P)
