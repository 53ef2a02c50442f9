"""`neat`: each item a Gaussian, trained by the max-margin loss on the expected likelihood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from neatrec.errors import must_be
from neatrec.models.embeddings.kernels.arguments import KernelSettings
from neatrec.models.embeddings.kernels.layout import LOG_VARIANCE, Table, tail, vector
from neatrec.models.embeddings.model import PAPER, EmbeddingModel, EmbeddingParameters, random_table
from neatrec.models.parameters import ModelParameters, parameter, with_default


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
    """NEAT (Ma and others 2022): an item's mean is what it complements, its variance the noise."""

    name: ClassVar[str] = "neat"
    description: ClassVar[str] = (
        "Gaussian item embeddings by expected likelihood; cosine of the means."
    )
    kernel: ClassVar[str] = "neat"
    lines_visited: ClassVar[int] = 110_000_000
    Parameters: ClassVar[type[ModelParameters]] = NeatParameters
    more_arrays: ClassVar[Mapping[str, tuple[str, ...]]] = {"log_variance": ("items",)}
    log_variance: npt.NDArray[np.float32]
    has_hinge_loss: ClassVar[bool] = True

    def _settings(self) -> KernelSettings:
        p = self.parameters
        return (
            super()
            ._settings()
            ._replace(
                margin=p.margin,
                low=p.min_log_variance,
                high=p.max_log_variance,
                variance_rate=p.variance_learning_rate / p.learning_rate,
            )
        )

    def _new_tables(self, rng: np.random.Generator, items: int, users: int) -> dict[str, Table]:
        p = self.parameters
        table = random_table(rng, items, p.dim, p.dim**-0.5)
        self._log_variance(table)[:] = p.start_log_variance
        return {"items": table}

    def _log_variances(self, tables: Mapping[str, Table]) -> Table:
        return self._log_variance(tables["items"])

    def _log_variance(self, table: Table) -> Table:
        return tail(table, self.parameters.dim, LOG_VARIANCE)

    def _array_views(self, tables: Mapping[str, Table]) -> dict[str, Table]:
        items = tables["items"]
        return {
            "vectors": vector(items, self.parameters.dim),
            "log_variance": self._log_variance(items),
        }
