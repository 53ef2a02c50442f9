"""Slices of the label records: by popularity, category, strength and count in training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from neatrec.data.catalog import UNKNOWN, Catalog
from neatrec.evaluation.ranks import LabelQueries

Codes = npt.NDArray[np.int32]
Numbers = npt.NDArray[np.int64]

DECILES = 10
SEEN = ((0, 0, "0"), (1, 1, "1"), (2, 4, "2-4"), (5, None, "5+"))
"""Slices of the count of a pair in training: lowest and highest count, name."""


@dataclass(frozen=True)
class SliceSpec:
    """A partition of the label records: `names[code[i]]` is the slice of record i."""

    by: str
    names: tuple[str, ...]
    code: npt.NDArray[np.int64]


def slicings(
    label_queries: LabelQueries,
    catalog: Catalog,
    purchases: Numbers,
    pair_count: Numbers,
    levels: Mapping[float, npt.NDArray[np.bool_]],
) -> tuple[SliceSpec, ...]:
    """All partitions: `purchases` (items,) and `pair_count` (labels,) come from training."""
    return (
        by_decile("query popularity", purchases[label_queries.query]),
        by_decile("item popularity", purchases[label_queries.item]),
        by_category(label_queries, catalog),
        by_strength(levels),
        by_pair_count(pair_count),
    )


def by_decile(name: str, purchases: Numbers) -> SliceSpec:
    """Ten slices with similar numbers of records, least bought first; fewer with many ties.

    >>> by_decile("query popularity", np.array([5, 5, 5, 9])).names
    ('5', '9')
    """
    shares = np.linspace(0, 1, DECILES + 1)[1:-1]
    edges = np.zeros(0)
    if len(purchases):
        edges = np.unique(np.quantile(purchases, shares, method="lower"))
    code = np.searchsorted(edges, purchases, side="left")
    used, code = np.unique(code, return_inverse=True)
    names = []
    for slot in range(len(used)):
        low, high = int(purchases[code == slot].min()), int(purchases[code == slot].max())
        names.append(f"{low}-{high}" if low != high else str(low))
    return SliceSpec(name, tuple(names), code.astype(np.int64))


def by_category(label_queries: LabelQueries, catalog: Catalog) -> SliceSpec:
    """Slices by the query's category at the top level, as in the paper's department table."""
    if not catalog.levels:
        return SliceSpec("category", ("all",), np.zeros(len(label_queries.query), dtype=np.int64))
    category = catalog.category_of(catalog.levels[0])[label_queries.query]
    used, code = np.unique(category, return_inverse=True)
    names = tuple("unknown" if c == UNKNOWN else catalog.category_names[0][c] for c in used)
    return SliceSpec("category", names, code.astype(np.int64))


def by_strength(levels: Mapping[float, npt.NDArray[np.bool_]]) -> SliceSpec:
    """Slices by the strictest level that a label passes, strongest first."""
    ordered = sorted(levels)
    size = len(levels[ordered[0]])
    code = np.full(size, len(ordered) - 1, dtype=np.int64)
    for position in reversed(range(len(ordered))):
        code[levels[ordered[position]]] = position
    names = [f"up to {ordered[0]:g}", *(f"{a:g} to {b:g}" for a, b in pairwise(ordered))]
    return SliceSpec("label strength", tuple(names), code)


def by_pair_count(pair_count: Numbers) -> SliceSpec:
    """Slices by the count of the pair in training: 0, 1, 2-4, 5+.

    >>> by_pair_count(np.array([0, 3, 7])).code.tolist()
    [0, 2, 3]
    """
    lowest = np.array([low for low, _, _ in SEEN])
    code = np.searchsorted(lowest, pair_count, side="right") - 1
    names = tuple(name for _, _, name in SEEN)
    return SliceSpec("times seen in training", names, code.astype(np.int64))
