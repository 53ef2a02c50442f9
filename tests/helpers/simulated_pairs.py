"""Counts of pairs in simulated baskets, with expected counts."""

from functools import cache

import numpy as np
import numpy.typing as npt

from neatrec.cooccurrence import CountOptions, Counts, count, margins
from neatrec.data import Baskets

ALL_PAIRS = CountOptions(category_level=None)
Codes = npt.NDArray[np.int32]


@cache
def _all_counts(baskets: Baskets) -> Counts:
    return count(baskets, ALL_PAIRS)


def directed_counts(baskets: Baskets, query: Codes, item: Codes) -> npt.NDArray[np.int64]:
    """How often `query` went into a cart before `item`, for each pair."""
    return _all_counts(baskets).values("count", query, item)


def expected_counts(
    baskets: Baskets, query: Codes, item: Codes, strata: npt.ArrayLike | None = None
) -> npt.NDArray[np.float64]:
    """Expected counts: the product of the margins, summed over strata of baskets."""
    strata = np.zeros(len(baskets), dtype=np.int64) if strata is None else np.asarray(strata)
    total = np.zeros(len(query))
    for stratum in np.unique(strata):
        part = margins(baskets.select(strata == stratum), ALL_PAIRS)
        total += part.first[query] * part.second[item] / max(1, part.records)
    return total


def pooled_lift(
    baskets: Baskets, query: Codes, item: Codes, strata: npt.ArrayLike | None = None
) -> float:
    """Observed over expected, summed over all given pairs."""
    return float(
        directed_counts(baskets, query, item).sum()
        / expected_counts(baskets, query, item, strata).sum()
    )
