"""The tables the tills draw from: an alias table of the items, complements by query, shares of the stores."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neatrec.simulator.kernel import stocking_up
from neatrec.simulator.planting import PlantedPairs
from neatrec.simulator.products import DECEMBER_ONLY, LARGE_BASKET, ONE_STORE_ONLY, PLAIN, STAPLE

MEAN_TASTE = (0.15 + 0.45 + 0.8 + 1.0) / 4
DECEMBER_SHARE = 31 / 365
ARRIVES = 0.8
"""How often a complement that was brought finds room in the cart."""

Alias = tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]


def draw_weights(
    share: npt.NDArray[np.float64],
    kind: npt.NDArray[np.int8],
    planted: PlantedPairs,
    size_table: npt.NDArray[np.float64],
    trap_store_share: float,
) -> npt.NDArray[np.float64]:
    """Weights to draw from so that, after all acceptance and with all complements, items sell as `share` says."""
    brought = np.bincount(planted.item, share[planted.query] * planted.strength * ARRIVES, minlength=len(share))
    weight = share - brought
    accepted = np.ones(len(share))
    accepted[kind == PLAIN] = MEAN_TASTE
    accepted[kind == DECEMBER_ONLY] = DECEMBER_SHARE
    accepted[kind == ONE_STORE_ONLY] = trap_store_share
    accepted[kind == LARGE_BASKET] = _accepted_over_sizes(size_table)
    weight = weight / accepted
    # noise is decided on by the first draw, which is never repeated: its part of that draw is its share
    noise = kind == STAPLE
    if noise.any() and not noise.all():
        weight[noise] *= weight[~noise].sum() / (1 - share[noise].sum())
    return np.asarray(weight)


def _accepted_over_sizes(size_table: npt.NDArray[np.float64]) -> float:
    size = np.arange(1, len(size_table) + 1)
    lines = np.diff(size_table, prepend=0.0) * size
    return float(lines @ [stocking_up(each) for each in size.tolist()] / lines.sum())


def alias_table(weight: npt.NDArray[np.float64]) -> Alias:
    """Vose's alias table: item i keeps its place with probability share[i] / 2^32, else alias[i] has it."""
    scaled = weight / weight.sum() * len(weight)
    alias = np.arange(len(weight), dtype=np.int32)
    keep = np.ones(len(weight))
    small = np.flatnonzero(scaled < 1).tolist()
    large = np.flatnonzero(scaled >= 1).tolist()
    while small and large:
        poor, rich = small.pop(), large[-1]
        keep[poor] = scaled[poor]
        alias[poor] = rich
        scaled[rich] -= 1 - scaled[poor]
        if scaled[rich] < 1:
            small.append(large.pop())
    return np.round(keep * 2**32).astype(np.int64), alias


def partners_by_query(
    planted: PlantedPairs, items: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.float64]]:
    """Offsets (items + 1,), partners and their cumulative strengths within each query (pairs,)."""
    offsets = np.searchsorted(planted.query, np.arange(items + 1)).astype(np.int64)
    total = np.concatenate([[0.0], np.cumsum(planted.strength)])
    return offsets, planted.item, total[1:] - total[offsets[planted.query]]


def store_table(stores: int) -> npt.NDArray[np.float64]:
    """Cumulative shares of the stores, the largest first, shape (stores,)."""
    share = 1.0 / (np.arange(stores) + 3)
    total = np.cumsum(share)
    return np.asarray(total / total[-1])
