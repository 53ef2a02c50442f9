"""One run of `neatrec train`: from baskets to a bundle that is whole or not there."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from neatrec.bundle import BundleLock, load_bundle, read_manifest, save_bundle, stream_hash
from neatrec.data.baskets import Baskets, BasketStream
from neatrec.data.splits import validation_split
from neatrec.errors import ParameterError, must_be
from neatrec.io.shards import ShardFolder
from neatrec.models import make_model
from neatrec.models.base import Model
from neatrec.models.embeddings.model import EmbeddingModel
from neatrec.models.embeddings.synchronize import Together
from neatrec.models.embeddings.warm_start import refuse_other_shapes
from neatrec.models.run import Progress, Run
from neatrec.release.store import bundle_in
from neatrec.serving import save_indexed
from neatrec.serving.approximate import check_approximate
from neatrec.serving.build import table_device
from neatrec.text import plural, printable
from neatrec.training.drift import drift
from neatrec.training.measure import measured
from neatrec.training.streaming import StreamOptions, validation_parts

log = logging.getLogger(__name__)

DEFAULT_MODEL = "bayes"
"""Above every model by the paper's labels and on the simulator; what speaks for others: docs/evaluation.md."""
DEFAULT_OF_A_STREAM = "shrunk-lift-tuned"
"""`bayes` learns from halves of all baskets at once, which a stream is meant to avoid."""


@dataclass(frozen=True)
class ModelChoice:
    """Which model with which parameters."""

    model: str | None = None
    preset: str | None = None
    settings: tuple[str, ...] = ()
    """KEY=VALUE texts, which win over `parameters`."""
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def updated(self, other: ModelChoice) -> ModelChoice:
        """This plan with what `other` says put over it."""
        return replace(
            self, model=other.model or self.model, preset=other.preset or self.preset, settings=other.settings
        )

    def make(self) -> Model:
        """The model, not yet fitted."""
        from neatrec.models.parameters import parse_settings

        if self.model is None:
            log.info(
                "model %s: the best of our table by the paper's labels; choose another with --model", DEFAULT_MODEL
            )
        chosen = {**self.parameters, **dict(parse_settings(self.settings))}
        return make_model(self.model or DEFAULT_MODEL, chosen, preset=self.preset)


@dataclass(frozen=True)
class WarmStart:
    """The bundle that a training begins from."""

    model: Model
    version: str
    parameters: Mapping[str, Any]

    @classmethod
    def of(cls, bundle: Path) -> WarmStart:
        bundle = bundle_in(bundle)
        manifest = read_manifest(bundle, verify=False)
        return cls(load_bundle(bundle), manifest.content_hash, manifest.parameters)

    def updated(self, plan: ModelChoice) -> ModelChoice:
        """`plan`; where it names no model, this one with its parameters (or the plan's preset), but for the epochs."""
        if plan.model is not None:
            return plan
        if plan.preset is not None:
            return replace(plan, model=self.model.name)
        known = {name: value for name, value in self.parameters.items() if name != "epochs"}
        return replace(plan, model=self.model.name, parameters={**known, **plan.parameters})

    def for_model(self, model: Model) -> WarmStart | None:
        """Itself, or None for a model that has nothing to begin from."""
        if isinstance(model, EmbeddingModel):
            refuse_other_shapes(self.model, model)
            return self
        log.info("model %s counts everything anew, exactly: it needs no warm start", model.name)
        return None

    def outcome(self, model: Model) -> dict[str, Any]:
        """What the notes say: where the training began and how far it came."""
        found = drift(self.model, model)
        if found.top10_changed is None or found.cosine_aligned is None:
            log.warning("no item is in both: the older bundle has given nothing")
        else:
            log.info(
                "%.1f %% of the first ten answers changed; mean cosine to the older vectors %.3f; %s new, %s gone",
                100 * found.top10_changed,
                found.cosine_aligned,
                plural(found.items_new, "item"),
                f"{found.items_gone:,}",
            )
        return {"from": self.version, "epochs": len(model.fit_info()["losses"]), "drift": found.to_json()}


def train_bundle(
    read: Callable[[], Baskets] | StreamOptions,
    out: Path,
    plan: ModelChoice,
    *,
    device: str = "auto",
    threads: int | None = None,
    seed: int = 0,
    reproducible: bool = False,
    resume: bool = False,
    validation_share: float = 0.0,
    keep_users: bool = False,
    index: bool = True,
    ann: bool = False,
    warm_start: Path | None = None,
    together: Together | None = None,
    progress: Callable[[Progress], None] | None = None,
    stopping: Callable[[], AbstractContextManager[Callable[[], bool] | None]] = nullcontext,
) -> dict[str, Any]:
    """Train by `plan` and write the bundle `out`; what was there before stays until the new one is whole.

    The model and the run are checked and the place is locked before the baskets are read. `read` gives them all, or
    says how to cut them into shards of which one is in memory at a time. With `index` the bundle has its serving table,
    made of the baskets that the model learned from, exact or (`ann`) approximate. `warm_start` is a bundle to begin
    from, and to take the model and its parameters from where `plan` names none; how far the new model is from it comes
    back and stands in the notes. With `together` this is one of several processes that all call this function alike;
    the first one writes and answers for all. `stopping` makes what stands around the fit: a context that gives
    `Run.stop`.
    """
    if not 0 <= validation_share < 1:
        raise must_be("validation", "a share between 0 and 1", validation_share)
    if ann and not index:
        raise must_be("ann", "left out where no table is written", ann)
    start = None if warm_start is None else WarmStart.of(warm_start)
    if start is not None:
        plan = start.updated(plan)
    elif isinstance(read, StreamOptions) and plan.model is None:
        log.info(
            "model %s: the default for a stream, as bayes holds counts of all baskets and of their halves",
            DEFAULT_OF_A_STREAM,
        )
        plan = replace(plan, model=DEFAULT_OF_A_STREAM)
    model, lock = plan.make(), BundleLock(out)
    if start is not None:
        start = start.for_model(model)
    run = Run(
        rng=seed,
        device=device,
        threads=threads,
        reproducible=reproducible,
        progress=progress,
        checkpoints=lock.checkpoints,
        resume=resume,
        warm_start=None if start is None else start.model,
        together=together,
    )
    leads = together is None or together.leads
    model.check_run(run, validation=validation_share > 0)
    if ann:
        check_approximate(model)
    if keep_users:
        _refuse_without_users(model)
    if together is not None:
        _refuse_alone(model, read)
    with lock if leads else nullcontext(), _baskets(read, out, together) as baskets:
        kept_out: BasketStream | None = None
        if validation_share:
            baskets, kept_out = _kept_apart(baskets, validation_share, seed)
        with stopping() as stop:
            how = replace(run, validation=kept_out, stop=stop)
            cost = measured(lambda: model.fit(baskets, how))
        if not leads:
            return {}
        if keep_users and model.user_ids is None:
            log.warning("no users are kept: those of these baskets are not known")
            keep_users = False
        notes: dict[str, Any] = {} if start is None else {"warm_start": start.outcome(model)}
        about: dict[str, Any] = {"seed": seed, "keep_users": keep_users, "notes": notes}
        if index:
            where = table_device(model, device, ann=ann, reproducible=reproducible)
            manifest = save_indexed(model, out, baskets, ann=ann, threads=threads, device=where, **about)
        else:
            manifest = save_bundle(model, out, baskets_hash=stream_hash(baskets), **about)
        lock.remove_checkpoints()
    log.info("wrote %s", printable(out))
    return {
        "bundle": str(out),
        "model": model.name,
        "kind": model.kind,
        "train_seconds": cost.seconds,
        "peak_mb": round(cost.peak_mb, 1),
        "seed": seed,
        "data_hash": manifest.data_hash,
        "content_hash": manifest.content_hash,
        **notes,
    }


@contextmanager
def _baskets(
    read: Callable[[], Baskets] | StreamOptions, out: Path, together: Together | None
) -> Iterator[BasketStream]:
    """The baskets, or a stream of their shards while the block runs."""
    if isinstance(read, StreamOptions):
        with read.shards(out, together) as shards:
            yield shards
    else:
        yield read()


def _kept_apart(baskets: BasketStream, share: float, seed: int) -> tuple[BasketStream, BasketStream]:
    """(train, validation)."""
    if isinstance(baskets, Baskets):
        return validation_split(baskets, share=share, seed=seed)
    return validation_parts(cast("ShardFolder", baskets), share, seed)


def _refuse_without_users(model: Model) -> None:
    if not model.learns_about_users():
        raise ParameterError(
            f"`keep_users` is of no use to model {model.name!r}, which learns nothing about users",
            hint="Leave keep_users out.",
            argument="keep_users",
        )


def _refuse_alone(model: Model, read: Callable[[], Baskets] | StreamOptions) -> None:
    """Refuse what several processes cannot do."""
    if not isinstance(model, EmbeddingModel):
        raise ParameterError(
            f"model {model.name!r} cannot be trained by several processes: it counts",
            hint="Start it without torchrun; --engine spark counts labels on a cluster.",
            argument="model",
        )
    if not isinstance(read, StreamOptions):
        raise must_be("read", "a StreamOptions where several processes train", type(read).__name__)
