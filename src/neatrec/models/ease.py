"""`ease`: a closed-form linear model of carts (Embarrassingly Shallow Autoencoders, Steck 2019).

B = I - P diag(1 / diag P) with P = (X'X + regularization I)^-1, where X holds the baskets as rows
of zeros and ones: the weights with which the items of a cart predict another item, each knowing of
the others. An item's score for a cart is the sum of the weights of the cart's items.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.linalg import lapack

from neatrec.cooccurrence import CountOptions
from neatrec.data.baskets import Baskets
from neatrec.errors import DivergedError, ResourceError
from neatrec.memory import available_memory, one_blas_thread
from neatrec.models.base import ArraySpec, Codes, Model, Scores, matrix_specs
from neatrec.models.carts import CartWeights
from neatrec.models.counts import PairCounts, matrix_arrays, restored_matrix, values_of
from neatrec.models.parameters import ModelParameters, parameter
from neatrec.models.run import Run
from neatrec.text import show_size

BLOCK = 1024
"""Rows of the inverse that are turned into weights at a time."""
MAX_FLOAT32_CONDITION = 1e5
"""Beyond this bound of the condition number the inverse is computed in float64."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EaseParameters(ModelParameters):
    """Parameters of `ease`."""

    regularization: float = parameter(500.0, "Added to the diagonal of X'X, in baskets.", above=0.0)
    min_count: int = parameter(
        5, "Items bought fewer times are left out: memory grows with the square of the rest.", low=1
    )
    max_weights: int = parameter(200, "The strongest weights that are kept per item.", low=1)
    category_level: str = parameter(
        "deepest", "What shares a category at this level with the cart is not recommended."
    )


class Ease(Model):
    """Weights of pairs; a cart is scored by the sum over its items."""

    name: ClassVar[str] = "ease"
    kind: ClassVar[str] = "statistic"
    description: ClassVar[str] = (
        "A linear model in closed form that completes carts: each item's weight for every other."
    )
    Parameters: ClassVar[type[ModelParameters]] = EaseParameters
    min_score: ClassVar[float] = 0.0
    cart_ranking: CartWeights
    weights: sparse.csr_matrix
    """(items, items): the weight of the row's item for the column's, the strongest of each row."""

    def _fit(self, baskets: Baskets, run: Run) -> None:
        parameters = self.parameters
        items = np.flatnonzero(self.item_count >= parameters.min_count)
        shape = (len(self.catalog), len(self.catalog))
        if not len(items):
            minimum = parameters.min_count
            log.warning("no item was bought %d times: ease recommends nothing", minimum)
            self._set_weights(sparse.csr_matrix(shape, dtype=np.float32))
            return
        self._require_memory(len(items), np.dtype(np.float32))  # before anything is counted
        options = CountOptions(directed=False, category_level=None, customers=False)
        counts = PairCounts.of(run.book_of(baskets), options)
        gram = counts.matrix[items][:, items].astype(np.float32)
        gram.setdiag(self.item_count[items] + parameters.regularization)
        # the largest row sum bounds the largest eigenvalue, and none is below the regularization
        condition = float(np.asarray(gram.sum(axis=1)).max(initial=0.0)) / parameters.regularization
        dtype = np.dtype(np.float32 if condition < MAX_FLOAT32_CONDITION else np.float64)
        self._require_memory(len(items), dtype)
        log.info("inverting a matrix of %d items, condition at most %.0f", len(items), condition)
        with one_blas_thread() if run.reproducible else nullcontext():
            values, partners = _strongest(inverse(gram, dtype), parameters.max_weights)
        start = np.zeros(len(self.catalog) + 1, dtype=np.int64)
        start[items + 1] = values.shape[1]
        columns = items[partners].ravel().astype(np.int32)
        self._set_weights(sparse.csr_matrix((values.ravel(), columns, np.cumsum(start)), shape))

    def _require_memory(self, items: int, dtype: np.dtype[Any]) -> None:
        """Refuse what does not fit, and name a `min_count` that does."""
        free, needed = available_memory(), bytes_needed(items, dtype)
        if needed <= free:
            return
        bought = np.sort(self.item_count)[::-1]
        # the largest n with n * (n + 4 * BLOCK) * itemsize <= free
        fits = max(int(np.sqrt(4 * BLOCK**2 + free / dtype.itemsize)) - 2 * BLOCK, 1)
        least = int(bought[min(fits, len(bought) - 1)]) + 1
        raise ResourceError(
            f"model 'ease' over {items:,} items needs {show_size(needed)} of memory, "
            f"{show_size(free)} are free",
            hint=f"Raise min_count: {least} leaves items that fit.",
        )

    def _set_weights(self, weights: sparse.csr_matrix) -> None:
        weights.sort_indices()
        self.weights = weights
        self.cart_ranking = CartWeights(weights)
        items = int((np.diff(weights.indptr) > 0).sum())
        self.learned = {"items": items, "weights": int(weights.nnz)}

    def _score(self, queries: Codes, items: Codes) -> Scores:
        return values_of(self.weights, queries, items)

    def _score_all(self, queries: Codes) -> Scores:
        scores: Scores = self.weights[queries].toarray()
        return scores

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        return matrix_arrays("weight", self.weights, "")

    @classmethod
    def array_specs(cls) -> Mapping[str, ArraySpec]:
        """The arrays of a bundle."""
        return matrix_specs("weight", "")

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self._set_weights(restored_matrix(arrays, "weight", len(self.catalog), ""))


def bytes_needed(items: int, dtype: np.dtype[Any]) -> int:
    """The matrix, and blocks of weights with their order."""
    return items * (items + 4 * BLOCK) * dtype.itemsize


def inverse(gram: sparse.csr_matrix, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The inverse of a symmetric positive definite matrix, dense, in the memory of one matrix."""
    dense: npt.NDArray[Any] = gram.astype(dtype).toarray()
    factor, invert = lapack.get_lapack_funcs(("potrf", "potri"), (dense,))
    # LAPACK reads columns: our upper triangle is its lower one
    failed = (
        factor(dense.T, lower=1, overwrite_a=1)[1] or invert(dense.T, lower=1, overwrite_c=1)[1]
    )
    if failed:
        message = "the matrix of model 'ease' has no inverse"
        raise DivergedError(message, hint="Raise `regularization`.")
    for first in range(0, len(dense), BLOCK):
        rows = slice(first, first + BLOCK)
        dense[first + BLOCK :, rows] = dense[rows, first + BLOCK :].T
        square = dense[rows, rows]
        square[...] = np.triu(square) + np.triu(square, 1).T
    return dense


def _strongest(
    inverse: npt.NDArray[Any], count: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """The strongest weights of each row and their columns, shape (items, at most `count`)."""
    size = len(inverse)
    count = min(count, max(size - 1, 0))
    values, columns = np.empty((size, count), np.float32), np.empty((size, count), np.int64)
    diagonal = np.diagonal(inverse)
    for first in range(0, size if count else 0, BLOCK):
        block = inverse[first : first + BLOCK] / -diagonal
        own = np.arange(len(block))
        block[own, first + own] = 0.0
        rows = slice(first, first + len(block))
        columns[rows] = np.argpartition(-np.abs(block), count - 1, axis=1)[:, :count]
        values[rows] = np.take_along_axis(block, columns[rows], axis=1)
    return values, columns
