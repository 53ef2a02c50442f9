"""`neat`: each item a Gaussian, trained by the max-margin loss on the expected likelihood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from neatrec.errors import must_be
from neatrec.models.arrays import ArraySpec
from neatrec.models.embeddings.kernels.arguments import (
    LOG_VARIANCE,
    KernelSettings,
    Table,
    width,
)
from neatrec.models.embeddings.model import PAPER, EmbeddingModel, EmbeddingParameters
from neatrec.models.embeddings.sampling import TrainingData
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
