"""Rare queries: bought items with similar names answer for them, or their category's best sellers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from neatrec.data.catalog import UNKNOWN

Codes = npt.NDArray[np.int32]

RARE = 3
"""Items bought fewer times have stand-ins."""
STAND_INS = 10
OWN_WEIGHT = 1.0
"""Weight of an item's own scores, plus as much per purchase, beside stand-ins of at most 1."""
RELIABLE = 5.0
"""Purchases at which a stand-in has half of its weight."""


def stand_ins(
    item_count: npt.NDArray[np.int64], category: Codes, names: sparse.csr_matrix | None
) -> sparse.csr_matrix:
    """Shares of the items whose scores are averaged for each query, (items, items); rows sum to 1.

    Its own, for most. A rare item shares with the bought items of the most similar names; what is
    left of an item that nobody bought goes to the ten best sellers of its category.
    """
    size = len(item_count)
    rare = np.flatnonzero(item_count < RARE)
    own = np.where(item_count >= RARE, 1.0, OWN_WEIGHT * (1.0 + item_count))
    if names is None or not len(rare):
        shares = sparse.csr_matrix((size, size))
    else:
        found = names[rare].tocoo()
        reliable = item_count[found.col] / (item_count[found.col] + RELIABLE)
        weight = found.data * reliable * (rare[found.row] != found.col)
        order = np.lexsort((found.col, -weight, found.row))
        row = found.row[order]
        first = (np.arange(len(row)) - np.searchsorted(row, row) < STAND_INS) & (weight[order] > 0)
        cells = (weight[order][first], (rare[row[first]], found.col[order][first]))
        shares = sparse.csr_matrix(cells, shape=(size, size))
    mass = own + np.asarray(shares.sum(axis=1)).ravel()
    shares = sparse.diags(1 / mass) @ shares
    left = own / mass
    sellers = best_sellers(item_count, category)
    has_sellers = np.diff(sellers.indptr) > 0
    shares = shares + sparse.diags(left * has_sellers) @ sellers
    out = sparse.csr_matrix(shares + sparse.diags(left * ~has_sellers), dtype=np.float64)
    out.eliminate_zeros()
    return out


def best_sellers(item_count: npt.NDArray[np.int64], category: Codes) -> sparse.csr_matrix:
    """Of each item never bought the shares of its category's best sellers in their sales."""
    size, groups = len(category), int(category.max(initial=UNKNOWN)) + 1
    bought = np.flatnonzero((category != UNKNOWN) & (item_count > 0))
    order = bought[np.lexsort((-item_count[bought], category[bought]))]
    code = category[order]
    first = np.arange(len(order)) - np.searchsorted(code, code) < STAND_INS
    order, code = order[first], code[first]
    sales = np.bincount(code, item_count[order], minlength=groups)
    share = item_count[order] / sales[code]
    of_category = sparse.csr_matrix((share, (code, order)), shape=(groups, size))
    never = np.flatnonzero((category != UNKNOWN) & (item_count == 0))
    ones = np.ones(len(never))
    member = sparse.csr_matrix((ones, (never, category[never])), shape=(size, groups))
    return sparse.csr_matrix(member @ of_category)


def expanded(matrix: sparse.csr_matrix, rows: npt.NDArray[Any]) -> tuple[Any, Codes, Any]:
    """All entries of the given rows of a matrix: which of the rows, column and value."""
    found = matrix[rows]
    row = np.repeat(np.arange(len(rows)), np.diff(found.indptr))
    return row, found.indices.astype(np.int32), found.data
