"""The stages of `benchmarks.scaling`: each prepares in a process of its own and returns what is timed.

    python -m benchmarks._scaling_stages STAGE FOLDER BASKETS ITEMS

FOLDER is where the simulated baskets of that size are, or will be. One line of JSON: CPU seconds, peak memory, work.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._worker import peak_mib

DIM, K, QUERIES = 100, 100, 5000
Job = Callable[[], float]
"""Does the work and says how much there was of it."""


def simulate(folder: Path, baskets: int, items: int) -> Job:
    """Work: lines, simulated and written."""
    from neatrec.simulator import supermarket

    supermarket(baskets=1000, items=2000, threads=1)

    def job() -> float:
        found = supermarket(baskets=baskets, items=items, threads=1).baskets
        found.save(folder)
        return found.lines

    return job


def read(folder: Path, baskets: int, items: int) -> Job:
    """Work: lines, of Parquet files whose rows are in no order."""
    from benchmarks.streaming import write_orders
    from neatrec.io import SourceOptions, read_baskets

    files = folder.with_name(folder.name + "-lines")
    write_orders(files, baskets, items)
    options = SourceOptions(basket="order", item="sku", position="place", category=("aisle",))
    return lambda: read_baskets(str(files), options).lines


def labels_paper(folder: Path, *_: int) -> Job:
    return _labels(folder, "paper")


def labels_calibrated(folder: Path, *_: int) -> Job:
    return _labels(folder, "calibrated")


def _labels(folder: Path, protocol: str) -> Job:
    """Work: records."""
    from neatrec.labels import make_labels

    whole, few = _baskets(folder)
    make_labels(few, protocol=protocol, engine="memory", threads=1)
    return lambda: make_labels(whole, protocol=protocol, engine="memory", threads=1).records


def recall_sets(folder: Path, *_: int) -> Job:
    """Work: records, for the 200 best of 5,000 queries."""
    from neatrec.evaluation.candidates import candidate_set, partners

    whole, few = _baskets(folder)
    rng = np.random.default_rng(0)
    queries = np.sort(rng.permutation(len(whole.catalog))[:QUERIES]).astype(np.int32)
    candidate_set(partners(few, queries))

    def job() -> float:
        found = partners(whole, queries)
        candidate_set(found)
        return found.margins.records

    return job


def training(folder: Path, *_: int) -> Job:
    """Work: pairs of one epoch of neat."""
    from neatrec.models import Run, make_model

    whole, few = _baskets(folder)
    make_model("neat", dim=DIM, epochs=1).fit(few, Run(threads=1, device="cpu"))
    seen = [0]

    def job() -> float:
        model = make_model("neat", dim=DIM, epochs=1)
        model.fit(whole, Run(threads=1, device="cpu", progress=lambda p: seen.append(max(seen[-1], p.pairs))))
        return seen[-1]

    return job


def evidence(folder: Path, *_: int) -> Job:
    """Work: records; what a serving table says of its pairs, its columns in files."""
    from neatrec.serving.pairs import PairTable

    whole, few = _baskets(folder)
    PairTable.of(few, "deepest", min_count=2, threads=1, folder=folder)
    return lambda: PairTable.of(whole, "deepest", min_count=2, threads=1, folder=folder).records


def evaluation(folder: Path, *_: int) -> Job:
    """Work: scores of all items for each query that has a label."""
    from neatrec.evaluation.candidates import catalogue
    from neatrec.evaluation.ranks import LabelQueries, rank_labels
    from neatrec.labels import make_labels

    whole, _few = _baskets(folder)
    found = make_labels(whole, protocol="paper", levels=(0.001,), engine="memory", threads=1)
    model = _vectors(whole.catalog)
    order = np.lexsort((found.item, found.query))
    query, item = found.query[order], found.item[order]
    warm = LabelQueries.from_pairs(query[:50], item[:50])
    rank_labels(model, catalogue(whole, warm.queries), warm)
    asked = LabelQueries.from_pairs(query, item)
    candidates = catalogue(whole, asked.queries)

    def job() -> float:
        rank_labels(model, candidates, asked)
        return float(len(asked.queries)) * len(whole.catalog)

    return job


def table_exact(folder: Path, baskets: int, items: int) -> Job:
    """Work: scores, of each item beside each."""
    from neatrec.serving.topk import best_answers

    model = _clustered(items)
    best_answers(_clustered(2000), K, threads=1)
    return lambda: float(len(best_answers(model, K, threads=1).start) - 1) * items


def table_approximate(folder: Path, baskets: int, items: int) -> Job:
    """Work: items."""
    from neatrec.serving.approximate import approximate_answers

    model = _clustered(items)
    return lambda: float(len(approximate_answers(model, K, threads=1)[0].start) - 1)


STAGES = {
    job.__name__: job
    for job in (
        simulate,
        read,
        labels_paper,
        labels_calibrated,
        recall_sets,
        training,
        evidence,
        evaluation,
        table_exact,
        table_approximate,
    )
}


def _baskets(folder: Path) -> Any:
    """All baskets, and a few to load the compiled code with."""
    from neatrec.data.baskets import Baskets

    whole = Baskets.load(folder)
    return whole, whole.select(np.arange(5000))


def _vectors(catalog: Any, vectors: Any = None) -> Any:
    """A model that has learned nothing."""
    from neatrec.models.embeddings.item2vec import Item2Vec

    if vectors is None:
        vectors = np.random.default_rng(0).standard_normal((len(catalog), DIM), dtype=np.float32)
    counts = np.ones(len(catalog))
    arrays = {"item_count": counts, "vectors": vectors, "output": vectors, "losses": np.zeros(0)}
    return Item2Vec.from_arrays(None, catalog, arrays)


def _clustered(items: int) -> Any:
    """Vectors of which some are near: a cluster for every hundred items."""
    from neatrec.data.catalog import Catalog

    rng = np.random.default_rng(0)
    centres = rng.standard_normal((items // 100, DIM), dtype=np.float32)
    vectors = centres[rng.integers(len(centres), size=items)]
    vectors += 0.7 * rng.standard_normal((items, DIM), dtype=np.float32)
    return _vectors(Catalog.from_ids([f"{number:08d}" for number in range(items)]), vectors)


def main(stage: str, folder: str, baskets: str, items: str) -> None:
    job = STAGES[stage](Path(folder), int(baskets), int(items))
    wall, cpu = time.perf_counter(), time.process_time()
    work = job()
    took = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall, "peak_mib": peak_mib()}
    print(json.dumps({**took, "work": float(work)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
