"""`write_table`: a fitted model and its training baskets in, the files of the serving table out, block by block."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from neatrec.bundle import BundleLock, Manifest, load_bundle, read_manifest, rewrite_bundle, save_bundle, stream_hash
from neatrec.data.baskets import BasketStream
from neatrec.errors import BundleError, must_be
from neatrec.models.base import Model
from neatrec.serving.approximate import MeasuredRecall, approximate_answers, related_recall
from neatrec.serving.evidence import thresholds
from neatrec.serving.files import ATTACHMENT, COLUMNS_VERSION, FOLDER, NOTE, AnswerSections, write_items, write_pairs
from neatrec.serving.pairs import PairTable
from neatrec.serving.table import ServingTable
from neatrec.serving.topk import TopK, TypicalAnswers, best_answers, best_by_goal, product_factors, related_by_goal
from neatrec.text import plural, printable

log = logging.getLogger(__name__)

K = 100
"""Answers per item."""
ITEMS_PER_BLOCK = 1 << 16
"""Items whose answers are in memory at a time, where a model ranks for several goals."""


@dataclass(frozen=True)
class TableOptions:
    """How a serving table is made of a fitted model."""

    k: int = K
    """Answers per item."""
    ann: bool = False
    """The best are looked for in a part of the catalogue, for millions of items; see `approximate`."""
    threads: int | None = None
    device: str = "cpu"
    """Where the best are looked for; pairs are counted on the CPU."""
    attachment: Mapping[str, Any] | None = None
    """That of a report, for the pages of the service."""


def write_table(
    model: Model, baskets: BasketStream, folder: Path, options: TableOptions, *, strata: Sequence[str] | None = None
) -> dict[str, Any]:
    """Write each item's best with the evidence of the baskets that the model learned from into a bundle's folder.

    `strata`: within what the evidence is measured; None: basket size, month and store, as far as they are known, ():
    nothing. Baskets weigh as they did for the model. Returns what the manifest's notes should say of the table.
    """
    _check(options)
    place = folder / FOLDER
    place.mkdir()
    half_life = getattr(model.parameters, "half_life", None)
    how: dict[str, Any] = {"strata": strata, "half_life": half_life, "threads": options.threads, "folder": place}
    pairs = PairTable.of(baskets, model.category_level, **how)
    return write_answers(model, pairs, place, options)


def write_answers(model: Model, pairs: PairTable, place: Path, options: TableOptions) -> dict[str, Any]:
    """`write_table` where the pairs are counted already; memory holds the model and one block of items."""
    _check(options)
    started = time.perf_counter()
    goal = model.parameters.goal if model.goals else ""
    others = [name for name in model.goals if name != goal]
    answers, recall = AnswerSections(place, others), None
    for found, measured in _blocks(model, options):
        answers.add(found.pop(goal), found, pairs)
        recall = measured or recall
        pairs.release()
    answers.write()
    logs: Any = getattr(model, "log_variance", None)
    write_items(place, answers, pairs, None if logs is None else np.exp(logs.astype(np.float64)).astype(np.float32))
    write_pairs(place, pairs)
    if options.attachment is not None:
        (place / ATTACHMENT).write_text(json.dumps(options.attachment, sort_keys=True, allow_nan=False))
    number = int(answers.answers[""].sum())
    log.info(
        "serving table: %s for %s in %.1f s",
        plural(number, "answer"),
        plural(len(model.catalog), "item"),
        time.perf_counter() - started,
    )
    about = {
        "columns": COLUMNS_VERSION,
        "k": options.k,
        "answers": number,
        "reason": model.reason,
        "grades": thresholds(),
        "evidence": dict(pairs.about()),
        **({} if recall is None else {"recall": recall.to_dict()}),
        **({"goals": others} if others else {}),
        **({"reasons": {name: model.with_goal(name).reason for name in model.goals}} if model.goals else {}),
    }
    return {NOTE: about}


def _blocks(model: Model, options: TableOptions) -> Iterator[tuple[dict[str, TopK], MeasuredRecall | None]]:
    """The best of some items after the other, by each goal; all at once where a search needs all items together."""
    k, threads = options.k, options.threads
    if model.goals:
        typical = TypicalAnswers.of(model, k, threads=threads) if options.ann and model.knows_related_items() else None
        measured = None if typical is None else related_recall(model, k, typical, threads=threads)
        for first in range(0, len(model.catalog), ITEMS_PER_BLOCK):
            block = np.arange(first, min(first + ITEMS_PER_BLOCK, len(model.catalog)), dtype=np.int32)
            if typical is None:
                yield best_by_goal(model, k, queries=block, threads=threads), None
            else:
                yield related_by_goal(model, k, block, typical, threads=threads), measured
    elif options.ann:
        best, recall = approximate_answers(model, k, threads=threads)
        yield {"": best}, recall
    else:
        yield {"": best_answers(model, k, threads=threads, device=options.device)}, None


def table_device(model: Model, device: str, *, ann: bool, reproducible: bool) -> str:
    """Where the table of a model is made that was trained on `device`: there, if that can be."""
    if reproducible:
        return "cpu"  # the same bits whether there is a GPU or not
    if device == "gpu" and (ann or product_factors(model) is None):
        log.info("the serving table is made on the CPU: %s", "it is approximate" if ann else "no product of vectors")
        return "cpu"
    return device


def _check(options: TableOptions) -> None:
    """Approximate tables are faiss's work on the CPU."""
    if options.ann and options.device == "gpu":
        raise must_be("device", "cpu or auto for an approximate table", "gpu", hint="An exact one can use a GPU.")


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

    options = TableOptions(k, ann, threads, device, attachment)
    return save_bundle(
        model,
        path,
        baskets_hash=stream_hash(baskets),
        seed=seed,
        keep_users=keep_users,
        notes=notes,
        write_extra=lambda folder: write_table(model, baskets, folder, options, strata=strata),
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
        before = read_manifest(bundle, verify=False).notes.get(NOTE, {})
        if ann is None:
            ann = "recall" in before
        if baskets is None and strata is not None:
            raise must_be("strata", "given with the baskets that the bundle learned from", list(strata))
        old = ServingTable.open(bundle) if before or baskets is None else None
        if attachment is None and old is not None:
            attachment = old.attachment
        options = TableOptions(before.get("k", K) if k is None else k, ann, threads, device, attachment)
        if baskets is None:
            assert old is not None
            model, pairs = old.model, old.pairs

            def write(folder: Path) -> dict[str, Any]:
                place = folder / FOLDER
                place.mkdir()
                return write_answers(model, pairs, place, options)
        else:
            _refuse_other_baskets(bundle, baskets)
            model = load_bundle(bundle)
            within = before.get("evidence", {}).get("strata") if strata is None else strata

            def write(folder: Path) -> dict[str, Any]:
                return write_table(model, baskets, folder, options, strata=within)

        return rewrite_bundle(bundle, write, without=FOLDER)


def has_table(manifest: Manifest) -> bool:
    """Whether a bundle has a serving table."""
    return NOTE in manifest.notes


def _refuse_other_baskets(bundle: str | Path, baskets: BasketStream) -> None:
    if stream_hash(baskets) != read_manifest(bundle).data_hash:
        raise BundleError(
            f"{printable(bundle)} did not learn from these baskets: their hash is not the one in its manifest",
            file=str(bundle),
            hint="Evidence must come from the training baskets. Name the source it was trained on, or train again; a "
            "bundle of --stream, --validation or several processes gets its table from `neatrec train` alone.",
        )
