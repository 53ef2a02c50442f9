"""What is true in a simulated supermarket: which items were made to go together, and which only look so."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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
        return (
            f"<PlantedTruth {len(self.query):,} complements, {len(self.trap_query):,} trap pairs, {self.items:,} items>"
        )

    def is_complement(self, query: npt.ArrayLike, item: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Whether each pair was planted in this direction, shape (pairs,)."""
        return np.isin(self._key(query, item), self._key(self.query, self.item))

    def is_trap(self, query: npt.ArrayLike, item: npt.ArrayLike, trap: str | None = None) -> npt.NDArray[np.bool_]:
        """Whether each pair only looks like a complement: by `trap`, or by any of them, shape (pairs,)."""
        chosen = slice(None) if trap is None else self.trap_kind == TRAP_NAMES.index(trap)
        return np.isin(self._key(query, item), self._key(self.trap_query[chosen], self.trap_item[chosen]))

    def _key(self, query: npt.ArrayLike, item: npt.ArrayLike) -> npt.NDArray[np.int64]:
        return np.asarray(query, dtype=np.int64) * self.items + np.asarray(item, dtype=np.int64)
