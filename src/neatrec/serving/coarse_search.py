"""The best K of every item for a model with a screen: nearly right scores of everything sold, exact ones of the best.

The best K + SPARE by the screen are scored exactly. They hold the best K for sure when the K-th of them lies further
above the worst of them than the screen can err; the few queries where that cannot be said are answered by a scan of all
scores.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from neatrec.models.base import Model
from neatrec.models.parallel import one_blas_thread
from neatrec.serving.scan import keep_best_of_lists

if TYPE_CHECKING:
    from neatrec.serving.topk import TopKSearch

SPARE = 28
"""Answers beyond K that are scored exactly."""
MARGIN = 1e-4
"""What the screen may err by, in logarithms of scores; some 25 times what it does."""
ROWS, SCREENED = 64, 4_000_000
"""Queries that are screened together, and the most scores of them."""
EXACT = 4_000
"""Queries whose best are scored exactly together."""

Codes = npt.NDArray[np.int32]
log = logging.getLogger(__name__)


class Screening(Protocol):
    """Logarithms of a model's scores, nearly: (queries, sold), columns in the order of the codes sold."""

    def rows(self, queries: Codes) -> npt.NDArray[np.float32]: ...


def has_screen(model: Model) -> bool:
    return bool(getattr(model, "has_screen", False))


def screen_of(model: Model, sold: Codes) -> Screening | None:
    """The screen of a model that has one."""
    screen: Screening | None = model.screen(sold) if has_screen(model) else None  # type: ignore[attr-defined]
    return screen


def by_screen(search: TopKSearch, model: Model, screen: Screening, threads: int) -> None:
    """Puts into `search` what a scan of all of the model's scores would."""
    wide = wider(search)
    _screen_rows(wide, screen, threads)
    settle(search, model, wide, threads)


def _screen_rows(wide: TopKSearch, screen: Screening, threads: int) -> None:
    size = max(1, min(ROWS, SCREENED // max(len(wide.code), 1)))

    def work(first: int) -> None:
        rows = screen.rows(wide.query[first : first + size])
        wide.scan(rows, np.arange(first, first + len(rows)), wide.code)

    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(0, len(wide.query), size)))


def wider(search: TopKSearch) -> TopKSearch:
    """The same search for SPARE more, without a min_score, nothing found yet."""
    wide = type(search)(search.query, search.code, search.group, search.k + SPARE, -np.inf)
    wide.best = wide.best.astype(np.float32)
    return wide


def settle(search: TopKSearch, model: Model, wide: TopKSearch, threads: int) -> None:
    """Puts into `search` the best of what the screen put into `wide`, by their exact scores."""
    sure = np.zeros(len(search.query), dtype=bool)

    def work(first: int) -> None:
        part = slice(first, first + EXACT)
        filled, items, near = wide.filled[part], wide.best_item[part], wide.best[part]
        chosen = np.arange(wide.k)[None] < filled[:, None]  # (queries, K + SPARE)
        exact = model.score(np.repeat(search.query[part], filled), items[chosen])
        start = np.concatenate([[0], np.cumsum(filled)]).astype(np.int64)
        keep_best_of_lists(start, exact, items[chosen], first, search.space(exact), search.heaps)
        error = np.zeros(chosen.shape)
        with np.errstate(divide="ignore"):
            error[chosen] = np.abs(np.log(exact) - near[chosen])
            last = np.log(search.best[part, 0])
        enough = (search.filled[part] == search.k) & (last > near[:, 0] + MARGIN)
        sure[part] = (enough | (filled < wide.k)) & (error.max(axis=1, initial=0.0) < MARGIN / 2)

    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(0, len(search.query), EXACT)))
    unsure = np.flatnonzero(~sure)
    log.debug("%d of %d items are answered by a scan of all scores", len(unsure), len(sure))
    rest = search.part(unsure)
    rest.by_blocks(model, threads)
    search.best[unsure], search.best_item[unsure], search.filled[unsure] = rest.best, rest.best_item, rest.filled
