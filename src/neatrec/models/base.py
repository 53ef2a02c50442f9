"""`Model`, the contract of all models: fit on baskets, score pairs of items, save arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from neatrec.data.baskets import Baskets
from neatrec.data.catalog import Catalog
from neatrec.errors import BundleError, DivergedError, ParameterError, must_be
from neatrec.models import ranking
from neatrec.models.arrays import ArraySpec, check_arrays
from neatrec.models.embeddings.kernels.gpu import cupy
from neatrec.models.items import Item
from neatrec.models.parallel import thread_limit
from neatrec.models.parameters import ModelParameters
from neatrec.models.ranking import CartScorer, Ranking
from neatrec.models.run import Run
from neatrec.text import printable

Codes = npt.NDArray[np.int32]
Scores = npt.NDArray[Any]  # float32 or float64
T = TypeVar("T")


class Model(ABC):
    """A model of complementary items.

    A custom model is one subclass: the four class variables, and `_fit`, `_score`, `_score_all`, `_arrays` and
    `_restore`. The public methods check their arguments, so these need not.
    """

    name: ClassVar[str]
    kind: ClassVar[str]
    """`paper`, `statistic` or `hybrid`."""
    description: ClassVar[str]
    """One sentence, for `neatrec show`."""
    Parameters: ClassVar[type[ModelParameters]] = ModelParameters
    needs_users: ClassVar[bool] = False
    """Whether it can only be fitted on baskets with known users."""
    scores_unseen_items: ClassVar[bool] = False
    """Whether it recommends for an item that no training basket holds."""
    devices: ClassVar[tuple[str, ...]] = ("cpu",)
    """Where it can be fitted."""
    min_score: ClassVar[float] = -np.inf
    """`rank` leaves out items that score no higher: 0 where 0 means never bought together."""

    reason: ClassVar[str] = "similar"
    """Why it recommends a pair without evidence in the counts: similar items, `popular` items, or none but `counts`."""

    def __init__(self, parameters: ModelParameters | None = None) -> None:
        self.parameters: Any = self.Parameters() if parameters is None else parameters
        if type(self.parameters) is not self.Parameters:
            raise must_be(
                "parameters", f"the {self.Parameters.__name__} of {self.name!r}", parameters
            )
        self.user_ids: pa.LargeStringArray | None = None
        self.seed: int | None = None
        """That of the fit; None where a generator was given."""
        self._trained_on: Baskets | str | None = None
        self._catalog: Catalog | None = None
        self._item_count: npt.NDArray[np.int64] | None = None
        self.cart_ranking: CartScorer | None = None
        """How it ranks for a cart of several items, where that is not the mean of their scaled scores."""

    # ---- fitting

    def get_params(self) -> dict[str, Any]:
        """The parameters by name."""
        return dict(self.parameters.to_dict())

    def fit(self, baskets: Baskets | Any, run: Run | None = None) -> Self:
        """Fit the model on `baskets`, and return it.

        Parameters
        ----------
        baskets
            Baskets, or a source that `neatrec.read_baskets` reads with usual column names, such as a
            data frame.
        run
            Seed, threads, device and progress of the training.
        """
        run = Run() if run is None else run
        if not isinstance(baskets, Baskets):
            from neatrec.io.read import as_baskets

            baskets = as_baskets(baskets)
        self.check_run(run)
        self._require_lines(baskets)
        self._catalog, self._item_count, self.user_ids = baskets.catalog, baskets.item_counts, None
        self.seed = run.rng if isinstance(run.rng, int) else None
        self._trained_on = baskets
        with thread_limit(run.threads):
            self._fit(baskets, run)
        return self

    def set_origin(self, baskets_hash: str, seed: int | None) -> None:
        """What a bundle knows of the fit."""
        self._trained_on, self.seed = baskets_hash, seed

    @property
    def baskets_hash(self) -> str:
        """The hash of the baskets it was fitted on."""
        known = self._trained_on
        return self._fitted(known.hash if isinstance(known, Baskets) else known)

    def check_run(self, run: Run) -> None:
        """Refuse what a fit cannot honor, before any basket is read."""
        if run.device not in ("auto", *self.devices):
            raise must_be(
                "device", f"{' or '.join(self.devices)} for model {self.name!r}", run.device
            )
        if run.device == "gpu":
            cupy()

    def fit_key(self) -> tuple[str, dict[str, Any]]:
        """Models with equal keys have equal arrays after a fit: one fit serves them all."""
        return self.name, self.parameters.to_dict()

    def fit_device(self, run: Run) -> str:
        """`gpu` where `run` fits the model on a GPU, to other bits than on the CPU; else `cpu`."""
        return "cpu"

    @classmethod
    def has_user_arrays(cls) -> bool:
        """Whether it has arrays of users that a bundle may keep."""
        return False

    def _require_lines(self, baskets: Baskets) -> None:
        if self.needs_users and baskets.users is None:
            raise ParameterError(
                f"model {self.name!r} learns from users, and the users of these baskets are not known",
                hint="Name the user column, or choose a model that needs none.",
            )
        if not baskets.lines:
            raise ParameterError("`baskets` must hold at least one line, got none")

    @abstractmethod
    def _fit(self, baskets: Baskets, run: Run) -> None:
        """Fit on the baskets. `self.catalog` and `self.item_count` are set already."""

    @property
    def catalog(self) -> Catalog:
        """The items it was fitted on."""
        return self._fitted(self._catalog)

    @property
    def item_count(self) -> npt.NDArray[np.int64]:
        """Lines of each item in the training baskets, shape (items,)."""
        return self._fitted(self._item_count)

    def _fitted(self, value: T | None) -> T:
        if value is None:
            raise ParameterError(
                f"this {self.name!r} model is not fitted", hint="Call fit(baskets) first."
            )
        return value

    @property
    def category_level(self) -> str | None:
        """The category level at which two items count as alike: a name, or None for the deepest."""
        level = getattr(self.parameters, "category_level", None)
        return None if level in (None, "deepest") else str(level)

    # ---- scoring

    def score(self, queries: npt.ArrayLike, items: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """The score of each pair (queries[i], items[i]), float64; higher is better."""
        queries, items = self._codes("queries", queries), self._codes("items", items)
        if len(queries) != len(items):
            raise must_be("items", f"as long as `queries` ({len(queries)})", len(items))
        return self._without_nan(self._score(queries, items)).astype(np.float64, copy=False)

    def score_all(self, queries: npt.ArrayLike) -> Scores:
        """The scores of all items for each query, shape (queries, items). It is dense: call it in blocks."""
        return self._without_nan(self._score_all(self._codes("queries", queries)))

    @abstractmethod
    def _score(self, queries: Codes, items: Codes) -> Scores: ...

    @abstractmethod
    def _score_all(self, queries: Codes) -> Scores: ...

    def _codes(self, argument: str, codes: npt.ArrayLike) -> Codes:
        array = np.atleast_1d(np.asarray(codes))
        if array.size == 0:
            return np.zeros(0, dtype=np.int32)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise must_be(
                argument,
                "one-dimensional item codes",
                codes,
                hint="`find_items` turns ids into codes.",
            )
        if array.min() < 0 or array.max() >= len(self.catalog):
            raise must_be(
                argument, f"codes of the catalogue (0 to {len(self.catalog) - 1})", int(array.max())
            )
        return array.astype(np.int32, copy=False)

    def _without_nan(self, scores: Scores) -> Scores:
        if np.isnan(scores).any():
            raise DivergedError(
                f"model {self.name!r} has scores that are not numbers", hint="Train it again."
            )
        return scores

    # ---- ranking

    def rank(
        self,
        items: Item | Sequence[Item],
        k: int = 10,
        *,
        category: str | Sequence[str] | None = None,
        exclude: Item | Sequence[Item] = (),
        same_category: bool = False,
    ) -> Ranking:
        """The best `k` items for an item or a cart; fewer where fewer score above `min_score`.

        This is the ranking alone, whatever the evidence; what a shop shows comes from
        `neatrec.recommend`. Ties go to the smaller code. For one item the scores are the model's
        own. For a cart they are those of `cart_ranking`; without one each item's scores are scaled,
        0 for its median candidate and 1 for its best, and averaged, so that no item dominates
        because its scores are large.

        Parameters
        ----------
        items
            Ids or names. Items of the cart and items that no training basket holds never answer.
        k
            Number of answers.
        category
            Name of a category, or its path as "produce / fresh fruits", that answers must belong
            to, or several.
        exclude
            Items that must not answer.
        same_category
            Whether items that share a category with one of the cart may answer.
        """
        return ranking.rank(
            self, items, k, category=category, exclude=exclude, same_category=same_category
        )

    def rank_carts(self, carts: Sequence[Codes], k: int = 10) -> list[Codes]:
        """The codes that `rank` returns for each cart of codes."""
        return ranking.rank_carts(self, [self._codes("carts", cart) for cart in carts], k)

    # ---- saving

    def item_vectors(self) -> npt.NDArray[np.float32] | None:
        """One vector per item, shape (items, dim), for export; None where the model has none."""
        return None

    def fit_info(self) -> dict[str, Any]:
        """What the fit found, such as a tuned parameter, as JSON values."""
        return {}

    def arrays(self, *, users: bool = False) -> dict[str, npt.NDArray[Any]]:
        """All arrays that `from_arrays` needs; arrays of users only with `users`."""
        arrays = {"item_count": self.item_count, **self._arrays()}
        return {**arrays, **self._user_arrays()} if users else arrays

    @classmethod
    def from_arrays(
        cls,
        parameters: ModelParameters | None,
        catalog: Catalog,
        arrays: Mapping[str, npt.NDArray[Any]],
    ) -> Self:
        """The model that `arrays` came from."""
        model = cls(parameters)
        try:
            check_arrays(arrays, {"item_count": ArraySpec("i", low=0)}, len(catalog))
            check_arrays(arrays, cls.array_specs(), len(catalog))
            count = np.ascontiguousarray(arrays["item_count"], dtype=np.int64)
            model._catalog, model._item_count = catalog, count
            model._restore(arrays)
        except (KeyError, ValueError, IndexError, TypeError) as error:
            raise BundleError(
                f"these are not the arrays of a {cls.name!r} model: {printable(repr(error))}"
            ) from error
        return model

    @classmethod
    def array_specs(cls) -> Mapping[str, ArraySpec]:
        """What the arrays of a bundle may hold; checked before `_restore`."""
        return {}

    @abstractmethod
    def _arrays(self) -> dict[str, npt.NDArray[Any]]: ...

    def _user_arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {}

    @abstractmethod
    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Restore the arrays of `_arrays` (and of `_user_arrays`, where they were saved)."""
