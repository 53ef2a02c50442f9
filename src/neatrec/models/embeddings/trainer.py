"""The training loop of all embedding models: epochs, shards and chunks, with checkpoints and early stopping."""

from __future__ import annotations

import hashlib
import logging
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from neatrec.data.baskets import Baskets, BasketStream, as_shards
from neatrec.data.catalog import UNKNOWN
from neatrec.data.randomness import kernel_seed
from neatrec.errors import DivergedError
from neatrec.models.embeddings.checkpoints import Checkpoint, CheckpointPosition, load_checkpoint, save_checkpoint
from neatrec.models.embeddings.devices import Span, training_device
from neatrec.models.embeddings.kernels.arguments import Draws, KernelInput, KernelSettings, StepStats
from neatrec.models.embeddings.kernels.dispatch import Kernel, chosen_device, kernel, on_first_compile
from neatrec.models.embeddings.kernels.layout import SQUARES, Table, tail, vector
from neatrec.models.embeddings.sampling import ValidationPairs, VisitOrder, new_draws
from neatrec.models.embeddings.synchronize import Synchronizer
from neatrec.models.embeddings.warm_start import hash_of
from neatrec.models.run import Progress, Run

if TYPE_CHECKING:
    from neatrec.models.embeddings.model import EmbeddingModel

BLOCK = 64
"""Baskets in a block of the reproducible mode."""
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


Trained = tuple[dict[str, Table], pa.LargeStringArray | None, tuple[float, ...]]
"""The tables, rows in the order of the catalog (and of the users), the ids of the users, the loss of each epoch."""


def train(model: EmbeddingModel, shards: Iterable[Baskets], run: Run) -> Trained:
    """Train the model's tables on a stream of shards; memory holds the tables and one shard at a time."""
    first = {"done": 0, "total": 1}
    with on_first_compile(lambda: log.info("compiling %s kernels (first run only)", model.kernel, extra=first)):
        return _TrainingLoop(model, shards, run).run_epochs()


class _TrainingLoop:
    def __init__(self, model: EmbeddingModel, shards: Iterable[Baskets], run: Run) -> None:
        self.model, self.shards, self.run = model, shards, run
        self.parameters, self.settings = model.parameters, model._settings()
        self.epochs, self.epochs_before = model._epochs(warm=run.warm_start is not None)
        if run.warm_start is not None:
            log.info("warm start: training the last %d of %d epochs", self.epochs, self.epochs + self.epochs_before)
        self.synchronizer = run.synchronizer if run.synchronizer is not None and run.synchronizer.active else None
        device = chosen_device(model.kernel, run.device, self.settings, run.reproducible)
        if self.synchronizer is not None:
            device = self.synchronizer.common_device(device)
        self.kernel: Kernel = kernel(model.kernel, device)
        self.seed = int(run.rng) if not isinstance(run.rng, np.random.Generator) else kernel_seed(run.rng)
        category = model.catalog.category_of(model.category_level)
        self.visits = VisitOrder(shards, model.item_count, category, model.needs_users)
        if self.parameters.category_level is None:
            self.visits.category[:] = UNKNOWN
        self.validation = None
        if run.validation is not None:
            self.validation = ValidationPairs(self.visits, run.validation, model.catalog)
        self.lines = int(model.item_count.sum())
        self.device = training_device(device, self.visits, self.lines)
        exponent, observed = self.parameters.negative_exponent, self.parameters.reject_observed
        draws = new_draws(self.visits, shards, exponent, observed, model.reject_bought)
        self.settings = self.settings._replace(block=BLOCK if run.reproducible and not self.settings.batch else 0)
        self.position = CheckpointPosition()
        self.tables = self._initial_tables()
        self.kernel_tables = self.device.upload(self.tables)
        self.device_tables = dict(zip(self.tables, self.kernel_tables, strict=True))
        self.draws = self.device.upload_draws(draws)
        self.started = time.monotonic()
        self.reported_at = 0.0

    # ---- start and end

    def _initial_tables(self) -> dict[str, Table]:
        rng = np.random.default_rng([self.seed, 0])
        users = 0 if self.visits.user_ids is None else len(self.visits.user_ids)
        tables = self.model._new_tables(rng, len(self.model.catalog), users)
        if (least := getattr(self.parameters, "min_user_baskets", 1)) > 1:
            self._freeze_users(tables, least)
        if self.run.warm_start is not None:  # after freezing: users of the older model keep their vectors
            old: Any = self.run.warm_start
            self.model._start_from(old, tables, self.visits.row_of_item, self.visits.user_ids)
        if self.run.resume and self.run.checkpoints is not None:
            found = load_checkpoint(self.run.checkpoints, self._fingerprint, self.device.device)
            if found is not None:
                self.position = found.position
                for name, table in tables.items():
                    table[:] = found.tables[name]
                log.info("resuming after %d of %d epochs", self.position.epoch, self.epochs)
        return tables

    def _freeze_users(self, tables: Mapping[str, Table], least: int) -> None:
        """Users with fewer than `least` baskets keep zeros: their sums of squares make Adagrad's steps vanish."""
        few = self.visits.baskets_of_users(self.shards) < least
        for name, table in tables.items():
            if "user" in name:
                vector(table, self.settings.dim)[few] = 0
                tail(table, self.settings.dim, SQUARES)[few] = FROZEN_SQUARES

    @cached_property
    def _fingerprint(self) -> dict[str, Any]:
        """Identifies the fit: a checkpoint must be equal in each entry."""
        old = self.run.warm_start
        return {
            "model": self.model.name,
            **{f"parameter {name}": value for name, value in self.parameters.to_dict().items()},
            "number of epochs": self.epochs,
            "seed": self.seed,
            "reproducible": self.run.reproducible,
            "hash of the catalogue": self.model.catalog.hash,
            "lines": self.lines,
            "hash of the baskets": _hash(self.shards),
            "hash of the validation baskets": None if self.run.validation is None else _hash(self.run.validation),
            "hash of the warm start": None if old is None else hash_of(old.arrays(users=True)),
        }

    def run_epochs(self) -> Trained:
        if self.synchronizer is None:
            self._maybe_stop()
        else:
            self.synchronizer.check_equal(self.tables, "at the start")
        while self.position.epoch < self.epochs and not self._stops_early():
            self._epoch() if self.synchronizer is None else self._epoch_distributed(self.synchronizer)
        self.device.download(self.tables)
        order = self.visits.row_of_item
        tables = {name: table if "user" in name else table[order] for name, table in self.tables.items()}
        return tables, self.visits.user_ids, self.position.losses

    def _save(self) -> None:
        if self.run.checkpoints is not None and (self.synchronizer is None or self.synchronizer.is_main):
            self.device.download(self.tables)
            position = replace(self.position, seconds=self._seconds())
            task = {**self._fingerprint, "device": self.device.device}
            save_checkpoint(self.run.checkpoints, Checkpoint(task, position, self.tables))

    # ---- an epoch

    def _epoch(self) -> None:
        done = 0
        self.epoch_started, self.pairs_before = time.monotonic(), self.position.pairs
        for number, shard in enumerate(self.shards):
            if number >= self.position.shard:
                self._train_shard(shard, number, done)
            done += shard.lines
        self._end_epoch()

    def _train_shard(self, shard: Baskets, number: int, lines_before: int) -> None:
        epoch, chunk = self.position.epoch, self.position.chunk
        draws = self.visits.seeded(self.draws, self.seed, epoch, number)
        for span in self.device.spans(shard, number, epoch, self.seed, chunk):
            chunk += 1
            settings = self.settings._replace(
                rate=self._rate(lines_before + span.begin), last_rate=self._rate(lines_before + span.end)
            )
            stats = self._call_kernel(span, draws, settings)
            self._add(stats, shard=number, chunk=chunk)
            self._report(lines_before + span.end)
            self._maybe_stop()
        self.position = replace(self.position, shard=number + 1, chunk=0)

    def _add(self, stats: StepStats, **reached: Any) -> None:
        """Count what a call of the kernel did."""
        at = self.position
        pairs, loss, active = at.pairs + stats.pairs, at.loss + stats.loss, at.active + stats.active
        self.position = replace(at, pairs=pairs, loss=loss, active=active, **reached)
        if not math.isfinite(stats.loss):
            raise self._diverged("the loss is not a number")

    def _call_kernel(self, span: Span, draws: Draws, settings: KernelSettings) -> StepStats:
        data = KernelInput(self.kernel_tables, span.visit, draws, settings)
        return self.kernel(data, span.first, span.last, self.run.thread_count)

    # ---- an epoch by several processes

    def _epoch_distributed(self, synchronizer: Synchronizer) -> None:
        """Each process trains on its own shards; all synchronize after `sync_every` baskets, until all are done."""
        self.epoch_started, self.pairs_before = time.monotonic(), self.position.pairs
        last = {name: table.copy() for name, table in self.device_tables.items()}
        pieces, done = self._pieces(synchronizer), 0
        sent: list[int] = []
        self.lines_done = 0
        while True:
            stats, lines = next(pieces, (StepStats(0, 0.0, 0), 0))
            stop = self.run.stop is not None and self.run.stop()
            busy, stopped, seen, pairs, loss, active = synchronizer.sum(
                lines > 0, stop, lines, stats.pairs, stats.loss, stats.active
            )
            if stopped:
                raise KeyboardInterrupt  # the checkpoint of the last epoch stays
            if not busy:
                break
            done += int(seen)
            self.lines_done = done
            self._add(StepStats(int(pairs), loss, int(active)))
            sent.append(self._synchronize(synchronizer, last))
            self._report(done)
        self._log_sent(sent)
        self.device.download(self.tables)
        synchronizer.check_equal(self.tables, f"after epoch {self.position.epoch + 1}")
        self._end_epoch()

    def _pieces(self, synchronizer: Synchronizer) -> Iterator[tuple[StepStats, int]]:
        """Train on this process's shards, `sync_every` baskets at a time: (statistics of the step, lines)."""
        group, epoch, every = synchronizer.group, self.position.epoch, synchronizer.interval(self.device.device)
        for number, shard in _own_shards(self.shards, group.rank, group.size):
            draws = self.visits.seeded(self.draws, self.seed, epoch, number)
            for span in self.device.spans(shard, number, epoch, self.seed, 0):
                for first in range(span.first, span.last, every):
                    end = min(first + every, span.last)
                    lines = self.device.count_lines(span, first, end)
                    ahead = min(self.lines_done + group.size * lines, self.lines)  # the others train as many
                    settings = self.settings._replace(rate=self._rate(self.lines_done), last_rate=self._rate(ahead))
                    yield self._call_kernel(span._replace(first=first, last=end), draws, settings), lines

    def _synchronize(self, synchronizer: Synchronizer, last: Mapping[str, Table]) -> int:
        """Returns the bytes sent."""
        dim = self.settings.dim
        sent = sum(synchronizer.synchronize(table, last[name], dim) for name, table in self.device_tables.items())
        for tables in (self.device_tables, last):
            if (found := self.model._log_variances(tables)) is not None:
                found[...] = found.clip(self.settings.low, self.settings.high)
        return sent

    def _log_sent(self, sent: Sequence[int]) -> None:
        """Log how much the synchronizations of an epoch sent."""
        if sent:
            whole = sum(int(table.nbytes) for table in self.device_tables.values())
            mean = sum(sent) / len(sent)
            log.debug(
                "synchronized %d times: %.3f MB sent per time, tables of %.3f MB", len(sent), mean / 1e6, whole / 1e6
            )

    def _rate(self, lines: int) -> float:
        before = self.epochs_before
        share = (before + self.position.epoch + lines / self.lines) / (before + self.epochs)
        return float(self.parameters.learning_rate) * max(1.0 - share, MIN_RATE_SHARE)

    def _end_epoch(self) -> None:
        self._check_divergence()
        position = self.position
        if self.model.has_hinge_loss and position.epoch == 0 and position.pairs and not position.active:
            why = "; with `reject_observed`, items bought with every other item have no negatives"
            log.warning(
                "nothing was learned: no pair of the first epoch had an active negative%s",
                why if self.parameters.reject_observed else "",
            )
        losses = (*position.losses, position.loss / max(position.pairs, 1))
        validation = position.validation_losses
        if self.validation is not None:
            validation = (*validation, self._common_validation_loss(self.validation))
        self._report(self.lines, validation=validation[-1] if validation else None, end=True)
        self.position = CheckpointPosition(
            position.epoch + 1, losses=losses, validation_losses=validation, seconds=position.seconds
        )
        self._save()

    def _common_validation_loss(self, validation: ValidationPairs) -> float:
        """The first process's loss, in all processes."""
        if self.synchronizer is None:
            return self._validation_loss(validation)
        return self.synchronizer.sum(self._validation_loss(validation) if self.synchronizer.is_main else 0.0)[0]

    def _validation_loss(self, validation: ValidationPairs) -> float:
        """Mean loss per pair on the validation baskets, with the same negatives every time."""
        pairs, loss = 0, 0.0
        settings = self.settings._replace(block=BLOCK, batch=0, rate=0.0, last_rate=0.0)
        for number, shard in enumerate(validation):
            visit = self.visits.arranged(shard, number, 0, self.seed)
            draws = self.visits.seeded(self.draws, self.seed, -1, number)
            stats = self._call_kernel(Span(visit, 0, len(visit.start), 0, shard.lines), draws, settings)
            pairs, loss = pairs + stats.pairs, loss + stats.loss
        return loss / max(pairs, 1)

    def _stops_early(self) -> bool:
        """Whether the validation loss has not fallen for `patience` epochs."""
        found = self.position.validation_losses
        if len(found) <= self.run.patience:
            return False
        over = min(found[-self.run.patience :]) >= min(found[: -self.run.patience])
        if over:
            log.info("stopping early: the validation loss has not fallen for %d epochs", self.run.patience)
        return over

    # ---- checks and progress

    def _maybe_stop(self) -> None:
        if self.run.stop is not None and self.run.stop():
            self._save()
            raise KeyboardInterrupt

    def _check_divergence(self) -> None:
        for name, table in self.device_tables.items():
            largest = self.device.max_abs(table, self.settings.dim)
            if not largest < MAX_WEIGHT:
                raise self._diverged(f"the vectors of {name} are too large (largest value {largest:g})")
        if (found := self.model._log_variances(self.device_tables)) is not None:
            self._check_variance(self.device.to_host(found))

    def _check_variance(self, log_variance: npt.NDArray[np.float32]) -> None:
        bought = log_variance[self.visits.count_of_row > 0]
        share = float((bought >= np.float32(self.settings.high)).mean())
        if share > MAX_SHARE_AT_BOUND or not np.isfinite(bought).all():
            raise self._diverged(
                f"the log-variances of {share:.0%} of the items are at their upper bound",
                hint="Lower `variance_learning_rate`.",
            )

    def _diverged(self, what: str, hint: str | None = None) -> DivergedError:
        return DivergedError(
            f"model {self.model.name!r} diverged in epoch {self.position.epoch + 1}: {what}",
            hint=hint or f"Lower `learning_rate` (it is {self.parameters.learning_rate:g}).",
        )

    def _seconds(self) -> float:
        return self.position.seconds + time.monotonic() - self.started

    def _report(self, lines: int, validation: float | None = None, end: bool = False) -> None:
        now = time.monotonic()
        if self.run.progress is None or (now - self.reported_at < PROGRESS_SECONDS and not end):
            return
        self.reported_at = now
        position, epochs = self.position, self.epochs
        share = (position.epoch + lines / self.lines) / epochs
        seconds = self._seconds()
        hinges = max(position.pairs * self.settings.negatives, 1)
        validated = position.validation_losses[-1] if position.validation_losses else None
        self.run.progress(
            Progress(
                epoch=position.epoch + (1 if end else 0),
                epochs=epochs,
                done=share,
                pairs=position.pairs,
                pairs_per_second=(position.pairs - self.pairs_before) / max(now - self.epoch_started, 1e-9),
                loss=position.loss / max(position.pairs, 1),
                active=position.active / hinges if self.model.has_hinge_loss else None,
                seconds=seconds,
                seconds_left=seconds * (1 - share) / max(share, 1e-9),
                validation_loss=validation if validation is not None else validated,
            )
        )


def _own_shards(shards: Iterable[Baskets], rank: int, size: int) -> Iterator[tuple[int, Baskets]]:
    """The shards of one process with their numbers; no others are read where the shards can be indexed."""
    if isinstance(shards, Sequence):
        yield from ((number, shards[number]) for number in range(rank, len(shards), size))
    else:
        yield from ((number, shard) for number, shard in enumerate(shards) if number % size == rank)


def _hash(baskets: BasketStream) -> str:
    """A hash of the shards' contents and boundaries: a position in a fit counts shards."""
    return hashlib.sha256("|".join(shard.hash for shard in as_shards(baskets)).encode()).hexdigest()
