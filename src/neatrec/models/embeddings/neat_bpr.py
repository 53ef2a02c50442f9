"""`neat-bpr`: NEAT, and users who prefer the items they bought."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from neatrec.models.embeddings.kernels.arguments import KernelSettings
from neatrec.models.embeddings.neat import Neat, NeatParameters
from neatrec.models.parameters import ModelParameters, parameter, with_default


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
