"""How fast the embedding models train, in directed positive pairs a CPU-second, beside gensim and PyTorch.

    python -m benchmarks.training_speed            # written to benchmarks/results/training_speed.json
    python -m benchmarks.training_speed --large    # 3.2 million simulated baskets: results/training_speed_large.json

Whole baskets of the Instacart train orders, no pair left out for its category, dim 100, window 5, five negatives. Every
job runs in a process of its own, in turn with the others. Ours are whole fits of several epochs on one thread (compiled
code is loaded before the clock starts); gensim's is the call of `train` alone, PyTorch's some hundred steps.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.harness import ROOT, measure_in_turn, save, summary, table
from benchmarks.label_data import read_orders
from benchmarks.label_speed import _baskets
from benchmarks.training_peers import TORCH_FOLDER
from neatrec.data.baskets import Baskets
from neatrec.models import Run, make_model
from neatrec.models.run import Progress

HERE, PEERS = "benchmarks.training_speed", "benchmarks.training_peers"
PACKAGES = ("numpy", "numba", "gensim", "torch")
EPOCHS = 3
GENSIM = "gensim 4 skip-gram, one worker"

MODELS = {
    GENSIM: (PEERS, "gensim_skip_gram"),
    "neat": (HERE, "neat"),
    "neat, five fresh negatives a pair": (HERE, "neat_fresh"),
    "neat, observed partners refused": (HERE, "neat_rejecting"),
    "neat, reproducible": (HERE, "neat_reproducible"),
    "neat, preset paper": (HERE, "neat_paper"),
    "neat-bpr": (HERE, "neat_bpr"),
    "item2vec, five fresh negatives a pair (as gensim)": (HERE, "item2vec_fresh"),
    "item2vec": (HERE, "item2vec"),
    "triple2vec": (HERE, "triple2vec"),
}
TORCH = {
    "PyTorch, nn.Embedding": (PEERS, "torch_neat"),
    "PyTorch, nn.Embedding(sparse=True)": (PEERS, "torch_neat_sparse"),
}
THREADS = {
    "fast, 1 thread": (HERE, "neat"),
    "fast, 2 threads": (HERE, "neat_two_threads"),
    "reproducible, 1 thread": (HERE, "neat_reproducible"),
    "reproducible, 2 threads": (HERE, "neat_reproducible_two_threads"),
}
LARGE = {"neat, 2 threads": (HERE, "neat_simulated")}
LARGE_EPOCHS = "NEATREC_BENCHMARK_EPOCHS"
"""How the epochs of the large table reach its process."""

Job = Callable[[], Any]


def neat() -> Job:
    return _fit("neat")


def neat_two_threads() -> Job:
    return _fit("neat", threads=2)


def neat_fresh() -> Job:
    return _fit("neat", negatives_shared=False)


def neat_rejecting() -> Job:
    return _fit("neat", reject_observed=True)


def neat_reproducible() -> Job:
    return _fit("neat", reproducible=True)


def neat_reproducible_two_threads() -> Job:
    return _fit("neat", reproducible=True, threads=2)


def neat_paper() -> Job:
    return _fit("neat", preset="paper", epochs=1)


def neat_bpr() -> Job:
    return _fit("neat-bpr", epochs=1)


def item2vec() -> Job:
    return _fit("item2vec")


def item2vec_fresh() -> Job:
    return _fit("item2vec", negatives_shared=False, negative_exponent=0.75)


def triple2vec() -> Job:
    return _fit("triple2vec", epochs=1)


def neat_simulated() -> Job:
    """3.2 million simulated baskets over 50,000 items; tells lines and pairs."""
    from neatrec.simulator import supermarket

    baskets = supermarket(baskets=3_200_000, items=50_000).baskets
    epochs = int(os.environ[LARGE_EPOCHS])
    _warm("neat", baskets, {})
    seen: list[Progress] = []

    def job() -> dict[str, float]:
        model = make_model("neat", dim=100, epochs=epochs)
        model.fit(baskets, Run(threads=2, progress=_epoch_ends(seen)))
        size = baskets.items.nbytes + baskets.offsets.nbytes
        return {
            "epochs": epochs,
            "lines": baskets.lines,
            "pairs": sum(p.pairs for p in seen),
            "baskets_mib": round(size / 2**20),
            "parameters_mib": round(len(baskets.catalog) * 112 * 4 / 2**20),
        }

    return job


def _fit(name: str, *, threads: int = 1, reproducible: bool = False, preset: str | None = None, **settings: Any) -> Job:
    orders = read_orders()
    baskets = _with_users(_baskets(orders))
    # what gensim is given too, whatever the model's own defaults are
    settings = {"dim": 100, "epochs": EPOCHS, "category_level": None, "window": 5, "negatives": 5, **settings}
    _warm(name, baskets, settings, preset, reproducible)
    seen: list[Progress] = []

    def job() -> int:
        model = make_model(name, settings, preset=preset)
        model.fit(baskets, Run(threads=threads, reproducible=reproducible, progress=_epoch_ends(seen)))
        return sum(progress.pairs for progress in seen)

    return job


def _warm(
    name: str, baskets: Baskets, settings: dict[str, Any], preset: str | None = None, reproducible: bool = False
) -> None:
    """Load the compiled code."""
    few = baskets.select(np.arange(200))
    make_model(name, {**settings, "epochs": 1}, preset=preset).fit(few, Run(threads=1, reproducible=reproducible))


def _with_users(baskets: Baskets) -> Baskets:
    from dataclasses import replace

    return replace(baskets, users=np.arange(len(baskets), dtype=np.int32), user_ids=baskets.ids)


def _epoch_ends(seen: list[Progress]) -> Callable[[Progress], None]:
    def note(progress: Progress) -> None:
        if progress.epoch == len(seen) + 1:
            seen.append(progress)

    return note


def compare(title: str, jobs: dict[str, tuple[str, str]], rounds: int) -> list[dict[str, Any]]:
    """Measure the jobs of one table in turn, and print it."""
    print(f"\n{title}", flush=True)
    rows = []
    for name, runs in measure_in_turn(jobs, rounds).items():
        row = summary(name, runs)
        row["pairs_per_cpu_second"] = round(row["answer"] / row["cpu"]["median"])
        row["pairs_per_second"] = round(row["answer"] / row["wall"]["median"])
        rows.append(row)
    print(as_table(rows))
    return rows


def as_table(rows: Sequence[dict[str, Any]]) -> str:
    """Millions of pairs a CPU-second and a second, and how many times as many as the first row."""
    head = ["", "M pairs/CPU s", "x", "M pairs/s", "spread of CPU s", "peak MiB"]
    first = rows[0]["pairs_per_cpu_second"]
    cells = [
        [
            row["name"],
            f"{row['pairs_per_cpu_second'] / 1e6:.3f}",
            f"{row['pairs_per_cpu_second'] / first:.2f}",
            f"{row['pairs_per_second'] / 1e6:.3f}",
            f"{row['cpu']['min']:.2f}-{row['cpu']['max']:.2f}",
            f"{row['peak_mib']['median']:.0f}",
        ]
        for row in rows
    ]
    return table([head, *cells])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--torch", metavar="DIR", help="a folder that holds PyTorch (a venv's site-packages)")
    parser.add_argument("--large", action="store_true", help="only the 3.2 million simulated baskets")
    parser.add_argument("--epochs", type=int, default=5, help="epochs of --large")
    arguments = parser.parse_args()
    if arguments.large:
        os.environ[LARGE_EPOCHS] = str(arguments.epochs)
        written = save("training_speed", {"large": large()}, PACKAGES, file="training_speed_large", options="--large")
    else:
        read_orders()  # says what is missing before anything runs
        written = save("training_speed", tables(arguments.rounds, arguments.torch), PACKAGES)
    print(f"\nwritten to {written.relative_to(ROOT)}")


def tables(rounds: int, torch: str | None) -> dict[str, Any]:
    """Every table but the large one; peers that are not there are named and left out."""
    models = dict(MODELS)
    if find_spec("gensim") is None:
        print("gensim is not installed and is left out: pip install gensim==4.4.0")
        del models[GENSIM]
    results = {"models": compare("models", models, rounds), "threads": compare("threads", THREADS, rounds)}
    if torch is not None:
        os.environ[TORCH_FOLDER] = torch
        sys.path.append(torch)  # so that its version is found
    if find_spec("torch") is None:
        print(
            "PyTorch is left out: install torch==2.13.0 in a venv of its own, then --torch VENV/lib/.../site-packages"
        )
    else:
        jobs = {**TORCH, "neat": MODELS["neat"]}
        results["PyTorch"] = compare("PyTorch, as one writes it from the paper", jobs, rounds)
    return results


def large() -> list[dict[str, Any]]:
    print("\n3.2 million simulated baskets, 50,000 items, dim 100", flush=True)
    rows = [summary(name, runs) for name, runs in measure_in_turn(LARGE, 1).items()]
    for row in rows:
        found, wall = row["answer"], row["wall"]["median"]
        row["pairs_per_second"] = round(found["pairs"] / wall)
        peak, before = row["peak_mib"]["median"], row["before_mib"]["median"]
        print(
            f"{row['name']}, {found['epochs']} epochs: {found['pairs'] / 1e6:.0f} million pairs in {wall:.1f} s, "
            f"{found['pairs'] / wall / 1e6:.1f} million a second; peak {peak:.0f} MiB, {peak - before:.0f} MiB above "
            f"the baskets ({found['baskets_mib']} MiB) in memory; parameters {found['parameters_mib']} MiB"
        )
    return rows


if __name__ == "__main__":
    main()
