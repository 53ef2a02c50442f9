"""`cf` and `bprmf`: matrix factorization by the `implicit` library.

Items are compared by the cosine of their factors.

Rows are users if the baskets name them, else baskets; columns are items; values are purchases.
"""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy import sparse

from neatrec.data.baskets import Baskets
from neatrec.errors import DivergedError, require_extra
from neatrec.memory import one_blas_thread
from neatrec.models.base import Model
from neatrec.models.parameters import ModelParameters, parameter
from neatrec.models.run import Run
from neatrec.models.vectors import CosineModel
from neatrec.text import printable

Vectors = npt.NDArray[np.float32]
SECONDS_BETWEEN_LINES = 10.0
REGULARIZATION, TUNING_LINES = 100.0, 345_000
"""Of `cf`: with as much regularization on a few hundred baskets all vectors collapse."""
log = logging.getLogger(__name__)


class Factorization(CosineModel):
    """The common part: builds the matrix, calls the library, keeps the factors."""

    kind: ClassVar[str] = "paper"
    user_arrays: ClassVar[tuple[str, ...]] = ("user_vectors",)

    @abstractmethod
    def _solver(self, implicit: Any) -> tuple[Any, dict[str, Any]]:
        """The library's own model, and its settings beyond the common ones."""

    def _fit(self, baskets: Baskets, run: Run) -> None:
        implicit = _import_implicit()
        matrix, user_ids = purchases(baskets)
        threads = run.thread_count
        try:
            # the library has its own threads: those of BLAS would compete for the same cores
            with one_blas_thread():
                kind, settings = self._solver(implicit)
                settings |= {"factors": self.parameters.dim, "iterations": self.parameters.epochs}
                solver = kind(num_threads=threads, random_state=run.seed, **settings)
                solver.fit(matrix, show_progress=False, callback=_EpochCallback(self))
        except implicit.recommender_base.ModelFitError as error:
            raise DivergedError(
                f"model {self.name!r} diverged: {printable(error)}", hint="Raise `regularization`."
            ) from error
        arrays = {"vectors": np.asarray(solver.item_factors, dtype=np.float32)}
        if user_ids is not None:
            arrays["user_vectors"] = np.asarray(solver.user_factors, dtype=np.float32)
        self._restore(arrays)
        self.user_ids = user_ids


@dataclass(frozen=True)
class CFParameters(ModelParameters):
    """Parameters of `cf`."""

    dim: int = parameter(100, "Numbers in a vector.", low=1)
    epochs: int = parameter(30, "Rounds of alternating least squares.", low=1)
    regularization: float | None = parameter(
        None,
        "Weight of the squared length of the vectors; none: 100, less where there are few baskets.",
        low=0.0,
    )
    alpha: float = parameter(100.0, "Confidence that one purchase adds.", above=0.0)

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {"epochs": 15, "regularization": 0.01, "alpha": 1.0}
    }
    """The paper states the dimension only: the rest are the library's defaults."""


class CF(Factorization):
    """Alternating least squares on implicit feedback (Hu, Koren and Volinsky 2008)."""

    name: ClassVar[str] = "cf"
    description: ClassVar[str] = (
        "Collaborative filtering by alternating least squares; cosine of item factors."
    )
    Parameters: ClassVar[type[ModelParameters]] = CFParameters

    def _solver(self, implicit: Any) -> tuple[Any, dict[str, Any]]:
        regularization = self.parameters.regularization
        if (
            regularization is None
        ):  # 100 as tuned (docs/explanation/evaluation.md), scaled down where there are fewer lines
            regularization = REGULARIZATION * min(1.0, int(self.item_count.sum()) / TUNING_LINES)
        settings = {"regularization": regularization, "alpha": self.parameters.alpha}
        return implicit.cpu.als.AlternatingLeastSquares, settings


@dataclass(frozen=True)
class BPRMFParameters(ModelParameters):
    """Parameters of `bprmf`."""

    dim: int = parameter(100, "Numbers in a vector; the item's bias is one more.", low=1)
    epochs: int = parameter(100, "Passes over the purchases.", low=1)
    learning_rate: float = parameter(0.05, "Step of the gradient descent.", above=0.0)
    regularization: float = parameter(0.03, "Weight of the squared length of the vectors.", low=0.0)

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {"epochs": 100, "learning_rate": 0.01, "regularization": 0.01}
    }
    """As for `cf`: the library's own defaults."""


class BPRMF(Factorization):
    """Matrix factorization by Bayesian personalized ranking (Rendle and others 2009)."""

    name: ClassVar[str] = "bprmf"
    description: ClassVar[str] = (
        "Matrix factorization by Bayesian personalized ranking; cosine of item factors."
    )
    Parameters: ClassVar[type[ModelParameters]] = BPRMFParameters

    def _solver(self, implicit: Any) -> tuple[Any, dict[str, Any]]:
        settings = {
            name: getattr(self.parameters, name) for name in ("learning_rate", "regularization")
        }
        return implicit.cpu.bpr.BayesianPersonalizedRanking, settings


def purchases(baskets: Baskets) -> tuple[sparse.csr_matrix, pa.LargeStringArray | None]:
    """Purchases of each item by each user, shape (users, items), and the users' ids.

    Where users are unknown, each basket is a user.
    """
    row, names = np.arange(len(baskets)), None
    if baskets.users is not None and baskets.user_ids is not None:
        present, row = np.unique(baskets.users, return_inverse=True)
        names = baskets.user_ids.take(pa.array(present))
    once = np.ones(baskets.lines, dtype=np.float32)
    shape = (len(row) if names is None else len(names), len(baskets.catalog))
    # tocsr sums duplicates
    matrix = sparse.coo_matrix(
        (once, (row[baskets.basket_of_line], baskets.items)), shape=shape
    ).tocsr()
    return matrix, names


def _import_implicit() -> Any:
    require_extra("als", "a model 'cf' or 'bprmf'")
    import implicit
    import implicit.cpu.als
    import implicit.cpu.bpr
    import implicit.recommender_base

    return implicit


class _EpochCallback:
    """Logs the progress after each epoch."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.epoch, self.logged_at = 0, time.monotonic()

    def __call__(self, *_: Any) -> None:
        self.epoch += 1
        if time.monotonic() - self.logged_at > SECONDS_BETWEEN_LINES:
            self.logged_at = time.monotonic()
            steps = {"done": self.epoch, "total": self.model.parameters.epochs}
            log.info("%s: epoch %d of %d", self.model.name, *steps.values(), extra=steps)
