"""What `bayes` does for each goal on baskets it never saw: run once, after the code is frozen, and reported whatever
comes out.

    NEATREC_DATA=FOLDER python -m benchmarks.bayes_claim half random-1 random-2 random-3 journey simulator

Without names: all of them. `half` and `random-S` split the Instacart train orders, `journey` is Complete Journey by
weeks (1-42 against 43-53), `simulator` compares with planted pairs.
Markdown comes out; with `--save` a record of each part goes to benchmarks/results.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.half_split import orders
from benchmarks.harness import save
from neatrec.data.baskets import Baskets
from neatrec.data.splits import Split, half, split_baskets
from neatrec.evaluation.intervals import interval, resampled_means
from neatrec.labels import LabelOptions, Labels, make_labels
from neatrec.leaderboard.run import LEVELS, LeaderboardOptions, run_leaderboard
from neatrec.models import MODEL_NAMES, Model, Run, make_model
from neatrec.reproduction.data import read_complete_journey
from neatrec.simulator import supermarket

Floats = npt.NDArray[np.float64]
OURS, BASELINE = "bayes", "shrunk-lift-tuned"
ROWS = ("bayes", "bayes@lift", "bayes@evidence", "shrunk-lift-tuned", "shrunk-lift", "llr", "jaccard")
PROTOCOLS = ("paper", "calibrated")
PAIRS = (
    ("bayes", "shrunk-lift-tuned"),
    ("bayes", "llr"),
    ("bayes@lift", "shrunk-lift-tuned"),
    ("bayes@evidence", "llr"),
)
"""Whose differences are printed."""
SIMULATED = ("bayes", *(name for name in MODEL_NAMES if name != "bayes"))


def board(name: str, train: Baskets, test: Baskets, protocols: tuple[str, ...], labels: Labels | None = None) -> Any:
    """What the models do on one split, by each protocol, printed and as a record; they are trained once."""
    found = {}
    with TemporaryDirectory() as folder:
        for protocol in protocols:
            # the rankings of the claim are those over all baskets; calibrated labels are within strata
            options = LeaderboardOptions(protocol=protocol, queries=1000, strata=())
            given = labels if protocol == "paper" else make_labels(test, LabelOptions(protocol, LEVELS))
            result = run_leaderboard(train, test, ROWS, options, labels=given, out=Path(folder)).to_json()
            _print_results(name, protocol, result)
            found[protocol] = {"seed": result["seed"], "hashes": result["hashes"], "results": slim(result["results"])}
            if protocol == protocols[0]:
                _print_rest(name, result)
                found[protocol] |= {"slices": slim(_by_times_seen(result)), "label_free": result["label_free"]}
    return found


def slim(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of results or slices: HR@10 and NDCG@10 of each model, and the intervals of the differences."""
    shown = ("level", "candidates", "by", "slice", "labels", "queries")
    out = []
    for part in parts:
        one: dict[str, Any] = {key: part[key] for key in shown if key in part}
        one["hr@10, ndcg@10"] = {
            model["name"]: (_at_ten(model, "hr"), _at_ten(model, "ndcg")) for model in part["models"]
        }
        one["better by"] = [
            f"{test['better']} over {test['worse']}, {test['metric']}: {test['ci'][0]:.4f} to {test['ci'][1]:.4f}"
            for test in part.get("tests", ())
            if test["metric"] in ("hr@10", "ndcg@10")
        ]
        out.append(one)
    return out


def journey() -> Any:
    """Weeks 43-53 of Complete Journey by what weeks 1-42 taught."""
    data = read_complete_journey(LEVELS)
    return board("journey", data.train, data.test, PROTOCOLS, data.labels)


def _print_results(name: str, protocol: str, result: dict[str, Any]) -> None:
    print(f"\n{name}, {protocol} labels: HR@10 / NDCG@10, and intervals of differences\n")
    print(f"| level | candidates | labels | {' | '.join(ROWS)} | {' | '.join(' - '.join(pair) for pair in PAIRS)} |")
    print("|---" * (3 + len(ROWS) + len(PAIRS)) + "|")
    for found in result["results"]:
        models = {model["name"]: _two(_both(model)) for model in found["models"]}
        ends = [" / ".join(_difference(found["tests"], m, *pair) for m in ("hr@10", "ndcg@10")) for pair in PAIRS]
        cells = (found["level"], found["candidates"], found["labels"], *(models[row] for row in ROWS), *ends)
        print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def _both(model: dict[str, Any]) -> tuple[float, float]:
    return model["hr"]["10"], model["ndcg"]["10"]


def _two(values: tuple[float, float]) -> str:
    return f"{values[0]:.3f} / {values[1]:.3f}"


def _difference(tests: list[dict[str, Any]], metric: str, one: str, other: str) -> str:
    """The interval of `one` less `other`."""
    for test in tests:
        if test["metric"] == metric and {test["better"], test["worse"]} == {one, other}:
            low, high = test["ci"] if test["better"] == one else (-test["ci"][1], -test["ci"][0])
            return f"{low:.3f} to {high:.3f}"
    return "not tested"


def _print_rest(name: str, result: dict[str, Any]) -> None:
    print(f"\n{name}: times seen in training\n")
    for part in _by_times_seen(result):
        shown = {model["name"]: model for model in part["models"]}
        numbers = {key: _two((_at_ten(shown[key], "hr"), _at_ten(shown[key], "ndcg"))) for key in (OURS, BASELINE)}
        print(part["candidates"], part["slice"], part["labels"], numbers)
    print(f"\n{name}: label-free\n")
    for measure, models in result["label_free"].items():
        for model, found in models.items():
            print(measure, model, {key: found[key] for key in ("lift", "hr", "ci") if key in found})
    costs = {model["name"]: (model["train_seconds"], model["peak_mb"]) for model in result["models"]}
    print(f"\n{name}: seconds and peak MB {costs}", flush=True)


def _by_times_seen(result: dict[str, Any]) -> list[dict[str, Any]]:
    """The slices by how often a label's pair was seen in training."""
    return [part for part in result["slices"] if "train" in part["by"] or "seen" in part["by"]]


def _at_ten(model: dict[str, Any], metric: str) -> float:
    value = model[metric]
    return float(value["10"] if isinstance(value, dict) else value)


def simulator() -> Any:
    """Share of the planted complements among as many first answers as a query has, for seeds not developed on."""
    records = []
    for seed in (0, 5, 11):
        market = supermarket(baskets=30_000, items=1_000, seed=seed)
        truth = market.truth
        queries = np.unique(truth.query)
        sizes = np.array([(truth.query == query).sum() for query in queries], dtype=np.float64)
        fitted: dict[str, Model] = {}
        hits = {name: _planted(_trained(name, market.baskets, fitted), truth, queries) for name in SIMULATED}
        for name in SIMULATED[1:]:
            low, high = interval(resampled_means((hits[OURS] - hits[name])[:, None], sizes))
            shares = [round(float(hits[row].sum() / sizes.sum()), 4) for row in (OURS, name)]
            records.append({"seed": seed, OURS: shares[0], name: shares[1], "ci": [float(low[0]), float(high[0])]})
            print(f"seed {seed}: bayes {shares[0]}, {name} {shares[1]}, {low[0]:.3f} to {high[0]:.3f}", flush=True)
    return records


def _trained(name: str, baskets: Baskets, fitted: dict[str, Model]) -> Model:
    """The model, fitted, or with what one in `fitted` learned that learns the same."""
    model = make_model(name)
    key = str(model.fit_key())
    twin = fitted.get(key)
    if twin is None:
        fitted[key] = model.fit(baskets, Run(rng=0))
        return fitted[key]
    return model.from_arrays(model.parameters, baskets.catalog, twin.arrays())


def _planted(model: Model, truth: Any, queries: npt.NDArray[np.int32]) -> Floats:
    wanted = [truth.item[truth.query == query] for query in queries]
    answers = [model.rank(int(query), len(items)).codes for query, items in zip(queries, wanted, strict=True)]
    return np.array([np.isin(items, codes).sum() for items, codes in zip(wanted, answers, strict=True)], dtype=float)


def parts_of(folder: Path | None) -> dict[str, Callable[[], Any]]:
    """What can be run, by name; `folder`: saved Instacart orders, instead of the order files."""

    def on(name: str, protocols: tuple[str, ...], split: Callable[[Baskets], Split]) -> Any:
        parted = split(orders(folder))
        return board(name, parted.train, parted.test, protocols)

    def at_random(seed: int) -> Callable[[], Any]:
        return lambda: on(f"random {seed}", PROTOCOLS, lambda baskets: split_baskets(baskets, "random", seed=seed))

    return {
        "half": lambda: on("half", PROTOCOLS, half),
        **{f"random-{seed}": at_random(seed) for seed in (1, 2, 3)},
        "journey": journey,
        "simulator": simulator,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = tuple(parts_of(None))
    parser.add_argument("parts", nargs="*", choices=[*names, []], metavar="PART", help=", ".join(names))
    parser.add_argument("--baskets", type=Path, help="a folder that `Baskets.save` wrote, instead of the order files")
    parser.add_argument("--save", action="store_true", help="keep a record of each part under benchmarks/results")
    asked = parser.parse_args()
    parts, chosen = parts_of(asked.baskets), asked.parts or list(names)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    print(f"commit {commit.stdout.strip()}")
    for name in chosen:
        started = time.process_time()
        record = {"commit": commit.stdout.strip(), name: parts[name]()}
        print(f"\n{name}: {time.process_time() - started:.0f} s of CPU", flush=True)
        if asked.save:
            save("bayes_claim", record, ("numpy", "scipy", "numba"), file=f"bayes_{name}", options=name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
