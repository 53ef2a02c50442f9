"""The common part of the embedding models: their parameters and their fit."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from neatrec.compiled import on_first_compile
from neatrec.data.baskets import Baskets
from neatrec.models.base import ArraySpec
from neatrec.models.embeddings.kernels.arguments import KernelSettings, Table, new_table
from neatrec.models.embeddings.kernels.dispatch import chosen_device
from neatrec.models.embeddings.trainer import TrainingData, train
from neatrec.models.parameters import ModelParameters, parameter
from neatrec.models.run import Run
from neatrec.models.vectors import CosineModel

log = logging.getLogger(__name__)
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
"""Settings of the paper for all its embedding models; whether a batch is a sum or a mean it omits.

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
    tables: ClassVar[tuple[str, ...]]
    """Its tables in the kernel's order, by the arrays that their vectors become."""
    lines_visited: ClassVar[int]
    """Basket lines that a fit visits where `epochs` is none: see docs/explanation/evaluation.md."""
    has_hinge_loss: ClassVar[bool] = False
    reject_bought: ClassVar[bool] = False
    """Whether a user's own items are rejected as negatives in the user's baskets."""
    losses: npt.NDArray[np.float64]
    """Mean loss per pair of each epoch."""

    def check_run(self, run: Run) -> None:
        """Refuse, as `Model.check_run`, and settings that the GPU asked for cannot honor."""
        super().check_run(run)
        if run.device == "gpu":
            chosen_device(self.kernel, run.device, self._settings(), run.reproducible)

    def _fit(self, baskets: Baskets, run: Run) -> None:
        step = {"done": 0, "total": 1}
        note = partial(log.info, "compiling %s kernels (first run only)", self.kernel, extra=step)
        with on_first_compile(note):
            tables, self.user_ids, losses = train(self, baskets, run)
        self._restore({**self._arrays_of(tables), "losses": np.array(losses)})

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

    def _scale(self, table: str) -> float:
        """The largest value of the vectors of a table at the start."""
        return 0.5 / float(self.parameters.dim)

    def _initial_tables(self, rng: np.random.Generator, data: TrainingData) -> dict[str, Table]:
        """Tables whose vectors are uniform between -scale and scale."""
        tables, dim = {}, self.parameters.dim
        for name in self.tables:
            rows = data.user_count if name == "user_vectors" else len(data.row_of_item)
            scale = np.float32(self._scale(name))
            tables[name] = new_table(rows, dim)
            tables[name][:, :dim] = rng.random((rows, dim), dtype=np.float32) * (2 * scale) - scale
        return tables

    def _arrays_of(self, tables: Mapping[str, Table]) -> dict[str, npt.NDArray[Any]]:
        """The arrays in trained tables."""
        return {name: table[:, : self.parameters.dim] for name, table in tables.items()}

    @classmethod
    def array_specs(cls) -> Mapping[str, ArraySpec]:
        """The arrays of a bundle."""
        items = {name: ArraySpec("f", ("items", "dim")) for name in cls.tables}
        return {**items, **super().array_specs(), "losses": ArraySpec("f", ("epochs",))}

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        super()._restore(arrays)
        self.learned = {"losses": [round(loss, 6) for loss in self.losses.tolist()]}
