"""Scores of `bayes` for chosen pairs: what `Weights.score` of `Evidence.rows` gives, without rows of the catalogue."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from neatrec.compiled import compiled
from neatrec.models.bayes.evidence import LIKE_PSEUDO, Evidence
from neatrec.models.bayes.prior import FARTHEST, Weights
from neatrec.models.counts import PairCounts

Codes = npt.NDArray[np.int32]

BLOCK_PAIRS = 1_000_000
"""Pairs whose vectors are multiplied at a time."""


def score_pairs(evidence: Evidence, weights: Weights, queries: Codes, items: Codes) -> npt.NDArray[np.float32]:
    """The posterior mean of each pair, shape (pairs,)."""
    order = np.argsort(queries, kind="stable")
    asked, start = np.unique(queries[order], return_index=True)
    offsets = np.append(start, len(queries)).astype(np.int64)
    out = np.empty(len(queries), dtype=np.float32)
    sorted_items = items[order]
    out[order] = _means(
        evidence, weights, asked, offsets, sorted_items, _products(evidence, weights, queries[order], sorted_items)
    )
    return out


def score_rows(evidence: Evidence, weights: Weights, queries: Codes) -> npt.NDArray[np.float32]:
    """The posterior mean of each query with every item, shape (queries, items)."""
    size = len(evidence.category)
    every = np.tile(np.arange(size, dtype=np.int32), len(queries))
    offsets = np.arange(len(queries) + 1, dtype=np.int64) * size
    products = np.zeros((len(queries), size), dtype=np.float32)
    for vectors, scale in _factors(evidence, weights):
        products += (vectors[queries] * scale) @ vectors.T
    return _means(evidence, weights, queries, offsets, every, products.ravel()).reshape(len(queries), size)


def _factors(evidence: Evidence, weights: Weights) -> list[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]]:
    """The two signs that are products of vectors, each with its values times its weight."""
    if weights.signs is None:
        return []
    low_rank, words = evidence.values * weights.signs[1], evidence.word_values * weights.signs[4]
    return [(evidence.vectors, low_rank.astype(np.float32)), (evidence.word_vectors, words.astype(np.float32))]


def _products(evidence: Evidence, weights: Weights, queries: Codes, items: Codes) -> npt.NDArray[np.float32]:
    out = np.zeros(len(queries), dtype=np.float32)
    for first in range(0, len(queries), BLOCK_PAIRS):
        part = slice(first, first + BLOCK_PAIRS)
        for vectors, scale in _factors(evidence, weights):
            out[part] += np.einsum("nd,nd->n", vectors[queries[part]] * scale, vectors[items[part]])
    return out


def _means(
    evidence: Evidence,
    weights: Weights,
    queries: Codes,
    offsets: npt.NDArray[np.int64],
    items: Codes,
    products: npt.NDArray[np.float32],
) -> npt.NDArray[np.float32]:
    counts, near = evidence.counts, evidence.near
    if near is None or not near.records:
        near = counts
    scale = counts.records / max(near.records, 1)
    has_like = weights.signs is not None and evidence.like is not None
    signs = np.zeros(6) if weights.signs is None else weights.signs
    out = np.empty(len(items), dtype=np.float32)
    posterior_means(
        queries.astype(np.int64),
        offsets,
        items,
        products,
        _table(counts),
        (*_table(near), scale),
        _csr(evidence.like) if has_like else _NOTHING,
        evidence.like_total if has_like else _NOTHING[2],
        evidence.category,
        evidence.category_lift,
        evidence.popularity,
        (weights.k, weights.near, weights.signs is not None, LIKE_PSEUDO, FARTHEST),
        signs,
        out,
    )
    return out


_NOTHING = np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32), np.zeros(0)


def _csr(matrix: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.float64]]:
    matrix = sparse.csr_matrix(matrix)
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32, copy=False), matrix.data.astype(np.float64)


def _table(counts: PairCounts) -> tuple[Any, ...]:
    matrix = counts.matrix
    start, item = matrix.indptr.astype(np.int64, copy=False), matrix.indices.astype(np.int32, copy=False)
    return start, item, matrix.data, counts.total.astype(np.float64), float(max(counts.records, 1))


@compiled
def lent(query, like, pairs, out):  # type: ignore[no-untyped-def]
    """Adds to `out` (items,) what the items of like names were bought with, by how alike they are."""
    like_start, like_item, like_weight = like
    start, item, count = pairs[0], pairs[1], pairs[2]
    for near in range(like_start[query], like_start[query + 1]):
        other = like_item[near]
        for place in range(start[other], start[other + 1]):
            out[item[place]] += like_weight[near] * count[place]


@compiled
def posterior_means(  # type: ignore[no-untyped-def]
    queries,
    offsets,
    items,
    products,
    pairs,
    near,
    like,
    like_total,
    category,
    category_lift,
    popularity,
    numbers,
    signs,
    out,
):
    """(C + k m) / (E + k) for the items of each query, from offsets[r] to offsets[r + 1] of `items`.

    pairs, near: rows, items, counts, totals, records (and what near counts are multiplied by); like: rows, items,
    likeness; products: (pairs,), the signs that are products of vectors, weighted; out: (pairs,).
    """
    start, item, count, total, records = pairs
    near_start, near_item, near_count, near_total, near_records, scale = near
    k, share, with_prior, pseudo, farthest = numbers
    size = len(category)
    mine, close, reached = np.zeros(size), np.zeros(size), np.zeros(size)
    for r in range(len(queries)):
        q = queries[r]
        for place in range(start[q], start[q + 1]):
            mine[item[place]] = count[place]
        for place in range(near_start[q], near_start[q + 1]):
            close[near_item[place]] = near_count[place] * scale
        if len(like_total):
            reached[:] = 0.0
            lent(q, like, pairs, reached)
        for pair in range(offsets[r], offsets[r + 1]):
            v = items[pair]
            expected = total[q] * total[v] / records
            near_expected = near_total[q] * scale * near_total[v] / near_records
            above = mine[v] + share * (close[v] - mine[v])
            below = expected + share * (near_expected - expected) + k
            if with_prior:
                mean = signs[0] + products[pair] + signs[5] * popularity[v]
                mean += signs[3] * category_lift[category[q], category[v]]
                if len(like_total):
                    together = 0.0
                    for place in range(like[0][v], like[0][v + 1]):
                        together += like[2][place] * reached[like[1][place]]
                    chance = like_total[q] * like_total[v] / records
                    mean += signs[2] * np.log((together + pseudo) / (chance + pseudo))
                above += k * np.exp(min(max(mean, -farthest), farthest))
            out[pair] = above / below
        for place in range(start[q], start[q + 1]):
            mine[item[place]] = 0.0
        for place in range(near_start[q], near_start[q + 1]):
            close[near_item[place]] = 0.0
