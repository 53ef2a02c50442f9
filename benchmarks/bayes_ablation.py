"""What each ingredient of `bayes` adds: signs and hints left out, everything else learned anew, on validation baskets.

    NEATREC_DATA=FOLDER python -m benchmarks.bayes_ablation [--baskets FOLDER] [--jobs 1] [--save]

Both validation folds inside the half-split's training orders, paper labels at .05; no test basket is labelled. First
the signs of the prior, ranking by the posterior lift; then the hints of the odds, with all signs. HR@10 / NDCG@10 over
the labels of both folds, and the interval of the paired difference to `bayes` itself (the last row), by queries.
`--baskets` is a folder that `Baskets.save` wrote, instead of the order files.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.bayes_validation import Floats
from benchmarks.half_split import orders
from benchmarks.harness import save
from neatrec.data.randomness import children
from neatrec.data.splits import Split, half
from neatrec.evaluation.intervals import interval, resampled_means
from neatrec.evaluation.metrics import hit_rate, ndcg
from neatrec.evaluation.task import build_task, evaluate_model
from neatrec.labels import make_labels
from neatrec.models.bayes.features import SIGNS, PairFeatures, Surroundings
from neatrec.models.bayes.fit import folds_of
from neatrec.models.bayes.model import BayesParameters
from neatrec.models.bayes.prior import Weights
from neatrec.models.bayes.prior_tuning import Practice, best_strength, practise, search
from neatrec.models.bayes.ranker import HINTS, Ranking, rank_pairs
from neatrec.models.bayes.ranker_training import Exercise, exercise, fitted_ranking
from neatrec.models.bayes.rows import rank_rows

BLOCK = 80
"""Queries scored at a time."""
CANDIDATES = ("top200", "catalogue")
ALL, NONE = frozenset(SIGNS[1:]), frozenset[str]()
FIRST = frozenset(("lift", "chance", "query"))
ORDER = FIRST | {"times", "item order", "category order"}
SIGN_ROWS: dict[str, tuple[frozenset[str] | None, bool]] = {
    "shrunk lift": (None, False),
    "level only": (NONE, False),
    "level, near pairs": (NONE, True),
    **{sign: (frozenset((sign,)), False) for sign in SIGNS[1:]},
    "all signs, no near pairs": (ALL, False),
    "all signs, near pairs": (ALL, True),
    **{f"... without {sign}": (ALL - {sign}, True) for sign in SIGNS[1:]},
}
"""Signs of the prior (None: no prior), and whether near pairs count."""
HINT_ROWS: dict[str, frozenset[str]] = {
    "odds: lift, chance, query": FIRST,
    "... and times, item order, category order": ORDER,
    "... and cosine": ORDER | {"cosine"},
    **{f"all hints without {hint}": frozenset(HINTS) - {hint} for hint in HINTS},
    "bayes": frozenset(HINTS),
}


class Variant:
    """The evidence of a fold, ranked by weights of one's own."""

    name = "variant"

    def __init__(self, evidence: PairFeatures, weights: Weights, ranking: Ranking | None) -> None:
        self.parts = evidence, weights, ranking

    def score(self, queries: npt.ArrayLike, items: npt.ArrayLike) -> Floats:
        codes = (np.asarray(part, dtype=np.int32) for part in (queries, items))
        return rank_pairs(*self.parts, *codes).astype(np.float64)

    def score_all(self, queries: npt.ArrayLike) -> npt.NDArray[np.float32]:
        return rank_rows(*self.parts, np.asarray(queries, dtype=np.int32))


class Lab:
    """One validation fold: its questions, and what its training baskets teach, as `learning.learn` has it."""

    def __init__(self, fold: Split) -> None:
        labels = make_labels(fold.test, protocol="paper", levels=(0.05,))
        self.task = build_task(fold.train, fold.test, labels, queries=0, carts=0)
        parameters, shards = BayesParameters(), [fold.train]
        counting, rngs = parameters.counting(), children(0, 12)
        around, seeds = Surroundings.of(fold.train.catalog), iter(rngs[:2])
        category = counting.category_of(fold.train.catalog)

        def evidence_of(baskets: Any, rng: np.random.Generator | None = None) -> PairFeatures:
            how: Any = {
                "rank": parameters.rank,
                "min_pair_count": parameters.min_pair_count,
                "ordered": fold.train.ordered,
            }
            return PairFeatures.of(baskets, counting, around, rng=rng or next(seeds), **how)

        parts = list(folds_of(shards, evidence_of, parameters, fold.train.ordered, None))
        lift = parameters.strong_lift
        practice = [
            practise(one, rank_labels.counts, category, lift, rng, BLOCK)
            for (one, rank_labels), rng in zip(parts, rngs[2:], strict=False)
        ]
        self.practice = Practice.joined([part for part in practice if part is not None])
        self.there = parts[0][0].signs_there
        self.weights = search(self.practice, self.there, near=True)[0]
        exercises = [
            exercise(one, rank_labels, self.weights, category, lift, rng, BLOCK)
            for (one, rank_labels), rng in zip(parts, rngs[4:], strict=False)
        ]
        self.exercise = Exercise.joined([part for part in exercises if part is not None])
        self.evidence = evidence_of(shards, rngs[8])

    def by_signs(self, chosen: frozenset[str] | None, near: bool) -> Floats:
        """What the posterior lift does whose prior has some of the signs, (queries, 2 x candidates + 1)."""
        if chosen is None:
            return self._judged(best_strength(self.practice)[0], None)
        there = self.there & np.array([sign in chosen or sign == SIGNS[0] for sign in SIGNS])
        return self._judged(search(self.practice, there, near=near)[0], None)

    def by_hints(self, chosen: frozenset[str]) -> Floats:
        """What the odds do that know some of the hints."""
        kept = np.array([hint in chosen for hint in HINTS])
        return self._judged(self.weights, fitted_ranking(replace(self.exercise, hints=self.exercise.hints * kept)))

    def _judged(self, weights: Weights, ranking: Ranking | None) -> Floats:
        """Sums over the labels of each query: hits and gains on each candidate set, and how many labels."""
        answers = evaluate_model(Variant(self.evidence, weights, ranking), self.task, label_free=False)
        values = [
            metric(answers.label_ranks[name].higher, answers.label_ranks[name].equal, 10)
            for name in CANDIDATES
            for metric in (hit_rate, ndcg)
        ]
        columns = np.stack([*values, np.ones(len(values[0]))], axis=1)
        sums: Floats = np.add.reduceat(columns, self.task.label_queries.offsets[:-1])
        return sums


def ablation(split: Split, jobs: int) -> dict[str, Any]:
    """A record for each row: means, and the intervals of the differences to `bayes`."""
    with ThreadPoolExecutor(jobs) as pool:
        labs = list(pool.map(Lab, split.validation()))
        rows: dict[str, Callable[[Lab], Floats]] = {
            **{name: lambda lab, how=how: lab.by_signs(*how) for name, how in SIGN_ROWS.items()},
            **{name: lambda lab, how=how: lab.by_hints(how) for name, how in HINT_ROWS.items()},
        }
        waiting = {name: [pool.submit(row, lab) for lab in labs] for name, row in rows.items()}
        found = {name: np.concatenate([part.result() for part in parts]) for name, parts in waiting.items()}
    count = found["bayes"][:, -1]
    out: dict[str, Any] = {"labels": int(count.sum()), "queries": len(count)}
    for name, sums in found.items():
        low, high = interval(resampled_means((sums - found["bayes"])[:, :-1], count))
        means = sums[:, :-1].sum(axis=0) / count.sum()
        for at, candidates in enumerate(CANDIDATES):
            hr, gain = 2 * at, 2 * at + 1
            ends = [[round(float(end[k]), 4) for end in (low, high)] for k in (hr, gain)]
            row = {"hr@10": round(float(means[hr]), 4), "ndcg@10": round(float(means[gain]), 4), "less_bayes": ends}
            out.setdefault(name, {})[candidates] = row
    return out


def show(record: dict[str, Any]) -> None:
    print(f"{record['labels']} labels of {record['queries']} queries\n")
    print("| ranks by | recall 200 | catalogue | less `bayes`, recall 200: HR | NDCG |\n|---|---|---|---|---|")
    for name, row in record.items():
        if isinstance(row, dict):
            cells = [f"{row[c]['hr@10']:.3f} / {row[c]['ndcg@10']:.3f}" for c in CANDIDATES]
            ends = [f"{low:.3f} to {high:.3f}" for low, high in row[CANDIDATES[0]]["less_bayes"]]
            print(f"| {name} | {' | '.join([*cells, *ends])} |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--baskets", type=Path, help="a folder that `Baskets.save` wrote, instead of the order files")
    parser.add_argument("--jobs", type=int, default=1, help="rows worked on at the same time")
    parser.add_argument("--save", action="store_true", help="keep the record under benchmarks/results")
    asked = parser.parse_args()
    record = ablation(half(orders(asked.baskets)), asked.jobs)
    show(record)
    if asked.save:
        save("bayes_ablation", record, ("numpy", "scipy", "numba"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
