"""Weights learned by practice: evidence of one part of the baskets has to find the strong pairs of another part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec import statistics
from neatrec.compiled import compiled
from neatrec.data.catalog import UNKNOWN
from neatrec.models.bayes.features import Block, PairFeatures
from neatrec.models.bayes.prior import START, Weights
from neatrec.models.counts import PairCounts
from neatrec.models.parallel import parallel_slices
from neatrec.models.tuned_lift import STRENGTHS, TOP, strong_pairs

QUERIES = 500
"""More queries than this are sampled: the weights do not get better, only slower."""
CANDIDATES = 600
"""Items that compete for each query: the best by the weights the search starts from."""
STEPS = (0.5, 0.25, 0.12)
SHARE_STEP = 0.4
"""The share of near pairs moves by this part of a step."""
PENALTY = 1e-4
"""For each squared weight: of two equally good priors the flatter one."""

TIMID = -1.5
"""The level of a prior that hardly counts."""

Array = npt.NDArray[Any]
COLUMNS = ("count", "expected", "near_count", "near_expected", "signs")


@dataclass(frozen=True)
class Practice:
    """Pairs that compete, query after query, and which of them turned out strong."""

    start: npt.NDArray[np.int64]
    """Where each query's pairs start, and the end of all."""
    count: Array
    expected: Array
    near_count: Array
    near_expected: Array
    signs: Array
    strong: npt.NDArray[np.int64]
    """Where the strong pairs stand, ascending."""
    weight: npt.NDArray[np.float64]
    """What each of them counts: the root of its G^2, so that the surest count most without drowning the others."""

    def value(self, weights: Weights) -> float:
        """Weighted mean, over the strong pairs, of hit among the first ten plus 1 / log2(1 + rank) of a hit."""
        higher = higher_ranked(weights.score(self), self.start, self.strong)
        return float((self.weight * gains(higher)).sum() / self.weight.sum())

    @property
    def queries(self) -> int:
        return len(self.start) - 1

    def of_queries(self, chosen: npt.NDArray[np.bool_]) -> Practice:
        """The practice of some of the queries, a mask over them."""
        sizes = np.diff(self.start)
        kept = np.repeat(chosen, sizes)
        place = np.cumsum(kept) - 1
        mine = kept[self.strong]
        start = np.concatenate([[0], np.cumsum(sizes[chosen])]).astype(np.int64)
        columns = {name: getattr(self, name)[kept] for name in COLUMNS}
        return Practice(start=start, strong=place[self.strong[mine]], weight=self.weight[mine], **columns)

    @classmethod
    def joined(cls, parts: Sequence[Practice]) -> Practice:
        """All practice of several parts."""
        offsets = np.cumsum([0, *(int(part.start[-1]) for part in parts)])
        columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in (*COLUMNS, "weight")}
        starts = [part.start[:-1] + offset for part, offset in zip(parts, offsets, strict=False)]
        strong = [part.strong + offset for part, offset in zip(parts, offsets, strict=False)]
        return cls(start=np.concatenate([*starts, offsets[-1:]]), strong=np.concatenate(strong), **columns)


def gains(higher: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """1 + 1 / log2(1 + rank) for a rank among the first ten, else 0; `higher` is how many stand above."""
    return np.where(higher < TOP, 1.0 + 1.0 / np.log2(2.0 + higher), 0.0)


@compiled
def higher_ranked(score, start, strong):  # type: ignore[no-untyped-def]
    """For each place in `strong` (ascending), how many pairs of its query score higher, int64."""
    out = np.zeros(len(strong), dtype=np.int64)
    query = 0
    for number in range(len(strong)):
        while start[query + 1] <= strong[number]:
            query += 1
        mine = score[strong[number]]
        for place in range(start[query], start[query + 1]):
            out[number] += score[place] > mine
    return out


def practise(
    evidence: PairFeatures,
    judge: PairCounts,
    category: npt.NDArray[np.int32],
    strong_lift: float,
    rng: np.random.Generator,
    block: int,
) -> Practice | None:
    """The strong pairs of `judge` among the candidates that `evidence` offers; None when there are none."""
    query, item = strong_pairs(judge, strong_lift)
    total = evidence.counts.total
    known = (total[query] > 0) & (total[item] > 0)
    query, item = query[known], item[known]
    queries = np.unique(query)
    if not len(queries):
        return None
    if len(queries) > QUERIES:
        queries = np.sort(rng.choice(queries, QUERIES, replace=False))
    partners = {q: item[query == q] for q in queries.tolist()}
    chosen = list(_scanned(evidence, category, partners, block))
    columns = {name: np.concatenate([part[place] for part in chosen]) for place, name in enumerate(COLUMNS, start=1)}
    strong = np.concatenate([np.isin(part[0], mine) for part, mine in zip(chosen, partners.values(), strict=True)])
    sure = [_sureness(judge, q, part[0]) for q, part in zip(partners, chosen, strict=True)]
    places = np.flatnonzero(strong)
    start = np.concatenate([[0], np.cumsum([len(part[0]) for part in chosen])]).astype(np.int64)
    return Practice(start=start, strong=places, weight=np.concatenate(sure)[places], **columns)


def _scanned(
    evidence: PairFeatures, category: npt.NDArray[np.int32], partners: dict[int, Array], block: int
) -> Iterator[tuple[Array, ...]]:
    """For each query the items that compete, and their `COLUMNS`."""
    queries = np.array(list(partners))
    for first in range(0, len(queries), block):
        some = queries[first : first + block]
        rows = evidence.rows(some)
        score = np.where(allowed(evidence, category, some), START.score(rows), -np.inf)
        for row, q in enumerate(some.tolist()):
            chosen = np.union1d(_best(score[row], CANDIDATES), partners[q])
            yield chosen, *_columns(rows, row, chosen)


def allowed(
    evidence: PairFeatures, category: npt.NDArray[np.int32], queries: npt.NDArray[np.integer[Any]]
) -> npt.NDArray[np.bool_]:
    """Which items may answer which query: bought, of another category, another item, shape (queries, items)."""
    of_query = category[queries][:, None]
    out: npt.NDArray[np.bool_] = (evidence.counts.total > 0) & ((of_query != category) | (of_query == UNKNOWN))
    out[np.arange(len(queries)), queries] = False
    return out


def _best(score: Array, most: int) -> Array:
    """Places of the `most` highest scores above minus infinity, in any order."""
    chosen = np.argpartition(-score, most)[:most] if len(score) > most else np.arange(len(score))
    return chosen[np.isfinite(score[chosen])]


def _columns(rows: Block, row: int, chosen: Array) -> tuple[Array, ...]:
    return tuple(getattr(rows, name)[row, chosen] for name in COLUMNS)


def _sureness(judge: PairCounts, query: int, items: Array) -> npt.NDArray[np.float64]:
    """The root of the pairs' G^2 in the judging baskets; 0 for pairs seen less often than expected."""
    count = judge.of_pairs(np.full(len(items), query, dtype=np.int32), items.astype(np.int32))
    g2 = statistics.signed_llr(count, judge.total[query], judge.total[items], judge.records)
    return np.sqrt(np.maximum(g2, 0.0))


def best_strength(practice: Practice) -> tuple[Weights, float]:
    """Shrunk lift with the strength that does best, and how well it does."""
    tried = [Weights(k, 0.0, None) for k in STRENGTHS]
    values = [practice.value(weights) for weights in tried]
    best = int(np.argmax(values))
    return tried[best], values[best]


def search(practice: Practice, signs: npt.NDArray[np.bool_], *, near: bool) -> tuple[Weights, float]:
    """The weights that do best, found coordinate by coordinate with shrinking steps, and how well they do.

    The search begins twice: with a prior of moderate weights, and near shrunk lift with its best strength. `signs`:
    which signs there are; the others keep the weight 0. Without `near` the share of near pairs stays 0.
    """
    begin = _point_of(START) * np.concatenate([[1, near], signs])
    timid = begin.copy()
    timid[0], timid[2] = np.log(best_strength(practice)[0].k), TIMID
    free = np.flatnonzero(np.concatenate([[True, near], signs]))
    found: dict[int, tuple[Weights, float]] = {}

    def work(part: slice) -> None:
        for number in range(part.start, part.stop):
            found[number] = _climbed(practice, (begin, timid)[number], free)

    parallel_slices(2, work)
    return max((found[0], found[1]), key=lambda end: end[1])


def _climbed(practice: Practice, point: npt.NDArray[np.float64], free: npt.NDArray[np.int64]) -> tuple[Weights, float]:
    """Weights where no further step along one of the `free` coordinates helps, and what they are worth."""

    def worth(values: npt.NDArray[np.float64]) -> float:
        return practice.value(_weights_at(values)) - PENALTY * float(np.square(values[2:]).sum())

    best = worth(point)
    for step in STEPS:
        for _ in range(3):
            before = best
            for coordinate in free.tolist():
                point, best = _try_both_ways(worth, point, best, coordinate, step)
            if best == before:
                break
    return _weights_at(point), best


def _point_of(weights: Weights) -> npt.NDArray[np.float64]:
    """log k, share of near pairs, level, weights of the other signs."""
    point = weights.to_array()
    point[0] = np.log(point[0])
    return point


def _weights_at(point: npt.NDArray[np.float64]) -> Weights:
    return Weights(float(np.exp(point[0])), float(point[1]), point[2:].copy())


def _try_both_ways(
    worth: Any, point: npt.NDArray[np.float64], best: float, coordinate: int, step: float
) -> tuple[npt.NDArray[np.float64], float]:
    """The first of one step up and one step down that is better than `point`, else `point` itself."""
    for way in (step, -step):
        other = point.copy()
        other[coordinate] += way * (SHARE_STEP if coordinate == 1 else 1.0)
        other[1] = min(max(other[1], 0.0), 1.0)
        # likeness, categories and words speak for a pair or say nothing; only level and item may go below 0
        other[3:-1] = np.maximum(other[3:-1], 0.0)
        value = worth(other)
        if value > best:
            return other, value
    return point, best
