"""The kernels on a GPU: same names and arguments as on the CPU, `reference` says what is computed.

Units are worked on at the same time by thousands of warps that do not wait for each other: what a warp reads may lack
changes that others are about to make. The arrays of a fit lie on the GPU from its start to its end (`GpuDevice.put`).
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np

from neatrec.models.embeddings.kernels.arguments import (
    Draws,
    KernelInput,
    KernelSettings,
    StepStats,
    TrainingVisit,
)
from neatrec.models.embeddings.kernels.gpu import compiled_module, cupy, memory_for
from neatrec.models.embeddings.kernels.gpu_launch import (
    SOURCES,
    GpuProperties,
    launch_config,
    launches,
    max_warps,
)
from neatrec.models.embeddings.kernels.layout import LOG_VARIANCE, width

POINTERS = (
    *("table_0", "table_1", "table_2"),
    *("items", "offsets", "users", "category", "basket", "start", "stop"),
    *("alias", "observed", "bought", "next", "pairs", "loss"),
)
WHOLE = (
    *("seed", "first", "last", "alias_size", "observed_size", "bought_size"),
    *("user_rows", "logistic"),
)
REAL = ("rate", "last_rate", "variance_rate", "margin", "low", "high")
CALL = np.dtype(
    [(name, np.uint64) for name in POINTERS]
    + [(name, np.uint64 if name == "seed" else np.int64) for name in WHOLE]
    + [(name, np.float32) for name in REAL]
)
"""The argument of a kernel: struct Call of cuda/common.cu."""


class GpuDevice:
    """The arrays of a fit, in the memory of the GPU."""

    units_per_call = 2**62  # a launch takes about a tenth of a second

    def put(self, data: KernelInput) -> KernelInput:
        """The arrays of a fit, where the kernel reads them."""
        arrays = (*data.tables, *data.visit, *data.draws[1:])
        # shuffling takes a key and a place for each unit, and each unit and line a second time
        shuffled = 36 * len(data.visit.start) + data.visit.items.nbytes
        with memory_for(sum(array.nbytes for array in arrays) + shuffled, "training"):
            cp = cupy()
            there = [cp.asarray(np.ascontiguousarray(array)) for array in arrays]
        cut, tables = len(data.tables), len(data.tables) + len(data.visit)
        return data._replace(
            tables=tuple(there[:cut]),
            visit=TrainingVisit(*there[cut:tables]),
            draws=Draws(data.draws.seed, *there[tables:]),
        )

    def shuffled(
        self, visit: TrainingVisit, ordered: bool, rng: np.random.Generator
    ) -> TrainingVisit:
        """Units in a random order, and lines within baskets where their order means nothing."""
        cp, module = cupy(), compiled_module(("visits",), ())
        seed, units = np.uint64(rng.integers(2**63)), len(visit.start)
        with memory_for(36 * units + visit.items.nbytes, "a random order of the baskets"):
            keys, items = cp.empty(units, dtype=np.uint64), visit.items
            _for_each(module.get_function("sort_keys"), units, (keys, np.int64(units), seed))
            order = cp.argsort(keys)
            if not ordered:
                items, count = items.copy(), len(visit.offsets) - 1
                arguments = (items, visit.offsets, np.int64(count), seed)
                _for_each(module.get_function("shuffle_lines"), count, arguments)
            basket, start, stop = (part[order] for part in (visit.basket, visit.start, visit.stop))
        return visit._replace(items=items, basket=basket, start=start, stop=stop)

    def get(self, tables: tuple[Any, ...], out: tuple[Any, ...]) -> None:
        """Copy trained tables into `out`."""
        for there, here in zip(tables, out, strict=True):
            here[:] = there.get()


def _for_each(function: Any, count: int, arguments: tuple[Any, ...]) -> None:
    if count:
        function((-(-count // 256),), (256,), arguments)


@cache
def gpu_properties() -> GpuProperties:
    """The GPU at hand."""
    attributes = cupy().cuda.Device().attributes
    return GpuProperties(
        attributes["MultiProcessorCount"],
        attributes["MaxSharedMemoryPerMultiprocessor"],
        attributes["MaxSharedMemoryPerBlockOptin"],
    )


@cache
def _function(name: str, options: tuple[str, ...], shared_memory: int) -> Any:
    function = compiled_module(SOURCES[name], options).get_function("train")
    function.max_dynamic_shared_size_bytes = shared_memory
    return function


def prepare(name: str, settings: KernelSettings) -> None:
    """Compile the kernel for the GPU at hand, or say what is missing there: shared memory, the compiler."""
    config = launch_config(name, settings, gpu_properties())
    compiled_module(("visits",), ())
    _function(name, config.options(name, settings), config.shared_memory)


def train(name: str, data: KernelInput, first: int, last: int, threads: int = 1) -> StepStats:
    """Train on units `first` to `last`; the GPU has threads of its own."""
    cp, tables, settings = cupy(), data.tables, data.settings
    config = launch_config(name, settings, gpu_properties())
    function = _function(name, config.options(name, settings), config.shared_memory)
    most = max_warps(gpu_properties(), config, len(tables[0]))
    parts = list(launches(first, last, data.done, most))
    # the next unit of each launch; pairs, active hinges, loss
    counters = cp.zeros(len(parts) + 3, dtype=np.uint64)
    call = _call(data, counters, len(parts))
    for number, (start, end, warps) in enumerate(parts):
        call["next"] = counters.data.ptr + 8 * number
        call["first"], call["last"] = start, end
        call["rate"] = settings.rate_at(start, first, last)
        call["last_rate"] = settings.rate_at(end, first, last)
        blocks = min(-(-warps // config.warps), -(-(end - start) // config.warps))
        threads_of_block = 32 * min(warps, config.warps)
        function((blocks,), (threads_of_block,), (call[()],), shared_mem=config.shared_memory)
    if settings.low < settings.high:
        # several warps may each have moved a log-variance up to its bound
        column = tables[0][:, width(settings.dim) + LOG_VARIANCE]
        with memory_for(column.nbytes, "the log-variances"):
            cp.clip(column, settings.low, settings.high, out=column)
    seen = counters[len(parts) :].get()
    return StepStats(int(seen[0]), float(seen[2:3].view(np.float64)[0]), int(seen[1]))


def _call(data: KernelInput, counters: Any, parts: int) -> np.ndarray[Any, np.dtype[np.void]]:
    """The argument of the launches, except what differs between them."""
    call = np.zeros((), dtype=CALL)
    draws, settings = data.draws._asdict(), data.settings
    call["seed"] = draws.pop("seed")
    named = {f"table_{n}": table for n, table in enumerate(data.tables)}
    for name, array in {**named, **data.visit._asdict(), **draws}.items():
        call[name] = array.data.ptr if array.size else 0
    for name, array in draws.items():
        call[f"{name}_size"] = array.size
    call["pairs"] = counters.data.ptr + 8 * parts
    call["loss"] = counters.data.ptr + 8 * (parts + 2)
    call["user_rows"] = len(data.tables[-1])
    for name in ("variance_rate", "margin", "low", "high", "logistic"):
        call[name] = getattr(settings, name)
    return call


neat, neat_bpr, item2vec, triple2vec = (
    partial(train, name) for name in ("neat", "neat_bpr", "item2vec", "triple2vec")
)
