"""Whether sharing a place's negatives among its pairs costs hit rate: HR@10 with shared negatives and with fresh ones.

    python -m benchmarks.training_quality          # written to benchmarks/results/training_quality.json

The half split of the Instacart train orders (train on even order ids, labels of the paper's protocol on odd ones), the
models with their default settings; one thread, so that a seed gives one result.
"""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks.harness import ROOT, data_folder, save, table
from neatrec.experiments.leaderboard import run_leaderboard
from neatrec.models import make_model
from neatrec.sources import read_baskets
from neatrec.splits import half

FILES = ("order_products__train.parquet", "products.parquet")
ROWS = {"negatives of a place shared by its pairs": True, "five fresh negatives a pair": False}


def hit_rates(model: str, seeds: int) -> list[dict[str, Any]]:
    """HR@10 at p = .05 of each row, by seed, on the recall set of the half split."""
    split = half(read_baskets(data_folder("instacart", FILES)))
    rows = {name: make_model(model, negatives_shared=shared) for name, shared in ROWS.items()}
    options: dict[str, Any] = {"protocol": "paper", "levels": (0.05,), "queries": 0, "carts": 0, "rounds": 100}
    board = run_leaderboard(split.train, split.test, rows, seeds=seeds, threads=1, progress=print, **options)
    (result, *_) = board.to_json()["results"]
    found = {line["name"]: line for line in result["models"]}
    return [{"name": name, "hr": found[name]["hr"]["10"], "ci": found[name]["ci"]["hr"]["10"]} for name in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="neat")
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    rows = hit_rates(arguments.model, arguments.seeds)
    print(table([["", "HR@10", "95 %"], *([r["name"], f"{r['hr']:.4f}", str(r["ci"])] for r in rows)]))
    about = {"model": arguments.model, "parameters": make_model(arguments.model).parameters.to_dict()}
    written = save("training_quality", {**about, "seeds": arguments.seeds, "rows": rows}, ("numpy", "numba"))
    print(f"written to {written.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
