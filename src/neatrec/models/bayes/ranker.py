"""`Ranking`: the odds that a pair turns out surely strong in as many new baskets, by which `bayes` ranks.

A lift says how much more often than by chance two items are bought together; whether new baskets show it for sure also
depends on how often they are bought at all, on which of them goes into the cart first, and on how alike the company is
that they keep. A logistic regression on held-out baskets weighs these hints against the posterior lift.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.compiled import compiled
from neatrec.models.bayes.features import PairFeatures
from neatrec.models.bayes.prior import Weights
from neatrec.models.bayes.scoring import add_products, by_query, csr_parts, lent, pair_table, score_pairs
from neatrec.models.parallel import parallel_slices

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

HINTS = ("lift", "chance", "times", "cosine", "query", "item order", "category order", "company")
"""log posterior lift, log E, log(1 + C), cosine of the low-rank vectors, how often the query is bought, who comes first
by item and by category, log-lift of the item with those that keep like company as the query, without the query."""
COMPANY_PSEUDO = 1.0
MIN_ROWS_PER_THREAD = 16
"""Queries for which a thread is worth starting."""
LEAST_CHANCE = 0.02
"""Added to E before its logarithm."""
FARTHEST = 60.0
"""Log-odds are cut off here: further out float32 cannot tell them from 0."""


@dataclass(frozen=True)
class Ranking:
    """log-odds = level + hints . weights."""

    level: float
    weights: Floats
    """In the order of `HINTS`."""

    def to_array(self) -> Floats:
        return np.concatenate([[self.level], self.weights])

    @classmethod
    def from_array(cls, values: Floats) -> Ranking | None:
        """None for an empty array: the posterior lift ranks."""
        return cls(float(values[0]), values[1:]) if len(values) else None


def rank_pairs(
    evidence: PairFeatures, weights: Weights, ranking: Ranking | None, queries: Codes, items: Codes
) -> npt.NDArray[np.float32]:
    """What ranks each pair: the odds, or the posterior lift without a ranking, shape (pairs,)."""
    if ranking is None:
        return score_pairs(evidence, weights, queries, items)
    order, asked, offsets = by_query(queries)
    pairs = queries[order], items[order]
    out = np.empty(len(queries), dtype=np.float32)
    lift, cosine = score_pairs(evidence, weights, *pairs), cosines(evidence, *pairs)
    out[order] = _odds(evidence, ranking, asked, offsets, pairs[1], lift, cosine)
    return out


def hints(evidence: PairFeatures, queries: Codes, items: Codes, lift: npt.NDArray[Any]) -> Floats:
    """The hints of pairs whose posterior lift is `lift`, shape (pairs, hints)."""
    counts, company = evidence.counts, evidence.company_total
    count, total = counts.of_pairs(queries, items), counts.total[items]
    together = _with_company(evidence, queries, items) - count
    chance = counts.expected(company[queries] - counts.total[queries], total)
    columns = (
        np.log(lift),
        np.log(counts.expected(evidence.bought[queries], total) + LEAST_CHANCE),
        np.log1p(count),
        cosines(evidence, queries, items),
        evidence.popularity[queries],
        *evidence.order.of_pairs(queries, items, evidence.category),
        np.log((np.maximum(together, 0.0) + COMPANY_PSEUDO) / (np.maximum(chance, 0.0) + COMPANY_PSEUDO)),
    )
    return np.stack(columns, axis=1).astype(np.float64)


def _with_company(evidence: PairFeatures, queries: Codes, items: Codes) -> Floats:
    """Times together of what keeps like company as each query, itself included, and the item, shape (pairs,)."""
    order, asked, offsets = by_query(queries)
    tables, chosen = (csr_parts(evidence.company), pair_table(evidence.counts)), items[order]
    found = np.empty(len(queries))

    def work(part: slice) -> None:
        own = offsets[part.start : part.stop + 1]
        lent_to_pairs(asked[part], own, chosen, *tables, found)

    parallel_slices(len(asked), work, min_rows=MIN_ROWS_PER_THREAD)
    out = np.empty_like(found)
    out[order] = found
    return out


@compiled
def lent_to_pairs(queries, offsets, items, like, pairs, out):  # type: ignore[no-untyped-def]
    """What `lent` brings to the items of each query, from offsets[r] to offsets[r + 1] of `items` and `out`."""
    reached = np.zeros(len(like[0]) - 1)
    for r in range(len(queries)):
        reached[:] = 0.0
        lent(queries[r], like, pairs, reached)
        for pair in range(offsets[r], offsets[r + 1]):
            out[pair] = reached[items[pair]]


def cosines(evidence: PairFeatures, queries: Codes, items: Codes) -> npt.NDArray[np.float32]:
    """The cosine of the low-rank vectors of each pair, shape (pairs,)."""
    order, asked, offsets = by_query(queries)
    found = np.zeros(len(queries), dtype=np.float32)
    add_products(evidence.query_unit(asked), evidence.unit, offsets, items[order], found)
    out = np.empty_like(found)
    out[order] = found
    return out


def _odds(
    evidence: PairFeatures,
    ranking: Ranking,
    queries: Codes,
    offsets: npt.NDArray[np.int64],
    items: Codes,
    lift: npt.NDArray[np.float32],
    cosine: npt.NDArray[np.float32],
) -> npt.NDArray[np.float32]:
    out = np.empty(len(items), dtype=np.float32)
    order = evidence.order
    of_items = evidence.company_total, evidence.bought
    sides = evidence.popularity, order.first, evidence.category, order.categories, *of_items
    numbers = ranking.level, ranking.weights, LEAST_CHANCE, COMPANY_PSEUDO, FARTHEST
    tables = pair_table(evidence.counts), csr_parts(evidence.company)
    odds_of_hints(queries, offsets, items, lift, cosine, tables, sides, numbers, out)
    return out


@compiled
def odds_of_hints(queries, offsets, items, lift, cosine, tables, sides, numbers, out):  # type: ignore[no-untyped-def]
    """exp(level + hints . weights) for the items of each query, from offsets[r] to offsets[r + 1] of `items`."""
    pairs, company = tables
    start, item, count, total, records = pairs
    popularity, first, category, categories, company_total, bought = sides
    level, w, least, pseudo, farthest = numbers
    mine, reached = np.zeros(len(category)), np.zeros(len(category), dtype=np.float32)
    for r in range(len(queries)):
        q = queries[r]
        reached[:] = 0.0
        lent(q, company, pairs, reached)
        for place in range(start[q], start[q + 1]):
            mine[item[place]] = count[place]
        of_query = level + w[4] * popularity[q] + w[5] * first[q]
        others = max(company_total[q] - total[q], 0.0) / records
        for pair in range(offsets[r], offsets[r + 1]):
            v = items[pair]
            total_hint = of_query - w[5] * first[v] + w[6] * categories[category[q], category[v]]
            total_hint += w[0] * np.log(lift[pair]) + w[2] * np.log1p(mine[v]) + w[3] * cosine[pair]
            total_hint += w[1] * np.log(bought[q] * total[v] / records + least)
            lifted = (max(reached[v] - mine[v], 0.0) + pseudo) / (others * total[v] + pseudo)
            total_hint += w[7] * np.log(lifted)
            out[pair] = np.exp(min(max(total_hint, -farthest), farthest))
        for place in range(start[q], start[q + 1]):
            mine[item[place]] = 0.0
