"""Scaling: what each stage costs against the size of its input, and the forecast for a larger one.

    python -m benchmarks.scaling [--fit 100000 300000 1000000 3000000] [--held-out 10000000] [--at-once 1] [--folder D]
    python -m benchmarks.scaling --recorded [--workers 100 --cores 32 --gpus 8 --core-price 0.05 --gpu-price 4 ...]

Every stage runs on one thread in a process of its own: CPU seconds (the machine may be shared), peak memory. A power
law for the seconds and a straight line for the memory are fitted to the sizes of `--fit` (four of them) and to other
numbers of items, and asked for the runs held out. `--recorded` measures nothing and forecasts from the record. What
workers, network and money are is assumed by the options, not measured. The folder D keeps what was measured: the same
command goes on there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS, ROOT, save, table
from benchmarks.scaling_model import (
    Cluster,
    Point,
    Target,
    check,
    fit_bytes,
    fit_seconds,
    on_cores,
    on_gpus,
    synchronizations,
    table_bytes,
)

ITEMS = 50_000
OTHER_ITEMS = (10_000, 200_000)
"""Of runs with the number of baskets of the third size."""
BY_BASKETS = ("simulate", "labels_paper", "labels_calibrated", "recall_sets", "training", "evidence", "evaluation")
TABLES = {"table_exact": (12_500, 25_000, 50_000, 100_000), "table_approximate": (25_000, 50_000, 100_000, 200_000)}
"""Numbers of items; the last one is held out."""
SMALL, LARGE = 100_000, 3_000_000
"""Of up to so many baskets the better of two runs counts; more than so many have the memory to themselves."""

Run = dict[str, Any]


def plan(fit: list[int], held_out: list[int]) -> list[Run]:
    """What is to be measured: stage, baskets, items, whether it is held out."""
    runs: list[Run] = []
    for stage in ("read", *BY_BASKETS):
        for held, numbers in ((False, fit), (True, held_out)):
            runs += [{"stage": stage, "baskets": n, "items": ITEMS, "held_out": held} for n in numbers]
        if stage != "read":
            runs += [{"stage": stage, "baskets": fit[2], "items": items, "held_out": False} for items in OTHER_ITEMS]
    for stage, catalogues in TABLES.items():
        for items in catalogues:
            runs.append({"stage": stage, "baskets": 0, "items": items, "held_out": items == catalogues[-1]})
    return sorted(runs, key=lambda run: (int(run["baskets"]), run["stage"] != "simulate"))


def measured(run: Run, folder: Path) -> Run:
    """The run with what it took; of a small one the better of two."""
    stage, baskets, items = run["stage"], run["baskets"], run["items"]
    place = folder / f"{baskets}-{items}"
    took = [_once(stage, place, baskets, items) for _ in range(2 if 0 < baskets <= SMALL else 1)]
    return {**run, **min(took, key=lambda one: float(one["cpu"]))}


def _once(stage: str, place: Path, baskets: int, items: int) -> Run:
    command = [sys.executable, "-m", "benchmarks._scaling_stages", stage, str(place), str(baskets), str(items)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{stage} of {baskets:,} baskets failed:\n{done.stderr}")
    found: Run = json.loads(done.stdout.splitlines()[-1])
    return found


def measure_all(runs: list[Run], folder: Path, at_once: int = 1) -> list[Run]:
    """All runs, those that the folder knows taken from there; the baskets of a size are simulated first."""
    kept = folder / "runs.jsonl"
    known = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []

    def found(run: Run) -> Run:
        old = next((old for old in known if all(old[key] == value for key, value in run.items())), None)
        if old is not None:
            return old
        new = measured(run, folder)
        with kept.open("a") as file:
            file.write(json.dumps(new) + "\n")
        print({key: round(value, 2) if isinstance(value, float) else value for key, value in new.items()}, flush=True)
        return new

    done = []
    for (baskets, _), some in groupby(runs, key=lambda run: (run["baskets"], run["stage"] == "simulate")):
        with ThreadPoolExecutor(1 if baskets > LARGE else at_once) as pool:
            done += pool.map(found, some)
    return done


def points(runs: list[Run], *, held_out: bool) -> dict[str, list[Point]]:
    """Stage -> its runs. Lines of a run are those of the simulation of its size."""
    a_basket = max((r for r in runs if r["stage"] == "simulate"), key=lambda r: float(r["work"]))
    lines = float(a_basket["work"]) / a_basket["baskets"]
    found: dict[str, list[Point]] = {}
    for run in runs:
        if run["held_out"] == held_out:
            size = run["baskets"] * lines
            point = Point(run["work"], run["items"], size, run["cpu"], run["peak_mib"] * 2**20)
            found.setdefault(run["stage"], []).append(point)
    return found


def laws(runs: list[Run]) -> dict[str, dict[str, float]]:
    """What was fitted, by stage."""
    found = {}
    for stage, of_stage in points(runs, held_out=False).items():
        time, memory = fit_seconds(of_stage), fit_bytes(of_stage)
        found[stage] = {**asdict(time), **{f"bytes_{key}": value for key, value in asdict(memory).items()}}
        largest = max(of_stage, key=lambda point: point.work)
        found[stage]["work_a_second"] = largest.work / largest.seconds
    return found


def forecast(
    runs: list[Run],
    target: Target,
    cluster: Cluster,
    queries: int,
    *,
    gpu_pairs_a_second: float,
    spark_seconds: float,
) -> list[Run]:
    """Stage after stage of a target on a cluster; `spark_seconds` of CPU for a record that Spark counts and tests."""
    known = points(runs, held_out=False)
    largest = {stage: max(of_stage, key=lambda point: point.lines) for stage, of_stage in known.items()}
    rows = []
    for stage, of_stage in known.items():
        if stage == "simulate":
            continue
        if stage.startswith("table"):
            work = target.items ** (2 if stage == "table_exact" else 1)
        elif stage == "evaluation":
            work = queries * target.items
        else:
            work = largest[stage].work / largest[stage].lines * target.lines
        seconds = fit_seconds(of_stage).seconds(work, target.items)
        epochs = target.epochs if stage == "training" else 1
        # lines are divided over the workers; what is held for each item is not
        memory = fit_bytes(of_stage)
        held = {"bytes": memory.bytes(target.lines / cluster.workers, target.items)}
        held["bytes_in_one"] = memory.bytes(target.lines, target.items)
        rows.append({"stage": stage, "work": work * epochs, **on_cores(epochs * seconds, cluster), **held})
        if stage == "labels_paper":
            rows.append({"stage": "labels_paper, Spark", "work": work, **on_cores(work * spark_seconds, cluster)})
        if stage == "training":
            gpu = on_gpus(work * epochs, gpu_pairs_a_second, cluster)
            held = {"bytes": table_bytes(target.items, target.dim)}
            rows.append({"stage": "training, GPUs", "work": work * epochs, **gpu, **held})
    return rows


def recorded_gpu_speed() -> float:
    """Training pairs a second of `benchmarks.gpu_training`, its whole loop."""
    found = json.loads((RESULTS / "gpu_training.json").read_text())["results"]["speed"]
    return float(next(row for row in found if row["model"] == "neat")["loop_billion_pairs_a_second"]) * 1e9


def recorded_spark_seconds() -> float:
    """CPU seconds per record of `benchmarks.spark_counting paper`, the start of its workers included."""
    found = json.loads((RESULTS / "spark_counting_paper.json").read_text())["results"]["runs"]["instacart, paper"]
    return float(found["cpu"]) / float(found["records"])


def show(runs: list[Run], options: argparse.Namespace) -> dict[str, Any]:
    """All tables printed, and as a record."""
    rows = [["stage", "baskets", "items", "work", "CPU s", "work/CPU s", "peak MiB"]]
    for run in sorted(runs, key=lambda r: (r["stage"], r["items"], r["baskets"])):
        numbers = (run["work"], run["cpu"], run["work"] / run["cpu"], run["peak_mib"])
        rows.append([run["stage"], f"{run['baskets']:,}", f"{run['items']:,}", *(f"{x:.4g}" for x in numbers)])
    found = laws(runs)
    fitted = [["fitted", "exponent", "of items", "bytes a line", "bytes an item"]]
    for stage, law in found.items():
        numbers = (law["exponent"], law["item_exponent"], law["bytes_by_line"], law["bytes_by_item"])
        fitted.append([stage, *(f"{x:.3g}" for x in numbers)])
    checks = check(points(runs, held_out=False), points(runs, held_out=True))
    held = [["held out", "lines", "items", "CPU s", "predicted", "off", "MiB", "predicted", "off"]]
    for row in checks:
        held.append([row["stage"], f"{row['lines']:.3g}", f"{row['items']:.3g}"])
        for key, unit in (("seconds", 1.0), ("bytes", 2.0**20)):
            held[-1] += [f"{row[key] / unit:.4g}", f"{row[f'predicted_{key}'] / unit:.4g}"]
            held[-1].append(f"{row[f'{key}_error']:+.0%}")
    baskets = options.lines / options.lines_a_basket
    target = Target(options.lines, baskets, options.items, options.epochs, 100, options.sync_every, options.negatives)
    cluster = Cluster(
        options.workers,
        options.cores,
        options.gpus,
        options.efficiency,
        options.network,
        options.core_price,
        options.gpu_price,
    )
    ahead = forecast(
        runs,
        target,
        cluster,
        options.queries,
        gpu_pairs_a_second=recorded_gpu_speed(),
        spark_seconds=recorded_spark_seconds(),
    )
    synchronized = {
        f"{cluster.workers} processes on CPUs": synchronizations(target, cluster.workers, 1, cluster, gpus=False),
        f"{cluster.gpus} processes on GPUs": synchronizations(target, cluster.gpus, 1, cluster, gpus=True),
    }
    far = [["forecast", "core h", "GPU h", "hours", "money", "GiB a worker", "GiB in one"]]
    for row in ahead:
        cells = [f"{row[key]:.3g}" if key in row else "" for key in ("core_hours", "gpu_hours", "hours", "money")]
        sizes = [f"{row[key] / 2**30:.3g}" if key in row else "" for key in ("bytes", "bytes_in_one")]
        far.append([row["stage"], *cells, *sizes])
    print("\n\n".join(table(part) for part in (rows, fitted, held, far)))
    for processes, sums in synchronized.items():
        print(
            f"\n{processes} synchronize {sums['times']:,.0f} times over at most {sums['rows']:.3g} rows, "
            f"{sums['bytes_each'] / 1e9:.3g} GB each: {sums['hours']:.3g} hours of network",
            end="",
        )
    print()
    about = {"target": asdict(target), "cluster": asdict(cluster), "queries": options.queries}
    far_record = {"assumed": about, "stages": ahead, "synchronizations": synchronized}
    return {"runs": runs, "laws": found, "held_out": checks, "forecast": far_record}


def main(options: argparse.Namespace) -> None:
    if options.recorded:
        show(json.loads((RESULTS / "scaling.json").read_text())["results"]["runs"], options)
        return
    with tempfile.TemporaryDirectory(prefix="neatrec-bench-") as name:
        folder = Path(options.folder or name)
        folder.mkdir(parents=True, exist_ok=True)
        runs = measure_all(plan(options.fit, options.held_out), folder, options.at_once)
    said = f"--fit {' '.join(map(str, options.fit))} --held-out {' '.join(map(str, options.held_out))}"
    save("scaling", show(runs, options), ("numpy", "numba", "duckdb", "faiss-cpu"), options=said)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fit", type=int, nargs="+", default=[100_000, 300_000, 1_000_000, 3_000_000])
    parser.add_argument("--held-out", type=int, nargs="+", default=[10_000_000])
    parser.add_argument("--at-once", type=int, default=1, help="runs, of one thread each, at the same time")
    parser.add_argument("--folder", help="where simulated baskets and what was measured are kept")
    parser.add_argument("--recorded", action="store_true", help="measure nothing: forecast from the record")
    ahead = parser.add_argument_group("the forecast: assumptions, not measurements")
    ahead.add_argument("--lines", type=float, default=1e10)
    ahead.add_argument("--lines-a-basket", type=float, default=10.5)
    ahead.add_argument("--items", type=float, default=1e8)
    ahead.add_argument("--epochs", type=int, default=5)
    ahead.add_argument("--queries", type=int, default=10_000, help="of the evaluation, each ranked beside all items")
    ahead.add_argument("--sync-every", type=float, default=1e6, help="baskets of a process between synchronizations")
    ahead.add_argument("--negatives", type=int, default=5, help="that the pairs of a line share")
    ahead.add_argument("--workers", type=int, default=100)
    ahead.add_argument("--cores", type=int, default=32, help="of a worker")
    ahead.add_argument("--gpus", type=int, default=8)
    ahead.add_argument("--efficiency", type=float, default=0.7, help="share of the time that goes into the work")
    ahead.add_argument("--network", type=float, default=1.25e9, help="bytes a second of a worker")
    ahead.add_argument("--core-price", type=float, default=0.05, help="an hour")
    ahead.add_argument("--gpu-price", type=float, default=4.0, help="an hour")
    return parser.parse_args()


if __name__ == "__main__":
    main(parsed())
