"""How a kernel is launched: constants of the compiled code, warps to a block, how many units are worked on at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from neatrec.errors import must_be
from neatrec.models.embeddings.kernels.arguments import KernelSettings, groups_of

SOURCES = {
    "neat": ("common", "neat"),
    "neat_bpr": ("common", "neat"),
    "item2vec": ("common", "partners", "item2vec"),
    "triple2vec": ("common", "partners", "triple2vec"),
}
MAX_WINDOW = 16
"""A lane of the warp for each partner of a query."""
MAX_NEGATIVES = 32
"""A lane of the warp for each negative."""
RESERVED = 1024
"""Shared memory the system takes from each block."""
REGISTERS = 65536
"""Of one multiprocessor."""
UNITS_PER_FETCH = 4
"""Units that a warp takes from the queue at a time."""
MIN_WARPS = 8
UNITS_PER_WARP = 16
"""At the start one more warp works for each so many units done."""


ITEMS_PER_WARP = 16
"""No more warps at once than one for so many items."""


class GpuProperties(NamedTuple):
    """What a launch must know of the GPU."""

    multiprocessors: int
    shared_memory: int
    """Bytes of one multiprocessor."""
    shared_memory_of_block: int


class LaunchConfig(NamedTuple):
    """Constants of one compiled kernel."""

    warps: int
    """To a block."""
    blocks: int
    """To a multiprocessor."""
    workspace: int
    """Bytes of shared memory per warp."""

    @property
    def shared_memory(self) -> int:
        return self.warps * self.workspace

    def options(self, name: str, settings: KernelSettings) -> tuple[str, ...]:
        """The compiler's command line."""
        numbers = {
            "DIM": settings.dim,
            "WINDOW": settings.window,
            "NEGATIVES": settings.negatives,
            "GROUPS": groups_of(settings),
            "RANKING": int(name == "neat_bpr"),
            "WARPS": self.warps,
            "BLOCKS": self.blocks,
            "UNITS_PER_FETCH": UNITS_PER_FETCH,
            "WORKSPACE_BYTES": self.workspace,
        }
        return tuple(f"-D{key}={value}" for key, value in numbers.items())


def workspace_bytes(name: str, settings: KernelSettings) -> int:
    """Shared memory of one warp: the lines within a window on both sides of a query, and numbers about them."""
    stride, window = -(-settings.dim // 4) + 1, settings.window
    slots, ways = 2 * window + 1, window + 1
    if name in ("neat", "neat_bpr"):
        floats = 3 * slots * window + ways * window + 5 * slots + ways + 64
        size = 16 * ((slots + ways) * stride + slots) + 4 * floats
    else:
        size = 32 * slots * stride + 4 * (4 * slots + 96)
    return -(-size // 16) * 16


def registers(name: str, settings: KernelSettings) -> int:
    """How many registers a thread is given: fewer than it wants, where more warps at once are worth more."""
    least = {"neat": 80, "item2vec": 112, "neat_bpr": 96, "triple2vec": 96}[name]
    return min(255, least + (-(-settings.dim // 128) - 1) * 32)


def launch_config(name: str, settings: KernelSettings, gpu: GpuProperties) -> LaunchConfig:
    """Warps and blocks that fill a multiprocessor as far as its shared memory and registers go."""
    workspace = workspace_bytes(name, settings)
    if workspace > gpu.shared_memory_of_block:
        raise must_be(
            "window",
            f"smaller at dim {settings.dim} on device gpu "
            f"({workspace:,} of {gpu.shared_memory_of_block:,} bytes per warp)",
            settings.window,
            hint="Use device cpu.",
        )
    by_registers = REGISTERS // (registers(name, settings) * 32)

    def blocks(warps: int) -> int:
        if warps * workspace > gpu.shared_memory_of_block:
            return 0
        return min(gpu.shared_memory // (warps * workspace + RESERVED), by_registers // warps)

    warps = max((8, 4, 2), key=lambda n: (n * blocks(n), n))
    return (
        LaunchConfig(warps, blocks(warps), workspace)
        if blocks(warps)
        else LaunchConfig(1, 1, workspace)
    )


def max_warps(gpu: GpuProperties, shape: LaunchConfig, items: int) -> int:
    """How many warps may work at once: as many as the GPU holds, fewer where a shop has few items.

    Warps that change the same rows at the same time do not see each other's steps. With more of them than items a fit
    learns less, or runs away.

    >>> [max_warps(GpuProperties(132, 233_472, 232_448), LaunchConfig(6, 3, 12_000), items) for items in (22, 49_688)]
    [1, 2376]
    """
    return min(gpu.multiprocessors * shape.blocks * shape.warps, max(1, items // ITEMS_PER_WARP))


def refuse(settings: KernelSettings, reproducible: bool) -> None:
    """Refuse what was asked for and cannot be had on a GPU."""
    cases = (
        ("reproducible", reproducible, "false on device gpu, where sums come in any order", True),
        ("optimizer", not settings.adagrad, "adagrad on device gpu", "sgd"),
        (
            "window",
            settings.window > MAX_WINDOW,
            f"at most {MAX_WINDOW} on device gpu",
            settings.window,
        ),
        (
            "negatives",
            settings.negatives > MAX_NEGATIVES,
            f"at most {MAX_NEGATIVES} on device gpu",
            settings.negatives,
        ),
    )
    for argument, refused, wanted, found in cases:
        if refused:
            raise must_be(argument, wanted, found, hint="Use device cpu.")


def launches(first: int, last: int, done: int, max_warps: int) -> Iterator[tuple[int, int, int]]:
    """(first, last, warps) of the launches for units `first` to `last`, after `done` units of the same fit.

    Warps that change one row at the same time do not see each other's sums of squares; where these are still small,
    their steps together would be far too long. So a fit begins with few warps and has more as it goes.

    >>> list(launches(0, 1000, 0, 32))
    [(0, 256, 8), (256, 512, 16), (512, 1000, 32)]
    """
    while first < last:
        warps = min(max_warps, max(MIN_WARPS, done // UNITS_PER_WARP))
        size = last - first if warps == max_warps else max(done, MIN_WARPS * UNITS_PER_WARP * 2)
        end = min(last, first + size)
        yield first, end, warps
        done += end - first
        first = end
