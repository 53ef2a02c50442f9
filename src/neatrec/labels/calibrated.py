"""`protocol="calibrated"`: exact Poisson tails and a false-discovery rate over all pairs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from neatrec.cooccurrence.count_book import CountBook
from neatrec.data.counts import Counts, ExpectedLimit
from neatrec.statistics import (
    benjamini_hochberg,
    largest_mean,
    poisson_log_tail,
    poisson_tail,
    possible_pairs,
)

if TYPE_CHECKING:
    from neatrec.labels.config import LabelConfig

SMALLEST_P = float(np.finfo(np.float64).tiny)
"""Lower limit of p-values; `statistic` (-log10 p) distinguishes smaller ones."""
TABLE_SIZE = 1024
"""Pairs with larger counts are always tested."""
SLACK = 1 + 1e-6


@dataclass(frozen=True)
class CalibratedTest:
    """P(X >= count | E), then Benjamini and Hochberg over all possible pairs.

    E comes from the margins of the same count.
    """

    config: LabelConfig
    level_kind: ClassVar[str] = "q"

    def test(self, book: CountBook, at_least: float = 0.0) -> Counts:
        """The possible labels, and all pairs with p <= `at_least`, with their statistics."""
        options = self.config.counting
        margins = book.margins("all", options)
        tests = possible_pairs(
            margins.first, margins.second, margins.category, directed=options.directed
        )
        fitted = self.config.expected_of(book.baskets, margins)
        # there are at most as many discoveries as records, so p <= q N / M
        highest = max(self.config.levels) * min(margins.records, tests) / max(tests, 1)
        largest = largest_mean(np.arange(TABLE_SIZE), max(at_least, highest)) * SLACK
        pairs = book.count("all", replace(options, limit=ExpectedLimit(fitted, largest)))
        expected = fitted.of(pairs.query, pairs.item, pairs.count)
        # never 0: a threshold of 0 means that there are no labels
        p = np.maximum(poisson_tail(pairs.count, expected), SMALLEST_P)
        # 0 where p is 1; finite where p underflows
        surprise = np.maximum(-poisson_log_tail(pairs.count, expected) / np.log(10.0), 0.0)
        q = benjamini_hochberg(p, tests)
        return pairs.with_columns(expected=expected, statistic=surprise, p=p, q=q)

    def thresholds(self, tested: Counts, levels: tuple[float, ...]) -> dict[float, float]:
        """The largest p that is a discovery at each level; 0 where there is none."""
        p, q = tested.column("p"), tested.column("q")
        return {level: float(p[q <= level].max(initial=0.0)) for level in levels}
