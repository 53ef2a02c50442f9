"""What is planted in a simulated supermarket, and the tables that its kernel draws from."""

from __future__ import annotations

from dataclasses import dataclass

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
    complementary_products,
    product_kinds,
    product_table,
)
from neatrec.simulator.kernel import ItemDraws, VisitTables, stocking_up

TRAP_NAMES = ("december", "one_store", "large_basket")
WEAKEST, STRONGEST = 0.08, 0.50
"""Strengths before they are shared out: a complement comes along in 4 to 40 of 100 cases."""
FIRST_CHOICE = 0.75
"""Share of the strength of the best matching item of the other product; the next has the rest."""
MAX_BROUGHT = 0.5
"""Largest share of an item's sales that comes from items that bring it."""
MAX_BRINGS = 0.7
"""Largest probability that an item brings any complement."""
GROUP_OF_SUBSTITUTES = 4
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


@dataclass(frozen=True, eq=False)
class PlantedTruth:
    """The planted structures, as arrays of item codes."""

    query: Codes
    item: Codes
    """Complements: `query` brings `item`, shape (complements,), sorted. Mutual ones occur twice."""
    strength: Floats
    """Probability that the query, if bought for its own sake, brings the item, (complements,)."""
    substitutes: Codes
    """Pairs of one aisle that hardly ever share a basket, shape (pairs, 2)."""
    trap_query: Codes
    trap_item: Codes
    """Pairs of different aisles that meet only because of season, store or basket size, both
    directions."""
    trap_kind: npt.NDArray[np.int8]
    """Trap of each pair, as a position in `TRAP_NAMES`."""
    noise: Codes
    """Popular items, bought with everything and complements of nothing."""
    items: int
    """Number of items in the catalogue."""

    def __repr__(self) -> str:
        pairs = f"{len(self.query):,} complements, {len(self.trap_query):,} trap pairs"
        return f"<PlantedTruth {pairs}, {self.items:,} items>"

    def is_complement(self, query: npt.ArrayLike, item: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Whether each pair was planted in this direction, shape (pairs,)."""
        return np.isin(self._key(query, item), self._key(self.query, self.item))

    def is_trap(
        self, query: npt.ArrayLike, item: npt.ArrayLike, trap: str | None = None
    ) -> npt.NDArray[np.bool_]:
        """Whether each pair belongs to `trap`, or to any of the traps, shape (pairs,)."""
        selected = slice(None) if trap is None else self.trap_kind == TRAP_NAMES.index(trap)
        pairs = self._key(self.trap_query[selected], self.trap_item[selected])
        return np.isin(self._key(query, item), pairs)

    def _key(self, query: npt.ArrayLike, item: npt.ArrayLike) -> npt.NDArray[np.int64]:
        return np.asarray(query, dtype=np.int64) * self.items + np.asarray(item, dtype=np.int64)


def _by_sales(codes: Codes, share: Floats) -> Codes:
    return codes[np.argsort(-share[codes], kind="stable")]


def _matched(queries: Codes, items: Codes, strength: Floats) -> Floats:
    """Each query with the item of the same standing and, weaker, with the next one."""
    standing = np.arange(len(queries)) * len(items) // len(queries)
    if len(items) == 1:
        return np.stack([queries, items[standing], strength])
    following = np.where(standing + 1 < len(items), standing + 1, standing - 1)
    first = np.stack([queries, items[standing], strength * FIRST_CHOICE])
    second = np.stack([queries, items[following], strength * (1 - FIRST_CHOICE)])
    return np.concatenate([first, second], axis=1)


def _bounded(query: Codes, item: Codes, strength: Floats, share: Floats) -> Floats:
    """Strengths, lowered where a query brings, or an item is brought, too often."""
    total = np.bincount(query, strength, minlength=len(share))[query]
    strength = strength / np.maximum(1.0, total / MAX_BRINGS)
    brought = np.bincount(item, strength * share[query], minlength=len(share))[item]
    return np.asarray(strength / np.maximum(1.0, brought / (MAX_BROUGHT * share[item])))


def substitute_groups(assortment: Assortment, share: Floats) -> Codes:
    """The group of each item, shape (items,): four items of a product with similar sales."""
    order = np.lexsort((-share, assortment.product))
    product = assortment.product[order]
    first = np.searchsorted(product, product, side="left")
    block = (np.arange(len(order)) - first) // GROUP_OF_SUBSTITUTES
    _, group = np.unique(product.astype(np.int64) * len(order) + block, return_inverse=True)
    out = np.empty(len(order), dtype=np.int32)
    out[order] = group
    return out


def substitute_pairs(group: Codes) -> Codes:
    """All pairs within a group, smaller code first, shape (pairs, 2)."""
    order = np.argsort(group, kind="stable")
    pairs = []
    for distance in range(1, GROUP_OF_SUBSTITUTES):
        first, second = order[:-distance], order[distance:]
        same = group[first] == group[second]
        pairs.append(np.stack([first[same], second[same]], axis=1))
    return np.concatenate(pairs).astype(np.int32)


def plant(
    assortment: Assortment, share: Floats, group: Codes, factor: float, rng: np.random.Generator
) -> PlantedTruth:
    """Plant complements and traps.

    Items of complementary products are paired best seller with best seller; pairs of a trap are
    those of its items in different aisles.
    """
    table = product_table().products
    number = {product.name: position for position, product in enumerate(table)}
    pairs = [np.zeros((3, 0))]  # rows: query, item, strength
    for first, second in complementary_products():
        queries = _by_sales(assortment.of_product(number[first]), share)
        items = _by_sales(assortment.of_product(number[second]), share)
        strength = np.exp(rng.uniform(np.log(WEAKEST), np.log(STRONGEST), len(queries)))
        if len(items) and factor > 0:
            pairs.append(_matched(queries, items, strength * factor))
    query, item, strength = np.concatenate(pairs, axis=1)
    order = np.lexsort((item, query))
    query, item = query[order].astype(np.int32), item[order].astype(np.int32)
    aisle = np.array([product.aisle for product in table])[assortment.product]
    kind, traps = product_kinds()[assortment.product], []
    for trap_number, trap in enumerate(TRAPS):
        members = np.flatnonzero(kind == trap)
        one, other = np.repeat(members, len(members)), np.tile(members, len(members))
        apart = aisle[one] != aisle[other]
        traps.append(np.stack([one[apart], other[apart], np.full(apart.sum(), trap_number)]))
    trap_query, trap_item, trap_kind = np.concatenate(traps, axis=1)
    return PlantedTruth(
        query=query,
        item=item,
        strength=_bounded(query, item, strength[order], share),
        substitutes=substitute_pairs(group),
        trap_query=trap_query.astype(np.int32),
        trap_item=trap_item.astype(np.int32),
        trap_kind=trap_kind.astype(np.int8),
        noise=np.flatnonzero((kind == STAPLE) & (assortment.number == 0)).astype(np.int32),
        items=len(kind),
    )


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
