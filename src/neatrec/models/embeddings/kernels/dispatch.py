"""Which kernels run, and where: the only module that asks for the device."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from importlib import import_module

from neatrec.errors import MissingDependencyError, ParameterError
from neatrec.models.embeddings.kernels import gpu
from neatrec.models.embeddings.kernels.arguments import KernelSettings, StepStats
from neatrec.models.embeddings.kernels.cpu.shared import CpuDevice

log = logging.getLogger(__name__)


def training_device(device: str) -> CpuDevice | gpu.GpuDevice:
    """The device named `cpu` or `gpu`."""
    return gpu.GpuDevice() if device == "gpu" else CpuDevice()


def kernel(name: str, device: str = "cpu") -> Callable[..., StepStats]:
    """The kernel `name` in compiled code, in CUDA (`gpu`) or in plain NumPy (`reference`)."""
    if device == "gpu":
        return partial(gpu.train, name)
    module = f"cpu.{name}" if device == "cpu" else "reference"
    train: Callable[..., StepStats] = getattr(import_module(f"{__package__}.{module}"), name)
    return train


def chosen_device(name: str, device: str, settings: KernelSettings, reproducible: bool) -> str:
    """`cpu` or `gpu`: `auto` is the GPU where it can train with these settings, else the CPU.

    A GPU requested by name is an error if it is missing or cannot train.
    """
    if device == "cpu":
        return "cpu"
    try:
        gpu.prepare(name, settings, reproducible=reproducible)
    except (MissingDependencyError, ParameterError) as error:
        if device == "gpu":
            raise
        if gpu.unavailable_reason() is None:
            log.info("training on the CPU: %s", error.message)
        return "cpu"
    log.info("training on the GPU")
    return "gpu"
