"""How long a first `neatrec train` takes, when nothing is compiled yet, and a second one.

    python -m benchmarks.first_start          # written to benchmarks/results/first_start.json

A small shop as a CSV file, one epoch, every model and preset that has kernels of its own; each first run has an empty
cache of compiled code. The difference of the two is what compiling costs.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.harness import save, table
from neatrec.simulator import supermarket

ONE_EPOCH = ("--set", "epochs=1")
EMBEDDINGS = ("neat", "neat-bpr", "item2vec", "triple2vec")
ROWS: dict[str, tuple[str, ...]] = {
    "shrunk-lift-tuned": ("--model", "shrunk-lift-tuned"),
    **{name: ("--model", name, *ONE_EPOCH) for name in EMBEDDINGS},
    **{f"{name}, preset paper": ("--model", name, "--preset", "paper", *ONE_EPOCH) for name in EMBEDDINGS},
    "neat, reproducible": ("--model", "neat", "--reproducible", *ONE_EPOCH),
}
"""Row -> arguments of `train`."""


def write_shop(file: Path) -> None:
    """A few hundred orders as a shop would have them."""
    baskets = supermarket(baskets=400, items=80, seed=0).baskets
    order = np.repeat(np.arange(len(baskets)), np.diff(baskets.offsets))
    names = np.asarray(baskets.catalog.names)[baskets.items]
    users = order if baskets.users is None else baskets.users[order]
    lines = (f'{o},{u},"{name}"' for o, u, name in zip(order, users, names, strict=True))
    file.write_text("order_id,user_id,product\n" + "\n".join(lines) + "\n")


def started(shop: Path, cache: Path, options: tuple[str, ...]) -> dict[str, float]:
    """Wall and CPU seconds of one `neatrec train`."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    before, start = _cpu_of_children(), time.perf_counter()
    with tempfile.TemporaryDirectory() as out:
        words = ["train", str(shop), "--out", f"{out}/bundle", "--no-index", "--quiet", *options]
        command = [sys.executable, "-m", "neatrec", *words]
        subprocess.run(command, env={**environment, "NEATREC_CACHE": str(cache)}, check=True, capture_output=True)
    return {"wall": time.perf_counter() - start, "cpu": _cpu_of_children() - before}


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        shop = Path(folder) / "orders.csv"
        write_shop(shop)
        started(shop, Path(folder) / "other", ROWS["shrunk-lift-tuned"])  # Python's own files are compiled by now
        for row, options in ROWS.items():
            with tempfile.TemporaryDirectory() as cache:
                first, second = (started(shop, Path(cache), options) for _ in range(2))
            costs = {"first, s": first["cpu"], "second, s": second["cpu"], "compiling, s": first["cpu"] - second["cpu"]}
            walls = {"first, wall s": first["wall"], "second, wall s": second["wall"]}
            lines.append({"row": row, **{key: round(value, 2) for key, value in {**costs, **walls}.items()}})
    print(table([list(lines[0]), *([str(cell) for cell in line.values()] for line in lines)]))
    save("first_start", {"rows": lines}, ("numba", "llvmlite", "numpy"))


if __name__ == "__main__":
    main()
