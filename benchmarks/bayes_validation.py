"""Is an idea for `bayes` worth keeping? Models against a baseline on validation baskets inside the training baskets.

    NEATREC_DATA=FOLDER python -m benchmarks.bayes_validation                        # instacart, half-split
    python -m benchmarks.bayes_validation --protocol calibrated --models llr bayes-sure bayes
    python -m benchmarks.bayes_validation --source complete-journey --split time --models shrunk-lift-tuned bayes

Test baskets are never labelled here. HR@10 and NDCG@10 over the labels of all validation folds together, ratio to the
baseline (the first model), and the interval of the paired difference, resampling queries. Markdown comes out.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from neatrec.data.splits import Split, split_baskets
from neatrec.evaluation.intervals import interval, resampled_means
from neatrec.evaluation.metrics import hit_rate, ndcg
from neatrec.evaluation.ranks import LabelRanks
from neatrec.evaluation.task import EvaluationTask, build_task, evaluate_model
from neatrec.io import read_baskets
from neatrec.labels import make_labels
from neatrec.models import Model, Run, make_model

Floats = npt.NDArray[np.float64]
K = 10
WEEK = 7 * 86_400 * 10**6


def the_split(source: str, method: str) -> Split:
    """Half, or, by time, the first 42 weeks against the rest, as the protocol page has it.

    Of Complete Journey the items bought at least five times.
    """
    baskets = read_baskets(source)
    if method == "time":
        if baskets.times is None:
            raise SystemExit("a split by time needs the times of the baskets")
        return split_baskets(baskets, "time", cut=int(baskets.times.min()) + 42 * WEEK)
    return split_baskets(baskets, method)


def model_of(text: str) -> Model:
    """`name` or `name:key=value,key=value`."""
    name, _, settings = text.partition(":")
    return make_model(name, settings.split(",") if settings else ())


def by_query(model: Model, task: EvaluationTask, level: float) -> dict[str, Floats]:
    """`sums_by_query` of each candidate set."""
    ranks = evaluate_model(model, task, label_free=False).label_ranks
    return {name: sums_by_query(of, task, level) for name, of in ranks.items()}


def sums_by_query(ranks: LabelRanks, task: EvaluationTask, level: float) -> Floats:
    """Sums over the labels of each query of hits and gains, and how many labels, (queries, 3)."""
    chosen = task.labels.at(level)
    values = [hit_rate(ranks.higher, ranks.equal, K), ndcg(ranks.higher, ranks.equal, K), np.ones(len(chosen))]
    sums = np.add.reduceat(np.stack(values, axis=1) * chosen[:, None], task.label_queries.offsets[:-1])
    return np.asarray(sums)


def compare(split: Split, models: Sequence[str], levels: Sequence[float], protocol: str = "paper") -> None:
    """Prints one line for each model, level and candidate set."""
    found: dict[tuple[str, float, str], list[Floats]] = {}
    for fold in split.validation():
        labels = make_labels(fold.test, protocol=protocol, levels=levels)
        task = build_task(fold.train, fold.test, labels, queries=0, carts=0)
        for text in models:
            started = time.process_time()
            model = model_of(text).fit(fold.train, Run(rng=0))
            seconds = time.process_time() - started
            print(f"{text}: {seconds:.0f} s of CPU, learned {model.fit_info()}", file=sys.stderr, flush=True)
            for level in levels:
                for candidates, sums in by_query(model, task, level).items():
                    found.setdefault((text, level, candidates), []).append(sums)
    print("| model | level | candidates | labels | HR@10 / NDCG@10 | ratio | HR interval | NDCG interval |")
    print("|---|---|---|---|---|---|---|---|")
    for (text, level, candidates), parts in found.items():
        print(
            _line(text, level, candidates, np.concatenate(parts), np.concatenate(found[models[0], level, candidates]))
        )


def _line(text: str, level: float, candidates: str, mine: Floats, base: Floats) -> str:
    labels = base[:, 2].sum()
    mean, other = mine[:, :2].sum(axis=0) / labels, base[:, :2].sum(axis=0) / labels
    low, high = interval(resampled_means(mine[:, :2] - base[:, :2], base[:, 2]))
    ratio = mean / np.maximum(other, 1e-12)
    return (
        f"| {text} | {level:g} | {candidates} | {labels:.0f} | {mean[0]:.4f} / {mean[1]:.4f} "
        f"| {ratio[0]:.3f} / {ratio[1]:.3f} | {low[0]:.4f} to {high[0]:.4f} | {low[1]:.4f} to {high[1]:.4f} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = os.environ.get("NEATREC_DATA")
    parser.add_argument("--source", default=f"{data}/instacart" if data else None)
    parser.add_argument("--split", choices=("half", "time"), default="half")
    parser.add_argument("--models", nargs="+", default=["shrunk-lift:k=2", "shrunk-lift:k=1", "bayes"])
    parser.add_argument("--levels", nargs="+", type=float, default=[0.05, 0.001])
    parser.add_argument("--protocol", choices=("paper", "calibrated"), default="paper", help="labels to rank_labels by")
    asked = parser.parse_args()
    if asked.source is None:
        print("needs the Instacart 2017 orders: set NEATREC_DATA, or give --source", file=sys.stderr)
        return 0
    compare(the_split(asked.source, asked.split), asked.models, asked.levels, asked.protocol)
    return 0


if __name__ == "__main__":
    sys.exit(main())
