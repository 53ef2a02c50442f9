"""What the demo says about its models; the whole of it runs in the tests of the README."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from neatrec import demo
from neatrec.demo import Demo
from neatrec.simulator import supermarket
from neatrec.training.train import DEFAULT_MODEL


def answered(first: list[int]) -> list[Any]:
    """A training that names these first, and item 0 after them."""
    best = np.array([[item, 0] for item in first], dtype=np.int32)
    label_ranks = {"top200": SimpleNamespace(best=np.zeros_like(best)), "catalogue": SimpleNamespace(best=best)}
    return [SimpleNamespace(ranks=SimpleNamespace(label_ranks=label_ranks))]


def test_the_model_that_train_takes_is_compared_too() -> None:
    assert DEFAULT_MODEL in demo._model_specs()


def test_first_answers_are_held_against_the_truth_the_best_model_first() -> None:
    market = supermarket(seed=0, baskets=50)
    queries, items = market.truth.query[:4], market.truth.item[:4]
    unplanted = next(
        v for v in range(market.truth.items) if not market.truth.is_complement(queries, np.full(4, v)).any()
    )
    trainings = {
        "half": answered([items[0], items[1], unplanted, -1]),
        "right": answered(items.tolist()),
        "silent": answered([-1, -1, -1, -1]),
        "wrong": answered([unplanted, -1, -1, -1]),
    }
    task: Any = SimpleNamespace(
        label_queries=SimpleNamespace(queries=queries), catalogue=SimpleNamespace(name="catalogue")
    )
    leaderboard: Any = SimpleNamespace(task=task, trainings=trainings)
    nothing: Any = None
    shown = Demo(market, nothing, nothing, nothing, nothing, leaderboard, nothing, Path(), Path()).planted()
    assert list(shown.items()) == [("right", 1.0), ("half", 2 / 3), ("silent", 0.0), ("wrong", 0.0)]
