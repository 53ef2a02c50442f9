"""Which device ranks, and what evaluation and serving table make of a GPU's answers: a plain ranker stands for it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.toyshop import toy_baskets
from neatrec.data.catalog import Catalog
from neatrec.errors import DivergedError, MissingDependencyError, ParameterError
from neatrec.evaluation.candidates import CandidateSet, CatalogCandidates
from neatrec.evaluation.ranks import LabelQueries, LabelRanks, best_of, rank_labels, resolve_ranking_device
from neatrec.models import Run, make_model
from neatrec.models.base import Model
from neatrec.models.embeddings.item2vec import Item2Vec, Item2VecProduct
from neatrec.models.embeddings.kernels import dispatch, gpu, gpu_ranking
from neatrec.models.embeddings.kernels.dispatch import ranking_device
from neatrec.models.embeddings.kernels.gpu_ranking import RankedLabels, RankingResult
from neatrec.serving import rewrite_index, save_indexed, topk
from neatrec.serving.build import table_device
from neatrec.serving.topk import best_answers


class PlainRanker:
    """What `gpu_ranking.Ranker` promises, one query after the other."""

    def __init__(self, vectors: np.ndarray, partners: np.ndarray | None = None) -> None:
        self.scores = vectors @ (vectors if partners is None else partners).T

    def catalogue(self, queries: Any, sold: Any, category: Any, labels: Any = None, top: int = 20) -> RankingResult:
        every = np.arange(len(sold))
        rows = []
        for q in queries:
            own = (category == category[q]) & (category[q] >= 0)
            rows.append(every[sold & ~own & (every != q)])
        return self._ranked(queries, rows, labels or RankedLabels.none(len(queries)), top)

    def lists(self, queries: Any, offsets: Any, items: Any, labels: Any, top: int = 20) -> RankingResult:
        return self._ranked(queries, np.split(items, offsets[1:-1]), labels, top)

    def _ranked(self, queries: Any, rows: Any, labels: RankedLabels, top: int) -> RankingResult:
        if np.isnan(self.scores).any():
            raise DivergedError("a score is not a number (NaN)", hint="Train the model again.")
        best = np.full((len(queries), top), -1, dtype=np.int32)
        scores = np.zeros((len(queries), top), dtype=np.float32)
        ranks = []
        for r, (q, items) in enumerate(zip(queries, rows, strict=True)):
            found = sorted(items.tolist(), key=lambda v: (-self.scores[q, v], v))[:top]
            best[r, : len(found)], scores[r, : len(found)] = found, self.scores[q, found]
            for v in labels.items[labels.offsets[r] : labels.offsets[r + 1]]:
                own, others = self.scores[q, v], self.scores[q, items]
                ranks.append(((others > own).sum(), (others == own).sum()) if v in items else (0, 0))
        higher, equal = np.array(ranks, dtype=np.int32).reshape(-1, 2).T
        return RankingResult(higher, equal, best, scores)


@pytest.fixture
def plain_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU that is there and ranks plainly."""
    monkeypatch.setattr(dispatch.gpu, "cupy", lambda: None)
    monkeypatch.setattr(gpu_ranking, "prepare", lambda: None)
    monkeypatch.setattr(gpu_ranking, "Ranker", PlainRanker)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise MissingDependencyError("device 'gpu' needs CuPy")

    monkeypatch.setattr(gpu, "cupy", missing)


def whole_numbers(items: int = 40, product: bool = False, seed: int = 0) -> Model:
    """A model whose products are exact and full of ties; some items were never bought."""
    rng = np.random.default_rng(seed)
    vectors, output = (rng.integers(-2, 3, size=(items, 3)).astype(np.float32) for _ in range(2))
    names = ["a", "b", "c", "d", "e"]
    catalog = Catalog.from_ids(
        [f"{n:03d}" for n in range(items)], categories=[names[c] for c in rng.integers(0, 5, items)]
    )
    kind = Item2VecProduct if product else Item2Vec
    arrays = {"vectors": vectors, "output": output, "losses": np.zeros(0), "item_count": rng.integers(0, 4, size=items)}
    model = kind.from_arrays(None, catalog, arrays)
    model.directions = vectors  # not of length one: whole numbers
    return model


def questions(items: int = 40) -> tuple[LabelQueries, CatalogCandidates, CandidateSet]:
    rng = np.random.default_rng(1)
    queries = np.unique(rng.integers(0, items, size=12)).astype(np.int32)
    pairs = sorted({(int(q), int(v)) for q in queries for v in rng.integers(0, items, size=4)})
    asked = LabelQueries.from_pairs(*zip(*pairs, strict=True))
    catalogue = CatalogCandidates(
        "catalogue", queries, rng.random(items) < 0.8, rng.integers(-1, 4, items).astype(np.int32)
    )
    lists = [rng.choice(items, size=size, replace=False) for size in rng.integers(0, 20, size=len(queries))]
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in lists])]).astype(np.int64)
    together = np.concatenate(lists).astype(np.int32)
    return asked, catalogue, CandidateSet("top", queries, offsets, together, np.ones(len(together), np.int64))


# ---- which device


@pytest.mark.usefixtures("plain_gpu")
def test_a_product_is_ranked_on_a_gpu_that_answers() -> None:
    assert ranking_device("neat", "auto", product=True, top=20) == "gpu"
    assert ranking_device("neat", "gpu", product=True, top=256) == "gpu"
    assert ranking_device("neat", "cpu", product=True, top=20) == "cpu"


@pytest.mark.usefixtures("plain_gpu")
@pytest.mark.parametrize(
    ("product", "top", "sentence"),
    [
        (False, 20, "`device` must be cpu for model 'lift', whose score is no product of vectors, got 'gpu'"),
        (True, 257, "`k` must be from 1 to 256 on device gpu, got 257. Use device cpu"),
        (True, 0, "`k` must be from 1 to 256 on device gpu, got 0"),
    ],
)
def test_what_a_gpu_cannot_rank_is_refused_by_name_and_left_to_the_cpu_by_auto(
    product: bool, top: int, sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ParameterError, match=sentence):
        ranking_device("lift", "gpu", product=product, top=top)
    with caplog.at_level(logging.DEBUG, logger="neatrec"):
        assert ranking_device("lift", "auto", product=product, top=top) == "cpu"
    assert "lift is ranked on the CPU: `" in caplog.text


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_auto_ranks_on_the_cpu_and_gpu_says_what_is_missing() -> None:
    assert ranking_device("neat", "auto", product=True, top=20) == "cpu"
    with pytest.raises(MissingDependencyError, match="needs CuPy"):
        ranking_device("neat", "gpu", product=True, top=20)


def test_a_device_that_does_not_exist_is_refused() -> None:
    asked, catalogue, _ = questions()
    with pytest.raises(ParameterError, match="`device` must be one of auto, cpu, gpu, got 'tpu'"):
        rank_labels(whole_numbers(), catalogue, asked, device="tpu")


# ---- evaluation


def assert_same(one: LabelRanks, other: LabelRanks) -> None:
    np.testing.assert_array_equal(one.higher, other.higher)
    np.testing.assert_array_equal(one.equal, other.equal)
    np.testing.assert_array_equal(one.best, other.best)


@pytest.mark.usefixtures("plain_gpu")
@pytest.mark.parametrize("product", [False, True])
@pytest.mark.parametrize("device", ["auto", "gpu"])
def test_ranked_on_a_gpu_as_on_the_cpu(product: bool, device: str) -> None:
    asked, *both = questions()
    model = whole_numbers(product=product)
    for candidates in both:
        assert_same(rank_labels(model, candidates, asked, device=device), rank_labels(model, candidates, asked))
        best = best_of(model, candidates, top=5, device=device)
        np.testing.assert_array_equal(best, best_of(model, candidates, top=5))


@pytest.mark.usefixtures("plain_gpu")
def test_a_nan_names_the_model() -> None:
    asked, catalogue, _ = questions()
    model = whole_numbers()
    model.directions[:] = np.nan  # type: ignore[attr-defined]
    with pytest.raises(DivergedError, match="model 'item2vec': a score is not a number"):
        rank_labels(model, catalogue, asked, device="gpu")


def test_a_model_that_no_gpu_can_rank_is_ranked_where_it_can_be(caplog: pytest.LogCaptureFixture) -> None:
    counts = make_model("lift").fit(toy_baskets())
    with caplog.at_level(logging.INFO, logger="neatrec"):
        assert resolve_ranking_device(counts, "gpu") == "auto"
    assert "lift is ranked on the CPU: its score is no product of vectors" in caplog.text
    assert [resolve_ranking_device(counts, device) for device in ("auto", "cpu")] == ["auto", "cpu"]
    assert resolve_ranking_device(whole_numbers(), "gpu") == "gpu"


def test_a_subclass_that_scores_in_its_own_way_is_no_product() -> None:
    class Halved(Item2Vec):
        def _score(self, queries: Any, items: Any) -> Any:
            return super()._score(queries, items) / 2

    class Doubled(Item2VecProduct):
        def _score_all(self, queries: Any) -> Any:
            return super()._score_all(queries) * 2

    for kind in (Halved, Doubled):
        assert kind().factors() is None
        assert resolve_ranking_device(kind(), "gpu") == "auto"


@pytest.mark.usefixtures("plain_gpu")
def test_a_gpu_that_auto_takes_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    model, (asked, catalogue, recall) = whole_numbers(), questions()
    with caplog.at_level(logging.INFO, logger="neatrec"):
        device = resolve_ranking_device(model, "auto")
        for candidates in (catalogue, recall):
            rank_labels(model, candidates, asked, device=device)
        best_answers(model, 3, device="auto")
    assert caplog.messages == ["item2vec is ranked on the GPU", "the serving table is made on the GPU"]
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="neatrec"):
        assert [resolve_ranking_device(model, device) for device in ("cpu", "gpu")] == ["cpu", "gpu"]
        assert resolve_ranking_device(make_model("lift").fit(toy_baskets()), "auto") == "auto"
    assert not caplog.messages


# ---- the serving table


@pytest.mark.usefixtures("plain_gpu")
@pytest.mark.parametrize("product", [False, True])
@pytest.mark.parametrize("k", [1, 4, 1000])
def test_the_table_of_a_gpu_is_that_of_the_cpu(product: bool, k: int) -> None:
    model = whole_numbers(product=product)
    here, there = (best_answers(model, k, threads=1, device=device) for device in ("cpu", "gpu"))
    for name in ("start", "item", "score"):
        np.testing.assert_array_equal(getattr(here, name), getattr(there, name), err_msg=name)
    assert len(there.item)


@pytest.mark.usefixtures("plain_gpu")
def test_a_floor_holds_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Item2Vec, "min_score", 1.0)
    model = whole_numbers()
    here, there = (best_answers(model, 6, threads=1, device=device) for device in ("cpu", "gpu"))
    np.testing.assert_array_equal(here.item, there.item)
    assert (there.score > 1.0).all()
    assert len(there.item) < 6 * len(model.catalog)


@pytest.mark.usefixtures("plain_gpu")
def test_vectors_that_are_not_numbers_make_no_table() -> None:
    model = whole_numbers()
    model.directions[np.flatnonzero(model.item_count)[0]] = np.nan  # type: ignore[attr-defined]
    with pytest.raises(DivergedError, match="vectors that are not numbers"):
        best_answers(model, 3, device="gpu")


@pytest.mark.usefixtures("plain_gpu")
def test_bundles_get_their_tables_from_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[str] = []
    plain = topk.TopKSearch.by_gpu
    monkeypatch.setattr(topk.TopKSearch, "by_gpu", lambda self, *factors: (used.append("gpu"), plain(self, *factors)))
    model = make_model("item2vec", dim=4, epochs=1).fit(toy_baskets(), Run(device="cpu", threads=1))
    save_indexed(model, tmp_path / "bundle", toy_baskets(), seed=0, k=3)
    rewrite_index(tmp_path / "bundle", k=4, device="gpu")
    assert used == ["gpu", "gpu"]
    rewrite_index(tmp_path / "bundle", k=5, device="cpu")
    assert used == ["gpu", "gpu"]
    with pytest.raises(ParameterError, match=r"`device` must be cpu or auto for an approximate table, got 'gpu'"):
        rewrite_index(tmp_path / "bundle", ann=True, device="gpu")


def test_where_the_table_of_a_trained_model_is_made(caplog: pytest.LogCaptureFixture) -> None:
    product, counts = whole_numbers(), make_model("lift").fit(toy_baskets())
    assert table_device(product, "gpu", ann=False, reproducible=False) == "gpu"
    assert table_device(product, "auto", ann=False, reproducible=False) == "auto"
    assert table_device(product, "auto", ann=False, reproducible=True) == "cpu"
    with caplog.at_level(logging.INFO, logger="neatrec"):
        assert table_device(product, "gpu", ann=True, reproducible=False) == "cpu"
        assert table_device(counts, "gpu", ann=False, reproducible=False) == "cpu"
    assert "made on the CPU: it is approximate" in caplog.text
    assert "made on the CPU: no product of vectors" in caplog.text
