"""Candidate sets: the items that compete for each query, the same for every model.

A `CandidateSet` holds for each query the items bought with it most often in the training baskets.
`CatalogCandidates` holds all items of the training baskets of other categories than the query.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neatrec.cooccurrence import CountOptions, Counts, count
from neatrec.cooccurrence.engine import MEMORY, Engine
from neatrec.data.baskets import Baskets
from neatrec.data.catalog import Catalog
from neatrec.errors import require_whole

Codes = npt.NDArray[np.int32]
Numbers = npt.NDArray[np.int64]

CANDIDATE_COUNTING = CountOptions(directed=False)
"""Candidate sets come from all pairs of a basket, without direction and same-category pairs."""


def partners(baskets: Baskets, queries: Codes, engine: Engine = MEMORY) -> Counts:
    """Count the symmetric pairs that hold one of `queries`."""
    touching = np.unique(np.asarray(queries, dtype=np.int32))
    return count(baskets, replace(CANDIDATE_COUNTING, touching=touching), engine).symmetric()


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

    def holds(self, query: Codes, item: Codes) -> npt.NDArray[np.bool_]:
        """Mask of the pairs whose item is a candidate of their query."""
        base = int(max(self.items.max(initial=0), item.max(initial=0))) + 1
        keys = np.repeat(self.queries.astype(np.int64), np.diff(self.offsets)) * base + self.items
        return np.isin(query.astype(np.int64) * base + item, keys)


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

    def holds(self, query: Codes, item: Codes) -> npt.NDArray[np.bool_]:
        """Mask of the pairs whose item is a candidate of their query."""
        same = (self.category[query] >= 0) & (self.category[query] == self.category[item])
        kept: npt.NDArray[np.bool_] = self.sold[item] & (query != item) & ~same
        return kept


Candidates = CandidateSet | CatalogCandidates


def candidate_set(bought_with: Counts, queries: Codes, size: int = 200) -> CandidateSet:
    """The `size` items bought most often with each query; equal counts by ascending item id."""
    require_whole("candidates", size)
    queries = np.unique(np.asarray(queries, dtype=np.int32))
    order = id_order(bought_with.catalog)[bought_with.item]
    rows = [bought_with.row(query) for query in queries.tolist()]
    selected, offsets = _best_partners(rows, bought_with.count, order, size)
    return CandidateSet(f"top{size}", queries, offsets, bought_with.item[selected])


def _best_partners(
    rows: list[slice], count: Numbers, order: Numbers, size: int
) -> tuple[Numbers, Numbers]:
    """Positions of the `size` largest counts of each row, best first, and the start of each row.

    Equal counts are ordered by ascending `order`.
    """
    # one whole number sorts by count, largest first, then by `order`
    key = -count * (int(order.max(initial=0)) + 1) + order
    selected = []
    for row in rows:
        keys = key[row]
        best = np.argpartition(keys, size - 1)[:size] if len(keys) > size else np.arange(len(keys))
        selected.append(row.start + best[np.argsort(keys[best])])
    offsets = np.concatenate([[0], np.cumsum([len(rows) for rows in selected])]).astype(np.int64)
    return np.concatenate([*selected, np.zeros(0, dtype=np.int64)]).astype(np.int64), offsets


def catalogue(baskets: Baskets, queries: Codes) -> CatalogCandidates:
    """All items of `baskets`, except the query and the items of its category."""
    category = CANDIDATE_COUNTING.category_of(baskets.catalog)
    codes = np.unique(np.asarray(queries, np.int32))
    return CatalogCandidates("catalogue", codes, baskets.item_counts > 0, category)


def id_order(catalog: Catalog) -> Numbers:
    """The rank of each item by id: as numbers if all ids are whole numbers, else as text.

    >>> id_order(Catalog.from_ids(["10", "9"])).tolist()
    [1, 0]
    >>> id_order(Catalog.from_ids(["b10", "b9"])).tolist()
    [0, 1]
    """
    ids = catalog.ids
    numeric = pc.all(pc.match_substring_regex(ids, r"^[0-9]{1,18}$")).as_py()
    keys = [("number", "ascending"), ("text", "ascending")]
    table = pa.table(
        {"number": ids.cast(pa.int64()) if numeric else np.zeros(len(ids), np.int64), "text": ids}
    )
    place = np.empty(len(ids), dtype=np.int64)
    place[pc.sort_indices(table, sort_keys=keys).to_numpy()] = np.arange(len(ids))
    return place
