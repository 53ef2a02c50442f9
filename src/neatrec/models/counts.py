"""`PairCounts`, a sparse matrix of pair counts, and `CountModel`, whose score is a function of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from neatrec.cooccurrence import CountOptions, Engine
from neatrec.cooccurrence.count_book import CountBook
from neatrec.cooccurrence.expected_counts import unexplained
from neatrec.data.baskets import Baskets
from neatrec.data.pair_search import find_pairs
from neatrec.models.arrays import ArraySpec, matrix_specs
from neatrec.models.base import Codes, Model, Scores
from neatrec.models.parameters import ModelParameters, parameter
from neatrec.models.run import Run

Counts = npt.NDArray[Any]  # int32, or int64 where counts need it
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CountParameters(ModelParameters):
    """Which pairs are counted."""

    window: int | None = parameter(
        None, "Pairs at most this far apart in the cart; none: all pairs of a basket.", low=1
    )
    min_basket: int = parameter(2, "Baskets with fewer items are left out.", low=1)
    category_level: str | None = parameter(
        "deepest", "Pairs of one category at this level are not counted; none: all are."
    )
    once_per_customer: bool = parameter(False, "Count a pair at most once per customer.")

    def counting(self) -> CountOptions:
        """The options of `neatrec.cooccurrence.count`, for undirected pairs."""
        return CountOptions(
            window=self.window,
            directed=False,
            min_basket=self.min_basket,
            category_level=self.category_level,
            once_per_customer=self.once_per_customer,
        )


@dataclass(frozen=True)
class StrataParameters(CountParameters):
    """Which pairs are counted, and what must not make one of them stand out."""

    strata: str | None = parameter(
        None,
        "Columns (basket_size,month,store) whose share of a count is taken off; `train` sets what there is.",
    )

    @property
    def strata_names(self) -> tuple[str, ...]:
        return tuple(self.strata.split(",")) if self.strata else ()


class PairCounts:
    """C, the symmetric matrix of pair counts; F, its row sums; N, their sum; E = F_q F_v / N.

    Where pairs with fewer than `least` are left out of the matrix, or strata have lowered C, `total` gives F as it was.
    """

    def __init__(
        self, matrix: sparse.csr_matrix, total: npt.NDArray[np.int64] | None = None, least: int = 1
    ) -> None:
        # pairs are looked up by binary search
        self.matrix = matrix if matrix.has_sorted_indices else matrix.sorted_indices()
        self.least = least
        self.total: npt.NDArray[np.int64] = self.kept_total if total is None else total
        self.records = int(self.total.sum())

    @classmethod
    def of(
        cls,
        baskets: Baskets,
        counting: CountOptions,
        threads: int | None = None,
        strata: Sequence[str] = (),
        book: CountBook | None = None,
    ) -> PairCounts:
        """The counts of undirected pairs, in both directions; what `strata` explain of them is taken off.

        `book`: that of the baskets, where there is one.
        """
        book = CountBook(baskets, Engine(threads=threads)) if book is None else book
        pairs = book.count("all", counting)
        within = unexplained(baskets, strata, counting)
        least = pairs.options.min_count
        if within is not None:
            upper = pairs.matrix().copy()
            upper.data = within.lowered(pairs.count, pairs.query, pairs.item)
            upper.eliminate_zeros()
            return cls(sparse.csr_matrix(upper + upper.T), pairs.margins.first, least)
        # half the memory where counts allow, and there may be hundreds of millions
        dtype = np.int32 if pairs.count.max(initial=0) < 2**31 else np.int64
        upper = pairs.matrix().astype(dtype)
        matrix = upper + upper.T
        matrix.sort_indices()
        return cls(matrix, pairs.margins.first if least > 1 else None, least)

    @classmethod
    def restored(
        cls, matrix: sparse.csr_matrix, total: Counts | None, least: int = 1
    ) -> PairCounts:
        """From a bundle: compiled loops use counts and totals as places in tables."""
        for name, values in (("counts", matrix.data), ("totals", total)):
            if values is not None and (values.dtype.kind != "i" or values.min(initial=0) < 0):
                raise ValueError(f"{name} of pairs must be whole numbers from 0 on")
        if total is not None and total.shape != matrix.shape[:1]:
            raise ValueError(
                f"there must be {matrix.shape[0]:,} totals, one per item, got shape {total.shape}"
            )
        return cls(matrix, total, least)

    @cached_property
    def kept_total(self) -> npt.NDArray[np.int64]:
        """F without the pairs that were left out, shape (items,)."""
        return np.asarray(self.matrix.sum(axis=1, dtype=np.int64)).ravel()

    @cached_property
    def totals(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32]]:
        """The distinct totals, ascending, and the index of each item's total among them."""
        totals, place = np.unique(self.total, return_inverse=True)
        return totals, place.astype(np.uint32)

    def of_pairs(self, queries: Codes, items: Codes) -> Counts:
        """C of each pair, 0 for one never seen, shape (pairs,)."""
        return values_of(self.matrix, queries, items)

    def row(self, query: int) -> tuple[Codes, Counts]:
        """The items bought with one item, ascending, and the counts."""
        places = slice(self.matrix.indptr[query], self.matrix.indptr[query + 1])
        return self.matrix.indices[places], self.matrix.data[places]

    def expected(self, query_total: npt.ArrayLike, item_total: npt.ArrayLike) -> Floats:
        """F_q F_v / N in float64: the product of two totals may overflow 64 bits."""
        product = np.asarray(query_total, dtype=np.float64) * np.asarray(
            item_total, dtype=np.float64
        )
        return product / max(self.records, 1)


def values_of(matrix: sparse.csr_matrix, queries: Codes, items: Codes) -> npt.NDArray[Any]:
    """The value of each pair in a matrix with sorted indices, 0 where it has none, (pairs,)."""
    place = find_pairs(matrix.indptr, matrix.indices, queries, items)
    out = np.zeros(len(place), dtype=matrix.dtype)
    out[place >= 0] = matrix.data[place[place >= 0]]
    return out


def frequent_pairs(matrix: sparse.csr_matrix, min_count: int) -> tuple[Codes, Codes, Counts]:
    """Row, column and count of the pairs with at least `min_count`, row by row, without a copy of the matrix."""
    places = np.flatnonzero(matrix.data >= min_count)
    in_row = np.diff(np.searchsorted(places, matrix.indptr))
    row = np.repeat(np.arange(matrix.shape[0], dtype=np.int32), in_row)
    return row, matrix.indices[places].astype(np.int32, copy=False), matrix.data[places]


def matrix_arrays(
    name: str, matrix: sparse.csr_matrix, values: str = "_count"
) -> dict[str, npt.NDArray[Any]]:
    """The three arrays of a bundle that `restored_matrix` reads; `values`: how the name of the numbers ends."""
    start, item = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32, copy=False)
    return {f"{name}_start": start, f"{name}_item": item, f"{name}{values}": matrix.data}


def restored_matrix(
    arrays: Mapping[str, npt.NDArray[Any]], name: str, items: int, values: str = "_count"
) -> sparse.csr_matrix:
    """A matrix (items, items) from three arrays of a bundle; its indices are checked."""
    parts = (arrays[f"{name}{values}"], arrays[f"{name}_item"], arrays[f"{name}_start"])
    matrix = sparse.csr_matrix(parts, shape=(items, items))
    matrix.check_format(full_check=True)
    return matrix


class CountModel(Model):
    """A score computed from C, F_q, F_v and N. A pair never seen has C = 0 and is scored like any other."""

    kind: ClassVar[str] = "statistic"
    Parameters: ClassVar[type[ModelParameters]] = CountParameters
    min_score: ClassVar[float] = 0.0
    reason: ClassVar[str] = "counts"
    counts: PairCounts

    @classmethod
    def array_specs(cls) -> Mapping[str, ArraySpec]:
        total = ArraySpec("i", low=0, required=False)
        return {**matrix_specs("pair"), "pair_total": total}

    @abstractmethod
    def _value(self, count: Counts, query_total: Floats, item_total: Floats) -> Floats:
        """The score of pairs with C > 0; the three arrays have one shape."""

    def _unseen(self, query_total: Floats, item_total: Floats) -> Floats:
        """The score of pairs with C = 0; the totals broadcast."""
        return np.zeros(np.broadcast_shapes(query_total.shape, item_total.shape))

    def _unseen_rows(self, query_total: Floats) -> Floats:
        """The scores of queries of these totals with every item at C = 0."""
        return np.zeros((len(query_total), len(self.counts.total)))

    def fit_key(self) -> tuple[str, dict[str, Any]]:
        """Models that count the same pairs share their counts."""
        counted = {each.name for each in fields(StrataParameters)}
        used = {name: value for name, value in self.parameters.to_dict().items() if name in counted}
        return "pair counts", used if used.get("strata") else {**used, "strata": None}

    def _fit(self, baskets: Baskets, run: Run) -> None:
        self.counts = self._count(baskets, run)

    def _count(self, baskets: Baskets, run: Run) -> PairCounts:
        strata = getattr(self.parameters, "strata_names", ())
        counting, book = self.parameters.counting(), run.book_of(baskets)
        return PairCounts.of(baskets, counting, run.threads, strata, book)

    def _score(self, queries: Codes, items: Codes) -> Scores:
        total = self.counts.total.astype(np.float64)
        count = self.counts.of_pairs(queries, items)
        scores = self._unseen(total[queries], total[items])
        seen = count > 0
        scores[seen] = self._value(count[seen], total[queries[seen]], total[items[seen]])
        return scores

    def _score_all(self, queries: Codes) -> Scores:
        total = self.counts.total.astype(np.float64)
        rows = self.counts.matrix[queries]
        row = np.repeat(np.arange(len(queries)), np.diff(rows.indptr))
        scores = self._unseen_rows(total[queries])  # (queries, items)
        scores[row, rows.indices] = self._value(rows.data, total[queries[row]], total[rows.indices])
        return scores

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        total = (
            {"pair_total": self.counts.total} if getattr(self.parameters, "strata", None) else {}
        )
        return matrix_arrays("pair", self.counts.matrix) | total

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self.counts = PairCounts.restored(
            restored_matrix(arrays, "pair", len(self.catalog)), arrays.get("pair_total")
        )
