"""Candidate sets: the items that compete for each query, the same for every model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neatrec.cooccurrence import CountOptions, Counts, count
from neatrec.data.baskets import Baskets
from neatrec.data.catalog import Catalog
from neatrec.errors import require_whole

Codes = npt.NDArray[np.int32]
Numbers = npt.NDArray[np.int64]

COUNTING = CountOptions(directed=False, customers=False)
"""All pairs of a basket, without direction and same-category pairs."""


@dataclass(frozen=True)
class CandidateSet:
    """For each query the items bought with it most often."""

    name: str
    queries: Codes
    """The queries, ascending, shape (queries,)."""
    offsets: Numbers
    """Start of the candidates of each query, shape (queries + 1,)."""
    items: Codes
    """Candidates, most bought together first, shape (candidates,)."""


@dataclass(frozen=True)
class CatalogCandidates:
    """For each query all items of the training baskets of other categories."""

    name: str
    queries: Codes
    """The queries, ascending, shape (queries,)."""
    sold: npt.NDArray[np.bool_]
    """Mask of the items in the training baskets, shape (items,)."""
    category: Codes
    """Category codes, negative where unknown, shape (items,)."""


Candidates = CandidateSet | CatalogCandidates


def partners(baskets: Baskets, queries: Codes) -> Counts:
    """Count the symmetric pairs that hold one of `queries`."""
    pairs = count(baskets, COUNTING)
    held = np.zeros(len(baskets.catalog), dtype=np.bool_)
    held[queries] = True
    return pairs.where(held[pairs.query] | held[pairs.item]).symmetric()


def candidate_set(bought_with: Counts, queries: Codes, size: int = 200) -> CandidateSet:
    """The `size` items bought most often with each of the ascending queries.

    Items with equal counts are in the order of their ids.
    """
    require_whole("candidates", size)
    order = id_order(bought_with.catalog)
    # one number sorts by count, largest first, then by id
    key = -bought_with.count * np.int64(len(order)) + order[bought_with.item]
    best = []
    for query in queries.tolist():
        row = bought_with.row(query)
        best.append(bought_with.item[row][np.argsort(key[row])[:size]])
    offsets = np.cumsum([0, *map(len, best)], dtype=np.int64)
    items = np.concatenate([*best, np.zeros(0, dtype=np.int32)])
    return CandidateSet(f"top{size}", queries, offsets, items)


def catalogue(baskets: Baskets, queries: Codes) -> CatalogCandidates:
    """All items of `baskets`, except the query and the items of its category."""
    category = COUNTING.category_of(baskets.catalog)
    return CatalogCandidates("catalogue", queries, baskets.item_counts > 0, category)


def id_order(catalog: Catalog) -> Numbers:
    """The rank of each item by id: as numbers if all ids are integers, else as text.

    >>> id_order(Catalog.from_ids(["10", "9"])).tolist()
    [1, 0]
    >>> id_order(Catalog.from_ids(["b10", "b9"])).tolist()
    [0, 1]
    """
    ids = catalog.ids
    numeric = pc.all(pc.match_substring_regex(ids, r"^[0-9]{1,18}$")).as_py()
    numbers = ids.cast(pa.int64()) if numeric else np.zeros(len(ids), np.int64)
    table = pa.table({"number": numbers, "text": ids})
    keys = [("number", "ascending"), ("text", "ascending")]
    rank = np.empty(len(ids), dtype=np.int64)
    rank[pc.sort_indices(table, sort_keys=keys).to_numpy()] = np.arange(len(ids))
    return rank
