"""An approximate table: what it holds is right, what it misses is measured and recorded."""

import logging
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from helpers.bayes_cases import toy_bayes
from helpers.toyshop import code, toy_baskets, toy_catalog
from neatrec.bundle import read_manifest, save_bundle
from neatrec.data.catalog import Catalog
from neatrec.errors import MissingDependencyError, ParameterError
from neatrec.models import MODEL_NAMES, Model, Run, make_model
from neatrec.models.embeddings.item2vec import Item2Vec, Item2VecProduct
from neatrec.models.registry import model_class
from neatrec.models.statistics import ShrunkLift
from neatrec.models.vectors import CosineModel
from neatrec.serving import ServingTable, approximate, rewrite_index, save_indexed, table_words, topk
from neatrec.serving.approximate import approximate_answers, better_exact, check_approximate, recall_of
from neatrec.serving.topk import TopK, TypicalAnswers, best_answers, best_by_goal, product_factors, related_by_goal
from neatrec.simulator import supermarket

ITEMS, DIM, CLUSTERS = 3000, 12, 30


def clustered(kind: type[Item2Vec] = Item2Vec, *, categories: int = 40, seed: int = 0) -> Model:
    """Vectors in clusters, items in categories; the last item was never bought."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(CLUSTERS, DIM))
    vectors = (centres[rng.integers(CLUSTERS, size=ITEMS)] + 0.4 * rng.normal(size=(ITEMS, DIM))).astype(np.float32)
    output = (vectors + 0.2 * rng.normal(size=(ITEMS, DIM))).astype(np.float32)
    bought = np.ones(ITEMS)
    bought[-1] = 0
    names = tuple(f"{n:02d}" for n in range(categories))
    catalog = Catalog.from_ids([f"{n:05d}" for n in range(ITEMS)])
    catalog = Catalog(
        catalog.ids,
        levels=("aisle",),
        categories=rng.integers(categories, size=(ITEMS, 1)).astype(np.int32),
        category_names=(names,),
    )
    arrays = {"item_count": bought, "vectors": vectors, "output": output, "losses": np.zeros(0)}
    return kind.from_arrays(None, catalog, arrays)


@pytest.mark.parametrize("kind", [Item2Vec, Item2VecProduct])
def test_what_is_found_has_the_models_scores_and_never_the_own_category(kind: type[Item2Vec]) -> None:
    model = clustered(kind)
    found, recall = approximate_answers(model, 20, threads=2)
    assert found.start[-2] == found.start[-1]  # never bought
    assert (np.diff(found.start)[:-1] == 20).all()
    category = model.catalog.category_of(model.category_level)
    assert (category[found.query] != category[found.item]).all()
    np.testing.assert_allclose(found.score, model.score(found.query, found.item), rtol=1e-4, atol=1e-5)
    for query in range(0, ITEMS - 1, 97):
        row = slice(found.start[query], found.start[query + 1])
        assert (np.diff(found.score[row]) <= 0).all()
        assert len(set(found.item[row].tolist())) == 20
    assert recall.probes < recall.lists, "the toy must be large enough for something to be left out"


def test_the_recall_that_is_told_is_the_recall_of_the_whole_table() -> None:
    model = clustered()
    found, recall = approximate_answers(model, 20, threads=2)
    first, whole = recall_of(found, np.arange(ITEMS, dtype=np.int32), best_answers(model, 20))
    assert recall.sample == 1000
    assert recall.first == pytest.approx(first, abs=0.02)
    assert recall.all == pytest.approx(whole, abs=0.02)
    assert first > 0.95
    assert recall.all < 1.0


def test_recall_counts_what_was_found_of_the_exact_answers() -> None:
    exact = TopK(np.array([0, 12, 12]), np.arange(12, dtype=np.int32), np.zeros(12, dtype=np.float32))
    found = TopK(np.array([0, 3, 3]), np.array([0, 5, 11], dtype=np.int32), np.zeros(3, dtype=np.float32))
    assert recall_of(found, np.array([0, 1], dtype=np.int32), exact) == (pytest.approx(0.2), pytest.approx(0.25))
    nobody = np.zeros(0, dtype=np.int32)
    assert recall_of(found, nobody, exact) == (1.0, 1.0)


def test_the_same_model_gives_the_same_table() -> None:
    one, other = (approximate_answers(clustered(), 5, threads=1) for _ in range(2))
    assert one[0].item.tolist() == other[0].item.tolist()
    assert one[1] == other[1]


def test_lists_that_hold_too_few_are_made_up_for_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one list for each query, and a whole cluster in one category, some lists hold no answer at all."""
    monkeypatch.setattr(approximate, "TARGET", 0.0)
    monkeypatch.setattr(approximate, "FIRST_PROBES", 1)
    model = clustered(categories=2)
    found, recall = approximate_answers(model, 60, threads=2)
    assert recall.probes == 1
    assert (np.diff(found.start)[:-1] == 60).all()


def test_a_model_that_is_no_product_of_vectors_says_so() -> None:
    model = make_model("shrunk-lift").fit(toy_baskets(), Run(rng=0))
    with pytest.raises(
        ParameterError, match=r"`ann` must be asked of bayes, or of a model whose score is a product .* 'shrunk-lift'"
    ):
        approximate_answers(model, 5)
    assert not model.knows_related_items()
    with pytest.raises(ParameterError, match="model 'shrunk-lift' does not know related items"):
        model.related_items(np.zeros(1, dtype=np.int32))


def test_a_model_without_goals_is_refused_before_the_fit_whatever_items_it_relates() -> None:
    class Related(ShrunkLift):
        def related_items(self, queries: npt.NDArray[np.int32]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
            return np.zeros(len(queries) + 1, dtype=np.int64), np.zeros(0, dtype=np.int32)

    with pytest.raises(ParameterError, match="`ann` must be asked of bayes"):
        check_approximate(Related())


@pytest.mark.parametrize(("name", "reason"), [("shrunk-lift", "counts"), ("pop", "popular"), ("item2vec", "similar")])
def test_a_model_says_why_it_recommends_what_the_counts_do_not_show(name: str, reason: str) -> None:
    assert make_model(name).reason == reason


def test_the_page_names_the_models_that_can_have_one() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "evidence.md").read_text()
    listed = re.search(r"a product of vectors \((.*?)\)", page.replace("\n", " "))
    can = {name for name in MODEL_NAMES if issubclass(model_class(name), CosineModel) and name != "neat-likelihood"}
    assert set(re.findall(r"`([a-z0-9-]+)`", listed[1])) == can
    likelihood = make_model("neat-likelihood", dim=4, epochs=1).fit(toy_baskets(), Run(rng=0, threads=1))
    assert product_factors(likelihood) is None


def test_without_faiss_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingDependencyError, match=r"needs faiss.*pip install 'neatrec\[ann\]'"):
        approximate_answers(clustered(), 5)


def test_where_the_exact_table_is_better_it_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "neatrec"):
        approximate_answers(clustered(), 5)
    assert (
        "for 2,999 items the exact table takes minutes at most: `neatrec train BUNDLE --rewrite-table --exact`"
        in caplog.text
    )
    assert better_exact(0.99, 1_000_000) is None
    assert "only 90.0 % of the exact first ten answers" in str(better_exact(0.9, 1_000_000))


def test_the_manifest_states_the_recall_and_an_exact_table_none(tmp_path: Path) -> None:
    model = make_model("item2vec", dim=8, epochs=2).fit(toy_baskets(), Run(rng=0, threads=1))
    save_bundle(model, tmp_path / "bundle", baskets_hash=toy_baskets().hash, seed=0)
    rewrite_index(tmp_path / "bundle", baskets=toy_baskets(), k=4, ann=True)
    index = ServingTable.open(tmp_path / "bundle")
    recall = read_manifest(tmp_path / "bundle").notes["topk"]["recall"]
    assert index.recall == recall
    assert {"first", "all", "sample", "lists", "probes", "items", "faiss"} == set(recall)
    assert table_words(recall).startswith("Approximate: it holds 100.0 % of the exact first ten answers")
    assert "holds 99.9 % of the exact first ten answers" in table_words({**recall, "first": 0.9999})
    rewrite_index(tmp_path / "bundle", k=3)
    assert ServingTable.open(tmp_path / "bundle").recall is not None  # as before, unless asked otherwise
    rewrite_index(tmp_path / "bundle", ann=False)
    assert ServingTable.open(tmp_path / "bundle").recall is None
    save_indexed(model, tmp_path / "exact", toy_baskets(), seed=0, k=4)
    assert table_words(ServingTable.open(tmp_path / "exact").recall).startswith("Exact")


def test_bayes_looks_at_what_is_bought_with_items_like_the_query(tmp_path: Path) -> None:
    model, asked = toy_bayes(4), np.arange(len(toy_catalog()), dtype=np.int32)
    start, items = model.related_items(asked)
    for query in asked:
        found = items[start[query] : start[query + 1]]
        assert len(set(found)) == len(found)
        assert set(model.features.counts.row(query)[0]) <= set(found)
    typical = TypicalAnswers.of(model, 6)
    exact, related = best_by_goal(model, 6), related_by_goal(model, 6, asked, typical)
    for goal, top in related.items():
        scores = model.with_goal(goal).score_all(asked)
        np.testing.assert_allclose(top.score, scores[top.query, top.item], rtol=1e-6)
        assert (np.diff(top.start) <= np.diff(exact[goal].start)).all()
    save_indexed(model, tmp_path / "bundle", toy_baskets(), seed=0, k=6, ann=True, device="cpu")
    table = ServingTable.open(tmp_path / "bundle")
    first, whole = recall_of(related["balanced"], asked, exact["balanced"])
    assert table.recall == {"first": first, "all": whole, "sample": len(asked), "items": len(asked) - 1}
    np.testing.assert_array_equal(table.columns["item"], related["balanced"].item)
    lift = table.with_goal("lift").answers(code("bread"))
    top = related["lift"]
    assert lift.item.tolist() == top.item[top.start[code("bread")] : top.start[code("bread") + 1]].tolist()


def test_typical_answers_are_those_of_the_median_item_of_a_category_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = toy_bayes(4)
    category, sold = model.catalog.category_of(model.category_level), np.flatnonzero(model.item_count > 0)
    exact = best_by_goal(model, topk.SPARE * 3).values()
    asked = np.arange(len(model.catalog), dtype=np.int32)
    start, items = model.related_items(asked)
    for most in (1000, 1):
        monkeypatch.setattr(topk, "MOST_CATEGORIES", most)
        typical = TypicalAnswers.of(model, 3)
        assert len(typical.lists.indptr) - 1 == 1 + min(most, len(np.unique(category[sold[category[sold] >= 0]])))
        new_start, found = typical.added_to(asked, start, items)
        for query in asked:
            alike = sold[category[sold] == category[query]] if typical.list_of[query] else sold
            median = alike[np.argsort(model.item_count[alike], kind="stable")][len(alike) // 2]
            best = [top.item[top.start[median] : top.start[median + 1]] for top in exact]
            both = np.unique(np.concatenate([items[start[query] : start[query + 1]], *best]))
            np.testing.assert_array_equal(np.sort(found[new_start[query] : new_start[query + 1]]), both)


def test_answers_that_nobody_bought_together_are_found_too() -> None:
    """Where most pairs are dropped, unseen pairs rank among the first: the same ones for most items of a category."""
    shop = supermarket(baskets=4000, items=1500, seed=1).baskets
    model = make_model("bayes", max_pairs=4000).fit(replace(shop, attributes={}, times=None), Run(rng=0, threads=1))
    typical, queries = TypicalAnswers.of(model, 20), np.arange(0, 1500, 7, dtype=np.int32)
    exact, related = best_by_goal(model, 20, queries=queries), related_by_goal(model, 20, queries, typical)
    assert model.summary.rankings["lift"].name == "odds"  # a statistic would rank no such pair
    for goal, top in exact.items():
        assert recall_of(related[goal], queries, top)[0] > 0.9, goal
