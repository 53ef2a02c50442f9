"""The task guards against leaks, is the same for every model, and results can be recomputed from saved ranks."""

from dataclasses import replace

import numpy as np
import pytest

from helpers.evaluation_data import NAMES, pair_counts, planted_baskets
from neatrec.data import Baskets, Catalog
from neatrec.errors import LeakError, ParameterError
from neatrec.evaluation import (
    EvaluationTask,
    ModelRanks,
    SummaryOptions,
    build_task,
    evaluate_model,
    summarize,
)
from neatrec.labels import make_labels
from neatrec.models import make_model


@pytest.fixture(scope="module")
def halves() -> tuple[Baskets, Baskets]:
    return planted_baskets(400), planted_baskets(400, seed=10_000, first_id=10_000)


@pytest.fixture(scope="module")
def task(halves: tuple[Baskets, Baskets]) -> EvaluationTask:
    train, test = halves
    return build_task(
        train, test, make_labels(test, protocol="paper"), candidates=5, queries=8, carts=20
    )


@pytest.fixture(scope="module")
def ranks(task: EvaluationTask, halves: tuple[Baskets, Baskets]) -> dict[str, list[ModelRanks]]:
    return {
        name: [evaluate_model(make_model(name).fit(halves[0]), task)]
        for name in ("shrunk-lift", "pop")
    }


def test_the_planted_partner_is_found_first_by_lift_and_not_by_popularity(task, ranks) -> None:
    found = summarize(task, ranks, SummaryOptions(rounds=200))
    for candidates in ("top5", "catalogue"):
        result = found.result(0.05, candidates)
        assert result.summary.labels == len(task.labels) >= 12
        assert result.summary.by_name("shrunk-lift").mean["hr@1"] > 0.9 * result.ceiling[1]
        assert result.summary.by_name("pop").mean["hr@1"] < 0.3
        assert (result.summary.tests[0].better, result.summary.tests[0].worse) == (
            "shrunk-lift",
            "pop",
        )
        assert result.recommended["shrunk-lift"].coverage > 0.5


def test_every_measure_is_summarized(
    task: EvaluationTask, ranks: dict[str, list[ModelRanks]]
) -> None:
    found = summarize(task, ranks, SummaryOptions((1, 5, 30), rounds=200))
    assert [(r.level, r.candidates) for r in found.results] == [
        (level, name) for level in task.labels.levels for name in ("top5", "catalogue")
    ]
    assert found.held_out["shrunk-lift"].lift[1][0] > found.held_out["pop"].lift[1][0]
    assert set(found.completion["shrunk-lift"].hr) == {1, 5}  # no more than 20 ranks are kept
    assert found.completion["shrunk-lift"].carts == 20
    assert {each.by for each in found.slices["top5"]} >= {"category", "times seen in training"}
    assert found.results[0].summary.by_name("pop").mean["hr@30"] <= 1.0


def test_measures_can_be_left_out(task: EvaluationTask, halves: tuple[Baskets, Baskets]) -> None:
    train, test = halves
    without = build_task(
        train, test, make_labels(test, protocol="paper"), candidates=5, queries=0, carts=0
    )
    model = make_model("popco").fit(train)
    ranks = evaluate_model(model, without)
    for each in (ranks, evaluate_model(model, task, label_free=False)):
        assert (each.held_out, each.cart_answers) == (None, None)
        assert set(each.label_ranks) == {"top5", "catalogue"}
    found = summarize(without, {"popco": [ranks]}, SummaryOptions(rounds=100))
    assert found.held_out == found.completion == {}


def test_training_counts_of_the_labels_are_those_of_the_training_baskets(
    task, halves: tuple[Baskets, Baskets]
) -> None:
    together, queries = pair_counts(halves[0]), task.label_queries
    wanted = [
        together.get(pair, 0)
        for pair in zip(queries.query.tolist(), queries.item.tolist(), strict=True)
    ]
    assert task.pair_count.tolist() == wanted


def test_baskets_and_labels_that_do_not_belong_together_are_refused(
    halves: tuple[Baskets, Baskets],
) -> None:
    train, test = halves
    other = replace(test, catalog=Catalog.from_ids(NAMES))
    few = np.arange(5)
    for wrong_train, wrong_test, labelled, error, message in (
        (test.select(few), test, test, LeakError, "training and evaluation share 5 baskets"),
        (train, test, train, LeakError, "the labels come from the training baskets"),
        (
            train,
            test,
            test.select(np.arange(300)),
            ParameterError,
            "the labels come from other baskets than `test`",
        ),
        (train, other, other, ParameterError, "must be over one catalogue"),
    ):
        with pytest.raises(error, match=message):
            build_task(wrong_train, wrong_test, make_labels(labelled, protocol="paper"))
