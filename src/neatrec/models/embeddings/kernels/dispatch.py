"""Which kernels run, and where: the only place that asks for the device."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import Any

import numpy as np

from neatrec.errors import MissingDependencyError, ParameterError, must_be_one_of
from neatrec.models.embeddings.kernels import gpu, gpu_call, gpu_launch
from neatrec.models.embeddings.kernels.arguments import (
    Kernel,
    KernelInput,
    KernelSettings,
    TrainingVisit,
)
from neatrec.models.embeddings.kernels.draws import shuffle_lines

FOLDER = "neatrec.models.embeddings.kernels"
KERNELS = ("neat", "neat_bpr", "item2vec", "triple2vec")
DEVICES = ("cpu", "gpu", "reference")
log = logging.getLogger(__name__)


class CpuDevice:
    """Where the arrays of a fit lie: they stay where they are. `GpuDevice` has the same methods."""

    units_per_call = 2**14
    """Units between two reports of progress."""

    def put(self, data: KernelInput) -> KernelInput:
        """The arrays of a fit, where the kernel reads them."""
        return data

    def shuffled(
        self, visit: TrainingVisit, ordered: bool, rng: np.random.Generator
    ) -> TrainingVisit:
        """Units in a random order, and lines within baskets where their order means nothing."""
        order, items = rng.permutation(len(visit.start)), visit.items
        if not ordered:
            items = items.copy()
            shuffle_lines(items, visit.offsets, np.uint64(rng.integers(2**63)))
        return visit._replace(
            items=items,
            basket=visit.basket[order],
            start=visit.start[order],
            stop=visit.stop[order],
        )

    def get(self, tables: tuple[Any, ...], out: tuple[Any, ...]) -> None:
        """Copy trained tables into `out`: here they are the same."""


def training_device(device: str) -> CpuDevice | gpu_call.GpuDevice:
    """The device called `cpu` or `gpu`."""
    return gpu_call.GpuDevice() if device == "gpu" else CpuDevice()


def kernel(name: str, device: str = "cpu") -> Kernel:
    """The kernel `name` for a device: `cpu` is compiled, `gpu` is CUDA, `reference` plain NumPy."""
    if name not in KERNELS:
        raise must_be_one_of("kernel", KERNELS, name)
    if device not in DEVICES:
        raise must_be_one_of("device", DEVICES, device)
    if device == "gpu":
        gpu.cupy()
    module = {"cpu": f"cpu.{name}", "gpu": "gpu_call", "reference": "reference"}[device]
    found: Kernel = getattr(import_module(f"{FOLDER}.{module}"), name)
    return found


def chosen_device(
    name: str, device: str, settings: KernelSettings, reproducible: bool, *, quiet: bool = False
) -> str:
    """`cpu` or `gpu` for what was asked: `auto` is the GPU where it can do all of it, and the log says which.

    Asked for by name, a GPU that is not there or cannot do it is an error.
    """
    if device == "cpu":
        return "cpu"
    try:
        gpu.cupy()
        gpu_launch.refuse(settings, reproducible)
        gpu_call.prepare(name, settings)
    except (MissingDependencyError, ParameterError) as error:
        if device == "gpu":
            raise
        if not quiet and gpu.unavailable_reason() is None:
            log.info("training on the CPU: %s", error.message)
        return "cpu"
    if device == "auto" and not quiet:
        log.info("training on the GPU")
    return "gpu"
