"""The kernels on a GPU: same names and arguments as on the CPU, `reference` says what is computed.

Units are worked on at the same time by thousands of warps that do not wait for each other: what a warp reads may lack
changes that others are about to make. Tables, shards and draws may lie in the memory of the GPU already (`gpu_feed`);
those that do not are copied there, and tables back.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np

from neatrec.models.embeddings.kernels.arguments import Draws, KernelInput, KernelSettings, Shard, StepStats
from neatrec.models.embeddings.kernels.gpu import compiled_module, cupy, memory_for, require_memory
from neatrec.models.embeddings.kernels.gpu_launch import (
    SOURCES,
    GpuProperties,
    launch_config,
    launches,
    max_warps,
    refusal,
)
from neatrec.models.embeddings.kernels.layout import LOG_VARIANCE, Table, width

POINTERS = (
    *("table_0", "table_1", "table_2", "items", "offsets", "number", "users", "category", "basket", "start", "stop"),
    *("alias", "observed", "bought", "next", "pairs", "loss"),
)
WHOLE = ("seed", "first", "last", "alias_size", "observed_size", "bought_size", "user_rows")
REAL = ("rate", "last_rate", "variance_rate", "margin", "low", "high")
FLAGS = ("logistic", "learns")
CALL = np.dtype(
    [(name, np.uint64) for name in POINTERS]
    + [(name, np.uint64 if name == "seed" else np.int64) for name in WHOLE]
    + [(name, np.float32) for name in REAL]
    + [(name, np.int32) for name in FLAGS]
)
"""The argument of a kernel: struct Call of cuda/common.cu."""


class GpuTables(tuple[Any, ...]):
    """Tables in the memory of the GPU; `done` counts the units they have been trained on in this fit."""

    done: int = 0


def to_gpu(tables: tuple[Table, ...]) -> GpuTables:
    """Tables copied to the GPU."""
    cp = cupy()
    needed = sum(table.nbytes for table in tables)
    require_memory(needed, "the model")
    with memory_for(needed, "the model"):
        return GpuTables(cp.asarray(np.ascontiguousarray(table)) for table in tables)


def from_gpu(source: GpuTables, tables: tuple[Table, ...]) -> None:
    """Tables copied back."""
    for there, here in zip(source, tables, strict=True):
        here[:] = there.get()


def largest(table: Any, dim: int) -> float:
    """The largest absolute number in the vectors of a table on the GPU, NaN where one is NaN; needs no memory there."""
    cp = cupy()
    bits = cp.zeros(1, dtype=np.uint32)
    function = compiled_module(("visits",), ()).get_function("largest")
    function(
        (8 * gpu_properties().multiprocessors,),
        (256,),
        (table, np.int64(len(table)), np.int32(table.shape[1]), np.int32(dim), bits),
    )
    return float(bits.get().view(np.float32)[0])


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


def run(name: str, data: KernelInput, first: int, last: int, threads: int = 1) -> StepStats:
    """Train on units `first` to `last`; the GPU has threads of its own."""
    settings, tables = data.settings, data.tables
    refused = refusal(settings, bool(settings.block) and settings.learns)
    if refused is not None:
        raise refused
    if first == last:
        return StepStats(0, 0.0, 0)
    resident = tables if isinstance(tables, GpuTables) else to_gpu(tables)
    stats = _launch(name, data._replace(tables=resident), first, last)
    if resident is not tables:
        from_gpu(resident, tables)
    return stats


def draws_to_gpu(draws: Draws) -> Draws:
    """The draws with their tables copied to the GPU."""
    cp = cupy()
    with memory_for(sum(array.nbytes for array in draws[1:]), "what negatives are drawn from"):
        return Draws(draws.seed, *(cp.asarray(array) for array in draws[1:]))


def _launch(name: str, data: KernelInput, first: int, last: int) -> StepStats:
    tables: Any = data.tables
    shard, draws, settings = data.shard, data.draws, data.settings
    config = launch_config(name, settings, gpu_properties())
    cp = cupy()
    function = _function(name, config.options(name, settings), config.shared_memory)
    needed = sum(array.nbytes for array in shard)
    with memory_for(needed, "this shard"):
        arrays = _arrays(cp, tables, shard, draws)
    parts = list(launches(first, last, tables.done, max_warps(gpu_properties(), config, len(tables[0]))))
    counters = cp.zeros(len(parts) + 3, dtype=np.uint64)  # next unit of each launch; pairs, active hinges, loss
    call = _call(arrays, tables, settings, counters, len(parts), draws)
    for number, (start, end, warps) in enumerate(parts):
        call["next"] = counters.data.ptr + 8 * number
        call["first"], call["last"] = start, end
        call["rate"] = settings.rate_at(start, first, last)
        call["last_rate"] = settings.rate_at(end, first, last)
        blocks = min(-(-warps // config.warps), -(-(end - start) // config.warps))
        threads = 32 * min(warps, config.warps)
        function((blocks,), (threads,), (call[()],), shared_mem=config.shared_memory)
    if settings.learns:
        tables.done += last - first
        if settings.low < settings.high:
            column = tables[0][:, width(settings.dim) + LOG_VARIANCE]
            with memory_for(needed, "this shard"):  # several warps may each have moved a log-variance up to its bound
                column[:] = cp.clip(column, settings.low, settings.high)
    seen = counters[len(parts) :].get()
    return StepStats(int(seen[0]), float(seen[2:3].view(np.float64)[0]), int(seen[1]))


def _arrays(cp: Any, tables: GpuTables, shard: Shard, draws: Draws) -> dict[str, Any]:
    """Everything a call points to, on the GPU."""
    named = {f"table_{n}": table for n, table in enumerate(tables)}
    here = {**shard._asdict(), "alias": draws.alias, "observed": draws.observed, "bought": draws.bought}
    return {**named, **{name: cp.asarray(array) for name, array in here.items()}}


def _call(
    arrays: dict[str, Any], tables: GpuTables, settings: KernelSettings, counters: Any, parts: int, draws: Draws
) -> np.ndarray[Any, np.dtype[np.void]]:
    call = np.zeros((), dtype=CALL)
    for name, array in arrays.items():
        call[name] = array.data.ptr if array.size else 0
    call["pairs"] = counters.data.ptr + 8 * parts
    call["loss"] = counters.data.ptr + 8 * (parts + 2)
    call["seed"] = draws.seed
    for name in ("alias", "observed", "bought"):
        call[f"{name}_size"] = arrays[name].size
    call["user_rows"] = len(tables[-1])
    for name in ("variance_rate", "margin", "low", "high", "logistic"):
        call[name] = getattr(settings, name)
    call["learns"] = settings.learns
    return call


neat, neat_bpr, item2vec, triple2vec = (partial(run, name) for name in ("neat", "neat_bpr", "item2vec", "triple2vec"))
