"""What the embedding models have in common: their settings, and how a fit is put together."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from neatrec.data.baskets import Baskets
from neatrec.errors import must_be
from neatrec.models.embeddings.kernels.arguments import KernelSettings
from neatrec.models.embeddings.kernels.dispatch import chosen_device, device_for
from neatrec.models.embeddings.kernels.layout import SQUARES, Table, new_table, vector, width
from neatrec.models.embeddings.trainer import TrainingTask, train
from neatrec.models.embeddings.warm_start import (
    SHARE,
    Rows,
    hash_of,
    lay,
    matched_items,
    matched_users,
    refuse_other_shapes,
    widen,
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
"""What the paper states for all its embedding models. It does not say whether a batch is a sum or a mean.

On Instacart's orders the sum runs away with this learning rate, but for item2vec, which therefore takes the sum; the
others take the mean. By the mean neat and neat-bpr learn, triple2vec (and item2vec) next to nothing in five epochs.
"""
PREFIX = "squares_"
FEWEST_EPOCHS, MOST_EPOCHS = 5, 320
"""Bounds of what `epochs` left open may become."""


@dataclass(frozen=True)
class EmbeddingParameters(ModelParameters):
    dim: int = parameter(100, "Numbers in a vector.", low=1, high=4096)
    epochs: int | None = parameter(
        None, "Passes over the baskets; none: as many as the amount of data asks for, from 5 to 320.", low=1
    )
    window: int = parameter(5, "Items at most this many places apart in a basket make a pair.", low=1, high=64)
    negatives: int = parameter(5, "Items drawn to compare a pair with.", low=1, high=64)
    negatives_shared: bool = parameter(
        True, "Whether the pairs of one place in a basket share its negatives, rather than each drawing its own."
    )
    negative_exponent: float = parameter(
        0.75, "Negatives are drawn by how often an item was bought, to this power.", low=0.0, high=2.0
    )
    reject_observed: bool = parameter(
        False, "Whether items that were ever bought together with the query are refused as negatives."
    )
    optimizer: str = parameter(
        "adagrad",
        "Row-wise Adagrad as the baskets come, or synchronous mini-batches by plain gradient descent.",
        choices=("adagrad", "sgd"),
    )
    batch_size: int = parameter(128, "Pairs in a mini-batch (optimizer sgd).", low=1, high=65536)
    batch_reduction: str = parameter(
        "sum", "Whether a mini-batch's gradient is the sum over its pairs or their mean.", choices=("sum", "mean")
    )
    learning_rate: float = parameter(0.2, "Step of the means at the start; it falls in a straight line.", above=0.0)
    category_level: str | None = parameter(
        "deepest", "Pairs of one category at this level are no pairs; none: all are."
    )

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"paper": PAPER}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.optimizer == "sgd" and self.negatives_shared:
            raise must_be("negatives_shared", "false with optimizer sgd", True, hint="A batch is counted in pairs.")


class EmbeddingModel(CosineModel):
    """A model that learns vectors by one pass after another over the baskets."""

    kind: ClassVar[str] = "paper"
    devices: ClassVar[tuple[str, ...]] = ("cpu", "gpu")
    trains_in_epochs: ClassVar[bool] = True
    Parameters: ClassVar[type[ModelParameters]] = EmbeddingParameters
    kernel: ClassVar[str]
    """The kernel that trains it."""
    lines_visited: ClassVar[int]
    """How many basket lines a fit visits in all where `epochs` is left open (docs/tuning.md)."""
    _has_hinges: ClassVar[bool] = False
    _refuse_bought: ClassVar[bool] = False
    """Whether items that a user has bought are refused as negatives in that user's baskets."""
    history: tuple[float, ...] = ()
    """Mean loss a pair of each epoch of the fit."""
    squares: Mapping[str, Vectors] = MappingProxyType({})
    """By item table: the sums that Adagrad divides by, shape (items, 2); a warm start goes on with them."""

    def check_run(self, run: Run, *, validation: bool = False) -> None:
        super().check_run(run, validation=validation)
        if run.device == "gpu":  # settings that a GPU cannot honour
            chosen_device(self._kernel(), run.device, self._settings(), run.reproducible)

    def fit_device(self, run: Run) -> str:
        return device_for(self._kernel(), run.device, self._settings(), run.reproducible)

    def _fit(self, shards: Iterable[Baskets], run: Run) -> None:
        epochs, before = self._epochs(), 0
        old: Any = run.warm_start
        if old is not None:
            refuse_other_shapes(old, self)
            epochs, before = self._warm_epochs()
            log.info("warm start: the last %d of %d epochs", epochs, epochs + before)
        task = TrainingTask(
            name=self.name,
            kernel=self._kernel(),
            parameters=self.parameters.to_dict(),
            settings=self._settings(),
            new_tables=self._new_tables,
            catalog=self.catalog,
            item_count=self.item_count,
            category_level=self.parameters.category_level,
            exponent=self.parameters.negative_exponent,
            reject_observed=self.parameters.reject_observed,
            learning_rate=self.parameters.learning_rate,
            epochs=epochs,
            vectors=self._vectors_of_a_row(),
            epochs_before=before,
            begin=None if old is None else partial(self._begin_from, old),
            begins_from=None if old is None else hash_of(old.arrays(users=True)),
            needs_users=self.needs_users,
            min_user_baskets=self._least_user_baskets(),
            has_hinges=self._has_hinges,
            refuse_bought=self._refuse_bought,
            log_variance=self._log_variances(),
        )
        trained = train(task, shards, run)
        self.history = trained.losses
        self.user_ids = trained.user_ids
        self._keep(trained.tables)
        self.squares = self._squares_of(trained.tables)

    def _epochs(self) -> int:
        """What was asked for, or what brings the fit to as many lines as served best on validation baskets."""
        asked: int | None = self.parameters.epochs
        return self._epochs_by_data() if asked is None else asked

    def _epochs_by_data(self) -> int:
        lines = max(int(self.item_count.sum()), 1)
        return min(max(round(self.lines_visited / lines), FEWEST_EPOCHS), MOST_EPOCHS)

    def _warm_epochs(self) -> tuple[int, int]:
        """(epochs of a warm start, epochs that a fit from nothing would have before them)."""
        asked: int | None = self.parameters.epochs
        whole = self._epochs_by_data()
        epochs = max(1, round(whole / SHARE)) if asked is None else asked
        return epochs, max(whole - epochs, 0)

    def _begin_from(
        self, old: EmbeddingModel, tables: dict[str, Table], row_of_item: Rows, users: pa.LargeStringArray | None
    ) -> None:
        """Lay what `old` learned into new tables."""
        items = matched_items(old, self.catalog, self.category_level)
        people = None if users is None else matched_users(old, users)
        places, held = self._laid(tables), old.arrays(users=True)
        for name, place in places.items():
            if "user" not in name:
                lay(place, held[name], items, row_of_item)
            elif people is not None and name in held:
                lay(place, held[name], people, np.arange(len(people.old), dtype=np.int32))
        if "log_variance" in places:
            settings = self._settings()
            bounds = settings.low, settings.high
            widen(places["log_variance"], held["vectors"], held["log_variance"], items, row_of_item, bounds)
        for name, sums in old.squares.items():
            if "user" not in name:
                known = items.known  # new items learn at full speed
                self._sums(tables[name])[row_of_item[known]] = sums[items.old[known]]

    @abstractmethod
    def _laid(self, tables: Mapping[str, Table]) -> dict[str, Table]:
        """Name of each array that was learned -> where it lies in the tables, rows first."""

    def _sums(self, table: Table) -> Table:
        """What Adagrad divides by, of each row: of its vector and of its log-variance."""
        start = width(self.parameters.dim) * self._vectors_of_a_row() + SQUARES
        return table[:, start : start + 2]

    def _vectors_of_a_row(self) -> int:
        return 1

    def _squares_of(self, tables: Mapping[str, Table]) -> dict[str, Table]:
        """The sums of all item tables, for a fit that goes on from here; none with plain gradient descent."""
        if self.parameters.optimizer != "adagrad":
            return {}
        return {name: self._sums(table).copy() for name, table in tables.items() if "user" not in name}

    def _least_user_baskets(self) -> int:
        """Users with fewer baskets have no vector that could learn."""
        return 1

    def _log_variances(self) -> Callable[[Mapping[str, Table]], Vectors] | None:
        return None

    def _kernel(self) -> str:
        return self.kernel

    def _settings(self) -> KernelSettings:
        """Everything the kernel must know, but the rates."""
        p = self.parameters
        sgd = p.optimizer == "sgd"
        return KernelSettings(
            dim=p.dim,
            window=p.window,
            negatives=p.negatives,
            shared=p.negatives_shared,
            margin=0.0,
            logistic=False,
            rate=0.0,
            last_rate=0.0,
            variance_rate=0.0,
            low=0.0,
            high=0.0,
            block=0,
            batch=p.batch_size if sgd else 0,
            average=sgd and p.batch_reduction == "mean",
        )

    @abstractmethod
    def _new_tables(self, rng: np.random.Generator, items: int, users: int) -> dict[str, Table]:
        """The tables at the start, by name, in the kernel's order."""

    @abstractmethod
    def _keep(self, tables: Mapping[str, Table]) -> None:
        """Take what was learned; rows of item tables are in the order of the catalogue."""

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        sums = {f"{PREFIX}{name}": array for name, array in self.squares.items()}
        return {**super()._arrays(), "losses": np.array(self.history, dtype=np.float64), **sums}

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        super()._restore(arrays)
        self.history = tuple(arrays["losses"].tolist())
        self.squares = {
            name.removeprefix(PREFIX): np.ascontiguousarray(array, dtype=np.float32)
            for name, array in arrays.items()
            if name.startswith(PREFIX)
        }

    def fit_info(self) -> dict[str, Any]:
        return {"losses": [round(loss, 6) for loss in self.history]}


def random_table(rng: np.random.Generator, rows: int, dim: int, scale: float, vectors: int = 1) -> Table:
    """A table whose first vectors are uniform between -scale and scale."""
    table = new_table(rows, dim, vectors)
    vector(table, dim)[:] = rng.random((rows, dim), dtype=np.float32) * np.float32(2 * scale) - np.float32(scale)
    return table
