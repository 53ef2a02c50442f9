"""The leaderboard: its shape, what it refuses, models from elsewhere."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from helpers.dated_shop import dated_shop
from helpers.evaluation_data import NAMES, planted_baskets
from neatrec import LeaderboardOptions, run_leaderboard
from neatrec.cli.leaderboard import show_leaderboard
from neatrec.data import Split, half
from neatrec.errors import LeakError, MissingDependencyError, ParameterError, ResourceError
from neatrec.leaderboard import Leaderboard
from neatrec.leaderboard.model_specs import model_specs
from neatrec.models.statistics import LLR, Jaccard, PopCo

QUICK = LeaderboardOptions(protocol="paper", candidates=16, rounds=100, queries=6, carts=10)


@pytest.fixture(scope="module")
def split() -> Split:
    return half(planted_baskets(800, seed=4))


@pytest.fixture(scope="module")
def leaderboard(split: Split) -> Leaderboard:
    models = ["pop", "popco", "shrunk-lift"]
    return run_leaderboard(split.train, split.test, models, QUICK, split={"method": "half"})


class Shuffled(PopCo):
    """A model whose answers depend on the seed."""

    name: ClassVar[str] = "shuffled"
    kind: ClassVar[str] = "hybrid"
    fits: ClassVar[list[int]] = []

    def fit(self, baskets: Any, run: Any = None) -> Any:
        self.fits.append(run.rng)
        self.noise = np.random.default_rng(run.rng).random((len(NAMES), len(NAMES)))
        return super().fit(baskets, run)

    def score(self, queries: Any, items: Any) -> Any:
        return self.noise[queries, items]

    def score_all(self, queries: Any) -> Any:
        return self.noise[queries]


class BareBones:
    """An outside model that keeps only the part of the contract that is used."""

    def fit(self, baskets: Any, run: Any = None) -> BareBones:
        self.count = baskets.item_counts
        return self

    def score(self, queries: Any, items: Any) -> Any:
        return self.count[items].astype(float)

    def score_all(self, queries: Any) -> Any:
        return np.tile(self.count.astype(float), (len(queries), 1))


class NotAModel:
    pass


def misses_a_library(*_: Any) -> None:
    raise MissingDependencyError("the library is not there", hint="Install it.")


def does_not_fit(*_: Any) -> None:
    raise ResourceError("it needs more memory than there is", hint="Buy some.")


def rows_of(leaderboard: Leaderboard) -> dict[str, dict[str, Any]]:
    """The rows of the first level on the candidate set, by model."""
    return {row["model"]: row for row in leaderboard.first_rows()}


def test_json_holds_the_rows_of_the_table(leaderboard: Leaderboard) -> None:
    answer = leaderboard.to_json()
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
    assert (answer["split"], answer["protocol"]) == ({"method": "half"}, "paper")
    assert answer["results"] == leaderboard.to_arrow().to_pylist()
    groups = [(row["level"], row["candidates"]) for row in answer["results"]]
    assert list(dict.fromkeys(groups)) == [
        (level, name) for level in (0.05, 0.01, 0.001) for name in ("top16", "catalogue")
    ]
    for row in rows_of(leaderboard).values():
        assert row["hr@10_low"] <= row["hr@10"] <= row["hr@10_high"] <= 1
        assert row["hr@10"] <= row["best_possible_hr@10"]
        assert row["train_seconds"] >= 0
        assert row["peak_mb"] > 10


def test_the_best_model_comes_first(leaderboard: Leaderboard) -> None:
    rows = leaderboard.to_arrow().to_pylist()
    for start in range(0, len(rows), 3):
        scores = [row["hr@10"] for row in rows[start : start + 3]]
        assert scores == sorted(scores, reverse=True)
    assert rows[0]["hr@1"] > 0.9
    assert rows[2]["model"] == "pop"
    assert "one training seed" in rows[2]["intervals_cover"]


def test_a_model_that_depends_on_the_seed_is_trained_with_each(split: Split) -> None:
    Shuffled.fits.clear()
    models = ["popco", Shuffled()]
    leaderboard = run_leaderboard(split.train, split.test, models, replace(QUICK, seeds=3, seed=7))
    assert Shuffled.fits == [7, 8, 9]
    lines = rows_of(leaderboard)
    assert lines["shuffled"]["seeds"] == 3
    assert lines["shuffled"]["hr@10_sd"] > 0
    assert lines["shuffled"]["intervals_cover"] == "the choice of items and training seeds"
    # popco comes out the same: the second training is the last
    assert lines["popco"]["seeds"] == 2
    assert lines["popco"]["hr@10_sd"] == 0
    assert "does not depend on the seed" in lines["popco"]["intervals_cover"]


def test_all_models_is_the_default_and_those_that_cannot_learn_are_named(
    split: Split, monkeypatch
) -> None:
    monkeypatch.setattr(
        "neatrec.leaderboard.model_specs.MODEL_NAMES", ("pop", "jaccard", "llr", "popco")
    )
    monkeypatch.setattr(PopCo, "_fit", does_not_fit)
    monkeypatch.setattr(Jaccard, "needs_users", True)
    monkeypatch.setattr(LLR, "_fit", misses_a_library)
    leaderboard = run_leaderboard(split.train, split.test, options=QUICK)
    assert list(rows_of(leaderboard)) == ["pop"]
    assert leaderboard.to_json()["skipped"] == {
        "jaccard": "it learns from users, and these baskets name none",
        "llr": "the library is not there",
        "popco": "it needs more memory than there is",
    }


def test_an_external_class_joins_by_its_address(split: Split) -> None:
    leaderboard = run_leaderboard(
        split.train, split.test, ["pop", "test_leaderboard:BareBones"], QUICK
    )
    lines = rows_of(leaderboard)
    outside = lines["test_leaderboard:BareBones"]
    assert outside["kind"] == "external"
    assert outside["hr@10"] == lines["pop"]["hr@10"]
    assert outside["carts"] is None


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("no_such_package:Model", "cannot import the model no_such_package:Model"),
        ("test_leaderboard:Absent", "cannot import the model test_leaderboard:Absent: module"),
        (
            "test_leaderboard:NotAModel",
            "must be a class with fit, score, score_all, it has no fit, score, score_all",
        ),
        ("test_leaderboard:", "`model` must be a model's name or an address pkg.mod:Class"),
        ("popcorn", "`model` must be one of .* Did you mean 'popco'?"),
    ],
)
def test_models_that_are_none_are_refused(split: Split, address: str, sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        run_leaderboard(split.train, split.test, [address], QUICK)


def test_two_rows_of_one_name_and_an_empty_table_are_refused(split: Split) -> None:
    with pytest.raises(ParameterError, match="two models of the leaderboard are called 'pop'"):
        run_leaderboard(split.train, split.test, ["pop", "pop"], QUICK)
    with pytest.raises(ParameterError, match="a leaderboard needs at least one model"):
        run_leaderboard(split.train, split.test, [], QUICK)


def test_training_on_test_baskets_is_refused(split: Split) -> None:
    with pytest.raises(LeakError, match="training and evaluation share"):
        run_leaderboard(split.test, split.test, ["pop"], QUICK)


@pytest.mark.parametrize(
    ("options", "within"),
    [
        ({}, ["month", "store"]),
        ({"strata": ("size", "store")}, ["store"]),
        ({"strata": ("none",)}, []),
        ({"protocol": "paper"}, []),
    ],
)
def test_models_are_trained_within_the_strata_that_train_uses(
    options: dict[str, Any], within: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    parts = half(dated_shop())
    options = {"protocol": "calibrated", "min_basket": 2, **options}
    quick = replace(QUICK, **options)
    result = run_leaderboard(parts.train, parts.test, ["shrunk-lift"], quick)
    assert [name for name in result.options.strata if name != "basket_size"] == within
    [spec], _ = model_specs(["shrunk-lift"], parts.train, result.options.strata)
    assert spec.make().parameters.strata == (",".join(within) or None)
    if options["protocol"] == "calibrated":
        show_leaderboard(result)
        words = f"within {', '.join(within)}" if within else "over all baskets"
        shown = " ".join(capsys.readouterr().out.split())
        assert f"Models compare counts with chance {words}." in shown
