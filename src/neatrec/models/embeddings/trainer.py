"""The fit of all embedding models, on any device: its arrays, and epochs over the baskets."""

from __future__ import annotations

import logging
import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from neatrec.data.baskets import Baskets
from neatrec.data.catalog import UNKNOWN
from neatrec.errors import DivergedError, ResourceError
from neatrec.models.embeddings.kernels.arguments import (
    LOG_VARIANCE,
    LONGEST,
    Draws,
    KernelInput,
    StepStats,
    Table,
    TrainingVisit,
    width,
)
from neatrec.models.embeddings.kernels.dispatch import chosen_device, kernel, training_device
from neatrec.models.embeddings.kernels.draws import (
    add_bought,
    add_pairs,
    alias_table,
    new_filter,
)
from neatrec.models.run import Progress, Run
from neatrec.text import plural

if TYPE_CHECKING:
    from neatrec.models.embeddings.base import EmbeddingModel

PROGRESS_SECONDS = 0.4
"""Seconds between two calls of `Run.progress`; the end of an epoch is always reported."""
MIN_RATE_SHARE = 1e-4
"""The learning rate falls linearly to this share of its start."""
MAX_WEIGHT = 1e6
"""Larger weights count as divergence."""
MAX_BASKET_PAIRS = 200_000_000
"""A basket with more pairs is refused where all its pairs must be stored."""
MAX_SHARE_AT_BOUND = 0.5
"""A larger share of items at the upper bound of the log-variance counts as divergence."""

log = logging.getLogger(__name__)


def train(
    model: EmbeddingModel, baskets: Baskets, run: Run
) -> tuple[dict[str, Table], pa.LargeStringArray | None, list[float]]:
    """Trained tables in the order of the catalogue or of users, their ids, and losses by epoch.

    CPU and GPU differ in the device and its step alone.
    """
    parameters, settings, seed = model.parameters, model._settings(), run.seed
    epochs, start_rate = model._epochs(), model._rate()
    device_name = chosen_device(model.kernel, run.device, settings, run.reproducible)
    device, step = training_device(device_name), kernel(model.kernel, device_name)
    category = model.catalog.category_of(model.category_level)
    if parameters.category_level is None:
        category = np.full_like(category, UNKNOWN)
    data = prepare(baskets, category, with_users=model.needs_users)
    tables = model._initial_tables(np.random.default_rng([seed, 0]), data)
    draws = new_draws(
        data,
        parameters.negative_exponent,
        reject_observed=parameters.reject_observed,
        reject_bought=model.reject_bought,
    )
    fit = device.put(KernelInput(tuple(tables.values()), data.visit, draws, settings))
    units, watch, losses = len(data.visit.start), _Watch(model, run, epochs), []
    for epoch in range(epochs):
        rng = np.random.default_rng([seed, 1, epoch])
        visit = device.shuffled(fit.visit, data.ordered, rng)
        draws = fit.draws._replace(seed=np.uint64(rng.integers(2**63)))
        watch.begin(epoch)
        for first in range(0, units, device.units_per_call):
            last = min(first + device.units_per_call, units)
            rates = [
                start_rate * max(1 - (epoch + unit / units) / epochs, MIN_RATE_SHARE)
                for unit in (first, last)
            ]
            now = settings._replace(rate=rates[0], last_rate=rates[1])
            call = KernelInput(fit.tables, visit, draws, now, done=epoch * units + first)
            watch.note(step(call, first, last, run.thread_count), last / units)
        _check_divergence(model, dict(zip(tables, fit.tables, strict=True)), data, epoch)
        losses.append(watch.end())
    device.get(fit.tables, tuple(tables.values()))
    for name in tables.keys() - {"user_vectors"}:
        tables[name] = tables[name][data.row_of_item]
    return tables, data.user_ids, losses


def _check_divergence(
    model: EmbeddingModel, tables: dict[str, Any], data: TrainingData, epoch: int
) -> None:
    """Refuse tables whose numbers have grown out of bounds; they may lie on a GPU."""
    settings = model._settings()
    for name, table in tables.items():
        vectors = table[:, : settings.dim]
        largest = max(float(vectors.max()), -float(vectors.min())) if len(table) else 0.0
        if not largest < MAX_WEIGHT:
            raise _diverged(model, epoch, f"{name} are too large (largest value {largest:g})")
    if settings.low < settings.high:
        bought = int((data.count_of_row > 0).sum())  # rows are by frequency
        log_variance = tables["vectors"][:bought, width(settings.dim) + LOG_VARIANCE]
        share = float((log_variance >= np.float32(settings.high)).mean())
        if share > MAX_SHARE_AT_BOUND or not math.isfinite(float(log_variance.sum())):
            reason = f"the log-variances of {share:.0%} of the items are at their upper bound"
            raise _diverged(model, epoch, reason, hint="Lower `variance_learning_rate`.")


def _diverged(
    model: EmbeddingModel, epoch: int, reason: str, hint: str | None = None
) -> DivergedError:
    return DivergedError(
        f"model {model.name!r} diverged in epoch {epoch + 1}: {reason}",
        hint=hint or f"Lower `learning_rate` (it is {model.parameters.learning_rate:g}).",
    )


class _Watch:
    """Adds up the steps of an epoch, and reports progress."""

    def __init__(self, model: EmbeddingModel, run: Run, epochs: int) -> None:
        self.model, self.run, self.epochs = model, run, epochs
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
            log.warning(
                "nothing was learned: no pair of the first epoch had an active negative%s",
                "; with `reject_observed`, items bought with every other item have no negatives"
                if self.model.parameters.reject_observed
                else "",
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


# ---- the arrays of a fit


class TrainingData(NamedTuple):
    """Baskets as kernels see them; item rows are by frequency, so that frequent rows are cached."""

    visit: TrainingVisit
    row_of_item: npt.NDArray[np.int32]
    count_of_row: npt.NDArray[np.int64]
    """Lines of each item row, shape (items,)."""
    user_ids: pa.LargeStringArray | None
    """User of each row, for models that learn from users."""
    ordered: bool
    """Whether the order of a basket's lines is known."""

    @property
    def user_count(self) -> int:
        """Users with a row; 0 for models that do not learn from users."""
        return 0 if self.user_ids is None else len(self.user_ids)


def prepare(baskets: Baskets, category: npt.NDArray[np.int32], *, with_users: bool) -> TrainingData:
    """`category` is that of each item; below 0 an item shares it with no other."""
    count = baskets.item_counts
    by_row = np.argsort(-count, kind="stable")
    row_of_item = np.empty(len(by_row), dtype=np.int32)
    row_of_item[by_row] = np.arange(len(by_row), dtype=np.int32)
    users, ids = np.zeros(0, dtype=np.int32), None
    if with_users and baskets.users is not None and baskets.user_ids is not None:
        present, rows = np.unique(baskets.users, return_inverse=True)
        users, ids = rows.astype(np.int32), baskets.user_ids.take(pa.array(present))
    visit = TrainingVisit(
        row_of_item[baskets.items],
        baskets.offsets.astype(np.int64, copy=False),
        users,
        category[by_row].astype(np.int32),
        *units_of(baskets.offsets),
    )
    return TrainingData(visit, row_of_item, count[by_row], ids, baskets.ordered)


def units_of(
    offsets: npt.NDArray[np.int64], longest: int = LONGEST
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(basket, start, stop) of the units of baskets, shape (units,); a basket of one line has none.

    >>> basket, start, stop = units_of(np.array([0, 3, 4, 9]), longest=4)
    >>> basket.tolist(), start.tolist(), stop.tolist()
    ([0, 2, 2], [0, 4, 8], [3, 8, 9])
    """
    sizes = np.diff(offsets)
    pieces = np.where(sizes >= 2, -(-sizes // longest), 0)
    basket = np.repeat(np.arange(len(sizes)), pieces)
    first = np.cumsum(pieces) - pieces
    start = offsets[basket] + (np.arange(len(basket)) - first[basket]) * longest
    stop = np.minimum(start + longest, offsets[basket + 1])
    return basket.astype(np.int32), start, stop


def new_draws(
    data: TrainingData, exponent: float, *, reject_observed: bool, reject_bought: bool
) -> Draws:
    """Negatives by frequency to the power `exponent`, without the rejected items."""
    weights = np.where(data.count_of_row > 0, data.count_of_row.astype(float) ** exponent, 0.0)
    visit = data.visit
    observed = bought = np.zeros(0, dtype=np.uint64)
    if reject_observed:
        observed = new_filter(_directed_pairs(visit))
        add_pairs(observed, visit.items, visit.offsets)
        log.info("rejecting observed pairs as negatives: filter of %.0f MB", observed.nbytes / 1e6)
    if reject_bought:
        bought = new_filter(len(visit.items))
        add_bought(bought, visit.users, visit.items, visit.offsets)
    return Draws(np.uint64(0), alias_table(weights), observed, bought)


def _directed_pairs(visit: TrainingVisit) -> int:
    sizes = np.diff(visit.offsets)
    pairs = sizes * (sizes - 1)
    if pairs.max(initial=0) > 2 * MAX_BASKET_PAIRS:
        raise ResourceError(
            f"a basket of {plural(int(sizes.max()), 'item')} has too many pairs to store",
            hint="Set reject_observed=false, or leave such baskets out.",
        )
    return int(pairs.sum())
