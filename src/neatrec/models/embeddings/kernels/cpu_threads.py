"""Threads on one span of units: each with a part of it, or all together in step."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from neatrec.compiled import compiled
from neatrec.models.embeddings.kernels.arguments import KernelSettings, Tally
from neatrec.models.embeddings.kernels.emit import INT64

SPINS = 2000
"""Looks before a waiting thread offers its processor to others."""

offer_processor = types.ExternalFunction("sched_yield", types.int32())


class Crew(NamedTuple):
    """Threads that work on one span together; each has its own `member` number."""

    member: int
    members: int
    gate: npt.NDArray[np.int64]
    """Where they meet: how many have come, and how many meetings there were."""


def alone() -> Crew:
    """A crew of one."""
    return Crew(0, 1, np.zeros(2, dtype=np.int64))


Sums = tuple[float, float, float]
"""Pairs, loss, active hinges."""


def together(threads: int, work: Callable[[Crew], Sums]) -> Tally:
    """Run `work` once in each of `threads` threads that meet at one gate; their sums added up."""
    gate = np.zeros(2, dtype=np.int64)
    crews = [Crew(member, threads, gate) for member in range(threads)]
    return tally_of(_in_threads([lambda crew=crew: work(crew) for crew in crews]))  # type: ignore[misc]


def side_by_side(
    threads: int, settings: KernelSettings, first: int, last: int, work: Callable[[KernelSettings, int, int], Sums]
) -> Tally:
    """Run `work` on equal parts of the span, each with its part of the learning rate's way."""
    ends = [first + (last - first) * n // threads for n in range(threads + 1)]

    def rate(unit: int) -> float:
        return settings.rate + (settings.last_rate - settings.rate) * (unit - first) / (last - first)

    parts = [
        (settings._replace(rate=rate(start), last_rate=rate(stop)), start, stop)
        for start, stop in pairwise(ends)
        if start < stop
    ]
    return tally_of(_in_threads([lambda part=part: work(*part) for part in parts]))  # type: ignore[misc]


def _in_threads(jobs: list[Callable[[], Sums]]) -> list[Sums]:
    if len(jobs) == 1:
        return [jobs[0]()]
    with ThreadPoolExecutor(len(jobs)) as pool:
        return [future.result() for future in [pool.submit(job) for job in jobs]]


def tally_of(sums: list[Sums]) -> Tally:
    """The sums of several threads added up."""
    pairs, loss, active = (sum(column) for column in zip(*sums, strict=True))
    return Tally(int(pairs), float(loss), int(active))


@intrinsic
def _add_one(typing_context: Any, gate: Any, place: Any) -> Any:
    """gate[place] += 1, atomically; returns what it was"""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(gate)(context, builder, arguments[0])
        address = builder.gep(array.data, [context.cast(builder, arguments[1], place, types.int64)])
        return builder.atomic_rmw("add", address, INT64(1), "seq_cst")

    return types.int64(gate, place), code


@intrinsic
def _look(typing_context: Any, gate: Any, place: Any) -> Any:
    """gate[place] as the other threads left it"""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(gate)(context, builder, arguments[0])
        address = builder.gep(array.data, [context.cast(builder, arguments[1], place, types.int64)])
        return builder.atomic_rmw("add", address, ir.Constant(INT64, 0), "seq_cst")

    return types.int64(gate, place), code


@compiled
def meet(gate, members):
    """Return when all members of the crew have called. gate[0] counts arrivals, gate[1] meetings."""
    if members == 1:
        return
    meeting = _look(gate, 1)
    if (_add_one(gate, 0) + 1) % members == 0:
        _add_one(gate, 1)
        return
    spins = 0
    while _look(gate, 1) == meeting:
        spins += 1
        if spins > SPINS:
            offer_processor()
