"""Scores of some queries with every item: row after row, so that what a row needs stays in the cache of a core.

The numbers are those of `scoring` and `ranking` for pairs, in the same order of operations; logarithms of whole rows
are several times as fast as one at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.compiled import compiled
from neatrec.models.bayes.evidence import LIKE_PSEUDO, Evidence
from neatrec.models.bayes.prior import FARTHEST, Weights
from neatrec.models.bayes.ranking import COMPANY_PSEUDO, LEAST_CHANCE, Ranking
from neatrec.models.bayes.ranking import FARTHEST as FARTHEST_ODDS
from neatrec.models.bayes.scoring import Codes, csr_parts, lent, pair_table, sign_factors
from neatrec.models.counts import PairCounts

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.float32]


def rank_rows(evidence: Evidence, weights: Weights, ranking: Ranking | None, queries: Codes) -> Rows:
    """What ranks each query with every item: the odds, or the posterior lift without a ranking, (queries, items)."""
    lift = score_rows(evidence, weights, queries)
    return lift if ranking is None else _odds_rows(evidence, ranking, queries, lift)


def score_rows(evidence: Evidence, weights: Weights, queries: Codes) -> Rows:
    """The posterior mean of each query with every item, shape (queries, items)."""
    prior = _log_prior_rows(evidence, weights, queries)
    counts, near = evidence.counts, evidence.near
    if near is None or not near.records:
        near = counts
    scale = counts.records / max(near.records, 1)
    total, near_total = counts.total.astype(np.float64), near.total.astype(np.float64)
    out = np.empty((len(queries), len(total)), dtype=np.float32)
    for row, query in enumerate(queries.tolist()):
        below = total[query] * total / max(counts.records, 1)
        near_expected = near_total[query] * scale * near_total / max(near.records, 1)
        below += weights.near * (near_expected - below)
        below += weights.k
        above = _counted(counts, near, query, scale, weights.near)
        if prior is not None:
            above += weights.k * np.exp(np.clip(prior[row], -FARTHEST, FARTHEST))
        out[row] = above / below
    return out


def _counted(counts: PairCounts, near: PairCounts, query: int, scale: float, share: float) -> Floats:
    """Times together, a `share` of them counted by near pairs, shape (items,)."""
    all_of_it, close = (_row(matrix, query) for matrix in (counts.matrix, near.matrix))
    return all_of_it + share * (close * scale - all_of_it)


def _row(matrix: Any, query: int) -> Floats:
    out = np.zeros(matrix.shape[1])
    places = slice(matrix.indptr[query], matrix.indptr[query + 1])
    out[matrix.indices[places]] = matrix.data[places]
    return out


def _log_prior_rows(evidence: Evidence, weights: Weights, queries: Codes) -> Floats | None:
    """The logarithm of the prior mean before it is cut off, (queries, items); None without signs."""
    signs = weights.signs
    if signs is None:
        return None
    products = np.zeros((len(queries), len(evidence.category)), dtype=np.float32)
    for left, right in sign_factors(evidence, weights, queries):
        products += left @ right.T
    out: Floats = signs[0] + products.astype(np.float64)
    of_item, category = signs[5] * evidence.popularity.astype(np.float64), evidence.category
    together = _lent_both_ways(evidence, queries)
    for row, query in enumerate(queries.tolist()):
        out[row] += of_item
        out[row] += signs[3] * evidence.category_lift[category[query]].astype(np.float64)[category]
        if together is not None and evidence.like_total is not None:
            chance = evidence.like_total[query] * evidence.like_total / max(evidence.counts.records, 1)
            out[row] -= signs[2] * np.log1p(chance / LIKE_PSEUDO)
            reached = np.flatnonzero(together[row])
            out[row, reached] += signs[2] * np.log1p(together[row, reached].astype(np.float64) / LIKE_PSEUDO)
    return out


def _lent_both_ways(evidence: Evidence, queries: Codes) -> Rows | None:
    """Times together of all that is like the query with all that is like the item; None without likeness."""
    if evidence.like is None or evidence.lends is None:
        return None
    out = np.zeros((len(queries), len(evidence.category)), dtype=np.float32)
    lent_both_ways(queries, csr_parts(evidence.like), csr_parts(evidence.lends), pair_table(evidence.counts), out)
    return out


def _odds_rows(evidence: Evidence, ranking: Ranking, queries: Codes, lift: Rows) -> Rows:
    counts, order, w = evidence.counts, evidence.order, ranking.weights
    # what depends on the item's total alone is worked out once for each total that there is
    totals, which = np.unique(counts.total, return_inverse=True)
    category, first = evidence.category, w[5] * order.first.astype(np.float64)
    cosine = evidence.query_unit(queries) @ evidence.unit.T
    company = np.zeros_like(lift)
    lent_rows(queries, csr_parts(evidence.company), pair_table(counts), company)
    out = np.empty_like(lift)
    for row, query in enumerate(queries.tolist()):
        seen = slice(counts.matrix.indptr[query], counts.matrix.indptr[query + 1])
        items, count = counts.matrix.indices[seen], counts.matrix.data[seen]
        odds = w[0] * np.log(lift[row].astype(np.float64))
        odds += ranking.level + w[4] * evidence.popularity[query] + first[query]
        odds -= first
        odds += w[6] * order.categories[category[query]].astype(np.float64)[category]
        odds += w[3] * cosine[row].astype(np.float64)
        odds += _by_total(evidence, w, query, totals)[which]
        odds[items] += w[2] * np.log1p(count)
        company[row, items] -= count
        reached = np.flatnonzero(company[row] > 0)
        odds[reached] += w[7] * np.log(company[row, reached].astype(np.float64) / COMPANY_PSEUDO + 1.0)
        out[row] = np.exp(np.clip(odds, -FARTHEST_ODDS, FARTHEST_ODDS, out=odds))
    return out


def _by_total(evidence: Evidence, weights: Floats, query: int, totals: npt.NDArray[np.int64]) -> Floats:
    """The hint of chance, and what chance alone gives the query's company, for items of these totals, weighted."""
    total, records = evidence.counts.total[query], float(max(evidence.counts.records, 1))
    others = max(evidence.company_total[query] - total, 0.0) / records
    chance: Floats = weights[1] * np.log(evidence.bought[query] * totals / records + LEAST_CHANCE)
    chance -= weights[7] * np.log(others * totals / COMPANY_PSEUDO + 1.0)
    return chance


@compiled
def lent_rows(queries, like, pairs, out):  # type: ignore[no-untyped-def]
    """`lent` of each query, out: (queries, items), zeros before."""
    for r in range(len(queries)):
        lent(queries[r], like, pairs, out[r])


@compiled
def lent_both_ways(queries, like, lends, pairs, out):  # type: ignore[no-untyped-def]
    """What is like each query lends its counts, what these reach lends them on; out: (queries, items), zeros before.

    `lends` is `like` by the other side: the items that borrow from each one. Most items are not reached at all.
    """
    borrower_start, borrower, likeness = lends
    reached = np.zeros(out.shape[1], dtype=np.float32)
    for r in range(len(queries)):
        lent(queries[r], like, pairs, reached)
        for item in range(len(reached)):
            if reached[item] != 0.0:
                for place in range(borrower_start[item], borrower_start[item + 1]):
                    out[r, borrower[place]] += likeness[place] * reached[item]
                reached[item] = 0.0
