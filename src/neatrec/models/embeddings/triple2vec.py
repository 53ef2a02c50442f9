"""`triple2vec`: how well an item as query, an item as partner and a user go together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from neatrec.errors import must_be
from neatrec.models.embeddings.kernels.layout import SQUARES, Table, tail, vector
from neatrec.models.embeddings.model import PAPER, EmbeddingModel, EmbeddingParameters, random_table
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
    more_arrays: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "query_vectors": ("items", "dim"),
        "partner_vectors": ("items", "dim"),
    }
    query_vectors: Vectors
    """f: the items as queries."""
    partner_vectors: Vectors
    """g: the items as partners."""

    def _new_tables(self, rng: np.random.Generator, items: int, users: int) -> dict[str, Table]:
        dim = self.parameters.dim
        names = {"queries": items, "partners": items, "users": users}
        return {name: random_table(rng, rows, dim, 0.5 / dim) for name, rows in names.items()}

    def _initial_tables(self, rng: np.random.Generator, data: TrainingData) -> dict[str, Table]:
        """Users with fewer than `min_user_baskets` keep zeros: Adagrad does not move them."""
        tables, minimum = super()._initial_tables(rng, data), self.parameters.min_user_baskets
        if minimum > 1:
            few = np.bincount(data.visit.users, minlength=data.user_count) < minimum
            vector(tables["users"], self.parameters.dim)[few] = 0
            tail(tables["users"], self.parameters.dim, SQUARES)[few] = FROZEN_SQUARES
        return tables

    def _array_views(self, tables: Mapping[str, Table]) -> dict[str, Table]:
        names = {"query_vectors": "queries", "partner_vectors": "partners", "user_vectors": "users"}
        return {array: vector(tables[name], self.parameters.dim) for array, name in names.items()}

    def _set_arrays(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        super()._set_arrays(
            {**arrays, "vectors": arrays["query_vectors"] + arrays["partner_vectors"]}
        )
