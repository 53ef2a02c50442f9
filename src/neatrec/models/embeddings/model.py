"""The common part of the embedding models: their parameters and their fit."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from neatrec.data.baskets import Baskets
from neatrec.errors import must_be
from neatrec.models.base import require_shapes
from neatrec.models.embeddings.kernels.arguments import KernelSettings
from neatrec.models.embeddings.kernels.dispatch import chosen_device
from neatrec.models.embeddings.kernels.layout import SQUARES, Table, new_table, vector, width
from neatrec.models.embeddings.trainer import train
from neatrec.models.embeddings.warm_start import (
    COLD_EPOCHS_PER_WARM,
    Rows,
    check_warm_start,
    copy_rows,
    matched_items,
    matched_users,
    widen_new_items,
)
from neatrec.models.parameters import ModelParameters, parameter
from neatrec.models.run import Run
from neatrec.models.vectors import CosineModel

log = logging.getLogger(__name__)

Vectors = npt.NDArray[np.float32]
PAPER: Mapping[str, Any] = {
    "dim": 100,
    "epochs": 5,
    "window": 5,
    "negatives": 5,
    "negatives_shared": False,
    "negative_exponent": 0.75,
    "reject_observed": True,
    "optimizer": "sgd",
    "batch_size": 128,
    "batch_reduction": "mean",
    "learning_rate": 0.05,
}
"""What the paper states for all its embedding models; not whether a batch is a sum or a mean.

On Instacart's orders the sum diverges at this learning rate, except for item2vec, which takes the sum; the others take
the mean, with which neat and neat-bpr learn, triple2vec (and item2vec) next to nothing in five epochs.
"""
SQUARES_PREFIX = "squares_"
MIN_EPOCHS, MAX_EPOCHS = 5, 320
"""Bounds of the epochs where the parameter is none."""


@dataclass(frozen=True)
class EmbeddingParameters(ModelParameters):
    dim: int = parameter(100, "Numbers in a vector.", low=1, high=4096)
    epochs: int | None = parameter(None, "Passes over the baskets; none: by the amount of data, from 5 to 320.", low=1)
    window: int = parameter(5, "Largest distance between the two items of a pair in a basket.", low=1, high=64)
    negatives: int = parameter(5, "Negative items per pair.", low=1, high=64)
    negatives_shared: bool = parameter(True, "Whether all pairs of one query position share their negatives.")
    negative_exponent: float = parameter(
        0.75, "Negatives are drawn by item frequency to this power.", low=0.0, high=2.0
    )
    reject_observed: bool = parameter(False, "Whether items ever bought with the query are rejected as negatives.")
    optimizer: str = parameter(
        "adagrad",
        "Row-wise Adagrad, asynchronous, or plain SGD on synchronous mini-batches.",
        choices=("adagrad", "sgd"),
    )
    batch_size: int = parameter(128, "Pairs in a mini-batch (optimizer sgd).", low=1, high=65536)
    batch_reduction: str = parameter(
        "sum", "Whether a mini-batch's gradient is the sum over its pairs or their mean.", choices=("sum", "mean")
    )
    learning_rate: float = parameter(0.2, "Learning rate of the means at the start; it falls linearly.", above=0.0)
    category_level: str | None = parameter(
        "deepest", "Pairs within one category at this level are left out; none: no pairs are."
    )

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"paper": PAPER}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.optimizer == "sgd" and self.negatives_shared:
            raise must_be("negatives_shared", "false with optimizer sgd", True, hint="A batch is counted in pairs.")


class EmbeddingModel(CosineModel):
    """A model whose vectors are trained in epochs over the baskets."""

    kind: ClassVar[str] = "paper"
    devices: ClassVar[tuple[str, ...]] = ("cpu", "gpu")
    trains_in_epochs: ClassVar[bool] = True
    Parameters: ClassVar[type[ModelParameters]] = EmbeddingParameters
    kernel: ClassVar[str]
    """The kernel that trains it."""
    lines_visited: ClassVar[int]
    """Basket lines that a fit visits in total where `epochs` is none (docs/studies/tuning.md)."""
    has_hinge_loss: ClassVar[bool] = False
    reject_bought: ClassVar[bool] = False
    """Whether a user's own items are rejected as negatives in the user's baskets."""
    more_arrays: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({})
    """Attributes beside `vectors` that a bundle keeps, and their shapes."""
    user_vectors: Vectors | None = None
    """Shape (users, dim), for models that learn from users."""
    history: tuple[float, ...] = ()
    """Mean loss per pair of each epoch."""
    squares: Mapping[str, Vectors] = MappingProxyType({})
    """By item table: Adagrad's sums of squares, shape (items, 2); a warm start continues with them."""

    def check_run(self, run: Run, *, validation: bool = False) -> None:
        super().check_run(run, validation=validation)
        if run.device == "gpu":  # settings that a GPU cannot honor
            chosen_device(self.kernel, run.device, self._settings(), run.reproducible)

    def fit_device(self, run: Run) -> str:
        if run.device != "auto":
            return run.device  # without looking for a GPU that is asked for by name
        return chosen_device(self.kernel, "auto", self._settings(), run.reproducible, quiet=True)

    def _fit(self, shards: Iterable[Baskets], run: Run) -> None:
        if run.warm_start is not None:
            check_warm_start(run.warm_start, self)
        tables, self.user_ids, self.history = train(self, shards, run)
        self._take_tables(tables)
        self.squares = self._item_squares(tables)

    def _epochs(self, *, warm: bool = False) -> tuple[int, int]:
        """The epochs of a fit, and those of a cold start that a warm one skips: the learning rate starts after them.

        The parameter, or as many as were tuned on validation baskets for this amount of data.
        """
        lines, asked = max(int(self.item_count.sum()), 1), self.parameters.epochs
        cold = min(max(round(self.lines_visited / lines), MIN_EPOCHS), MAX_EPOCHS)
        if not warm:
            return asked or cold, 0
        epochs = asked or max(1, round(cold / COLD_EPOCHS_PER_WARM))
        return epochs, max(cold - epochs, 0)

    def _start_from(
        self, old: EmbeddingModel, tables: dict[str, Table], row_of_item: Rows, users: pa.LargeStringArray | None
    ) -> None:
        """Copy the arrays of `old` into new tables."""
        items = matched_items(old, self.catalog, self.category_level)
        user_match = None if users is None else matched_users(old, users)
        views, arrays = self._array_views(tables), old.arrays(users=True)
        for name, view in views.items():
            if "user" not in name:
                copy_rows(view, arrays[name], items, row_of_item)
            elif user_match is not None and name in arrays:
                copy_rows(view, arrays[name], user_match, np.arange(len(user_match.old), dtype=np.int32))
        if "log_variance" in views:
            settings = self._settings()
            bounds = settings.low, settings.high
            widen_new_items(
                views["log_variance"], arrays["vectors"], arrays["log_variance"], items, row_of_item, bounds
            )
        for name, sums in old.squares.items():
            if "user" not in name:
                known = items.known  # new items start with full steps
                self._adagrad_sums(tables[name])[row_of_item[known]] = sums[items.old[known]]

    @abstractmethod
    def _array_views(self, tables: Mapping[str, Table]) -> dict[str, Table]:
        """Name of each trained array -> its view in the tables."""

    def _adagrad_sums(self, table: Table) -> Table:
        """Adagrad's sums of squares per row: of its vector and of its log-variance."""
        start = width(self.parameters.dim) + SQUARES
        return table[:, start : start + 2]

    def _item_squares(self, tables: Mapping[str, Table]) -> dict[str, Table]:
        """The sums of all item tables, for a later warm start; none with SGD."""
        if self.parameters.optimizer != "adagrad":
            return {}
        return {name: self._adagrad_sums(table).copy() for name, table in tables.items() if "user" not in name}

    def _log_variances(self, tables: Mapping[str, Table]) -> Table | None:
        """The view of the log-variances in the tables, for models that have them."""
        return None

    def _settings(self) -> KernelSettings:
        """The kernel's settings except the learning rates."""
        p = self.parameters
        sgd = p.optimizer == "sgd"
        return KernelSettings(
            dim=p.dim,
            window=p.window,
            negatives=p.negatives,
            shared=p.negatives_shared,
            batch=p.batch_size if sgd else 0,
            average=sgd and p.batch_reduction == "mean",
        )

    @abstractmethod
    def _new_tables(self, rng: np.random.Generator, items: int, users: int) -> dict[str, Table]:
        """The initial tables by name, in the kernel's order."""

    def _take_tables(self, tables: Mapping[str, Table]) -> None:
        """Keep the trained tables; rows of item tables are in the order of the catalog."""
        found = {name: view.copy() for name, view in self._array_views(tables).items()}
        self.user_vectors = found.pop("user_vectors", None)
        self._set_arrays(found)

    def _set_arrays(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Keep the vectors and what else the model has of each item."""
        self._take(arrays["vectors"])
        require_shapes(arrays, {"vectors": ("items", "dim"), **self.more_arrays}, len(self.catalog))
        for name in self.more_arrays:
            setattr(self, name, np.ascontiguousarray(arrays[name], dtype=np.float32))

    @classmethod
    def has_user_arrays(cls) -> bool:
        return cls.needs_users

    def _user_arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {} if self.user_vectors is None else {"user_vectors": self.user_vectors}

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        sums = {f"{SQUARES_PREFIX}{name}": array for name, array in self.squares.items()}
        more = {name: getattr(self, name) for name in self.more_arrays}
        return {"vectors": self.vectors, "losses": np.array(self.history, dtype=np.float64), **sums, **more}

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self._set_arrays(arrays)
        self.user_vectors = arrays.get("user_vectors")
        self.history = tuple(arrays["losses"].tolist())
        self.squares = {
            name.removeprefix(SQUARES_PREFIX): np.ascontiguousarray(array, dtype=np.float32)
            for name, array in arrays.items()
            if name.startswith(SQUARES_PREFIX)
        }

    def fit_info(self) -> dict[str, Any]:
        return {"losses": [round(loss, 6) for loss in self.history]}


def random_table(rng: np.random.Generator, rows: int, dim: int, scale: float) -> Table:
    """A table whose vectors are uniform between -scale and scale."""
    table = new_table(rows, dim)
    vector(table, dim)[:] = rng.random((rows, dim), dtype=np.float32) * np.float32(2 * scale) - np.float32(scale)
    return table
