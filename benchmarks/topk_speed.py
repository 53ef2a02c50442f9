"""The exact best 100 of each of 50,000 items (100 dimensions), beside PyTorch's matrix product and `topk`.

    python -m venv ELSEWHERE && ELSEWHERE/bin/pip install torch numpy
    python -m benchmarks.topk_speed --torch ELSEWHERE/bin/python

Each side runs in a process of its own, in turn with the other, with the same number of threads; vectors are made and
code is compiled before the clock starts. The sums of all scores found must be the same.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import ROOT, Run, save, summary, table
from benchmarks.topk_peer import DIM, ITEMS, THREADS, K, vectors

FIND_TORCH = """
try:
    import torch
    print(torch.__version__)
except ImportError:
    print(None)
"""
HERE, PEER = "benchmarks.topk_speed", "benchmarks.topk_peer"


def neatrec_topk() -> Callable[[], Any]:
    """The table's own search; items have no categories, so that each leaves out only itself, as the peer does."""
    from neatrec.serving.topk import TopKSearch

    rows = vectors()

    def search(queries: int) -> float:
        every = np.arange(ITEMS, dtype=np.int32)
        found = TopKSearch(every[:queries], every, every, K, min_score=-np.inf)
        found.by_product(*found.take(rows, rows), THREADS)
        return round(float(found.answers().score.astype(np.float64).sum()), 1)

    search(600)
    return lambda: search(ITEMS)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--torch", default=sys.executable, metavar="PYTHON", help="an interpreter that has PyTorch; default: this one"
    )
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    version = _printed(options.torch, FIND_TORCH)
    if version == "None":
        print("PyTorch is not installed here: name an interpreter that has it with --torch. Nothing was measured.")
        return 0
    runs: dict[str, list[Run]] = {"neatrec": [], "torch": []}
    for _ in range(options.rounds):
        runs["neatrec"].append(_measured(sys.executable, HERE, "neatrec_topk"))
        runs["torch"].append(_measured(options.torch, PEER, "torch_topk"))
    rows = [summary(name, of_name) for name, of_name in runs.items()]
    sums = {row["name"]: row["answer"] for row in rows}
    if abs(sums["neatrec"] - sums["torch"]) > 1e-5 * abs(sums["torch"]):
        sys.exit(f"the two sides do not agree: the scores sum up to {sums}")
    faster = {clock: _faster(runs, clock) for clock in ("cpu", "wall")}
    about = {"items": ITEMS, "dim": DIM, "k": K, "threads": THREADS, "torch": version}
    where = save("topk_speed", {"task": about, "runs": rows, "times faster": faster}, ("numpy", "numba"))
    lines = [[row["name"], *(f"{row[clock]['median']:.2f} s" for clock in ("cpu", "wall"))] for row in rows]
    print(table([["", "CPU", "wall"], *lines, ["times faster", *(f"{faster[c]:.2f}" for c in ("cpu", "wall"))]]))
    print(f"kept in {where.relative_to(ROOT)}")
    return 0


def _measured(interpreter: str, module: str, function: str) -> Run:
    run: Run = json.loads(_printed(interpreter, "-m", "benchmarks._worker", module, function))
    return run


def _printed(interpreter: str, *words: str) -> str:
    """The last line that another interpreter prints; a single word is a program."""
    command = [interpreter, *(("-c", *words) if len(words) == 1 else words)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{words[-1]} failed:\n{done.stderr}")
    return done.stdout.splitlines()[-1]


def _faster(runs: dict[str, list[Run]], clock: str) -> float:
    """The median over rounds of the peer's time over ours: both of a round met the same machine."""
    ratios = [peer[clock] / ours[clock] for ours, peer in zip(runs["neatrec"], runs["torch"], strict=True)]
    return round(statistics.median(ratios), 3)


if __name__ == "__main__":
    sys.exit(main())
