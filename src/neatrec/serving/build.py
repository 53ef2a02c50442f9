"""`build_index`: a fitted model and its training baskets in, the serving table out."""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.cooccurrence.resources import thread_count
from neatrec.data.baskets import BasketStream
from neatrec.errors import must_be
from neatrec.models.base import Model
from neatrec.models.counts import CountModel
from neatrec.serving.approximate import MeasuredRecall, approximate_answers
from neatrec.serving.pairs import PairTable
from neatrec.serving.projection import Positions, map_items
from neatrec.serving.topk import TopK, best_answers, found_on_gpu
from neatrec.text import plural

log = logging.getLogger(__name__)

K = 100
"""Answers kept for each item."""
BLOCK = 100_000
"""PairTable whose posterior is asked for at once."""


@dataclass(frozen=True, eq=False)
class ServingArrays:
    """All that the table's files hold."""

    k: int
    best: TopK
    columns: dict[str, npt.NDArray[Any]]
    """Evidence of the answers, each of shape (answers,)."""
    pairs: PairTable
    variance: npt.NDArray[np.float32] | None
    position: Positions | None
    reason: str
    recall: MeasuredRecall | None = None
    """What an approximate table has of the exact one; None for the exact one."""


def build_index(
    model: Model,
    baskets: BasketStream,
    *,
    k: int = K,
    min_count: int | None = None,
    ann: bool = False,
    threads: int | None = None,
    device: str = "cpu",
) -> ServingArrays:
    """The table of a fitted model: each item's best `k` with the evidence of the baskets it learned from.

    `ann`: the best are looked for in a part of the catalogue, for millions of items; see `approximate`. `device`: where
    the best are looked for; pairs are counted on the CPU.
    """
    if ann:
        _refuse_gpu(device)
    pairs = PairTable.of(baskets, model.category_level, min_count=min_count, threads=threads)
    return index_of(model, pairs, k=k, ann=ann, threads=threads, device=device)


def index_of(
    model: Model,
    pairs: PairTable,
    *,
    k: int = K,
    ann: bool = False,
    threads: int | None = None,
    device: str = "cpu",
) -> ServingArrays:
    """The table of a fitted model whose pairs are counted already."""
    started = time.perf_counter()
    best, recall = _best(model, k, ann, threads, device)
    query = best.query
    columns = pairs.columns(query, best.item)
    columns |= _posterior(model, query, best.item, threads)
    log.info(
        "serving table: %s for %s in %.1f s",
        plural(len(best.item), "answer"),
        plural(len(best.start) - 1, "item"),
        time.perf_counter() - started,
    )
    return ServingArrays(k, best, columns, pairs, _variance(model), map_items(model, pairs), _reason(model), recall)


def table_device(model: Model, device: str, *, ann: bool, reproducible: bool) -> str:
    """Where the table of a model is made that was trained on `device`: there, if that can be."""
    if reproducible:
        return "cpu"  # the same bits whether there is a GPU or not
    if device == "gpu" and (ann or not found_on_gpu(model)):
        log.info("the serving table is made on the CPU: %s", "it is approximate" if ann else "no product of vectors")
        return "cpu"
    return device


def _best(model: Model, k: int, ann: bool, threads: int | None, device: str) -> tuple[TopK, MeasuredRecall | None]:
    if not ann:
        return best_answers(model, k, threads=threads, device=device), None
    _refuse_gpu(device)
    return approximate_answers(model, k, threads=threads)


def _refuse_gpu(device: str) -> None:
    """Approximate tables are faiss's work on the CPU."""
    if device == "gpu":
        raise must_be("device", "cpu or auto for an approximate table", device, hint="An exact one can use a GPU.")


def posterior_of(model: Model, queries: npt.ArrayLike, items: npt.ArrayLike) -> dict[str, npt.NDArray[np.float32]]:
    """Mean and 95 % interval of the lifts of aligned pairs, by the model's own account; nothing where it has none."""
    posterior: Any = getattr(model, "posterior", None)
    if posterior is None:
        return {}
    found = posterior(queries, items)
    names = {"posterior": found.mean, "posterior_low": found.low, "posterior_high": found.high}
    return {name: np.asarray(values, dtype=np.float32) for name, values in names.items()}


def _posterior(
    model: Model, query: npt.NDArray[np.int32], item: npt.NDArray[np.int32], threads: int | None
) -> dict[str, npt.NDArray[np.float32]]:
    def work(first: int) -> dict[str, npt.NDArray[np.float32]]:
        return posterior_of(model, query[first : first + BLOCK], item[first : first + BLOCK])

    with ThreadPoolExecutor(thread_count(threads)) as pool:
        parts = list(pool.map(work, range(0, max(len(query), 1), BLOCK)))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _variance(model: Model) -> npt.NDArray[np.float32] | None:
    """One variance an item, the mean over its dimensions where each has its own; None where the model has none."""
    logs: Any = getattr(model, "log_variance", None)
    if logs is None:
        return None
    variances = np.exp(np.asarray(logs, dtype=np.float64)).reshape(len(logs), -1)
    return np.asarray(variances.mean(axis=1), dtype=np.float32)


def _reason(model: Model) -> str:
    """Why it names a pair that the counts do not speak for; see `words.REASONS`."""
    if isinstance(model, CountModel):
        return "counts"
    return "popular" if model.name == "pop" else "similar"
