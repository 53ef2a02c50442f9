"""`@compiled`: Numba without the GIL, cached under a hash of all sources; shared functions.

Numba's own cache looks only at the file of the function: one that calls a helper in another file
stays stale when the helper changes. Here the name of the cache folder is a hash of every source of
the package (the folder that holds the function's file) and of the one it lies in, of this file and
of the versions: a change in any of them compiles again. A compiled function calls compiled
functions of these files only.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, config, event
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])

PACKAGE = Path(__file__).parent
RELAXED = {"reassoc", "contract", "nsz", "arcp"}
"""Freedoms of the compiler with sums; it may not assume that there are no NaN.

A function that has these flags and is called by a compiled one is `forceinline`. Machine code
brings a copy of every function it calls, each with its sums in an order of its own, and a process
runs the copy that it loaded first: the last bits would depend on whether code was compiled or came
from the cache, and on what ran before.
"""
log = logging.getLogger(__name__)


def cache_folder() -> Path:
    """Where compiled code is kept: `NEATREC_CACHE`, else the user's cache folder."""
    if chosen := os.environ.get("NEATREC_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "neatrec"


@cache
def _package_key(package: Path) -> str:
    """A hash of all sources that a compiled function of `package` may call, and of the versions."""
    above = package.parent if PACKAGE in package.parent.parents else package
    files = sorted({*package.glob("*.py"), *above.glob("*.py")})
    digest = hashlib.sha256(f"{sys.version_info}|{numba.__version__}|{platform.machine()}".encode())
    for file in [*files, Path(__file__)]:
        digest.update(
            file.relative_to(PACKAGE).as_posix().encode() + b"\0" + file.read_bytes() + b"\0"
        )
    return digest.hexdigest()[:20]


@cache
def _usable_folder(package: Path) -> Path | None:
    folder = cache_folder() / "compiled" / f"{package.name}-{_package_key(package)}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError as error:
        log.info("compiled code is not kept: %s", error)
    return None


def compiled(function: Function | None = None, **options: Any) -> Any:
    """Compile `function` at its first call; keep the machine code for the next start.

    Options go to `numba.njit`. Defaults: no GIL, NumPy error model, no bounds checks.
    """
    if function is None:
        return lambda f: compiled(f, **options)
    folder = _usable_folder(Path(function.__code__.co_filename).parent)
    chosen = {
        "nogil": True,
        "error_model": "numpy",
        "boundscheck": False,
        "cache": folder is not None,
        **options,
    }
    before = config.CACHE_DIR
    try:
        # Numba reads it only while it prepares the function's cache; the caller's value comes back
        config.CACHE_DIR = str(folder or "")
        dispatcher = numba.njit(**chosen)(function)
    finally:
        config.CACHE_DIR = before
    if folder is not None:
        _warn_if_not_saved(dispatcher)
    return dispatcher


def _warn_if_not_saved(dispatcher: Any) -> None:
    """A full disk costs the next start some seconds, not this run its result."""
    save = dispatcher._cache.save_overload

    def save_if_possible(signature: Any, data: Any) -> None:
        try:
            save(signature, data)
        except OSError as error:
            _warn_once(str(error.strerror or error))

    dispatcher._cache.save_overload = save_if_possible


@cache
def _warn_once(why: str) -> None:
    log.warning(
        "compiled code is not kept in %s: %s; NEATREC_CACHE names another folder",
        cache_folder(),
        why,
    )


class _Once(event.Listener):  # type: ignore[misc]
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def on_start(self, event: event.Event) -> None:
        if self.callback is not None:
            callback, self.callback = self.callback, None
            callback()

    def on_end(self, event: event.Event) -> None:
        pass


@contextmanager
def on_first_compile(callback: Callable[[], None]) -> Iterator[None]:
    """Within the block `callback` is called once, when something is compiled that no cache had."""
    with event.install_listener("numba:compile", _Once(callback)):
        yield


@compiled(inline="always")
def splitmix64(x):
    """The last step of SplitMix64: 64 well-mixed bits; `splitmix64.py_func` takes arrays."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@compiled
def fill_alias(share):
    """Vose's method: each slot keeps its own item with probability share[i], else another item.

    share: weights of mean 1, replaced by the probabilities; the other items are returned, both of
    shape (items,).
    """
    small, large = np.flatnonzero(share < 1.0), np.flatnonzero(share >= 1.0)
    below, other = np.empty(len(share), np.int64), np.arange(len(share))
    few, many = len(small), len(large)
    below[:few] = small
    while few and many:
        few -= 1
        item, big = below[few], large[many - 1]
        other[item] = big
        share[big] -= 1.0 - share[item]
        if share[big] < 1.0:
            many -= 1
            below[few] = big
            few += 1
    share[below[:few]] = 1.0
    share[large[:many]] = 1.0
    return other


@intrinsic
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Hint to load element `index` of a contiguous array, its dimensions run together."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        to_read, to_keep, of_data = (ir.Constant(ir.IntType(32), number) for number in (0, 3, 1))
        kind = ir.FunctionType(ir.VoidType(), [address.type, *[ir.IntType(32)] * 3])
        call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(call, [address, to_read, to_keep, of_data])
        return context.get_dummy_value()

    return types.void(array, types.int64), emit


@compiled
def find_pairs(start, item, rows, items):
    """The position of each pair (rows[n], items[n]) in `item`, -1 where it is absent.

    The items of row r are item[start[r]:start[r + 1]], ascending.
    """
    out = np.full(len(rows), -1, np.int64)
    for n in range(len(rows)):
        low, high = start[rows[n]], start[rows[n] + 1]
        end = high
        while low < high:
            middle = (low + high) // 2
            if item[middle] < items[n]:
                low = middle + 1
            else:
                high = middle
        if low < end and item[low] == items[n]:
            out[n] = low
    return out


@compiled
def mark_largest(start, values, size, selected):
    """selected[k] = whether values[k] is among the `size` largest of its row; ones at first."""
    for r in range(len(start) - 1):
        row = values[start[r] : start[r + 1]]
        if len(row) <= size:
            continue
        least = np.partition(row, len(row) - size)[len(row) - size]
        equal = size  # places that are left for values equal to the least
        for k in range(len(row)):
            equal -= row[k] > least
        for k in range(len(row)):
            if row[k] == least:
                selected[start[r] + k] = equal > 0
                equal -= 1
            else:
                selected[start[r] + k] = row[k] > least
