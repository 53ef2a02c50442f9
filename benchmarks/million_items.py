"""`bayes` and its serving table for a million items within a memory limit, with a forecast from smaller shops.

    python -m benchmarks.million_items [--baskets 10000000] [--items 1000000] [--limit 6GiB] [--threads 2]
        [--pairs-per-basket 2] [--rank 64] [--fit 500000 1000000] [--folder DIR] [--unlimited] [--no-save]

Simulated baskets, saved. For each size a process loads them as a stream and fits `bayes` (`--engine disk`, at most two
pairs per basket, 64 factors), and another one writes the approximate table (`--ann`) in parts. The system refuses each
more memory than the limit (RLIMIT_DATA); its peak is what it has besides mapped files, sampled fifty times per second.
Sizes of `--fit` have as many items per basket as the last run; what they took is fitted by `benchmarks.scaling_model`
and asked for the last run before that starts. NumPy, SciPy, Numba, PyArrow and safetensors are enough. What is done in
FOLDER is not done again.
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
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import ROOT, commit, save, table
from benchmarks.scaling_model import Point, error, fit_bytes, fit_seconds

PARTS = 16
COUNTING_SHARE = 0.2
"""Of the limit: the memory limit of counting."""
STAGES = ("fit", "table")
Row = dict[str, Any]


def simulated(folder: Path, baskets: int, items: int) -> None:
    """Save the baskets, unless they are there."""
    from neatrec.simulator import supermarket

    if not (folder / "baskets.json").exists():
        supermarket(baskets=baskets, items=items, seed=1).baskets.save(folder)


def parts_of(folder: Path) -> list[Any]:
    """The saved baskets as a stream of PARTS shards in memory: as a whole they would have strata."""
    from neatrec.data.baskets import Baskets

    whole = Baskets.load(folder)
    cuts = [len(whole) * number // PARTS for number in range(PARTS + 1)]
    return [replace(whole.select(np.arange(*cut)), attributes={}) for cut in pairwise(cuts)]


def stage(name: str, folder: Path, limit: int, threads: int, pairs: float, rank: int, enforced: bool) -> Row:
    """One of STAGES of the baskets in `folder`, the table of the model that `fit` left there: seconds, peak memory."""
    from neatrec.bundle import load_bundle, save_bundle, stream_hash
    from neatrec.cooccurrence import counting_engine
    from neatrec.models import Run, make_model
    from neatrec.serving import save_indexed
    from neatrec.simulator import supermarket
    from neatrec.training.measure import Measured, measured

    few = supermarket(baskets=3_000, items=300, seed=1).baskets
    small = make_model("bayes").fit(few, Run(rng=0, device="cpu"))
    shards, fitted = parts_of(folder), folder / "model"
    with tempfile.TemporaryDirectory(dir=folder) as place, counting_engine("disk", int(limit * COUNTING_SHARE)):
        bundle = Path(place) / "bundle"
        save_indexed(small, bundle, few, seed=0, ann=True, device="cpu")  # loads the compiled code
        if enforced:
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        baskets = sum(map(len, shards))
        fresh = make_model("bayes", max_pairs=int(pairs * baskets), rank=rank)
        model = fresh if name == "fit" else load_bundle(fitted)

        def work() -> Any:
            if name == "fit":
                return model.fit(shards, Run(rng=0, device="cpu", threads=threads))
            return save_indexed(model, bundle, shards, seed=0, ann=True, threads=threads, device="cpu")

        cpu = time.process_time()
        cost: Measured[Any] = measured(work)
        cpu = time.process_time() - cpu
        found: Row = {name: {"cpu": round(cpu, 1), "wall": round(cost.seconds, 1), "peak_mib": round(cost.private_mb)}}
        print(name, found[name], file=sys.stderr, flush=True)
        if name == "fit":
            save_bundle(model, fitted, baskets_hash=stream_hash(shards), seed=0)
            lines = sum(shard.lines for shard in shards)
            found |= {"baskets": baskets, "items": len(shards[0].catalog), "lines": lines}
            return {**found, "pairs": model.fit_info()["pairs"]}
        about = cost.result.notes["topk"]
        sizes = {file.name: file.stat().st_size for file in (bundle / "topk").iterdir()}
    found |= {"evidence": about["evidence"]["pairs"], "answers": about["answers"], "recall": about["recall"]}
    return {**found, "table_mib": round(sum(sizes.values()) / 2**20)}


def one(folder: Path, baskets: int, items: int, options: argparse.Namespace) -> Row:
    """The row of one size, each stage in a fresh process; kept in `folder`."""
    shards = folder / f"{baskets}-{items}"
    how = [options.limit, options.threads, options.pairs_per_basket, options.rank, int(not options.unlimited)]
    # Arrow's own pool keeps what it has freed, which the limit would count
    environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}
    row: Row = {}
    for name, words in {"simulate": [baskets, items], **dict.fromkeys(STAGES, how)}.items():
        kept = folder / f"{baskets}-{items}-{name}.json"
        if not kept.exists():
            command = [
                sys.executable,
                "-m",
                "benchmarks.million_items",
                "--worker",
                name,
                str(shards),
                *map(str, words),
            ]
            done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False, env=environment)
            if done.returncode:
                sys.exit(f"{name} of {baskets:,} baskets failed")
            kept.write_text(done.stdout.splitlines()[-1])
        row |= json.loads(kept.read_text())
    return row


def forecast(rows: list[Row], lines: float) -> dict[str, dict[str, float]]:
    """CPU seconds and peak memory of each stage for so many lines, from smaller shops."""
    found = {}
    for stage in STAGES:
        points = [Point(r["lines"], 1, r["lines"], r[stage]["cpu"], r[stage]["peak_mib"] * 2.0**20) for r in rows]
        seconds, memory = fit_seconds(points), fit_bytes(points)
        size = memory.bytes(lines, 1) / 2**20
        found[stage] = {
            "cpu": round(seconds.seconds(lines, 1), 1),
            "peak_mib": round(size),
            "exponent": round(seconds.exponent, 3),
        }
    return found


def shown(rows: list[Row], ahead: dict[str, dict[str, float]]) -> str:
    names = [f"{stage} {key}" for stage in STAGES for key in ("cpu", "wall", "peak_mib")]
    lines = [
        [f"{row['baskets']:,}", f"{row['items']:,}", *(str(row[s][k]) for s, k in map(str.split, names))]
        for row in rows
    ]
    cells = [str(ahead[stage].get(key, "")) for stage, key in map(str.split, names)]
    return table([["baskets", "items", *names], *lines, ["forecast", "", *cells]])


def main(options: argparse.Namespace) -> None:
    if not options.no_save:
        commit()  # better refused now than when all is measured
    with tempfile.TemporaryDirectory(prefix="neatrec-bench-") as name:
        folder = Path(options.folder or name)
        small = [one(folder, size, size * options.items // options.baskets, options) for size in options.fit]
        lines = small[-1]["lines"] / small[-1]["baskets"] * options.baskets
        ahead = forecast(small, lines)
        print("forecast:", json.dumps(ahead), flush=True)
        last = one(folder, options.baskets, options.items, options)
    print(shown([*small, last], ahead))
    off = {stage: {key: error(ahead[stage][key], last[stage][key]) for key in ("cpu", "peak_mib")} for stage in STAGES}
    print("forecast off:", json.dumps(off))
    print("recall:", json.dumps(last["recall"]))
    if not options.no_save:
        record = {"limit": options.limit, "rows": [*small, last], "forecast": ahead, "off": off}
        said = (
            f"--baskets {options.baskets} --items {options.items} --limit {options.limit} --threads {options.threads} "
            f"--pairs-per-basket {options.pairs_per_basket} --rank {options.rank}"
        )
        save("million_items", record, ("numpy", "scipy", "numba", "pyarrow"), options=said)


def worker(what: str, folder: str, *rest: str) -> None:
    if what == "simulate":
        simulated(Path(folder), int(rest[0]), int(rest[1]))
        print("{}")
        return
    from neatrec.text import parse_size

    limit, threads, pairs, rank, enforced = rest
    how = parse_size(limit), int(threads), float(pairs), int(rank), enforced == "1"
    print(json.dumps(stage(what, Path(folder), *how)))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(*sys.argv[2:])
    else:
        parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--baskets", type=int, default=10_000_000)
        parser.add_argument("--items", type=int, default=1_000_000)
        parser.add_argument("--limit", default="6GiB")
        parser.add_argument("--threads", type=int, default=2)
        parser.add_argument("--pairs-per-basket", type=float, default=2.0, help="`max_pairs` of bayes")
        parser.add_argument("--rank", type=int, default=64, help="of bayes")
        parser.add_argument("--fit", type=int, nargs="+", default=[500_000, 1_000_000])
        parser.add_argument("--folder", help="where shards and what was measured are kept")
        parser.add_argument("--unlimited", action="store_true", help="measure the memory, but refuse none")
        parser.add_argument("--no-save", action="store_true", help="keep no record")
        main(parser.parse_args())
