"""`build_index`: a fitted model and its training baskets in, the serving table out; bundles saved with it."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.bundle import BundleLock, Manifest, load_bundle, read_manifest, rewrite_bundle, save_bundle, stream_hash
from neatrec.data.baskets import BasketStream
from neatrec.errors import BundleError, must_be
from neatrec.models.base import Model
from neatrec.models.counts import CountModel
from neatrec.serving.approximate import MeasuredRecall, approximate_answers
from neatrec.serving.files import FOLDER, NOTE, GoalOrder, ServingArrays, write_index
from neatrec.serving.pairs import PairTable
from neatrec.serving.table import ServingTable
from neatrec.serving.topk import TopK, best_answers, best_by_goal, found_on_gpu
from neatrec.text import plural, printable

log = logging.getLogger(__name__)

K = 100
"""Answers per item."""


def build_index(
    model: Model,
    baskets: BasketStream,
    *,
    k: int = K,
    strata: Sequence[str] | None = None,
    min_count: int | None = None,
    ann: bool = False,
    threads: int | None = None,
    device: str = "cpu",
) -> ServingArrays:
    """The table of a fitted model: each item's best `k` with the evidence of the baskets it learned from.

    `strata`: within what the evidence is measured; None: basket size, month and store, as far as they are known, ():
    nothing. Baskets weigh as they did for the model. `ann`: the best are looked for in a part of the catalogue, for
    millions of items; see `approximate`. `device`: where the best are looked for; pairs are counted on the CPU.
    """
    if ann:
        _refuse_gpu(device)
    half_life = getattr(model.parameters, "half_life", None)
    how: dict[str, Any] = {"strata": strata, "half_life": half_life, "min_count": min_count, "threads": threads}
    pairs = PairTable.of(baskets, model.category_level, **how)
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
    best, others, recall = _best(model, k, ann, threads, device)
    query, item, goals = _pooled(best, others)
    columns = pairs.columns(query, item)
    log.info(
        "serving table: %s for %s in %.1f s",
        plural(len(best.item), "answer"),
        plural(len(best.start) - 1, "item"),
        time.perf_counter() - started,
    )
    more = item[len(best.item) :]
    about_items = _variance(model), _reason(model)
    reasons = {goal: _reason(model.with_goal(goal)) for goal in model.goals}
    return ServingArrays(k, best, columns, pairs, *about_items, recall, more, goals, reasons)


def table_device(model: Model, device: str, *, ann: bool, reproducible: bool) -> str:
    """Where the table of a model is made that was trained on `device`: there, if that can be."""
    if reproducible:
        return "cpu"  # the same bits whether there is a GPU or not
    if device == "gpu" and (ann or not found_on_gpu(model)):
        log.info("the serving table is made on the CPU: %s", "it is approximate" if ann else "no product of vectors")
        return "cpu"
    return device


def _best(
    model: Model, k: int, ann: bool, threads: int | None, device: str
) -> tuple[TopK, dict[str, TopK], MeasuredRecall | None]:
    """The best by the model's own goal, and by its other ones."""
    if ann:
        _refuse_gpu(device)
        best, recall = approximate_answers(model, k, threads=threads)
        return best, {}, recall
    if not model.goals:
        return best_answers(model, k, threads=threads, device=device), {}, None
    found = best_by_goal(model, k, threads=threads)
    return found.pop(model.parameters.goal), found, None


def _pooled(
    best: TopK, others: Mapping[str, TopK]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], dict[str, GoalOrder]]:
    """Query and item of all answers without repetition, those of `best` first; where those of the others stand."""
    if not others:
        return best.query, best.item, {}
    items = len(best.start) - 1
    keys = [top.query.astype(np.int64) * items + top.item for top in (best, *others.values())]
    distinct, first, inverse = np.unique(np.concatenate(keys), return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(order), dtype=np.int32 if len(order) < 2**31 else np.int64)
    place[order] = np.arange(len(order))
    rows = np.split(place[inverse], np.cumsum([len(key) for key in keys[:-1]]))[1:]
    query, item = np.divmod(distinct[order], items)
    goals = {goal: GoalOrder(top.start, row, top.score) for (goal, top), row in zip(others.items(), rows, strict=True)}
    return query.astype(np.int32), item.astype(np.int32), goals


def _refuse_gpu(device: str) -> None:
    """Approximate tables are faiss's work on the CPU."""
    if device == "gpu":
        raise must_be("device", "cpu or auto for an approximate table", device, hint="An exact one can use a GPU.")


def _variance(model: Model) -> npt.NDArray[np.float32] | None:
    """One variance an item, the mean over its dimensions where each has its own; None where the model has none."""
    logs: Any = getattr(model, "log_variance", None)
    if logs is None:
        return None
    variances = np.exp(np.asarray(logs, dtype=np.float64)).reshape(len(logs), -1)
    return np.asarray(variances.mean(axis=1), dtype=np.float32)


def _reason(model: Model) -> str:
    """Why it recommends a pair without evidence in the counts; see `evidence.REASONS`."""
    if isinstance(model, CountModel) or getattr(model, "statistic", None) is not None:
        return "counts"
    return "popular" if model.name == "pop" else "similar"


def save_indexed(
    model: Model,
    path: str | Path,
    baskets: BasketStream,
    *,
    seed: int | None,
    k: int = K,
    strata: Sequence[str] | None = None,
    ann: bool = False,
    keep_users: bool = False,
    notes: Mapping[str, Any] | None = None,
    attachment: Mapping[str, Any] | None = None,
    threads: int | None = None,
    device: str = "auto",
) -> Manifest:
    """The manifest of the bundle that now stands at `path`, with the serving table of the baskets it learned from.

    `attachment`: that of a report, for the pages of the service.
    """

    def write_table(folder: Path) -> dict[str, Any]:
        arrays = build_index(model, baskets, k=k, strata=strata, ann=ann, threads=threads, device=device)
        return write_index(arrays, folder, attachment)

    return save_bundle(
        model,
        path,
        baskets_hash=stream_hash(baskets),
        seed=seed,
        keep_users=keep_users,
        notes=notes,
        write_extra=write_table,
    )


def rewrite_index(
    bundle: str | Path,
    *,
    baskets: BasketStream | None = None,
    k: int | None = None,
    strata: Sequence[str] | None = None,
    attachment: Mapping[str, Any] | None = None,
    ann: bool | None = None,
    threads: int | None = None,
    device: str = "auto",
) -> Manifest:
    """The manifest of the bundle after its table was computed again, put in place whole.

    From its model and the pair counts it holds, or from the `baskets` it learned from where it has no table yet. `k`
    None: as many answers as before. `strata` None: those of the old table, else what the baskets have. `attachment`
    None: what was attached before stays. `ann`: an approximate table, for millions of items, whose recall stands in the
    manifest, or an exact one; None: as before. `device`: where the best are looked for; `auto` is a GPU where there is
    one and it can find them for this model.
    """
    with BundleLock(bundle):
        if ann is None:
            ann = "recall" in read_manifest(bundle, verify=False).notes.get(NOTE, {})
        if baskets is None and strata is not None:
            raise must_be("strata", "given with the baskets that the bundle learned from", list(strata))
        if baskets is None:
            old = ServingTable.open(bundle)
            size = old.k if k is None else k
            arrays = index_of(old.model, old.pairs, k=size, ann=ann, threads=threads, device=device)
            kept = old.attachment
        else:
            arrays = _from_baskets(bundle, baskets, k, strata, ann=ann, threads=threads, device=device)
            kept = _attached(bundle)
        return rewrite_bundle(
            bundle,
            lambda folder: write_index(arrays, folder, kept if attachment is None else attachment),
            without=FOLDER,
        )


def has_table(manifest: Manifest) -> bool:
    """Whether a bundle has a serving table."""
    return NOTE in manifest.notes


def _from_baskets(
    bundle: str | Path, baskets: BasketStream, k: int | None, strata: Sequence[str] | None, **how: Any
) -> ServingArrays:
    manifest = read_manifest(bundle)
    if stream_hash(baskets) != manifest.data_hash:
        raise BundleError(
            f"{printable(bundle)} did not learn from these baskets: their hash is not the one in its manifest",
            file=str(bundle),
            hint="Evidence must come from the training baskets. Name the source it was trained on, or train again; a "
            "bundle of --stream, --validation or several processes gets its table from `neatrec train` alone.",
        )
    before = manifest.notes.get(NOTE, {})
    strata = before.get("evidence", {}).get("strata") if strata is None else strata
    return build_index(load_bundle(bundle), baskets, k=before.get("k", K) if k is None else k, strata=strata, **how)


def _attached(bundle: str | Path) -> dict[str, Any] | None:
    return ServingTable.open(bundle).attachment if has_table(read_manifest(bundle, verify=False)) else None
