"""The report at the size of the paper's Walmart data: 14 million simulated baskets, 100,000 items, the half-split.

`python -m benchmarks.walmart_report` runs `neatrec report` (some twenty minutes on two cores with 19 GiB free, hours
where less is free and counting spills to disk), verifies the folder and records what its `run.json` and tables say.
`--done DIR` takes a folder that is there already, from whatever machine: the record holds the run's own machine,
seconds and memory.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.harness import save, table
from neatrec.report.verify import verify_report

SOURCE = "supermarket:baskets=14000000,items=100000"
MODELS = "pop,popco,shrunk-lift,llr,jaccard,neat"
SHOWN = ("hr@10", "ndcg@10")


def write(source: str, models: str, out: Path) -> None:
    """The report in `out`, by the command that a user would type."""
    command = [sys.executable, "-m", "neatrec", "report", source, "--split", "half", "--models", models]
    subprocess.run([*command, "--out", str(out)], check=True)


def record(folder: Path) -> dict[str, Any]:
    """What a finished report says about itself; stops where the numbers do not follow from its ranks."""
    mismatches = verify_report(folder)
    if mismatches:
        sys.exit(f"{len(mismatches)} mismatches in the report, the first: {mismatches[0]}")
    run = json.loads((folder / "run.json").read_text())
    leaderboard = run["leaderboards"][0]
    return {
        "run": {
            "source": run["source"],
            "split": leaderboard["options"]["split"]["method"],
            "protocol": leaderboard["options"]["protocol"],
            "machine": run["machine"],
            "seconds": {stage: round(seconds, 1) for stage, seconds in run["seconds"].items()},
            "peak_gib": round(run["peak_mb"] * 1e6 / 2**30, 1),
            "verified": True,
        },
        "leaderboard": [row for result in leaderboard["results"] for row in model_rows(result, leaderboard["models"])],
        "held_out_lift": csv_rows(folder, "held-out-lift", "model", "lift@10", "lift@10_low", "lift@10_high"),
        "labels_against_the_truth": csv_rows(folder, "truth"),
        "false_discoveries": csv_rows(folder, "false_discoveries"),
    }


def model_rows(result: dict[str, Any], models: dict[str, Any]) -> list[dict[str, Any]]:
    """One row a model: means with the ends of their intervals, best first."""
    where = {name: result[name] for name in ("level", "candidates", "labels", "queries")}
    rows = []
    for name, found in result["models"].items():
        seconds = models[name]["train_seconds"]
        row = {**where, "ceiling@10": result["ceiling"]["10"], "model": name, "train_seconds": seconds}
        row |= {metric: [found[part][metric] for part in ("mean", "low", "high")] for metric in SHOWN}
        rows.append(row)
    return sorted(rows, key=lambda row: -row[SHOWN[0]][0])


def csv_rows(folder: Path, name: str, *columns: str) -> list[dict[str, Any]]:
    """Rows of a table of the report, some columns or all of them; none where there is no such table."""
    file = folder / "tables" / f"{name}.csv"
    if not file.exists():
        return []
    with file.open(newline="") as lines:
        return [{column: number(row[column]) for column in columns or row} for row in csv.DictReader(lines)]


def number(text: str) -> float | str:
    """
    >>> number("0.5"), number("paper")
    (0.5, 'paper')
    """
    try:
        return float(text)
    except ValueError:
        return text


def show(found: dict[str, Any]) -> None:
    run = found["run"]
    print(f"{run['source']}: {sum(run['seconds'].values()):,.0f} s, {run['peak_gib']} GiB, verified")
    lines = [["level, candidates, model", "labels", "HR@10", "NDCG@10"]]
    for row in found["leaderboard"]:
        values = ["{:.3f} [{:.3f}, {:.3f}]".format(*row[metric]) for metric in SHOWN]
        lines.append([f"{row['level']} {row['candidates']} {row['model']}", f"{row['labels']:,}", *values])
    print(table(lines))
    for name in ("held_out_lift", "labels_against_the_truth"):
        print(json.dumps(found[name], indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--out", type=Path, help="where the report goes; default: a folder that is gone afterwards")
    where.add_argument("--done", type=Path, help="a folder with the finished report")
    parser.add_argument("--source", default=SOURCE)
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--no-record", action="store_true", help="print, and leave benchmarks/results as it is")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as passing:
        folder = chosen.done or chosen.out or Path(passing) / "report"
        if chosen.done is None:
            write(chosen.source, chosen.models, folder)
        found = record(folder)
    show(found)
    if not chosen.no_record:
        print(save("walmart_report", found, ["numpy", "scipy", "numba"]))


if __name__ == "__main__":
    main()
