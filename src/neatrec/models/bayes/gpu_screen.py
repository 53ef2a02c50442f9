"""The screen on a GPU: the tables of `CoarseScorer` once, the best of blocks of queries back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neatrec.errors import DivergedError
from neatrec.models.bayes.features import LIKE_PSEUDO
from neatrec.models.bayes.prior import FARTHEST
from neatrec.models.bayes.ranker import COMPANY_PSEUDO, LEAST_CHANCE
from neatrec.models.bayes.ranker import FARTHEST as FARTHEST_ODDS
from neatrec.models.embeddings.kernels.gpu import compiled_module, cupy, memory_for
from neatrec.models.embeddings.kernels.gpu_ranking import ROWS, THREADS

if TYPE_CHECKING:
    from neatrec.models.bayes.screen import CoarseScorer

SOURCES = ("ranking", "bayes")
"""The CUDA sources that are compiled together."""
BLOCK_SCORES = 2**25
"""Scores on the GPU at a time; there are seven arrays of so many numbers: 1 GB."""
MOST_ROWS = 2**15
"""Queries of a block: CUDA numbers rows up to 65,535."""
NOTHING = -3.0e38
"""Scores of what may not answer lie below."""

Codes = npt.NDArray[np.int32]
Best = tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]


class GpuScreen:
    """The tables on the GPU."""

    def __init__(self, screen: CoarseScorer, *, block_scores: int = BLOCK_SCORES) -> None:
        self.screen, self.cp, self.block_scores = screen, cupy(), block_scores
        given = (
            screen.counts,
            screen.near_counts,
            screen.like,
            screen.company,
            screen.above,
            screen.below,
            screen.words,
        )
        with memory_for(2 * _bytes(given), "the tables of the model"):
            self.counts, self.company = self._table(screen.counts), self._table(screen.company)
            same = screen.near_counts is screen.counts
            self.near = self.counts if same else self._table(screen.near_counts)
            self.like = None if screen.like is None else self._table(screen.like)
            self.borrows = None if screen.borrows is None else self._table(screen.borrows)
            self.right = [self.cp.asarray(part) for part in (screen.above, screen.below, screen.words)]
            self.numbers = [self.cp.asarray(part) for part in screen.numbers]
            self.category = self.cp.asarray(screen.category)

    def _table(self, parts: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        start, item, value = (self.cp.asarray(np.ascontiguousarray(part)) for part in parts)
        return start, item, value

    def best(self, queries: Codes, group: Codes, top: int) -> Best:
        """Places among the items sold of the best `top` of each query, -1 where there are no more, and their scores.

        Items of the query's own `group` (items,) are left out. Of equal scores the smaller place comes first.
        """
        size = max(1, min(MOST_ROWS, self.block_scores // max(len(self.screen.codes), 1)))
        sold_group = self.cp.asarray(group[self.screen.codes].astype(np.int32))
        with memory_for(28 * size * len(self.screen.codes), "a block of scores"):
            found = [
                self._best(queries[first : first + size], group, sold_group, top)
                for first in range(0, len(queries), size)
            ]
        if not found:
            return np.zeros((0, top), dtype=np.int32), np.zeros((0, top), dtype=np.float32)
        places, scores = (np.concatenate(part) for part in zip(*found, strict=True))
        return np.where(scores > NOTHING, places, -1).astype(np.int32), scores

    def _best(self, queries: Codes, group: Codes, sold_group: Any, top: int) -> Best:
        cp, rows = self.cp, len(queries)
        scores = self.rows(queries)
        sold = scores.shape[1]
        own_group = cp.asarray(group[queries].astype(np.int32))
        self._over(rows, "screen_finish", np.int64(sold), own_group, sold_group, np.float32(FARTHEST_ODDS), scores)
        arrays = {
            "scores": scores,
            "begin": cp.arange(rows + 1, dtype=np.int64) * sold,
            "queries": cp.full(rows, -1, dtype=np.int32),
        }
        best, best_scores = cp.full((rows, top), -1, dtype=np.int32), cp.full((rows, top), -np.inf, dtype=np.float32)
        nan = cp.zeros(1, dtype=np.int32)
        arguments = (_struct(arrays, ROWS), np.int32(top), best, best_scores, nan)
        self._function("best_of_rows")((rows,), (THREADS,), arguments)
        if int(nan[0]):
            raise DivergedError("the model has scores that are not numbers", hint="Train it anew.")
        return best.get(), best_scores.get()

    def rows(self, queries: Codes) -> Any:
        """Logarithms of scores before they are cut off, (queries, sold), on the GPU."""
        cp, screen, rows, sold = self.cp, self.screen, len(queries), len(self.screen.codes)
        asked = cp.asarray(queries)
        plus, minus, words = (
            self._product(left, right) for left, right in zip(screen.left(queries), self.right, strict=True)
        )
        reached, others = (cp.zeros((rows, sold), dtype=np.float32) for _ in range(2))
        if self.like is not None:
            self._each(rows, "lend_rows", asked, _csr(self.like), _csr(self.counts), np.int64(sold), reached)
        self._each(rows, "lend_rows", asked, _csr(self.company), _csr(self.counts), np.int64(sold), others)
        self._each(rows, "take_own", asked, _csr(self.counts), np.int64(sold), others)
        of_query = [cp.asarray(part) for part in screen.query_numbers(queries)]
        tables = [cp.asarray(part) for part in screen.of_categories(queries)]
        prior, out = cp.empty((rows, sold), dtype=np.float32), cp.empty((rows, sold), dtype=np.float32)
        self._over(
            rows,
            "screen_unseen",
            np.int64(sold),
            *(plus, minus, words, reached, others),
            _struct(dict(enumerate(of_query))),
            _struct(dict(enumerate(self.numbers))),
            self.category,
            *tables,
            np.int64(tables[0].shape[1]),
            _csr(self.borrows),
            self._settings(),
            prior,
            out,
        )
        offsets, sure = (cp.asarray(part) for part in screen.sureness_of(queries))
        surely = sure if sure.size else np.uint64(0)
        pairs = _csr(self.counts), _csr(self.near)
        self._each(rows, "screen_seen", asked, np.int64(sold), *pairs, offsets, surely, self._settings(), prior, out)
        return out

    def _product(self, left: npt.NDArray[np.float32], right: Any) -> Any:
        """left @ right.T on the GPU; zeros for vectors of no dimensions."""
        if not left.shape[1]:
            return self.cp.zeros((len(left), len(right)), dtype=np.float32)
        return self.cp.ascontiguousarray(self.cp.asarray(left) @ right.T)

    def _settings(self) -> Any:
        more = LIKE_PSEUDO, COMPANY_PSEUDO, LEAST_CHANCE, FARTHEST, FARTHEST_ODDS
        values = np.array([*self.screen.settings, *more], dtype=np.float32)
        return values.view([(f"f{n}", np.float32) for n in range(len(values))])[0]

    def _each(self, rows: int, name: str, *arguments: Any) -> None:
        """One block a row."""
        self._function(name)((rows,), (THREADS,), arguments)

    def _over(self, rows: int, name: str, *arguments: Any) -> None:
        """One thread a score."""
        self._function(name)((-(-len(self.screen.codes) // THREADS), rows), (THREADS,), arguments)

    def _function(self, name: str) -> Any:
        return compiled_module(SOURCES, ()).get_function(name)


def _struct(arrays: dict[Any, Any], dtype: np.dtype[Any] | None = None) -> Any:
    """Addresses of arrays one after the other, as a struct of CUDA has them; 0 for what is not there."""
    names = [str(name) for name in arrays] if dtype is None else list(dtype.names or ())
    out = np.zeros((), dtype=np.dtype([(name, np.uint64) for name in names]))
    for name, array in arrays.items():
        out[str(name)] = array.data.ptr if array is not None and array.size else 0
    return out[()]


def _csr(parts: tuple[Any, Any, Any] | None) -> Any:
    return _struct(dict(enumerate((None, None, None) if parts is None else parts)))


def _bytes(given: tuple[Any, ...]) -> int:
    flat = [part for one in given if one is not None for part in (one if isinstance(one, tuple) else (one,))]
    return sum(int(part.nbytes) for part in flat)
