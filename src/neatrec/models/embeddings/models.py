"""`neat`, `neat-bpr`, `item2vec` and `triple2vec`: their parameters, tables and arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from neatrec.errors import must_be
from neatrec.models.base import ArraySpec
from neatrec.models.embeddings.base import PAPER, EmbeddingModel, EmbeddingParameters
from neatrec.models.embeddings.kernels.arguments import (
    LOG_VARIANCE,
    SQUARES,
    KernelSettings,
    Table,
    width,
)
from neatrec.models.embeddings.trainer import TrainingData
from neatrec.models.parameters import ModelParameters, parameter, with_default

Vectors = npt.NDArray[np.float32]
FROZEN_SQUARES = 1e36
"""Adagrad does not move a row whose sum of squares starts here."""


@dataclass(frozen=True)
class NeatParameters(EmbeddingParameters):
    """Parameters of `neat`."""

    negative_exponent: float = with_default(EmbeddingParameters, "negative_exponent", 0.5)
    margin: float = parameter(
        0.2, "Margin between the log-likelihoods of a pair and of a negative.", low=0.0
    )
    variance_learning_rate: float = parameter(
        0.2, "Learning rate of the log-variances at the start.", low=0.0
    )
    start_log_variance: float = parameter(-2.0, "Initial log-variance.")
    min_log_variance: float = parameter(-4.0, "Lower bound of the log-variances.")
    max_log_variance: float = parameter(2.0, "Upper bound of the log-variances.")

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {
            **PAPER,
            "margin": 0.5,
            "variance_learning_rate": 0.05,
            "start_log_variance": 0.0,
        }
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.min_log_variance <= self.start_log_variance <= self.max_log_variance:
            raise must_be(
                "start_log_variance",
                f"between {self.min_log_variance:g} and {self.max_log_variance:g}",
                self.start_log_variance,
            )


class Neat(EmbeddingModel):
    """NEAT (Ma and others 2022): an item's mean encodes its complements, its variance the noise."""

    name: ClassVar[str] = "neat"
    description: ClassVar[str] = (
        "Gaussian item embeddings by expected likelihood; cosine of the means."
    )
    kernel: ClassVar[str] = "neat"
    lines_visited: ClassVar[int] = 110_000_000
    Parameters: ClassVar[type[ModelParameters]] = NeatParameters
    tables: ClassVar[tuple[str, ...]] = ("vectors",)
    log_variance: npt.NDArray[np.float32]
    has_hinge_loss: ClassVar[bool] = True

    def _settings(self) -> KernelSettings:
        p = self.parameters
        bounds = {"low": p.min_log_variance, "high": p.max_log_variance}
        rate = p.variance_learning_rate / p.learning_rate
        return super()._settings()._replace(margin=p.margin, variance_rate=rate, **bounds)

    def _scale(self, table: str) -> float:
        return float(self.parameters.dim**-0.5)

    def _initial_tables(self, rng: np.random.Generator, data: TrainingData) -> dict[str, Table]:
        tables = super()._initial_tables(rng, data)
        self._log_variance(tables)[:] = self.parameters.start_log_variance
        return tables

    def _log_variance(self, tables: Mapping[str, Table]) -> Table:
        """Where the log-variances lie."""
        return tables["vectors"][:, width(self.parameters.dim) + LOG_VARIANCE]

    def _arrays_of(self, tables: Mapping[str, Table]) -> dict[str, npt.NDArray[Any]]:
        return {**super()._arrays_of(tables), "log_variance": self._log_variance(tables)}

    @classmethod
    def array_specs(cls) -> Mapping[str, ArraySpec]:
        """The arrays of a bundle."""
        return {**super().array_specs(), "log_variance": ArraySpec("f", ("items",))}


@dataclass(frozen=True)
class NeatBPRParameters(NeatParameters):
    """Parameters of `neat-bpr`."""

    window: int = with_default(NeatParameters, "window", 3)
    negatives: int = with_default(NeatParameters, "negatives", 10)
    negative_exponent: float = with_default(NeatParameters, "negative_exponent", 0.75)
    learning_rate: float = with_default(NeatParameters, "learning_rate", 0.3)
    margin: float = with_default(NeatParameters, "margin", 0.5)
    variance_learning_rate: float = with_default(NeatParameters, "variance_learning_rate", 0.1)
    start_log_variance: float = with_default(NeatParameters, "start_log_variance", -1.0)
    ranking_loss: str = parameter(
        "printed",
        "Loss of users: 1 - sigmoid as the paper prints it, or the usual -log sigmoid.",
        choices=("printed", "log"),
    )


class NeatBPR(Neat):
    """NEAT+bpr: L_item(q, v, v') + L_BPR(u, q, q') + L_BPR(u, v, v'); answers ignore users."""

    name: ClassVar[str] = "neat-bpr"
    description: ClassVar[str] = "NEAT with ranking losses of users; cosine of the means."
    kernel: ClassVar[str] = "neat_bpr"
    lines_visited: ClassVar[int] = 56_000_000
    Parameters: ClassVar[type[ModelParameters]] = NeatBPRParameters
    tables: ClassVar[tuple[str, ...]] = ("vectors", "user_vectors")
    needs_users: ClassVar[bool] = True
    user_arrays: ClassVar[tuple[str, ...]] = ("user_vectors",)
    reject_bought: ClassVar[bool] = True

    def _settings(self) -> KernelSettings:
        return super()._settings()._replace(logistic=self.parameters.ranking_loss == "log")


@dataclass(frozen=True)
class Item2VecParameters(EmbeddingParameters):
    """Parameters of `item2vec`."""

    window: int = with_default(EmbeddingParameters, "window", 10)
    negatives: int = with_default(EmbeddingParameters, "negatives", 10)
    negative_exponent: float = with_default(EmbeddingParameters, "negative_exponent", 1.0)
    learning_rate: float = with_default(EmbeddingParameters, "learning_rate", 0.8)

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {**PAPER, "batch_reduction": "sum"}
    }


class Item2Vec(EmbeddingModel):
    """Item2Vec (Barkan and Koenigstein 2016): an input and an output vector for each item."""

    name: ClassVar[str] = "item2vec"
    description: ClassVar[str] = "Skip-gram with negative sampling; cosine of the input vectors."
    kernel: ClassVar[str] = "item2vec"
    lines_visited: ClassVar[int] = 56_000_000
    Parameters: ClassVar[type[ModelParameters]] = Item2VecParameters
    tables: ClassVar[tuple[str, ...]] = ("vectors", "output")
    output: npt.NDArray[np.float32]

    def _scale(self, table: str) -> float:
        return super()._scale(table) if table == "vectors" else 0.0


@dataclass(frozen=True)
class Triple2VecParameters(EmbeddingParameters):
    """Parameters of `triple2vec`."""

    window: int = with_default(EmbeddingParameters, "window", 10)
    negative_exponent: float = with_default(EmbeddingParameters, "negative_exponent", 1.0)
    learning_rate: float = with_default(EmbeddingParameters, "learning_rate", 0.4)
    min_user_baskets: int = parameter(
        2, "Baskets that a user must have for a vector of their own.", low=1
    )

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"paper": {**PAPER, "min_user_baskets": 1}}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.optimizer == "sgd" and self.min_user_baskets > 1:
            raise must_be("min_user_baskets", "1 with optimizer sgd", self.min_user_baskets)


class Triple2Vec(EmbeddingModel):
    """Triple2Vec (Wan and others 2018): cohesion f_q . g_v + f_q . h_u + g_v . h_u.

    Negatives are drawn for each of the three. An item has two vectors, as query and as partner;
    recommendations use their sum. A user with one basket has no vector (`min_user_baskets`): it
    would explain away why the items of that basket go together.
    """

    name: ClassVar[str] = "triple2vec"
    description: ClassVar[str] = (
        "Cohesion of item, item and user by negative sampling; cosine of f + g."
    )
    kernel: ClassVar[str] = "triple2vec"
    lines_visited: ClassVar[int] = 3_500_000
    Parameters: ClassVar[type[ModelParameters]] = Triple2VecParameters
    needs_users: ClassVar[bool] = True
    user_arrays: ClassVar[tuple[str, ...]] = ("user_vectors",)
    tables: ClassVar[tuple[str, ...]] = ("query_vectors", "partner_vectors", "user_vectors")
    query_vectors: Vectors
    """f: the items as queries."""
    partner_vectors: Vectors
    """g: the items as partners."""

    def _initial_tables(self, rng: np.random.Generator, data: TrainingData) -> dict[str, Table]:
        """Users with fewer than `min_user_baskets` keep zeros: Adagrad does not move them."""
        tables, minimum = super()._initial_tables(rng, data), self.parameters.min_user_baskets
        if minimum > 1:
            few = np.bincount(data.visit.users, minlength=data.user_count) < minimum
            tables["user_vectors"][few, : self.parameters.dim] = 0
            squares = width(self.parameters.dim) + SQUARES
            tables["user_vectors"][few, squares] = FROZEN_SQUARES
        return tables

    def _arrays_of(self, tables: Mapping[str, Table]) -> dict[str, npt.NDArray[Any]]:
        arrays = super()._arrays_of(tables)
        return {**arrays, "vectors": arrays["query_vectors"] + arrays["partner_vectors"]}
