"""`save_indexed`: a fitted model and its training baskets in, a bundle with a serving table out."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.bundle import Manifest, save_bundle
from neatrec.cooccurrence import Engine
from neatrec.cooccurrence.count_book import CountBook
from neatrec.data.baskets import Baskets
from neatrec.models.base import Model
from neatrec.models.parallel import thread_limit
from neatrec.serving.counted import EvidenceTable
from neatrec.serving.evidence import GUESS, LIKELY, thresholds
from neatrec.serving.files import Columns
from neatrec.serving.table import NOTE, SAME_CATEGORY, category_of, write_table
from neatrec.text import plural

log = logging.getLogger(__name__)

K = 100
"""Answers per item."""
BLOCK_PAIRS = 4_000_000
"""Pairs that a model scores at a time."""

Codes = npt.NDArray[np.int32]


def best_answers(
    model: Model, pairs: EvidenceTable, k: int, *, threads: int | None = None
) -> Columns:
    """The answers of each item, best first: `query`, `item`, `pair` and `score`.

    First all pairs with evidence: with items of other categories, by the score of the model, then
    with items of the same category, which the model does not score, by the lower end of the lift.
    Then the best of the other pairs that were bought together, up to `k` answers in all.
    """
    grade, same = pairs.columns["grade"], pairs.columns["same_category"] > 0
    kept = np.flatnonzero((grade <= LIKELY) | ((grade == GUESS) & ~same))
    one, other = pairs.one[kept], pairs.other[kept]
    query, item = np.concatenate([one, other]), np.concatenate([other, one])
    pair = np.tile(kept, 2)
    scored = np.flatnonzero(~same[pair])
    score = np.full(len(pair), np.nan)
    score[scored] = _scores(model, query[scored], item[scored], threads)
    evident = grade[pair] <= LIKELY
    named = np.flatnonzero(evident | (score > model.min_score))
    query, item, pair, score = query[named], item[named], pair[named], score[named]
    evident, same = evident[named], same[pair]
    strength = np.where(same, pairs.columns["lift_low"][pair], score)
    group = query * np.int64(4) + ~evident * 2 + same
    order = np.lexsort((item, -strength, group))
    place = np.arange(len(order)) - np.searchsorted(query[order], query[order])
    order = order[evident[order] | (place < k)]
    return {
        "query": query[order],
        "item": item[order],
        "pair": pair[order].astype(np.int64),
        "score": score[order].astype(np.float32),
    }


def _scores(
    model: Model, query: Codes, item: Codes, threads: int | None
) -> npt.NDArray[np.float64]:
    with thread_limit(threads):
        parts = [
            model.score(query[first : first + BLOCK_PAIRS], item[first : first + BLOCK_PAIRS])
            for first in range(0, len(query), BLOCK_PAIRS)
        ]
    return np.concatenate([np.zeros(0), *parts])


def save_indexed(
    model: Model,
    path: str | Path,
    baskets: Baskets,
    *,
    seed: int | None,
    k: int = K,
    strata: Sequence[str] | None = None,
    same_category: str = SAME_CATEGORY[0],
    keep_users: bool = False,
    threads: int | None = None,
    book: CountBook | None = None,
) -> Manifest:
    """Write the bundle of a model with the serving table of the baskets it learned from.

    Parameters
    ----------
    k
        Answers per item; pairs with evidence are all kept.
    strata
        Columns within which the evidence is measured; None: basket size, month and store, as far
        as they are known, (): none.
    same_category
        Place of answers of the question's own category, where a question names none.
    book
        Counts of the baskets, where some are made already.
    """
    counts = CountBook(baskets, Engine(threads=threads)) if book is None else book

    def write(folder: Path) -> Mapping[str, Any]:
        started = time.perf_counter()
        category = category_of(model.catalog, model.parameters.to_dict())
        pairs = EvidenceTable.of(baskets, category, strata=strata, book=counts)
        answers = best_answers(model, pairs, k, threads=threads)
        write_table(folder, pairs, answers)
        log.info(
            "serving table: %s for %s in %.1f s",
            plural(len(answers["item"]), "answer"),
            plural(len(model.catalog), "item"),
            time.perf_counter() - started,
        )
        about = {"k": k, "answers": len(answers["item"]), "reason": model.reason}
        about["same_category"] = same_category
        return {NOTE: {**about, "grades": thresholds(), "evidence": pairs.about()}}

    return save_bundle(model, path, seed=seed, keep_users=keep_users, write_extra=write)
