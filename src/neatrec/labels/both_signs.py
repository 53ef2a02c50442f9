"""All pairs that the paper's test calls dependent, positive and negative: what its study of the labels looks at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from neatrec.cooccurrence import CooccurrenceCounts, Margins, PairBlock, count
from neatrec.data.baskets import Baskets
from neatrec.data.catalog import UNKNOWN
from neatrec.labels.config import Engine, LabelConfig
from neatrec.labels.expected_counts import fit_expected
from neatrec.labels.paper import MIN_COUNT, PaperTest
from neatrec.statistics import chi_squared_threshold

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


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
    baskets: Baskets, recipe: LabelConfig, category: npt.NDArray[np.int32], engine: Engine
) -> DependentPairs:
    """The dependent pairs of a paper recipe; all pairs are counted by `category`, a code for each item."""
    collector = _Collector(PaperTest(recipe.levels, recipe.directed), recipe, category)
    pairs = count(baskets, recipe.counting, keep=collector, **engine)
    expected, statistic = collector.test.measure(pairs, pairs.margins)
    true_lift = {
        kind: pairs.count / fit_expected(pairs.margins, kind, directed=recipe.directed).of(pairs.query, pairs.item)
        for kind in ("product", "quasi")
    }
    return DependentPairs(pairs, expected, statistic, true_lift, collector.by_category)


class _Collector:
    """A `keep` for both signs that also counts every pair by the category of its query, as it goes by."""

    def __init__(self, test: PaperTest, recipe: LabelConfig, category: npt.NDArray[np.int32]) -> None:
        self.test, self.recipe = test, recipe
        self.threshold = chi_squared_threshold(max(recipe.levels))
        last = int(category.max(initial=UNKNOWN)) + 1
        self.category = np.where(category == UNKNOWN, last, category)
        self.by_category = np.zeros(last + 1, dtype=np.int64)

    def __call__(self, block: PairBlock, margins: Margins) -> Mask:
        queries = block.query if self.recipe.directed else np.append(block.query, block.item)
        self.by_category += np.bincount(self.category[queries], minlength=len(self.by_category))
        mask: Mask = block.count >= MIN_COUNT
        often = np.flatnonzero(mask)
        _, statistic = self.test.measure(block.where(often), margins)
        mask[often] = statistic > self.threshold
        return mask
