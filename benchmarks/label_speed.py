"""Label generation (count, margins, chi-squared test) on the Instacart train orders, beside the
peers.

    python -m benchmarks.label_speed   # all tables, writes results/label_speed.json
    python -m benchmarks.label_speed --rounds 3

Every task runs in a process of its own, in turn with the others; data and compiled code are loaded
before the clock starts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.harness import ROOT, argument_parser, measure_in_turn, save, summary, table
from benchmarks.label_data import Orders, read_orders
from neatrec.cooccurrence import CountOptions, Counts, count
from neatrec.data.baskets import Baskets
from neatrec.data.catalog import Catalog, string_array
from neatrec.labels.protocols import MIN_COUNT
from neatrec.statistics import chi_squared

HERE, PEERS = "benchmarks.label_speed", "benchmarks.label_peers"
PACKAGES = ("numpy", "scipy", "numba", "polars", "duckdb", "pyarrow")

TABLES = {
    "all unordered pairs: count, margins, chi-squared": {
        "neatrec": (HERE, "neatrec_all_pairs"),
        "scipy, X'X": (PEERS, "scipy_all_pairs"),
        "DuckDB, self-join": (PEERS, "duckdb_all_pairs"),
        "Polars, self-join": (PEERS, "polars_all_pairs"),
    },
    "the paper's protocol (directed, baskets of 5, different aisle)": {
        "neatrec": (HERE, "neatrec_paper"),
    },
}
LARGE = {"neatrec, paper's test": (HERE, "neatrec_simulated")}

Task = Callable[[], Any]


def neatrec_all_pairs() -> Task:
    return _neatrec(CountOptions(directed=False, category_level=None))


def neatrec_paper() -> Task:
    """The paper's protocol: directed, baskets of 5 and more, different aisles."""
    return _neatrec(CountOptions(min_basket=5))


def neatrec_simulated() -> Task:
    """Directed pairs of different categories in 3.2 million simulated baskets."""
    from neatrec.simulator import supermarket

    baskets = supermarket(baskets=3_200_000, items=50_000).baskets
    _tested(baskets.select(np.arange(1000)), CountOptions())

    def task() -> dict[str, int]:
        found = _tested(baskets, CountOptions())
        return {
            "lines": baskets.lines,
            "records": found.margins.records,
            "pairs": found.margins.pairs,
            "labels": len(found),
        }

    return task


def _neatrec(counting: CountOptions) -> Task:
    baskets = _baskets(read_orders())
    _tested(baskets.select(np.arange(1000)), counting)
    return lambda: len(_tested(baskets, counting))


def _tested(baskets: Baskets, counting: CountOptions) -> Counts:
    """The pairs that pass the paper's test."""
    pairs = count(baskets, replace(counting, min_count=MIN_COUNT))
    m, n = pairs.margins, max(pairs.margins.records, 1)
    total = m.first + m.second if counting.directed else m.first
    query, item = total[pairs.query], total[pairs.item]
    above = pairs.count > query.astype(np.float64) * item / n
    return pairs.where(above & (chi_squared(pairs.count, query, item, n) > 3.84))


def _baskets(orders: Orders) -> Baskets:
    catalog = Catalog(
        string_array([str(i) for i in range(orders.items)]),
        levels=("aisle",),
        categories=orders.item_aisle.reshape(-1, 1),
        category_names=(tuple(str(i) for i in range(orders.item_aisle.max() + 1)),),
    )
    offsets = np.concatenate([[0], np.cumsum(orders.sizes)])
    ids = string_array([str(i) for i in range(len(orders.sizes))])
    return Baskets(catalog, orders.item, offsets, ids, ordered=True)


def compare(title: str, tasks: dict[str, tuple[str, str]], rounds: int) -> list[dict[str, Any]]:
    """Measure the tasks of one table in turn, and print it."""
    print(f"\n{title}", flush=True)
    runs = measure_in_turn(tasks, rounds)
    rows = [summary(name, some) for name, some in runs.items()]
    answers = {row["name"]: row["answer"] for row in rows}
    if len({str(answer) for answer in answers.values()}) > 1:
        sys.exit(f"the answers differ: {answers}")
    print(as_table(rows))
    return rows


def as_table(rows: Sequence[dict[str, Any]]) -> str:
    """CPU seconds, their ratio to the first task's, and memory of each task."""
    first = rows[0]["cpu"]["median"]
    cells = [
        [row["name"], f"{cpu:.3f}", f"{cpu / first:.1f}", f"{peak:.0f}", str(row["answer"])]
        for row in rows
        for cpu, peak in [(row["cpu"]["median"], row["peak_mib"]["median"])]
    ]
    return table([["", "CPU s", "x", "peak MiB", "answer"], *cells])


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    read_orders()  # reports what is missing before anything runs
    results = {}
    for title, tasks in TABLES.items():
        results[title] = compare(title, tasks, arguments.rounds)
    title = "3.2 million simulated baskets, 50,000 items, directed, different category"
    results[title] = compare(title, LARGE, 1)
    print(f"\nwritten to {save('label_speed', results, PACKAGES).relative_to(ROOT)}")


if __name__ == "__main__":
    main()
