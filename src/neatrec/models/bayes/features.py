"""What is known about a pair: the features of the prior and of the ranker, each defined once, in plain NumPy.

The fit computes features of chosen pairs here; `scoring` computes weighted sums of the same features in compiled code,
and tests compare the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from neatrec import statistics
from neatrec.data.baskets import BasketStream
from neatrec.data.catalog import UNKNOWN, Catalog
from neatrec.models.bayes.counting import FeatureOptions
from neatrec.models.bayes.similarity import (
    Vectors,
    log_lifts,
    low_rank_factors,
    scaled_vectors,
    similar_names,
    unit_vectors,
    vector_neighbours,
)
from neatrec.models.counts import PairCounts

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

PRIOR_FEATURES = {
    "level": "1 for every pair",
    "low_rank": "low-rank reconstruction of the log-lifts of all pairs",
    "similar_names": "log-lift of the pooled counts of items with similar names, of query and item",
    "categories": "log-lift of the two categories",
    "item_popularity": "log of the item's total over the mean total",
}
"""Features of the log of the prior mean of a pair's lift; 0 where the catalogue does not provide one."""
RANKER_FEATURES = {
    "log_lift": "log of the posterior mean of the lift",
    "log_count": "log(1 + count)",
    "cosine": "cosine of the low-rank vectors",
    "query_popularity": "log of the query's total over the mean total",
    "category_order": "log of times before over times after, of the two categories; 0 without cart order",
    "neighbours": "log-lift of the item with the nearest neighbours of the query, the query itself left out",
    "significance": "log(1 + G^2), 0 for a count below expectation",
    "log_expected": "log(0.02 + expected count)",
}
"""Features of the log-odds by which pairs rank; products of some of them follow."""
CURVED = ("log_lift", "log_count", "significance", "log_expected")
"""A lift counts for more the more often the pair was, or could have been, bought: products of each two, and squares."""
PRODUCTS = {f"{one}_x_{two}": (one, two) for place, one in enumerate(CURVED) for two in CURVED[place:]}
PRODUCTS["query_popularity_x_query_popularity"] = "query_popularity", "query_popularity"
RANKER_FEATURES |= {name: f"{one} times {two}" for name, (one, two) in PRODUCTS.items()}

MAX_CATEGORIES = 3_000
NAMES_PSEUDO, CATEGORY_PSEUDO, ITEM_PSEUDO = 3.0, 10.0, 10.0
ORDER_PSEUDO, NEIGHBOUR_PSEUDO, EXPECTED_PSEUDO = 20.0, 1.0, 0.02
"""Counts added to both sides of a ratio before its logarithm."""
QUERY_BLOCK = 64
"""Queries whose pooled counts are computed together."""


@dataclass(frozen=True)
class CatalogFeatures:
    """What the catalogue alone provides: the same for every part of the baskets."""

    category: Codes
    """Codes for category pairs, shape (items,); all UNKNOWN without categories, or with too many for a table."""
    similar: sparse.csr_matrix | None

    @classmethod
    def of(cls, catalog: Catalog) -> CatalogFeatures:
        category = catalog.category_of() if catalog.levels else np.full(len(catalog), UNKNOWN, dtype=np.int32)
        if category.max(initial=UNKNOWN) >= MAX_CATEGORIES:
            category = np.full(len(catalog), UNKNOWN, dtype=np.int32)
        similar = None if catalog.names is None else similar_names(catalog.names.to_pylist(), category)
        return cls(category, None if similar is None or similar.nnz <= len(catalog) else similar)


@dataclass(frozen=True, eq=False)
class PairFeatures:
    """Counts of some baskets, and everything else that the features are computed from."""

    counts: PairCounts
    near: PairCounts | None
    """Counts of near pairs; None where carts have no order."""
    vectors: Vectors
    """Low-rank vectors of the items, (items, rank), and the values of the factors, (rank,)."""
    values: Vectors
    category: Codes
    category_lift: Vectors
    """Log-lift of category pairs, (categories + 1, categories + 1): zeros in the last row and column, for UNKNOWN."""
    category_order: Vectors
    """Log of times before over times after of category pairs, of the same shape; zeros without cart order."""
    similar: sparse.csr_matrix | None
    """Similarity of names, (items, items), 1 for the item itself; None without names."""
    neighbours: sparse.csr_matrix
    """Similarity of low-rank vectors, of the same shape."""
    directed: sparse.csr_matrix | None = None
    """Counts with the row's item first, to compare other baskets with; None where carts have no order, or nobody
    compares."""

    @cached_property
    def scaled(self) -> Vectors:
        """Vectors times the root of their factors' absolute values, (items, rank)."""
        return scaled_vectors(self.vectors, self.values)

    @cached_property
    def unit(self) -> Vectors:
        """The same at length 1."""
        return unit_vectors(self.scaled)

    @cached_property
    def popularity(self) -> Vectors:
        total = self.counts.total.astype(np.float64)
        popularity: Vectors = np.log((total + ITEM_PSEUDO) / (total.mean() + ITEM_PSEUDO)).astype(np.float32)
        return popularity

    @cached_property
    def similar_total(self) -> Floats:
        """Totals of the items with similar names; products of them over the records are expected counts."""
        kept, records = self.counts.kept_total.astype(np.float64), self.counts.records
        pooled = self.counts.total if self.counts.least == 1 else kept * np.sqrt(records / max(kept.sum(), 1))
        return np.zeros(len(kept)) if self.similar is None else np.asarray(self.similar @ pooled.astype(np.float64))

    @cached_property
    def neighbour_total(self) -> Floats:
        """Totals of each item's neighbours without itself."""
        counts = self.counts
        kept = (counts.total if counts.least == 1 else counts.kept_total).astype(np.float64)
        return np.asarray(np.maximum(self.neighbours @ kept - kept, 0.0))

    @classmethod
    def of(
        cls,
        baskets: BasketStream,
        catalog: CatalogFeatures,
        options: FeatureOptions,
        rng: np.random.Generator,
        *,
        directed: bool = False,
    ) -> PairFeatures:
        """The features of `baskets`."""
        category = catalog.category
        found = options.count(baskets, category, directed=directed)
        counts, near = found.counts, options.count_near(baskets, found)  # before the vectors take their memory
        vectors, values = low_rank_factors(log_lifts(counts, options.min_pair_count), options.rank, rng)
        return cls(
            counts=counts,
            near=near,
            vectors=vectors,
            values=values,
            category=category,
            category_lift=_category_lift(found.of_categories, category, counts),
            category_order=_category_order(found.of_categories, found.directed_categories),
            similar=catalog.similar,
            neighbours=vector_neighbours(unit_vectors(scaled_vectors(vectors, values)), category),
            directed=found.directed,
        )

    @property
    def available(self) -> npt.NDArray[np.bool_]:
        """Which of PRIOR_FEATURES are not zero for every pair."""
        found = {
            "level": True,
            "low_rank": self.values.any(),
            "similar_names": self.similar is not None,
            "categories": self.category_lift.any(),
            "item_popularity": self.popularity.any(),
        }
        return np.array([bool(found[name]) for name in PRIOR_FEATURES])

    @property
    def near_scale(self) -> float:
        """What near counts are multiplied by, so that they add up to as many records as all counts; 0: no near ones."""
        return 0.0 if self.near is None or not self.near.records else self.counts.records / self.near.records

    # ---- features of chosen pairs

    def count_and_expected(self, queries: Codes, items: Codes, near_share: float) -> tuple[Floats, Floats]:
        """C and E of pairs, `near_share` of them taken from near pairs; both of shape (pairs,)."""
        counts, near = self.counts, self.near
        count = counts.of_pairs(queries, items).astype(np.float64)
        expected = counts.expected(counts.total[queries], counts.total[items])
        if near is None or not self.near_scale:
            return count, expected
        near_count = near.of_pairs(queries, items) * self.near_scale
        near_expected = near.expected(near.total[queries], near.total[items]) * self.near_scale
        return count + near_share * (near_count - count), expected + near_share * (near_expected - expected)

    def prior_features(self, queries: Codes, items: Codes) -> Vectors:
        """Columns in the order of PRIOR_FEATURES, shape (pairs, features)."""
        counts, similar = self.counts, self.similar
        columns: dict[str, Any] = dict.fromkeys(PRIOR_FEATURES, 0.0)
        columns["level"] = 1.0
        left = self.scaled[queries] * np.sign(self.values)
        columns["low_rank"] = np.einsum("ij,ij->i", left, self.scaled[items])
        if similar is not None:
            pooled = self._pooled(similar, queries, items, similar.T.tocsr())
            expected = counts.expected(self.similar_total[queries], self.similar_total[items])
            columns["similar_names"] = np.log((pooled + NAMES_PSEUDO) / (expected + NAMES_PSEUDO))
        columns["categories"] = self.category_lift[self.category[queries], self.category[items]]
        columns["item_popularity"] = self.popularity[items]
        return _stacked(columns, len(queries)).astype(np.float32)

    def ranker_features(self, queries: Codes, items: Codes, lift: npt.NDArray[Any]) -> Floats:
        """Columns in the order of RANKER_FEATURES of pairs with the posterior lift `lift`, shape (pairs, features)."""
        counts = self.counts
        count, total = counts.of_pairs(queries, items), counts.total
        pooled = np.maximum(self._pooled(self.neighbours, queries, items) - count, 0.0)
        expected = counts.expected(self.neighbour_total[queries], total[items])
        g2 = statistics.signed_llr(count, total[queries], total[items], counts.records)
        by_chance = counts.expected(total[queries], total[items])
        columns = {
            "log_lift": np.log(lift),
            "log_count": np.log1p(count),
            "cosine": np.einsum("ij,ij->i", self.unit[queries], self.unit[items]),
            "query_popularity": self.popularity[queries],
            "category_order": self.category_order[self.category[queries], self.category[items]],
            "neighbours": np.log((pooled + NEIGHBOUR_PSEUDO) / (expected + NEIGHBOUR_PSEUDO)),
            "significance": np.log1p(np.maximum(g2, 0.0)),
            "log_expected": np.log(by_chance + EXPECTED_PSEUDO),
        }
        columns |= {name: columns[one] * columns[two] for name, (one, two) in PRODUCTS.items()}
        return _stacked({name: columns[name] for name in RANKER_FEATURES}, len(queries))

    def _pooled(
        self, left: sparse.csr_matrix, queries: Codes, items: Codes, right: sparse.csr_matrix | None = None
    ) -> Floats:
        """Entries (query, item) of left @ C @ right, shape (pairs,); without `right` of left @ C."""
        unique, place = np.unique(queries, return_inverse=True)
        out = np.zeros(len(queries))
        for first in range(0, len(unique), QUERY_BLOCK):
            rows = left[unique[first : first + QUERY_BLOCK]] @ self.counts.matrix
            rows = rows if right is None else rows @ right
            mine = np.flatnonzero((place >= first) & (place < first + QUERY_BLOCK))
            out[mine] = rows.toarray()[place[mine] - first, items[mine]]
        return out


def _stacked(columns: dict[str, Any], pairs: int) -> Floats:
    return np.stack([np.broadcast_to(column, pairs) for column in columns.values()], axis=1).astype(np.float64)


def _category_lift(together: Floats, category: Codes, counts: PairCounts) -> Vectors:
    """log((C + pseudo) / (E + pseudo)) of categories, of the shape of `together`; 0 where one of them is UNKNOWN."""
    total = np.bincount(category % len(together), counts.total, minlength=len(together))
    expected = np.outer(total, total) / max(counts.records, 1)
    lift: Vectors = np.log((together + CATEGORY_PSEUDO) / (expected + CATEGORY_PSEUDO)).astype(np.float32)
    lift[UNKNOWN], lift[:, UNKNOWN] = 0.0, 0.0
    return lift


def _category_order(together: Floats, before: Floats | None) -> Vectors:
    """Log of times before over times after of categories; 0 without cart order, and where one of them is UNKNOWN."""
    if before is None:
        return np.zeros_like(together, dtype=np.float32)
    order: Vectors = np.log((before + ORDER_PSEUDO) / (before.T + ORDER_PSEUDO)).astype(np.float32)
    order[UNKNOWN], order[:, UNKNOWN] = 0.0, 0.0
    return order
