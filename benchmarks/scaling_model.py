"""What a stage costs at sizes that were not measured: power laws and straight lines fitted to sizes that were.

Pure arithmetic; `benchmarks.scaling` measures and prints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from neatrec.models.embeddings.synchronize import MAX_CHANGED_SHARE

ALLOWED = 0.3
"""How far a prediction may be from what was measured, as a share of it."""


@dataclass(frozen=True)
class Point:
    """One measured run of a stage."""

    work: float
    """What the stage goes through: lines, records, pairs, or scores."""
    items: float
    lines: float
    seconds: float
    """CPU seconds."""
    bytes: float
    """The most memory its process held."""


@dataclass(frozen=True)
class PowerLaw:
    """seconds = scale * work ** exponent * items ** item_exponent, within what was measured.

    Beyond it a stage is never assumed to become cheaper by the piece: the exponents are then at least 1 and 0.
    """

    scale: float
    exponent: float
    item_exponent: float
    most_work: float
    most_items: float

    def seconds(self, work: float, items: float) -> float:
        """CPU seconds of so much work over so many items."""
        inside = self.scale * min(work, self.most_work) ** self.exponent
        inside *= min(items, self.most_items) ** self.item_exponent
        more_work, more_items = max(work / self.most_work, 1.0), max(items / self.most_items, 1.0)
        return float(inside * more_work ** max(self.exponent, 1.0) * more_items ** max(self.item_exponent, 0.0))


@dataclass(frozen=True)
class Line:
    """bytes = fixed + by_line * lines + by_item * items, none of them negative."""

    fixed: float
    by_line: float
    by_item: float

    def bytes(self, lines: float, items: float) -> float:
        return self.fixed + self.by_line * lines + self.by_item * items


def fit_seconds(points: Sequence[Point]) -> PowerLaw:
    """The least squares of the logarithms; with one number of items, or items that are the work, by work alone."""
    work, items = (np.log([getattr(point, name) for point in points]) for name in ("work", "items"))
    terms = [np.ones(len(points)), work]
    apart = np.ptp(items) > 0 and np.linalg.matrix_rank(np.column_stack([*terms, items])) == 3
    if apart:
        terms.append(items)
    found, *_ = np.linalg.lstsq(np.column_stack(terms), np.log([point.seconds for point in points]), rcond=None)
    most = {name: max(getattr(point, name) for point in points) for name in ("work", "items")}
    by_item = float(found[2]) if apart else 0.0
    return PowerLaw(float(np.exp(found[0])), float(found[1]), by_item, most["work"], most["items"])


def fit_bytes(points: Sequence[Point]) -> Line:
    """The least squares of relative errors: a small run weighs as much as a large one."""
    from scipy.optimize import nnls

    size = np.array([point.bytes for point in points])
    terms = np.column_stack([np.ones(len(points)), *([getattr(p, n) for p in points] for n in ("lines", "items"))])
    scale = np.where(terms.max(axis=0) > 0, terms.max(axis=0), 1.0)
    found, _ = nnls(terms / scale / size[:, None], np.ones(len(points)))
    return Line(*(float(value) for value in found / scale))


def error(predicted: float, measured: float) -> float:
    """
    >>> error(12.0, 10.0)
    0.2
    """
    return round(predicted / measured - 1.0, 4)


def within(predicted: float, measured: float, allowed: float = ALLOWED) -> bool:
    """Whether a prediction is near enough to what was measured.

    >>> within(12.0, 10.0), within(14.0, 10.0)
    (True, False)
    """
    return abs(error(predicted, measured)) <= allowed


@dataclass(frozen=True)
class Cluster:
    """What work is divided over; all of it assumed, none of it measured."""

    workers: int
    cores: int
    """Of a worker."""
    gpus: int
    efficiency: float
    """Share of the cores' time that goes into the work."""
    network: float
    """Bytes a second in and out of a worker."""
    core_price: float
    gpu_price: float
    """An hour."""


@dataclass(frozen=True)
class Target:
    """What is to be worked through."""

    lines: float
    baskets: float
    items: float
    epochs: int
    dim: int
    sync_every: float
    """Baskets of each process between two synchronizations."""
    negatives: int = 5
    """Of a line, that all its pairs share; each of them is a row that may change."""


def on_cores(seconds: float, cluster: Cluster) -> dict[str, float]:
    """Hours and money of so many core-seconds, divided evenly."""
    busy = seconds / cluster.efficiency
    hours = busy / 3600 / (cluster.workers * cluster.cores)
    return {"core_hours": busy / 3600, "hours": hours, "money": busy / 3600 * cluster.core_price}


def on_gpus(pairs: float, pairs_a_second: float, cluster: Cluster) -> dict[str, float]:
    """Hours and money of training pairs."""
    hours = pairs / pairs_a_second / cluster.efficiency / 3600 / cluster.gpus
    return {"gpu_hours": hours * cluster.gpus, "hours": hours, "money": hours * cluster.gpus * cluster.gpu_price}


def table_bytes(items: float, dim: int) -> float:
    """Of one table of vectors in memory, or of that many of its rows when they are sent.

    >>> table_bytes(50_000, 100) / 1e6
    22.4
    """
    return 4.0 * (dim + 12) * items


def synchronizations(target: Target, processes: int, tables: int, cluster: Cluster, *, gpus: bool) -> dict[str, float]:
    """How often the processes synchronize, and what that moves and takes at most, there and back each time.

    On GPUs whole tables; on CPUs changed rows, and one byte per item that marks them.
    """
    times = 0.0 if processes == 1 else target.epochs * target.baskets / (processes * target.sync_every)
    rows = target.items if gpus else changed_rows(target, processes)
    flags = 0.0 if gpus else target.items
    sent = 2.0 * tables * (table_bytes(rows, target.dim) + flags)
    return {"times": times, "rows": rows, "bytes_each": sent, "hours": times * sent / cluster.network / 3600}


def changed_rows(target: Target, processes: int) -> float:
    """Rows of one table that a synchronization sends, at most.

    The lines and negatives of all baskets since the last time, as if each were another item; where those are more than
    `MAX_CHANGED_SHARE` of all items the whole table is sent.
    """
    baskets = processes * target.sync_every
    rows = baskets * target.lines / target.baskets * (1 + target.negatives)
    return rows if rows <= MAX_CHANGED_SHARE * target.items else target.items


def check(points: Mapping[str, Sequence[Point]], held_out: Mapping[str, Sequence[Point]]) -> list[dict[str, Any]]:
    """For each stage and each run that no fit has seen: predicted and measured seconds and bytes."""
    rows = []
    for stage, runs in held_out.items():
        time, memory = fit_seconds(points[stage]), fit_bytes(points[stage])
        for run in runs:
            seconds, size = time.seconds(run.work, run.items), memory.bytes(run.lines, run.items)
            rows.append(
                {
                    "stage": stage,
                    "lines": run.lines,
                    "items": run.items,
                    "seconds": run.seconds,
                    "predicted_seconds": seconds,
                    "seconds_error": error(seconds, run.seconds),
                    "bytes": run.bytes,
                    "predicted_bytes": size,
                    "bytes_error": error(size, run.bytes),
                    "within": within(seconds, run.seconds) and within(size, run.bytes),
                }
            )
    return rows
