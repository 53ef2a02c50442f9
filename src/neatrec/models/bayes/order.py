"""Which of two items goes into the cart first: what is known about it where carts have an order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

PSEUDO = 20.0
"""Times added to both orders before the logarithm of their ratio."""


@dataclass(frozen=True)
class Order:
    """Logarithms of times before over times after; all 0 where order is not known."""

    first: npt.NDArray[np.float32]
    """Of each item, whatever the other one, shape (items,)."""
    categories: npt.NDArray[np.float32]
    """Of category pairs, shape (categories + 1, categories + 1): the last row and column are unknown ones."""

    @classmethod
    def of(cls, before: npt.NDArray[Any], after: npt.NDArray[Any], table: npt.NDArray[Any]) -> Order:
        """The order that records show: how often each item came first and how often second, both of shape (items,).

        `table` holds times together of categories, the row's one first, shape (categories, categories).
        """
        order = cls.unknown(len(before), len(table))
        order.categories[:-1, :-1] = _log_ratio(table, table.T)
        return cls(_log_ratio(before, after), order.categories)

    @classmethod
    def unknown(cls, items: int, categories: int) -> Order:
        """Of carts without an order."""
        size = categories + 1
        return cls(np.zeros(items, dtype=np.float32), np.zeros((size, size), dtype=np.float32))

    def of_pairs(self, queries: Any, items: Any, category: npt.NDArray[np.int32]) -> tuple[Any, Any]:
        """How much rather the query comes first, by its item and by its category; the arguments broadcast together."""
        return self.first[queries] - self.first[items], self.categories[category[queries], category[items]]

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {"order_first": self.first, "order_categories": self.categories}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Order:
        return cls(arrays["order_first"], arrays["order_categories"])


def _log_ratio(before: npt.NDArray[Any], after: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    ratio: npt.NDArray[np.float32] = np.log((before + PSEUDO) / (after + PSEUDO)).astype(np.float32)
    return ratio
