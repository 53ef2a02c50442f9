"""The tables that the kernel draws from: sales of items, basket sizes, complements by query."""

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
    Codes,
    Floats,
    Product,
    product_kinds,
    product_table,
)
from neatrec.simulator.kernel import ItemDraws, VisitTables, stocking_up
from neatrec.simulator.planting import PlantedTruth

TOP_SHARE = 0.0165
"""Share of all lines drawn for the best seller, in shops of any size."""
TRAP_SHARE = 0.009
"""Share of all lines for the items of each trap together."""
HEAD, FALL, BEND = 0.64, 4.25, 0.56
FULL_RANGE = 50_000
"""Items of a shop whose popularity falls as in a real one."""
SCALE, SHAPE = 10.84, 1.30
"""Of the Weibull distribution of basket sizes."""
MEAN_TASTE = (0.15 + 0.45 + 0.8 + 1.0) / 4
DECEMBER_SHARE = 31 / 365
ARRIVES = 0.8
"""How often a complement that was brought fits into the cart."""


def popularity_curve(items: int) -> Floats:
    """Shares of the lines by rank: (rank + shift)^-0.64 e^(-fall (rank / items)^0.56), (items,).

    A small catalogue falls less steeply, and the shift flattens its head: otherwise its best
    seller would be in every basket.
    """
    rank = np.arange(1, items + 1)
    fall = FALL * min(1.0, np.log(items) / np.log(FULL_RANGE))
    low, high = 0.0, 10.0 * items
    for _ in range(60):
        shift = (low + high) / 2
        weight = (rank + shift) ** -HEAD * np.exp(-fall * (rank / items) ** BEND)
        share: Floats = weight / weight.sum()
        low, high = (shift, high) if share[0] > TOP_SHARE else (low, shift)
    return share


def _head_start(product: Product) -> float:
    """The appeal of a product in advance: fresh food and favoured products sell most."""
    department = product_table().departments[product.department]
    return {"produce": 1.1, "dairy eggs": 0.6}.get(department, 0.0) + 1.6 * product.favoured


def share_of_lines(assortment: Assortment, rng: np.random.Generator) -> Floats:
    """The intended share of each item in all lines, shape (items,); sums to 1."""
    products = product_table().products
    kind = product_kinds()[assortment.product]
    fame = rng.normal(0.0, 0.7, len(products)) + np.array([_head_start(p) for p in products])
    appeal = fame[assortment.product] - 0.9 * np.log1p(assortment.number)
    appeal += rng.normal(0.0, 0.5, len(kind))
    appeal[(kind == STAPLE) & (assortment.number == 0)] += 100
    appeal[np.isin(kind, TRAPS)] -= 100  # their share is set apart, below
    share = np.empty(len(kind))
    share[np.argsort(-appeal, kind="stable")] = popularity_curve(len(kind))
    for trap in TRAPS:
        members = kind == trap
        share[members] = TRAP_SHARE / max(1, members.sum())
    return np.asarray(share / share.sum())


def basket_size_table(largest: int) -> Floats:
    """P(size <= s) for s = 1 ... largest: a truncated Weibull distribution, shape (largest,)."""
    size = np.arange(1, largest + 1)
    table = 1.0 - np.exp(-((size / SCALE) ** SHAPE))
    return np.asarray(table / table[-1])


def item_draws(
    assortment: Assortment, share: Floats, truth: PlantedTruth, group: Codes, tables: VisitTables
) -> ItemDraws:
    """The tables that items are drawn from."""
    kind = product_kinds()[assortment.product]
    department = np.array([p.department for p in product_table().products], dtype=np.int32)
    alias_share, alias_item = alias_table(_draw_weights(share, kind, truth, tables))
    offsets = np.searchsorted(truth.query, np.arange(len(share) + 1)).astype(np.int64)
    total = np.concatenate([[0.0], np.cumsum(truth.strength)])
    return ItemDraws(
        kind=kind,
        department=department[assortment.product],
        group=group,
        alias_share=alias_share,
        alias_item=alias_item,
        partner_offsets=offsets,
        partner=truth.item,
        partner_until=total[1:] - total[offsets[truth.query]],
    )


def _draw_weights(
    share: Floats, kind: npt.NDArray[np.int8], truth: PlantedTruth, tables: VisitTables
) -> Floats:
    """Weights of the draws that make items sell as `share` says, after refusals and complements."""
    arrived = share[truth.query] * truth.strength * ARRIVES
    weight = share - np.bincount(truth.item, arrived, minlength=len(share))
    accepted = np.ones(len(share))
    accepted[kind == PLAIN] = MEAN_TASTE
    accepted[kind == DECEMBER_ONLY] = DECEMBER_SHARE
    accepted[kind == ONE_STORE_ONLY] = tables.store_table[-1] - tables.store_table[-2]
    size = np.arange(1, len(tables.size_table) + 1)
    lines = np.diff(tables.size_table, prepend=0.0) * size
    stocking = [stocking_up(each) for each in size.tolist()]
    accepted[kind == LARGE_BASKET] = lines @ stocking / lines.sum()
    weight = weight / accepted
    # the first draw, which is never repeated, decides on noise: its share there is its share
    noise = kind == STAPLE
    if noise.any() and not noise.all():
        weight[noise] *= weight[~noise].sum() / (1 - share[noise].sum())
    return np.asarray(weight)


def alias_table(weight: Floats) -> tuple[npt.NDArray[np.int64], Codes]:
    """Vose's alias table: item i stays with probability share[i] / 2^32, else it is alias[i]."""
    share = weight / weight.sum() * len(weight)
    alias = fill_alias(share)
    return np.round(share * 2**32).astype(np.int64), alias.astype(np.int32)


def store_table(stores: int) -> Floats:
    """Cumulative shares of the stores, the largest first, shape (stores,)."""
    total = np.cumsum(1.0 / (np.arange(stores) + 3))
    return np.asarray(total / total[-1])
