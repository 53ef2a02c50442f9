"""An approximate serving table of 200,000 items (100 dimensions) beside the exact one: time, and what it misses.

    python -m benchmarks.ann_recall
    python -m benchmarks.ann_recall --items 1000000 --without-exact

Vectors are simulated: a cluster for every 100 items, of different sizes, items around their centres. Each side runs in
a process of its own, in turn with the other, on the same vectors and with the same number of threads. The recall is
that of the sample by which the table itself states it, and that of 2,000 other items against their exact answers.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from benchmarks.harness import ROOT, measure_in_turn, save, summary, table

VARIABLE = "NEATREC_ANN_ITEMS"
"""Through which the processes that are measured learn of --items."""
ITEMS = int(os.environ.get(VARIABLE, 200_000))
CLUSTERS = ITEMS // 100
DIM, CATEGORIES, K, THREADS, CHECKED = 100, 500, 100, 2, 2000
SPREAD = 0.7
"""Of the items around their centre, whose own coordinates have a spread of 1: neighbours overlap."""
JOBS = {"exact": ("benchmarks.ann_recall", "exact"), "approximate": ("benchmarks.ann_recall", "approximate")}


@cache
def simulated() -> Any:
    """A model with clustered vectors, items in random categories."""
    from neatrec.data.catalog import Catalog, string_array
    from neatrec.models.embeddings.item2vec import Item2Vec

    rng = np.random.default_rng(0)
    weight = rng.gamma(1.0, size=CLUSTERS)
    cluster = rng.choice(CLUSTERS, size=ITEMS, p=weight / weight.sum())
    vectors = rng.standard_normal((CLUSTERS, DIM), dtype=np.float32)[cluster]
    vectors += SPREAD * rng.standard_normal((ITEMS, DIM), dtype=np.float32)
    catalog = Catalog(
        string_array([f"{number:07d}" for number in range(ITEMS)]),
        levels=("category",),
        categories=rng.integers(CATEGORIES, size=(ITEMS, 1)).astype(np.int32),
        category_names=(tuple(f"{number:03d}" for number in range(CATEGORIES)),),
    )
    arrays = {"item_count": np.ones(ITEMS), "vectors": vectors, "output": vectors, "losses": np.zeros(0)}
    return Item2Vec.from_arrays(None, catalog, arrays)


def exact() -> Callable[[], Any]:
    from neatrec.serving.topk import TopKSearch, best_answers, search_of

    model = simulated()
    first = search_of(model, K)
    warm = TopKSearch(first.query[:600], first.code[:600], first.group, K, first.min_score)
    warm.by_product(*[model.directions[:600]] * 2, THREADS)
    return lambda: len(best_answers(model, K, threads=THREADS).item)


def approximate() -> Callable[[], Any]:
    """Timed: parting into lists, the choice of how many are looked into, the search, both recalls."""
    from neatrec.serving.approximate import approximate_answers
    from neatrec.serving.topk import search_of

    model = simulated()
    warm = search_of(model, K).part(np.arange(600))
    warm.best = warm.best.astype(np.float32)
    warm.scan(model.directions[:600] @ model.directions[:600].T, np.arange(600), warm.code[:600])

    def work() -> dict[str, Any]:
        found, recall = approximate_answers(model, K, threads=THREADS)
        return {"answers": len(found.item), **recall.to_dict(), "checked": checked(model, found)}

    return work


def checked(model: Any, found: Any) -> dict[str, float]:
    """The recall on items of which most were in no sample of the table's own."""
    from neatrec.serving.approximate import recall_of
    from neatrec.serving.topk import search_of

    search = search_of(model, K)
    left, right = search.take(model.directions, model.directions)
    places = np.sort(np.random.default_rng(7).choice(ITEMS, CHECKED, replace=False))
    right_answers = search.part(places)
    right_answers.by_product(left[places], right, THREADS)
    first, whole = recall_of(found, search.query[places], right_answers.answers())
    return {"first": round(first, 4), "all": round(whole, 4), "items": CHECKED}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--items", type=int, default=ITEMS)
    parser.add_argument("--without-exact", action="store_true", help="the exact table would take too long")
    options = parser.parse_args()
    try:
        import faiss  # noqa: F401
    except ImportError:
        print("faiss is not installed here: pip install 'neatrec[ann]'. Nothing was measured.")
        return 0
    os.environ[VARIABLE] = str(options.items)
    jobs = {"approximate": JOBS["approximate"]} if options.without_exact else JOBS
    rows = [summary(name, runs) for name, runs in measure_in_turn(jobs, options.rounds).items()]
    keep(options, rows)
    return 0


def keep(options: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    """Write the record, and print it for people."""
    one, other = rows[0], rows[-1]
    faster = {clock: round(one[clock]["median"] / other[clock]["median"], 2) for clock in ("cpu", "wall")}
    about = {"items": options.items, "dim": DIM, "clusters": options.items // 100, "spread": SPREAD, "k": K}
    found = {"task": {**about, "threads": THREADS}, "runs": rows}
    larger = options.items != 200_000
    said = f"--items {options.items}" + (" --without-exact" if options.without_exact else "") if larger else ""
    where = save(
        "ann_recall",
        found if options.without_exact else {**found, "times faster": faster},
        ("numpy", "numba", "faiss-cpu"),
        file="ann_recall_large" if larger else None,
        options=said,
    )
    lines = [[row["name"], *(f"{row[clock]['median']:.1f} s" for clock in ("cpu", "wall"))] for row in rows]
    ratio = [] if options.without_exact else [["times faster", *(f"{faster[c]:.2f}" for c in ("cpu", "wall"))]]
    print(table([["", "CPU", "wall"], *lines, *ratio]))
    print(
        "recall",
        {key: other["answer"][key] for key in ("first", "all")},
        "checked",
        other["answer"]["checked"],
    )
    print(f"kept in {where.relative_to(ROOT)}")


if __name__ == "__main__":
    sys.exit(main())
