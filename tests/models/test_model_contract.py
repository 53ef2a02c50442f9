"""One contract, run on every model there is, and on a GPU for those that learn there.

A new model joins by its name in the registry and a line in `SETTINGS`.
"""

from functools import cache
from typing import Any

import numpy as np
import pytest

from helpers.kernel_cases import assert_equal_arrays
from helpers.toyshop import PARTNERS, code, toy_baskets, toy_catalog
from neatrec.errors import BundleError, ParameterError, SourceError, UnknownItemError
from neatrec.models import MODEL_NAMES, Model, Run, make_model, model_class, rank, rank_carts
from neatrec.models.embeddings.kernels import gpu

EMBEDDING: dict[str, Any] = {"dim": 16, "epochs": 40}
SETTINGS: dict[str, dict[str, Any]] = {
    "cf": {"dim": 12, "epochs": 10},
    "bprmf": {"dim": 12, "epochs": 60},
    "item2vec": EMBEDDING,
    "triple2vec": EMBEDDING,
    "neat": EMBEDDING,
    "neat-bpr": EMBEDDING,
}
RUN = {
    "cpu": Run(rng=3, device="cpu", threads=1, reproducible=True),
    "gpu": Run(rng=3, device="gpu", threads=1),
}
COUNTED = ("pop", "popco", "lift", "shrunk-lift", "shrunk-lift-tuned", "llr", "jaccard")
TROUBLE = gpu.unavailable_reason()
NEEDS_GPU = pytest.mark.skipif(TROUBLE is not None, reason=f"needs a GPU: {TROUBLE}")
ON_CPU = [pytest.param(name, "cpu", id=name) for name in MODEL_NAMES]
ON_GPU = [
    pytest.param(name, "gpu", id=f"{name}-gpu", marks=NEEDS_GPU)
    for name in ("neat", "neat-bpr", "item2vec", "triple2vec")
]
EVERY_NAME = pytest.mark.parametrize("name", MODEL_NAMES)
EVERY_MODEL = pytest.mark.parametrize(("name", "device"), [*ON_CPU, *ON_GPU])


def new(name: str) -> Model:
    return make_model(name, **SETTINGS.get(name, {}))


@cache
def fitted(name: str, device: str) -> Model:
    return new(name).fit(toy_baskets(), RUN[device])


def every_pair() -> tuple[np.ndarray, np.ndarray]:
    items = len(toy_catalog())
    return np.repeat(np.arange(items), items), np.tile(np.arange(items), items)


@EVERY_MODEL
def test_fit_returns_the_model_with_the_bits_of_its_seed_and_leaves_the_world_alone(
    name: str, device: str
) -> None:
    threadpool_info = pytest.importorskip(
        "threadpoolctl", reason="needs threadpoolctl"
    ).threadpool_info
    baskets = toy_baskets()
    before = baskets.items.copy()
    random_state = np.random.get_state()[1].copy()
    threads = sorted((pool["filepath"], pool["num_threads"]) for pool in threadpool_info())
    model = new(name)
    assert model.fit(baskets, RUN[device]) is model
    assert np.array_equal(baskets.items, before)
    assert np.array_equal(np.random.get_state()[1], random_state)
    after = {pool["filepath"]: pool["num_threads"] for pool in threadpool_info()}
    assert all(after[path] == number for path, number in threads)
    if device == "cpu":  # on a GPU sums come in any order
        assert_equal_arrays(model, fitted(name, device))


@EVERY_MODEL
def test_scores_every_pair_with_a_number(name: str, device: str) -> None:
    scores = fitted(name, device).score(*every_pair())
    assert scores.dtype == np.float64
    assert scores.shape == (len(toy_catalog()) ** 2,)
    assert np.isfinite(scores).all()
    assert fitted(name, device).score([], []).shape == (0,)
    assert fitted(name, device).score_all([]).shape == (0, len(toy_catalog()))


@EVERY_MODEL
def test_scores_of_blocks_are_scores_of_pairs(name: str, device: str) -> None:
    model, items = fitted(name, device), len(toy_catalog())
    queries = np.array([code("tea"), code("saffron"), code("tea"), code("mystery")])
    block = model.score_all(queries)
    assert block.shape == (4, items)
    pairs = model.score(np.repeat(queries, items), np.tile(np.arange(items), 4)).reshape(4, items)
    np.testing.assert_allclose(block, pairs, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("name", "device"),
    [case for case in (*ON_CPU, *ON_GPU) if case.values[0] not in ("pop", "item2vec")],
)
def test_finds_the_planted_partners(name: str, device: str) -> None:
    """item2vec finds them with some seeds only."""
    model = fitted(name, device)
    found = sum(
        partner.title() in rank(model, start.title(), 3).names
        for start, partner in PARTNERS.items()
    )
    assert found >= (6 if name in COUNTED else 5), [
        rank(model, start.title(), 3) for start in PARTNERS
    ]


@EVERY_MODEL
def test_answers_are_ranked_and_leave_out_what_they_must(name: str, device: str) -> None:
    model, catalog = fitted(name, device), toy_catalog()
    aisle = catalog.category_of()
    for item in range(len(catalog)):
        answer = rank(model, catalog.id(item), 50)
        assert item not in answer.codes
        assert code("saffron") not in answer.codes  # never bought
        assert len(set(answer.codes.tolist())) == len(answer)
        assert (np.diff(answer.scores) <= 0).all()
        assert not (aisle[item] != -1 and np.isin(aisle[answer.codes], aisle[item]).any())
        scored = model.score(np.full(len(answer), item), answer.codes)
        np.testing.assert_allclose(answer.scores, scored, rtol=2e-5, atol=2e-6)
        for k in (1, 2, 7):
            assert rank(model, catalog.id(item), k).codes.tolist() == answer.codes[:k].tolist()


@EVERY_MODEL
def test_an_item_is_found_by_id_variant_and_name(name: str, device: str) -> None:
    model = fitted(name, device)
    (wanted,) = (codes.tolist() for codes in rank_carts(model, [np.array([code("tea")])]))
    for item in (toy_catalog().id(code("tea")), "tea-green", "Tea", "tEA", ["Tea"]):
        assert rank(model, item).codes.tolist() == wanted


@EVERY_MODEL
def test_the_order_of_a_cart_does_not_matter(name: str, device: str) -> None:
    model = fitted(name, device)
    answer = rank(model, ["Tea", "Pasta", "Chips"], 8)
    again = rank(model, ["Chips", "Tea", "Tea", "Pasta"], 8)
    assert answer.codes.tolist() == again.codes.tolist()
    assert answer.scores.tolist() == again.scores.tolist()
    assert not {code("tea"), code("pasta"), code("chips")} & set(answer.codes.tolist())
    if model.cart_ranking is None:
        np.testing.assert_allclose(answer.scores, answer.parts.mean(axis=1), rtol=1e-12)
    assert len(answer)
    assert answer.parts.shape == (len(answer), 3)


@EVERY_MODEL
def test_filters_hold(name: str, device: str) -> None:
    model = fitted(name, device)
    everything = rank(model, "Soap", 50).codes.tolist()
    fruit = rank(model, "Soap", 50, category="fruit").codes.tolist()
    named = {code(item) for item in ("apple", "banana", "cherry", "lime")}
    assert fruit == [item for item in everything if item in named]
    assert rank(model, "Soap", 50, category="food / fruit").codes.tolist() == fruit
    assert rank(model, "Soap", 50, category=["FRUIT", "hot"]).codes.tolist() == [
        item for item in everything if item in named | {code("tea")}
    ]
    without = rank(model, "Soap", 50, exclude=["Apple", "tea-black"]).codes.tolist()
    assert without == [item for item in everything if item not in {code("apple"), code("tea")}]
    apart, together = (
        set(rank(model, "Apple", 50, same_category=same).names) for same in (False, True)
    )
    assert apart <= together
    assert not {"Banana", "Cherry", "Lime"} & apart


@EVERY_MODEL
def test_an_item_never_bought_is_said_to_be_so(name: str, device: str) -> None:
    answer = rank(fitted(name, device), ["Saffron", "Tea"])
    alone = rank(fitted(name, device), "Saffron")
    if fitted(name, device).scores_unseen_items:
        assert len(alone)
        return
    assert len(alone) == 0
    assert alone.notes == ("Saffron is in no training basket",)
    assert answer.notes == alone.notes
    assert (
        answer.codes.tolist() == rank(fitted(name, device), "Tea", exclude="Saffron").codes.tolist()
    )


@EVERY_MODEL
def test_comes_back_from_its_arrays_and_from_no_others(name: str, device: str) -> None:
    model = fitted(name, device)
    arrays = model.arrays()
    back = type(model).from_arrays(model.parameters, model.catalog, arrays)
    assert np.array_equal(back.score(*every_pair()), model.score(*every_pair()))
    assert rank(back, "Tea").codes.tolist() == rank(model, "Tea").codes.tolist()
    assert back.learned == model.learned
    assert {key: value.tobytes() for key, value in back.arrays().items()} == {
        key: value.tobytes() for key, value in arrays.items()
    }

    users = len(toy_baskets().user_ids)  # left out by default
    assert not any("user" in key or users in array.shape for key, array in arrays.items())
    assert arrays.keys() <= model.arrays(users=True).keys()
    with pytest.raises(BundleError, match=f"not the arrays of a '{name}' model"):
        type(model).from_arrays(model.parameters, model.catalog, {})
    cut = {**model.arrays(), "item_count": np.ones(3, dtype=np.int64)}
    with pytest.raises(
        BundleError, match=r"`item_count` must have the shape \(items\), got \(3,\)"
    ):
        type(model).from_arrays(model.parameters, model.catalog, cut)


@EVERY_NAME
def test_an_unfitted_model_is_refused(name: str) -> None:
    for ask in (lambda m: rank(m, "Tea"), lambda m: m.score([0], [1]), lambda m: m.arrays()):
        with pytest.raises(ParameterError, match=rf"'{name}' model is not fitted\. Call fit"):
            ask(new(name))


@EVERY_MODEL
def test_refuses_what_it_cannot_learn_from(name: str, device: str) -> None:
    baskets = toy_baskets()
    with pytest.raises(SourceError, match="cannot read ndarray as a table of orders"):
        new(name).fit(np.zeros((2, 2)), RUN[device])
    with pytest.raises(ParameterError, match="must hold at least one line"):
        new(name).fit(baskets.select(np.zeros(0, dtype=np.int64)), RUN[device])
    if model_class(name).needs_users:
        with pytest.raises(ParameterError, match="learns from users, and these baskets name none"):
            new(name).fit(toy_baskets(users=False), RUN[device])
    else:
        quick = make_model(
            name, **SETTINGS.get(name, {}) | ({"epochs": 1} if name in SETTINGS else {})
        )
        assert len(rank(quick.fit(toy_baskets(users=False), RUN[device]), "Tea"))


@EVERY_NAME
def test_takes_the_paper_preset_and_no_unknown_setting(name: str) -> None:
    assert isinstance(make_model(name, preset="paper"), model_class(name))
    with pytest.raises(ParameterError, match="`set` must be"):
        make_model(name, no_such_setting=1)
    with pytest.raises(ParameterError, match=r"`preset` must be one of .*default, .*paper"):
        make_model(name, preset="papr")


@EVERY_MODEL
def test_refuses_bad_questions(name: str, device: str) -> None:
    model = fitted(name, device)
    with pytest.raises(
        UnknownItemError, match=r"no item has the id or name 'Biscits'\. Did you mean 'Biscuits'"
    ):
        rank(model, "Biscits")
    with pytest.raises(ParameterError, match="`k` must be an integer of at least 1, got 0"):
        rank(model, "Tea", 0)
    with pytest.raises(ParameterError, match="`items` must be at least one item"):
        rank(model, [])
    with pytest.raises(ParameterError, match=r"`category` must be one of .* got 'friut'"):
        rank(model, "Tea", category="friut")
    with pytest.raises(ParameterError, match="`queries` must be codes of the catalogue"):
        model.score_all([99])
    with pytest.raises(ParameterError, match="`items` must be as long as `queries`"):
        model.score([1, 2], [3])
    with pytest.raises(ParameterError, match="`queries` must be one-dimensional item codes"):
        model.score_all([0.5])
