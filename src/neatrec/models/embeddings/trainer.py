"""The training loop of all embedding models: epochs over shards over chunks, with everything a long run needs."""

from __future__ import annotations

import hashlib
import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from neatrec.data.baskets import Baskets, BasketStream, as_shards
from neatrec.data.catalog import UNKNOWN, Catalog
from neatrec.data.randomness import kernel_seed
from neatrec.errors import DivergedError
from neatrec.models.embeddings.checkpoints import Checkpoint, CheckpointPosition, load_checkpoint, save_checkpoint
from neatrec.models.embeddings.devices import training_device
from neatrec.models.embeddings.kernels.arguments import KernelSettings, Tally
from neatrec.models.embeddings.kernels.compiling import said_when_compiling
from neatrec.models.embeddings.kernels.dispatch import Kernel, chosen_device, kernel
from neatrec.models.embeddings.kernels.layout import SQUARES, Table, tail, vector
from neatrec.models.embeddings.sampling import ValidationPairs, VisitOrder, new_draws
from neatrec.models.embeddings.synchronize import Synchronizer
from neatrec.models.run import Progress, Run

BLOCK = 64
"""Baskets in a block of the reproducible mode."""
SECONDS_BETWEEN = 0.4
"""Seconds between two calls of `Run.progress`, but at the end of an epoch."""
LOWEST = 1e-4
"""The learning rate falls to this share of itself."""
FAR_AWAY = 1e6
"""A vector with a larger number has run away."""
STILL = 1e36
"""A row whose sum of squares begins here does not move."""
MOST_AT_BOUND = 0.5
"""Share of items whose log-variance may lie at the upper bound."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingTask:
    """What a model asks of the loop."""

    name: str
    kernel: str
    parameters: Mapping[str, Any]
    settings: KernelSettings
    new_tables: Callable[[np.random.Generator, int, int], dict[str, Table]]
    """(generator, items, users) -> tables by name; those of users have `user` in their name."""
    catalog: Catalog
    item_count: npt.NDArray[np.int64]
    category_level: str | None
    exponent: float
    reject_observed: bool
    learning_rate: float
    epochs: int
    needs_users: bool
    has_hinges: bool
    min_user_baskets: int = 1
    """Users with fewer baskets keep a vector of zeros."""
    refuse_bought: bool = False
    log_variance: Callable[[Mapping[str, Table]], npt.NDArray[np.float32]] | None = None
    """Where the log-variances lie in the tables, for models that have them: rows first."""
    vectors: int = 1
    """Vectors in a row of the tables."""
    epochs_before: int = 0
    """Epochs that a fit from nothing would have done by now: the learning rate is what it would be then."""
    begin: Callable[[dict[str, Table], npt.NDArray[np.int32], pa.LargeStringArray | None], None] | None = None
    """(tables, row of each item, users) -> None: lays into the tables what a warm start begins from."""
    begins_from: str | None = None
    """A hash of that."""


@dataclass(frozen=True)
class TrainedTables:
    """What came out: tables with their rows in the order of the catalogue (and of `user_ids`), losses by epoch."""

    tables: dict[str, Table]
    user_ids: pa.LargeStringArray | None
    losses: tuple[float, ...]
    validation_losses: tuple[float, ...]


def train(task: TrainingTask, shards: Iterable[Baskets], run: Run) -> TrainedTables:
    """Train the task's tables on a stream of shards; memory holds the tables and one shard at a time."""
    with said_when_compiling(lambda: log.info("compiling %s kernels (first run only)", task.kernel)):
        return _Fit(task, shards, run).run_all()


class _Fit:
    def __init__(self, task: TrainingTask, shards: Iterable[Baskets], run: Run) -> None:
        self.task, self.shards, self.run = task, shards, run
        self.synchronizer = run.synchronizer if run.synchronizer is not None and run.synchronizer.active else None
        device = chosen_device(task.kernel, run.device, task.settings, run.reproducible)
        if self.synchronizer is not None:
            device = self.synchronizer.common_device(device)
        self.kernel: Kernel = kernel(task.kernel, device)
        self.seed = int(run.rng) if not isinstance(run.rng, np.random.Generator) else kernel_seed(run.rng)
        self.visits = VisitOrder(shards, task.item_count, task.catalog.category_of(_level(task)), task.needs_users)
        if task.category_level is None:
            self.visits.category[:] = UNKNOWN
        kept_out = run.validation
        self.kept_out = None if kept_out is None else ValidationPairs(self.visits, kept_out, task.catalog)
        self.lines = int(task.item_count.sum())
        self.place = training_device(device, self.visits, self.lines)
        draws = new_draws(
            self.visits, shards, task.exponent, task.reject_observed, task.needs_users and task.refuse_bought
        )
        block = BLOCK if run.reproducible and not task.settings.batch else 0
        self.settings = task.settings._replace(block=block)
        self.position = CheckpointPosition()
        self.tables = self._tables()
        self.learning = self.place.take(self.tables)
        self.working = dict(zip(self.tables, self.learning, strict=True))  # by name, wherever they are
        self.draws = self.place.draws(draws)
        self.started = time.monotonic()
        self.said = 0.0

    # ---- beginning and end

    def _tables(self) -> dict[str, Table]:
        rng = np.random.default_rng([self.seed, 0])
        users = 0 if self.visits.user_ids is None else len(self.visits.user_ids)
        tables = self.task.new_tables(rng, len(self.task.catalog), users)
        if self.task.min_user_baskets > 1:
            self._still_users(tables)
        if self.task.begin is not None:  # a user known from before keeps the vector of then
            self.task.begin(tables, self.visits.row_of_item, self.visits.user_ids)
        if self.run.resume and self.run.checkpoints is not None:
            found = load_checkpoint(self.run.checkpoints, self._about, self.place.device)
            if found is not None:
                self.position = found.position
                for name, table in tables.items():
                    table[:] = found.tables[name]
                log.info("resuming after %d of %d epochs", self.position.epoch, self.task.epochs)
        return tables

    def _still_users(self, tables: Mapping[str, Table]) -> None:
        """Users with too few baskets: zeros, and a sum of squares so large that Adagrad's steps are nothing."""
        few = self.visits.baskets_of_users(self.shards) < self.task.min_user_baskets
        for name, table in tables.items():
            if "user" in name:
                vector(table, self.task.settings.dim)[few] = 0
                tail(table, self.task.settings.dim, SQUARES, self.task.vectors)[few] = STILL

    @cached_property
    def _about(self) -> dict[str, Any]:
        """Which fit this is: what a checkpoint must agree with, one thing after the other."""
        return {
            "model": self.task.name,
            **{f"parameter {name}": value for name, value in self.task.parameters.items()},
            "number of epochs": self.task.epochs,
            "seed": self.seed,
            "reproducible": self.run.reproducible,
            "hash of the catalogue": self.task.catalog.hash,
            "lines": self.lines,
            "hash of the baskets": _hash(self.shards),
            "hash of the validation baskets": None if self.run.validation is None else _hash(self.run.validation),
            "hash of the warm start": self.task.begins_from,
        }

    def run_all(self) -> TrainedTables:
        if self.synchronizer is None:
            self._maybe_stop()
        else:
            self.synchronizer.check_equal(self.tables, "at the start")
        while self.position.epoch < self.task.epochs and not self._is_over():
            self._epoch() if self.synchronizer is None else self._epoch_distributed(self.synchronizer)
        self.place.bring_back(self.tables)
        order = self.visits.row_of_item
        tables = {name: table if "user" in name else table[order] for name, table in self.tables.items()}
        return TrainedTables(tables, self.visits.user_ids, self.position.losses, self.position.validation_losses)

    def _save(self) -> None:
        if self.run.checkpoints is not None and (self.synchronizer is None or self.synchronizer.is_main):
            self.place.bring_back(self.tables)
            position = replace(self.position, seconds=self._seconds())
            task = {**self._about, "device": self.place.device}
            save_checkpoint(self.run.checkpoints, Checkpoint(task, position, self.tables))

    # ---- an epoch

    def _epoch(self) -> None:
        done = 0
        self.epoch_started, self.pairs_before = time.monotonic(), self.position.pairs
        for number, shard in enumerate(self.shards):
            if number >= self.position.shard:
                self._spans(shard, number, done)
            done += shard.lines
        self._end_epoch()

    def _spans(self, shard: Baskets, number: int, lines_before: int) -> None:
        epoch, chunk = self.position.epoch, self.position.chunk
        draws = self.visits.seeded(self.draws, self.seed, epoch, number)
        for span in self.place.spans(shard, number, epoch, self.seed, chunk):
            chunk += 1
            settings = self.settings._replace(
                rate=self._rate(lines_before + span.begin), last_rate=self._rate(lines_before + span.end)
            )
            tally = self.kernel(
                self.learning, span.visit, draws, settings, span.first, span.last, self.run.thread_count
            )
            self.position = replace(
                self.position,
                shard=number,
                chunk=chunk,
                pairs=self.position.pairs + tally.pairs,
                loss=self.position.loss + tally.loss,
                active=self.position.active + tally.active,
            )
            if not math.isfinite(tally.loss):
                raise self._diverged("the loss is not a number any more")
            self._tell(lines_before + span.end)
            self._maybe_stop()
        self.position = replace(self.position, shard=number + 1, chunk=0)

    # ---- an epoch by several processes

    def _epoch_distributed(self, synchronizer: Synchronizer) -> None:
        """Each process trains on its own shards; all synchronize after `sync_every` baskets, until all are done."""
        self.epoch_started, self.pairs_before = time.monotonic(), self.position.pairs
        last = {name: table.copy() for name, table in self.working.items()}
        pieces, done = self._pieces(synchronizer), 0
        sent: list[int] = []
        self.done_by_all = 0
        while True:
            tally, lines = next(pieces, (Tally(0, 0.0, 0), 0))
            stop = self.run.stop is not None and self.run.stop()
            busy, stopped, seen, pairs, loss, active = synchronizer.sum(
                lines > 0, stop, lines, tally.pairs, tally.loss, tally.active
            )
            if stopped:
                raise KeyboardInterrupt  # the last epoch's checkpoint stands
            if not busy:
                break
            done += int(seen)
            self.done_by_all = done
            position = self.position
            self.position = replace(
                position,
                pairs=position.pairs + int(pairs),
                loss=position.loss + loss,
                active=position.active + int(active),
            )
            if not math.isfinite(loss):
                raise self._diverged("the loss is not a number any more")
            sent.append(self._synchronize(synchronizer, last))
            self._tell(done)
        self._log_sent(sent)
        self.place.bring_back(self.tables)
        synchronizer.check_equal(self.tables, f"after epoch {self.position.epoch + 1}")
        self._end_epoch()

    def _pieces(self, synchronizer: Synchronizer) -> Iterator[tuple[Tally, int]]:
        """Train on this process's shards, `sync_every` baskets at a time: (statistics of the step, lines)."""
        group, epoch, every = synchronizer.group, self.position.epoch, synchronizer.interval(self.place.device)
        for number, shard in _own(self.shards, group.rank, group.size):
            draws = self.visits.seeded(self.draws, self.seed, epoch, number)
            for span in self.place.spans(shard, number, epoch, self.seed, 0):
                for first in range(span.first, span.last, every):
                    end = min(first + every, span.last)
                    lines = self.place.lines_of(span, first, end)
                    ahead = min(self.done_by_all + group.size * lines, self.lines)  # the others do as much meanwhile
                    settings = self.settings._replace(rate=self._rate(self.done_by_all), last_rate=self._rate(ahead))
                    yield (
                        self.kernel(self.learning, span.visit, draws, settings, first, end, self.run.thread_count),
                        lines,
                    )

    def _synchronize(self, synchronizer: Synchronizer, last: Mapping[str, Table]) -> int:
        """Returns the bytes sent."""
        dim, vectors = self.settings.dim, self.task.vectors
        sent = sum(synchronizer.synchronize(table, last[name], dim, vectors) for name, table in self.working.items())
        if self.task.log_variance is not None:
            for tables in (self.working, last):
                found = self.task.log_variance(tables)
                found[...] = found.clip(self.settings.low, self.settings.high)
        return sent

    def _log_sent(self, sent: Sequence[int]) -> None:
        """Log how much the synchronizations of an epoch sent."""
        if sent:
            whole = sum(int(table.nbytes) for table in self.working.values())
            mean = sum(sent) / len(sent)
            log.debug(
                "synchronized %d times: %.3f MB sent per time, tables of %.3f MB", len(sent), mean / 1e6, whole / 1e6
            )

    def _rate(self, lines: int) -> float:
        before = self.task.epochs_before
        share = (before + self.position.epoch + lines / self.lines) / (before + self.task.epochs)
        return self.task.learning_rate * max(1.0 - share, LOWEST)

    def _end_epoch(self) -> None:
        self._check()
        position = self.position
        if self.task.has_hinges and position.epoch == 0 and position.pairs and not position.active:
            log.warning(
                "in the first epoch no pair was compared with a negative: nothing was learned%s", _why(self.task)
            )
        losses = (*position.losses, position.loss / max(position.pairs, 1))
        validation = position.validation_losses
        if self.kept_out is not None:
            validation = (*validation, self._common_validation_loss(self.kept_out))
        self._tell(self.lines, validation=validation[-1] if validation else None, end=True)
        self.position = CheckpointPosition(
            position.epoch + 1, losses=losses, validation_losses=validation, seconds=position.seconds
        )
        self._save()

    def _common_validation_loss(self, kept_out: ValidationPairs) -> float:
        """The first process's loss, in all processes."""
        if self.synchronizer is None:
            return self._validation_loss(kept_out)
        return self.synchronizer.sum(self._validation_loss(kept_out) if self.synchronizer.is_main else 0.0)[0]

    def _validation_loss(self, kept_out: ValidationPairs) -> float:
        """Mean loss a pair on the validation baskets, with the same negatives every time."""
        pairs, loss = 0, 0.0
        settings = self.settings._replace(block=BLOCK, batch=0, rate=0.0, last_rate=0.0)
        for number, shard in enumerate(kept_out):
            visit = self.visits.arranged(shard, number, 0, self.seed)
            draws = self.visits.seeded(self.draws, self.seed, -1, number)
            tally = self.kernel(self.learning, visit, draws, settings, 0, len(visit.start), self.run.thread_count)
            pairs, loss = pairs + tally.pairs, loss + tally.loss
        return loss / max(pairs, 1)

    def _is_over(self) -> bool:
        """Whether the validation loss has not fallen for `patience` epochs."""
        found = self.position.validation_losses
        if len(found) <= self.run.patience:
            return False
        over = min(found[-self.run.patience :]) >= min(found[: -self.run.patience])
        if over:
            log.info("the validation loss has not fallen for %d epochs: stopping early", self.run.patience)
        return over

    # ---- looking after it

    def _maybe_stop(self) -> None:
        if self.run.stop is not None and self.run.stop():
            self._save()
            raise KeyboardInterrupt

    def _check(self) -> None:
        for name, table in self.working.items():
            largest = self.place.largest(table, self.settings.dim)
            if not largest < FAR_AWAY:
                raise self._diverged(f"vectors of {name} have run away (largest number {largest:g})")
        if self.task.log_variance is not None:
            self._check_variance(self.place.here(self.task.log_variance(self.working)))

    def _check_variance(self, log_variance: npt.NDArray[np.float32]) -> None:
        bought = log_variance[self.visits.count_of_row > 0]
        share = float((bought >= np.float32(self.settings.high)).mean())
        if share > MOST_AT_BOUND or not np.isfinite(bought).all():
            raise self._diverged(
                f"the log-variances of {share:.0%} of the items have run to their upper bound",
                hint="Lower `variance_learning_rate`.",
            )

    def _diverged(self, what: str, hint: str | None = None) -> DivergedError:
        return DivergedError(
            f"model {self.task.name!r} diverged in epoch {self.position.epoch + 1}: {what}",
            hint=hint or f"Lower `learning_rate` (it is {self.task.learning_rate:g}).",
        )

    def _seconds(self) -> float:
        return self.position.seconds + time.monotonic() - self.started

    def _tell(self, lines: int, validation: float | None = None, end: bool = False) -> None:
        now = time.monotonic()
        if self.run.progress is None or (now - self.said < SECONDS_BETWEEN and not end):
            return
        self.said = now
        position, epochs = self.position, self.task.epochs
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
                active=position.active / hinges if self.task.has_hinges else None,
                seconds=seconds,
                seconds_left=seconds * (1 - share) / max(share, 1e-9),
                validation_loss=validation if validation is not None else validated,
            )
        )


def _own(shards: Iterable[Baskets], rank: int, size: int) -> Iterator[tuple[int, Baskets]]:
    """The shards of one process with their numbers; where they can be asked for by number no other is read."""
    if isinstance(shards, Sequence):
        yield from ((number, shards[number]) for number in range(rank, len(shards), size))
    else:
        yield from ((number, shard) for number, shard in enumerate(shards) if number % size == rank)


def _hash(baskets: BasketStream) -> str:
    """A hash of all that the shards hold, and of how they are cut: a position in a fit counts shards."""
    return hashlib.sha256("|".join(shard.hash for shard in as_shards(baskets)).encode()).hexdigest()


def _why(task: TrainingTask) -> str:
    return (
        "; with `reject_observed`, items bought with every other item have no negatives" if task.reject_observed else ""
    )


def _level(task: TrainingTask) -> str | None:
    return None if task.category_level in (None, "deepest") else task.category_level
