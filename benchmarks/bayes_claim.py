"""What `bayes` does on test baskets: run once, after the code is frozen, and reported whatever comes out.

    NEATREC_DATA=FOLDER python -m benchmarks.bayes_claim half random-1 random-2 random-3 journey simulator cold

Without names: all of them. `half` and `random-S` split the Instacart train orders, `journey` is Complete Journey
by weeks (1-42 against 43-53), `simulator` compares with planted pairs, `cold` hides items. Markdown comes out.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.bayes_validation import the_split
from neatrec.baskets import Baskets
from neatrec.evaluation.bootstrap import interval, resampled_means
from neatrec.evaluation.exam import make_exam, sit
from neatrec.evaluation.metrics import hit_rate, ndcg
from neatrec.experiments.leaderboard import run_leaderboard
from neatrec.labels import make_labels
from neatrec.models import Run, make_model
from neatrec.sources import read_baskets
from neatrec.sources.supermarket import supermarket
from neatrec.splits import Split, split_baskets, uniform_of_ids

Floats = npt.NDArray[np.float64]
OURS, BASELINE = "bayes", "shrunk-lift-tuned"
STATISTICS = ("shrunk-lift-tuned", "shrunk-lift", "llr")
HIDDEN = 0.1
"""Share of the items with at least 50 purchases that are hidden."""


def board(name: str, split: Split, protocols: tuple[str, ...]) -> None:
    """Prints what the models do on one split, by each protocol; they are trained once."""
    with TemporaryDirectory() as folder:
        for protocol in protocols:
            result = run_leaderboard(
                split.train, split.test, [OURS, *STATISTICS], protocol=protocol, out=Path(folder), queries=1000
            ).to_json()
            _print_results(name, protocol, result)
            if protocol == protocols[0]:
                _print_rest(name, result)


def _print_results(name: str, protocol: str, result: dict[str, Any]) -> None:
    print(f"\n{name}, {protocol} labels\n")
    print("| level | candidates | labels | bayes | shrunk-lift-tuned | best other | ratio | HR diff. | NDCG diff. |")
    print("|---|---|---|---|---|---|---|---|---|")
    for found in result["results"]:
        models = {model["name"]: model for model in found["models"]}
        ours, base = _both(models[OURS]), _both(models[BASELINE])
        best = max((name for name in models if name not in (OURS, BASELINE)), key=lambda name: _both(models[name])[0])
        ratio = [mine / other for mine, other in zip(ours, base, strict=True)]
        cells = (found["level"], found["candidates"], found["labels"], _two(ours), _two(base))
        ends = [_difference(found["tests"], metric) for metric in ("hr@10", "ndcg@10")]
        more = f"{best} {_two(_both(models[best]))}", f"{ratio[0]:.3f} / {ratio[1]:.3f}", *ends
        print("| " + " | ".join(str(cell) for cell in (*cells, *more)) + " |", flush=True)


def _both(model: dict[str, Any]) -> tuple[float, float]:
    return model["hr"]["10"], model["ndcg"]["10"]


def _two(values: tuple[float, float]) -> str:
    return f"{values[0]:.3f} / {values[1]:.3f}"


def _difference(tests: list[dict[str, Any]], metric: str) -> str:
    """The interval of bayes less the baseline."""
    for test in tests:
        if test["metric"] == metric and {test["better"], test["worse"]} == {OURS, BASELINE}:
            low, high = test["ci"] if test["better"] == OURS else (-test["ci"][1], -test["ci"][0])
            return f"{low:.3f} to {high:.3f}"
    return "not tested"


def _print_rest(name: str, result: dict[str, Any]) -> None:
    print(f"\n{name}: times seen in training\n")
    for part in result["slices"]:
        if "train" in part["by"] or "seen" in part["by"]:
            shown = {model["name"]: model for model in part["models"]}
            numbers = {key: _two((_at_ten(shown[key], "hr"), _at_ten(shown[key], "ndcg"))) for key in (OURS, BASELINE)}
            print(part["candidates"], part["slice"], part["labels"], numbers)
    print(f"\n{name}: label-free\n")
    for measure, models in result["label_free"].items():
        for model, found in models.items():
            print(measure, model, {key: found[key] for key in ("lift", "hr", "ci") if key in found})
    costs = {model["name"]: (model["train_seconds"], model["peak_mb"]) for model in result["models"]}
    print(f"\n{name}: seconds and peak MB {costs}", flush=True)


def _at_ten(model: dict[str, Any], metric: str) -> float:
    value = model[metric]
    return float(value["10"] if isinstance(value, dict) else value)


def simulator() -> None:
    """Share of the planted complements among as many first answers as a query has, for seeds not developed on."""
    for seed in (0, 5, 11):
        market = supermarket(baskets=30_000, items=1_000, seed=seed)
        truth, models = market.truth, (OURS, *STATISTICS, "neat", "item2vec")
        queries = np.unique(truth.query)
        sizes = np.array([(truth.query == query).sum() for query in queries], dtype=np.float64)
        hits = {name: _planted(name, market.baskets, truth, queries) for name in models}
        for name in models[1:]:
            low, high = interval(resampled_means((hits[OURS] - hits[name])[:, None], sizes))
            shares = hits[OURS].sum() / sizes.sum(), hits[name].sum() / sizes.sum()
            print(
                f"seed {seed}: bayes {shares[0]:.3f}, {name} {shares[1]:.3f}, {low[0]:.3f} to {high[0]:.3f}", flush=True
            )


def _planted(name: str, baskets: Baskets, truth: Any, queries: npt.NDArray[np.int32]) -> Floats:
    model = make_model(name).fit(baskets, Run(rng=0))
    wanted = [truth.item[truth.query == query] for query in queries]
    answers = [model.recommend(int(query), len(items)).codes for query, items in zip(queries, wanted, strict=True)]
    return np.array([np.isin(items, codes).sum() for items, codes in zip(wanted, answers, strict=True)], dtype=float)


def cold(source: str) -> None:
    """Items that are hidden but for a few training baskets: labels that ask for their company, whole catalogue."""
    split = split_baskets(read_baskets(source), "half")
    chosen = uniform_of_ids(split.train.catalog.ids, "cold") < HIDDEN
    chosen &= split.train.item_counts >= 50
    labels = make_labels(split.test, "paper")
    print("\n| purchases kept | labels | bayes | shrunk-lift-tuned |\n|---|---|---|---|")
    for kept in (0, 3, 10):
        train = without(split.train, chosen, kept)
        exam = make_exam(train, split.test, labels, queries=0, carts=0)
        asked = chosen[exam.asked.query] & exam.mask(0.05)
        cells = []
        for name in (OURS, BASELINE):
            judged = sit(make_model(name).fit(train, Run(rng=0)), exam, label_free=False).judged["catalogue"]
            pair = tuple(metric(judged.higher, judged.equal, 10)[asked].mean() for metric in (hit_rate, ndcg))
            cells.append(_two((float(pair[0]), float(pair[1]))))
        print(f"| {kept} | {asked.sum()} | {cells[0]} | {cells[1]} |", flush=True)


def without(baskets: Baskets, hidden: npt.NDArray[np.bool_], kept: int) -> Baskets:
    """The baskets with only the first `kept` lines of each hidden item."""
    order = np.argsort(baskets.items, kind="stable")
    codes = baskets.items[order]
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order)) - np.searchsorted(codes, codes)
    stays = ~hidden[baskets.items] | (place < kept)
    ends = np.concatenate([[0], np.cumsum(stays)])
    return replace(baskets, items=baskets.items[stays], offsets=ends[baskets.offsets])


def main() -> int:
    data = os.environ.get("NEATREC_DATA")
    if not data:
        print("needs the Instacart 2017 orders: set NEATREC_DATA", file=sys.stderr)
        return 0
    source = f"{data}/instacart"
    halves: dict[str, Callable[[], None]] = {
        f"random-{seed}": lambda seed=seed: board(  # type: ignore[misc]
            f"random {seed}", split_baskets(read_baskets(source), "random", seed=seed), ("paper",)
        )
        for seed in (1, 2, 3)
    }
    parts: dict[str, Callable[[], None]] = {
        "half": lambda: board("half", split_baskets(read_baskets(source), "half"), ("paper", "calibrated")),
        **halves,
        "journey": lambda: board("journey", the_split("complete-journey", "time"), ("paper",)),
        "simulator": simulator,
        "cold": lambda: cold(source),
    }
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    print(f"commit {commit.stdout.strip()}")
    for name in sys.argv[1:] or parts:
        started = time.monotonic()
        parts[name]()
        print(f"\n{name}: {time.monotonic() - started:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
