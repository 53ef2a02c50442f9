"""Which of two items goes into the cart first: what is known about it where carts have an order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from neatrec.baskets import BasketStream
from neatrec.catalog import UNKNOWN
from neatrec.copurchase import Counting, count

PSEUDO = 20.0
"""Times added to both orders before the logarithm of their ratio."""


def directed_counts(baskets: BasketStream, counting: Counting, threads: int | None = None) -> sparse.csr_matrix:
    """How often each item went into the cart before each other one, shape (items, items)."""
    pairs = count(baskets, replace(counting, directed=True), threads=threads)
    size = len(pairs.catalog)
    dtype = np.int32 if pairs.count.max(initial=0) < 2**31 else np.int64
    return sparse.csr_matrix((pairs.count.astype(dtype), pairs.item, pairs.indptr), shape=(size, size))


@dataclass(frozen=True)
class Order:
    """Logarithms of times before over times after; all 0 where order is not known."""

    first: npt.NDArray[np.float32]
    """Of each item, whatever the other one, shape (items,)."""
    categories: npt.NDArray[np.float32]
    """Of category pairs, shape (categories + 1, categories + 1): the last row and column are unknown ones."""

    @classmethod
    def of(cls, directed: sparse.csr_matrix | None, category: npt.NDArray[np.int32]) -> Order:
        """The order that `directed` counts show; `category` holds codes, shape (items,)."""
        size = int(category.max(initial=UNKNOWN)) + 1
        first = np.zeros(len(category), dtype=np.float32)
        table = np.zeros((size + 1, size + 1), dtype=np.float32)
        if directed is not None:
            first = _log_ratio(np.asarray(directed.sum(axis=1)).ravel(), np.asarray(directed.sum(axis=0)).ravel())
            known = np.flatnonzero(category != UNKNOWN)
            member = sparse.csr_matrix((np.ones(len(known)), (known, category[known])), shape=(len(category), size))
            before = (member.T @ (directed @ member)).toarray()
            table[:size, :size] = _log_ratio(before, before.T)
        return cls(first, table)

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
