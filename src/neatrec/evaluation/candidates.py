"""Candidate sets: which items compete for each query, the same for every model.

A `CandidateSet` holds for each query the items bought with it most often in the training baskets. `CatalogCandidates`
holds every item of the training baskets except the query and what shares its category.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from neatrec.cooccurrence import CountOptions, Margins, PairBlock, count
from neatrec.cooccurrence.count_kernels import find_pairs
from neatrec.data.baskets import Baskets
from neatrec.data.catalog import Catalog
from neatrec.errors import require_whole

Codes = npt.NDArray[np.int32]
Numbers = npt.NDArray[np.int64]

CANDIDATE_COUNTING = CountOptions(directed=False)
"""What candidate sets are counted from: all pairs of a basket, both directions, same category left out."""


@dataclass(frozen=True)
class PartnerCounts:
    """What was bought with each of some queries: rows of items and counts, by ascending item."""

    queries: Codes
    """The queries, ascending, shape (queries,)."""
    offsets: Numbers
    """Where each query's partners start, shape (queries + 1,)."""
    items: Codes
    """Partners of all queries, shape (pairs,)."""
    counts: Numbers
    """Times bought together, shape (pairs,)."""
    margins: Margins
    catalog: Catalog

    def count_of(self, query: Codes, item: Codes) -> Numbers:
        """Times each pair was bought together, 0 where never; every query must be one of `queries`."""
        place = find_pairs(self.offsets, self.items, np.searchsorted(self.queries, query), item)
        found = np.zeros(len(place), dtype=np.int64)
        found[place >= 0] = self.counts[place[place >= 0]]
        return found


def partners(baskets: Baskets, queries: Codes) -> PartnerCounts:
    """What was bought with each of `queries` in `baskets`; memory grows with the partners of these queries only."""
    queries = np.unique(np.asarray(queries, dtype=np.int32))
    is_query = np.zeros(len(baskets.catalog), dtype=bool)
    is_query[queries] = True

    def keep(block: PairBlock, _: Margins) -> npt.NDArray[np.bool_]:
        return is_query[block.query] | is_query[block.item]

    pairs = count(baskets, CANDIDATE_COUNTING, keep=keep)
    forward, backward = is_query[pairs.query], is_query[pairs.item]
    # pairs ascend by query, then item, and item > query: backward before forward, the items of each row ascend
    row = np.concatenate([pairs.item[backward], pairs.query[forward]])
    item = np.concatenate([pairs.query[backward], pairs.item[forward]])
    together = np.concatenate([pairs.count[backward], pairs.count[forward]])
    size = len(baskets.catalog)
    rows = sparse.coo_matrix((together, (row, item)), shape=(size, size)).tocsr()
    offsets = np.append(rows.indptr[queries], rows.nnz).astype(np.int64)
    items, counts = rows.indices.astype(np.int32, copy=False), rows.data.astype(np.int64, copy=False)
    return PartnerCounts(queries, offsets, items, counts, pairs.margins, baskets.catalog)


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


def candidate_set(bought_with: PartnerCounts, size: int = 200) -> CandidateSet:
    """The `size` items bought most often with each query; equal counts by ascending item id."""
    require_whole("candidates", size)
    place = id_order(bought_with.catalog)[bought_with.items]
    picked, offsets = _best_partners(bought_with.offsets, bought_with.counts, place, size)
    return CandidateSet(
        f"top{size}", bought_with.queries, offsets, bought_with.items[picked], bought_with.counts[picked]
    )


def _best_partners(offsets: Numbers, count: Numbers, place: Numbers, size: int) -> tuple[Numbers, Numbers]:
    """Where the `size` largest counts of each row stand, best first, and where each row's start among them.

    Row r is offsets[r]:offsets[r + 1] of `count` and `place`; equal counts go by ascending `place`.
    """
    # one whole number sorts by count, largest first, then by place
    key = -count * (int(place.max(initial=0)) + 1) + place
    chosen = []
    for start, end in pairwise(offsets):
        row = key[start:end]
        best = np.argpartition(row, size - 1)[:size] if len(row) > size else np.arange(len(row))
        chosen.append(start + best[np.argsort(row[best])])
    picked = np.concatenate([*chosen, np.zeros(0, dtype=np.int64)]).astype(np.int64)
    return picked, np.concatenate([[0], np.cumsum([len(rows) for rows in chosen])]).astype(np.int64)


def catalogue(baskets: Baskets, queries: Codes) -> CatalogCandidates:
    """Every item of `baskets` competes, except the query and what shares its category."""
    category = CANDIDATE_COUNTING.category_of(baskets.catalog)
    return CatalogCandidates("catalogue", np.unique(np.asarray(queries, np.int32)), baskets.item_counts > 0, category)


def id_order(catalog: Catalog) -> Numbers:
    """The place of each item when sorted by id: as numbers where all ids are whole numbers, else as text.

    >>> id_order(Catalog.from_ids(["10", "9"])).tolist(), id_order(Catalog.from_ids(["b10", "b9"])).tolist()
    ([1, 0], [0, 1])
    """
    ids = catalog.ids
    numeric = pc.all(pc.match_substring_regex(ids, r"^[0-9]{1,18}$")).as_py()
    keys = [("number", "ascending"), ("text", "ascending")]
    table = pa.table({"number": ids.cast(pa.int64()) if numeric else np.zeros(len(ids), np.int64), "text": ids})
    place = np.empty(len(ids), dtype=np.int64)
    place[pc.sort_indices(table, sort_keys=keys).to_numpy()] = np.arange(len(ids))
    return place
