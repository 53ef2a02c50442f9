"""Counting what does not fit: the disk engine within a memory limit, beside the memory engine's answer.

    python -m benchmarks.out_of_core [--baskets 3200000] [--items 50000] [--limit 2GiB] [--threads 2] [--customers]

A process of its own makes the simulated baskets, gives their source away and counts; its peak memory (VmHWM) is that of
everything together. The disk engine gets what the limit leaves beside the baskets and Python. What it writes is watched
from outside. Walmart's size: --baskets 14000000 --items 100000 --limit 3GiB.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT, save, table

BASKETS = 3_200_000
SLACK = 256 << 20
"""Bytes for what is imported meanwhile, and for the labels."""


def count_once(engine: str, source: str, limit: int, threads: int, customers: bool) -> dict[str, Any]:
    """One count in this process: labels by the paper protocol, and what it took."""
    from neatrec.io import read_baskets
    from neatrec.labels import make_labels

    baskets = read_baskets(source)
    baskets = replace(baskets, times=None, attributes={})
    if not customers:
        baskets = replace(baskets, users=None, user_ids=None)
    gc.collect()
    held = int(_status("VmRSS")) << 10
    wall, cpu = time.perf_counter(), time.process_time()
    allowed = limit - SLACK - held if engine == "disk" else None
    labels = make_labels(baskets, protocol="paper", engine=engine, memory_limit=allowed, threads=threads)
    return {
        "wall": round(time.perf_counter() - wall, 1),
        "cpu": round(time.process_time() - cpu, 1),
        "held_mib": held >> 20,
        "peak_mib": round(int(_status("VmHWM")) / 1024),
        "records": labels.records,
        "pairs": labels.pairs,
        "labels": labels.label_counts,
        "hash": labels.hash,
    }


def measured(engine: str, source: str, limit: int, threads: int, customers: bool) -> dict[str, Any]:
    """`count_once` in a process of its own, with the most that lay in its temporary folder."""
    with tempfile.TemporaryDirectory(prefix="neatrec-bench-") as folder:
        options = [engine, source, str(limit), str(threads), str(int(customers))]
        command = [sys.executable, "-m", "benchmarks.out_of_core", "--worker", *options]
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": folder}
        )
        spilled = 0
        while process.poll() is None:
            spilled = max(spilled, _size(Path(folder)))
            time.sleep(1)
        out = process.stdout.read() if process.stdout else ""
    if process.returncode:
        sys.exit(f"the {engine} engine failed")
    return {**json.loads(out.splitlines()[-1]), "disk_mib": spilled >> 20}


def _size(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*"):
        try:
            total += file.stat().st_blocks * 512
        except FileNotFoundError:
            continue
    return total


def _status(name: str) -> str:
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return found[1] if found else "0"


def main(baskets: int, items: int, limit: str, threads: int, customers: bool) -> None:
    from neatrec.text import parse_size

    source = f"supermarket:baskets={baskets},items={items}"
    about = {"baskets": baskets, "items": items, "limit": limit, "threads": threads, "customers": customers}
    keep({e: measured(e, source, parse_size(limit), threads, customers) for e in ("memory", "disk")}, about)


def keep(runs: dict[str, dict[str, Any]], about: dict[str, Any]) -> None:
    """Compare the engines' answers, print what each took, and record it."""
    if runs["memory"]["hash"] != runs["disk"]["hash"]:
        sys.exit("the engines differ")
    columns = ("wall", "cpu", "peak_mib", "disk_mib")
    print(table([["engine", *columns], *([name, *(str(run[c]) for c in columns)] for name, run in runs.items())]))
    options = f"--baskets {about['baskets']} --items {about['items']} --limit {about['limit']}"
    options += f" --threads {about['threads']}{' --customers' * about['customers']}"
    file = "out_of_core" if about["baskets"] == BASKETS else f"out_of_core_{about['baskets']}"
    save("out_of_core", {"about": about, "runs": runs}, ("numpy", "numba"), options=options, file=file)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        engine, source, limit, threads, customers = sys.argv[2:]
        print(json.dumps(count_once(engine, source, int(limit), int(threads), customers == "1")))
    else:
        parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--baskets", type=int, default=BASKETS)
        parser.add_argument("--items", type=int, default=50_000)
        parser.add_argument("--limit", default="2GiB")
        parser.add_argument("--threads", type=int, default=2)
        parser.add_argument("--customers", action="store_true", help="count distinct customers too")
        main(**vars(parser.parse_args()))
