"""The training loop of all embedding models: epochs over the baskets, with a learning rate that falls."""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from neatrec.compiled import on_first_compile
from neatrec.data.baskets import Baskets
from neatrec.data.catalog import UNKNOWN
from neatrec.data.randomness import kernel_seed
from neatrec.errors import DivergedError
from neatrec.models.embeddings.kernels.arguments import KernelInput, StepStats
from neatrec.models.embeddings.kernels.dispatch import chosen_device, kernel, training_device
from neatrec.models.embeddings.kernels.layout import SQUARES, Table, tail, vector
from neatrec.models.embeddings.sampling import TrainingData, new_draws, prepare
from neatrec.models.run import Progress, Run

if TYPE_CHECKING:
    from neatrec.models.embeddings.model import EmbeddingModel

PROGRESS_SECONDS = 0.4
"""Seconds between two calls of `Run.progress`; the end of an epoch is always reported."""
MIN_RATE_SHARE = 1e-4
"""The learning rate falls linearly to this share of its start."""
MAX_WEIGHT = 1e6
"""Larger weights count as divergence."""
FROZEN_SQUARES = 1e36
"""Adagrad does not move a row whose sum of squares starts here."""
MAX_SHARE_AT_BOUND = 0.5
"""A larger share of items at the upper bound of the log-variance counts as divergence."""

log = logging.getLogger(__name__)


class Trained(NamedTuple):
    """What a fit comes to."""

    tables: dict[str, Table]
    """Rows in the order of the catalogue, or of `user_ids`."""
    user_ids: pa.LargeStringArray | None
    losses: tuple[float, ...]
    """Mean loss per pair of each epoch."""


def train(model: EmbeddingModel, baskets: Baskets, run: Run) -> Trained:
    """Train the model's tables on the CPU or a GPU, which differ in the kernel alone."""
    first = {"done": 0, "total": 1}
    with on_first_compile(
        lambda: log.info("compiling %s kernels (first run only)", model.kernel, extra=first)
    ):
        return _train(model, baskets, run)


def _train(model: EmbeddingModel, baskets: Baskets, run: Run) -> Trained:
    settings, epochs = model._settings(), model._epochs()
    where = chosen_device(model.kernel, run.device, settings, run.reproducible)
    device, step = training_device(where), kernel(model.kernel, where)
    seed = kernel_seed(run.rng) if isinstance(run.rng, np.random.Generator) else int(run.rng)
    data = prepare(baskets, _categories(model), with_users=model.needs_users)
    tables = _initial_tables(model, data, seed)
    draws = new_draws(
        data,
        model.parameters.negative_exponent,
        reject_observed=model.parameters.reject_observed,
        reject_bought=model.reject_bought,
    )
    here = device.put(KernelInput(tuple(tables.values()), data.visit, draws, settings))
    units, watch, losses = len(data.visit.start), _Watch(model, run, epochs), []
    for epoch in range(epochs):
        rng = np.random.default_rng([seed, 1, epoch])
        visit = device.shuffled(here.visit, data.ordered, rng)
        draws = here.draws._replace(seed=np.uint64(rng.integers(2**63)))
        watch.begin(epoch)
        for first in range(0, units, device.units_per_call):
            last = min(first + device.units_per_call, units)
            now = settings._replace(
                rate=model._rate() * _rate_share((epoch + first / units) / epochs),
                last_rate=model._rate() * _rate_share((epoch + last / units) / epochs),
            )
            call = KernelInput(here.tables, visit, draws, now, done=epoch * units + first)
            watch.note(step(call, first, last, run.thread_count), last / units)
        _check_divergence(model, here.tables, list(tables), data, epoch)
        losses.append(watch.end())
    device.get(here.tables, tuple(tables.values()))
    ordered = {
        name: table if "user" in name else table[data.row_of_item] for name, table in tables.items()
    }
    return Trained(ordered, data.user_ids, tuple(losses))


def _rate_share(done: float) -> float:
    return max(1.0 - done, MIN_RATE_SHARE)


def _categories(model: EmbeddingModel) -> Any:
    """The category of each item of the catalogue at the model's level; UNKNOWN where the model has no level."""
    category = model.catalog.category_of(model.category_level)
    return np.full_like(category, UNKNOWN) if model.parameters.category_level is None else category


def _initial_tables(model: EmbeddingModel, data: TrainingData, seed: int) -> dict[str, Table]:
    """Users with fewer than `min_user_baskets` keep zeros: their sums of squares make Adagrad's steps vanish."""
    users = 0 if data.user_ids is None else len(data.user_ids)
    tables = model._new_tables(np.random.default_rng([seed, 0]), len(model.catalog), users)
    least, dim = getattr(model.parameters, "min_user_baskets", 1), model.parameters.dim
    if least > 1:
        few = data.baskets_of_user < least
        vector(tables["users"], dim)[few] = 0
        tail(tables["users"], dim, SQUARES)[few] = FROZEN_SQUARES
    return tables


def _check_divergence(
    model: EmbeddingModel, tables: tuple[Any, ...], names: list[str], data: TrainingData, epoch: int
) -> None:
    """Refuse tables that have run away; they may lie on a GPU."""
    by_name = dict(zip(names, tables, strict=True))
    for name, table in by_name.items():
        vectors = vector(table, model.parameters.dim)
        largest = max(float(vectors.max()), -float(vectors.min())) if len(table) else 0.0
        if not largest < MAX_WEIGHT:
            what = f"the vectors of {name} are too large (largest value {largest:g})"
            raise _diverged(model, epoch, what)
    log_variance = model._log_variances(by_name)
    if log_variance is None:
        return
    bought = log_variance[: int((data.count_of_row > 0).sum())]  # rows are by frequency
    share = float((bought >= np.float32(model._settings().high)).mean())
    if share > MAX_SHARE_AT_BOUND or not math.isfinite(float(bought.sum())):
        raise _diverged(
            model,
            epoch,
            f"the log-variances of {share:.0%} of the items are at their upper bound",
            hint="Lower `variance_learning_rate`.",
        )


def _diverged(
    model: EmbeddingModel, epoch: int, what: str, hint: str | None = None
) -> DivergedError:
    return DivergedError(
        f"model {model.name!r} diverged in epoch {epoch + 1}: {what}",
        hint=hint or f"Lower `learning_rate` (it is {model.parameters.learning_rate:g}).",
    )


@dataclass
class _Watch:
    """Adds up what an epoch did, and reports it."""

    model: EmbeddingModel
    run: Run
    epochs: int

    def __post_init__(self) -> None:
        self.started, self.reported_at = time.monotonic(), 0.0

    def begin(self, epoch: int) -> None:
        self.epoch, self.epoch_started = epoch, time.monotonic()
        self.pairs, self.loss, self.active = 0, 0.0, 0

    def note(self, stats: StepStats, share: float) -> None:
        """Add a step, after which `share` of the epoch is done."""
        if not math.isfinite(stats.loss):
            raise _diverged(self.model, self.epoch, "the loss is not a number")
        self.pairs += stats.pairs
        self.loss += stats.loss
        self.active += stats.active
        if time.monotonic() - self.reported_at >= PROGRESS_SECONDS:
            self._report(self.epoch, (self.epoch + share) / self.epochs)

    def end(self) -> float:
        """The mean loss per pair of the epoch."""
        if self.model.has_hinge_loss and self.epoch == 0 and self.pairs and not self.active:
            why = "; with `reject_observed`, items bought with every other item have no negatives"
            log.warning(
                "nothing was learned: no pair of the first epoch had an active negative%s",
                why if self.model.parameters.reject_observed else "",
            )
        self._report(self.epoch + 1, (self.epoch + 1) / self.epochs)
        return self.loss / max(self.pairs, 1)

    def _report(self, epoch: int, done: float) -> None:
        if self.run.progress is None:
            return
        self.reported_at = now = time.monotonic()
        hinges = max(self.pairs * self.model.parameters.negatives, 1)
        self.run.progress(
            Progress(
                epoch=epoch,
                epochs=self.epochs,
                done=done,
                pairs=self.pairs,
                pairs_per_second=self.pairs / max(now - self.epoch_started, 1e-9),
                loss=self.loss / max(self.pairs, 1),
                active=self.active / hinges if self.model.has_hinge_loss else None,
                seconds=now - self.started,
                seconds_left=(now - self.started) * (1 - done) / max(done, 1e-9),
            )
        )
