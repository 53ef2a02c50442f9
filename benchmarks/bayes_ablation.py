"""What each feature of `bayes` adds to goal `lift`: one left out at a time, all weights fitted again, on validation
baskets.

    NEATREC_DATA=FOLDER python -m benchmarks.bayes_ablation [--baskets FOLDER] [--seeds 3] [--processes 1] [--save]

Both validation folds inside the half-split's training orders, paper labels at 0.05; no test basket is labelled. HR@10
and NDCG@10 over the labels of both folds, means over seeds that sample the training pairs, and the interval of the
paired difference to all features (the first row), by queries. `--baskets` is a folder that `Baskets.save` wrote,
instead of the order files.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.bayes_validation import Floats, by_query
from benchmarks.half_split import orders
from benchmarks.harness import save
from neatrec.data.baskets import Baskets
from neatrec.data.randomness import children
from neatrec.data.splits import Split, half
from neatrec.evaluation.intervals import interval, resampled_means
from neatrec.evaluation.task import build_task
from neatrec.labels import make_labels
from neatrec.models.bayes.counting import FeatureOptions
from neatrec.models.bayes.features import (
    PRIOR_FEATURES,
    PRODUCTS,
    RANKER_FEATURES,
    CatalogFeatures,
    PairFeatures,
)
from neatrec.models.bayes.fit import make_folds
from neatrec.models.bayes.model import BayesParameters
from neatrec.models.bayes.prior import tune_prior
from neatrec.models.bayes.ranker import BY_LIFT, logistic_ranker
from neatrec.models.bayes.scoring import PairScorer
from neatrec.models.bayes.training_set import PairSampler, PriorTrainingSet, RankerTrainingSet

ALL = "bayes"
LEFT_OUT = (
    *(ALL, "near pairs", *(name for name in PRIOR_FEATURES if name != "level")),
    *(*(name for name in RANKER_FEATURES if name not in PRODUCTS), "products", "ranker"),
)


class Variant:
    """A scorer as `evaluate_model` takes it."""

    name = "variant"

    def __init__(self, scorer: PairScorer) -> None:
        self.scorer = scorer

    def score(self, queries: npt.ArrayLike, items: npt.ArrayLike) -> Floats:
        codes = (np.asarray(part, dtype=np.int32) for part in (queries, items))
        return self.scorer.pairs(*codes)[0].astype(np.float64)

    def score_all(self, queries: npt.ArrayLike) -> npt.NDArray[np.float32]:
        return self.scorer.rows(np.asarray(queries, dtype=np.int32))[0]


class ValidationFold:
    """One validation fold: its evaluation task, its features and the folds that its weights are fitted on."""

    def __init__(self, fold: Split) -> None:
        self.task = build_task(
            fold.train, fold.test, make_labels(fold.test, protocol="paper", levels=(0.05,)), queries=0, carts=0
        )
        parameters = BayesParameters()
        self.min_lift = parameters.strong_lift
        options = FeatureOptions(parameters.counting(), fold.train.ordered)
        catalog, rngs = CatalogFeatures.of(fold.train.catalog), iter(children(0, 3))

        def features_of(baskets: Iterable[Baskets], *, directed: bool = False) -> PairFeatures:
            return PairFeatures.of(baskets, catalog, options, next(rngs), directed=directed)

        self.category = options.counting.category_of(fold.train.catalog)
        self.folds = list(make_folds([fold.train], features_of, options, self.min_lift))
        self.features = features_of([fold.train])

    def without(self, left_out: str, seed: int) -> dict[str, Floats]:
        """Sums of hits, gains and labels of each query by candidate set, (queries, 3), without one feature."""
        pairs = PairSampler(self.category, np.random.default_rng(seed))
        training = PriorTrainingSet.of_folds(self.folds, pairs, self.min_lift)
        if training is None:
            raise ValueError("these baskets hold no strong pairs")
        available = self.features.available & np.array([name != left_out for name in PRIOR_FEATURES])
        prior = tune_prior(training, available, near=left_out != "near pairs")
        ranker = BY_LIFT
        if left_out != "ranker":
            found = RankerTrainingSet.of_folds(self.folds, prior, pairs, self.min_lift)
            if found is None:
                raise ValueError("these baskets hold no positive pairs")
            names = [(*PRODUCTS.get(name, (name,)), "products" * (name in PRODUCTS)) for name in RANKER_FEATURES]
            used, first = np.array([left_out not in name for name in names]), found.first[:, 0]
            ranker = logistic_ranker(found.features[first], found.positive[first], used)
        return by_query(Variant(PairScorer(self.features, prior, [[ranker]])), self.task, 0.05)  # type: ignore[arg-type]


FOLDS: list[ValidationFold] = []
"""Those of `ablation`: a process of the pool has them as they were when it began."""


def _without(task: tuple[str, int, int]) -> dict[str, Floats]:
    name, seed, fold = task
    return FOLDS[fold].without(name, seed)


def ablation(split: Split, seeds: int, left_out: Iterable[str] = LEFT_OUT, *, processes: int = 1) -> dict[str, Any]:
    """A record for each feature left out: means, and the intervals of the differences to all features."""
    FOLDS[:] = [ValidationFold(fold) for fold in split.validation()]
    out: dict[str, Any] = {"seeds": seeds}
    base: dict[str, Floats] = {}
    left_out = list(left_out)
    with ProcessPoolExecutor(processes, mp_context=get_context("fork")) as pool:
        tasks = [(name, seed, fold) for name in left_out for seed in range(seeds) for fold in range(len(FOLDS))]
        sums_of = dict(zip(tasks, pool.map(_without, tasks), strict=True))
    for name in left_out:
        found = [[sums_of[name, seed, fold] for fold in range(len(FOLDS))] for seed in range(seeds)]
        for candidates in found[0][0]:
            sums = np.mean([np.concatenate([part[candidates] for part in parts]) for parts in found], axis=0)
            base.setdefault(candidates, sums)
            count = sums[:, 2]
            low, high = interval(resampled_means((sums - base[candidates])[:, :2], count))
            ends = [[round(float(end[k]), 4) for end in (low, high)] for k in (0, 1)]
            hr, gain = (sums[:, :2].sum(axis=0) / count.sum()).round(4).tolist()
            out.setdefault(_row(name), {})[candidates] = {"hr@10": hr, "ndcg@10": gain, "less_bayes": ends}
        print(_row(name), out[_row(name)], file=sys.stderr, flush=True)
    return out


def _row(left_out: str) -> str:
    return left_out if left_out == ALL else f"without {left_out}"


def show(record: dict[str, Any]) -> None:
    print("| ranked by | candidates | HR@10 / NDCG@10 | HR: difference | NDCG: difference |\n|---|---|---|---|---|")
    for name, rows in record.items():
        for candidates, row in rows.items() if isinstance(rows, dict) else ():
            ends = [f"{low:+.4f} to {high:+.4f}" for low, high in row["less_bayes"]]
            print(f"| {name} | {candidates} | {row['hr@10']:.4f} / {row['ndcg@10']:.4f} | {' | '.join(ends)} |")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--baskets", type=Path, help="a folder that `Baskets.save` wrote, instead of the order files")
    parser.add_argument("--seeds", type=int, default=3, help="samples of the training pairs to average over")
    parser.add_argument("--processes", type=int, default=1, help="variants that are fitted at the same time")
    parser.add_argument("--only", nargs="+", choices=LEFT_OUT[1:], help="leave out these features only")
    parser.add_argument("--save", action="store_true", help="keep the record under benchmarks/results")
    asked = parser.parse_args()
    record = ablation(
        half(orders(asked.baskets)),
        asked.seeds,
        (ALL, *asked.only) if asked.only else LEFT_OUT,
        processes=asked.processes,
    )
    show(record)
    if asked.save:
        save("bayes_ablation", record, ("numpy", "scipy", "numba"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
