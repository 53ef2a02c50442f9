"""Memory of a fit of `bayes` against the number of baskets, with a bound of its pairs and without.

    python -m benchmarks.bayes_memory [--baskets 100000 300000 1000000] [--items 50000] [--most 8000000] [--save [FILE]]

Simulated supermarkets. Each fit runs in a process of its own; its peak is the largest resident memory while it learns,
sampled fifty times per second, baskets and compiled code included; the resident memory before the fit is reported too.
"""

from __future__ import annotations

import argparse
import logging
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.harness import measure, save, table
from neatrec.models import Run, make_model
from neatrec.models.bayes import Bayes
from neatrec.simulator import supermarket
from neatrec.training.measure import measured

UNBOUNDED = 10**12


def fit() -> Callable[[], dict[str, Any]]:
    size, items, most = (int(os.environ[f"BAYES_MEMORY_{name}"]) for name in ("BASKETS", "ITEMS", "MOST"))
    logging.disable(logging.INFO)
    make_model("bayes").fit(supermarket(baskets=3_000, items=300, seed=1).baskets, Run(rng=0, device="cpu"))
    baskets = supermarket(baskets=size, items=items, seed=1).baskets
    model = make_model("bayes", max_pairs=most)

    def job() -> dict[str, Any]:
        before = _resident_mb()
        cost = measured(lambda: model.fit(baskets, Run(rng=0, device="cpu")))
        if not isinstance(model, Bayes):
            raise TypeError("this is a study of `bayes`")
        pairs, features = model.fit_info()["pairs"], model.features
        near = 0 if features.near is None else features.near.matrix.nnz // 2
        cells = {"kept": pairs["kept"], "near": near, "left_out_below": pairs["dropped_below"]}
        return {"records": features.counts.records // 2, **cells, "before_mb": before, "peak_mb": cost.peak_mb}

    return job


def _resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def one(size: int, items: int, most: int) -> dict[str, Any]:
    """A fit in a fresh process."""
    for name, value in (("BASKETS", size), ("ITEMS", items), ("MOST", most)):
        os.environ[f"BAYES_MEMORY_{name}"] = str(value)
    run = measure("benchmarks.bayes_memory", "fit")
    answer = {name: round(value) for name, value in run["answer"].items()}
    bound = None if most == UNBOUNDED else most
    return {"baskets": size, "items": items, "max_pairs": bound, **answer, "cpu": round(run["cpu"], 1)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--baskets", type=int, nargs="+", default=[100_000, 300_000, 1_000_000])
    parser.add_argument("--items", type=int, default=50_000)
    parser.add_argument("--most", type=int, default=8_000_000, help="the bound of pairs")
    parser.add_argument("--save", metavar="FILE", nargs="?", const="bayes_memory", help="keep the record under results")
    asked = parser.parse_args()
    rows = []
    for size in asked.baskets:
        for most in (UNBOUNDED, asked.most):
            rows.append(one(size, asked.items, most))
            print(rows[-1], file=sys.stderr, flush=True)
    names = list(rows[0])
    print(table([names, *([str(row[name]) for name in names] for row in rows)]))
    if asked.save:
        options = f"--baskets {' '.join(map(str, asked.baskets))} --items {asked.items} --most {asked.most}"
        save("bayes_memory", {"rows": rows}, ("numpy", "scipy", "numba"), options=options, file=asked.save)
    return 0


if __name__ == "__main__":
    sys.exit(main())
