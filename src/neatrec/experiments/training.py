"""One run of `neatrec train`: from baskets to a bundle that is whole or not there."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from neatrec.baskets import Baskets, BasketStream
from neatrec.bundle import BundleLock, save_bundle, stream_hash
from neatrec.errors import ParameterError, must_be
from neatrec.experiments.streaming import Streaming, validation_parts
from neatrec.index import save_indexed
from neatrec.models import make_model
from neatrec.models.base import Model
from neatrec.models.run import Progress, Run
from neatrec.sources.shards import ShardFolder
from neatrec.splits import validation_split
from neatrec.text import printable

log = logging.getLogger(__name__)

DEFAULT_MODEL = "shrunk-lift-tuned"
"""The best of the statistics on the half-split with the paper's labels; why none of the others: docs/evaluation.md."""


@dataclass(frozen=True)
class Plan:
    """Which model with which parameters."""

    model: str | None = None
    preset: str | None = None
    settings: tuple[str, ...] = ()
    """KEY=VALUE texts, which win over `parameters`."""
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def updated(self, other: Plan) -> Plan:
        """This plan with what `other` says put over it."""
        return replace(
            self, model=other.model or self.model, preset=other.preset or self.preset, settings=other.settings
        )

    def make(self) -> Model:
        """The model, not yet fitted."""
        from neatrec.models.parameters import parse_settings

        if self.model is None:
            log.info("model %s: the best statistic on the paper's labels; choose another with --model", DEFAULT_MODEL)
        chosen = {**self.parameters, **dict(parse_settings(self.settings))}
        return make_model(self.model or DEFAULT_MODEL, chosen, preset=self.preset)


def train_bundle(
    read: Callable[[], Baskets] | Streaming,
    out: Path,
    plan: Plan,
    *,
    device: str = "auto",
    threads: int | None = None,
    seed: int = 0,
    reproducible: bool = False,
    resume: bool = False,
    validation_share: float = 0.0,
    keep_users: bool = False,
    index: bool = True,
    progress: Callable[[Progress], None] | None = None,
    stopping: Callable[[], AbstractContextManager[Callable[[], bool] | None]] = nullcontext,
) -> dict[str, Any]:
    """Train by `plan` and write the bundle `out`; what was there before stays until the new one is whole.

    The model and the run are checked and the place is locked before the baskets are read. `read` gives them all, or
    says how to cut them into shards of which one is in memory at a time. With `index` the bundle has its serving table,
    made of the baskets that the model learned from. `stopping` makes what stands around the fit: a context that gives
    `Run.stop`.
    """
    if not 0 <= validation_share < 1:
        raise must_be("validation", "a share between 0 and 1", validation_share)
    model, lock = plan.make(), BundleLock(out)
    run = Run(
        rng=seed,
        device=device,
        threads=threads,
        reproducible=reproducible,
        progress=progress,
        checkpoints=lock.checkpoints,
        resume=resume,
    )
    model.check_run(run, validation=validation_share > 0)
    if keep_users and not model.learns_about_users():
        raise ParameterError(
            f"`keep_users` is of no use to model {model.name!r}, which learns nothing about users",
            hint="Leave keep_users out.",
            argument="keep_users",
        )
    with lock, _baskets(read, out) as baskets:
        kept_out: BasketStream | None = None
        if validation_share:
            baskets, kept_out = _kept_apart(baskets, validation_share, seed)
        started = time.perf_counter()
        with stopping() as stop:
            model.fit(baskets, replace(run, validation=kept_out, stop=stop))
        seconds = time.perf_counter() - started
        if keep_users and model.user_ids is None:
            log.warning("no users are kept: those of these baskets are not known")
            keep_users = False
        if index:
            manifest = save_indexed(model, out, baskets, seed=seed, keep_users=keep_users, threads=threads)
        else:
            manifest = save_bundle(model, out, baskets_hash=stream_hash(baskets), seed=seed, keep_users=keep_users)
        lock.remove_checkpoints()
    log.info("wrote %s", printable(out))
    return {
        "bundle": str(out),
        "model": model.name,
        "kind": model.kind,
        "train_seconds": seconds,
        "seed": seed,
        "data_hash": manifest.data_hash,
        "content_hash": manifest.content_hash,
    }


@contextmanager
def _baskets(read: Callable[[], Baskets] | Streaming, out: Path) -> Iterator[BasketStream]:
    """The baskets, or a stream of their shards while the block runs."""
    if isinstance(read, Streaming):
        with read.shards(out) as shards:
            yield shards
    else:
        yield read()


def _kept_apart(baskets: BasketStream, share: float, seed: int) -> tuple[BasketStream, BasketStream]:
    """(train, validation)."""
    if isinstance(baskets, Baskets):
        return validation_split(baskets, share=share, seed=seed)
    return validation_parts(cast("ShardFolder", baskets), share, seed)
