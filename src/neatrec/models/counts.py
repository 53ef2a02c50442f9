"""`PairCounts`, a sparse matrix of pair counts, and `CountModel`, which scores by them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from neatrec.compiled import find_pairs, mark_largest
from neatrec.cooccurrence import CountOptions
from neatrec.cooccurrence.counting import CountBook
from neatrec.cooccurrence.expected_counts import unexplained
from neatrec.cooccurrence.strata import SIZE
from neatrec.data.baskets import Baskets
from neatrec.models.base import ArraySpec, Codes, Model, Scores, matrix_specs
from neatrec.models.parameters import ModelParameters, parameter
from neatrec.models.run import Run

Counts = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[Any]

BY_COUNT, BY_LIFT = 200, 100
"""Candidates of a query; see `candidates`."""


@dataclass(frozen=True)
class CountParameters(ModelParameters):
    """Which pairs are counted."""

    min_basket: int = parameter(2, "Baskets with fewer items are left out.", low=1)
    category_level: str | None = parameter(
        "deepest", "Pairs of one category at this level are not counted; none: all are."
    )
    once_per_customer: bool = parameter(False, "Count a pair at most once per customer.")

    def counting(self) -> CountOptions:
        """The options of `neatrec.cooccurrence.count`, for undirected pairs."""
        return CountOptions(
            directed=False,
            min_basket=self.min_basket,
            category_level=self.category_level,
            once_per_customer=self.once_per_customer,
            customers=False,
        )


@dataclass(frozen=True)
class StrataParameters(CountParameters):
    """Which pairs are counted, and what must not make one of them stand out."""

    strata: str | None = parameter(
        None,
        "Columns (basket_size,month,store) whose share of a count is taken off; by default those "
        "that there are.",
    )

    @property
    def strata_names(self) -> tuple[str, ...]:
        """The names of the strata."""
        return tuple(self.strata.split(",")) if self.strata else ()


def ranked_within(parameters: Any, strata: Sequence[str]) -> Any:
    """The parameters of a model that expects counts within strata, unless it has its own.

    The basket size is left to the evidence: taken off the counts, it made rankings of held-out
    baskets worse.
    """
    names = [name for name in strata if name != SIZE]
    if names and getattr(parameters, "strata", "") is None:
        return replace(parameters, strata=",".join(names))
    return parameters


@dataclass(frozen=True, eq=False)
class PairCounts:
    """C, the symmetric matrix of pair counts; F, the totals; N, their sum; E = F_q F_v / N.

    F are the row sums of C before strata lowered it and before rare pairs were left out.
    """

    matrix: sparse.csr_matrix
    total: npt.NDArray[np.int64]
    """F, shape (items,)."""

    def __post_init__(self) -> None:
        self.matrix.sort_indices()  # pairs are looked up by binary search

    @classmethod
    def of(
        cls,
        book: CountBook,
        counting: CountOptions,
        strata: Sequence[str] = (),
        *,
        keep: bool = True,
    ) -> PairCounts:
        """The counts of undirected pairs, both ways; what `strata` explain of them is taken off.

        `keep`: the book keeps its counts for other models.
        """
        pairs = book.count("all", counting, keep=keep)
        within = unexplained(book.baskets, strata, counting)
        if within is not None:
            left = within.lowered(pairs.count, pairs.query, pairs.item)
            pairs = pairs.with_columns(count=left).where(left > 0)
        upper = pairs.matrix()
        return cls(upper + upper.T.tocsr(), pairs.margins.first)

    @cached_property
    def records(self) -> int:
        """N."""
        return int(self.total.sum())

    @cached_property
    def kept_total(self) -> npt.NDArray[np.int64]:
        """The row sums of C, shape (items,)."""
        return np.asarray(self.matrix.sum(axis=1, dtype=np.int64)).ravel()

    def of_pairs(self, queries: Codes, items: Codes) -> Counts:
        """C of each pair, 0 for one never seen, shape (pairs,)."""
        return values_of(self.matrix, queries, items)

    def row(self, query: int) -> tuple[Codes, Counts]:
        """The items bought with one item, ascending, and the counts."""
        pairs = slice(self.matrix.indptr[query], self.matrix.indptr[query + 1])
        return self.matrix.indices[pairs], self.matrix.data[pairs]

    def candidates(self, queries: Codes) -> tuple[Codes, Codes]:
        """Query and item of the candidates of some queries."""
        rows = self.matrix[queries]
        query, item = np.repeat(queries, np.diff(rows.indptr)), rows.indices
        expected = self.expected(self.total[query], self.total[item])
        selected = candidates(rows.indptr, rows.data, expected)
        return query[selected].astype(np.int32), item[selected].astype(np.int32)

    def expected(self, query_total: npt.ArrayLike, item_total: npt.ArrayLike) -> Floats:
        """F_q F_v / N in float64: the product of two totals may overflow 64 bits."""
        product = np.asarray(query_total, np.float64) * np.asarray(item_total, np.float64)
        return product / max(self.records, 1)


def candidates(start: Positions, times: Counts, expected: Floats, k: int = 0) -> Mask:
    """The candidates among the pairs of some queries: those of query q are start[q]:start[q + 1].

    Each has its 200 most frequent pairs, or `k` if that is more, and its 100 best by
    times / (expected + 1).
    """
    frequent = largest(start, times, max(BY_COUNT, k))
    return frequent | largest(start, times / (expected + 1.0), BY_LIFT)


def largest(start: Positions, values: npt.NDArray[Any], size: int) -> Mask:
    """The `size` largest values of each row start[r]:start[r + 1]; of equal ones the first.

    The values must not be NaN.
    """
    selected = np.ones(len(values), dtype=np.bool_)
    numbers = values if values.dtype.kind == "f" else values.astype(np.float64)
    mark_largest(start.astype(np.int64), numbers, size, selected)
    return selected


def strongest(matrix: sparse.csr_matrix, size: int) -> sparse.csr_matrix:
    """The `size` largest values of each row; of equal ones those of the first columns."""
    matrix.sort_indices()
    selected = largest(matrix.indptr, matrix.data, size)
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))[selected]
    cells = matrix.data[selected], (row, matrix.indices[selected])
    return sparse.csr_matrix(cells, shape=matrix.shape)


def values_of(matrix: sparse.csr_matrix, queries: Codes, items: Codes) -> npt.NDArray[Any]:
    """The value of each pair in a matrix with sorted indices, 0 where it has none, (pairs,)."""
    position = find_pairs(matrix.indptr, matrix.indices, queries, items)
    out = np.zeros(len(position), dtype=matrix.dtype)
    out[position >= 0] = matrix.data[position[position >= 0]]
    return out


def frequent_pairs(matrix: sparse.csr_matrix, min_count: int) -> tuple[Codes, Codes, Counts]:
    """Row, column and count of the pairs with at least `min_count`, row by row."""
    often = np.flatnonzero(matrix.data >= min_count)
    in_row = np.diff(np.searchsorted(often, matrix.indptr))
    row = np.repeat(np.arange(matrix.shape[0], dtype=np.int32), in_row)
    return row, matrix.indices[often].astype(np.int32, copy=False), matrix.data[often]


def matrix_arrays(
    name: str, matrix: sparse.csr_matrix, values: str = "_count"
) -> dict[str, npt.NDArray[Any]]:
    """The three arrays that `restored_matrix` reads; `values`: how the name of the numbers ends."""
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
    """A score computed from C, F_q, F_v and N; a pair never seen has C = 0."""

    kind: ClassVar[str] = "statistic"
    Parameters: ClassVar[type[ModelParameters]] = CountParameters
    min_score: ClassVar[float] = 0.0
    reason: ClassVar[str] = "counts"
    counts: PairCounts

    @abstractmethod
    def _value(self, count: Counts, query_total: Floats, item_total: Floats) -> Floats:
        """The score of pairs with C > 0; the three arrays have one shape."""

    def _unseen(self, query_total: Floats, item_total: Floats) -> Floats:
        """The score of pairs with C = 0; the totals broadcast."""
        return np.zeros(np.broadcast_shapes(query_total.shape, item_total.shape))

    def _fit(self, baskets: Baskets, run: Run) -> None:
        strata = getattr(self.parameters, "strata_names", ())
        self.counts = PairCounts.of(run.book_of(baskets), self.parameters.counting(), strata)

    def _score(self, queries: Codes, items: Codes) -> Scores:
        total = self.counts.total.astype(np.float64)
        count = self.counts.of_pairs(queries, items)
        scores = self._unseen(total[queries], total[items])
        seen = count > 0
        scores[seen] = self._value(count[seen], total[queries[seen]], total[items[seen]])
        return scores

    def _score_all(self, queries: Codes) -> Scores:
        total, rows = self.counts.total.astype(np.float64), self.counts.matrix[queries]
        row = np.repeat(np.arange(len(queries)), np.diff(rows.indptr))
        # many items share their total: pairs never seen are scored once per distinct total
        distinct, index = np.unique(total, return_inverse=True)
        scores = self._unseen(total[queries][:, None], distinct).take(index, axis=1)
        scores[row, rows.indices] = self._value(rows.data, total[queries[row]], total[rows.indices])
        return scores

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {**matrix_arrays("pair", self.counts.matrix), "pair_total": self.counts.total}

    @classmethod
    def array_specs(cls) -> Mapping[str, ArraySpec]:
        """The arrays of a bundle."""
        return {**matrix_specs("pair"), "pair_total": ArraySpec("i", low=0)}

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        matrix = restored_matrix(arrays, "pair", len(self.catalog))
        self.counts = PairCounts(matrix, arrays["pair_total"])
