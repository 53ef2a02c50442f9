"""Checkpoints: one file, written atomically, from which a fit resumes to the same bits."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.errors import BundleError, ResourceError
from neatrec.text import printable

FORMAT_VERSION = 1
FILE = "state.safetensors"


@dataclass(frozen=True)
class CheckpointPosition:
    """The progress of a fit at a checkpoint."""

    epoch: int = 0
    shard: int = 0
    chunk: int = 0
    losses: tuple[float, ...] = ()
    """Mean loss per pair of each finished epoch."""
    validation_losses: tuple[float, ...] = ()
    pairs: int = 0
    """Of the current epoch, as are `loss` and `active`."""
    loss: float = 0.0
    active: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Checkpoint:
    """The tables and the progress of a fit. `task` identifies the fit: only that one may resume."""

    task: Mapping[str, Any]
    position: CheckpointPosition
    tables: Mapping[str, npt.NDArray[np.float32]] = field(repr=False)


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write the checkpoint beside the last one, then replace it."""
    from safetensors.numpy import save_file

    about = {"format": FORMAT_VERSION, "task": dict(checkpoint.task), "position": asdict(checkpoint.position)}
    fresh = folder / f"{FILE}.new"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        save_file(dict(checkpoint.tables), fresh, metadata={"neatrec": json.dumps(about)})
        with fresh.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(fresh, folder / FILE)
    except OSError as error:
        with suppress(OSError):  # it may not exist
            fresh.unlink()
        raise ResourceError(
            f"cannot write a checkpoint into {printable(folder)}: {printable(error)}",
            hint="Free some disk space, or train without checkpoints.",
        ) from error


def load_checkpoint(folder: Path, task: Mapping[str, Any], device: str) -> Checkpoint | None:
    """The checkpoint in `folder`, or None where there is none. A damaged one, or one of another fit, is refused.

    A fit may change its device between epochs, not within one: devices cut epochs into different chunks.
    """
    from safetensors import SafetensorError, safe_open

    path = folder / FILE
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="numpy") as file:
            about = json.loads((file.metadata() or {})["neatrec"])
            tables = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        version, found, position = about["format"], about["task"], about["position"]
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise BundleError(f"cannot read the checkpoint {printable(path)}: {printable(error)}") from error
    if version != FORMAT_VERSION:
        raise BundleError(f"{printable(path)} has checkpoint format {version!r}, this version reads {FORMAT_VERSION}")
    within_epoch = bool(position["shard"] or position["chunk"])
    for key, value in {**task, **({"device": device} if within_epoch else {})}.items():
        if found.get(key) != value:
            raise BundleError(
                f"the checkpoint {printable(path)} is of another fit: {key} was {printable(found.get(key))}, "
                f"now it is {printable(value)}",
                hint="Train without --resume, or with what it was trained with.",
            )
    position["losses"] = tuple(position["losses"])
    position["validation_losses"] = tuple(position["validation_losses"])
    return Checkpoint(found, CheckpointPosition(**position), tables)
