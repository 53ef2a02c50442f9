"""What `bayes-sure` ranks by: the odds that other baskets show a dependence beyond doubt, however small its lift."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from neatrec import statistics
from neatrec.models.bayes.features import PairFeatures
from neatrec.models.bayes.prior import Weights
from neatrec.models.bayes.ranker import HINTS, Ranking, hints, rank_pairs
from neatrec.models.bayes.ranker_training import FIRST, QUERIES, Exercise, Judge
from neatrec.models.bayes.rows import rank_rows
from neatrec.models.bayes.scoring import score_pairs
from neatrec.models.counts import frequent_pairs

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

SURE_HINTS = (*HINTS, "sureness")
"""Those of the ranking, and log(1 + G^2) of the pair, 0 for one that was seen no more often than expected."""
SURENESS = len(HINTS)
DOUBTFUL = 1e-5
"""A pair is dependent beyond doubt when chance alone shows such a count less often than this."""


def dependent_pairs(judge: Judge) -> tuple[Codes, Codes]:
    """Query and item of the pairs bought together, in this order where there is one, more often than chance can do."""
    counts = judge.counts
    # a count of one is no evidence, and there are very many of them
    query, item, count = frequent_pairs(counts.matrix if judge.directed is None else judge.directed, 2)
    chance = counts.expected(counts.total[query], counts.total[item]) * (1.0 if judge.directed is None else 0.5)
    sure = (count > chance) & (special.pdtrc(count - 1, chance) <= DOUBTFUL)
    return query[sure], item[sure]


def sure_exercise(evidence: PairFeatures, judge: Judge, weights: Weights, rng: np.random.Generator) -> Exercise | None:
    """The surest pairs of `evidence` for queries that have dependent pairs in `judge`; None when there are none."""
    strong = dependent_pairs(judge)
    queries = np.unique(strong[0][evidence.counts.total[strong[0]] > 0])
    if len(queries) > QUERIES:
        queries = np.sort(rng.choice(queries, QUERIES, replace=False))
    if not len(queries):
        return None
    found = [_surest(evidence, int(query)) for query in queries]
    asked, items = np.repeat(queries, [len(part) for part in found]), np.concatenate(found)
    return Exercise.of(asked, items, sure_hints(evidence, weights, asked, items), strong, len(evidence.category))


def _surest(evidence: PairFeatures, query: int) -> Codes:
    matrix, total = evidence.counts.matrix, evidence.counts.total
    row = slice(matrix.indptr[query], matrix.indptr[query + 1])
    items: Codes = matrix.indices[row].astype(np.int32)
    g2 = statistics.signed_llr(matrix.data[row], total[query], total[items], evidence.counts.records)
    surest: Codes = items[np.argsort(-g2, kind="stable")[:FIRST]]
    return surest


def sure_hints(evidence: PairFeatures, weights: Weights, queries: Codes, items: Codes) -> Floats:
    """The hints of pairs in the order of `SURE_HINTS`, shape (pairs, hints)."""
    usual = hints(evidence, queries, items, score_pairs(evidence, weights, queries, items))
    return np.column_stack([usual, _sureness(evidence, queries, items, evidence.counts.of_pairs(queries, items))])


def _sureness(evidence: PairFeatures, queries: Any, items: Codes, count: npt.NDArray[Any]) -> Floats:
    """log(1 + G^2) of pairs that were seen `count` times."""
    counts = evidence.counts
    g2 = statistics.signed_llr(count, counts.total[queries], counts.total[items], counts.records)
    return np.log1p(np.maximum(g2, 0.0))


def sure_pairs_odds(
    evidence: PairFeatures, weights: Weights, ranking: Ranking, queries: Codes, items: Codes
) -> npt.NDArray[np.float32]:
    """The odds of each pair, shape (pairs,)."""
    usual, slope = without_sureness(ranking)
    odds = rank_pairs(evidence, weights, usual, queries, items)
    count = evidence.counts.of_pairs(queries, items)
    return np.asarray(odds * np.exp(slope * _sureness(evidence, queries, items, count)), dtype=np.float32)


def sure_rows_odds(
    evidence: PairFeatures,
    weights: Weights,
    ranking: Ranking,
    queries: Codes,
    out: npt.NDArray[np.float32] | None = None,
) -> npt.NDArray[np.float32]:
    """The odds of each query with every item, shape (queries, items)."""
    usual, slope = without_sureness(ranking)
    odds = rank_rows(evidence, weights, usual, queries, out)
    rows = evidence.counts.matrix[queries]
    row = np.repeat(np.arange(len(queries)), np.diff(rows.indptr))
    items = rows.indices.astype(np.int32)
    odds[row, items] *= np.exp(slope * _sureness(evidence, queries[row], items, rows.data)).astype(np.float32)
    return odds


def without_sureness(ranking: Ranking) -> tuple[Ranking, float]:
    """The ranking by the other hints, and the weight of sureness."""
    return Ranking(ranking.level, ranking.weights[:SURENESS]), float(ranking.weights[SURENESS])
