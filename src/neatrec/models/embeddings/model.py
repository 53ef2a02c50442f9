"""The common part of the embedding models: their parameters and their fit."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from neatrec.data.baskets import Baskets
from neatrec.models.arrays import ArraySpec
from neatrec.models.embeddings.kernels.arguments import KernelSettings
from neatrec.models.embeddings.kernels.dispatch import chosen_device
from neatrec.models.embeddings.kernels.layout import Table, new_table, vector
from neatrec.models.embeddings.sampling import TrainingData
from neatrec.models.embeddings.trainer import train
from neatrec.models.parameters import ModelParameters, parameter
from neatrec.models.run import Run
from neatrec.models.vectors import CosineModel

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
"""What the paper states for all its embedding models, except whether a batch is a sum or a mean.

On Instacart's orders the sum diverges at this learning rate, except for item2vec, which takes the
sum. With the mean, neat and neat-bpr learn; triple2vec learns next to nothing in five epochs.
"""
MIN_EPOCHS, MAX_EPOCHS = 5, 320
"""Bounds of the epochs where the parameter is none."""


@dataclass(frozen=True)
class EmbeddingParameters(ModelParameters):
    """Parameters that all embedding models share."""

    dim: int = parameter(100, "Length of the vectors.", low=1, high=4096)
    epochs: int | None = parameter(
        None, "Passes over the baskets; none: by the amount of data, from 5 to 320.", low=1
    )
    window: int = parameter(
        5, "Largest distance between the two items of a pair in a basket.", low=1, high=64
    )
    negatives: int = parameter(5, "Negative items per pair.", low=1, high=64)
    negatives_shared: bool = parameter(
        True, "Whether all pairs of one query position share their negatives."
    )
    negative_exponent: float = parameter(
        0.75, "Power of the item frequency by which negatives are drawn.", low=0.0, high=2.0
    )
    reject_observed: bool = parameter(
        False, "Whether items ever bought with the query are rejected as negatives."
    )
    optimizer: str = parameter(
        "adagrad", "Row-wise Adagrad, or plain SGD.", choices=("adagrad", "sgd")
    )
    batch_size: int = parameter(
        128, "Pairs whose mean gradient is a step (optimizer sgd).", low=1, high=65536
    )
    batch_reduction: str = parameter(
        "sum",
        "With optimizer sgd: whether a pair's step is the learning rate, or that over batch_size.",
        choices=("sum", "mean"),
    )
    learning_rate: float = parameter(
        0.2, "Learning rate of the means at the start; it falls linearly.", above=0.0
    )
    category_level: str | None = parameter(
        "deepest", "Category level within which no pairs are trained on; none: all pairs are."
    )

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"paper": PAPER}


class EmbeddingModel(CosineModel):
    """A model whose vectors are trained in epochs over the baskets."""

    kind: ClassVar[str] = "paper"
    devices: ClassVar[tuple[str, ...]] = ("cpu", "gpu")
    Parameters: ClassVar[type[ModelParameters]] = EmbeddingParameters
    kernel: ClassVar[str]
    """The kernel that trains it."""
    lines_visited: ClassVar[int]
    """Basket lines that a fit visits where `epochs` is none: see docs/explanation/evaluation.md."""
    has_hinge_loss: ClassVar[bool] = False
    reject_bought: ClassVar[bool] = False
    """Whether a user's own items are rejected as negatives in the user's baskets."""
    more_arrays: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({})
    """Attributes beside `vectors` that a bundle keeps, and their shapes."""
    user_vectors: Vectors | None = None
    """Shape (users, dim), for models that learn from users."""
    history: tuple[float, ...] = ()
    """Mean loss per pair of each epoch."""

    def check_run(self, run: Run) -> None:
        """Refuse, as `Model.check_run`, and settings that the GPU asked for cannot honor."""
        super().check_run(run)
        if run.device == "gpu":
            chosen_device(self.kernel, run.device, self._settings(), run.reproducible)

    def fit_device(self, run: Run) -> str:
        """The device; `auto` is the GPU where it can train with these settings."""
        if run.device != "auto":
            return run.device  # without looking for a GPU that is asked for by name
        return chosen_device(self.kernel, "auto", self._settings(), run.reproducible, quiet=True)

    def _fit(self, baskets: Baskets, run: Run) -> None:
        tables, self.user_ids, self.history = train(self, baskets, run)
        arrays = {name: view.copy() for name, view in self._array_views(tables).items()}
        self.user_vectors = arrays.pop("user_vectors", None)
        self._set_arrays(arrays)

    def _epochs(self) -> int:
        """The parameter, or the number tuned on validation baskets for this amount of data."""
        if self.parameters.epochs is not None:
            return int(self.parameters.epochs)
        lines = max(int(self.item_count.sum()), 1)
        return min(max(round(self.lines_visited / lines), MIN_EPOCHS), MAX_EPOCHS)

    def _settings(self) -> KernelSettings:
        """The kernel's settings except the learning rates."""
        p = self.parameters
        return KernelSettings(
            dim=p.dim,
            window=p.window,
            negatives=p.negatives,
            shared=p.negatives_shared,
            adagrad=p.optimizer == "adagrad",
        )

    def _rate(self) -> float:
        """The learning rate at the start."""
        p = self.parameters
        mean = p.optimizer == "sgd" and p.batch_reduction == "mean"
        return float(p.learning_rate) / (p.batch_size if mean else 1)

    @abstractmethod
    def _new_tables(self, rng: np.random.Generator, items: int, users: int) -> dict[str, Table]:
        """The initial tables by name, in the kernel's order."""

    def _initial_tables(self, rng: np.random.Generator, data: TrainingData) -> dict[str, Table]:
        """The initial tables for these baskets."""
        return self._new_tables(rng, len(self.catalog), data.user_count)

    @abstractmethod
    def _array_views(self, tables: Mapping[str, Table]) -> dict[str, Table]:
        """Name of each trained array -> its view in the tables."""

    def _log_variances(self, tables: Mapping[str, Table]) -> Table | None:
        """The view of the log-variances in the tables, for models that have them."""
        return None

    def _set_arrays(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Keep the vectors, and the arrays that the model has beside them."""
        self._take(arrays["vectors"])
        for name in self.more_arrays:
            setattr(self, name, np.ascontiguousarray(arrays[name], dtype=np.float32))

    @classmethod
    def array_specs(cls) -> Mapping[str, ArraySpec]:
        """Kinds and shapes of the arrays in a bundle."""
        more = {name: ArraySpec("f", shape) for name, shape in cls.more_arrays.items()}
        users = ArraySpec("f", ("users", "dim"), required=False)
        losses = ArraySpec("f", ("epochs",))
        return {**super().array_specs(), **more, "losses": losses, "user_vectors": users}

    @classmethod
    def has_user_arrays(cls) -> bool:
        """Whether a bundle may keep vectors of users."""
        return cls.needs_users

    def _user_arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {} if self.user_vectors is None else {"user_vectors": self.user_vectors}

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        more = {name: getattr(self, name) for name in self.more_arrays}
        return {"vectors": self.vectors, "losses": np.array(self.history, dtype=np.float64), **more}

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self._set_arrays(arrays)
        self.user_vectors = arrays.get("user_vectors")
        self.history = tuple(arrays["losses"].tolist())

    def fit_info(self) -> dict[str, Any]:
        """The mean loss per pair of each epoch."""
        return {"losses": [round(loss, 6) for loss in self.history]}


def random_table(rng: np.random.Generator, rows: int, dim: int, scale: float) -> Table:
    """A table whose vectors are uniform between -scale and scale."""
    table, twice = new_table(rows, dim), np.float32(2 * scale)
    vector(table, dim)[:] = rng.random((rows, dim), dtype=np.float32) * twice - np.float32(scale)
    return table
