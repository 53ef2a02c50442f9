"""The list of all pairs at 50,000 items and 5 million pairs with evidence: latency of sorted and filtered pages.

`python -m benchmarks.pairs_latency` writes results/pairs_latency.json. One worker, one request at a time, each query
another: orders, categories, words, both, deep pages. CPU time is that of the server.
"""

from __future__ import annotations

import argparse
import http.client
import json
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np

from benchmarks.harness import commit, save, table
from benchmarks.serve_load import cpu_seconds, free_port, memory, neatrec_words, server

CLUSTERS, SIZE, CATEGORIES = 245, 204, 102
"""Items of a cluster are bought together: 245 x 204 items, 5 million pairs of different categories."""
BASKETS, LINES = 245_000, 20
REQUESTS = 1000
BAR_MS = 100.0


def clustered_bundle(path: Path, *, clusters: int = CLUSTERS, baskets: int = BASKETS, seed: int = 0) -> Path:
    """Baskets of one cluster each, so that nearly every pair within a cluster is certain."""
    from neatrec.data.baskets import Baskets
    from neatrec.data.catalog import Catalog
    from neatrec.models import Run, make_model
    from neatrec.serving.build import save_indexed

    rng = np.random.default_rng(seed)
    items = clusters * SIZE
    catalog = Catalog.from_ids(
        [str(code) for code in range(items)],
        names=[f"Item {code} of brand {code % 997}" for code in range(items)],
        categories=[f"category {code // clusters % CATEGORIES}" for code in range(items)],
    )
    drawn = rng.random((baskets, SIZE)).argpartition(LINES, axis=1)[:, :LINES]
    lines = (drawn * clusters + rng.integers(clusters, size=(baskets, 1))).astype(np.int32)
    made = Baskets.from_lists(
        [[str(code) for code in row] for row in lines.tolist()], ids=[str(n) for n in range(baskets)], catalog=catalog
    )
    model = make_model("shrunk-lift").fit(made, Run(rng=seed))
    save_indexed(model, path, made, seed=seed, k=10)
    return path


def queries(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Kinds of requests and their addresses, in turn."""
    rng = np.random.default_rng(seed)
    out = []
    for number in range(count):
        sort = ("strength", "customers", "sure")[number % 3]
        one, other = (f"category {code}" for code in rng.integers(CATEGORIES, size=2))
        words = f"brand {rng.integers(997)}"
        kinds: dict[str, dict[str, Any]] = {
            "no filter": {"page": int(rng.integers(1, 100_000))},
            "category": {"category": one, "page": int(rng.integers(1, 100))},
            "category x category": {"category": one, "with_category": other},
            "words": {"q": words},
            "words and category": {"q": words, "category": one},
        }
        kind = list(kinds)[number % len(kinds)]
        out.append((kind, "/v1/pairs?" + urlencode({"sort": sort, "k": 50, **kinds[kind]})))
    return out


def measure(bundle: Path, requests: int = REQUESTS) -> dict[str, Any]:
    port = free_port()
    with server(neatrec_words(bundle, port), port) as (process, ready):
        caller = http.client.HTTPConnection("127.0.0.1", port)
        spent: dict[str, list[float]] = {}
        total = 0
        for number, (kind, address) in enumerate(queries(requests + 20)):
            if number == 20:  # the first ones wake everything up
                spent, before = {}, cpu_seconds(process.pid)
            started = time.perf_counter()
            caller.request("GET", address)
            answer = caller.getresponse()
            body = answer.read()
            spent.setdefault(kind, []).append(1000 * (time.perf_counter() - started))
            if answer.status != 200:
                raise SystemExit(f"{address}: {answer.status} {body[:300]!r}")
            total = max(total, json.loads(body)["total"])
        cpu = 1000 * (cpu_seconds(process.pid) - before) / requests
        rows = [
            {"request": kind, "requests": len(times), **{f"p{q}_ms": _percentile(times, q) for q in (50, 99)}}
            for kind, times in {**spent, "all": [ms for times in spent.values() for ms in times]}.items()
        ]
        return {
            "pairs": total,
            "rows": rows,
            "cpu_ms_per_request": round(cpu, 2),
            "ready_seconds": round(ready, 1),
            "memory_mib": memory(process),
            "bar_ms": BAR_MS,
        }


def _percentile(times: list[float], q: int) -> float:
    return round(float(np.percentile(times, q)), 1)


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    commit()  # better refused now than when all is measured
    with tempfile.TemporaryDirectory() as folder:
        found = measure(clustered_bundle(Path(folder) / "bundle"))
    rows = [[row["request"], f"{row['p50_ms']:.1f}", f"{row['p99_ms']:.1f}"] for row in found["rows"]]
    print(table([["request", "median ms", "p99 ms"], *rows]))
    print(f"{found['pairs']:,} pairs; {found['cpu_ms_per_request']} CPU ms per request; {found['memory_mib']}")
    save("pairs_latency", {"items": CLUSTERS * SIZE, **found}, ["numpy", "numba", "fastapi", "uvicorn"])


if __name__ == "__main__":
    main()
