"""Particulars of the embedding models: settings, presets, users, negatives."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from helpers.toyshop import toy_baskets
from neatrec.data import Baskets
from neatrec.errors import ParameterError
from neatrec.models import Run, make_model

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
    """The toy shop four times: in one alone every item is bought with every other."""
    shop = toy_baskets()
    lists = [
        [f"{n}:{item}" for item in shop.items[a:b]]
        for n in range(4)
        for a, b in pairwise(shop.offsets)
    ]
    return Baskets.from_lists(lists, users=[f"{n}:{user}" for n in range(4) for user in shop.users])


@pytest.mark.parametrize("name", NAMES)
def test_the_paper_preset_learns(name: str) -> None:
    model = make_model(name, {"dim": 8, "epochs": 6}, preset="paper").fit(four_shops(), RUN)
    losses = model.learned["losses"]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0]


def test_triple2vec_ranks_by_the_sum_of_both_vectors() -> None:
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


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("neat", {"start_log_variance": 3.0}, "must be between -4 and 2, got 3.0"),
        ("neat-bpr", {"ranking_loss": "hinge"}, "must be one of printed, log, got 'hinge'"),
        (
            "triple2vec",
            {"optimizer": "sgd", "negatives_shared": False, "min_user_baskets": 2},
            "`min_user_baskets` must be 1 with optimizer sgd, got 2",
        ),
    ],
)
def test_invalid_settings_are_refused(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make_model(name, settings)
