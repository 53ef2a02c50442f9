"""Candidate sets: which items compete for each query, the same for every model.

A `CandidateSet` holds for each query the items bought with it most often in the training baskets. `CatalogCandidates`
holds every item of the training baskets except the query and what shares its category.
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
"""What candidate sets are counted from: all pairs of a basket, both directions, same category left out."""


def partners(baskets: Baskets, queries: Codes, engine: Engine = MEMORY) -> Counts:
    """What was bought with each of `queries`: the symmetric pairs that have one of them."""
    touching = np.unique(np.asarray(queries, dtype=np.int32))
    return count(baskets, replace(CANDIDATE_COUNTING, touching=touching), engine).symmetric()


@dataclass(frozen=True)
class CandidateSet:
    """For each query the items bought with it most often."""

    name: str
    queries: Codes
    """The queries, ascending, shape (queries,)."""
    offsets: Numbers
    """Where each query's candidates start, shape (queries + 1,)."""
    items: Codes
    """Candidates, most bought together first, shape (candidates,)."""
    counts: Numbers
    """Times bought together, shape (candidates,)."""

    def holds(self, query: Codes, item: Codes) -> npt.NDArray[np.bool_]:
        """Which of these pairs are a query and a candidate of it."""
        base = int(max(self.items.max(initial=0), item.max(initial=0))) + 1
        keys = np.repeat(self.queries.astype(np.int64), np.diff(self.offsets)) * base + self.items
        return np.isin(query.astype(np.int64) * base + item, keys)


@dataclass(frozen=True)
class CatalogCandidates:
    """For each query all items of the training baskets, except the query and what shares its category."""

    name: str
    queries: Codes
    """The queries, ascending, shape (queries,)."""
    sold: npt.NDArray[np.bool_]
    """Which items the training baskets hold, shape (items,)."""
    category: Codes
    """Category codes, negative where unknown, shape (items,)."""

    def holds(self, query: Codes, item: Codes) -> npt.NDArray[np.bool_]:
        """Which of these pairs are a query and a candidate of it."""
        same = (self.category[query] >= 0) & (self.category[query] == self.category[item])
        kept: npt.NDArray[np.bool_] = self.sold[item] & (query != item) & ~same
        return kept


Candidates = CandidateSet | CatalogCandidates


def candidate_set(bought_with: Counts, queries: Codes, size: int = 200) -> CandidateSet:
    """The `size` items bought most often with each query; equal counts by ascending item id."""
    require_whole("candidates", size)
    queries = np.unique(np.asarray(queries, dtype=np.int32))
    place = id_order(bought_with.catalog)[bought_with.item]
    rows = [bought_with.row(query) for query in queries.tolist()]
    picked, offsets = _best_partners(rows, bought_with.count, place, size)
    items, counts = bought_with.item[picked], bought_with.count[picked]
    return CandidateSet(f"top{size}", queries, offsets, items, counts)


def _best_partners(
    rows: list[slice], count: Numbers, place: Numbers, size: int
) -> tuple[Numbers, Numbers]:
    """Where the `size` largest counts of each row stand, best first, and where each row's start among them.

    Equal counts go by ascending `place`.
    """
    # one whole number sorts by count, largest first, then by place
    key = -count * (int(place.max(initial=0)) + 1) + place
    chosen = []
    for row in rows:
        keys = key[row]
        best = np.argpartition(keys, size - 1)[:size] if len(keys) > size else np.arange(len(keys))
        chosen.append(row.start + best[np.argsort(keys[best])])
    picked = np.concatenate([*chosen, np.zeros(0, dtype=np.int64)]).astype(np.int64)
    return picked, np.concatenate([[0], np.cumsum([len(rows) for rows in chosen])]).astype(np.int64)


def catalogue(baskets: Baskets, queries: Codes) -> CatalogCandidates:
    """Every item of `baskets` competes, except the query and what shares its category."""
    category = CANDIDATE_COUNTING.category_of(baskets.catalog)
    return CatalogCandidates(
        "catalogue", np.unique(np.asarray(queries, np.int32)), baskets.item_counts > 0, category
    )


def id_order(catalog: Catalog) -> Numbers:
    """The place of each item when sorted by id: as numbers where all ids are whole numbers, else as text.

    >>> id_order(Catalog.from_ids(["10", "9"])).tolist(), id_order(Catalog.from_ids(["b10", "b9"])).tolist()
    ([1, 0], [0, 1])
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
