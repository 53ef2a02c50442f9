"""What the serving table of `bayes` costs with all goals, beside a table of its own goal alone; Instacart half-split.

    NEATREC_DATA=FOLDER python -m benchmarks.goal_table [--baskets FOLDER] [--simulated ITEMS] [--save]

Each table is built and written in a process of its own, after a small one that compiles everything: CPU seconds of all
threads, and the bytes of the table's files. `--simulated` takes a simulated shop instead of the orders.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.bayes_cost import the_half
from benchmarks.harness import measure_in_turn, save, summary, table
from neatrec.bundle import load_bundle, save_bundle
from neatrec.data.baskets import Baskets
from neatrec.models import Model, Run, make_model
from neatrec.serving.build import TableOptions, write_table
from neatrec.simulator import supermarket

JOBS = {"one goal": "one_goal", "all goals": "all_goals"}


def the_baskets() -> Baskets:
    items = int(os.environ.get("GOAL_TABLE_ITEMS", "0"))
    return supermarket(baskets=5 * items, items=items, seed=1).baskets if items else the_half()


def _bundle() -> Path:
    return Path(os.environ["GOAL_TABLE_FOLDER"]) / "bayes"


def one_goal() -> Callable[[], int]:
    return _table(all_of_them=False)


def all_goals() -> Callable[[], int]:
    return _table(all_of_them=True)


def _table(*, all_of_them: bool) -> Callable[[], int]:
    baskets, model = the_baskets(), load_bundle(_bundle())
    small = supermarket(baskets=3_000, items=300, seed=1).baskets
    _bytes(make_model("bayes").fit(small, Run(rng=0)), small, all_of_them)
    return lambda: _bytes(model, baskets, all_of_them)


def _bytes(model: Model, baskets: Baskets, all_of_them: bool) -> int:
    """The size of the table's files."""
    if not all_of_them:
        model.goals = ()  # type: ignore[misc]
    with tempfile.TemporaryDirectory() as folder:
        write_table(model, baskets, Path(folder), TableOptions())
        return sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--baskets", type=Path, help="a folder that `Baskets.save` wrote, instead of the order files")
    parser.add_argument("--simulated", type=int, metavar="ITEMS", help="a simulated shop instead of the orders")
    parser.add_argument("--save", action="store_true", help="keep the record under benchmarks/results")
    asked = parser.parse_args()
    if asked.baskets:
        os.environ["BAYES_COST_BASKETS"] = str(asked.baskets.absolute())
    if asked.simulated:
        os.environ["GOAL_TABLE_ITEMS"] = str(asked.simulated)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["GOAL_TABLE_FOLDER"] = folder
        baskets = the_baskets()
        save_bundle(make_model("bayes").fit(baskets, Run(rng=0)), _bundle(), baskets_hash=baskets.hash, seed=0)
        runs = measure_in_turn({name: ("benchmarks.goal_table", job) for name, job in JOBS.items()}, 1)
    rows = [summary(name, runs[name]) for name in JOBS]
    cells = [[row["name"], f"{row['cpu']['median']:.0f}", f"{row['answer'] / 2**20:.0f}"] for row in rows]
    print(table([["table", "CPU s", "MiB"], *cells]))
    ratios = {
        "time": round(rows[1]["cpu"]["median"] / rows[0]["cpu"]["median"], 3),
        "size": round(rows[1]["answer"] / rows[0]["answer"], 3),
    }
    print(f"all goals over one: {ratios['time']:.2f} times the CPU seconds, {ratios['size']:.2f} times the bytes")
    if asked.save:
        options = f"--simulated {asked.simulated} --save" if asked.simulated else "--save"
        save("goal_table", {"rows": rows, "ratios": ratios}, ("numpy", "scipy", "numba"), options=options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
