"""How much each item sells and how large baskets are: two curves, shaped like those of a real online grocer."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neatrec.simulator.catalog import Assortment
from neatrec.simulator.products import STAPLE, TRAPS, Product, all_goods

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
    fresh = {"produce": 1.1, "dairy eggs": 0.6}.get(all_goods().departments[product.department], 0.0)
    return fresh + 1.6 * product.favoured


def share_of_lines(chosen: Assortment, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """The share of all lines that each item is meant to have, shape (items,); sums to 1."""
    products = all_goods().products
    kind = np.array([product.kind for product in products])[chosen.product]
    known = rng.normal(0.0, 0.7, len(products)) + np.array([_head_start(product) for product in products])
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
