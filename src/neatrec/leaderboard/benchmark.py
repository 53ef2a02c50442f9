"""Split, labels, candidate sets and ranks as files under a versioned name, for comparisons by others."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from neatrec._version import __version__
from neatrec.data.baskets import Baskets
from neatrec.data.catalog import Catalog, string_array
from neatrec.errors import ParameterError
from neatrec.evaluation.candidates import CandidateSet
from neatrec.leaderboard.results_json import write_json
from neatrec.leaderboard.run import LeaderboardResult

NAME = "instacart-half-v1"
FORMAT = 1


def export_benchmark(
    result: LeaderboardResult, train: Baskets, test: Baskets, folder: str | Path, *, name: str = NAME
) -> dict[str, Any]:
    """The content of `benchmark.json` in `folder`: rows and content hash of each file.

    `split.parquet` (basket, part), `labels.parquet`, `candidates.parquet` (query, place, item, count), `ranks.parquet`.
    The files are made of the baskets and have the same licence.
    """
    if (train.hash, test.hash) != (result.task.train_hash, result.task.test_hash):
        raise ParameterError("`train` and `test` must be the baskets of the leaderboard")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    labels = result.task.labels
    tables = {
        "split": split_table(train, test),
        "labels": labels.table(),
        "candidates": candidates_table(result.task.candidate_set, labels.catalog),
        "ranks": result.ranks(),
    }
    for file, table in tables.items():
        pq.write_table(table, folder / f"{file}.parquet", compression="zstd")
    record = {
        "format": FORMAT,
        "name": name,
        "version": __version__,
        "split": dict(result.split),
        "protocol": labels.protocol,
        "labels": labels.label_counts,
        "hashes": {"train": train.hash, "test": test.hash, "labels": labels.hash},
        "files": {
            f"{file}.parquet": {"rows": len(table), "content_sha256": content_hash(table)}
            for file, table in tables.items()
        },
        "models": [spec.name for spec in result.model_specs],
    }
    write_json(folder / "benchmark.json", record)
    return record


def split_table(train: Baskets, test: Baskets) -> pa.Table:
    """basket, part ("train" or "test")."""
    part = ["train"] * len(train) + ["test"] * len(test)
    return pa.table({"basket": string_array(pa.chunked_array([train.ids, test.ids])), "part": string_array(part)})


def candidates_table(candidates: CandidateSet, catalog: Catalog) -> pa.Table:
    """query, place (from 1), item, count: the candidate set of each query, most bought together first."""
    sizes = np.diff(candidates.offsets)
    place = np.arange(len(candidates.items)) - np.repeat(candidates.offsets[:-1], sizes) + 1
    return pa.table(
        {
            "query": catalog.ids.take(pa.array(np.repeat(candidates.queries, sizes))),
            "place": pa.array(place.astype(np.int32)),
            "item": catalog.ids.take(pa.array(candidates.items)),
            "count": pa.array(candidates.counts),
        }
    )


def content_hash(table: pa.Table) -> str:
    """SHA-256 over the ids and whole numbers of a table, row by row; columns of floats are left out.

    It is the same however the file is packed, and floats may differ in their last bit between machines.
    """
    exact = [name for name in table.column_names if not pa.types.is_floating(table.schema.field(name).type)]
    digest = hashlib.sha256("|".join(exact).encode())
    for name in exact:
        for value in table[name].to_pylist():
            digest.update(f"{value!r}\n".encode())
    return digest.hexdigest()
