"""The test of each protocol: the pairs of some baskets, and which of them are labels."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from neatrec.cooccurrence.counting import CountBook
from neatrec.data.counts import Counts, ExpectedLimit, Mask
from neatrec.labels.record import passes
from neatrec.statistics import (
    benjamini_hochberg,
    chi_squared,
    chi_squared_p,
    chi_squared_threshold,
    largest_mean,
    poisson_log_tail,
    poisson_tail,
    possible_pairs,
)

if TYPE_CHECKING:
    from neatrec.labels.config import LabelConfig

MIN_COUNT = 5
"""Pairs with a smaller count are no labels of the paper's protocol."""
SMALLEST_P = float(np.finfo(np.float64).tiny)
"""Lower limit of p-values; `statistic` (-log10 p) distinguishes smaller ones."""
TABLE_SIZE = 1024
"""Pairs with larger counts are always tested."""
SLACK = 1 + 1e-6


class TestedPairs(NamedTuple):
    """The pairs that a protocol tested."""

    tested: Counts
    """With columns expected, statistic, p and, if calibrated, q."""
    thresholds: dict[float, float]
    """The threshold of each level: see `Labels.thresholds`."""
    level_kind: str

    def passing(self, threshold: float) -> Mask:
        """Mask of the pairs that are labels at a threshold."""
        evidence = self.tested.column("statistic"), self.tested.column("p")
        return passes(self.level_kind, *evidence, threshold)

    @property
    def labels(self) -> Counts:
        """The pairs that pass the widest level."""
        return self.tested.where(self.passing(self.thresholds[max(self.thresholds)]))


def run_test(config: LabelConfig, book: CountBook, at_least: float = 0.0) -> TestedPairs:
    """Test the pairs of the baskets of a book: all that may be labels, or have p <= `at_least`."""
    if config.protocol == "paper":
        thresholds = {level: chi_squared_threshold(level) for level in config.levels}
        return TestedPairs(_paper_pairs(config, book), thresholds, "p")
    tested = _calibrated_pairs(config, book, at_least)
    p, q = tested.column("p"), tested.column("q")
    # the largest p that is a discovery; 0 where there is none
    thresholds = {level: float(p[q <= level].max(initial=0.0)) for level in config.levels}
    return TestedPairs(tested, thresholds, "q")


def _paper_pairs(config: LabelConfig, book: CountBook) -> Counts:
    """Chi-squared above the table value, a count of at least 5 and above F_q F_v / N.

    F counts the records with the item in either position, while the pair and N are directed: the
    paper's choice, which makes E about four times too large.
    """
    pairs = book.count("all", replace(config.counting, min_count=MIN_COUNT))
    m, n = pairs.margins, pairs.margins.records
    total = m.first + m.second if config.directed else m.first
    query, item = total[pairs.query], total[pairs.item]
    expected = query.astype(np.float64) * item / max(n, 1)
    statistic = chi_squared(pairs.count, query, item, n)
    tested = pairs.with_columns(expected=expected, statistic=statistic, p=chi_squared_p(statistic))
    lowest = chi_squared_threshold(max(config.levels))
    return tested.where((pairs.count > expected) & (statistic > lowest))


def _calibrated_pairs(config: LabelConfig, book: CountBook, at_least: float) -> Counts:
    """P(X >= count | E), E from the margins; then Benjamini and Hochberg over possible pairs."""
    options = config.counting
    margins = book.margins("all", options)
    tests = possible_pairs(
        margins.first, margins.second, margins.category, directed=options.directed
    )
    fitted = config.expected_of(book.baskets, margins)
    # there are at most as many discoveries as records, so p <= q N / M
    highest = max(config.levels) * min(margins.records, tests) / max(tests, 1)
    largest = largest_mean(np.arange(TABLE_SIZE), max(at_least, highest)) * SLACK
    pairs = book.count("all", replace(options, limit=ExpectedLimit(fitted, largest)))
    expected = fitted.of(pairs.query, pairs.item, pairs.count)
    # never 0: a threshold of 0 means that there are no labels
    p = np.maximum(poisson_tail(pairs.count, expected), SMALLEST_P)
    # 0 where p is 1; finite where p underflows
    surprise = np.maximum(-poisson_log_tail(pairs.count, expected) / np.log(10.0), 0.0)
    q = benjamini_hochberg(p, tests)
    return pairs.with_columns(expected=expected, statistic=surprise, p=p, q=q)
