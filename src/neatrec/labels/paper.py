"""`protocol="paper"`: Pearson's chi-squared on 2x2 tables, as the published numbers need it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from neatrec.cooccurrence.count_book import CountBook
from neatrec.data.counts import Counts
from neatrec.statistics import chi_squared, chi_squared_p, chi_squared_threshold

if TYPE_CHECKING:
    from neatrec.labels.config import LabelConfig

MIN_COUNT = 5
"""Pairs with a smaller count are no labels."""


@dataclass(frozen=True)
class PaperTest:
    """Chi-squared above the table value, a count of at least 5 and above F_q F_v / N.

    F counts the records with the item in either position, while the pair and N are directed: the
    paper's choice, which makes E about four times too large.
    """

    config: LabelConfig
    level_kind: ClassVar[str] = "p"

    def test(self, book: CountBook, at_least: float = 0.0) -> Counts:
        """The possible labels, with columns expected, statistic and p."""
        pairs = book.count("all", replace(self.config.counting, min_count=MIN_COUNT))
        m, n = pairs.margins, pairs.margins.records
        total = m.first + m.second if self.config.directed else m.first
        query, item = total[pairs.query], total[pairs.item]
        expected = query.astype(np.float64) * item / max(n, 1)
        statistic = chi_squared(pairs.count, query, item, n)
        tested = pairs.with_columns(
            expected=expected, statistic=statistic, p=chi_squared_p(statistic)
        )
        lowest = chi_squared_threshold(max(self.config.levels))
        return tested.where((pairs.count > expected) & (statistic > lowest))

    def thresholds(self, tested: Counts, levels: tuple[float, ...]) -> dict[float, float]:
        """The chi-squared value to exceed at each level."""
        return {level: chi_squared_threshold(level) for level in levels}
