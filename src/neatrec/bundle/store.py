"""Saves a fitted model as a bundle, and loads it."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import load, save

from neatrec._version import __version__
from neatrec.atomic import sync_file, sync_folder
from neatrec.bundle.folder import BundleFolder, bundle_lock, replaced
from neatrec.bundle.manifest import (
    NAME,
    FileRecord,
    Manifest,
    damaged,
    file_record,
    read_manifest_file,
    verify_files,
)
from neatrec.data.catalog import Catalog, string_array
from neatrec.errors import BundleError, InputError, NeatrecError
from neatrec.models.base import Model
from neatrec.models.parameters import ModelParameters
from neatrec.models.registry import MODEL_CLASSES, model_class
from neatrec.text import printable

ARRAYS, ITEMS, USERS = "arrays.safetensors", "items.parquet", "users.parquet"
MAX_ATTEMPTS = 20
"""Attempts to read a bundle that is being replaced."""

Result = TypeVar("Result")
WriteExtraFiles = Callable[[Path], Mapping[str, Any]]
"""Writes further files into a bundle's folder and returns notes for the manifest."""


def save_bundle(
    model: Model,
    path: str | Path,
    *,
    seed: int | None = None,
    keep_users: bool = False,
    notes: Mapping[str, Any] | None = None,
    write_extra: WriteExtraFiles | None = None,
) -> Manifest:
    """Write the bundle at `path`, replacing an older one in one step, and return its manifest.

    Parameters
    ----------
    model
        A fitted model.
    path
        Folder of the bundle: new, or an older bundle.
    seed
        Seed to record; None: that of the fit.
    keep_users
        Whether ids and vectors of users are kept.
    notes
        Further entries of the manifest.
    write_extra
        Called with the folder to add files, such as a serving table.

    Examples
    --------
    >>> save_bundle(model, "bundle").content_hash  # doctest: +SKIP
    """
    seed = model.seed if seed is None else seed
    with bundle_lock(path) as paths, replaced(paths, "the bundle ") as folder:
        folder.mkdir()
        write_arrays(model, folder, keep_users)
        write_items(model, folder)
        if keep_users and model.user_ids is not None:
            pq.write_table(pa.table({"id": model.user_ids}), folder / USERS, compression="zstd")
        extra_notes = write_extra(folder) if write_extra is not None else {}
        baskets = model.trained_on
        manifest = Manifest(
            model=model.name,
            kind=model.kind,
            parameters=model.parameters.to_dict(),
            learned=dict(model.learned),
            data_hash=baskets if isinstance(baskets, str) else baskets.hash,
            seed=None if seed is None else int(seed),
            items=len(model.catalog),
            lines=int(model.item_count.sum()),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            versions=versions("numpy", "scipy", "numba", "pyarrow", "safetensors", "implicit"),
            keeps_users=keep_users,
            notes={**(notes or {}), **extra_notes},
            files=_records(folder),
        )
        (folder / NAME).write_bytes(manifest.to_bytes())
        for file in folder.rglob("*"):
            if file.is_dir():
                sync_folder(file)
            else:
                sync_file(file)
    return manifest


def load_bundle(path: str | Path, *, verify: bool = True) -> Model:
    """Load the model of a bundle. A damaged file is refused by name.

    Parameters
    ----------
    path
        Folder of the bundle.
    verify
        Whether the hashes of all files are checked.

    Examples
    --------
    >>> load_bundle("bundle").score_all([0])  # doctest: +SKIP
    """
    return read_bundle(path, _model, verify=verify)


def read_manifest(path: str | Path, *, verify: bool = True) -> Manifest:
    """The manifest of the bundle at `path`; with `verify` its files are checked."""
    return read_bundle(path, lambda _, manifest: manifest, verify=verify)


# ---- writing


def _records(folder: Path) -> dict[str, FileRecord]:
    """Sizes and hashes of all files below `folder`, by their path inside it."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix(): file_record(file) for file in files}


def write_arrays(model: Model, folder: Path, keep_users: bool) -> None:
    """The arrays of the model."""
    arrays = {
        name: np.ascontiguousarray(array) for name, array in model.arrays(users=keep_users).items()
    }
    (folder / ARRAYS).write_bytes(save(arrays))


def write_items(model: Model, folder: Path) -> None:
    """The catalog and the number of lines of each item."""
    file = folder / ITEMS
    model.catalog.save(file)
    table = pq.read_table(file).append_column("count", pa.array(model.item_count))
    pq.write_table(table, file, compression="zstd")


def versions(*libraries: str) -> dict[str, str]:
    """Of neatrec, Python, the kind of processor, and the libraries that are installed."""
    found = {
        "neatrec": __version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
    for library in libraries:
        with suppress(PackageNotFoundError):
            found[library] = version(library)
    return found


# ---- reading


def read_bundle(
    path: str | Path, read: Callable[[Path, Manifest], Result], *, verify: bool = True
) -> Result:
    """The result of `read(folder, manifest)`, repeated where the bundle was replaced meanwhile."""
    paths = BundleFolder.of(path)
    for _ in range(MAX_ATTEMPTS):
        before, trouble = _identity(paths), None
        try:
            folder = paths.readable()
            manifest, _ = read_manifest_file(folder)
            if verify:
                verify_files(folder, manifest)
            result = read(folder, manifest)
        except (NeatrecError, OSError) as error:
            trouble = error
        if _identity(paths) != before:
            continue
        if trouble is None:
            return result
        if isinstance(trouble, NeatrecError):
            raise trouble
        raise damaged(paths.live, printable(trouble)) from trouble
    message = f"{printable(paths.live)} is replaced faster than it can be read"
    raise BundleError(message, file=str(paths.live))


def _identity(paths: BundleFolder) -> tuple[Path, int, int] | None:
    """The folder that is read: a replaced one differs, even with equal content."""
    try:
        folder = paths.readable()
        status = folder.stat()
        return folder, status.st_ino, status.st_ctime_ns
    except (BundleError, OSError):
        return None


def _model(folder: Path, manifest: Manifest) -> Model:
    catalog, _ = read_catalog(folder, manifest)
    file = named_file(folder, manifest, ARRAYS)
    model = model_of(manifest, catalog, arrays_of(file.read_bytes(), file), folder)
    if USERS in manifest.files:
        try:
            model.user_ids = string_array(pq.read_table(named_file(folder, manifest, USERS))["id"])
        except (OSError, KeyError, pa.ArrowException) as error:
            raise damaged(folder / USERS, printable(error)) from error
    return model


def named_file(folder: Path, manifest: Manifest, name: str) -> Path:
    """A file that the bundle must hold: one that the manifest does not name is not verified."""
    if name not in manifest.files:
        raise damaged(folder / NAME, f"it does not name {name}")
    return folder / name


def read_catalog(
    folder: Path, manifest: Manifest
) -> tuple[Catalog, np.ndarray[Any, np.dtype[np.int64]]]:
    """The catalogue, and the lines of each item in the training baskets."""
    file = named_file(folder, manifest, ITEMS)
    catalog = Catalog.load(file)
    if len(catalog) != manifest.items or not manifest.items:
        found = f"it has {len(catalog):,} rows, the manifest says {manifest.items:,}"
        raise damaged(file, found)
    try:
        count = pq.read_table(file, columns=["count"])["count"]
    except (OSError, KeyError, pa.ArrowException) as error:
        raise damaged(file, printable(error)) from error
    if count.type != pa.int64() or count.null_count or count.to_numpy().min() < 0:
        raise damaged(file, "column 'count' must hold integers from 0 on")
    return catalog, count.to_numpy()


def model_of(
    manifest: Manifest, catalog: Catalog, arrays: Mapping[str, Any], folder: Path
) -> Model:
    """The model of a manifest, a catalogue and arrays, tried out once: they must fit together."""
    parameters = parameters_of(manifest, folder)
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise damaged(folder / ARRAYS, f"array {printable(name)!r} holds a non-finite number")
    try:
        model = model_class(manifest.model).from_arrays(parameters, catalog, arrays)
        model.score_all([0])
        model.trained_on, model.seed = manifest.data_hash, manifest.seed
    except Exception as error:  # what it is depends on the model and on the array
        raise damaged(folder / ARRAYS, printable(error, 300)) from error
    return model


def parameters_of(manifest: Manifest, folder: Path) -> ModelParameters:
    """The parameters of the model."""
    if manifest.model not in MODEL_CLASSES:
        raise BundleError(
            f"{printable(folder)} holds a model {printable(manifest.model)!r}, which this version "
            "does not have"
        )
    try:
        return model_class(manifest.model).Parameters(**manifest.parameters)
    except (TypeError, ValueError, InputError) as error:
        raise damaged(
            folder / NAME, f"the parameters do not fit the model ({printable(error)})"
        ) from error


def arrays_of(content: bytes, file: Path) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays in the content of a file."""
    try:
        arrays: dict[str, np.ndarray[Any, Any]] = load(content)
    except Exception as error:  # safetensors raises errors of many kinds
        raise damaged(file, printable(error, 300)) from error
    return arrays
