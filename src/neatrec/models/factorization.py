"""`cf` and `bprmf`: matrix factorization by the `implicit` library; items are compared by the cosine of their factors.

Rows are users where users are known, baskets otherwise; columns are items; values count the purchases.
"""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy import sparse

from neatrec.data.baskets import Baskets
from neatrec.data.catalog import string_array
from neatrec.data.randomness import as_generator
from neatrec.errors import DivergedError, require_extra
from neatrec.models.base import Model
from neatrec.models.parameters import ModelParameters, parameter
from neatrec.models.run import Run
from neatrec.models.vectors import CosineModel
from neatrec.statistics.blas import one_blas_thread
from neatrec.text import printable

Vectors = npt.NDArray[np.float32]
SECONDS_BETWEEN_LINES = 10.0
REGULARIZATION, TUNING_LINES = 100.0, 345_000
"""Of `cf`: with as much regularization on a few hundred baskets all vectors collapse."""
log = logging.getLogger(__name__)


class Factorization(CosineModel):
    """The common part: builds the matrix, calls the library, keeps the factors."""

    kind: ClassVar[str] = "paper"
    user_vectors: Vectors | None = None

    @abstractmethod
    def _solver(self, implicit: Any) -> tuple[Any, dict[str, Any]]:
        """The library's own model, and its settings beside those that both have."""

    def _fit(self, shards: Iterable[Baskets], run: Run) -> None:
        implicit = _import_implicit()
        matrix, user_ids = purchases(shards)
        threads = 1 if run.reproducible else run.thread_count
        try:
            # the library has its own threads: BLAS threads below them would compete for the same cores
            with one_blas_thread():
                kind, settings = self._solver(implicit)
                settings |= {"factors": self.parameters.dim, "iterations": self.parameters.epochs}
                solver = kind(num_threads=threads, random_state=_seed(run), **settings)
                solver.fit(matrix, show_progress=False, callback=_EpochCallback(self, run))
        except implicit.recommender_base.ModelFitError as error:
            raise DivergedError(
                f"model {self.name!r} diverged: {printable(error)}", hint="Raise `regularization`."
            ) from error
        self._take(np.asarray(solver.item_factors, dtype=np.float32))
        self.user_ids = user_ids
        self.user_vectors = None if user_ids is None else np.asarray(solver.user_factors, dtype=np.float32)

    def _user_arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {} if self.user_vectors is None else {"user_vectors": self.user_vectors}

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        super()._restore(arrays)
        self.user_vectors = arrays.get("user_vectors")


@dataclass(frozen=True)
class CFParameters(ModelParameters):
    dim: int = parameter(100, "Numbers in a vector.", low=1)
    epochs: int = parameter(30, "Rounds of alternating least squares.", low=1)
    regularization: float | None = parameter(
        None, "Weight of the squared length of the vectors; none: 100, less where there are few baskets.", low=0.0
    )
    alpha: float = parameter(100.0, "Confidence that one purchase adds.", above=0.0)

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"paper": {"epochs": 15, "regularization": 0.01, "alpha": 1.0}}
    """The paper states the dimension only: the rest are the library's defaults."""


class CF(Factorization):
    """Alternating least squares on implicit feedback (Hu, Koren and Volinsky 2008)."""

    name: ClassVar[str] = "cf"
    description: ClassVar[str] = "Collaborative filtering by alternating least squares; cosine of item factors."
    Parameters: ClassVar[type[ModelParameters]] = CFParameters

    def _solver(self, implicit: Any) -> tuple[Any, dict[str, Any]]:
        regularization = self.parameters.regularization
        if regularization is None:  # 100 as tuned (docs/studies/tuning.md), scaled down where there are fewer lines
            regularization = REGULARIZATION * min(1.0, int(self.item_count.sum()) / TUNING_LINES)
        settings = {"regularization": regularization, "alpha": self.parameters.alpha}
        return implicit.cpu.als.AlternatingLeastSquares, settings


@dataclass(frozen=True)
class BPRMFParameters(ModelParameters):
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
    description: ClassVar[str] = "Matrix factorization by Bayesian personalized ranking; cosine of item factors."
    Parameters: ClassVar[type[ModelParameters]] = BPRMFParameters

    def _solver(self, implicit: Any) -> tuple[Any, dict[str, Any]]:
        settings = {name: getattr(self.parameters, name) for name in ("learning_rate", "regularization")}
        return implicit.cpu.bpr.BayesianPersonalizedRanking, settings


def purchases(shards: Iterable[Baskets]) -> tuple[sparse.csr_matrix, pa.LargeStringArray | None]:
    """How often each user bought each item, shape (users, items), and their ids; by basket where users are unknown."""
    known = all(shard.users is not None for shard in shards)
    number: dict[str, int] = {}
    rows, columns, start, items = [], [], 0, 0
    for shard in shards:
        of_basket = _user_rows(shard, number) if known else np.arange(start, start + len(shard))
        rows.append(of_basket[shard.basket_of_line])
        columns.append(shard.items)
        start, items = start + len(shard), len(shard.catalog)
    row, column = np.concatenate(rows), np.concatenate(columns)
    once = np.ones(len(row), dtype=np.float32)
    # tocsr sums duplicates
    matrix = sparse.coo_matrix((once, (row, column)), shape=(len(number) if known else start, items)).tocsr()
    return matrix, string_array(number) if known else None


def _user_rows(shard: Baskets, number: dict[str, int]) -> npt.NDArray[np.int64]:
    """The row of each basket's user; users that no shard has shown before get the next rows, shape (baskets,)."""
    if shard.users is None or shard.user_ids is None:
        return np.zeros(0, dtype=np.int64)
    present, position = np.unique(shard.users, return_inverse=True)
    names = shard.user_ids.take(pa.array(present)).to_pylist()
    return np.array([number.setdefault(name, len(number)) for name in names], dtype=np.int64)[position]


def _import_implicit() -> Any:
    require_extra("als", "a model 'cf' or 'bprmf'")
    import implicit
    import implicit.cpu.als
    import implicit.cpu.bpr
    import implicit.recommender_base

    return implicit


def _seed(run: Run) -> int:
    """The seed itself, so that the library called directly gives the same; of a generator, its next number."""
    return int(as_generator(run.rng).integers(2**31)) if isinstance(run.rng, np.random.Generator) else int(run.rng)


class _EpochCallback:
    """Logs the progress after each epoch, and stops the fit when `Run.stop` is true."""

    def __init__(self, model: Model, run: Run) -> None:
        self.model, self.run = model, run
        self.epoch, self.logged_at = 0, time.monotonic()

    def __call__(self, *_: Any) -> None:
        self.epoch += 1
        if time.monotonic() - self.logged_at > SECONDS_BETWEEN_LINES:
            self.logged_at = time.monotonic()
            steps = {"done": self.epoch, "total": self.model.parameters.epochs}
            log.info("%s: epoch %d of %d", self.model.name, *steps.values(), extra=steps)
        if self.run.stop is not None and self.run.stop():
            raise KeyboardInterrupt
