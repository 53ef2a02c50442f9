"""Where the time of a whole leaderboard goes: the Instacart half-split, every model, one seed, three levels, a report.

`python -m benchmarks.leaderboard_time` needs the Instacart orders (NEATREC_DATA). It prints the seconds of each stage,
for each model those of training, ranks and label-free measures, and two shares of the whole: all that is not training,
and evaluation with report, which is that without reading the orders and keeping the trained models.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.harness import data_folder, save
from neatrec.data.splits import half
from neatrec.io import read_baskets
from neatrec.labels.audit import audit_labels
from neatrec.leaderboard.report import trained_gaussian, write_report
from neatrec.leaderboard.run import LEVELS, LeaderboardOptions, LeaderboardResult, run_leaderboard
from neatrec.models import MODEL_NAMES

NOT_EVALUATION = ("read and split", "training", "keeping the models")


def by_model(leaderboard: LeaderboardResult) -> list[dict[str, Any]]:
    """Seconds of each model's first training."""
    rows = []
    for name, runs in leaderboard.trainings.items():
        run = runs[0]
        took = {"train": run.own_seconds, "ranking": run.rank_seconds, "label_free": run.label_free_seconds}
        rows.append({"model": name, **{stage: round(seconds, 2) for stage, seconds in took.items()}})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", nargs="+", default=list(MODEL_NAMES), help="default: every model")
    parser.add_argument("--protocol", default="calibrated")
    parser.add_argument("--no-record", action="store_true", help="print, and leave benchmarks/results as it is")
    chosen = parser.parse_args()
    orders = data_folder("instacart", ["order_products__train.parquet"])
    start = time.perf_counter()
    split = half(read_baskets(str(orders)))
    seconds = {"read and split": time.perf_counter() - start}
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        leaderboard = run_leaderboard(
            split.train,
            split.test,
            chosen.models,
            LeaderboardOptions(protocol=chosen.protocol),
            out=folder,
            split={"method": "half"},
        )
        whole = time.perf_counter() - start
        seconds |= leaderboard.seconds
        start = time.perf_counter()
        leaderboard.write(folder)
        seconds["ranks and tables"] = time.perf_counter() - start
        seconds["keeping the models"] = whole - sum(leaderboard.seconds.values()) - seconds["ranks and tables"]
        start = time.perf_counter()
        gaussian = trained_gaussian(leaderboard, Path(folder))
        audit = audit_labels(split.test, levels=LEVELS)
        seconds["study of the labels"] = time.perf_counter() - start
        start = time.perf_counter()
        write_report(leaderboard, Path(folder) / "report", source="Instacart", audit=audit, gaussian=gaussian)
        seconds["report"] = time.perf_counter() - start
    total = sum(seconds.values())
    stages = [{"stage": name, "seconds": round(value, 2)} for name, value in seconds.items()]
    share = 1.0 - seconds["training"] / total
    evaluation = sum(value for name, value in seconds.items() if name not in NOT_EVALUATION) / total
    for row in by_model(leaderboard):
        took = "  ".join(f"{stage} {row[stage]:8.2f}" for stage in ("train", "ranking", "label_free"))
        print(f"{row['model']:20s} {took}")
    for row in stages:
        print(f"{row['stage']:24s} {row['seconds']:8.2f} s")
    print(f"{'all':24s} {total:8.2f} s, of which {share:.1%} are not training, {evaluation:.1%} evaluation and report")
    if not chosen.no_record:
        shares = {"share_beside_training": round(share, 4), "share_of_evaluation_and_report": round(evaluation, 4)}
        whole_run = {"seconds": round(total, 1), **shares}
        tables = {"stages": stages, "models": by_model(leaderboard), "whole": whole_run}
        print(save("leaderboard_time", tables, ["numpy", "scipy", "numba", "implicit"]))


if __name__ == "__main__":
    main()
