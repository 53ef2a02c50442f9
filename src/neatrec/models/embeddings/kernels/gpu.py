"""CuPy and the GPU it finds, or an error that names what is missing; compiled CUDA sources."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Any

from neatrec.errors import MissingDependencyError, NeatrecError

INSTALL = "Install neatrec[gpu], or use device cpu."
DRIVER = (
    "Install or update the NVIDIA driver (580 or later for CUDA 13, 525 or later for CUDA 12), "
    "or use device cpu."
)


def cupy() -> Any:
    """CuPy, with a GPU that answers; otherwise an error that names what is missing."""
    try:
        module = import_module("cupy")
    except ImportError as error:
        raise MissingDependencyError(
            f"device 'gpu' needs CuPy, which cannot be imported ({error})", hint=INSTALL
        ) from error
    try:
        count = module.cuda.runtime.getDeviceCount()  # the first call that needs the driver
    except (RuntimeError, ImportError, OSError) as error:
        raise MissingDependencyError(
            f"device 'gpu' needs a GPU and its driver ({error})", hint=DRIVER
        ) from error
    if not count:
        raise MissingDependencyError(
            "device 'gpu' needs a GPU, and there is none", hint="Use device cpu."
        )
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
    cp = cupy()
    code = "\n".join(source_of(name) for name in sources)
    try:
        module = cp.RawModule(code=code, options=("-std=c++17", *options))
        module.compile()
    except cp.cuda.compiler.CompileException as error:
        names = ", ".join(sources)
        raise NeatrecError(f"the GPU kernels {names} do not compile: {error}") from error
    except (ImportError, OSError, RuntimeError) as error:
        raise MissingDependencyError(
            f"device 'gpu' needs CUDA's compiler (NVRTC), which does not answer ({error})",
            hint=INSTALL,
        ) from error
    return module
