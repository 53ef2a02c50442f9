"""Whether a GPU can be used, and what is missing where it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Any

from neatrec.errors import MissingDependencyError, NeatrecError, ResourceError

INSTALL = "Install neatrec[gpu], or use device cpu."
DRIVER = "Install or update the NVIDIA driver (580 or later for CUDA 13, 525 or later for CUDA 12), or use device cpu."


def cupy() -> Any:
    """CuPy, with a GPU that answers; otherwise an error that says what is missing and what to install."""
    try:
        found = import_module("cupy")
    except ImportError as error:
        raise MissingDependencyError(
            f"device 'gpu' needs CuPy, which cannot be imported ({error})", hint=INSTALL
        ) from error
    try:
        count = found.cuda.runtime.getDeviceCount()
    except (
        RuntimeError,
        ImportError,
        OSError,
    ) as error:  # CuPy imports without a driver: the error comes on use
        raise MissingDependencyError(
            f"device 'gpu' needs a GPU and its driver ({error})", hint=DRIVER
        ) from error
    if not count:
        raise MissingDependencyError(
            "device 'gpu' needs a GPU, and there is none", hint="Use device cpu."
        )
    return found


def unavailable_reason() -> str | None:
    """Why no GPU can be used; None where one can."""
    try:
        cupy()
    except MissingDependencyError as error:
        return error.message
    return None


def source_of(name: str) -> str:
    """A CUDA source of the package."""
    return (
        files("neatrec.models.embeddings.kernels").joinpath("cuda", f"{name}.cu").read_text("utf-8")
    )


@cache
def compiled_module(sources: tuple[str, ...], options: tuple[str, ...]) -> Any:
    """The CUDA sources of the package, put together and compiled for the GPU at hand; CuPy keeps the result on disk."""
    code = "\n".join(source_of(name) for name in sources)
    cp = cupy()
    try:
        module = cp.RawModule(code=code, options=("-std=c++17", *options))
        module.compile()
    except (ImportError, OSError, RuntimeError) as error:
        if isinstance(error, cp.cuda.compiler.CompileException):
            raise NeatrecError(
                f"the GPU kernels {', '.join(sources)} do not compile: {error}"
            ) from error
        raise MissingDependencyError(
            f"device 'gpu' needs CUDA's compiler (NVRTC), which does not answer ({error})",
            hint=INSTALL,
        ) from error
    return module


def sized(count: float) -> str:
    """
    >>> sized(3_400_000_000)
    '3.4 GB'
    """
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"


@contextmanager
def memory_for(needed: int, what: str) -> Iterator[None]:
    """Refuse what cannot fit on the GPU, before the block or in it, with its size in bytes."""
    cp = cupy()
    free = cp.cuda.runtime.memGetInfo()[0] + cp.get_default_memory_pool().free_bytes()
    try:
        if needed > free:
            raise cp.cuda.memory.OutOfMemoryError(needed, free, free)
        yield
    except cp.cuda.memory.OutOfMemoryError as error:
        raise ResourceError(
            f"{what} needs {sized(needed)} of GPU memory, {sized(free)} are free",
            hint="Use a smaller `dim`, or device cpu.",
        ) from error
