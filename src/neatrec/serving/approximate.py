"""The best K of every item, approximately: for millions of items, of which each looks at a small part.

faiss parts the items into lists of neighbours (spherical k-means) and finds for each query the lists nearest to it;
their items are scored exactly, by matrix product, and scanned as in the exact table. A model with `related_items` needs
no lists: it says itself where the best of an item are mostly found, and what is best for a typical item of the category
is looked at too. What is lost are answers elsewhere: how many is measured against exact answers of items drawn at
random.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.cooccurrence.resources import thread_count
from neatrec.errors import MissingDependencyError, ParameterError, must_be
from neatrec.models.base import Model
from neatrec.models.vectors import CosineModel
from neatrec.serving.topk import (
    TILE,
    Codes,
    TopK,
    TopKSearch,
    TypicalAnswers,
    Vectors,
    best_by_goal,
    items_asked_for,
    product_factors,
    related_by_goal,
    search_of,
)
from neatrec.statistics.blas import one_blas_thread
from neatrec.text import plural

log = logging.getLogger(__name__)

FIRST = 10
"""Answers that a shop shows: their recall is the one that is aimed at."""
TARGET = 0.97
"""Lists are added until the trial items have this share of their exact first ten."""
ENOUGH_RECALL, ENOUGH_ITEMS = 0.95, 200_000
"""Below either, the exact table is the better one, and a warning is logged."""
TRIAL, SAMPLE = 500, 1000
"""Items on which the number of lists is chosen, and others on which the recall is then measured."""
MIN_ITEMS_PER_LIST, ROUNDS, OF_A_LIST = 39, 10, 64
"""k-means: items a list needs at least, rounds, and items of a list that it learns from."""
FIRST_PROBES = 4
BLOCK = 65_536
"""Queries that one thread works on at once."""


@dataclass(frozen=True)
class MeasuredRecall:
    """What an approximate table has of the exact one, and how it was made: kept in the manifest."""

    first: float
    """Share of the exact first ten answers that are in the table."""
    all: float
    """Share of all exact answers."""
    sample: int
    """Items, drawn at random, on which both were measured."""
    items: int
    lists: int | None = None
    probes: int | None = None
    """The items were parted into so many lists, of which each query looked into so many; None: into related items."""
    faiss: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, eq=False)
class InvertedLists:
    """Items (places into `TopKSearch.code`) by list."""

    centres: Any
    """A faiss index over the centres, shape (lists, dim)."""
    start: npt.NDArray[np.int64]
    """Where each list starts, shape (lists + 1,)."""
    item: Codes


def approximate_answers(model: Model, k: int, *, threads: int | None = None) -> tuple[TopK, MeasuredRecall]:
    """As `best_answers`, from a part of the items for each; and what that costs."""
    factors = product_factors(model)
    if factors is None:
        raise _no_product(model)
    faiss = import_faiss()
    search, workers = search_of(model, k), thread_count(threads)
    left, right = search.take(*factors)
    lists = part(faiss, right, workers)
    trial, sample = _sample(len(search.query), TRIAL, 0), _sample(len(search.query), SAMPLE, 1)
    probes = _enough_probes(search, left, right, lists, trial, workers)
    started = time.perf_counter()
    search_lists(search, left, right, lists, probes, workers)
    _fill(search, left, right, workers)
    log.info("approximate search: %d of %d lists, %.1f s", probes, len(lists.start) - 1, time.perf_counter() - started)
    best = search.answers()
    first, whole = recall_of(best, search.query[sample], _exact(search, left, right, sample, workers))
    recall = MeasuredRecall(
        first, whole, len(sample), len(search.code), len(lists.start) - 1, probes, faiss.__version__
    )
    _advise(recall)
    return best, recall


def related_recall(model: Model, k: int, typical: TypicalAnswers, *, threads: int | None = None) -> MeasuredRecall:
    """What `related_by_goal` finds of a query's exact answers by the model's own goal."""
    asked = items_asked_for(model)
    queries = asked[_sample(len(asked), SAMPLE, 1)]
    exact = best_by_goal(model, k, queries=queries, threads=threads)[model.parameters.goal]
    found = related_by_goal(model, k, queries, typical, threads=threads)[model.parameters.goal]
    recall = MeasuredRecall(*recall_of(found, queries, exact), len(queries), int((model.item_count > 0).sum()))
    _advise(recall)
    return recall


def _advise(recall: MeasuredRecall) -> None:
    if (advice := better_exact(recall.first, recall.items)) is not None:
        log.warning("%s", advice)


def check_approximate(model: Model) -> None:
    """Say before a fit what would keep this model from an approximate table."""
    if model.knows_related_items():
        return
    if not isinstance(model, CosineModel):
        raise _no_product(model)
    import_faiss()


def _no_product(model: Model) -> ParameterError:
    return must_be(
        "ann",
        "asked of bayes, or of a model whose score is a product of vectors (neat, neat-bpr, item2vec, triple2vec, ...)",
        model.name,
        hint="Without it the table is exact.",
    )


def better_exact(first: float, items: int) -> str | None:
    """Why the exact table would be better; None where the approximate one has its reason."""
    if items < ENOUGH_ITEMS:
        written = "`neatrec train BUNDLE --rewrite-table --exact` writes it"
        return f"for {plural(items, 'item')} the exact table takes minutes at most: {written}"
    if first < ENOUGH_RECALL:
        found = f"only {100 * first:.1f} % of the exact first ten answers were found"
        return f"{found}: `neatrec train BUNDLE --rewrite-table --exact` finds all, if time allows"
    return None


def import_faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        hint = "pip install 'neatrec[ann]'"
        raise MissingDependencyError("an approximate table needs faiss, which cannot be imported", hint=hint) from error
    return faiss


def part(faiss: Any, right: Vectors, threads: int) -> InvertedLists:
    """The items in about 4 sqrt(items) lists by direction; with one thread the same items give the same lists."""
    length = np.linalg.norm(right, axis=1, keepdims=True)
    directions = np.ascontiguousarray(right / np.where(length == 0, 1.0, length), dtype=np.float32)
    count = max(1, min(round(4 * len(right) ** 0.5), len(right) // MIN_ITEMS_PER_LIST))
    with _faiss_threads(faiss, threads):
        means = faiss.Kmeans(
            right.shape[1], count, niter=ROUNDS, spherical=True, seed=1, max_points_per_centroid=OF_A_LIST
        )
        means.train(directions)
        centres = faiss.IndexFlatIP(right.shape[1])
        centres.add(means.centroids)
        nearest = centres.search(directions, 1)[1][:, 0]
    order = np.argsort(nearest, kind="stable").astype(np.int32)
    start = np.concatenate([[0], np.cumsum(np.bincount(nearest, minlength=count))]).astype(np.int64)
    return InvertedLists(centres, start, order)


def search_lists(
    search: TopKSearch, left: Vectors, right: Vectors, lists: InvertedLists, probes: int, threads: int
) -> None:
    """Offer every query the items of its `probes` nearest lists.

    A thread works on a block of queries of its own, list by list, so that the many queries of one list share a matrix
    product and no two threads touch the same query.
    """
    faiss = import_faiss()
    search.best = search.best.astype(np.float32)
    block = max(1, min(BLOCK, -(-len(left) // threads)))

    def work(first: int) -> None:
        faiss.omp_set_num_threads(1)  # of this thread, which ends with the pool
        nearest = lists.centres.search(np.ascontiguousarray(left[first : first + block]), probes)[1].ravel()
        by_list = np.argsort(nearest, kind="stable")
        queries = (first + by_list // probes).astype(np.int64)
        ends = np.cumsum(np.bincount(nearest, minlength=len(lists.start) - 1))
        for number, rows in enumerate(np.split(queries, ends[:-1])):
            places = lists.item[lists.start[number] : lists.start[number + 1]]
            if len(places) and len(rows):
                _offer(search, left, right, rows, places)

    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(0, len(left), block)))


def _offer(search: TopKSearch, left: Vectors, right: Vectors, rows: npt.NDArray[np.int64], places: Codes) -> None:
    items, codes = right[places], search.code[places]
    for first in range(0, len(rows), TILE):
        some = rows[first : first + TILE]
        search.scan(left[some] @ items.T, some, codes)


def _fill(search: TopKSearch, left: Vectors, right: Vectors, threads: int) -> None:
    """Queries whose lists held fewer than k answers are searched exactly, so that no answer is left out for want."""
    short = np.flatnonzero(search.filled < search.k)
    if not len(short):
        return
    exact = search.part(short)
    exact.by_product(left[short], right, threads)
    search.best[short], search.best_item[short], search.filled[short] = exact.best, exact.best_item, exact.filled


def _sample(queries: int, size: int, turn: int) -> npt.NDArray[np.int64]:
    """Places of some of so many queries drawn at random, those of two turns different where there are enough."""
    order = np.random.default_rng(0).permutation(queries)
    chosen = order[TRIAL:] if turn and len(order) >= TRIAL + SAMPLE else order
    return np.sort(chosen[:size])


def _enough_probes(
    search: TopKSearch, left: Vectors, right: Vectors, lists: InvertedLists, trial: npt.NDArray[np.int64], threads: int
) -> int:
    exact = _exact(search, left, right, trial, threads)
    probes, most = FIRST_PROBES, len(lists.start) - 1
    while probes < most:
        some = search.part(trial)
        search_lists(some, left[trial], right, lists, probes, threads)
        if recall_of(some.answers(), search.query[trial], exact)[0] >= TARGET:
            return probes
        probes *= 2
    return most


def _exact(search: TopKSearch, left: Vectors, right: Vectors, places: npt.NDArray[np.int64], threads: int) -> TopK:
    found = search.part(places)
    found.by_product(left[places], right, threads)
    return found.answers()


def recall_of(found: TopK, queries: Codes, exact: TopK) -> tuple[float, float]:
    """Of the exact answers of `queries`, the share that was found: of the first ten, and of all."""
    shares: list[tuple[float, float]] = []
    for query in queries.tolist():
        right = exact.item[exact.start[query] : exact.start[query + 1]]
        have = np.isin(right, found.item[found.start[query] : found.start[query + 1]])
        if len(have):
            shares.append((float(have[:FIRST].mean()), float(have.mean())))
    if not shares:
        return 1.0, 1.0
    first, whole = np.mean(shares, axis=0).tolist()
    return first, whole


@contextmanager
def _faiss_threads(faiss: Any, threads: int) -> Iterator[None]:
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(threads)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
