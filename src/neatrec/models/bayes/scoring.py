"""Scores of `bayes` for chosen pairs: those of `Weights.score`, without rows of the catalogue."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.compiled import compiled
from neatrec.models.bayes.features import LIKE_PSEUDO, PairFeatures
from neatrec.models.bayes.prior import FARTHEST, Weights
from neatrec.models.counts import PairCounts

Codes = npt.NDArray[np.int32]


def score_pairs(evidence: PairFeatures, weights: Weights, queries: Codes, items: Codes) -> npt.NDArray[np.float32]:
    """The posterior mean of each pair, shape (pairs,)."""
    order, asked, offsets = by_query(queries)
    chosen = items[order]
    products = _products(evidence, weights, asked, offsets, chosen)
    together = _together(evidence, weights, asked, offsets, chosen)
    out = np.empty(len(queries), dtype=np.float32)
    out[order] = _means(evidence, weights, asked, offsets, chosen, products, together)
    return out


def log_priors(evidence: PairFeatures, weights: Weights, queries: Codes, items: Codes) -> npt.NDArray[np.float64]:
    """The logarithm of each pair's prior mean, shape (pairs,): `Weights.log_prior` without rows; 0 without signs."""
    if weights.signs is None:
        return np.zeros(len(queries))
    order, asked, offsets = by_query(queries)
    query, item, signs = queries[order], items[order], weights.signs
    mean = signs[0] + _products(evidence, weights, asked, offsets, item) + signs[5] * evidence.popularity[item]
    mean += signs[3] * evidence.category_lift[evidence.category[query], evidence.category[item]]
    if evidence.like_total is not None:
        together = _together(evidence, weights, asked, offsets, item)
        chance = evidence.counts.expected(evidence.like_total[query], evidence.like_total[item])
        mean += signs[2] * np.log((together + LIKE_PSEUDO) / (chance + LIKE_PSEUDO))
    out = np.empty(len(queries))
    out[order] = np.clip(mean, -FARTHEST, FARTHEST)
    return out


def by_query(queries: Codes) -> tuple[npt.NDArray[np.int64], Codes, npt.NDArray[np.int64]]:
    """The order that puts equal queries together, each query once, and where its pairs start in that order."""
    order = np.argsort(queries, kind="stable")
    asked, start = np.unique(queries[order], return_index=True)
    return order, asked, np.append(start, len(queries)).astype(np.int64)


def _together(
    evidence: PairFeatures, weights: Weights, queries: Codes, offsets: npt.NDArray[np.int64], items: Codes
) -> npt.NDArray[np.float32]:
    """Times together of what is like the query and what is like the item, (pairs,); empty where it says nothing."""
    if evidence.like is None or weights.signs is None:
        return np.zeros(0, dtype=np.float32)
    out = np.empty(len(items), dtype=np.float32)
    lent_pairs(queries, offsets, items, csr_parts(evidence.like), pair_table(evidence.counts), out)
    return out


def sign_factors(
    evidence: PairFeatures, weights: Weights, queries: Codes
) -> list[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]]:
    """The two signs that are products of vectors, weighted: rows of the queries, and a row for every item."""
    if weights.signs is None:
        return []
    low_rank = (evidence.values * weights.signs[1]).astype(np.float32)
    words = (evidence.word_values * weights.signs[4]).astype(np.float32)
    return [
        (evidence.query_vectors(queries) * low_rank, evidence.vectors),
        (evidence.word_vectors[queries] * words, evidence.word_vectors),
    ]


def _products(
    evidence: PairFeatures, weights: Weights, queries: Codes, offsets: npt.NDArray[np.int64], items: Codes
) -> npt.NDArray[np.float32]:
    out = np.zeros(len(items), dtype=np.float32)
    for left, right in sign_factors(evidence, weights, queries):
        add_products(left, right, offsets, items, out)
    return out


def _means(
    evidence: PairFeatures,
    weights: Weights,
    queries: Codes,
    offsets: npt.NDArray[np.int64],
    items: Codes,
    products: npt.NDArray[np.float32],
    together: npt.NDArray[np.float32],
) -> npt.NDArray[np.float32]:
    counts, near = evidence.counts, evidence.near
    if near is None or not near.records:
        near = counts
    scale = counts.records / max(near.records, 1)
    out = np.empty(len(items), dtype=np.float32)
    posterior_means(
        queries,
        offsets,
        items,
        products,
        together,
        pair_table(counts),
        (*pair_table(near), scale),
        np.zeros(0) if evidence.like_total is None else evidence.like_total,
        evidence.category,
        evidence.category_lift,
        evidence.popularity,
        (weights.k, weights.near, weights.signs is not None, LIKE_PSEUDO, FARTHEST),
        np.zeros(6) if weights.signs is None else weights.signs,
        out,
    )
    return out


def csr_parts(matrix: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """Rows, items and weights of a sparse matrix, as compiled code takes them."""
    return (
        matrix.indptr.astype(np.int64, copy=False),
        matrix.indices.astype(np.int32, copy=False),
        matrix.data.astype(np.float32, copy=False),
    )


def pair_table(counts: PairCounts) -> tuple[Any, ...]:
    """Rows, items, counts, totals and records, as compiled code takes them."""
    matrix = counts.matrix
    start, item = matrix.indptr.astype(np.int64, copy=False), matrix.indices.astype(np.int32, copy=False)
    return start, item, matrix.data, counts.total.astype(np.float64), float(max(counts.records, 1))


@compiled(fastmath={"reassoc", "contract"})  # sums may be taken in any order: several at a time
def add_products(left, right, offsets, items, out):  # type: ignore[no-untyped-def]
    """Adds to `out` (pairs,) the products of row r of `left` with the rows of `right` of its pairs, by offsets."""
    for r in range(len(left)):
        for pair in range(offsets[r], offsets[r + 1]):
            one, other = left[r], right[items[pair]]
            product = np.float32(0.0)
            for place in range(len(one)):
                product += one[place] * other[place]
            out[pair] += product


@compiled
def lent(query, like, pairs, out):  # type: ignore[no-untyped-def]
    """Adds to `out` (items,) what the items of names like the query's were bought with, by how alike they are."""
    like_start, like_item, likeness = like
    start, item, count = pairs[0], pairs[1], pairs[2]
    for near in range(like_start[query], like_start[query + 1]):
        other = like_item[near]
        for place in range(start[other], start[other + 1]):
            out[item[place]] += likeness[near] * count[place]


@compiled
def lent_pairs(queries, offsets, items, like, pairs, out):  # type: ignore[no-untyped-def]
    """Times together of all that is like the query with all that is like the item, for the items of each query."""
    like_start, like_item, likeness = like
    reached = np.empty(len(like_start) - 1, dtype=np.float32)
    for r in range(len(queries)):
        reached[:] = 0.0
        lent(queries[r], like, pairs, reached)
        for pair in range(offsets[r], offsets[r + 1]):
            together = np.float32(0.0)
            for place in range(like_start[items[pair]], like_start[items[pair] + 1]):
                together += likeness[place] * reached[like_item[place]]
            out[pair] = together


@compiled
def posterior_means(  # type: ignore[no-untyped-def]
    queries,
    offsets,
    items,
    products,
    together,
    pairs,
    near,
    like_total,
    category,
    category_lift,
    popularity,
    numbers,
    signs,
    out,
):
    """(C + k m) / (E + k) for the items of each query, from offsets[r] to offsets[r + 1] of `items`.

    pairs, near: rows, items, counts, totals, records (and what near counts are multiplied by); products: (pairs,), the
    signs that are products of vectors, weighted; together: (pairs,), of what is like both, or empty; out: (pairs,).
    """
    start, item, count, total, records = pairs
    near_start, near_item, near_count, near_total, near_records, scale = near
    k, share, with_prior, pseudo, farthest = numbers
    mine, close = np.zeros(len(category)), np.zeros(len(category))
    for r in range(len(queries)):
        q = queries[r]
        for place in range(start[q], start[q + 1]):
            mine[item[place]] = count[place]
        for place in range(near_start[q], near_start[q + 1]):
            close[near_item[place]] = near_count[place] * scale
        for pair in range(offsets[r], offsets[r + 1]):
            v = items[pair]
            expected = total[q] * total[v] / records
            near_expected = near_total[q] * scale * near_total[v] / near_records
            above = mine[v] + share * (close[v] - mine[v])
            below = expected + share * (near_expected - expected) + k
            if with_prior:
                mean = signs[0] + products[pair] + signs[5] * popularity[v]
                mean += signs[3] * category_lift[category[q], category[v]]
                if len(together):
                    chance = like_total[q] * like_total[v] / records
                    mean += signs[2] * np.log((together[pair] + pseudo) / (chance + pseudo))
                above += k * np.exp(min(max(mean, -farthest), farthest))
            out[pair] = above / below
        for place in range(start[q], start[q + 1]):
            mine[item[place]] = 0.0
        for place in range(near_start[q], near_start[q + 1]):
            close[near_item[place]] = 0.0
