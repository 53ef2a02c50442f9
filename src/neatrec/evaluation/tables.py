"""Ranks kept as a table, one row for each label record and training, from which every number can be computed again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neatrec.data.catalog import Catalog, string_array
from neatrec.errors import ParameterError
from neatrec.evaluation.ranks import LabelQueries, LabelRanks
from neatrec.text import printable

RANK_COLUMNS = ("candidates", "model", "seed", "query", "item", "higher", "equal")
BEST_COLUMNS = ("candidates", "model", "seed", "query", "rank", "item")


def ranks_table(
    label_ranks: Mapping[str, Sequence[LabelRanks]], asked: LabelQueries, catalog: Catalog, candidates: str
) -> pa.Table:
    """candidates, model, seed, query, item, higher, equal: what each training did with each label record."""
    query, item = catalog.ids.take(pa.array(asked.query)), catalog.ids.take(pa.array(asked.item))
    parts = []
    for model, runs in label_ranks.items():
        for seed, run in enumerate(runs):
            keys = _keys(candidates, model, seed, len(query))
            columns = [*keys, query, item, pa.array(run.higher), pa.array(run.equal)]
            parts.append(pa.table(columns, names=list(RANK_COLUMNS)))
    return pa.concat_tables(parts) if parts else _empty(RANK_COLUMNS)


def best_table(
    label_ranks: Mapping[str, Sequence[LabelRanks]], asked: LabelQueries, catalog: Catalog, candidates: str
) -> pa.Table:
    """candidates, model, seed, query, rank, item: what each training recommends for each query, ranks from 1."""
    parts = []
    for model, runs in label_ranks.items():
        for seed, run in enumerate(runs):
            row, place = np.nonzero(run.best >= 0)
            columns = [
                *_keys(candidates, model, seed, len(row)),
                catalog.ids.take(pa.array(asked.queries[row])),
                pa.array((place + 1).astype(np.int32)),
                catalog.ids.take(pa.array(run.best[row, place])),
            ]
            parts.append(pa.table(columns, names=list(BEST_COLUMNS)))
    return pa.concat_tables(parts) if parts else _empty(BEST_COLUMNS)


def _keys(candidates: str, model: str, seed: int, rows: int) -> list[pa.Array]:
    repeated = [pa.repeat(pa.scalar(text, pa.large_string()), rows) for text in (candidates, model)]
    return [*repeated, pa.repeat(pa.scalar(seed, pa.int32()), rows)]


def _empty(columns: Sequence[str]) -> pa.Table:
    whole = {"seed", "higher", "equal", "rank"}
    return pa.table({name: pa.array([], pa.int32() if name in whole else pa.large_string()) for name in columns})


def asked_from_tables(query: pa.ChunkedArray, item: pa.ChunkedArray) -> LabelQueries:
    """The label records of a saved label table in the order of its rows, in which they were ranked."""
    codes = []
    for column in (query, item):
        # codes by first appearance among queries keep the rows in order: they were sorted by query
        encoded = string_array(column).dictionary_encode()
        codes.append(encoded.indices.to_numpy(zero_copy_only=False).astype(np.int32))
    starts = np.flatnonzero(np.diff(codes[0], prepend=-1))
    if len(starts) != (int(codes[0].max(initial=-1)) + 1):
        raise ParameterError("the rows of a label table must be sorted by query")
    return LabelQueries(
        codes[0], codes[1], np.arange(len(starts), dtype=np.int32), np.append(starts, len(codes[0])).astype(np.int64)
    )


def judged_from_table(
    ranks: pa.Table, query: pa.ChunkedArray, item: pa.ChunkedArray, candidates: str
) -> dict[str, list[LabelRanks]]:
    """What `ranks_table` was made from, for the label records in these columns; without recommendations."""
    query_ids, item_ids = string_array(query), string_array(item)
    chosen = ranks.filter(pc.equal(ranks["candidates"], candidates))
    out: dict[str, list[LabelRanks]] = {}
    for model in chosen["model"].unique().to_pylist():
        of_model = chosen.filter(pc.equal(chosen["model"], model))
        for seed in sorted(of_model["seed"].unique().to_pylist()):
            rows = of_model.filter(pc.equal(of_model["seed"], seed))
            same = string_array(rows["query"]).equals(query_ids) and string_array(rows["item"]).equals(item_ids)
            if not same:
                raise ParameterError(
                    f"the ranks of model {printable(model)!r} (seed {seed}, {candidates}) are not of these labels",
                    hint="Each training must have one row for each label, in the order of the label table.",
                )
            higher, equal = (rows[name].to_numpy().astype(np.int32) for name in ("higher", "equal"))
            out.setdefault(model, []).append(LabelRanks(higher, equal, np.zeros((0, 0), dtype=np.int32)))
    return out
