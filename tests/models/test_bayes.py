"""`bayes`: what it learns, when it is shrunk lift."""

from __future__ import annotations

import logging
from functools import cache

import numpy as np
import pytest

from helpers.toyshop import toy_baskets
from neatrec.data.baskets import Baskets
from neatrec.data.catalog import Catalog
from neatrec.errors import ParameterError
from neatrec.models import Run, make_model
from neatrec.models.bayes import GOALS, Bayes
from neatrec.models.bayes.features import PRIOR_FEATURES
from neatrec.simulator import supermarket


@cache
def shop(baskets: int = 12_000) -> object:
    return supermarket(baskets=baskets, items=500, seed=2)


@cache
def model() -> Bayes:
    fitted = make_model("bayes", rank=32).fit(shop().baskets, Run(threads=1))  # type: ignore[attr-defined]
    assert isinstance(fitted, Bayes)
    return fitted


def planted_found(name: str, first: int = 10) -> float:
    """Share of the planted complements among the first answers."""
    market = shop()
    fitted = model() if name == "bayes" else make_model(name).fit(market.baskets)  # type: ignore[attr-defined]
    truth = market.truth  # type: ignore[attr-defined]
    found = 0
    for query in np.unique(truth.query):
        found += np.isin(truth.item[truth.query == query], fitted.rank(int(query), first).codes).sum()
    return float(found / len(truth.query))


def test_finds_more_planted_complements_than_the_tuned_statistic() -> None:
    assert planted_found("bayes") > planted_found("shrunk-lift-tuned") + 0.01


def test_says_what_it_learned() -> None:
    learned = model().fit_info()
    assert learned["prior"] == "features"
    assert tuple(learned["weights"]) == tuple(PRIOR_FEATURES)
    assert learned["validation"]["bayes"] > learned["validation"]["shrunk_lift"]
    assert 0 <= learned["near"] <= 1
    assert learned["k"] > 0


def test_too_few_strong_pairs_make_it_shrunk_lift(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="neatrec"):
        fitted = make_model("bayes").fit(toy_baskets(60))
    assert "no prior is fitted, statistics rank" in caplog.text
    assert fitted.fit_info()["prior"] == "none: shrunk lift"
    plain = make_model("shrunk-lift", k=1).fit(toy_baskets(60))
    np.testing.assert_allclose(fitted.score_all(np.arange(22)), plain.score_all(np.arange(22)), rtol=1e-6)


def test_priors_that_do_not_help_make_it_shrunk_lift(caplog: pytest.LogCaptureFixture) -> None:
    """Pairs that nothing foretells: each item has one partner, and its other companions are drawn at random."""
    rng = np.random.default_rng(4)
    lists = []
    for _ in range(8000):
        pair = rng.integers(200)
        lists.append([f"left-{pair}", f"right-{pair}", *(f"rare-{n}" for n in rng.choice(4000, size=2, replace=False))])
    with caplog.at_level(logging.INFO, logger="neatrec"):
        fitted = make_model("bayes", rank=4).fit(Baskets.from_lists(lists, ordered=False))
    learned = fitted.fit_info()
    assert learned["strong_pairs"] >= 400
    assert learned["prior"] == "none: shrunk lift"
    assert "priors do not help on validation baskets" in caplog.text
    plain = make_model("shrunk-lift", k=learned["k"]).fit(Baskets.from_lists(lists, ordered=False))
    np.testing.assert_allclose(fitted.score_all(np.arange(50)), plain.score_all(np.arange(50)), rtol=1e-5)


def test_knows_nothing_of_names_and_categories_where_there_are_none() -> None:
    rng = np.random.default_rng(0)
    lists = [[f"i{n}" for n in rng.choice(60, size=4, replace=False)] for _ in range(300)]
    fitted = make_model("bayes", rank=8).fit(
        Baskets.from_lists(lists, catalog=Catalog.from_ids(f"i{n}" for n in range(60)))
    )
    assert isinstance(fitted, Bayes)
    assert fitted.features.available.tolist() == [
        name in ("level", "low_rank", "item_popularity") for name in PRIOR_FEATURES
    ]
    assert np.isfinite(fitted.score_all(np.arange(60))).all()


def test_device_gpu_fits_on_the_cpu_and_logs_it(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="neatrec"):
        fitted = make_model("bayes").fit(toy_baskets(60), Run(device="gpu"))
    assert "fitting bayes on the CPU: it has no GPU kernels" in caplog.text
    plain = make_model("bayes").fit(toy_baskets(60), Run(device="cpu"))
    np.testing.assert_array_equal(fitted.score_all([1, 2]), plain.score_all([1, 2]))


def test_gives_vectors_of_its_low_rank_part() -> None:
    vectors = model().item_vectors()
    assert vectors is not None
    assert vectors.shape == (len(model().catalog), 32)


# ---- goals


def by_goal() -> dict[str, Bayes]:
    return {goal: model().with_goal(goal) for goal in GOALS}


def test_goals_share_a_fit() -> None:
    models = by_goal()
    assert models["balanced"].fit_info() == models["evidence"].fit_info()
    assert len({str(model.fit_key()) for model in models.values()}) == 1
    goals = models["lift"].fit_info()["goals"]
    assert tuple(goals) == GOALS
    assert all(goal["ranks_by"] in ("odds", "posterior-lift", "llr", "shrunk-lift") for goal in goals.values())
    rows = {row["name"]: row for row in models["lift"].fit_info()["comparison"]}
    evidence, g2 = rows["bayes evidence"], rows["llr"]
    assert evidence["evidence_gain"] >= g2["evidence_gain"] > g2["evidence_low"] > 0


def test_goal_evidence_prefers_the_more_significant_of_two_pairs() -> None:
    models = by_goal()
    bayes = models["lift"]
    queries, counts = np.argsort(-bayes.item_count)[:100], bayes.features.counts

    def times(model: Bayes) -> float:
        answers = [model.rank(int(query), 5).codes for query in queries]
        query = np.repeat(queries, [len(codes) for codes in answers]).astype(np.int32)
        return float(counts.of_pairs(query, np.concatenate(answers)).mean())

    assert times(models["evidence"]) >= times(models["balanced"]) >= times(models["lift"])
    assert times(models["evidence"]) > times(models["lift"])


def test_without_odds_of_evidence_g2_ranks() -> None:
    evidence, llr = (make_model(name).fit(toy_baskets(60)) for name in ("bayes-sure", "llr"))
    assert evidence.fit_info()["goals"]["evidence"] == {"ranks_by": "llr"}
    np.testing.assert_allclose(evidence.score_all(np.arange(22)), llr.score_all(np.arange(22)))
    np.testing.assert_allclose(evidence.score([1, 2], [5, 6]), llr.score([1, 2], [5, 6]))


def test_the_older_name_of_goal_evidence_is_a_model() -> None:
    assert make_model("bayes-sure").parameters == make_model("bayes", goal="evidence").parameters
    assert make_model("bayes").parameters.goal == "balanced"
    with pytest.raises(ParameterError, match="`goal` must be one of balanced, lift, evidence, got 'best'"):
        make_model("bayes", goal="best")
