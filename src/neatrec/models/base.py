"""`Model`, the contract of all models: fit on baskets, score pairs of items, save arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from neatrec.data.baskets import Baskets
from neatrec.data.catalog import Catalog
from neatrec.errors import BundleError, DivergedError, ParameterError, must_be
from neatrec.models.embeddings.kernels.gpu import cupy
from neatrec.models.parameters import ModelParameters
from neatrec.models.ranking import CartScorer
from neatrec.models.run import Run
from neatrec.text import printable

Codes = npt.NDArray[np.int32]
Scores = npt.NDArray[Any]  # float32 or float64
Arrays = Mapping[str, npt.NDArray[Any]]
KINDS = {"i": "integers", "f": "numbers"}


class ArraySpec(NamedTuple):
    """The kind, shape and range of an array."""

    kind: str
    """`i` for integers, `f` for numbers; all are finite."""
    shape: tuple[str, ...] = ("items",)
    """Names of lengths: `items` is that of the catalogue, other lengths of one name are equal."""
    low: float = -np.inf
    high: float | str = np.inf
    """The largest value, or the name of a length that codes are below."""
    required: bool = True


class Model(ABC):
    """A model of complementary items.

    A subclass sets `name`, `kind` and `description`, and defines `_fit`, `_score`, `_score_all`,
    `_arrays` and `_restore`. The public methods check their arguments, so these need not.
    """

    name: ClassVar[str]
    kind: ClassVar[str]
    """`paper`, `statistic` or `hybrid`."""
    description: ClassVar[str]
    """One sentence, for `neatrec show`."""
    Parameters: ClassVar[type[ModelParameters]] = ModelParameters
    needs_users: ClassVar[bool] = False
    """Whether it can only be fitted on baskets with known users."""
    user_arrays: ClassVar[tuple[str, ...]] = ()
    """Arrays of users, which a bundle keeps where it is asked to."""
    scores_unseen_items: ClassVar[bool] = False
    """Whether it recommends for an item that no training basket holds."""
    devices: ClassVar[tuple[str, ...]] = ("cpu",)
    """Where it can be fitted."""
    min_score: ClassVar[float] = -np.inf
    """`rank` leaves out items that score no higher: 0 where 0 means never bought together."""
    reason: ClassVar[str] = "similar"
    """Why it recommends a pair without evidence in the counts: similar items, `popular` items, or
    none but `counts`."""

    learned: Mapping[str, Any] = MappingProxyType({})
    """Results of the fit, such as a tuned parameter, as JSON values."""
    user_ids: pa.LargeStringArray | None = None
    seed: int | None = None
    """That of the fit; None where a generator was given."""
    threads: int | None = None
    """Number of threads that score: that of the fit; None: one per core."""
    trained_on: Baskets | str
    """The baskets of the fit; their hash where it comes from a bundle."""
    cart_ranking: CartScorer | None = None
    """Ranks for carts of several items, unless by the mean of their scaled scores."""

    def __init__(self, parameters: ModelParameters | None = None) -> None:
        self.parameters: Any = self.Parameters() if parameters is None else parameters
        if type(self.parameters) is not self.Parameters:
            raise must_be(
                "parameters", f"the {self.Parameters.__name__} of {self.name!r}", parameters
            )
        self._items: tuple[Catalog, npt.NDArray[np.int64]] | None = None

    # ---- fitting

    def fit(self, baskets: Baskets | Any, run: Run | None = None) -> Self:
        """Fit the model on `baskets`, and return it.

        Parameters
        ----------
        baskets
            Baskets, or a source that `neatrec.read_baskets` reads with usual column names, such as
            a data frame.
        run
            Seed, threads, device and progress of the training.
        """
        run = Run() if run is None else run
        if not isinstance(baskets, Baskets):
            from neatrec.io.read import as_baskets

            baskets = as_baskets(baskets)
        self.check_run(run)
        if self.needs_users and baskets.users is None:
            raise ParameterError(
                f"model {self.name!r} learns from users, and these baskets name none",
                hint="Name the user column, or choose a model that needs none.",
            )
        if not baskets.lines:
            raise ParameterError("`baskets` must hold at least one line, got none")
        self._items, self.user_ids = (baskets.catalog, baskets.item_counts), None
        self.seed = run.rng if isinstance(run.rng, int) else None
        self.trained_on = baskets
        self.threads = run.threads
        self._fit(baskets, run)
        return self

    def check_run(self, run: Run) -> None:
        """Refuse options that a fit cannot honor, before any basket is read."""
        if run.device not in ("auto", *self.devices):
            devices = " or ".join(self.devices)
            raise must_be("device", f"{devices} for model {self.name!r}", run.device)
        if run.device == "gpu":
            cupy()

    @abstractmethod
    def _fit(self, baskets: Baskets, run: Run) -> None:
        """Fit on the baskets. `self.catalog` and `self.item_count` are set already."""

    @property
    def catalog(self) -> Catalog:
        """The items it was fitted on."""
        return self._fitted()[0]

    @property
    def item_count(self) -> npt.NDArray[np.int64]:
        """Lines of each item in the training baskets, shape (items,)."""
        return self._fitted()[1]

    def _fitted(self) -> tuple[Catalog, npt.NDArray[np.int64]]:
        if self._items is None:
            message = f"this {self.name!r} model is not fitted"
            raise ParameterError(message, hint="Call fit(baskets) first.")
        return self._items

    @property
    def category_level(self) -> str | None:
        """The category level at which two items count as alike; None for the deepest."""
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
        """The scores of all items for each query, dense: shape (queries, items)."""
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
            hint = "`find_items` turns ids into codes."
            raise must_be(argument, "one-dimensional item codes", codes, hint=hint)
        if array.min() < 0 or array.max() >= len(self.catalog):
            wanted = f"codes of the catalogue (0 to {len(self.catalog) - 1})"
            raise must_be(argument, wanted, int(array.max()))
        return array.astype(np.int32, copy=False)

    def _without_nan(self, scores: Scores) -> Scores:
        if np.isnan(scores).any():
            message = f"model {self.name!r} has scores that are NaN"
            raise DivergedError(message, hint="Train it again.")
        return scores

    # ---- saving

    def arrays(self, *, users: bool = False) -> dict[str, npt.NDArray[Any]]:
        """All arrays that `from_arrays` needs; arrays of users only with `users`."""
        arrays = {"item_count": self.item_count, **self._arrays()}
        hidden = () if users else self.user_arrays
        return {name: array for name, array in arrays.items() if name not in hidden}

    @classmethod
    def from_arrays(
        cls,
        parameters: ModelParameters | None,
        catalog: Catalog,
        arrays: Arrays,
    ) -> Self:
        """The model that `arrays` came from."""
        model = cls(parameters)
        try:
            specs = {"item_count": ArraySpec("i", low=0), **cls.array_specs()}
            check_arrays(arrays, specs, len(catalog))
            model._items = catalog, np.ascontiguousarray(arrays["item_count"], dtype=np.int64)
            model._restore(arrays)
        except (KeyError, ValueError, IndexError, TypeError) as error:
            raise BundleError(
                f"these are not the arrays of a {cls.name!r} model: {printable(repr(error))}"
            ) from error
        return model

    @classmethod
    def array_specs(cls) -> Mapping[str, ArraySpec]:
        """Kind, shape and range of the arrays of a bundle, checked before `_restore`."""
        return {}

    @abstractmethod
    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays that `_restore` needs, those of users among them."""

    @abstractmethod
    def _restore(self, arrays: Arrays) -> None:
        """Restore the arrays of `_arrays`; those of users may be missing."""


# ---- the check of the arrays of a bundle


def matrix_specs(name: str, values: str = "_count") -> dict[str, ArraySpec]:
    """Specs of the arrays of a sparse matrix (items, items); numbers where `values` is empty."""
    stored = (f"{name} values",)
    return {
        f"{name}_start": ArraySpec("i", ("items + 1",), 0),
        f"{name}_item": ArraySpec("i", stored, 0, "items"),
        f"{name}{values}": ArraySpec("i", stored, 0) if values else ArraySpec("f", stored),
    }


def check_arrays(arrays: Arrays, specs: Mapping[str, ArraySpec], items: int) -> None:
    """Refuse arrays unlike their declaration, by a `ValueError`: compiled loops follow them.

    >>> spec = ArraySpec("f", ("items", "dim"))
    >>> check_arrays({"vectors": np.zeros((3, 2))}, {"vectors": spec}, 4)
    Traceback (most recent call last):
    ValueError: `vectors` must have the shape (items, dim), got (3, 2)
    """
    lengths = {"items": items, "items + 1": items + 1}
    for name, spec in specs.items():
        if name in arrays or spec.required:
            _check(name, arrays[name], spec, lengths)


def _check(name: str, array: npt.NDArray[Any], spec: ArraySpec, lengths: dict[str, int]) -> None:
    if array.dtype.kind not in ("iu" if spec.kind == "i" else "f"):
        raise ValueError(f"`{name}` must hold {KINDS[spec.kind]}, got {array.dtype}")
    named = zip(spec.shape, array.shape, strict=False)
    if len(array.shape) != len(spec.shape) or any(
        lengths.setdefault(length, size) != size for length, size in named
    ):
        shape = ", ".join(spec.shape)
        raise ValueError(f"`{name}` must have the shape ({shape}), got {array.shape}")
    high = lengths[spec.high] - 1 if isinstance(spec.high, str) else spec.high
    good = np.isfinite(array) & (array >= spec.low) & (array <= high)
    if not good.all():
        worst = array.ravel()[int(np.argmin(good))]
        raise ValueError(f"`{name}` must be from {spec.low:g} to {high:g}, got {worst}")
