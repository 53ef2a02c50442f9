"""What is true in a simulated supermarket: planted complements, substitutes, and traps that only look like them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from neatrec.simulator.catalog import (
    TRAPS,
    Assortment,
    changing_products,
    complementary_products,
    product_table,
)

TRAP_NAMES = ("december", "one_store", "large_basket")


@dataclass(frozen=True, eq=False)
class PlantedTruth:
    """The planted structures, as arrays of item codes."""

    query: npt.NDArray[np.int32]
    item: npt.NDArray[np.int32]
    """Complements: `query` brings `item`, shape (complements,), sorted. Mutual complements stand here twice."""
    strength: npt.NDArray[np.float64]
    """Probability that the query, put into the cart for its own sake, brings the item, shape (complements,)."""
    substitutes: npt.NDArray[np.int32]
    """Pairs of the same aisle that hardly ever share a basket, shape (pairs, 2)."""
    trap_query: npt.NDArray[np.int32]
    trap_item: npt.NDArray[np.int32]
    """Pairs of different aisles that meet because of season, store or basket size alone, both directions."""
    trap_kind: npt.NDArray[np.int8]
    """Which trap it is: a position in `TRAP_NAMES`."""
    noise: npt.NDArray[np.int32]
    """Popular items, bought with everything and complements of nothing."""
    variant_items: npt.NDArray[np.int32]
    """Items into which variants were folded."""
    items: int
    """Items of the catalogue."""
    trap_store: str
    """The only store that sells the items of the one-store trap."""

    def __repr__(self) -> str:
        return f"<PlantedTruth {len(self.query):,} complements, {len(self.trap_query):,} trap pairs, {self.items:,} items>"

    def is_complement(self, query: npt.ArrayLike, item: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Whether each pair was planted in this direction, shape (pairs,)."""
        return np.isin(self._key(query, item), self._key(self.query, self.item))

    def is_trap(
        self, query: npt.ArrayLike, item: npt.ArrayLike, trap: str | None = None
    ) -> npt.NDArray[np.bool_]:
        """Whether each pair only looks like a complement: by `trap`, or by any of them, shape (pairs,)."""
        chosen = slice(None) if trap is None else self.trap_kind == TRAP_NAMES.index(trap)
        return np.isin(
            self._key(query, item), self._key(self.trap_query[chosen], self.trap_item[chosen])
        )

    def _key(self, query: npt.ArrayLike, item: npt.ArrayLike) -> npt.NDArray[np.int64]:
        return np.asarray(query, dtype=np.int64) * self.items + np.asarray(item, dtype=np.int64)


WEAKEST, STRONGEST = 0.08, 0.50
"""Strengths before they are shared out: a complement comes along in 4 to 40 of 100 cases."""
FIRST_CHOICE = 0.75
"""How much of the strength goes to the best matching item of the other product; the next one has the rest."""
MAX_BROUGHT = 0.5
"""At most this part of an item's sales comes from items that bring it."""
GROUP_OF_SUBSTITUTES = 4


@dataclass(frozen=True)
class PlantedPairs:
    """Directed complements with their strength: shapes (pairs,), sorted by query, then item."""

    query: npt.NDArray[np.int32]
    item: npt.NDArray[np.int32]
    strength: npt.NDArray[np.float64]


def plant_complements(
    chosen: Assortment,
    share: npt.NDArray[np.float64],
    factor: float,
    rng: np.random.Generator,
    *,
    half: int | None = None,
) -> PlantedPairs:
    """Pairs of items for each pair of complementary products, best seller with best seller.

    `half`: the half of a year with a change, see `changing_products`.
    """
    number = {product.name: position for position, product in enumerate(product_table().products)}
    pairs: list[npt.NDArray[np.float64]] = []  # columns: query, item, strength
    for first, second in complementary_products() if half is None else changing_products(half):
        queries = _best_first(chosen.of_product(number[first]), share)
        items = _best_first(chosen.of_product(number[second]), share)
        strength = np.exp(rng.uniform(np.log(WEAKEST), np.log(STRONGEST), len(queries)))
        if len(items) and factor > 0:
            pairs.append(_matched(queries, items, strength * factor))
    query, item, strength = np.concatenate(pairs, axis=1) if pairs else np.zeros((3, 0))
    order = np.lexsort((item, query))
    query, item = query[order].astype(np.int32), item[order].astype(np.int32)
    return PlantedPairs(query, item, _bounded(query, item, strength[order], share))


def _best_first(
    codes: npt.NDArray[np.int32], share: npt.NDArray[np.float64]
) -> npt.NDArray[np.int32]:
    return codes[np.argsort(-share[codes], kind="stable")]


def _matched(
    queries: npt.NDArray[np.int32], items: npt.NDArray[np.int32], strength: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Each query with the item of the same standing and, weaker, with the next one."""
    standing = np.arange(len(queries)) * len(items) // len(queries)
    if len(items) == 1:
        return np.stack([queries, items[standing], strength])
    following = np.where(standing + 1 < len(items), standing + 1, standing - 1)
    return np.concatenate(
        [
            np.stack([queries, items[standing], strength * FIRST_CHOICE]),
            np.stack([queries, items[following], strength * (1 - FIRST_CHOICE)]),
        ],
        axis=1,
    )


def _bounded(
    query: npt.NDArray[np.int32],
    item: npt.NDArray[np.int32],
    strength: npt.NDArray[np.float64],
    share: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """Strengths lowered where a query brings something in over 70 % of cases or an item is mostly brought by others."""
    total = np.bincount(query, strength, minlength=len(share))[query]
    strength = strength / np.maximum(1.0, total / 0.7)
    brought = np.bincount(item, strength * share[query], minlength=len(share))[item]
    return np.asarray(strength / np.maximum(1.0, brought / (MAX_BROUGHT * share[item])))


def substitute_groups(chosen: Assortment, share: npt.NDArray[np.float64]) -> npt.NDArray[np.int32]:
    """The group of each item, shape (items,): four items of a product, alike in sales, replace each other."""
    order = np.lexsort((-share, chosen.product))
    product = chosen.product[order]
    first = np.searchsorted(product, product, side="left")
    place = (np.arange(len(order)) - first) // GROUP_OF_SUBSTITUTES
    _, group = np.unique(product.astype(np.int64) * len(order) + place, return_inverse=True)
    out = np.empty(len(order), dtype=np.int32)
    out[order] = group
    return out


def substitute_pairs(group: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """All pairs within a group, smaller code first, shape (pairs, 2)."""
    order = np.argsort(group, kind="stable")
    pairs = []
    for distance in range(1, GROUP_OF_SUBSTITUTES):
        first, second = order[:-distance], order[distance:]
        same = group[first] == group[second]
        pairs.append(np.stack([first[same], second[same]], axis=1))
    return np.concatenate(pairs).astype(np.int32)


def trap_pairs(
    chosen: Assortment, kind: npt.NDArray[np.int8]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int8]]:
    """Query, item and trap of all pairs of one trap that stand in different aisles, both directions."""
    aisle = np.array([product.aisle for product in product_table().products])[chosen.product]
    queries, items, traps = [], [], []
    for number, trap in enumerate(TRAPS):
        members = np.flatnonzero(kind == trap)
        query, item = np.repeat(members, len(members)), np.tile(members, len(members))
        apart = aisle[query] != aisle[item]
        queries.append(query[apart])
        items.append(item[apart])
        traps.append(np.full(apart.sum(), number))
    return (
        np.concatenate(queries).astype(np.int32),
        np.concatenate(items).astype(np.int32),
        np.concatenate(traps).astype(np.int8),
    )
