"""Training on a GPU by CuPy: arrays in its memory, the order of a visit, launches of kernels.

Thousands of warps work on units at the same time and do not wait for each other: what a warp reads
may lack changes that others are about to make. `reference` defines the computation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from neatrec.errors import MissingDependencyError, ResourceError, must_be
from neatrec.models.embeddings.kernels.arguments import (
    LOG_VARIANCE,
    Draws,
    KernelInput,
    KernelSettings,
    StepStats,
    TrainingVisit,
    width,
)
from neatrec.text import show_size

HINT = (
    "Install neatrec[gpu] and the NVIDIA driver (580 or later for CUDA 13, 525 or later for "
    "CUDA 12), or use device cpu."
)
SOURCES = {
    "neat": ("common", "neat"),
    "neat_bpr": ("common", "neat"),
    "item2vec": ("common", "partners", "item2vec"),
    "triple2vec": ("common", "partners", "triple2vec"),
}
REGISTERS = {"neat": 80, "neat_bpr": 96, "item2vec": 112, "triple2vec": 96}
"""Per thread up to dim 128: fewer than a thread could use, because more warps are worth more."""
REGISTERS_OF_MULTIPROCESSOR = 65536
RESERVED = 1024  # bytes of shared memory that the system takes from each block
LIMITS = {"window": 16, "negatives": 32}  # a warp has a lane for each partner and each negative
UNITS_PER_FETCH = 4  # that a warp takes from the queue at a time
MIN_WARPS, UNITS_PER_WARP, ITEMS_PER_WARP = 8, 16, 16
"""Warps at the start of a fit; units done, and items of a shop, for one more: see `launches`."""
TABLES = ("table_0", "table_1", "table_2")
POINTERS = (*TABLES, *TrainingVisit._fields, *Draws._fields[1:], "next", "pairs", "loss")
SIZES = ("alias_size", "observed_size", "bought_size", "user_rows")
INTEGERS = (*POINTERS, "seed", "first", "last", *SIZES, "logistic")
REALS = ("rate", "last_rate", "variance_rate", "margin", "low", "high")
CALL = np.dtype([(n, np.uint64) for n in INTEGERS] + [(n, np.float32) for n in REALS])
"""The argument of a kernel: struct Call of cuda/common.cu."""


def cupy() -> Any:
    """CuPy, with a GPU that answers; otherwise an error that names the missing part."""
    try:
        module = import_module("cupy")
        module.cuda.runtime.getDeviceCount()  # the first call that needs the driver and a GPU
    except (ImportError, OSError, RuntimeError) as error:
        message = f"device 'gpu' needs CuPy, a GPU and its driver ({error})"
        raise MissingDependencyError(message, hint=HINT) from error
    return module


def unavailable_reason() -> str | None:
    """Why no GPU can be used; None where one can."""
    try:
        cupy()
    except MissingDependencyError as error:
        return error.message
    return None


def source_of(name: str) -> str:
    """Text of a CUDA source of the package."""
    return files(__package__).joinpath("cuda", f"{name}.cu").read_text("utf-8")


@cache
def compiled_module(sources: tuple[str, ...], options: tuple[str, ...]) -> Any:
    """CUDA sources, joined and compiled for the GPU at hand; CuPy keeps the result on disk."""
    code = "\n".join(source_of(name) for name in sources)
    try:
        module = cupy().RawModule(code=code, options=("-std=c++17", *options))
        module.compile()
    except (ImportError, OSError, RuntimeError) as error:
        message = f"device 'gpu' needs CUDA's compiler (NVRTC), which does not answer ({error})"
        raise MissingDependencyError(message, hint=HINT) from error
    return module


class LaunchConfig(NamedTuple):
    """Constants of one compiled kernel."""

    warps: int  # per block
    blocks: int  # per multiprocessor
    workspace: int  # bytes of shared memory per warp

    def options(self, name: str, settings: KernelSettings) -> tuple[str, ...]:
        """Options of the compiler."""
        return (
            f"-DDIM={settings.dim}",
            f"-DWINDOW={settings.window}",
            f"-DNEGATIVES={settings.negatives}",
            f"-DGROUPS={settings.groups}",
            f"-DRANKING={int(name == 'neat_bpr')}",
            f"-DWARPS={self.warps}",
            f"-DBLOCKS={self.blocks}",
            f"-DUNITS_PER_FETCH={UNITS_PER_FETCH}",
            f"-DWORKSPACE_BYTES={self.workspace}",
        )


def workspace_bytes(name: str, settings: KernelSettings) -> int:
    """Shared memory per warp: the lines within the window on both sides of a query."""
    stride, window = -(-settings.dim // 4) + 1, settings.window
    slots, updates = 2 * window + 1, window + 1
    if name in ("neat", "neat_bpr"):
        floats = 3 * slots * window + updates * window + 5 * slots + updates + 64
        size = 16 * ((slots + updates) * stride + slots) + 4 * floats
    else:
        size = 32 * slots * stride + 4 * (4 * slots + 96)
    return -(-size // 16) * 16


def launch_config(name: str, settings: KernelSettings, gpu: Mapping[str, int]) -> LaunchConfig:
    """Warps and blocks that fill a multiprocessor; `gpu` are the attributes of a CUDA device."""
    workspace, block_memory = workspace_bytes(name, settings), gpu["MaxSharedMemoryPerBlockOptin"]
    if workspace > block_memory:
        wanted = f"smaller at dim {settings.dim} on device gpu"
        sizes = f"({workspace:,} of {block_memory:,} bytes per warp)"
        raise must_be("window", f"{wanted} {sizes}", settings.window, hint="Use device cpu.")
    registers = min(255, REGISTERS[name] + (-(-settings.dim // 128) - 1) * 32)
    best = LaunchConfig(1, 1, workspace)
    for warps in (2, 4, 8):
        blocks = min(
            gpu["MaxSharedMemoryPerMultiprocessor"] // (warps * workspace + RESERVED),
            REGISTERS_OF_MULTIPROCESSOR // (registers * 32) // warps,
        )
        if warps * workspace <= block_memory and warps * blocks >= best.warps * best.blocks:
            best = LaunchConfig(warps, blocks, workspace)
    return best


def max_warps(gpu: Mapping[str, int], config: LaunchConfig, items: int) -> int:
    """Warps that may work at once; with more of them than items a fit learns less, or diverges."""
    room = gpu["MultiProcessorCount"] * config.blocks * config.warps
    return min(room, max(1, items // ITEMS_PER_WARP))


def launches(first: int, last: int, done: int, limit: int) -> Iterator[tuple[int, int, int]]:
    """(first, last, warps) of each launch for units `first` to `last`, after `done` units of a fit.

    Warps that change one row at the same time do not see each other's sums of squares. While these
    are small, their steps together would be far too long: a fit begins with few warps.

    >>> list(launches(0, 1000, 0, 32))
    [(0, 256, 8), (256, 512, 16), (512, 1000, 32)]
    """
    while first < last:
        warps = min(limit, max(MIN_WARPS, done // UNITS_PER_WARP))
        size = last - first if warps == limit else max(done, MIN_WARPS * UNITS_PER_WARP * 2)
        end = min(last, first + size)
        yield first, end, warps
        done += end - first
        first = end


class GpuDevice:
    """The arrays of a fit in the memory of the GPU."""

    units_per_call = 2**62  # a launch takes about a tenth of a second

    def put(self, data: KernelInput) -> KernelInput:
        """Copy the arrays of a fit to the GPU, or say how much memory they need."""
        cp, arrays = cupy(), (*data.tables, *data.visit, *data.draws[1:])
        # shuffling takes a key and a place per unit, and each unit and line a second time
        shuffling = 36 * len(data.visit.start) + data.visit.items.nbytes
        needed = sum(array.nbytes for array in arrays) + shuffling
        free = cp.cuda.runtime.memGetInfo()[0] + cp.get_default_memory_pool().free_bytes()
        if needed > free:
            raise ResourceError(
                f"training needs {show_size(needed)} of GPU memory, {show_size(free)} are free",
                hint="Use a smaller `dim`, or device cpu.",
            )
        return data._replace(
            tables=tuple(cp.asarray(table) for table in data.tables),
            visit=TrainingVisit(*(cp.asarray(part) for part in data.visit)),
            draws=Draws(data.draws.seed, *(cp.asarray(part) for part in data.draws[1:])),
        )

    def shuffled(self, visit: TrainingVisit, ordered: bool, rng: Generator) -> TrainingVisit:
        """A visit of the units in a random order, of the lines of unordered baskets too."""
        cp, module = cupy(), compiled_module(("visits",), ())
        seed, units = np.uint64(rng.integers(2**63)), len(visit.start)
        keys, items = cp.empty(units, dtype=np.uint64), visit.items
        _for_each(module.get_function("sort_keys"), units, (keys, np.int64(units), seed))
        order = cp.argsort(keys)
        if not ordered:
            items, baskets = items.copy(), len(visit.offsets) - 1
            arguments = (items, visit.offsets, np.int64(baskets), seed)
            _for_each(module.get_function("shuffle_lines"), baskets, arguments)
        basket, start, stop = (part[order] for part in (visit.basket, visit.start, visit.stop))
        return visit._replace(items=items, basket=basket, start=start, stop=stop)

    def get(self, tables: tuple[Any, ...], out: tuple[Any, ...]) -> None:
        """Copy trained tables into `out`."""
        for there, here in zip(tables, out, strict=True):
            here[:] = there.get()


def _for_each(function: Any, count: int, arguments: tuple[Any, ...]) -> None:
    """Run a CUDA function with one thread per element."""
    if count:
        function((-(-count // 256),), (256,), arguments)


@cache
def gpu_attributes() -> dict[str, int]:
    """Attributes of the GPU at hand."""
    return dict(cupy().cuda.Device().attributes)


def _configured(name: str, settings: KernelSettings) -> tuple[Any, LaunchConfig]:
    """The compiled kernel and how to launch it."""
    config = launch_config(name, settings, gpu_attributes())
    module = compiled_module(SOURCES[name], config.options(name, settings))
    function = module.get_function("train")
    function.max_dynamic_shared_size_bytes = config.warps * config.workspace
    return function, config


def prepare(name: str, settings: KernelSettings, *, reproducible: bool = False) -> None:
    """Compile a kernel for the present GPU; refuse settings that it does not support."""
    cupy()
    hint = "Use device cpu."
    if reproducible:
        wanted = "false on device gpu, where sums come in any order"
        raise must_be("reproducible", wanted, True, hint=hint)
    if not settings.adagrad:
        raise must_be("optimizer", "adagrad on device gpu", "sgd", hint=hint)
    for argument, limit in LIMITS.items():
        if (value := getattr(settings, argument)) > limit:
            raise must_be(argument, f"at most {limit} on device gpu", value, hint=hint)
    compiled_module(("visits",), ())
    _configured(name, settings)


def train(name: str, data: KernelInput, first: int, last: int, _threads: int = 1) -> StepStats:
    """Train on units `first` to `last`; `_threads` are those of the CPU."""
    settings, tables = data.settings, data.tables
    function, config = _configured(name, settings)
    limit = max_warps(gpu_attributes(), config, len(tables[0]))
    parts = list(launches(first, last, data.done, limit))
    # the next unit of each launch; pairs, active hinges, loss
    counters = cupy().zeros(len(parts) + 3, dtype=np.uint64)
    call = _call(data, counters, len(parts))
    for number, (start, end, warps) in enumerate(parts):
        call["next"] = counters.data.ptr + 8 * number
        call["first"], call["last"] = start, end
        call["rate"] = settings.rate_at(start, first, last)
        call["last_rate"] = settings.rate_at(end, first, last)
        blocks = min(-(-warps // config.warps), -(-(end - start) // config.warps))
        threads = 32 * min(warps, config.warps)
        function((blocks,), (threads,), (call[()],), shared_mem=config.warps * config.workspace)
    if settings.low < settings.high:
        # several warps may each have moved a log-variance up to its bound
        column = tables[0][:, width(settings.dim) + LOG_VARIANCE]
        cupy().clip(column, settings.low, settings.high, out=column)
    pairs, active, loss = counters[len(parts) :].get()
    return StepStats(int(pairs), float(loss.view(np.float64)), int(active))


def _call(data: KernelInput, counters: Any, parts: int) -> np.ndarray[Any, np.dtype[np.void]]:
    """The argument of the launches, except what differs between them."""
    call = np.zeros((), dtype=CALL)
    settings, draws = data.settings, dict(zip(Draws._fields[1:], data.draws[1:], strict=True))
    tables = dict(zip(TABLES, data.tables, strict=False))
    call["seed"] = data.draws.seed
    for name, array in {**tables, **data.visit._asdict(), **draws}.items():
        call[name] = array.data.ptr if array.size else 0
    for name, array in draws.items():
        call[f"{name}_size"] = array.size
    call["pairs"] = counters.data.ptr + 8 * parts
    call["loss"] = counters.data.ptr + 8 * (parts + 2)
    call["user_rows"] = len(data.tables[-1])
    for name in ("variance_rate", "margin", "low", "high", "logistic"):
        call[name] = getattr(settings, name)
    return call
