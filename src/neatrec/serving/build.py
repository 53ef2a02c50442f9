"""`BuiltTable`: a fitted model and counts of its baskets in, the content of a serving table out."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from neatrec.bundle import Manifest, save_bundle
from neatrec.cooccurrence.counting import CountBook
from neatrec.data.baskets import Baskets
from neatrec.memory import blocks
from neatrec.models.base import Model
from neatrec.models.counts import candidates
from neatrec.serving.counted import Codes, EvidenceTable
from neatrec.serving.evidence import GUESS, LIKELY
from neatrec.serving.files import NOTE, SAME_CATEGORY, Columns, category_of, write_table
from neatrec.text import plural

log = logging.getLogger(__name__)

K = 100
"""Answers per item."""
BLOCK_PAIRS = 4_000_000
"""Pairs that are scored, or whose candidates are selected, at a time."""


@dataclass(frozen=True, eq=False)
class BuiltTable:
    """The content of a serving table, before a bundle holds it."""

    pairs: EvidenceTable
    answers: Columns
    note: Mapping[str, Any]
    """The manifest's entry on the table."""

    @classmethod
    def of(
        cls,
        model: Model,
        book: CountBook,
        *,
        k: int = K,
        strata: Sequence[str] | None = None,
        same_category: str = SAME_CATEGORY[0],
    ) -> BuiltTable:
        """The table of a fitted model.

        Parameters
        ----------
        book
            Counts of the baskets that the model learned from.
        k
            Answers per item; pairs with evidence are all kept.
        strata
            Columns within which the evidence is measured; None: basket size, month and store, as
            far as they are known, (): none.
        same_category
            Position of answers from the query's own category, unless a question names one.
        """
        started = time.perf_counter()
        category = category_of(model.catalog, model.parameters.to_dict())
        pairs = EvidenceTable.of(book.baskets, category, strata=strata, book=book)
        answers = best_answers(model, pairs, k)
        made, items = plural(len(answers["item"]), "answer"), plural(len(model.catalog), "item")
        log.info("serving table: %s for %s in %.1f s", made, items, time.perf_counter() - started)
        note = {"k": k, "reason": model.reason, "same_category": same_category}
        return cls(pairs, answers, {**note, "evidence": pairs.about()})

    def write(self, folder: Path) -> Mapping[str, Any]:
        """Write the files into the folder of a bundle; the notes for its manifest."""
        write_table(folder, self.pairs, self.answers)
        return {NOTE: self.note}


def best_answers(model: Model, pairs: EvidenceTable, k: int) -> Columns:
    """The answers of each item, best first: `query`, `item`, `pair` and `score`.

    First all pairs with evidence: with items of other categories, by the score of the model, then
    with items of the same category, which the model does not score, by the lower end of the lift.
    Then the best of the item's other candidates, up to `k` answers in all.
    """
    grade, same = pairs.columns["grade"], pairs.columns["same_category"] > 0
    kept = np.flatnonzero((grade <= LIKELY) | ((grade == GUESS) & ~same))
    size = len(pairs.query_factor)
    # the number of each pair, from 1, in the rows of both items
    cells = (kept + 1).astype(np.int32), pairs.other[kept], np.searchsorted(kept, pairs.start)
    upper = sparse.csr_matrix(cells, shape=(size, size))
    both = upper + upper.T.tocsr()
    both.sort_indices()
    query, item, pair = candidate_pairs(pairs, both, k)
    same = pairs.columns["same_category"][pair] > 0
    score = np.full(len(pair), np.nan)
    others = np.flatnonzero(~same)
    for block in blocks(len(others), BLOCK_PAIRS):
        score[others[block]] = model.score(query[others[block]], item[others[block]])
    evident = pairs.columns["grade"][pair] <= LIKELY
    strength = np.where(same, pairs.columns["lift_low"][pair], score)
    # complex numbers sort by both parts, in one pass over rows that are nearly in order; of equal
    # strength those of the smaller code stay first
    key = np.empty(len(pair), dtype=np.complex128)
    key.real, key.imag = query * 4.0 + ~evident * 2 + same, -strength
    order = np.argsort(key, kind="stable")
    order = order[evident[order] | (score[order] > model.min_score)]
    rank = np.arange(len(order)) - np.searchsorted(query[order], query[order])
    order = order[evident[order] | (rank < k)]
    return {
        "query": query[order],
        "item": item[order],
        "pair": pair[order].astype(np.int64),
        "score": score[order].astype(np.float32),
    }


def candidate_pairs(
    pairs: EvidenceTable, both: sparse.csr_matrix, k: int
) -> tuple[Codes, Codes, Codes]:
    """Query, item and pair of all pairs with evidence and of each item's candidates.

    `both`: the number of each pair, from 1, in the rows of both items.
    """
    cuts = np.searchsorted(both.indptr, np.arange(BLOCK_PAIRS, both.nnz, BLOCK_PAIRS))
    parts = []
    for first, last in pairwise(np.unique([0, *cuts, both.shape[0]])):
        rows = both[first:last]
        query = np.repeat(np.arange(first, last, dtype=np.int32), np.diff(rows.indptr))
        item, pair = rows.indices, rows.data - 1
        times = pairs.columns["customers" if pairs.by_customer else "count"][pair]
        expected = pairs.query_factor[query] * pairs.item_factor[item]
        selected = pairs.columns["grade"][pair] <= LIKELY
        selected |= candidates(rows.indptr, times, expected, k)
        parts.append((query[selected], item[selected], pair[selected]))
    query, item, pair = map(np.concatenate, zip(*parts, strict=True))
    return query, item, pair


def save_indexed(
    model: Model, path: str | Path, baskets: Baskets, *, seed: int | None, **options: Any
) -> Manifest:
    """Write the bundle of a model with the serving table of the baskets it learned from.

    Options are those of `BuiltTable.of`.
    """
    table = BuiltTable.of(model, CountBook(baskets), **options)
    return save_bundle(model, path, seed=seed, write_extra=table.write)
