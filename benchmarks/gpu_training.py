"""Training on one GPU: speed, sizes, quality beside the CPU, PyTorch on the same card.

    PYTHONPATH=src python -m benchmarks.gpu_training                       # all but the quality
    PYTHONPATH=src python -m benchmarks.gpu_training --quality FOLDER
    PYTHONPATH=src python -m benchmarks.gpu_training --only speed,top      # these again, the others as recorded

Baskets are simulated (`supermarket`); dim 100, window 5, five negatives shared by the pairs of a place. FOLDER is what
`Baskets.save` wrote of the Instacart orders: their half-split shows the quality of `neat` with its defaults.
Writes benchmarks/results/gpu_training.json; `--results` names another folder, NEATREC_COMMIT the commit of a copy.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu_kernels import kernel_speed
from benchmarks.harness import RESULTS, commit, machine, versions
from neatrec.data.baskets import Baskets
from neatrec.errors import DivergedError
from neatrec.models import Run, make_model
from neatrec.models.embeddings.kernels import gpu
from neatrec.models.run import Progress

MODELS = ("neat", "neat-bpr", "item2vec", "triple2vec")
PARTS = (
    "speed",
    "roofs",
    "bundle",
    "top",
    "ranking",
    "together",
    "torch",
    "bpr",
    "sweep",
    "quality",
    "large",
    "million_items",
)
PACKAGES = ("numpy", "numba", "cupy-cuda13x", "torch", "implicit")
SEEDS = 5
CURVE = (1, 2, 5, 10, 20, 40, 80)
SETTINGS: dict[str, Any] = {"dim": 100, "window": 5, "negatives": 5, "negative_exponent": 0.75, "learning_rate": 0.2}
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
    """Pairs a second of the training loop, the first epoch (start of the kernels, baskets to the card) left out."""
    later = ends[1:] or ends
    return float(np.median([end.pairs_per_second for end in later]))


def speed(baskets: Baskets) -> list[Row]:
    """Pairs a second of each model: as the training loop sees it, and of the kernel alone."""
    rows = []
    for name in MODELS:
        fit(name, baskets.select(np.arange(20_000)), epochs=1)  # compiles
        _, ends, seconds = fit(name, baskets, epochs=5)
        pairs = sum(end.pairs for end in ends)
        rows.append(
            {
                "model": name,
                "kernel_billion_pairs_a_second": round(kernel_speed(name, baskets, settings_of(name)) / 1e9, 3),
                "loop_billion_pairs_a_second": round(pairs_a_second(ends) / 1e9, 3),
                "million_pairs": round(pairs / 1e6),
                "training_seconds": round(ends[-1].seconds, 3),
                "fit_seconds": round(seconds, 3),
                "losses": [round(end.loss, 4) for end in ends],
            }
        )
        print(rows[-1], flush=True)
    return rows


def bundle(baskets: Baskets) -> list[Row]:
    """From baskets in memory to a saved bundle."""
    from neatrec.bundle import save_bundle

    rows = []
    for name in ("neat",):
        with tempfile.TemporaryDirectory() as folder:
            started = time.perf_counter()
            model, ends, _ = fit(name, baskets, epochs=5)
            fitted = time.perf_counter()
            save_bundle(model, Path(folder) / "bundle", baskets_hash=baskets.hash, seed=0)
            ended = time.perf_counter()
        rows.append(
            {
                "model": name,
                "training_seconds": round(ends[-1].seconds, 3),
                "fit_seconds": round(fitted - started, 3),
                "hash_and_save_seconds": round(ended - fitted, 3),
                "seconds": round(ended - started, 3),
            }
        )
    return rows


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
    """Tables that are larger than the card's second cache: a million items, and what the card can do with such rows."""
    baskets = simulated(3_200_000, 1_000_000)
    return [*speed(baskets), *roofs(baskets)]


def top(baskets: Baskets) -> list[Row]:
    """The exact best 20 of all items for each of 50,000, by cosine, own category left out; checked on some rows."""
    from neatrec.models.embeddings.kernels.gpu_ranking import Ranker

    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(50_000, 100)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    category = rng.integers(0, 130, size=50_000).astype(np.int32)
    queries, sold = np.arange(50_000, dtype=np.int32), np.ones(50_000, dtype=bool)
    times = []
    for _ in range(4):
        started = time.perf_counter()
        found = Ranker(vectors).catalogue(queries, sold, category)
        times.append(time.perf_counter() - started)
    some = rng.integers(0, 50_000, size=200)
    scores = vectors[some].astype(np.float64) @ vectors.T.astype(np.float64)
    scores[category[some][:, None] == category[None]] = -np.inf
    wanted = -np.sort(-scores, axis=1)[:, :20]
    error = float(np.abs(np.take_along_axis(scores, found.best[some], axis=1) - wanted).max())
    return [{"items": 50_000, "k": 20, "seconds": round(float(np.median(times[1:])), 4), "largest_error": error}]


def ranking(baskets: Baskets) -> list[Row]:
    """Ranks of label records and the serving table of one fitted model, by each device; the share that is the same."""
    from neatrec.evaluation.candidates import candidate_set, catalogue, partners
    from neatrec.evaluation.ranks import LabelQueries, rank_labels
    from neatrec.serving.topk import best_answers

    some = baskets.select(np.arange(200_000))
    model, _, _ = fit("neat", some, epochs=3)
    best_sellers = np.sort(np.argsort(-some.item_counts, kind="stable")[:2_000]).astype(np.int32)
    bought_with = partners(some, best_sellers)
    candidates = candidate_set(bought_with, 200)
    rows = np.repeat(candidates.queries, np.diff(candidates.offsets))
    picked = np.random.default_rng(0).random(len(rows)) < 0.1
    pairs = np.array(sorted(zip(rows[picked].tolist(), candidates.items[picked].tolist(), strict=True)))
    asked = LabelQueries.from_pairs(pairs[:, 0], pairs[:, 1])
    kept = candidate_set(partners(some, asked.queries), 200)
    jobs: dict[str, Callable[[str], Any]] = {
        "candidate sets": lambda device: rank_labels(model, kept, asked, device=device),
        "whole catalogue": lambda device: rank_labels(model, catalogue(some, asked.queries), asked, device=device),
        "serving table, 100 an item": lambda device: best_answers(model, 100, device=device),
    }
    return [_beside(name, job, len(asked.query)) for name, job in jobs.items()]


def _beside(name: str, job: Callable[[str], Any], labels: int) -> Row:
    """Seconds of a job on each device, after a first round, and how far the answers are the same."""
    seconds, found = {}, {}
    for device in ("gpu", "cpu"):
        job(device)
        started = time.perf_counter()
        found[device] = job(device)
        seconds[device] = round(time.perf_counter() - started, 3)
    parts = ("higher", "best") if hasattr(found["gpu"], "higher") else ("item",)
    same = [float(np.mean(getattr(found["gpu"], part) == getattr(found["cpu"], part))) for part in parts]
    asked = labels if len(parts) == 2 else "-"
    return {"what": name, "labels": asked, **{f"{d}_seconds": s for d, s in seconds.items()}, "same": min(same)}


def torch(baskets: Baskets) -> list[Row]:
    from benchmarks.gpu_torch import torch_speeds

    return torch_speeds(baskets)


def bpr(baskets: Baskets) -> list[Row]:
    """BPR of implicit on the same card and baskets."""
    from benchmarks.gpu_bpr import implicit_speeds

    return implicit_speeds(baskets)


def roofs(baskets: Baskets) -> list[Row]:
    """Rows of the items' table and, drawn uniformly as `triple2vec` draws them, of the users' one."""
    from benchmarks.gpu_roofs import measure_roofs

    tables = {"items": baskets.item_counts}
    if baskets.user_ids is not None:
        tables["users"] = np.ones(len(baskets.user_ids))
    return [
        {"table": table, "rows": len(weights), "what": what, "billion_rows_a_second": round(value, 2)}
        for table, weights in tables.items()
        for what, value in measure_roofs(gpu.cupy(), weights).items()
    ]


def sweep(baskets: Baskets) -> list[Row]:
    """No NaN, and a loss that falls, over dimensions, learning rates and, where a model has one, margins."""
    some = baskets.select(np.arange(100_000))
    rows = []
    for name in MODELS:
        margins = (0.1, 1.0, 10.0) if name.startswith("neat") else ("-",)
        for margin, dim, rate in product(margins, (8, 100, 512), (0.05, 0.2, 0.5)):
            changes = {"dim": dim, "learning_rate": rate, **({} if margin == "-" else {"margin": margin})}
            settings = {"margin": margin, "dim": dim, "learning_rate": rate}
            rows.append({"model": name, **settings, **_outcome(name, some, changes)})
            print(rows[-1], flush=True)
    return rows


def _outcome(name: str, baskets: Baskets, changes: dict[str, Any]) -> Row:
    try:
        model, ends, _ = fit(name, baskets, epochs=3, **changes)
    except DivergedError as error:
        return {"finite": False, "falls": False, "losses": str(error)}
    losses = [end.loss for end in ends]
    finite = all(np.isfinite(array).all() for array in model.arrays(users=True).values() if array.dtype.kind == "f")
    return {"finite": finite, "falls": losses[-1] < losses[0], "losses": [round(loss, 4) for loss in losses]}


def together(baskets: Baskets) -> list[Row]:
    """One process through torch.distributed beside a plain fit, and the cost of synchronizing by NCCL."""
    from benchmarks.gpu_distributed import measure_distributed

    return measure_distributed(baskets, settings_of("neat", epochs=5))


def quality(folder: Path) -> list[Row]:
    """HR@10 on the half-split with the model's defaults, five seeds on each device, and the losses on the way."""
    from benchmarks.half_split import parts
    from neatrec.evaluation.ranks import rank_labels
    from neatrec.evaluation.summary import summarize_ranks

    part = parts(folder, False)[0]
    train, task = part.train, part.task
    fits = {device: [_by_defaults(train, device, seed) for seed in range(SEEDS)] for device in ("gpu", "cpu")}
    ranks = {
        device: [rank_labels(model, task.candidate_set, task.label_queries) for model, _ in of]
        for device, of in fits.items()
    }
    rows = []
    for standing in summarize_ranks(ranks, task.label_queries).models:
        losses = np.mean([model.fit_info()["losses"] for model, _ in fits[standing.name]], axis=0)
        epochs = [n for n in CURVE if n < len(losses)] + [len(losses)]
        rows.append(
            {
                "device": standing.name,
                "hr@10": round(standing.mean["hr@10"], 4),
                "interval": [round(standing.low["hr@10"], 4), round(standing.high["hr@10"], 4)],
                "ndcg@10": round(standing.mean["ndcg@10"], 4),
                "seed_sd": round((standing.seed_sd or {}).get("hr@10", 0.0), 4),
                "losses": [f"{losses[n - 1]:.4f} after {n}," for n in epochs],
                "fit_seconds": round(float(np.median([seconds for _, seconds in fits[standing.name]])), 3),
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
    """The results of earlier runs, which stay until their part is measured again, and when they were measured."""
    old = json.loads(file.read_text()) if file.exists() else {"results": {}}
    results = {name: old["results"][name] for name in PARTS if name in old["results"]}
    when = old.get("measured", {})
    return {"results": results, "measured": {n: when.get(n, f"{old['date']}, commit {old['commit']}") for n in results}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--baskets", type=int, default=3_200_000)
    parser.add_argument("--items", type=int, default=49_688)
    parser.add_argument("--only", default=",".join(PARTS), help="parts to run, of " + ", ".join(PARTS))
    parser.add_argument("--quality", type=Path, help="saved baskets: the Instacart orders")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if (trouble := gpu.unavailable_reason()) is not None:
        print(f"left out: {trouble}")
        return
    baskets = simulated(arguments.baskets, arguments.items)
    jobs: dict[str, Callable[[], list[Row]]] = {
        name: lambda job=job: job(baskets)  # type: ignore[misc]
        for name, job in (
            ("speed", speed),
            ("roofs", roofs),
            ("bundle", bundle),
            ("top", top),
            ("ranking", ranking),
            ("together", together),
            ("torch", torch),
            ("bpr", bpr),
            ("sweep", sweep),
            ("large", large),
            ("million_items", million_items),
        )
    }
    if arguments.quality is not None:
        jobs["quality"] = lambda: quality(arguments.quality)
    record: Row = {
        "benchmark": "gpu_training",
        "command": "python -m benchmarks.gpu_training",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": commit(),
        "card": card(),
        "machine": machine(),
        "versions": versions(PACKAGES),
        "data": f"{len(baskets):,} simulated baskets, {baskets.lines:,} lines, {len(baskets.catalog):,} items",
        **recorded(arguments.results / "gpu_training.json"),
    }
    arguments.results.mkdir(parents=True, exist_ok=True)
    for name in (part for part in PARTS if part in arguments.only.split(",") and part in jobs):
        started = time.perf_counter()
        record["results"][name] = jobs[name]()
        record["measured"][name] = f"{record['date']}, commit {record['commit']}"
        print(f"== {name} ({time.perf_counter() - started:.0f} s)", *record["results"][name], sep="\n", flush=True)
        (arguments.results / "gpu_training.json").write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
