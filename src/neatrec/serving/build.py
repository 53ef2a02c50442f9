"""`BuiltTable`: a fitted model and counts of its baskets in, the content of a serving table out."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from neatrec.bundle import Manifest, save_bundle
from neatrec.cooccurrence.counting import CountBook
from neatrec.data.baskets import Baskets
from neatrec.models.base import Model
from neatrec.serving.counted import EvidenceTable
from neatrec.serving.evidence import GUESS, LIKELY
from neatrec.serving.files import NOTE, SAME_CATEGORY, Columns, category_of, write_table
from neatrec.text import plural

log = logging.getLogger(__name__)

K = 100
"""Answers per item."""
BLOCK_PAIRS = 4_000_000
"""Pairs that a model scores at a time."""


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
    Then the best of the other pairs that were bought together, up to `k` answers in all.
    """
    grade, same = pairs.columns["grade"], pairs.columns["same_category"] > 0
    kept = np.flatnonzero((grade <= LIKELY) | ((grade == GUESS) & ~same))
    one, other = pairs.one[kept], pairs.other[kept]
    query = np.concatenate([one, other])
    by_query = np.argsort(query, kind="stable")  # pairs of one query are scored together: faster
    query, item = query[by_query], np.concatenate([other, one])[by_query]
    pair = np.tile(kept, 2)[by_query]
    scored = np.flatnonzero(~same[pair])
    score = np.full(len(pair), np.nan)
    for first in range(0, len(scored), BLOCK_PAIRS):
        part = scored[first : first + BLOCK_PAIRS]
        score[part] = model.score(query[part], item[part])
    evident = grade[pair] <= LIKELY
    named = np.flatnonzero(evident | (score > model.min_score))
    query, item, pair, score = query[named], item[named], pair[named], score[named]
    evident, same = evident[named], same[pair]
    strength = np.where(same, pairs.columns["lift_low"][pair], score)
    group = query * np.int64(4) + ~evident * 2 + same
    order = np.lexsort((item, -strength, group))
    rank = np.arange(len(order)) - np.searchsorted(query[order], query[order])
    order = order[evident[order] | (rank < k)]
    return {
        "query": query[order],
        "item": item[order],
        "pair": pair[order].astype(np.int64),
        "score": score[order].astype(np.float32),
    }


def save_indexed(
    model: Model, path: str | Path, baskets: Baskets, *, seed: int | None, **options: Any
) -> Manifest:
    """Write the bundle of a model with the serving table of the baskets it learned from.

    Options are those of `BuiltTable.of`.
    """
    table = BuiltTable.of(model, CountBook(baskets), **options)
    return save_bundle(model, path, seed=seed, write_extra=table.write)
