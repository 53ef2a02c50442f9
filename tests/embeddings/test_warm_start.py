"""A fit that begins from an older model: what it takes over, where new items start, what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from helpers.kernel_cases import assert_equal_arrays
from helpers.toyshop import code, toy_baskets, toy_catalog
from neatrec.data.baskets import Baskets
from neatrec.data.catalog import Catalog, string_array
from neatrec.errors import BundleError, ParameterError
from neatrec.models import Run, make_model
from neatrec.models.base import Model
from neatrec.models.embeddings.warm_start import MatchedItems, copy_rows, matched_items, widen_new_items
from neatrec.training.drift import drift

REPRODUCIBLE = Run(rng=5, threads=1, reproducible=True)
MODELS = ("neat", "neat-bpr", "item2vec", "triple2vec")


def fit(name: str, run: Run = REPRODUCIBLE, baskets: Any = None, **changes: Any) -> Model:
    return make_model(name, {"dim": 8, **changes}).fit(toy_baskets() if baskets is None else baskets, run)


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    return {name: fit(name, epochs=60) for name in MODELS}


@pytest.mark.parametrize("name", MODELS)
def test_a_warm_start_copies_the_older_tables(name: str, models: dict[str, Any]) -> None:
    old = models[name]
    warm: Any = fit(name, replace(REPRODUCIBLE, rng=6, warm_start=old), epochs=3)
    cold: Any = fit(name, replace(REPRODUCIBLE, rng=6), epochs=60)
    assert len(warm.history) == 3
    start, end = old.history[0], old.history[-1]
    assert warm.history[0] < end + 0.2 * (start - end)  # not back at the start of a cold start
    assert drift(old, warm).cosine > drift(old, cold).cosine
    assert drift(old, warm).cosine > 0.9


def test_users_of_the_older_model_keep_their_vectors(models: dict[str, Any]) -> None:
    old = models["triple2vec"]
    baskets = toy_baskets()
    first = np.unique(np.asarray(baskets.users), return_index=True)[1]  # one basket of each user
    warm: Any = fit("triple2vec", replace(REPRODUCIBLE, warm_start=old), baskets.select(np.sort(first)), epochs=1)
    assert warm.user_ids.equals(old.user_ids)
    assert np.abs(old.user_vectors).max() > 0.01
    np.testing.assert_allclose(warm.user_vectors, old.user_vectors, atol=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_the_same_seed_gives_the_same_bits(name: str, models: dict[str, Any]) -> None:
    run = replace(REPRODUCIBLE, warm_start=models[name])
    assert_equal_arrays(*(fit(name, replace(run, threads=threads), epochs=2) for threads in (1, 2)))


def test_default_epochs_are_a_fifth_of_a_cold_start(models: dict[str, Any]) -> None:
    warm: Any = fit("neat", replace(REPRODUCIBLE, warm_start=models["neat"]))
    assert len(warm.history) == 64  # of 320
    assert warm.parameters.epochs is None


def test_a_restored_model_is_the_same_start(models: dict[str, Any]) -> None:
    old = models["neat"]
    restored = type(old).from_arrays(old.parameters, old.catalog, old.arrays())
    one, other = (fit("neat", replace(REPRODUCIBLE, warm_start=start), epochs=1) for start in (old, restored))
    np.testing.assert_array_equal(one.item_vectors(), other.item_vectors())


def swapped(baskets: Baskets, one: str, other: str) -> Baskets:
    items = baskets.items.copy()
    items[baskets.items == code(one)], items[baskets.items == code(other)] = code(other), code(one)
    return replace(baskets, items=items)


def test_exchanged_items_are_the_first_movers(models: dict[str, Any]) -> None:
    changed = swapped(toy_baskets(), "pesto", "salsa")
    warm = fit("neat", replace(REPRODUCIBLE, warm_start=models["neat"]), changed)
    found = drift(models["neat"], warm)
    # who changed partners may turn towards the new one, or the partner towards it
    assert {mover.name for mover in found.movers[:2]} <= {"Pesto", "Salsa", "Pasta", "Chips"}
    assert found.movers[0].cosine < 0.9 < found.movers[4].cosine
    assert found.movers[0].changed > 0
    pasta = warm.rank(code("pasta"), 3).names
    assert "Salsa" in pasta  # what pesto was bought with


def with_new_item() -> Baskets:
    """The toy shop in which saffron is gone and a new fruit is sold, in no basket yet but the last two."""
    old = toy_catalog()
    keep = [i for i in range(len(old)) if i != code("saffron")]
    assert old.categories is not None
    ids = [*(old.id(i) for i in keep), "9999"]
    catalog = Catalog(
        string_array(ids),
        levels=old.levels,
        categories=np.concatenate([old.categories[keep], old.categories[[code("apple")]]]),
        category_names=old.category_names,
    )
    contents = [[old.id(i) for i in basket] for basket in np.split(toy_baskets().items, toy_baskets().offsets[1:-1])]
    return Baskets.from_lists(contents + [["9999", old.id(code("tea"))]] * 2, catalog=catalog)


def test_new_items_start_where_their_category_is(models: dict[str, Any]) -> None:
    baskets = with_new_item()
    old, new = models["neat"], make_model("neat", dim=8)
    new._catalog, new._item_count = baskets.catalog, baskets.item_counts
    tables = new._new_tables(np.random.default_rng(0), len(baskets.catalog), 0)
    row_of_item = np.random.default_rng(1).permutation(len(baskets.catalog)).astype(np.int32)
    new._start_from(old, tables, row_of_item, None)
    views = new._array_views(tables)
    fruits = [code(name) for name in ("apple", "banana", "cherry", "lime")]
    row = row_of_item[baskets.catalog.code_of["9999"]]
    np.testing.assert_allclose(views["vectors"][row], old.vectors[fruits].mean(axis=0), rtol=1e-5)
    variance = np.exp(old.log_variance[fruits]).mean() + old.vectors[fruits].var(axis=0).mean()
    assert views["log_variance"][row] == pytest.approx(min(np.log(variance), 2.0), rel=1e-4)
    assert views["log_variance"][row] > old.log_variance[fruits].mean()
    assert not new._adagrad_sums(tables["items"])[row].any()
    tea = row_of_item[baskets.catalog.code_of[toy_catalog().id(code("tea"))]]
    np.testing.assert_array_equal(views["vectors"][tea], old.vectors[code("tea")])
    np.testing.assert_array_equal(new._adagrad_sums(tables["items"])[tea], old.squares["items"][code("tea")])


def test_items_that_are_gone_or_new_are_counted(models: dict[str, Any]) -> None:
    warm = fit("neat", replace(REPRODUCIBLE, warm_start=models["neat"]), with_new_item(), epochs=1)
    found = drift(models["neat"], warm)
    assert (found.items_new, found.items_gone) == (1, 0)
    back = drift(warm, models["neat"])
    assert (back.items_new, back.items_gone) == (0, 1)


def test_a_new_item_without_known_items_in_its_category_stays_random() -> None:
    into = np.full((3, 2), 7.0, dtype=np.float32)
    matched = MatchedItems(np.array([1, -1, -1], dtype=np.int32), np.array([0, 5, -1], dtype=np.int32))
    row_of = np.array([2, 0, 1], dtype=np.int32)
    old = np.array([[9.0, 9.0], [1.0, 2.0]], dtype=np.float32)
    copy_rows(into, old, matched, row_of)
    assert into.tolist() == [[7.0, 7.0], [7.0, 7.0], [1.0, 2.0]]
    widen_new_items(into[:, 0], old, np.zeros(2, dtype=np.float32), matched, row_of, (-1.0, 1.0))
    assert into.tolist() == [[7.0, 7.0], [7.0, 7.0], [1.0, 2.0]]


def test_an_item_never_bought_counts_as_new(models: dict[str, Any]) -> None:
    matched = matched_items(models["neat"], toy_catalog(), None)
    assert not matched.known[code("saffron")]
    assert matched.known[code("tea")]


@pytest.mark.parametrize(
    ("name", "changes", "sentence"),
    [
        ("item2vec", {}, "`warm_start` must be a model with the tables of 'item2vec', got 'neat'"),
        ("neat", {"dim": 9}, "`warm_start` must be a model with dim 9, got 8"),
    ],
)
def test_another_kind_of_model_is_refused(
    name: str, changes: dict[str, Any], sentence: str, models: dict[str, Any]
) -> None:
    with pytest.raises(ParameterError, match=sentence):
        fit(name, replace(REPRODUCIBLE, warm_start=models["neat"]), **changes)


def test_a_checkpoint_of_another_warm_start_is_refused(models: dict[str, Any], tmp_path: Any) -> None:
    run = replace(REPRODUCIBLE, checkpoints=tmp_path)
    fit("neat", replace(run, warm_start=models["neat"]), epochs=2)
    with pytest.raises(BundleError, match="is of another fit: hash of the warm start was"):
        fit("neat", replace(run, resume=True), epochs=2)
    one = fit("neat", replace(run, resume=True, warm_start=models["neat"]), epochs=2)
    np.testing.assert_array_equal(
        one.item_vectors(), fit("neat", replace(REPRODUCIBLE, warm_start=models["neat"]), epochs=2).item_vectors()
    )
