"""`rank_labels`: the ranks of the label records among the candidates, and the best candidates."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from neatrec.errors import DivergedError, ParameterError
from neatrec.evaluation.candidates import (
    Candidates,
    CandidateSet,
    CatalogCandidates,
    Codes,
    Numbers,
)
from neatrec.evaluation.kernels import BestRows, CategorizedItems, LabelRows, rank_lists, rank_rows
from neatrec.models.parallel import parallel_slices
from neatrec.statistics.blas import one_blas_thread
from neatrec.text import printable

log = logging.getLogger(__name__)

BLOCK_SCORES = 4_000_000
"""Number of scores in memory: the catalogue is scored in blocks of about this size."""
NO_CATEGORY = np.int32(-2)
"""Category of a query without category: no item shares it."""


class Scorer(Protocol):
    """The part of a model that evaluation needs. Every `neatrec.models.Model` is a scorer."""

    @property
    def name(self) -> str:
        """Name for messages."""

    def score(self, queries: Codes, items: Codes) -> npt.NDArray[np.float64]:
        """One score per aligned pair."""

    def score_all(self, queries: Codes) -> npt.NDArray[Any]:
        """One row of scores of all items per query."""


@dataclass(frozen=True)
class LabelQueries:
    """The label records, sorted by query, then item."""

    query: Codes
    item: Codes
    """shape (labels,) each"""
    queries: Codes
    """Each query once, ascending, shape (queries,)."""
    offsets: Numbers
    """Start of the labels of each query, shape (queries + 1,)."""

    @classmethod
    def from_pairs(cls, query: npt.ArrayLike, item: npt.ArrayLike) -> LabelQueries:
        """Records from pairs that are sorted by query, then item, and unique, as `Labels` are."""
        pairs = np.asarray(query, dtype=np.int32), np.asarray(item, dtype=np.int32)
        order = np.lexsort((pairs[1], pairs[0]))
        if not np.array_equal(order, np.arange(len(order))):
            raise ParameterError("label records must be sorted by query, then item")
        queries, start = np.unique(pairs[0], return_index=True)
        return cls(*pairs, queries.astype(np.int32), np.append(start, len(order)).astype(np.int64))

    @property
    def row(self) -> npt.NDArray[np.int64]:
        """The row in `queries` of each record, shape (labels,)."""
        return np.repeat(np.arange(len(self.queries)), np.diff(self.offsets))


@dataclass(frozen=True)
class LabelRanks:
    """The ranks of the label records by one model, and its best candidates of each query."""

    higher: npt.NDArray[np.int32]
    """Candidates with a higher score than the item of the label, shape (labels,)."""
    equal: npt.NDArray[np.int32]
    """Candidates with the same score, including the item; 0 if it is no candidate, (labels,)."""
    best: Codes
    """The best candidates of each query, (queries, top), padded with -1; ties by ascending code."""


def rank_labels(
    model: Scorer,
    candidates: Candidates,
    label_queries: LabelQueries,
    *,
    top: int = 20,
) -> LabelRanks:
    """Rank the records of `label_queries` among `candidates`, and find the `top` best per query."""
    if not np.array_equal(candidates.queries, label_queries.queries):
        raise ParameterError("`candidates` must be made for the queries of the label records")
    labels, rows = len(label_queries.query), len(label_queries.queries)
    out = LabelRanks(
        np.zeros(labels, dtype=np.int32),
        np.zeros(labels, dtype=np.int32),
        np.full((rows, top), -1, dtype=np.int32),
    )
    if isinstance(candidates, CandidateSet):
        _rank_candidate_lists(model, candidates, label_queries, out)
    else:
        # threads of the matrix product would spin while our own threads work
        with one_blas_thread():
            _rank_catalog(model, candidates, label_queries, out)
    return out


def name_of(model: Scorer) -> str:
    """The name of a model in messages: a user's class may have none."""
    return str(getattr(model, "name", None) or type(model).__name__)


def best_of(model: Scorer, candidates: Candidates, *, top: int = 20) -> Codes:
    """The `top` best candidates of each query, shape (queries, top), padded with -1."""
    nothing, offsets = np.zeros(0, dtype=np.int32), np.zeros(len(candidates.queries) + 1, np.int64)
    without_labels = LabelQueries(nothing, nothing, candidates.queries, offsets)
    return rank_labels(model, candidates, without_labels, top=top).best


def _rank_candidate_lists(
    model: Scorer, candidates: CandidateSet, label_queries: LabelQueries, out: LabelRanks
) -> None:
    query = np.repeat(candidates.queries, np.diff(candidates.offsets))
    for first, last in _blocks(candidates.offsets, BLOCK_SCORES):
        start, end = candidates.offsets[first], candidates.offsets[last]
        items = candidates.items[start:end]
        scores = np.asarray(model.score(query[start:end], items), dtype=np.float64)
        _check_shape(model, scores, items.shape)
        part = slice(label_queries.offsets[first], label_queries.offsets[last])
        starts = label_queries.offsets[first : last + 1] - label_queries.offsets[first]
        labels = LabelRows(starts, label_queries.item[part], out.higher[part], out.equal[part])
        best = BestRows(out.best[first:last], np.empty((last - first, out.best.shape[1])))
        nan = np.full(2, -1, dtype=np.int64)
        offsets = candidates.offsets[first : last + 1] - start
        rank_lists(scores, offsets, items, labels, best, nan)
        _refuse_nan(model, candidates.queries[first:last], nan)


def _rank_catalog(
    model: Scorer, candidates: CatalogCandidates, label_queries: LabelQueries, out: LabelRanks
) -> None:
    items = len(candidates.sold)
    rows = max(1, BLOCK_SCORES // max(items, 1))
    for first in range(0, len(label_queries.queries), rows):
        queries = candidates.queries[first : first + rows]
        scores = np.ascontiguousarray(model.score_all(queries))  # (rows, items)
        _check_shape(model, scores, (len(queries), items))
        _rank_block(model, candidates, label_queries, first, scores, out)


def _rank_block(
    model: Scorer,
    candidates: CatalogCandidates,
    label_queries: LabelQueries,
    first: int,
    scores: npt.NDArray[Any],
    out: LabelRanks,
) -> None:
    """Rank the queries from `first` on, which have these scores, on all cores."""
    codes = np.flatnonzero(candidates.sold).astype(np.uint32)
    sold = CategorizedItems(codes, candidates.category[codes])

    def work(part: slice) -> None:
        start, stop = first + part.start, first + part.stop
        queries, best = candidates.queries[start:stop], out.best[start:stop]
        category = candidates.category[queries]
        categories = np.where(category < 0, NO_CATEGORY, category)
        rows = CategorizedItems(queries.astype(np.uint32), categories)
        labels = LabelRows(
            label_queries.offsets[start : stop + 1], label_queries.item, out.higher, out.equal
        )
        nan = np.full(2, -1, dtype=np.int64)
        best_rows = BestRows(best, np.empty(best.shape, dtype=scores.dtype))
        rank_rows(scores[part], rows, sold, labels, best_rows, nan)
        _refuse_nan(model, queries, nan)

    parallel_slices(len(scores), work)


def _blocks(offsets: Numbers, size: int) -> Iterator[tuple[int, int]]:
    """Ranges of rows that hold about `size` entries each."""
    first = 0
    while first < len(offsets) - 1:
        last = int(np.searchsorted(offsets, offsets[first] + size, side="right")) - 1
        last = max(last, first + 1)
        yield first, last
        first = last


def _check_shape(model: Scorer, scores: npt.NDArray[Any], shape: tuple[int, ...]) -> None:
    if scores.shape != shape:
        raise ParameterError(
            f"model {printable(name_of(model))!r} must give scores of shape {shape}, "
            f"got {scores.shape}",
            hint="`score` gives one number per pair, `score_all` one row per query with one "
            "number per item.",
        )


def _refuse_nan(model: Scorer, queries: Codes, nan: npt.NDArray[np.int64]) -> None:
    if nan[0] >= 0:
        raise DivergedError(
            f"model {printable(name_of(model))!r} gives a score that is not a number (NaN) to "
            f"item code {nan[1]} for query code {queries[nan[0]]}",
            hint="A score must be a number for every pair; 0 or -inf where a model knows nothing.",
        )


RanksByModel = Mapping[str, Sequence[LabelRanks]]
"""The ranks of each training of each model."""
