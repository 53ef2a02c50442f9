"""One run of `neatrec train`: from baskets to a complete bundle or none."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from neatrec.bundle import Manifest, bundle_lock, read_manifest, save_bundle
from neatrec.cooccurrence.counting import MEMORY, CountBook, Engine
from neatrec.cooccurrence.strata import parse_strata, store_left_out, usable_strata
from neatrec.data.baskets import Baskets
from neatrec.errors import ParameterError, must_be_one_of, require_whole
from neatrec.memory import measured
from neatrec.models import make_model
from neatrec.models.base import Model
from neatrec.models.counts import ranked_within
from neatrec.models.run import Progress, Run
from neatrec.serving.build import BuiltTable, K
from neatrec.serving.files import SAME_CATEGORY
from neatrec.serving.table import coverage_of
from neatrec.text import printable

__all__ = ["DEFAULT_MODEL", "ModelChoice", "TrainOptions", "train_bundle"]

log = logging.getLogger(__name__)

DEFAULT_MODEL = "odds"
"""docs/explanation/evaluation.md compares it with the others."""
NOTE = "training"
"""The entry of the manifest's notes with the options of the training."""


@dataclass(frozen=True)
class ModelChoice:
    """A model and its parameters."""

    model: str | None = None
    """A name, or name@preset; None: the default."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Parameters by name, as values or as texts."""

    def make(self) -> Model:
        """The model, not yet fitted."""
        if self.model is None:
            log.debug("using model %s, the default; --model chooses another", DEFAULT_MODEL)
        name, _, preset = (self.model or DEFAULT_MODEL).partition("@")
        return make_model(name, self.parameters, preset=preset or None)


@dataclass(frozen=True)
class TrainOptions:
    """The options of `neatrec train`, apart from the model."""

    device: str = "auto"
    threads: int | None = None
    seed: int = 0
    reproducible: bool = False
    keep_users: bool = False
    strata: Sequence[str] | None = None
    """Columns within which evidence is measured: basket_size, month, any attribute.

    None: basket size, month and store, as far as the baskets have them; (): none."""
    k: int = K
    """Answers kept per item in the serving table."""
    same_category: str = SAME_CATEGORY[0]
    """Position of answers from the query's own category, unless a question names one."""
    engine: Engine = MEMORY
    """Where pairs are counted. The model is the same."""
    progress: Callable[[Progress], None] | None = None

    def __post_init__(self) -> None:
        require_whole("k", self.k)
        if self.same_category not in SAME_CATEGORY:
            raise must_be_one_of("same_category", SAME_CATEGORY, self.same_category)
        object.__setattr__(self, "strata", parse_strata(self.strata))

    def run(self, book: CountBook | None = None) -> Run:
        """The options of the fit."""
        return Run(
            rng=self.seed,
            device=self.device,
            threads=self.threads,
            reproducible=self.reproducible,
            progress=self.progress,
            book=book,
        )


def train_bundle(
    read: Callable[[], Baskets], out: Path, choice: ModelChoice, options: TrainOptions | None = None
) -> dict[str, Any]:
    """Train a model, write the bundle `out`, and return a report; an older bundle stays until then.

    The options are checked and the bundle is locked before the baskets are read.
    """
    options = TrainOptions() if options is None else options
    model = choice.make()
    _check(model, options)
    notes = {NOTE: _asked(model, options)}
    with bundle_lock(out):
        baskets = read()
        book = CountBook(baskets, options.engine)
        strata = _strata(baskets, options)
        model.parameters = ranked_within(model.parameters, strata)
        fit = measured(lambda: model.fit(baskets, options.run(book)))
        tables: list[BuiltTable] = []

        def write_table(folder: Path) -> Mapping[str, Any]:
            """Made after the model is written: the two need their memory one after the other."""
            table = BuiltTable.of(
                model, book, k=options.k, strata=strata, same_category=options.same_category
            )
            tables.append(table)
            return table.write(folder)

        keep_users = options.keep_users and model.user_ids is not None
        manifest = save_bundle(
            model,
            out,
            seed=options.seed,
            keep_users=keep_users,
            notes=notes,
            write_extra=write_table,
        )
    if options.keep_users and not keep_users:
        log.warning("keeping no users: the baskets name none")
    log.debug("wrote bundle %s, counted %s", printable(out), ", ".join(book.passes))
    costs = {"train_seconds": fit.seconds, "peak_mb": round(fit.peak_mb, 1)}
    return {"bundle": str(out), **costs, **_report(model, manifest, tables[0])}


def _strata(baskets: Baskets, options: TrainOptions) -> tuple[str, ...]:
    """The strata of the evidence; a store column that is left out is named."""
    if options.strata is None and (column := store_left_out(baskets)) is not None:
        shown = printable(column, 40)
        log.info("evidence is not measured within %s: too few baskets per value", shown)
    return usable_strata(baskets, options.strata)


def _check(model: Model, options: TrainOptions) -> None:
    """Refuse options that the model cannot honor, before any basket is read."""
    model.check_run(options.run())
    if options.keep_users and not model.user_arrays:
        raise ParameterError(
            f"`keep_users` has no effect on model {model.name!r}, which learns nothing about users",
            hint="Leave keep_users out.",
            argument="keep_users",
        )


def _report(model: Model, manifest: Manifest, table: BuiltTable) -> dict[str, Any]:
    learned = model.learned
    return {
        "model": model.name,
        "kind": model.kind,
        "seed": manifest.seed,
        "data_hash": manifest.data_hash,
        "content_hash": manifest.content_hash,
        "pairs": len(table.pairs.evident),
        "same_category": table.pairs.same_category_share,
        "coverage": coverage_of(table.pairs, table.answers, model.item_count),
        **({"goal": model.parameters.goal} if hasattr(model.parameters, "goal") else {}),
        **({"learned": learned} if "strong" in learned else {}),
    }


def _asked(model: Model, options: TrainOptions) -> dict[str, Any]:
    """The options of a training that decide its bundle, as the manifest holds them."""
    strata = None if options.strata is None else ",".join(options.strata) or "none"
    return {
        "--model": model.name,
        "--seed": options.seed,
        "--keep-users": options.keep_users,
        "-k": options.k,
        "--same-category": options.same_category,
        "--strata": strata,
        **{f"--set {name}": value for name, value in model.parameters.to_dict().items()},
    }


def trained_otherwise(bundle: Path, choice: ModelChoice, options: TrainOptions) -> str | None:
    """The first option of a bundle that differs, such as "--model neat"; None: there is none."""
    before = read_manifest(bundle).notes.get(NOTE)
    if before is None:
        return "made without `neatrec train`"
    now = json.loads(json.dumps(_asked(choice.make(), options)))
    other = (name for name, value in now.items() if before.get(name) != value)
    return next((f"{name} {printable(before.get(name))}" for name in other), None)
