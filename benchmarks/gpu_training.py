"""Training on one GPU: speed, sizes, quality beside the CPU, PyTorch on the same card.

    PYTHONPATH=src python -m benchmarks.gpu_training                       # all but the quality
    PYTHONPATH=src python -m benchmarks.gpu_training --quality FILE
    PYTHONPATH=src python -m benchmarks.gpu_training --only speed,bundle   # these again

Baskets are simulated (`supermarket`); dim 100, window 5, five negatives shared by the pairs of a
place. FILE holds the pickled `Baskets` of the Instacart orders: their half-split shows the
quality of `neat` with its defaults. Writes benchmarks/results/gpu_training.json; `--results` names
another folder, NEATREC_COMMIT the commit of a copy.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import RESULTS, argument_parser, commit, machine, versions
from neatrec.data.baskets import Baskets
from neatrec.models import Run, make_model
from neatrec.models.embeddings.base import EmbeddingModel
from neatrec.models.embeddings.kernels import gpu
from neatrec.models.embeddings.kernels.arguments import KernelInput
from neatrec.models.embeddings.kernels.dispatch import kernel, training_device
from neatrec.models.embeddings.trainer import new_draws, prepare
from neatrec.models.run import Progress

MODELS = ("neat", "neat-bpr", "item2vec", "triple2vec")
PARTS = ("speed", "bundle", "torch", "bpr", "quality", "large", "million_items")
PACKAGES = ("numpy", "numba", "cupy-cuda13x", "torch", "implicit")
SEEDS, ROUNDS = 5, 5
CURVE = (1, 2, 5, 10, 20, 40, 80)
SETTINGS: dict[str, Any] = {
    "dim": 100,
    "window": 5,
    "negatives": 5,
    "negative_exponent": 0.75,
    "learning_rate": 0.2,
}
OF_NEAT = {"margin": 0.5, "variance_learning_rate": 0.05, "start_log_variance": 0.0}
"""Written out, so that numbers of different days can be compared whatever the defaults become."""

Row = dict[str, Any]


def simulated(baskets: int, items: int) -> Baskets:
    from neatrec.simulator import supermarket

    return supermarket(baskets=baskets, items=items).baskets


def settings_of(name: str, **changes: Any) -> dict[str, Any]:
    return {**SETTINGS, **(OF_NEAT if name.startswith("neat") else {}), **changes}


def fit(
    name: str, baskets: Baskets, device: str = "gpu", seed: int = 0, **settings: Any
) -> tuple[Any, list[Progress], float]:
    """(model, progress at the end of each epoch, seconds of the whole fit)."""
    ends: list[Progress] = []

    def note(progress: Progress) -> None:
        if progress.epoch == len(ends) + 1:
            ends.append(progress)

    model = make_model(name, settings_of(name, **settings))
    started = time.perf_counter()
    model.fit(baskets, Run(rng=seed, device=device, progress=note))
    return model, ends, time.perf_counter() - started


def pairs_a_second(ends: list[Progress]) -> float:
    """Pairs per second of the training loop, without the first epoch (start, transfer)."""
    later = ends[1:] or ends
    return float(np.median([end.pairs_per_second for end in later]))


def kernel_speed(name: str, baskets: Baskets, settings: dict[str, Any]) -> float:
    """Median pairs per second of a model's kernel, without the first epoch."""
    model = make_model(name, settings)
    if not isinstance(model, EmbeddingModel):
        raise TypeError(f"{name} has no kernel")
    cp, device, step = gpu.cupy(), training_device("gpu"), kernel(model.kernel, "gpu")
    data = prepare(baskets, baskets.catalog.category_of(None), with_users=model.needs_users)
    exponent = model.parameters.negative_exponent
    draws = new_draws(data, exponent, reject_observed=False, reject_bought=model.reject_bought)
    tables = model._initial_tables(np.random.default_rng(0), data)
    rate, units = model.parameters.learning_rate, len(data.visit.start)
    given = model._settings()._replace(rate=rate, last_rate=rate)
    there = device.put(KernelInput(tuple(tables.values()), data.visit, draws, given))
    speeds = []
    for epoch in range(ROUNDS + 1):
        visit = device.shuffled(there.visit, data.ordered, np.random.default_rng(epoch))
        seeded = there.draws._replace(seed=np.uint64(epoch))
        call = there._replace(visit=visit, draws=seeded, done=epoch * units)
        start, end = cp.cuda.Event(), cp.cuda.Event()
        start.record()
        stats = step(call, 0, units, 1)
        end.record()
        end.synchronize()
        speeds.append(stats.pairs / cp.cuda.get_elapsed_time(start, end) * 1e3)
    return float(np.median(speeds[1:]))


def speed(baskets: Baskets) -> list[Row]:
    """Pairs a second of each model: as the training loop sees it, and of the kernel alone."""
    rows = []
    for name in MODELS:
        fit(name, baskets.select(np.arange(20_000)), epochs=1)  # compiles
        _, ends, seconds = fit(name, baskets, epochs=5)
        pairs = sum(end.pairs for end in ends)
        of_kernel = kernel_speed(name, baskets, settings_of(name))
        row = {
            "model": name,
            "kernel_billion_pairs_a_second": round(of_kernel / 1e9, 3),
            "loop_billion_pairs_a_second": round(pairs_a_second(ends) / 1e9, 3),
            "million_pairs": round(pairs / 1e6),
            "training_seconds": round(ends[-1].seconds, 3),
            "fit_seconds": round(seconds, 3),
            "losses": [round(end.loss, 4) for end in ends],
        }
        rows.append(row)
        print(row, flush=True)
    return rows


def bundle(baskets: Baskets) -> list[Row]:
    """From baskets in memory to a saved bundle of `neat`."""
    from neatrec.bundle import save_bundle

    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        model, ends, _ = fit("neat", baskets, epochs=5)
        fitted = time.perf_counter()
        save_bundle(model, Path(folder) / "bundle", seed=0)
        ended = time.perf_counter()
    row = {
        "model": "neat",
        "training_seconds": round(ends[-1].seconds, 3),
        "fit_seconds": round(fitted - started, 3),
        "hash_and_save_seconds": round(ended - fitted, 3),
        "seconds": round(ended - started, 3),
    }
    return [row]


def large(_: Baskets) -> list[Row]:
    """The size of Walmart's data: 14 million baskets, 100,000 items."""
    baskets = simulated(14_000_000, 100_000)
    _, ends, seconds = fit("neat", baskets, epochs=5)
    return [
        {
            "baskets": len(baskets),
            "lines": baskets.lines,
            "billion_pairs_a_second": round(pairs_a_second(ends) / 1e9, 3),
            "training_seconds": round(ends[-1].seconds, 3),
            "fit_seconds": round(seconds, 3),
        }
    ]


def million_items(_: Baskets) -> list[Row]:
    """Tables that are larger than the card's second cache: a million items."""
    return speed(simulated(3_200_000, 1_000_000))


def torch(baskets: Baskets) -> list[Row]:
    from benchmarks.gpu_peers import torch_speeds

    return torch_speeds(baskets)


def bpr(baskets: Baskets) -> list[Row]:
    """BPR of implicit on the same card and baskets."""
    from benchmarks.gpu_peers import implicit_speeds

    return implicit_speeds(baskets)


def quality(file: Path) -> list[Row]:
    """HR@10 and losses on the half-split with the model's defaults, five seeds per device."""
    from benchmarks.half_split import half_part
    from neatrec.evaluation.ranks import rank_labels
    from neatrec.evaluation.summary import compare_models

    part = half_part(file)
    train, task = part.train, part.task
    fits = {
        device: [_by_defaults(train, device, seed) for seed in range(SEEDS)]
        for device in ("gpu", "cpu")
    }
    ranks = {
        device: [rank_labels(model, task.candidate_set, task.label_queries) for model, _ in of]
        for device, of in fits.items()
    }
    rows = []
    for row in compare_models(ranks, task.label_queries)[0]:
        losses = np.mean([model.learned["losses"] for model, _ in fits[row["model"]]], axis=0)
        epochs = [n for n in CURVE if n < len(losses)] + [len(losses)]
        rows.append(
            {
                "device": row["model"],
                "hr@10": round(row["hr@10"], 4),
                "interval": [round(row["hr@10_low"], 4), round(row["hr@10_high"], 4)],
                "ndcg@10": round(row["ndcg@10"], 4),
                "seed_sd": round(row["hr@10_sd"], 4),
                "losses": [f"{losses[n - 1]:.4f} after {n}," for n in epochs],
                "fit_seconds": round(
                    float(np.median([seconds for _, seconds in fits[row["model"]]])), 3
                ),
            }
        )
    return rows


def _by_defaults(train: Baskets, device: str, seed: int) -> tuple[Any, float]:
    model = make_model("neat")
    started = time.perf_counter()
    model.fit(train, Run(rng=seed, device=device))
    return model, time.perf_counter() - started


def card() -> Row:
    cp = gpu.cupy()
    about = cp.cuda.runtime.getDeviceProperties(0)
    return {
        "name": about["name"].decode(),
        "multiprocessors": about["multiProcessorCount"],
        "memory_gib": round(about["totalGlobalMem"] / 2**30, 1),
        "l2_mib": round(about["l2CacheSize"] / 2**20),
        "driver": cp.cuda.runtime.driverGetVersion(),
        "cuda": cp.cuda.runtime.runtimeGetVersion(),
    }


def recorded(file: Path) -> Row:
    """Results and dates of earlier runs, kept until their part is measured again."""
    old = json.loads(file.read_text()) if file.exists() else {"results": {}}
    results = {name: old["results"][name] for name in PARTS if name in old["results"]}
    when = old.get("measured", {})
    return {
        "results": results,
        "measured": {n: when.get(n, f"{old['date']}, commit {old['commit']}") for n in results},
    }


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--baskets", type=int, default=3_200_000)
    parser.add_argument("--items", type=int, default=49_688)
    parser.add_argument(
        "--only", default=",".join(PARTS), help="parts to run, of " + ", ".join(PARTS)
    )
    parser.add_argument("--quality", type=Path, help="pickled baskets: the Instacart orders")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if (trouble := gpu.unavailable_reason()) is not None:
        print(f"left out: {trouble}")
        return
    baskets = simulated(arguments.baskets, arguments.items)
    parts = (speed, bundle, torch, bpr, large, million_items)
    jobs: dict[str, Callable[[], list[Row]]] = {
        part.__name__: partial(part, baskets) for part in parts
    }
    if arguments.quality is not None:
        jobs["quality"] = partial(quality, arguments.quality)
    record: Row = {
        "benchmark": "gpu_training",
        "command": "python -m benchmarks.gpu_training",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": commit(),
        "card": card(),
        "machine": machine(),
        "versions": versions(PACKAGES),
        "data": f"{len(baskets):,} simulated baskets, {baskets.lines:,} lines, "
        f"{len(baskets.catalog):,} items",
        **recorded(arguments.results / "gpu_training.json"),
    }
    arguments.results.mkdir(parents=True, exist_ok=True)
    for name in (part for part in PARTS if part in arguments.only.split(",") and part in jobs):
        started = time.perf_counter()
        record["results"][name] = jobs[name]()
        record["measured"][name] = f"{record['date']}, commit {record['commit']}"
        print(f"== {name} ({time.perf_counter() - started:.0f} s)")
        print(*record["results"][name], sep="\n", flush=True)
        (arguments.results / "gpu_training.json").write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
