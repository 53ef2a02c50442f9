"""Served evidence against the truth of simulated supermarkets, without strata and within those used
by default.

    python -m benchmarks.served_evidence [--save]

Four shops; the bundle that `neatrec train` writes. Of the answers served by default (the first ten
that are at least likely): how many are planted complements, how many planted traps. Recall: planted
complements among the first ten answers, of the ranking alone and of those served. CPU seconds of
the whole training with its table.
"""

from __future__ import annotations

import logging
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import argument_parser, save, table
from neatrec.release import AllAnswers
from neatrec.serving import Filters, PairTable
from neatrec.serving.evidence import CERTAIN, GRADES, LIKELY, STRENGTHS
from neatrec.simulator import TRAP_NAMES, Supermarket, supermarket
from neatrec.training.train import ModelChoice, TrainOptions, train_bundle

SEEDS = (0, 1, 2, 3)
FIRST = 10
STRATA: dict[str, tuple[str, ...] | None] = {"none": (), "default": None}


def measured(market: Supermarket, strata: tuple[str, ...] | None, seed: int) -> dict[str, Any]:
    """One training and what it serves."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        options = TrainOptions(seed=seed, strata=strata)
        train_bundle(lambda: market.baskets, Path(folder) / "bundle", ModelChoice(), options)
        cpu = time.process_time() - began
        index = PairTable.open(Path(folder) / "bundle")
        served = AllAnswers(index, Filters(k=FIRST, min_evidence="likely"))
        rows = [
            (each.cart[0], line.code, GRADES.index(line.grade), line.evidence.lift_low)
            for each in served
            for line in each.lines
        ]
    query, item, grade, low = map(np.array, zip(*rows, strict=True))
    truth = market.truth
    planted = truth.is_complement(query, item) | truth.is_complement(item, query)
    trap = np.any([truth.is_trap(query, item, kind) for kind in TRAP_NAMES], axis=0)
    trap |= np.any([truth.is_trap(item, query, kind) for kind in TRAP_NAMES], axis=0)
    strong = (grade == CERTAIN) & (low >= STRENGTHS["strong"])
    parts = {"certain and strong": strong, "certain": grade == CERTAIN, "likely": grade == LIKELY}
    ends = zip(index.start, index.start[1:], strict=False)
    every = np.concatenate([np.arange(a, min(a + FIRST, b)) for a, b in ends])
    every_query = np.searchsorted(index.start, every, side="right") - 1
    return {
        "strata": list(index.pairs.strata),
        "answers": {
            name: {
                "answers": int(mask.sum()),
                "planted": round(float(planted[mask].mean()), 4),
                "traps": round(float(trap[mask].mean()), 4),
            }
            for name, mask in parts.items()
        },
        "recall of the ranking": recall(market, every_query, index.answers["item"][every]),
        "recall of answers": recall(market, query, item),
        "cpu": round(cpu, 2),
    }


def recall(market: Supermarket, query: Any, item: Any) -> float:
    """The share of the planted pairs that stand among these answers."""
    answers = np.unique(np.column_stack([query, item]), axis=0)
    return round(float(market.truth.is_complement(*answers.T).sum()) / len(market.truth.query), 4)


def rows_of(found: dict[str, Any]) -> list[list[str]]:
    shares = ["certain and strong", "planted", "traps"]
    rows = [["seed", "strata", *shares, "recall: ranking", "answers", "CPU s"]]
    for seed, shop in found.items():
        for name in STRATA:
            one = shop[name]
            strong = one["answers"]["certain and strong"]
            shares = [f"{strong['planted']:.1%}", f"{strong['traps']:.1%}"]
            recalls = [f"{one['recall of the ranking']:.3f}", f"{one['recall of answers']:.3f}"]
            rows.append(
                [seed, name, f"{strong['answers']:,}", *shares, *recalls, f"{one['cpu']:.1f}"]
            )
    return rows


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--save", action="store_true", help="write results/served_evidence.json")
    asked = parser.parse_args()
    logging.disable(logging.WARNING)
    small = supermarket(baskets=2_000, items=200, seed=9)
    for strata in STRATA.values():
        measured(small, strata, 9)  # compiles
    found: dict[str, Any] = {}
    for seed in SEEDS:
        market = supermarket(seed=seed)
        found[str(seed)] = {name: measured(market, strata, seed) for name, strata in STRATA.items()}
    print(table(rows_of(found)))
    if asked.save:
        save("served_evidence", {"shops": found}, ("numpy", "scipy", "numba"), options="--save")


if __name__ == "__main__":
    main()
