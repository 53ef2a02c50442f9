"""Which kernels run: the only place that asks for the device."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol

from neatrec.errors import MissingDependencyError, must_be_one_of
from neatrec.kernels.arguments import Draws, Settings, Shard, Tally
from neatrec.kernels.layout import Table


class Kernel(Protocol):
    """Trains the tables on units `first` to `last` of a shard, in place."""

    def __call__(
        self,
        tables: tuple[Table, ...],
        shard: Shard,
        draws: Draws,
        settings: Settings,
        first: int,
        last: int,
        threads: int,
    ) -> Tally: ...


CPU = {
    "neat": "neatrec.kernels.cpu_neat",
    "neat_diagonal": "neatrec.kernels.cpu_neat_diagonal",
    "neat_bpr": "neatrec.kernels.cpu_neat_bpr",
    "item2vec": "neatrec.kernels.cpu_item2vec",
    "triple2vec": "neatrec.kernels.cpu_triple2vec",
}
"""Kernel -> the module of its compiled version."""


def kernel(name: str, device: str = "auto") -> Kernel:
    """The kernel `name` for a device: `auto` and `cpu` are the compiled ones, `reference` is plain NumPy."""
    if name not in CPU:
        raise must_be_one_of("kernel", CPU, name)
    if device == "reference":
        found: Kernel = getattr(import_module("neatrec.kernels.reference"), name)
        return found
    if device not in ("auto", "cpu"):
        raise MissingDependencyError(f"there are no kernels for the device {device!r}", hint="Use --device cpu.")
    found = getattr(import_module(CPU[name]), name)
    return found
