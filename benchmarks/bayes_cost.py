"""What `bayes` costs: its fit beside that of `neat` (defaults), and its serving table; Instacart half-split.

    NEATREC_DATA=FOLDER python -m benchmarks.bayes_cost [--baskets FOLDER] [--rounds 1] [--no-table] [--save]

Each job runs in a process of its own, in turn: CPU seconds of all its threads, wall seconds and the peak memory of the
process, baskets included. Compiled code is warmed up on a small supermarket before the clock starts. The table is the
whole one, 100 answers to each of the 49,688 items, with evidence and posterior; `--no-table` measures the fits alone.
`--baskets` is a folder that `Baskets.save` wrote, instead of the order files.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.half_split import orders
from benchmarks.harness import measure_in_turn, save, summary, table
from neatrec.bundle import load_bundle, save_bundle
from neatrec.data.baskets import Baskets
from neatrec.data.splits import half
from neatrec.models import Model, Run, make_model
from neatrec.serving.build import TableOptions, write_table
from neatrec.serving.files import NOTE
from neatrec.simulator import supermarket

FITS = {"bayes": "fit_bayes", "neat": "fit_neat"}
TABLE = {"serving table of bayes": "table_of_bayes"}


def the_half() -> Baskets:
    saved = os.environ.get("BAYES_COST_BASKETS")
    return half(orders(Path(saved) if saved else None)).train


def _bundle() -> Path:
    """Where the fit of `bayes` leaves its model for the table; one folder for all processes of a run."""
    return Path(os.environ["BAYES_COST_FOLDER"]) / "bayes"


def fit_bayes() -> Callable[[], int]:
    return _fit("bayes")


def fit_neat() -> Callable[[], int]:
    return _fit("neat")


def _fit(name: str) -> Callable[[], int]:
    baskets = the_half()
    make_model(name).fit(_small(), Run(rng=0))

    def job() -> int:
        model = make_model(name).fit(baskets, Run(rng=0))
        if name == "bayes":
            save_bundle(model, _bundle(), baskets_hash=baskets.hash, seed=0)
        return int((model.item_count > 0).sum())

    return job


def table_of_bayes() -> Callable[[], int]:
    baskets, model = the_half(), load_bundle(_bundle())
    small = _small()
    _answers(make_model("bayes").fit(small, Run(rng=0)), small)
    return lambda: _answers(model, baskets)


def _answers(model: Model, baskets: Baskets) -> int:
    with tempfile.TemporaryDirectory() as folder:
        return int(write_table(model, baskets, Path(folder), TableOptions())[NOTE]["answers"])


def _small() -> Baskets:
    return supermarket(baskets=3_000, items=300, seed=1).baskets


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--baskets", type=Path, help="a folder that `Baskets.save` wrote, instead of the order files")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--no-table", action="store_true", help="only the fits")
    parser.add_argument("--save", action="store_true", help="keep the record under benchmarks/results")
    asked = parser.parse_args()
    jobs = FITS | ({} if asked.no_table else TABLE)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["BAYES_COST_FOLDER"] = folder
        if asked.baskets:
            os.environ["BAYES_COST_BASKETS"] = str(asked.baskets.absolute())
        runs = measure_in_turn({name: ("benchmarks.bayes_cost", job) for name, job in jobs.items()}, asked.rounds)
    rows = [summary(name, runs[name]) for name in jobs]
    cells = [[row["name"], *(f"{row[key]['median']:.0f}" for key in ("cpu", "wall", "peak_mib"))] for row in rows]
    print(table([["job", "CPU s", "wall s", "peak MiB"], *cells]))
    ratio = rows[0]["cpu"]["median"] / rows[1]["cpu"]["median"]
    print(f"fit of bayes over fit of neat, CPU: {ratio:.2f}")
    if asked.save:
        record = {"rows": rows, "fit_over_neat": round(ratio, 3)}
        save("bayes_cost", record, ("numpy", "scipy", "numba"), options="--no-table" if asked.no_table else "")
    return 0


if __name__ == "__main__":
    sys.exit(main())
