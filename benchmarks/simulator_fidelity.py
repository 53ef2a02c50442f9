"""The simulated supermarket beside the Instacart train orders, its speed, and label protocols against its truth.

    python -m benchmarks.simulator_fidelity [orders] [speed] [labels]

`orders` compares popularity, basket sizes and pair counts with those of NEATREC_DATA; `speed` measures seconds and peak
memory; `labels` the precision and recall of both protocols. One record each: results/simulator_PART.json.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
from scipy import sparse

from benchmarks.harness import data_folder, save, table
from neatrec.data.baskets import Baskets
from neatrec.labels import make_labels
from neatrec.labels.record import score_against
from neatrec.simulator import TRAP_NAMES, supermarket

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Lines:
    """Basket, item, aisle and department of every line, as whole numbers."""

    basket: Codes
    item: Codes
    aisle: Codes
    department: Codes


def read_instacart(folder: Path) -> Lines:
    lines = pq.read_table(folder / "order_products__train.parquet", columns=["order_id", "product_id"])
    products = pq.read_table(folder / "products.parquet", columns=["product_id", "aisle_id", "department_id"])
    place = np.zeros(products["product_id"].to_numpy().max() + 1, dtype=np.int64)
    place[products["product_id"].to_numpy()] = np.arange(len(products))
    item = place[lines["product_id"].to_numpy()]
    basket = np.unique(lines["order_id"].to_numpy(), return_inverse=True)[1]
    return Lines(basket, item, products["aisle_id"].to_numpy()[item], products["department_id"].to_numpy()[item])


def lines_of(baskets: Baskets) -> Lines:
    catalog = baskets.catalog
    aisle, department = (catalog.category_of(level)[baskets.items] for level in ("aisle", "department"))
    return Lines(baskets.basket_of_line, baskets.items, aisle, department)


def pair_counts(lines: Lines) -> npt.NDArray[np.int32]:
    """Baskets of each unordered pair that was bought together."""
    ones = np.ones(len(lines.item), dtype=np.int32)
    matrix = sparse.csr_matrix((ones, (lines.basket, lines.item)))
    counts: npt.NDArray[np.int32] = sparse.triu(matrix.T @ matrix, 1).data
    return counts


def gini(counts: Codes) -> float:
    ranked = np.sort(counts)
    weight = 2 * np.arange(1, len(ranked) + 1) - len(ranked) - 1
    return float(weight @ ranked / (len(ranked) * ranked.sum()))


def together(lines: Lines, category: Codes) -> float:
    """Pairs of one category, over what their sales alone would give."""
    ones = np.ones(len(category))
    matrix = sparse.csr_matrix((ones, (lines.basket, category)))
    sizes = np.asarray(matrix.sum(axis=1)).ravel()
    same = (matrix.multiply(matrix).sum() - len(category)) / (sizes * (sizes - 1)).sum()
    share = np.bincount(category) / len(category)
    return float(same / (share @ share))


def measure(lines: Lines) -> dict[str, str]:
    """The rows of the table."""
    sizes = np.bincount(lines.basket)
    sold = np.sort(np.bincount(lines.item))[::-1]
    sold = sold[sold > 0]
    pairs = pair_counts(lines)
    rows = {
        "baskets": f"{len(sizes):,}",
        "lines": f"{len(lines.item):,}",
        "items sold": f"{len(sold):,}",
        "lines per basket: mean": f"{sizes.mean():.2f}",
        "5, 25, 50, 75, 95, 99 % of baskets": ", ".join(
            f"{size:.0f}" for size in np.quantile(sizes, [0.05, 0.25, 0.5, 0.75, 0.95, 0.99])
        ),
        "baskets of one": percent(np.mean(sizes == 1)),
    }
    for top in (1, 10, 100, 1_000, 10_000):
        rows[f"lines of the {top:,} best selling"] = percent(sold[:top].sum() / sold.sum())
    rows |= {
        "Gini coefficient of items sold": f"{gini(sold):.3f}",
        "items sold once": percent(np.mean(sold == 1)),
        "unique pairs": f"{len(pairs):,}",
        "pairs seen once": percent(np.mean(pairs == 1)),
        "pairs seen twice": percent(np.mean(pairs == 2)),
        "pairs seen 5 times or more": percent(np.mean(pairs >= 5)),
        "pairs seen 100 times or more": percent(np.mean(pairs >= 100), 3),
        "most frequent pair": f"{pairs.max():,}",
        "same-aisle pairs, times chance": f"{together(lines, lines.aisle):.2f}",
        "same-department pairs, times chance": f"{together(lines, lines.department):.2f}",
    }
    return rows


def percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"


Rows = list[list[Any]]


def compare_orders() -> Rows:
    real = read_instacart(data_folder("instacart", ["order_products__train.parquet", "products.parquet"]))
    baskets = len(np.unique(real.basket))
    columns: dict[str, Callable[[], Lines]] = {
        "Instacart train orders": lambda: real,
        "simulated, one basket per household": lambda: lines_of(
            supermarket(baskets, items=49_688, households=baskets).baskets
        ),
        "simulated, eight baskets per household": lambda: lines_of(supermarket(baskets, items=49_688).baskets),
    }
    measured = {name: measure(lines()) for name, lines in columns.items()}
    rows = next(iter(measured.values()))
    return [["", *measured], *([row, *(column[row] for column in measured.values())] for row in rows)]


ONE_RUN = """
import resource, sys, time
from neatrec.simulator import supermarket
supermarket(100, 60)  # compiled code is ready
cpu = time.process_time()
market = supermarket({baskets}, {items})
cpu = time.process_time() - cpu
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "linux" else 1024**2)
print(market.baskets.lines, len(market.truth.query), round(cpu, 1), round(peak))
"""


def speed() -> Rows:
    rows: Rows = [["baskets", "items", "lines", "complements", "CPU seconds", "peak MiB"]]
    for baskets, items in ((30_000, 1_000), (3_200_000, 50_000), (14_000_000, 100_000)):
        code = ONE_RUN.format(baskets=baskets, items=items)
        done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        lines, complements, cpu, peak = done.stdout.split()
        rows.append([f"{baskets:,}", f"{items:,}", f"{int(lines):,}", f"{int(complements):,}", cpu, f"{int(peak):,}"])
    return rows


def labels_against_truth() -> Rows:
    market = supermarket()
    truth = market.truth
    rows: Rows = [
        ["protocol", "strata", "level", "labels", "right", "precision", "recall", *TRAP_NAMES, "other mistakes"]
    ]
    every = ("basket_size", "month", "store")
    for protocol, strata in (
        ("paper", ()),
        ("calibrated", ()),
        *(("calibrated", (one,)) for one in every),
        ("calibrated", every),
    ):
        labels = make_labels(market.baskets, protocol=protocol, strata=strata)
        for level in labels.levels if len(strata) != 1 else labels.levels[:1]:
            chosen = labels.at(level)
            query, item = labels.query[chosen], labels.item[chosen]
            right = int(truth.is_complement(query, item).sum())
            traps = [int(truth.is_trap(query, item, trap).sum()) for trap in TRAP_NAMES]
            score = score_against(truth, query, item, directed=True)
            shares = [f"{score.precision:.3f}", f"{score.recall:.3f}"]
            counts = [*traps, len(query) - right - sum(traps)]
            rows.append([protocol, ", ".join(strata) or "none", level, len(query), right, *shares, *counts])
    return rows


PARTS: dict[str, Callable[[], Rows]] = {"orders": compare_orders, "speed": speed, "labels": labels_against_truth}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all unless some are named")
    for part in parser.parse_args().parts or PARTS:
        rows = PARTS[part]()
        print(f"{table([[str(cell) for cell in row] for row in rows])}\n")
        save("simulator_fidelity", {"rows": rows}, ("numpy", "numba"), file=f"simulator_{part}", options=part)


if __name__ == "__main__":
    main()
