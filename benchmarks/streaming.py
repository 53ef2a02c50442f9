"""Training from shards on disk beside training in memory: peak memory of the whole process, and time.

    python -m benchmarks.streaming [--baskets 1000000] [--items 50000] [--epochs 2] [--shard-lines 1000000]

A process of its own writes the simulated baskets as Parquet files, rows in no order. Then `neatrec train` runs on them
in fresh processes, in memory and with `--stream`, without the serving table (which counts pairs, see
docs/how-to/scale.md). The peak is the most resident memory the process ever had, libraries included; `floor` is what a
process has that has trained on a thousand baskets.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import ROOT, save, table

FILES = 8


def write_orders(folder: Path, baskets: int, items: int) -> int:
    """Simulated baskets as Parquet files whose rows are in no order; the number of lines."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from neatrec.io import read_baskets

    shop = read_baskets(f"supermarket:baskets={baskets},items={items}")
    order = np.random.default_rng(0).permutation(shop.lines)
    position = (np.arange(shop.lines) - np.repeat(shop.offsets[:-1], shop.sizes)).astype(np.int32)
    aisle = shop.catalog.category_of(None)
    folder.mkdir(exist_ok=True)
    for number, rows in enumerate(np.array_split(order, FILES)):
        lines = {
            "order": shop.basket_of_line[rows],
            "sku": shop.items[rows],
            "place": position[rows],
            "aisle": aisle[shop.items[rows]],
        }
        pq.write_table(pa.table(lines), folder / f"{number}.parquet")
    return int(shop.lines)


def trained(source: Path, out: Path, epochs: int, threads: int, *options: str) -> dict[str, Any]:
    """One `neatrec train` in a process of its own, and what it took."""
    columns = ["--basket", "order", "--item", "sku", "--position", "place", "--category", "aisle"]
    words = ["train", str(source), *columns, "--out", str(out), "--model", "neat", "--set", f"epochs={epochs}"]
    words += ["--no-index", "--quiet", "--json", "--threads", str(threads), *options]
    began = time.perf_counter()
    command = [sys.executable, "-m", "benchmarks.streaming", "--worker", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    peak, cpu = json.loads(done.stderr.splitlines()[-1])
    fit = json.loads(done.stdout)["train_seconds"]
    return {
        "peak_mib": round(peak / 1024),
        "wall": round(time.perf_counter() - began, 1),
        "cpu": round(cpu, 1),
        "fit_wall": round(fit, 1),
    }


def worker(words: list[str]) -> int:
    from neatrec.cli.main import exit_code_of

    code = exit_code_of(words)
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps([used.ru_maxrss, used.ru_utime + used.ru_stime]), file=sys.stderr)
    return code


def main(baskets: int, items: int, epochs: int, shard_lines: int, limit: str, threads: int) -> None:
    with tempfile.TemporaryDirectory(prefix="neatrec-bench-", dir=os.environ.get("TMPDIR")) as name:
        folder = Path(name)
        command = [
            sys.executable,
            "-m",
            "benchmarks.streaming",
            "--write",
            str(folder / "all"),
            str(baskets),
            str(items),
        ]
        lines = int(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
        write_orders(folder / "few", 1000, items)
        stream = ["--stream", "--shard-lines", str(shard_lines), "--memory-limit", limit]
        runs = {
            "floor": trained(folder / "few", folder / "bundle", epochs, threads, *stream),
            "in memory": trained(folder / "all", folder / "bundle", epochs, threads),
            "streamed": trained(folder / "all", folder / "bundle", epochs, threads, *stream),
        }
    columns = ("peak_mib", "cpu", "wall", "fit_wall")
    print(f"{baskets:,} baskets, {lines:,} lines, {items:,} items, {epochs} epochs")
    print(table([["run", *columns], *([name, *(str(run[c]) for c in columns)] for name, run in runs.items())]))
    about: dict[str, Any] = {"baskets": baskets, "lines": lines, "items": items, "epochs": epochs}
    about |= {"shard_lines": shard_lines, "limit": limit, "threads": threads}
    options = f"--baskets {baskets} --items {items} --epochs {epochs} --shard-lines {shard_lines} --limit {limit}"
    save("streaming", {"about": about, "runs": runs}, ("duckdb", "numpy", "pyarrow"), options=options)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        sys.exit(worker(sys.argv[2:]))
    if sys.argv[1:2] == ["--write"]:
        print(write_orders(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
        sys.exit(0)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--baskets", type=int, default=1_000_000)
    parser.add_argument("--items", type=int, default=50_000)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--shard-lines", type=int, default=1_000_000)
    parser.add_argument("--limit", default="192MiB")
    parser.add_argument("--threads", type=int, default=2)
    main(**vars(parser.parse_args()))
