"""The best K of every item, exactly: tiles of a matrix product, or blocks of `score_all`, and a compiled scan."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from neatrec.compiled import compiled, offer_best, sort_best
from neatrec.cooccurrence.resources import thread_count
from neatrec.errors import DivergedError, require_whole
from neatrec.models.base import Model
from neatrec.models.counts import CountModel
from neatrec.models.embeddings.kernels.dispatch import ranking_device
from neatrec.models.parallel import thread_limit
from neatrec.models.vectors import CosineModel
from neatrec.statistics.blas import one_blas_thread
from neatrec.statistics.independence import groups_of

CHUNK = 16
"""Scores looked at together: mostly none of them is among the best, and one comparison shows it."""


class SearchSpace(NamedTuple):
    """What is searched for."""

    query: npt.NDArray[np.int32]
    """Codes of the items to answer for, shape (queries,)."""
    group: npt.NDArray[np.int32]
    """Items of one group are no answers to each other, shape (items,)."""
    min_score: Any
    """Only higher scores are kept; of the type of the scores."""


class Heaps(NamedTuple):
    """The best so far of every query."""

    score: npt.NDArray[Any]
    """shape (queries, k)"""
    item: npt.NDArray[np.int32]
    filled: npt.NDArray[np.int64]
    """How many of each heap are in use, shape (queries,)."""


@compiled(fastmath={"nnan", "nsz", "reassoc"})
def keep_best(scores, places, code, space, heaps):
    """Offer the scores (rows, columns) of the queries `space.query[places[row]]` and the items `code[column]` to the
    heaps. Items of the query's own group, and scores that are not above `min_score`, are left out.
    """
    rows, columns = scores.shape
    whole = columns // CHUNK * CHUNK
    for row in range(rows):
        me = places[row]
        mine = space.group[space.query[me]]
        limit = _limit(heaps, me, space.min_score)
        for begin in range(0, whole, CHUNK):
            highest = scores[row, begin]
            for step in range(1, CHUNK):
                highest = max(highest, scores[row, begin + step])
            if highest >= limit:
                for column in range(begin, begin + CHUNK):
                    if scores[row, column] >= limit and space.group[code[column]] != mine:
                        limit = _offer(heaps, me, scores[row, column], code[column], space.min_score)
        for column in range(whole, columns):
            if scores[row, column] >= limit and space.group[code[column]] != mine:
                limit = _offer(heaps, me, scores[row, column], code[column], space.min_score)


@compiled(fastmath={"nnan", "nsz", "reassoc"})
def keep_best_down(scores, first, code, space, heaps):
    """As `keep_best` with the two sides changed: a column is the query `space.query[first + column]`, a row the item
    `code[row]`. The other half of a symmetric product needs no product of its own.
    """
    rows, columns = scores.shape
    whole = columns // CHUNK * CHUNK
    limit = np.empty(columns, dtype=scores.dtype)
    for column in range(columns):
        limit[column] = _limit(heaps, first + column, space.min_score)
    for row in range(rows):
        item = code[row]
        its = space.group[item]
        for begin in range(0, whole, CHUNK):
            highest = scores[row, begin] - limit[begin]
            for step in range(1, CHUNK):
                highest = max(highest, scores[row, begin + step] - limit[begin + step])
            if highest >= 0:
                for column in range(begin, begin + CHUNK):
                    me = first + column
                    if scores[row, column] >= limit[column] and space.group[space.query[me]] != its:
                        limit[column] = _offer(heaps, me, scores[row, column], item, space.min_score)
        for column in range(whole, columns):
            me = first + column
            if scores[row, column] >= limit[column] and space.group[space.query[me]] != its:
                limit[column] = _offer(heaps, me, scores[row, column], item, space.min_score)


@compiled
def keep_best_of_lists(start, scores, items, first, space, heaps):
    """As `keep_best`, for queries that are scored with items of their own: `start[row]:start[row + 1]` are those of
    `space.query[first + row]` in `scores` and `items`.
    """
    for row in range(len(start) - 1):
        me = first + row
        mine = space.group[space.query[me]]
        limit = _limit(heaps, me, space.min_score)
        for place in range(start[row], start[row + 1]):
            if scores[place] >= limit and space.group[items[place]] != mine:
                limit = _offer(heaps, me, scores[place], items[place], space.min_score)


@compiled
def put_in_order(heaps):
    """Turn each heap into a list, best first."""
    for me in range(len(heaps.filled)):
        sort_best(heaps.score[me], heaps.item[me], heaps.filled[me])


@compiled
def _offer(heaps, me, score, item, min_score):
    """Put (score, item) into the heap of a query if it is among the best; the least score the next one must have."""
    if score > min_score:
        heaps.filled[me] = offer_best(heaps.score[me], heaps.item[me], heaps.filled[me], score, item)
    return _limit(heaps, me, min_score)


@compiled
def _limit(heaps, me, min_score):
    return heaps.score[me, 0] if heaps.filled[me] == heaps.score.shape[1] else min_score


TILE = 512
"""Queries and items of a tile: 1 MiB of scores, which stay in the cache of a core."""
RELATED_QUERIES = 1024
"""Queries that are compared with what is related to them at once."""
MOST_CATEGORIES, SPARE = 1000, 3
"""Categories of which a typical item is compared with all items; how many times k of its best are looked at."""
BLOCK_NUMBERS = 4_000_000
"""Scores that a model is asked for at once: 32 MB."""

Codes = npt.NDArray[np.int32]
Vectors = npt.NDArray[np.float32]

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class TopK:
    """The answers of all items, one item after the other, best first."""

    start: npt.NDArray[np.int64]
    """Where the answers of each item start, shape (items + 1,)."""
    item: Codes
    score: npt.NDArray[np.float32]

    @property
    def query(self) -> Codes:
        """The item that each answer belongs to."""
        return np.repeat(np.arange(len(self.start) - 1, dtype=np.int32), np.diff(self.start))


def best_answers(model: Model, k: int, *, threads: int | None = None, device: str = "cpu") -> TopK:
    """What `model.rank(item, k)` answers for every item. Never items x items numbers at once.

    A GPU (`device` gpu, or auto where there is one) finds them for models whose score is a product of vectors.
    """
    search = search_of(model, k)
    factors, workers = product_factors(model), thread_count(threads)
    where = ranking_device(model.name, device, product=factors is not None, top=search.k)
    if device == "auto" and where == "gpu":
        log.info("the serving table is made on the GPU")
    if factors is not None and where == "gpu":
        search.by_gpu(*factors)
    elif factors is not None:
        search.by_product(*search.take(*factors), workers)
    elif isinstance(model, CountModel) and model.min_score >= 0:
        search.by_seen_pairs(model)
    else:
        scan_blocks({"": search}, lambda queries: {"": model.score_all(queries)}, workers)
    return search.answers()


def best_by_goal(model: Model, k: int, *, threads: int | None = None, queries: Codes | None = None) -> dict[str, TopK]:
    """`best_answers` for each goal of a model, of all items or of some: what goals share is scored once."""
    searches = searches_by_goal(model, k, queries)
    scan_blocks(searches, model.score_goals, thread_count(threads))
    return {goal: search.answers() for goal, search in searches.items()}


@dataclass(frozen=True, eq=False)
class TypicalAnswers:
    """The best of a typical item of each category: those of any item where little was bought with it."""

    list_of: Codes
    """The list of each item, shape (items,)."""
    lists: sparse.csr_matrix
    """Ones where an item is in a list, shape (lists, items)."""

    @classmethod
    def of(cls, model: Model, k: int, *, threads: int | None = None) -> TypicalAnswers:
        """By every goal, of the item with the median number of purchases; small categories of very many share a list
        with the items without category."""
        category, sold = model.catalog.category_of(model.category_level), np.flatnonzero(model.item_count > 0)
        sold = sold[np.argsort(model.item_count[sold], kind="stable")]
        size = np.bincount(category[sold] + 1, minlength=int(category.max(initial=-1)) + 2)
        largest = np.argsort(-size[1:], kind="stable")[:MOST_CATEGORIES]
        largest = largest[size[1:][largest] > 0]
        members = [sold, *(sold[category[sold] == code] for code in largest)]
        typical = np.array([of_list[len(of_list) // 2] for of_list in members], dtype=np.int32)
        found = best_by_goal(model, SPARE * k, threads=threads, queries=np.unique(typical)).values()
        best = ([top.item[top.start[query] : top.start[query + 1]] for top in found] for query in typical)
        items = [np.unique(np.concatenate(by_goal)) for by_goal in best]
        start = np.concatenate([[0], np.cumsum([len(of_list) for of_list in items])])
        shape = (len(items), len(model.catalog))
        lists = sparse.csr_matrix((np.ones(start[-1], dtype=np.int8), np.concatenate(items), start), shape=shape)
        number = np.zeros(len(size), dtype=np.int32)
        number[largest] = np.arange(1, len(largest) + 1)
        return cls(number[category], lists)  # -1, no category, is the last number, which stays 0

    def added_to(
        self, queries: Codes, start: npt.NDArray[np.int64], items: Codes
    ) -> tuple[npt.NDArray[np.int64], Codes]:
        """Lists of items, those of each query from start[row] to start[row + 1], with the typical ones, each once."""
        numbers, stamp = self.list_of[queries], np.full(self.lists.shape[1], -1, dtype=np.int32)
        every = np.empty(len(items) + int(np.diff(self.lists.indptr)[numbers].sum()), dtype=np.int32)
        ends = np.zeros(len(queries) + 1, dtype=np.int64)
        items = np.array(items, dtype=np.int32)  # compiled for one type
        unite_lists((start, items), (self.lists.indptr, self.lists.indices), numbers, stamp, ends, every)
        return ends, every[: ends[-1]]


@compiled
def unite_lists(rows, lists, numbers, stamp, ends, out):
    """Fill `out` with the items of each row and those of the list with its number, each once; ends: where rows end.

    rows, lists: where each starts, and the items. stamp: -1 for each item.
    """
    (start, items), (list_start, list_items), n = rows, lists, 0
    for row in range(len(numbers)):
        first, last = list_start[numbers[row]], list_start[numbers[row] + 1]
        for part in (items[start[row] : start[row + 1]], list_items[first:last]):
            for item in part:
                if stamp[item] != row:
                    stamp[item] = row
                    out[n] = item
                    n += 1
        ends[row + 1] = n


def related_by_goal(
    model: Model, k: int, queries: Codes, typical: TypicalAnswers, *, threads: int | None = None
) -> dict[str, TopK]:
    """As `best_by_goal`, from the `related_items` of each query and the `typical` answers of its category."""
    searches = searches_by_goal(model, k, queries)
    asked = np.unique(np.concatenate([search.query for search in searches.values()]))
    with thread_limit(thread_count(threads)), one_blas_thread():
        for first in range(0, len(asked), RELATED_QUERIES):
            block = asked[first : first + RELATED_QUERIES]
            start, items = typical.added_to(block, *model.related_items(block))
            scores = model.score_pairs_by_goal(np.repeat(block, np.diff(start)), items)
            for goal, search in searches.items():
                search.offer_lists(block, start, np.asarray(scores[goal], dtype=np.float64), items)
    return {goal: search.answers() for goal, search in searches.items()}


def searches_by_goal(model: Model, k: int, queries: Codes | None) -> dict[str, TopKSearch]:
    """A search for each goal, for all queries or for some of them."""
    return {goal: search_of(model.with_goal(goal), k, queries) for goal in model.goals}


def items_asked_for(model: Model) -> Codes:
    """The items that `model` has answers for, ascending."""
    asked = np.ones(len(model.catalog), dtype=bool) if model.scores_unseen_items else model.item_count > 0
    return np.flatnonzero(asked).astype(np.int32)


def search_of(model: Model, k: int, queries: Codes | None = None) -> TopKSearch:
    """A search for what `model` may answer, to all queries or to some of them, nothing found yet."""
    asked = items_asked_for(model)
    return TopKSearch(
        query=asked if queries is None else np.intersect1d(asked, queries),
        code=np.flatnonzero(model.item_count > 0).astype(np.int32),
        group=groups_of(model.catalog.category_of(model.category_level)).astype(np.int32),
        k=require_whole("k", k),
        min_score=model.min_score,
    )


def product_factors(model: Model) -> tuple[Vectors, Vectors] | None:
    """(left, right) with score_all(q) = left[q] @ right.T, each of shape (items, dim); None where it is no product."""
    return model.factors() if isinstance(model, CosineModel) else None


class TopKSearch:
    """The best so far of every query.

    `query` and `code` are the items to answer for and those to answer with, ascending; items of one `group` (items,)
    are no answers to each other.
    """

    def __init__(self, query: Codes, code: Codes, group: Codes, k: int, min_score: float) -> None:
        self.query, self.code, self.group, self.min_score = query, code, group, min_score
        self.k = max(1, min(k, len(code)))
        # zeros take memory once they are written
        self.best_item = np.zeros((len(query), self.k), dtype=np.int32)
        self.filled = np.zeros(len(query), dtype=np.int64)
        self.best: npt.NDArray[Any] = np.zeros((len(query), self.k), dtype=np.float64)

    def take(self, left: Vectors, right: Vectors) -> tuple[Vectors, Vectors]:
        """The rows of the queries and of the items, of factors with a row for every item; one array where they are."""
        both = left is right and np.array_equal(self.query, self.code)
        queries = np.ascontiguousarray(left[self.query])
        items = queries if both else np.ascontiguousarray(right[self.code])
        _refuse_nan(queries, items)
        return queries, items

    def part(self, places: npt.NDArray[np.int64]) -> TopKSearch:
        """The same search for some of the queries, nothing found yet."""
        return TopKSearch(self.query[places], self.code, self.group, self.k, self.min_score)

    def by_product(self, left: Vectors, right: Vectors, threads: int) -> None:
        """left @ right.T (queries, items), tile by tile; where both are one array, a tile serves both of its sides.

        One Python thread a core, each with a matrix product of one thread: two pools would fight for the cores.
        """
        both = left is right
        self.best = self.best.astype(np.float32)
        busy = [threading.Lock() for _ in range(0, len(left), TILE)]
        own = threading.local()

        def work(tile: tuple[int, int]) -> None:
            row, column = tile[0] * TILE, tile[1] * TILE
            one, other = left[row : row + TILE], right[column : column + TILE]
            if not hasattr(own, "tile"):
                own.tile = np.empty(TILE * TILE, dtype=np.float32)
            scores = own.tile[: len(one) * len(other)].reshape(len(one), len(other))
            np.matmul(one, other.T, out=scores)
            with busy[tile[0]]:
                self.scan(scores, np.arange(row, row + len(one)), self.code[column : column + TILE])
            if both and row != column:
                with busy[tile[1]]:
                    keep_best_down(scores, column, self.code[row : row + TILE], self.space(scores), self.heaps)

        with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, _tiles(len(left), len(right), half=both)))

    def by_gpu(self, left: Vectors, right: Vectors) -> None:
        """left @ right.T on a GPU, in blocks; factors with a row for every item, as a model has them."""
        from neatrec.models.embeddings.kernels.gpu_ranking import Ranker

        _refuse_nan(left[self.query], right[self.code])
        sold = np.zeros(len(self.group), dtype=bool)
        sold[self.code] = True
        ranker = Ranker(left, None if left is right else right)
        found = ranker.catalogue(self.query, sold, self.group, top=self.k)  # best first
        self.filled[:] = ((found.best >= 0) & (found.scores > self.min_score)).sum(axis=1)
        worst_first = np.maximum(self.filled[:, None] - 1 - np.arange(self.k), 0)  # which makes a heap of each row
        self.best_item[:] = np.take_along_axis(found.best, worst_first, axis=1)
        self.best = np.take_along_axis(found.scores, worst_first, axis=1)

    def by_seen_pairs(self, model: CountModel) -> None:
        """Only seen pairs score above the minimum score of a model of counts: the others are not looked at."""
        matrix = model.counts.matrix
        length = np.diff(matrix.indptr)[self.query].astype(np.int64)
        # as many queries at once as have about BLOCK_NUMBERS pairs
        block = np.cumsum(length) // BLOCK_NUMBERS
        for number in np.unique(block):
            chosen = np.flatnonzero(block == number)
            rows = matrix[self.query[chosen]]
            items = rows.indices.astype(np.int32)
            scores = model.score(np.repeat(self.query[chosen], np.diff(rows.indptr)), items)
            start = rows.indptr.astype(np.int64)
            keep_best_of_lists(start, scores, items, int(chosen[0]), self.space(scores), self.heaps)

    def offer_lists(self, queries: Codes, start: npt.NDArray[np.int64], scores: npt.NDArray[Any], items: Codes) -> None:
        """Offer queries one after the other of all that are asked, scores with items of their own."""
        mine = np.isin(queries, self.query)  # an item never bought has answers by some goals only
        if not mine.all():
            length = np.diff(start)
            chosen = np.repeat(mine, length)
            scores, items = scores[chosen], items[chosen]
            queries, start = queries[mine], np.concatenate([[0], np.cumsum(length[mine])])
        if len(queries):
            first = int(np.searchsorted(self.query, queries[0]))
            keep_best_of_lists(start, scores, items, first, self.space(scores), self.heaps)

    def scan(self, scores: npt.NDArray[Any], rows: npt.NDArray[np.int64], code: Codes) -> None:
        """Offer the scores (rows, codes) of the queries at the places `rows`."""
        keep_best(scores, rows, code, self.space(scores), self.heaps)

    def space(self, scores: npt.NDArray[Any]) -> SearchSpace:
        """What is searched for, in the number type of these scores."""
        return SearchSpace(self.query, self.group, scores.dtype.type(self.min_score))

    @property
    def heaps(self) -> Heaps:
        return Heaps(self.best, self.best_item, self.filled)

    def answers(self) -> TopK:
        put_in_order(self.heaps)
        found = np.zeros(len(self.group), dtype=np.int64)
        found[self.query] = self.filled
        chosen = np.arange(self.k)[None] < self.filled[:, None]  # (queries, k)
        start = np.concatenate([[0], np.cumsum(found)]).astype(np.int64)
        return TopK(start, self.best_item[chosen], self.best[chosen].astype(np.float32))


def scan_blocks(
    searches: Mapping[str, TopKSearch], score: Callable[[Codes], Mapping[str, npt.NDArray[Any]]], threads: int
) -> None:
    """Offer each search its scores (queries, items), which `score` computes for all of them, some queries at a time."""
    queries = np.unique(np.concatenate([search.query for search in searches.values()]))
    group = max((search.group for search in searches.values()), key=len)
    queries = queries[np.argsort(group[queries], kind="stable")]  # items of a category have stand-ins in common
    items = len(group)
    size = max(1, BLOCK_NUMBERS // max(items * len(searches), 1))

    def work(first: int) -> None:
        block = queries[first : first + size]
        with thread_limit(1):
            scores = score(block)
        for name, search in searches.items():
            asked = np.isin(block, search.query)  # an item never bought has answers by some goals only
            rows = np.searchsorted(search.query, block[asked])
            mine = scores[name] if asked.all() else scores[name][asked]
            search.scan(np.ascontiguousarray(mine[:, search.code], dtype=np.float64), rows, search.code)

    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(0, len(queries), size)))


def _refuse_nan(queries: Vectors, items: Vectors) -> None:
    if not (np.isfinite(queries).all() and np.isfinite(items).all()):
        raise DivergedError("the model has vectors that are not numbers", hint="Train it again.")


def _tiles(rows: int, columns: int, *, half: bool) -> list[tuple[int, int]]:
    """All tiles of a product, or one half and the diagonal; neighbours in the list share no row where that can be."""
    down, across = -(-rows // TILE), -(-columns // TILE)
    return [
        (row, (row + step) % across) for step in range(across) for row in range(down) if not half or row + step < across
    ]
