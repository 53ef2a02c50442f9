"""Plain counts of chosen pairs in simulated baskets, with what chance would give."""

from functools import cache

import numpy as np
import numpy.typing as npt

from neatrec.data.baskets import Baskets

Array = npt.NDArray[np.int64]


def records(baskets: Baskets) -> tuple[Array, Array]:
    """Keys (query * items + item) and cart distances of all directed pairs of all baskets."""
    keys, distances = [], []
    for size in np.unique(baskets.sizes):
        rows = baskets.items[
            baskets.offsets[:-1][baskets.sizes == size][:, None] + np.arange(size)
        ].astype(np.int64)
        first, second = np.triu_indices(size, 1)
        keys.append((rows[:, first] * len(baskets.catalog) + rows[:, second]).ravel())
        distances.append(np.tile(second - first, len(rows)))
    return np.concatenate(keys), np.concatenate(distances)


@cache
def _all_counts(baskets: Baskets) -> tuple[Array, Array]:
    return np.unique(records(baskets)[0], return_counts=True)


def directed_counts(baskets: Baskets, query: npt.ArrayLike, item: npt.ArrayLike) -> Array:
    """How often `query` went into a cart before `item`, for each pair."""
    seen, count = _all_counts(baskets)
    wanted = np.asarray(query, dtype=np.int64) * len(baskets.catalog) + np.asarray(
        item, dtype=np.int64
    )
    place = np.minimum(np.searchsorted(seen, wanted), len(seen) - 1)
    return np.where(seen[place] == wanted, count[place], 0)


def expected_counts(
    baskets: Baskets, query: npt.ArrayLike, item: npt.ArrayLike, strata: npt.ArrayLike | None = None
) -> npt.NDArray[np.float64]:
    """What chance would give: the product of the margins, summed over strata of baskets."""
    strata = np.zeros(len(baskets), dtype=np.int64) if strata is None else np.asarray(strata)
    position = np.arange(baskets.lines) - np.repeat(baskets.offsets[:-1], baskets.sizes)
    following = np.repeat(baskets.sizes, baskets.sizes) - 1 - position
    total = np.zeros(len(np.asarray(query)))
    for stratum in np.unique(strata):
        lines = strata[baskets.basket_of_line] == stratum
        first = np.bincount(baskets.items[lines], following[lines], minlength=len(baskets.catalog))
        second = np.bincount(baskets.items[lines], position[lines], minlength=len(baskets.catalog))
        total += first[query] * second[item] / max(1.0, first.sum())
    return total


def pooled_lift(
    baskets: Baskets, query: npt.ArrayLike, item: npt.ArrayLike, strata: npt.ArrayLike | None = None
) -> float:
    """Observed over expected, summed over all given pairs."""
    return float(
        directed_counts(baskets, query, item).sum()
        / expected_counts(baskets, query, item, strata).sum()
    )
