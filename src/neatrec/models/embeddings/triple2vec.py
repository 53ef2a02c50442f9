"""`triple2vec`: how well an item as query, an item as partner and a user go together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from neatrec.errors import must_be
from neatrec.models.embeddings.kernels.arguments import SQUARES, Table, width
from neatrec.models.embeddings.model import PAPER, EmbeddingModel, EmbeddingParameters
from neatrec.models.embeddings.sampling import TrainingData
from neatrec.models.parameters import ModelParameters, parameter, with_default

Vectors = npt.NDArray[np.float32]
FROZEN_SQUARES = 1e36
"""Adagrad does not move a row whose sum of squares starts here."""


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
