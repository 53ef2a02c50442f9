"""Kinds, shapes and ranges of the arrays of a model in a bundle: one check for all models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Arrays = Mapping[str, npt.NDArray[Any]]
KINDS = {"i": "integers", "f": "numbers"}


class ArraySpec(NamedTuple):
    """The kind, shape and range of an array."""

    kind: str
    """`i` for integers, `f` for numbers; all are finite."""
    shape: tuple[str, ...] = ("items",)
    """Names of lengths: `items` is that of the catalogue, other lengths of one name are equal."""
    low: float = -np.inf
    high: float | str = np.inf
    """The largest value, or the name of a length that codes are below."""
    required: bool = True


def matrix_specs(name: str, values: str = "_count", kind: str = "i") -> dict[str, ArraySpec]:
    """Specs of the arrays of a sparse matrix (items, items); `values`: how their names end."""
    stored = f"{name} values"
    return {
        f"{name}_start": ArraySpec("i", ("items + 1",), 0),
        f"{name}_item": ArraySpec("i", (stored,), 0, "items"),
        f"{name}{values}": ArraySpec(kind, (stored,), 0 if kind == "i" else -np.inf),
    }


def check_arrays(arrays: Arrays, specs: Mapping[str, ArraySpec], items: int) -> None:
    """Refuse arrays unlike their declaration, by a `ValueError`: compiled loops follow them.

    >>> spec = ArraySpec("f", ("items", "dim"))
    >>> check_arrays({"vectors": np.zeros((3, 2))}, {"vectors": spec}, 4)
    Traceback (most recent call last):
    ValueError: `vectors` must have the shape (items, dim), got (3, 2)
    """
    lengths = {"items": items, "items + 1": items + 1}
    for name, spec in specs.items():
        if name in arrays or spec.required:
            _check(name, arrays[name], spec, lengths)


def _check(name: str, array: npt.NDArray[Any], spec: ArraySpec, lengths: dict[str, int]) -> None:
    if array.dtype.kind not in ("iu" if spec.kind == "i" else "f"):
        raise ValueError(f"`{name}` must hold {KINDS[spec.kind]}, got {array.dtype}")
    named = zip(spec.shape, array.shape, strict=False)
    if len(array.shape) != len(spec.shape) or any(
        lengths.setdefault(length, size) != size for length, size in named
    ):
        shape = ", ".join(spec.shape)
        raise ValueError(f"`{name}` must have the shape ({shape}), got {array.shape}")
    high = lengths[spec.high] - 1 if isinstance(spec.high, str) else spec.high
    good = np.isfinite(array) & (array >= spec.low) & (array <= high)
    if not good.all():
        worst = array.ravel()[int(np.argmin(good))]
        raise ValueError(f"`{name}` must be from {spec.low:g} to {high:g}, got {worst}")
