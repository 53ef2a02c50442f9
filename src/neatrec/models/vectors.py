"""Products of vectors, and `CosineModel`: one vector per item, scored by cosine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.compiled import RELAXED, compiled
from neatrec.memory import parallel_slices
from neatrec.models.base import ArraySpec, Codes, Model, Scores

Vectors = npt.NDArray[np.float32]
MIN_PAIRS_PER_THREAD, MIN_PRODUCTS_PER_THREAD = 10_000, 400_000
"""Pairs of items, and products of a matrix, for which a thread is worth starting."""


@compiled(fastmath=RELAXED)
def dot_pairs(ours, theirs, queries, items, out):  # type: ignore[no-untyped-def]
    """The product of each pair's vectors in the precision of `out`.

    ours, theirs: (rows, dim), the others (pairs,).
    """
    number = out.dtype.type
    for pair in range(len(queries)):
        one, other = ours[queries[pair]], theirs[items[pair]]
        total = number(0.0)
        for place in range(ours.shape[1]):
            total += number(one[place]) * number(other[place])
        out[pair] = total


def pair_products(
    ours: npt.NDArray[Any],
    theirs: npt.NDArray[Any],
    queries: Codes,
    items: Codes,
    threads: int | None = None,
) -> npt.NDArray[np.float64]:
    """The product of our vector of each query with theirs of its item, (pairs,)."""
    out = np.empty(len(queries))

    def work(part: slice) -> None:
        dot_pairs(ours, theirs, queries[part], items[part], out[part])

    parallel_slices(len(queries), work, threads, min_rows=MIN_PAIRS_PER_THREAD)
    return out


def all_products(
    ours: npt.NDArray[Any], theirs: npt.NDArray[Any], threads: int | None = None
) -> npt.NDArray[Any]:
    """The product of each of our vectors with each of theirs, (ours, theirs).

    Each thread takes a slice of their vectors: BLAS packs the right-hand matrix first, so no thread
    packs the slice of another. The last digits may depend on the number of threads.
    """
    out = np.empty((len(ours), len(theirs)), dtype=np.result_type(ours, theirs))

    def work(part: slice) -> None:
        np.matmul(ours, theirs[part].T, out=out[:, part])

    min_rows = MIN_PRODUCTS_PER_THREAD // max(len(ours), 1)
    parallel_slices(len(theirs), work, threads, min_rows=min_rows)
    return out


class CosineModel(Model):
    """Keeps the fitted vectors, and their directions (length 1, or 0) for scoring.

    Its arrays are attributes of the names in `array_specs`.
    """

    vectors: Vectors
    """Shape (items, dim)."""
    user_vectors: Vectors | None = None
    """Shape (users, dim), for models that learn from users."""
    directions: Vectors

    def _score(self, queries: Codes, items: Codes) -> Scores:
        return pair_products(self.directions, self.directions, queries, items, self.threads)

    def _score_all(self, queries: Codes) -> Scores:
        return all_products(self.directions[queries], self.directions, self.threads)

    @classmethod
    def array_specs(cls) -> Mapping[str, ArraySpec]:
        """The arrays of a bundle."""
        users = ArraySpec("f", ("users", "dim"), required=False)
        return {"vectors": ArraySpec("f", ("items", "dim")), "user_vectors": users}

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        arrays = {name: getattr(self, name) for name in self.array_specs()}
        return {name: array for name, array in arrays.items() if array is not None}

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        for name in self.array_specs():
            array = arrays.get(name)
            setattr(self, name, None if array is None else np.ascontiguousarray(array))
        length = np.linalg.norm(self.vectors.astype(np.float64), axis=1, keepdims=True)
        self.directions = (self.vectors / np.where(length == 0, 1.0, length)).astype(np.float32)
