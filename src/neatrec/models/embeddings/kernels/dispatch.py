"""Which kernels run: the only place that asks for the device."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Protocol

from numba.core import event

from neatrec.errors import MissingDependencyError, ParameterError, must_be, must_be_one_of
from neatrec.models.embeddings.kernels import gpu, gpu_call, gpu_launch, gpu_ranking
from neatrec.models.embeddings.kernels.arguments import KernelInput, KernelSettings, StepStats
from neatrec.text import printable

log = logging.getLogger(__name__)


class Kernel(Protocol):
    """Trains the tables on units `first` to `last` of a shard, in place."""

    def __call__(self, data: KernelInput, first: int, last: int, threads: int) -> StepStats: ...


CPU = {
    "neat": "neatrec.models.embeddings.kernels.cpu_neat",
    "neat_bpr": "neatrec.models.embeddings.kernels.cpu_neat_bpr",
    "item2vec": "neatrec.models.embeddings.kernels.cpu_item2vec",
    "triple2vec": "neatrec.models.embeddings.kernels.cpu_triple2vec",
}
"""Kernel -> the module of its compiled version."""
OTHERS = {
    "gpu": "neatrec.models.embeddings.kernels.gpu_call",
    "reference": "neatrec.models.embeddings.kernels.reference",
}
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


def chosen_device(name: str, device: str, settings: KernelSettings, reproducible: bool, *, quiet: bool = False) -> str:
    """`cpu` or `gpu` for what was asked: `auto` is the GPU where it can do all of it, and the log says which.

    Asked for by name, a GPU that is not there or cannot do it is an error.
    """

    def require_gpu() -> None:
        """Raise what keeps this from being trained on a GPU: none there, a setting it cannot honour, no compiler."""
        gpu.cupy()
        refused = gpu_launch.refusal(settings, reproducible)
        if refused is not None:
            raise refused
        gpu_call.prepare(name, settings)

    found, refused = able(device, require_gpu)
    if refused is not None and not quiet:
        log.info("training on the CPU: %s", refused)
    elif found == "gpu" and device == "auto" and not quiet:
        log.info("training on the GPU")
    return found


def able(device: str, require_gpu: Callable[[], None]) -> tuple[str, str | None]:
    """(`cpu` or `gpu`, what keeps `auto` from a GPU that is there): what `require_gpu` raises, an error where it is
    asked for by name."""
    if device == "cpu":
        return "cpu", None
    try:
        require_gpu()
    except (MissingDependencyError, ParameterError) as error:
        if device == "gpu":
            raise
        return "cpu", None if gpu.unavailable_reason() else error.message
    return "gpu", None


def ranking_device(model: str, device: str, *, product: bool, top: int) -> str:
    """`cpu` or `gpu` for ranks and lists of the best `top`: `auto` is the GPU where one can rank for this model.

    A GPU ranks where the score of a pair is a `product` of two vectors. Asked for by name, one that is not there or
    cannot do it is an error.
    """
    if device not in ("auto", "cpu", "gpu"):
        raise must_be_one_of("device", ("auto", "cpu", "gpu"), device)

    def require_gpu() -> None:
        if not product:
            raise must_be("device", f"cpu for model {printable(model)!r}, whose score is no product of vectors", "gpu")
        if not 1 <= top <= gpu_ranking.MAX_TOP:
            raise must_be("k", f"from 1 to {gpu_ranking.MAX_TOP} on device gpu", top, hint="Use device cpu.")
        gpu.cupy()
        gpu_ranking.prepare()

    found, refused = able(device, require_gpu)
    if refused is not None:
        log.debug("%s is ranked on the CPU: %s", printable(model), refused)
    elif found == "gpu" and device == "auto":
        log.debug("%s is ranked on the GPU", printable(model))
    return found


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
