"""Which kernels run: the only place that asks for the device."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import Protocol

from neatrec.errors import MissingDependencyError, ParameterError, must_be_one_of
from neatrec.kernels import gpu, gpu_call, gpu_shape
from neatrec.kernels.arguments import Draws, Settings, Shard, Tally
from neatrec.kernels.layout import Table

log = logging.getLogger(__name__)


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
OTHERS = {"gpu": "neatrec.kernels.gpu_call", "reference": "neatrec.kernels.reference"}
"""Device -> the module of all its kernels."""


def kernel(name: str, device: str = "cpu") -> Kernel:
    """The kernel `name` for a device: `cpu` is compiled, `gpu` is CUDA, `reference` plain NumPy."""
    if name not in CPU:
        raise must_be_one_of("kernel", CPU, name)
    if device not in ("cpu", *OTHERS):
        raise must_be_one_of("device", ("cpu", *OTHERS), device)
    if device == "gpu":
        gpu.cupy()
    found: Kernel = getattr(import_module(CPU[name] if device == "cpu" else OTHERS[device]), name)
    return found


def chosen_device(name: str, device: str, settings: Settings, reproducible: bool) -> str:
    """`cpu` or `gpu` for what was asked: `auto` is the GPU where it can do all of it, and the log says which.

    Asked for by name, a GPU that is not there or cannot do it is an error.
    """
    if device == "cpu":
        return "cpu"
    try:
        _require_gpu(name, settings, reproducible)
    except (MissingDependencyError, ParameterError) as error:
        if device == "gpu":
            raise
        log.info("training on the CPU: %s", error.message)
        return "cpu"
    if device == "auto":
        log.info("training on the GPU")
    return "gpu"


def _require_gpu(name: str, settings: Settings, reproducible: bool) -> None:
    """Raise what keeps this from being trained on a GPU: none there, a setting it cannot honour, no compiler."""
    gpu.cupy()
    refused = gpu_shape.refusal(name, settings, reproducible)
    if refused is not None:
        raise refused
    gpu_call.prepare(name, settings)
