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
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.linalg import lapack

from neatrec.cooccurrence import CountOptions
from neatrec.data.baskets import Baskets
from neatrec.errors import DivergedError, ResourceError
from neatrec.memory import available_memory
from neatrec.models.arrays import ArraySpec, matrix_specs
from neatrec.models.base import Codes, Model, Scores
from neatrec.models.carts import CartWeights
from neatrec.models.counts import PairCounts, matrix_arrays, restored_matrix, values_of
from neatrec.models.embeddings.kernels import gpu
from neatrec.models.parameters import ModelParameters, parameter
from neatrec.models.run import Run
from neatrec.statistics.blas import one_blas_thread
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
    devices: ClassVar[tuple[str, ...]] = ("cpu", "gpu")
    min_score: ClassVar[float] = 0.0
    cart_ranking: CartWeights
    weights: sparse.csr_matrix
    """(items, items): the weight of the row's item for the column's, the strongest of each row."""

    def _device(self, run: Run) -> str:
        if run.device == "auto":
            return "cpu" if run.reproducible or gpu.unavailable_reason() else "gpu"
        return run.device

    def _fit(self, baskets: Baskets, run: Run) -> None:
        parameters, device = self.parameters, self._device(run)
        items = np.flatnonzero(self.item_count >= parameters.min_count)
        shape = (len(self.catalog), len(self.catalog))
        if not len(items):
            log.warning(
                "no item was bought %d times (min_count): ease recommends nothing",
                parameters.min_count,
            )
            self._set_weights(sparse.csr_matrix(shape, dtype=np.float32))
            return
        self._require_memory(
            len(items), np.dtype(np.float32), device
        )  # at least; refused before anything is counted
        options = CountOptions(directed=False, category_level=None)
        counts = PairCounts.of(run.book_of(baskets), options)
        gram = counts.matrix[items][:, items].astype(np.float32)
        gram.setdiag(self.item_count[items] + parameters.regularization)
        # the largest row sum bounds the largest eigenvalue, and none is below the regularization
        condition = float(np.asarray(gram.sum(axis=1)).max(initial=0.0)) / parameters.regularization
        dtype = np.dtype(np.float32 if condition < MAX_FLOAT32_CONDITION else np.float64)
        self._require_memory(len(items), dtype, device)
        log.info(
            "inverting a matrix of %d items on the %s, condition at most %.0f",
            len(items),
            device,
            condition,
        )
        if device == "gpu":
            values, places = _strongest(
                _inverse_on_gpu(gram, dtype), parameters.max_weights, gpu.cupy()
            )
        else:
            with one_blas_thread() if run.reproducible else nullcontext():
                values, places = _strongest(inverse(gram, dtype), parameters.max_weights)
        start = np.zeros(len(self.catalog) + 1, dtype=np.int64)
        start[items + 1] = values.shape[1]
        self._set_weights(
            sparse.csr_matrix(
                (values.ravel(), items[places].ravel().astype(np.int32), np.cumsum(start)),
                shape=shape,
            )
        )

    def _require_memory(self, items: int, dtype: np.dtype[Any], device: str) -> None:
        """Refuse what does not fit, and name a `min_count` that does."""
        copies = 3 if device == "gpu" else 1  # the GPU's solver does not work in place
        free = gpu.cupy().cuda.runtime.memGetInfo()[0] if device == "gpu" else available_memory()
        needed = bytes_needed(items, dtype, copies)
        if needed <= free:
            return
        bought = np.sort(self.item_count)[::-1]
        # the largest n with n * (n * copies + 4 * BLOCK) * itemsize <= free
        half = 2 * BLOCK / copies
        fits = max(int(np.sqrt(half**2 + free / (copies * dtype.itemsize)) - half), 1)
        least = int(bought[min(fits, len(bought) - 1)]) + 1
        raise ResourceError(
            f"model 'ease' over {items:,} items needs {show_size(needed)} of memory, the {device} "
            f"has {show_size(free)} free",
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
        return matrix_specs("weight", "", kind="f")

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self._set_weights(restored_matrix(arrays, "weight", len(self.catalog), ""))


def bytes_needed(items: int, dtype: np.dtype[Any], copies: int = 1) -> int:
    """The matrix, and blocks of weights with their order."""
    return items * (items * copies + 4 * BLOCK) * dtype.itemsize


def inverse(gram: sparse.csr_matrix, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The inverse of a symmetric positive definite matrix, dense, in the memory of one matrix."""
    dense: npt.NDArray[Any] = gram.astype(dtype).toarray()
    factor, solve = (
        (lapack.spotrf, lapack.spotri) if dtype == np.float32 else (lapack.dpotrf, lapack.dpotri)
    )
    # LAPACK reads columns: our upper triangle is its lower one
    for step in (factor, solve):
        _, failed = step(
            dense.T, lower=1, **{"overwrite_a" if step is factor else "overwrite_c": 1}
        )
        if failed:
            raise DivergedError(
                "the matrix of model 'ease' has no inverse", hint="Raise `regularization`."
            )
    for first in range(0, len(dense), BLOCK):
        rows = slice(first, first + BLOCK)
        dense[first + BLOCK :, rows] = dense[rows, first + BLOCK :].T
        square = dense[rows, rows]
        square[...] = np.triu(square) + np.triu(square, 1).T
    return dense


def _inverse_on_gpu(gram: sparse.csr_matrix, dtype: np.dtype[Any]) -> Any:
    gpu.cupy()  # refuses with a reason where there is none
    dense = import_module("cupyx.scipy.sparse").csr_matrix(gram.astype(dtype)).toarray()
    return import_module("cupyx.linalg").invh(dense)


def _strongest(
    inverse: Any, most: int, xp: Any = np
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """The strongest weights of each row and their columns, shape (items, at most `most`).

    The inverse is overwritten.
    """
    size = len(inverse)
    most = min(most, max(size - 1, 0))
    values, places = (
        np.empty((size, most), dtype=np.float32),
        np.empty((size, most), dtype=np.int64),
    )
    diagonal = xp.diagonal(inverse).copy()
    for first in range(0, size if most else 0, BLOCK):
        block = inverse[first : first + BLOCK] / -diagonal
        own = xp.arange(len(block))
        block[own, first + own] = 0.0
        chosen = xp.argpartition(-xp.abs(block), most - 1, axis=1)[:, :most]
        kept = xp.take_along_axis(block, chosen, axis=1)
        rows = slice(first, first + len(block))
        values[rows], places[rows] = (part if xp is np else part.get() for part in (kept, chosen))
    return values, places
