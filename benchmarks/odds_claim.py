"""The default ranking on held-out baskets: run once, after the code is frozen.

    NEATREC_DATA=FOLDER python -m benchmarks.odds_claim [PART...] [--save]

Parts: `half` and `random-S` split the Instacart train orders, `journey` is Complete Journey by
weeks (1-42 against 43-53) and `journey-random` by a random half, `cold` hides a quarter of the
items, `cost` measures a fit and `neatrec train`. `scale` alone, with a record of its own, measures
a `train` on ten million simulated baskets of a million items (20 minutes). HR@10 and NDCG@10 of
the labels at 0.05 among the 200 items bought most often with the query, by both protocols;
intervals are those of the paired difference to the statistic that is best *on these labels*,
resampling queries.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.half_split import orders
from benchmarks.harness import argument_parser, commit, data_folder, measure_in_turn, save, summary
from neatrec.data.baskets import Baskets
from neatrec.data.splits import Split, half, split_baskets, uniform_of_ids
from neatrec.evaluation.intervals import interval, resampled_means
from neatrec.evaluation.metrics import hit_rate, ndcg
from neatrec.evaluation.ranks import LabelRanks, rank_labels
from neatrec.evaluation.task import EvaluationTask, build_task
from neatrec.labels import make_labels
from neatrec.models import Model, Run, make_model, rank

Floats = npt.NDArray[np.float64]

GOALS = {"odds": "balanced", "odds@lift": "lift", "odds@evidence": "evidence"}
STATISTICS = ("shrunk-lift-tuned", "shrunk-lift", "llr", "jaccard", "lift", "popco")
PROTOCOLS = ("paper", "calibrated")
SCALE = "supermarket:baskets=10000000,items=1000000"
LEVEL, K, HIDDEN = 0.05, 10, 0.25


def sums_by_query(ranks: LabelRanks, task: EvaluationTask) -> Floats:
    """Hits, gains and labels of each query, shape (queries, 3)."""
    hits, gains = hit_rate(ranks.higher, ranks.equal, K), ndcg(ranks.higher, ranks.equal, K)
    values = np.stack([hits, gains, np.ones(len(hits))], axis=1)
    return np.asarray(np.add.reduceat(values, task.label_queries.offsets[:-1]))


def board(
    models: dict[str, Model], train: Baskets, test: Baskets, protocol: str, min_basket: int = 5
) -> dict[str, Any]:
    """Each model's HR@10 and NDCG@10, and the goals less the best of the others."""
    labels = make_labels(test, protocol=protocol, levels=(LEVEL,), min_basket=min_basket)
    if not len(labels):
        return {"labels": 0}
    task = build_task(train, test, labels, queries=0, carts=0)
    sums = {
        name: sums_by_query(rank_labels(model, task.candidate_set, task.label_queries), task)
        for name, model in models.items()
    }
    count = next(iter(sums.values()))[:, 2]
    means = {
        name: (of[:, :2].sum(axis=0) / count.sum()).round(4).tolist() for name, of in sums.items()
    }
    statistics = [name for name in sums if name not in GOALS]
    best = max(statistics, key=lambda name: means[name][0])
    out: dict[str, Any] = {"labels": int(count.sum()), "queries": len(count), "best": best}
    out["hr@10, ndcg@10"] = means
    out["less_best"] = {}
    for name in sums.keys() & GOALS.keys():
        low, high = interval(resampled_means((sums[name] - sums[best])[:, :2], count))
        out["less_best"][name] = np.round(np.stack([low, high], axis=1), 4).tolist()
    return out


def fitted(train: Baskets) -> dict[str, Model]:
    """The default by each goal, whose fits differ in nothing else, and the statistics."""
    models: dict[str, Model] = {"odds": make_model("odds").fit(train, Run(rng=0))}
    for name, goal in GOALS.items():
        made = make_model("odds", goal=goal)
        models[name] = made.from_arrays(made.parameters, train.catalog, models["odds"].arrays())
    return models | {name: make_model(name).fit(train, Run(rng=0)) for name in STATISTICS}


def boards(train: Baskets, test: Baskets) -> dict[str, Any]:
    models = fitted(train)
    learned = models["odds"].learned
    found = {protocol: board(models, train, test, protocol) for protocol in PROTOCOLS}
    return {**found, "learned": learned}


def journey(*, weeks: bool) -> dict[str, Any]:
    """Complete Journey by weeks, as the reproduction reads it, or all of its baskets by halves."""
    from reproduction.data import read_complete_journey

    data = read_complete_journey((LEVEL,))
    if weeks:
        return boards(data.train, data.test)
    halves = split_baskets(data.train, "random", seed=1)
    return boards(halves.train, halves.test)


def cold(split: Split) -> dict[str, Any]:
    """Labels that ask for an item all of whose training lines were hidden, whole catalogue."""
    hidden = uniform_of_ids(split.train.catalog.ids, "cold") < HIDDEN
    train = without(split.train, hidden)
    model = make_model("odds").fit(train, Run(rng=0))
    return {protocol: of_hidden(model, split.test, hidden, protocol) for protocol in PROTOCOLS}


def of_hidden(
    model: Model, test: Baskets, hidden: npt.NDArray[np.bool_], protocol: str
) -> dict[str, Any]:
    labels = make_labels(test, protocol=protocol, levels=(LEVEL,))
    asked = hidden[labels.query] & (model.item_count[labels.item] > 0)
    sums = []
    for query in np.unique(labels.query[asked]).tolist():
        wanted = labels.item[asked & (labels.query == query)]
        first = rank(model, model.catalog.id(query), K).codes
        ranks = [int(np.flatnonzero(first == item)[0]) for item in wanted if item in first]
        sums.append([len(ranks), sum(1 / np.log2(2 + rank) for rank in ranks), len(wanted)])
    values = np.array(sums, dtype=np.float64)
    low, high = interval(resampled_means(values[:, :2], values[:, 2]))
    means = values[:, :2].sum(axis=0) / values[:, 2].sum()
    rows = [
        np.round([mean, *ends], 4).tolist() for mean, *ends in zip(means, low, high, strict=True)
    ]
    return {"labels": int(values[:, 2].sum()), "hr@10": rows[0], "ndcg@10": rows[1]}


def without(baskets: Baskets, hidden: npt.NDArray[np.bool_]) -> Baskets:
    """The baskets without the lines of the hidden items."""
    stays = ~hidden[baskets.items]
    ends = np.concatenate([[0], np.cumsum(stays)])
    return replace(baskets, items=baskets.items[stays], offsets=ends[baskets.offsets])


def cost() -> list[dict[str, Any]]:
    """CPU seconds and peak memory of a fit on the half-split, and of `neatrec train`."""
    jobs, rows = {"fit, Instacart half": ("benchmarks.odds_claim", "fit_half")}, []
    for name, runs in measure_in_turn(jobs, 3).items():
        row = summary(name, runs)
        medians = {"cpu_s": row["cpu"]["median"], "peak_mib": row["peak_mib"]["median"]}
        rows.append({"what": name, **medians})
    source = str(data_folder("instacart", []))
    trainings = [training("train, all orders", source) for _ in range(3)]
    median = sorted(trainings, key=lambda each: each["cpu_s"])[1]
    return [*rows, median]


def training(what: str, source: str) -> dict[str, Any]:
    """CPU seconds and peak memory of one `neatrec train`, imports and bundle included."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "neatrec", "train", source, "--quiet"]
        command += ["--out", str(Path(folder) / "bundle")]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"neatrec train {source} ended with {process.returncode}")
    cpu, peak = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
    return {"what": what, "cpu_s": round(cpu, 1), "peak_mib": round(peak)}


def fit_half() -> Callable[[], int]:
    """A job of the harness: compiled code is loaded before the clock starts."""
    from neatrec.simulator import supermarket

    train = half(orders()).train
    make_model("odds").fit(supermarket(baskets=3_000, items=300, seed=1).baskets, Run(rng=0))
    return lambda: int(make_model("odds").fit(train, Run(rng=0)).item_count.sum())


def of_split(method: str, **options: Any) -> dict[str, Any]:
    split = split_baskets(orders(), method, **options)
    return boards(split.train, split.test)


PARTS: dict[str, Callable[[], Any]] = {
    "cost": cost,  # first: a child's peak includes what its parent held when it started
    "half": lambda: of_split("half"),
    "random-1": lambda: of_split("random", seed=1),
    "random-2": lambda: of_split("random", seed=2),
    "random-3": lambda: of_split("random", seed=3),
    "journey": lambda: journey(weeks=True),
    "journey-random": lambda: journey(weeks=False),
    "cold": lambda: cold(half(orders())),
    "scale": lambda: [training("train, 10 million baskets", SCALE)],
}


def show(name: str, found: Any) -> None:
    """A line per protocol: the goals over the best statistic."""
    if name in ("cold", "cost", "scale"):
        print(name, found, flush=True)
        return
    for protocol in PROTOCOLS:
        one = found[protocol]
        means, best = one["hr@10, ndcg@10"], one["best"]
        words = [f"{best} {means[best]}"]
        for goal in GOALS:
            ratios = [round(a / b, 3) for a, b in zip(means[goal], means[best], strict=True)]
            words.append(f"{goal} {means[goal]} {ratios}")
        print(f"{name}, {protocol}, {one['labels']} labels: {'; '.join(words)}", flush=True)


def main() -> int:
    parser = argument_parser(__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="PART")
    parser.add_argument("--save", action="store_true", help="keep a record")
    asked = parser.parse_args()
    if asked.save:
        commit()  # better refused now than when all is measured
    record: dict[str, Any] = {}
    for name in asked.parts or [part for part in PARTS if part != "scale"]:
        record[name] = PARTS[name]()
        show(name, record[name])
        if asked.save:
            alone = asked.parts == ["scale"]
            file, options = ("train_scale", "scale --save") if alone else (None, "--save")
            save("odds_claim", record, ("numpy", "scipy", "numba"), file=file, options=options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
