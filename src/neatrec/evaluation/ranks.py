"""`rank_labels`: the ranks of the label records among the candidates, and the best candidates."""

from __future__ import annotations

from collections.abc import Iterator
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
from neatrec.evaluation.metrics import TOP
from neatrec.memory import one_blas_thread, parallel_slices
from neatrec.text import printable

BLOCK_SCORES = 4_000_000
"""Number of scores in memory: candidates are scored in blocks of about this size."""
NO_CATEGORY = np.int32(-2)
"""Category of a query without category: no item shares it."""


class Scorer(Protocol):
    """The part of a model that evaluation needs. Every `neatrec.models.Model` is a scorer."""

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
        """Records from pairs that are sorted by query, then item, as those of `Labels` are."""
        query, item = np.asarray(query, dtype=np.int32), np.asarray(item, dtype=np.int32)
        queries, start = np.unique(query, return_index=True)
        return cls(query, item, queries, np.append(start, len(query)).astype(np.int64))

    @property
    def row(self) -> Numbers:
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

    def part(
        self, labels: LabelQueries, rows: slice, dtype: np.dtype[Any]
    ) -> tuple[LabelRows, BestRows]:
        """The records of some queries, as the kernels fill them; `dtype` of the scores."""
        best = self.best[rows]
        offsets = labels.offsets[rows.start : rows.stop + 1]
        records = LabelRows(offsets, labels.item, self.higher, self.equal)
        return records, BestRows(best, np.empty(best.shape, dtype=dtype))


def rank_labels(
    model: Scorer, candidates: Candidates, labels: LabelQueries, *, top: int = TOP
) -> LabelRanks:
    """Rank the label records among the candidates of their queries; find the `top` best."""
    out = LabelRanks(
        np.zeros(len(labels.query), dtype=np.int32),
        np.zeros(len(labels.query), dtype=np.int32),
        np.full((len(labels.queries), top), -1, dtype=np.int32),
    )
    if isinstance(candidates, CandidateSet):
        _rank_candidate_lists(model, candidates, labels, out)
    else:
        # threads of the matrix product would spin while our own threads work
        with one_blas_thread():
            _rank_catalog(model, candidates, labels, out)
    return out


def best_of(model: Scorer, candidates: Candidates) -> Codes:
    """The best candidates of each query, shape (queries, TOP), padded with -1."""
    nothing, offsets = np.zeros(0, dtype=np.int32), np.zeros(len(candidates.queries) + 1, np.int64)
    without_labels = LabelQueries(nothing, nothing, candidates.queries, offsets)
    return rank_labels(model, candidates, without_labels).best


def _rank_candidate_lists(
    model: Scorer, candidates: CandidateSet, labels: LabelQueries, out: LabelRanks
) -> None:
    query = np.repeat(candidates.queries, np.diff(candidates.offsets))
    for rows in _blocks(candidates.offsets):
        offsets = candidates.offsets[rows.start : rows.stop + 1]
        items = candidates.items[offsets[0] : offsets[-1]]
        scores = np.asarray(model.score(query[offsets[0] : offsets[-1]], items), dtype=np.float64)
        _check_shape(model, scores, items.shape)
        label_rows, best = out.part(labels, rows, scores.dtype)
        nan = rank_lists(scores, offsets - offsets[0], items, label_rows, best)
        _refuse_nan(model, candidates.queries[rows], *nan)


def _rank_catalog(
    model: Scorer, candidates: CatalogCandidates, labels: LabelQueries, out: LabelRanks
) -> None:
    items = len(candidates.sold)
    for rows in _blocks(np.arange(len(candidates.queries) + 1) * items):
        queries = candidates.queries[rows]
        scores = np.ascontiguousarray(model.score_all(queries))  # (rows, items)
        _check_shape(model, scores, (len(queries), items))
        _rank_block(model, candidates, labels, rows.start, scores, out)


def _rank_block(
    model: Scorer,
    candidates: CatalogCandidates,
    labels: LabelQueries,
    first: int,
    scores: npt.NDArray[Any],
    out: LabelRanks,
) -> None:
    """Rank the queries from `first` on, which have these scores."""
    codes = np.flatnonzero(candidates.sold).astype(np.uint32)
    sold = CategorizedItems(codes, candidates.category[codes])

    def work(part: slice) -> None:
        rows = slice(first + part.start, first + part.stop)
        queries = candidates.queries[rows]
        category = candidates.category[queries]
        category = np.where(category < 0, NO_CATEGORY, category)
        categorized = CategorizedItems(queries.astype(np.uint32), category)
        label_rows, best = out.part(labels, rows, scores.dtype)
        nan = rank_rows(scores[part], categorized, sold, label_rows, best)
        _refuse_nan(model, queries, *nan)

    # a scorer of the user's own has no number of threads
    parallel_slices(len(scores), work, getattr(model, "threads", None))


def _blocks(offsets: Numbers) -> Iterator[slice]:
    """Ranges of rows that hold about BLOCK_SCORES entries each."""
    first = 0
    while first < len(offsets) - 1:
        last = int(np.searchsorted(offsets, offsets[first] + BLOCK_SCORES, side="right")) - 1
        last = max(last, first + 1)
        yield slice(first, last)
        first = last


def _name_of(model: Scorer) -> str:
    """The name of a model in messages: a user's class may have none."""
    return printable(getattr(model, "name", None) or type(model).__name__)


def _check_shape(model: Scorer, scores: npt.NDArray[Any], shape: tuple[int, ...]) -> None:
    if scores.shape != shape:
        raise ParameterError(
            f"model {_name_of(model)!r} must give scores of shape {shape}, got {scores.shape}",
            hint="`score` gives one number per pair, `score_all` one row per query with one "
            "number per item.",
        )


def _refuse_nan(model: Scorer, queries: Codes, row: int, item: int) -> None:
    if row >= 0:
        raise DivergedError(
            f"model {_name_of(model)!r} gives a score that is not a number (NaN) to item code "
            f"{item} for query code {queries[row]}",
            hint="A score must be a number for every pair; 0 or -inf for pairs not learned.",
        )
