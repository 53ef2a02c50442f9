"""Scores, ranks and lists of the best on a GPU, for models whose score is a product of two vectors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neatrec.errors import DivergedError, must_be
from neatrec.models.embeddings.kernels.gpu import compiled_module, cupy, memory_for
from neatrec.text import plural

Codes = npt.NDArray[np.int32]
Numbers = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float32]

BLOCK_SCORES = 2**28
"""Scores on the GPU at a time: 1 GB. Never items x items."""
THREADS = 256
MAX_TOP = 256
"""A list of the best is at most this long."""
ROWS = np.dtype([(name, np.uint64) for name in ("scores", "begin", "items", "queries", "sold", "category")])
"""struct Rows of cuda/ranking.cu."""


class RankingResult(NamedTuple):
    """For each label the candidates above and level with it, for each query its best and their scores."""

    higher: Codes
    equal: Codes
    best: Codes
    scores: Scores


class RankedLabels(NamedTuple):
    """What is looked for: items by query, `offsets` says where each query's start."""

    offsets: Numbers
    items: Codes

    @classmethod
    def none(cls, queries: int) -> RankedLabels:
        return cls(np.zeros(queries + 1, dtype=np.int64), np.zeros(0, dtype=np.int32))


class Ranker:
    """Vectors on the GPU; the score of (q, v) is vectors[q] . partners[v]."""

    def __init__(self, vectors: Scores, partners: Scores | None = None, *, block_scores: int = BLOCK_SCORES) -> None:
        self.cp = cupy()
        self.block_scores = block_scores
        given = [np.ascontiguousarray(part, dtype=np.float32) for part in (vectors, partners) if part is not None]
        with memory_for(sum(part.nbytes for part in given), "the vectors of the items"):
            there = [self.cp.asarray(part) for part in given]
        self.vectors, self.partners = there[0], there[-1]

    def lists(
        self, queries: Codes, offsets: Numbers, items: Codes, labels: RankedLabels, top: int = 20
    ) -> RankingResult:
        """Ranks within a list of candidates for each query: items[offsets[r]:offsets[r + 1]] are those of query r."""
        cp, dim = self.cp, np.int32(self.vectors.shape[1])
        with memory_for(8 * len(items), f"lists of {plural(len(items), 'candidate')}"):
            arrays = {"begin": cp.asarray(offsets), "items": cp.asarray(items), "queries": cp.asarray(queries)}
            arrays["scores"] = cp.empty(len(items), dtype=np.float32)
            if len(queries) and len(items):
                arguments = (self.vectors, self.partners, dim, _rows(arrays), arrays["scores"])
                self._function("score_lists")((len(queries),), (THREADS,), arguments)
            return self._ranked(arrays, len(queries), labels, top)

    def catalogue(
        self,
        queries: Codes,
        sold: npt.NDArray[np.bool_] | None = None,
        category: Codes | None = None,
        labels: RankedLabels | None = None,
        top: int = 20,
    ) -> RankingResult:
        """Ranks among all items that are sold, except the query and what shares its category (below 0: nobody's)."""
        labels = RankedLabels.none(len(queries)) if labels is None else labels
        items = len(self.partners)
        rows = max(1, self.block_scores // max(items, 1))
        with memory_for(4 * min(rows, len(queries)) * items, "a block of scores"):
            parts = [
                self._block(queries, slice(first, first + rows), sold, category, labels, top)
                for first in range(0, len(queries), rows)
            ]
        joined = [np.concatenate(column) for column in zip(*parts, strict=True)]
        return RankingResult(*joined) if joined else self._ranked({}, 0, labels, top)

    def _block(
        self, queries: Codes, part: slice, sold: Any, category: Any, labels: RankedLabels, top: int
    ) -> RankingResult:
        cp, asked = self.cp, queries[part]
        items = len(self.partners)
        scores = self.vectors[cp.asarray(asked)] @ self.partners.T  # (rows, items)
        arrays = {
            "scores": scores,
            "begin": cp.arange(len(asked) + 1, dtype=np.int64) * items,
            "queries": cp.asarray(asked),
        }
        if sold is not None:
            arrays["sold"] = cp.asarray(sold.astype(np.uint8))
        if category is not None:
            arrays["category"] = cp.asarray(category.astype(np.int32))
        offsets = labels.offsets[part.start : part.start + len(asked) + 1]
        return self._ranked(
            arrays, len(asked), RankedLabels(offsets - offsets[0], labels.items[offsets[0] : offsets[-1]]), top
        )

    def _ranked(self, arrays: dict[str, Any], queries: int, labels: RankedLabels, top: int) -> RankingResult:
        cp = self.cp
        if not 1 <= top <= MAX_TOP:
            raise must_be("top", f"from 1 to {MAX_TOP} on device gpu", top)
        count = len(labels.items)
        higher, equal = cp.zeros(count, dtype=np.int32), cp.zeros(count, dtype=np.int32)
        best, scores = cp.full((queries, top), -1, dtype=np.int32), cp.zeros((queries, top), dtype=np.float32)
        nan = cp.zeros(1, dtype=np.int32)
        if queries:
            rows = _rows(arrays)
            self._function("best_of_rows")((queries,), (THREADS,), (rows, np.int32(top), best, scores, nan))
            if count:
                row = np.repeat(np.arange(queries, dtype=np.int32), np.diff(labels.offsets))
                arguments = (rows, cp.asarray(row), cp.asarray(labels.items.astype(np.int32)), higher, equal)
                self._function("rank_labels")((count,), (THREADS,), arguments)
        if int(nan[0]):
            raise DivergedError("a score is not a number (NaN)", hint="Train the model again.")
        return RankingResult(higher.get(), equal.get(), best.get(), scores.get())

    def _function(self, name: str) -> Any:
        return compiled_module(("ranking",), ()).get_function(name)


def prepare() -> None:
    """Compile what ranks for the GPU at hand, or say what is missing there."""
    compiled_module(("ranking",), ())


def _rows(arrays: dict[str, Any]) -> Any:
    rows = np.zeros((), dtype=ROWS)
    for name, array in arrays.items():
        rows[name] = array.data.ptr if array.size else 0
    return rows[()]
