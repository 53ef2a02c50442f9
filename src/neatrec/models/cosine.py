"""`CosineModel`: a vector for each item, and the cosine between two of them as the score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.compiled import compiled
from neatrec.models.base import Codes, Model, Scores
from neatrec.models.parallel import MIN_PAIRS_PER_THREAD, in_parts
from neatrec.models.products import all_products

Vectors = npt.NDArray[np.float32]


@compiled
def dot_pairs(ours, theirs, queries, items, out):  # type: ignore[no-untyped-def]
    """The product of each pair's vectors, summed in float64; ours, theirs: (items, dim), the others (pairs,)."""
    for pair in range(len(queries)):
        one, other = ours[queries[pair]], theirs[items[pair]]
        total = 0.0
        for place in range(ours.shape[1]):
            total += np.float64(one[place]) * np.float64(other[place])
        out[pair] = total


def pair_products(ours: Vectors, theirs: Vectors, queries: Codes, items: Codes) -> npt.NDArray[np.float64]:
    """The product of our vector of each query with theirs of its item, (pairs,), shared out among the cores."""
    out = np.empty(len(queries))

    def work(part: slice) -> None:
        dot_pairs(ours, theirs, queries[part], items[part], out[part])

    in_parts(len(queries), work, min_rows=MIN_PAIRS_PER_THREAD)
    return out


class CosineModel(Model):
    """Keeps the vectors as they were learned, and their directions (length 1) for scoring; 0 where none is."""

    vectors: Vectors
    """Shape (items, dim)."""
    directions: Vectors

    def _take(self, vectors: Vectors) -> None:
        if vectors.ndim != 2 or len(vectors) != len(self.catalog):
            raise ValueError(f"`vectors` must have a row for each of the {len(self.catalog)} items")
        length = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
        self.vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        self.directions = (vectors / np.where(length == 0, 1.0, length)).astype(np.float32)

    def _score(self, queries: Codes, items: Codes) -> Scores:
        return pair_products(self.directions, self.directions, queries, items)

    def _score_all(self, queries: Codes) -> Scores:
        return all_products((self.directions[queries], self.directions))

    def factors(self) -> tuple[Vectors, Vectors] | None:
        """Vectors of queries and items whose product is the score; None for a model that scores in another way."""
        by_rows, by_pairs = type(self)._score_all, type(self)._score
        scores_by_cosine = by_rows is CosineModel._score_all and by_pairs is CosineModel._score
        return (self.directions, self.directions) if scores_by_cosine else None

    def item_vectors(self) -> Vectors:
        return self.vectors

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {"vectors": self.vectors}

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self._take(arrays["vectors"])
