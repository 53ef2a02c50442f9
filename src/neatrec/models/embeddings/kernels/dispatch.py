"""Which kernels run, and where: the only module that asks for the device."""

from __future__ import annotations

import logging
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from neatrec.errors import MissingDependencyError, ParameterError
from neatrec.models.embeddings.kernels import gpu, gpu_call
from neatrec.models.embeddings.kernels.arguments import (
    Kernel,
    KernelInput,
    KernelSettings,
    TrainingVisit,
)
from neatrec.models.embeddings.kernels.draws import shuffle_lines

log = logging.getLogger(__name__)


class CpuDevice:
    """The arrays of a fit, which stay where they are; `GpuDevice` has the same methods."""

    units_per_call = 2**14  # between two reports of progress

    def put(self, data: KernelInput) -> KernelInput:
        """The arrays of a fit as the kernel reads them."""
        return data

    def shuffled(
        self, visit: TrainingVisit, ordered: bool, rng: np.random.Generator
    ) -> TrainingVisit:
        """A visit of the units in a random order, of the lines of unordered baskets too."""
        order, items = rng.permutation(len(visit.start)), visit.items
        if not ordered:
            items = items.copy()
            shuffle_lines(items, visit.offsets, np.uint64(rng.integers(2**63)))
        basket, start, stop = visit.basket[order], visit.start[order], visit.stop[order]
        return visit._replace(items=items, basket=basket, start=start, stop=stop)

    def get(self, tables: tuple[Any, ...], out: tuple[Any, ...]) -> None:
        """Copy trained tables into `out`: here they are the same."""


def training_device(device: str) -> CpuDevice | gpu_call.GpuDevice:
    """The device named `cpu` or `gpu`."""
    return gpu_call.GpuDevice() if device == "gpu" else CpuDevice()


def kernel(name: str, device: str = "cpu") -> Kernel:
    """The kernel `name`: compiled for `cpu`, CUDA for `gpu`, plain NumPy for `reference`."""
    if device == "gpu":
        return partial(gpu_call.train, name)
    module = f"cpu.{name}" if device == "cpu" else "reference"
    found: Kernel = getattr(import_module(f"{__package__}.{module}"), name)
    return found


def chosen_device(
    name: str, device: str, settings: KernelSettings, reproducible: bool, *, quiet: bool = False
) -> str:
    """`cpu` or `gpu`: `auto` is the GPU where it can train with these settings, else the CPU.

    A GPU asked for by name that is missing or cannot train is an error.
    """
    if device == "cpu":
        return "cpu"
    try:
        gpu_call.prepare(name, settings, reproducible=reproducible)
    except (MissingDependencyError, ParameterError) as error:
        if device == "gpu":
            raise
        if not quiet and gpu.unavailable_reason() is None:
            log.info("training on the CPU: %s", error.message)
        return "cpu"
    if device == "auto" and not quiet:
        log.info("training on the GPU")
    return "gpu"
