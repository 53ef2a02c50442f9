"""The tables that the kernel draws from: how much each item sells, how large baskets are, complements by query."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neatrec.compiled import fill_alias
from neatrec.simulator.catalog import (
    DECEMBER_ONLY,
    LARGE_BASKET,
    ONE_STORE_ONLY,
    PLAIN,
    STAPLE,
    TRAPS,
    Assortment,
    Product,
    product_table,
)
from neatrec.simulator.kernel import stocking_up
from neatrec.simulator.planting import PlantedPairs

TOP_SHARE = 0.0165
"""Share of all lines drawn for the item that sells best, in shops of any size."""
TRAP_SHARE = 0.009
"""Share of all lines for the items of each trap together."""
HEAD, FALL, BEND = 0.64, 4.25, 0.56
FULL_RANGE = 50_000
"""Items of a shop whose popularity falls as in a real one."""
SCALE, SHAPE = 10.84, 1.30


def popularity_curve(items: int) -> npt.NDArray[np.float64]:
    """Shares of the lines by rank: (rank + shift)^-0.64 e^(-fall (rank / items)^0.56), shape (items,).

    A small catalogue falls less steeply, and its head is flattened by the shift: its best seller would be in every
    basket otherwise.
    """
    rank = np.arange(1, items + 1)
    fall = FALL * min(1.0, np.log(items) / np.log(FULL_RANGE))
    low, high = 0.0, 10.0 * items
    for _ in range(60):
        shift = (low + high) / 2
        weight = (rank + shift) ** -HEAD * np.exp(-fall * (rank / items) ** BEND)
        share: npt.NDArray[np.float64] = weight / weight.sum()
        low, high = (shift, high) if share[0] > TOP_SHARE else (low, shift)
    return share


def _head_start(product: Product) -> float:
    """How much better than the rest a product is known: fresh food and favoured products sell most."""
    fresh = {"produce": 1.1, "dairy eggs": 0.6}.get(
        product_table().departments[product.department], 0.0
    )
    return fresh + 1.6 * product.favoured


def share_of_lines(chosen: Assortment, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """The share of all lines that each item is meant to have, shape (items,); sums to 1."""
    products = product_table().products
    kind = np.array([product.kind for product in products])[chosen.product]
    known = rng.normal(0.0, 0.7, len(products)) + np.array(
        [_head_start(product) for product in products]
    )
    appeal = known[chosen.product] - 0.9 * np.log1p(chosen.number) + rng.normal(0.0, 0.5, len(kind))
    appeal[(kind == STAPLE) & (chosen.number == 0)] += 100
    appeal[np.isin(kind, TRAPS)] -= 100  # their share is set apart, below
    share = np.empty(len(kind))
    share[np.argsort(-appeal, kind="stable")] = popularity_curve(len(kind))
    for trap in TRAPS:
        members = kind == trap
        share[members] = TRAP_SHARE / max(1, members.sum())
    return np.asarray(share / share.sum())


def basket_size_table(largest: int) -> npt.NDArray[np.float64]:
    """P(size <= s) for s = 1 ... largest: a Weibull curve, cut off at `largest`, shape (largest,)."""
    size = np.arange(1, largest + 1)
    table = 1.0 - np.exp(-((size / SCALE) ** SHAPE))
    return np.asarray(table / table[-1])


MEAN_TASTE = (0.15 + 0.45 + 0.8 + 1.0) / 4
DECEMBER_SHARE = 31 / 365
ARRIVES = 0.8
"""How often a complement that was brought fits into the cart."""

Alias = tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]


def draw_weights(
    share: npt.NDArray[np.float64],
    kind: npt.NDArray[np.int8],
    planted: PlantedPairs,
    size_table: npt.NDArray[np.float64],
    trap_store_share: float,
) -> npt.NDArray[np.float64]:
    """Weights to draw from so that, after all acceptance and with all complements, items sell as `share` says."""
    brought = np.bincount(
        planted.item, share[planted.query] * planted.strength * ARRIVES, minlength=len(share)
    )
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
    share = weight / weight.sum() * len(weight)
    alias = fill_alias(share)
    return np.round(share * 2**32).astype(np.int64), alias.astype(np.int32)


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
