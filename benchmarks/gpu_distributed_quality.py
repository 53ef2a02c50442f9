"""Two processes with GPU kernels beside one, at equal data: HR@10 on the half-split of the Instacart orders.

    PYTHONPATH=src python -m benchmarks.gpu_distributed_quality [--baskets FOLDER] [--every 4096] [--seeds 2]

Needs a GPU and torch. FOLDER: what `Baskets.save` wrote of the orders. `neat`, 40 epochs, the paper's labels in recall
sets of 200, 95 % interval over queries. Where there is one card two processes share it, and their sums go by gloo; with
two cards by NCCL. Seconds are not compared: the processes share a card.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.half_split import orders, parts
from benchmarks.harness import ROOT, save, table
from neatrec.data.baskets import Baskets
from neatrec.data.splits import half
from neatrec.models import Run, make_model
from neatrec.models.base import Model
from neatrec.models.embeddings.synchronize import Synchronizer

SHARDS, EPOCHS = 8, 40


def fitted(train: Baskets, seed: int, synchronizer: Synchronizer | None) -> Model:
    shards = [train.select(part) for part in np.array_split(np.arange(len(train)), SHARDS)]
    return make_model("neat", epochs=EPOCHS).fit(shards, Run(rng=seed, device="gpu", synchronizer=synchronizer))


def worker(folder: str, out: str, every: str, seeds: str) -> None:
    """One process: the models of all seeds, which the first process writes."""
    from neatrec.training.distributed import LaunchEnvironment, process_group

    launch = LaunchEnvironment.read()
    if launch is None:
        sys.exit("the worker is started by torchrun")
    train = half(orders(Path(folder) if folder else None)).train
    with process_group(launch, "gpu") as group:
        for seed in range(int(seeds)):
            model = fitted(train, seed, Synchronizer(group, int(every)))
            if group.rank == 0:
                np.savez(f"{out}/{seed}.npz", **model.arrays())  # type: ignore[arg-type]


def by_two(folder: Path | None, every: int, seeds: int, like: Model) -> list[Model]:
    with tempfile.TemporaryDirectory(prefix="neatrec-bench-") as out:
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        words = ["-m", "benchmarks.gpu_distributed_quality", "--worker", str(folder or ""), out, str(every), str(seeds)]
        done = subprocess.run(
            [sys.executable, *launcher, *words], cwd=ROOT, capture_output=True, text=True, check=False
        )
        if done.returncode:
            sys.exit(done.stderr)
        saved = [dict(np.load(f"{out}/{seed}.npz")) for seed in range(seeds)]
    return [type(like).from_arrays(like.parameters, like.catalog, arrays) for arrays in saved]


def main(baskets: Path | None, every: int, seeds: int) -> None:
    from neatrec.evaluation.ranks import rank_labels
    from neatrec.evaluation.summary import summarize_ranks

    part = parts(baskets, False)[0]
    one = [fitted(part.train, seed, None) for seed in range(seeds)]
    models = {"one process": one, f"two, every {every:,} baskets": by_two(baskets, every, seeds, one[0])}
    task = part.task
    ranks = {
        name: [rank_labels(model, task.candidate_set, task.label_queries) for model in found]
        for name, found in models.items()
    }
    rows: dict[str, dict[str, Any]] = {}
    for standing in summarize_ranks(ranks, task.label_queries).models:
        numbers = {"hr@10": standing.mean["hr@10"], "low": standing.low["hr@10"], "high": standing.high["hr@10"]}
        losses = [model.fit_info()["losses"][-1] for model in models[standing.name]]
        rows[standing.name] = {**{key: round(value, 4) for key, value in numbers.items()}, "last_losses": losses}
        print(standing.name, rows[standing.name], flush=True)
    columns = ("hr@10", "low", "high", "last_losses")
    print(table([["training", *columns], *([name, *(str(row[c]) for c in columns)] for name, row in rows.items())]))
    about = {
        "model": "neat",
        "epochs": EPOCHS,
        "seeds": seeds,
        "baskets": len(part.train),
        "labels": len(task.label_queries.query),
    }
    save("gpu_distributed_quality", {"about": about, "rows": rows}, ("torch", "numpy", "cupy-cuda13x"))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(*sys.argv[2:])
        sys.exit(0)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--baskets", type=Path)
    parser.add_argument("--every", type=int, default=4096)
    parser.add_argument("--seeds", type=int, default=2)
    main(**vars(parser.parse_args()))
