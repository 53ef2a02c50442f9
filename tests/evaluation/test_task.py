"""The task refuses leaks and is the same for every model; results come from ranks."""

from dataclasses import replace

import numpy as np
import pytest

from helpers.evaluation_data import NAMES, planted_baskets
from neatrec.data import Baskets, Catalog
from neatrec.errors import LeakError, ParameterError
from neatrec.evaluation import EvaluationTask, ModelRanks, build_task, evaluate_model, summarize
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


def test_the_planted_partner_is_first_by_lift_and_not_by_popularity(task, ranks) -> None:
    results = summarize(task, ranks, statistics=["shrunk-lift"], rounds=100)
    levels = [(level, name) for level in task.labels.levels for name in ("top5", "catalogue")]
    assert [(row["level"], row["candidates"]) for row in results.models[::2]] == levels
    for lift, pop in zip(results.models[:4:2], results.models[1:4:2], strict=True):
        assert (lift["model"], pop["model"]) == ("shrunk-lift", "pop")
        assert lift["labels"] == len(task.labels) >= 12
        assert lift["hr@1"] > 0.9 * lift["best_possible_hr@1"]
        assert pop["hr@1"] < 0.3
        assert lift["coverage"] > 0.5
        assert pop["over_statistic"] == pytest.approx(pop["hr@10"] - lift["hr@10"])
    assert (results.tests[0]["better"], results.tests[0]["worse"]) == ("shrunk-lift", "pop")


def test_measures_without_labels_stand_in_the_rows_of_the_first_level(task, ranks) -> None:
    rows = summarize(task, ranks, rounds=100).models
    assert rows[0]["held_out_lift@1"] > rows[1]["held_out_lift@1"]
    assert (rows[0]["carts"], "cart_hr@20" in rows[0], "carts" in rows[2]) == (20, True, False)


def test_slices_add_up_to_all_labels(task, ranks) -> None:
    results = summarize(task, ranks, rounds=100)
    first, by = results.models[0], {}
    for part in results.slices:
        if part["model"] == first["model"]:
            by.setdefault(part["by"], []).append(part)
    assert by.keys() == {
        "query popularity",
        "item popularity",
        "category",
        "label strength",
        "times seen in training",
    }
    for parts in by.values():
        assert sum(part["labels"] for part in parts) == first["labels"]
        hits = sum(part["labels"] * part["hr@10"] for part in parts)
        assert hits == pytest.approx(first["labels"] * first["hr@10"])


def test_baskets_and_labels_that_do_not_belong_together_are_refused(
    halves: tuple[Baskets, Baskets],
) -> None:
    train, test = halves
    other = replace(test, catalog=Catalog.from_ids(NAMES))
    few = np.arange(5)
    for wrong_train, wrong_test, labelled, error, message in (
        (test.select(few), test, test, LeakError, "training and evaluation share 5 baskets"),
        (train, test, train, LeakError, "the labels must come from the baskets of `test`"),
        (train, other, other, ParameterError, "must share one catalogue"),
    ):
        with pytest.raises(error, match=message):
            build_task(wrong_train, wrong_test, make_labels(labelled, protocol="paper"))
