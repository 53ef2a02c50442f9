"""Ranks and lists of the best on a GPU equal those of the compiled evaluation, ties included."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.gpu_cases import needs_gpu
from neatrec.errors import DivergedError, ParameterError
from neatrec.evaluation.candidates import CandidateSet, CatalogCandidates
from neatrec.evaluation.ranks import LabelQueries, LabelRanks, rank_labels
from neatrec.models.embeddings.kernels.gpu_ranking import RankedLabels, Ranker, RankingResult

pytestmark = needs_gpu


class Product:
    """A model whose score is a product of whole numbers: exact in float32, with many ties."""

    name = "product"

    def __init__(self, vectors: np.ndarray) -> None:
        self.vectors = vectors

    def score(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        return (self.vectors[queries] * self.vectors[items]).sum(axis=1).astype(np.float64)

    def score_all(self, queries: np.ndarray) -> np.ndarray:
        return self.vectors[queries] @ self.vectors.T


def whole_vectors(items: int, dim: int, most: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-most, most + 1, size=(items, dim)).astype(np.float32)


def asked_of(queries: np.ndarray, items: int, seed: int = 1) -> LabelQueries:
    rng = np.random.default_rng(seed)
    pairs = {(int(q), int(v)) for q in queries for v in rng.integers(0, items, size=4)}
    query, item = zip(*sorted(pairs), strict=True)
    return LabelQueries.from_pairs(query, item)


def assert_same(found: RankingResult, wanted: LabelRanks) -> None:
    np.testing.assert_array_equal(found.higher, wanted.higher)
    np.testing.assert_array_equal(found.equal, wanted.equal)
    np.testing.assert_array_equal(found.best, wanted.best)


@pytest.mark.parametrize(("items", "most"), [(30, 3), (3_000, 3), (3_000, 0), (20_000, 100)])
@pytest.mark.parametrize("block_scores", [2**28, 50_000])
def test_the_catalogue_is_ranked_as_on_the_cpu(items: int, most: int, block_scores: int) -> None:
    rng = np.random.default_rng(items)
    vectors, queries = whole_vectors(items, 7, most), np.unique(rng.integers(0, items, size=20)).astype(np.int32)
    category = rng.integers(-1, 6, size=items).astype(np.int32)
    sold = rng.random(items) < 0.8
    asked = asked_of(queries, items)
    wanted = rank_labels(Product(vectors), CatalogCandidates("catalogue", queries, sold, category), asked)
    ranker = Ranker(vectors, block_scores=block_scores)
    assert_same(ranker.catalogue(queries, sold, category, RankedLabels(asked.offsets, asked.item)), wanted)


@pytest.mark.parametrize("most", [0, 2, 50])
def test_lists_of_candidates_are_ranked_as_on_the_cpu(most: int) -> None:
    rng = np.random.default_rng(most)
    vectors, queries = whole_vectors(500, 33, most), np.arange(0, 40, dtype=np.int32)
    lists = [rng.choice(500, size=size, replace=False) for size in rng.integers(0, 250, size=40)]
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in lists])]).astype(np.int64)
    items = np.concatenate(lists).astype(np.int32)
    asked = asked_of(queries, 500)
    recall = CandidateSet("top", queries, offsets, items, np.ones(len(items), np.int64))
    wanted = rank_labels(Product(vectors), recall, asked)
    assert_same(Ranker(vectors).lists(queries, offsets, items, RankedLabels(asked.offsets, asked.item)), wanted)


def test_partners_may_have_vectors_of_their_own() -> None:
    queries, partners = whole_vectors(50, 5, 9), whole_vectors(50, 5, 9, seed=2)
    found = Ranker(queries, partners).catalogue(np.arange(50, dtype=np.int32), top=1)
    scores = queries @ partners.T
    np.fill_diagonal(scores, -np.inf)
    np.testing.assert_array_equal(found.best[:, 0], scores.argmax(axis=1))
    np.testing.assert_array_equal(found.scores[:, 0], scores.max(axis=1))


def test_a_nan_is_refused() -> None:
    vectors = whole_vectors(10, 4, 3)
    vectors[3, 0] = np.nan
    with pytest.raises(DivergedError, match="not a number"):
        Ranker(vectors).catalogue(np.arange(10, dtype=np.int32))


def test_lists_that_are_too_long_are_refused() -> None:
    with pytest.raises(ParameterError, match="`top` must be from 1 to 256 on device gpu, got 257"):
        Ranker(whole_vectors(10, 4, 3)).catalogue(np.arange(10, dtype=np.int32), top=257)


def test_no_queries_no_ranks() -> None:
    found = Ranker(whole_vectors(10, 4, 3)).catalogue(np.zeros(0, dtype=np.int32))
    assert found.best.shape == (0, 20)
