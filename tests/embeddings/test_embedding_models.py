"""What is particular to the embedding models: settings, presets, variants that share a fit, memory."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from helpers.toyshop import code, toy_baskets, toy_catalog
from neatrec.data.baskets import Baskets
from neatrec.data.splits import half
from neatrec.errors import ParameterError
from neatrec.leaderboard.run import LeaderboardOptions, run_leaderboard
from neatrec.models import Run, make_model, model_class
from neatrec.models.embeddings.item2vec import Item2VecProduct
from neatrec.models.embeddings.kernels import formulas
from neatrec.models.embeddings.kernels.formulas import Gaussians
from neatrec.models.embeddings.neat import Neat, NeatLikelihood

RUN = Run(rng=3, threads=1, reproducible=True)
SMALL: dict[str, Any] = {"dim": 8, "epochs": 3}
NAMES = ("neat", "neat-bpr", "item2vec", "triple2vec")


def fit(name: str, run: Run = RUN, **settings: Any) -> Any:
    return make_model(name, {**SMALL, **settings}).fit(toy_baskets(), run)


@pytest.mark.parametrize("name", NAMES)
def test_the_paper_preset_states_what_the_paper_states(name: str) -> None:
    p = make_model(name, preset="paper").parameters
    stated = (p.dim, p.window, p.negatives, p.epochs, p.batch_size, p.learning_rate, p.optimizer)
    assert stated == (100, 5, 5, 5, 128, 0.05, "sgd")
    assert p.batch_reduction == ("sum" if name == "item2vec" else "mean")  # the paper does not say
    assert p.reject_observed
    assert not p.negatives_shared
    if name.startswith("neat"):
        assert p.margin == 0.5


def four_shops() -> Baskets:
    """The toy shop four times over: in one alone every item is sooner or later bought with every other."""
    shop = toy_baskets()
    lists = [[f"{n}:{item}" for item in shop.items[a:b]] for n in range(4) for a, b in pairwise(shop.offsets)]
    return Baskets.from_lists(lists, users=[f"{n}:{user}" for n in range(4) for user in shop.users])


@pytest.mark.parametrize("name", NAMES)
def test_the_paper_preset_learns(name: str) -> None:
    model = make_model(name, {"dim": 8, "epochs": 6}, preset="paper").fit(four_shops(), RUN)
    losses = model.fit_info()["losses"]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0]


def test_a_fit_without_negatives_logs_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    settings = {**SMALL, "reject_observed": True}
    make_model("neat", settings).fit(four_shops(), RUN)
    assert "nothing was learned" not in caplog.text
    make_model("neat", settings).fit(toy_baskets(), RUN)
    assert caplog.text.count("had an active negative; with `reject_observed`") == 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_mini_batches_are_the_same_at_any_number_of_threads(name: str, reduction: str) -> None:
    settings: dict[str, Any] = {"optimizer": "sgd", "negatives_shared": False, "batch_reduction": reduction}
    settings |= {"learning_rate": 0.02, **({"min_user_baskets": 1} if name == "triple2vec" else {})}
    if name.startswith("neat"):
        # a sum over a batch leaps where variances are small and fast, or pairs many
        settings |= {"start_log_variance": 0.0, "variance_learning_rate": 0.05, "margin": 0.5, "window": 5}
        settings |= {"negatives": 5, "negative_exponent": 0.75}
    one = fit(name, Run(rng=3, threads=1), **settings)
    other = fit(name, Run(rng=3, threads=4), **settings)
    assert np.array_equal(one.item_vectors(), other.item_vectors())


def test_variants_share_a_fit() -> None:
    neat, likelihood = fit("neat"), fit("neat-likelihood")
    assert np.array_equal(neat.vectors, likelihood.vectors)
    assert np.array_equal(neat.log_variance, likelihood.log_variance)
    item2vec, product = fit("item2vec"), fit("item2vec-product")
    assert np.array_equal(item2vec.output, product.output)
    back = Item2VecProduct.from_arrays(item2vec.parameters, item2vec.catalog, item2vec.arrays())
    pairs = np.arange(4), np.arange(4, 8)
    assert np.array_equal(back.score(*pairs), product.score(*pairs))


@pytest.mark.parametrize(("name", "variant"), [("neat", "neat-likelihood"), ("item2vec", "item2vec-product")])
def test_a_leaderboard_trains_variants_once(name: str, variant: str) -> None:
    split = half(toy_baskets())
    rows = [make_model(row, SMALL) for row in (name, variant)]
    quick: dict[str, Any] = {"candidates": 16, "rounds": 100, "queries": 6, "carts": 10}
    options = LeaderboardOptions(protocol="paper", seed=3, threads=1, **quick)
    together = run_leaderboard(split.train, split.test, rows, options).trainings
    assert together[name][0].reused is None
    assert together[variant][0].reused == "arrays"
    alone = run_leaderboard(split.train, split.test, rows[1:], options).trainings
    assert alone[variant][0].reused is None
    one, other = (training[variant][0].ranks.arrays() for training in (together, alone))
    for key, array in one.items():
        np.testing.assert_array_equal(array, other[key], err_msg=key)


def test_models_score_by_their_formulas() -> None:
    model = fit("neat-likelihood")
    assert isinstance(model, NeatLikelihood)
    queries, items = (codes.ravel() for codes in np.indices((22, 22)))
    means, spread = model.vectors.astype(np.float64), model.log_variance[:, None].astype(np.float64)
    a, b = (Gaussians(means[codes], spread[codes]) for codes in (queries, items))
    likelihood = formulas.log_expected_likelihood(a, b)
    np.testing.assert_allclose(model.score(queries, items), likelihood, rtol=1e-9)
    np.testing.assert_allclose(model.score_all(np.arange(22)).ravel(), likelihood, rtol=1e-9)
    product = fit("item2vec-product")
    assert product.score([2], [7])[0] == pytest.approx(float(product.vectors[2] @ product.output[7]), rel=1e-5)
    triple = fit("triple2vec")
    np.testing.assert_array_equal(triple.vectors, triple.query_vectors + triple.partner_vectors)
    assert triple.arrays(users=True)["user_vectors"].shape == (len(triple.user_ids), 8)


@pytest.mark.parametrize("run", [RUN, Run(rng=3, threads=2)], ids=["reproducible", "fast"])
@pytest.mark.parametrize("least", [1, 3, 10_000])
def test_triple2vec_keeps_users_of_few_baskets_at_zero(least: int, run: Run) -> None:
    model, baskets = fit("triple2vec", run, min_user_baskets=least), toy_baskets()
    names = [baskets.user_ids[user].as_py() for user in baskets.users]
    few = np.array([names.count(user.as_py()) < least for user in model.user_ids])
    assert few.any() == (least > 1)
    assert few.all() == (least == 10_000)
    assert np.abs(model.user_vectors[few]).max(initial=0) < 1e-9
    assert (np.abs(model.user_vectors[~few]).max(axis=1, initial=0) > 1e-3).all()


def test_users_of_few_baskets_are_counted_over_all_shards() -> None:
    baskets = toy_baskets()
    shards = [baskets.select(np.arange(len(baskets)) % 2 == part) for part in (0, 1)]
    model = make_model("triple2vec", {**SMALL, "min_user_baskets": 2}).fit(shards, RUN)
    names = [baskets.user_ids[user].as_py() for user in baskets.users]
    once = np.array([names.count(user.as_py()) == 1 for user in model.user_ids])
    np.testing.assert_array_equal(np.abs(model.user_vectors).max(axis=1) < 1e-9, once)


def test_pairs_of_one_category_are_left_out_unless_all_are_kept() -> None:
    seen: dict[str | None, int] = {}
    for level in ("deepest", None):
        pairs = []
        fit("neat", replace(RUN, progress=lambda p, pairs=pairs: pairs.append(p.pairs)), category_level=level)
        seen[level] = pairs[-1]
    assert 0 < seen["deepest"] < seen[None]


def test_an_item_never_bought_keeps_its_initial_vector_and_is_never_drawn() -> None:
    never = code("saffron")
    start, end = fit("neat", epochs=1, learning_rate=1e-9), fit("neat")
    np.testing.assert_allclose(end.vectors[never], start.vectors[never], atol=1e-6)
    assert end.log_variance[never] == end.parameters.start_log_variance


@pytest.mark.parametrize(("visits", "epochs"), [(0.1, 5), (7.2, 7), (1e6, 320)])
def test_default_epochs_follow_the_amount_of_data(visits: float, epochs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = len(toy_baskets().items)
    monkeypatch.setattr(Neat, "lines_visited", int(visits * lines))
    model = make_model("neat", dim=4).fit(toy_baskets(), RUN)
    assert len(model.fit_info()["losses"]) == epochs
    assert make_model("neat", dim=4, epochs=2).fit(toy_baskets(), RUN).fit_info()["losses"][2:] == []


@pytest.mark.parametrize("name", NAMES)
def test_rejecting_observed_pairs_changes_the_vectors(name: str) -> None:
    assert not np.array_equal(fit(name).item_vectors(), fit(name, reject_observed=True).item_vectors())


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("neat", {"dim": 0}, "`dim` must be at least 1, got 0"),
        ("neat", {"margin": -1}, "`margin` must be at least 0"),
        ("neat", {"covariance": "diagonal"}, "`set` must be one of"),
        ("neat", {"start_log_variance": 3.0}, "`start_log_variance` must be between -4 and 2, got 3.0"),
        ("neat", {"optimizer": "sgd"}, "`negatives_shared` must be false with optimizer sgd"),
        ("neat-bpr", {"ranking_loss": "hinge"}, "`ranking_loss` must be one of printed, log, got 'hinge'"),
        ("item2vec", {"window": 0}, "`window` must be at least 1"),
        (
            "triple2vec",
            {"optimizer": "sgd", "negatives_shared": False, "min_user_baskets": 2},
            "`min_user_baskets` must be 1 with optimizer sgd, got 2",
        ),
        ("item2vec", {"negative_exponent": 3}, "`negative_exponent` must be at most 2"),
    ],
)
def test_invalid_settings_are_refused(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make_model(name, settings)


@pytest.mark.parametrize("name", ["neat", "neat-likelihood", "neat-bpr"])
def test_a_bundle_with_a_variance_for_each_dimension_is_refused(name: str) -> None:
    parameters = model_class(name).Parameters
    now = parameters().to_dict()
    assert parameters.from_saved({**now, "covariance": "spherical"}) == parameters.from_saved(now) == parameters()
    with pytest.raises(
        ParameterError, match="`covariance` must be spherical: other models no longer load, got 'diagonal'"
    ):
        parameters.from_saved({**now, "covariance": "diagonal"})


@pytest.mark.parametrize("loss", ["printed", "log"])
def test_both_ranking_losses_learn_users(loss: str) -> None:
    model = fit("neat-bpr", ranking_loss=loss, epochs=10)
    baskets = toy_baskets()
    bought = (model.user_vectors[baskets.users[baskets.basket_of_line]] * model.vectors[baskets.items]).sum(axis=1)
    other = np.random.default_rng(0).permutation(baskets.items)
    against = (model.user_vectors[baskets.users[baskets.basket_of_line]] * model.vectors[other]).sum(axis=1)
    assert (bought > against).mean() > 0.6


def test_catalogue_of_one_item_is_learned_without_pairs() -> None:
    model = make_model("neat", SMALL).fit(Baskets.from_lists([["tea"], ["tea"]]), RUN)
    assert model.score([0], [0])[0] == pytest.approx(1.0)
    assert model.fit_info()["losses"] == [0.0, 0.0, 0.0]
    assert len(toy_catalog()) > 1
