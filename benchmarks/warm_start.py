"""A warm start against a cold start: epochs, CPU seconds, and how much the answers change.

    python -m benchmarks.warm_start [--baskets 6000] [--items 200] [--dim 32]

The baskets of one simulated shop as they are, with another seed, and with two items' places exchanged, which a warm
start must find out.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.harness import save, table
from neatrec.data.baskets import Baskets
from neatrec.io import read_baskets
from neatrec.models import Run, make_model
from neatrec.training.drift import drift

EXCHANGED = 20, 35
"""Places of the two items by sales."""


def exchanged(baskets: Baskets) -> tuple[Baskets, set[str]]:
    """The baskets with two items in each other's place, and the ids of the two."""
    one, other = np.argsort(-baskets.item_counts, kind="stable")[list(EXCHANGED)]
    items = baskets.items.copy()
    items[baskets.items == one], items[baskets.items == other] = other, one
    return replace(baskets, items=items), {baskets.catalog.id(int(code)) for code in (one, other)}


def fitted(name: str, dim: int, baskets: Baskets, seed: int, start: Any = None) -> tuple[Any, float]:
    began = time.process_time()
    model = make_model(name, dim=dim).fit(baskets, Run(rng=seed, warm_start=start))
    return model, time.process_time() - began


def measured(name: str, dim: int, baskets: Baskets) -> dict[str, Any]:
    changed, ids = exchanged(baskets)
    old, _ = fitted(name, dim, baskets, 0)
    cold, cold_cpu = fitted(name, dim, baskets, 1)
    warm, warm_cpu = fitted(name, dim, baskets, 1, old)
    moved, _ = fitted(name, dim, changed, 1, old)
    found = drift(old, moved)
    return {
        "epochs": [len(cold.history), len(warm.history)],
        "cpu": [round(cold_cpu, 1), round(warm_cpu, 1)],
        "top10_changed": [drift(old, cold).top10_changed, drift(old, warm).top10_changed],
        "loss": [round(cold.history[-1], 4), round(warm.history[-1], 4)],
        "exchanged_are_the_first_movers": {mover.id for mover in found.movers[:2]} == ids,
        "top10_changed_where_exchanged": found.top10_changed,
    }


def main(baskets: int, items: int, dim: int) -> None:
    shop = read_baskets(f"supermarket:baskets={baskets},items={items}")
    runs = {name: measured(name, dim, shop) for name in ("neat", "item2vec")}
    keys = list(runs["neat"])
    print("cold, warm")
    print(table([["model", *keys], *([name, *(str(run[key]) for key in keys)] for name, run in runs.items())]))
    save("warm_start", {"about": {"baskets": baskets, "items": items, "dim": dim}, "runs": runs}, ("numpy",))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--baskets", type=int, default=6000)
    parser.add_argument("--items", type=int, default=200)
    parser.add_argument("--dim", type=int, default=32)
    main(**vars(parser.parse_args()))
