"""The interface of all models: fit on baskets, score pairs, rank items for an item or a cart, save arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from neatrec.data.baskets import Baskets
from neatrec.data.catalog import Catalog
from neatrec.errors import BundleError, DivergedError, ParameterError, must_be, require_whole
from neatrec.models.arrays import ArraySpec, check_arrays
from neatrec.models.embeddings.kernels.gpu import cupy
from neatrec.models.items import Item, find_items, in_categories, same_category_as
from neatrec.models.parallel import thread_limit
from neatrec.models.parameters import ModelParameters
from neatrec.models.recommendations import CartScorer, CartScores, Ranking, best, score_cart
from neatrec.models.run import Run
from neatrec.text import printable

Codes = npt.NDArray[np.int32]
Scores = npt.NDArray[Any]  # float32 or float64


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

    def get_params(
        self, deep: bool = True
    ) -> dict[str, Any]:  # `deep` is scikit-learn's, and changes nothing here
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
        if self._trained_on is None:
            raise ParameterError(
                f"this {self.name!r} model is not fitted", hint="Call fit(baskets) first."
            )
        return self._trained_on.hash if isinstance(self._trained_on, Baskets) else self._trained_on

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
        return cls._user_arrays is not Model._user_arrays

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
        if self._catalog is None:
            raise ParameterError(
                f"this {self.name!r} model is not fitted", hint="Call fit(baskets) first."
            )
        return self._catalog

    @property
    def item_count(self) -> npt.NDArray[np.int64]:
        """Lines of each item in the training baskets, shape (items,)."""
        if self._item_count is None:
            raise ParameterError(
                f"this {self.name!r} model is not fitted", hint="Call fit(baskets) first."
            )
        return self._item_count

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
        """The best `k` items for an item or a whole cart; fewer where fewer score above `min_score`.

        This is the ranking alone, whatever the evidence; what a shop shows comes from `neatrec.recommend`.

        Items are ids or names. Items of the cart, items that share a category with one of them (unless
        `same_category`) and items that no training basket holds are never recommended. `category` keeps only those of a
        category (its name, or its path as "produce / fresh fruits") or of any of several. Ties go to the smaller code.
        For one item the scores are the model's own. For a cart they are those of `cart_ranking`; without one each
        item's scores are scaled, 0 for its median candidate and 1 for its best, and averaged, so that no item
        dominates because its scores are large.
        """
        k = require_whole("k", k)
        cart = np.unique(find_items(self.catalog, items))
        if not len(cart):
            raise must_be("items", "at least one item", items)
        asked = self._known_queries(cart)
        allowed = self._candidates(cart, category, exclude, same_category)
        candidates = np.flatnonzero(allowed).astype(np.int32)
        notes = tuple(self._unseen_note(code) for code in cart if self.item_count[code] == 0)
        if not len(asked) or not len(candidates):
            return Ranking.empty(self.catalog, cart, notes)
        scored = self.score_cart(asked, candidates)
        if not len(scored.codes):
            return Ranking.empty(self.catalog, cart, notes)
        top = best(scored.total, k)
        codes = scored.codes[top]
        return Ranking(
            self.catalog, cart, codes, scored.total[top], asked, scored.parts(codes), notes
        )

    def score_cart(self, asked: Codes, candidates: Codes) -> CartScores:
        """The scores of `candidates` for a cart of items that the model knows; see `rank`."""
        if self.cart_ranking is None or not self.ranks_as_cart(asked):
            return self._mean_of_scaled(asked, candidates)
        return self.cart_ranking.score(asked, candidates)

    def ranks_as_cart(self, asked: npt.ArrayLike) -> bool:
        """Whether `cart_ranking` ranks for these items."""
        bought = self.item_count[np.asarray(asked, dtype=np.int64)] > 0
        return self.cart_ranking is not None and int(bought.sum()) > 1

    def _mean_of_scaled(self, asked: Codes, candidates: Codes) -> CartScores:
        size = max(1, BLOCK_SCORES // max(len(self.catalog), 1))
        kept = (
            self.score_all(asked) if len(asked) <= size else None
        )  # a large cart of a large shop: a few at a time

        def rows(codes: Codes) -> Iterator[Scores]:
            for first in range(0, len(asked), size):
                scores = self.score_all(asked[first : first + size]) if kept is None else kept
                yield from scores.take(codes, axis=1)

        return score_cart(rows, len(asked), candidates, self.min_score)

    def rank_carts(self, carts: Sequence[Codes], k: int = 10) -> list[Codes]:
        """The codes that `rank` returns for each cart of codes; an item of several carts is scored once."""
        k = require_whole("k", k)
        if type(self).rank is not Model.rank:
            return [self.rank([self.catalog.id(code) for code in cart], k).codes for cart in carts]
        carts, answers = [self._codes("carts", np.unique(cart)) for cart in carts], []
        block_of = np.cumsum([len(cart) for cart in carts]) * len(self.catalog) // BLOCK_SCORES
        for of_block in np.split(np.arange(len(carts)), np.flatnonzero(np.diff(block_of)) + 1):
            block = [carts[place] for place in of_block]
            known = [self._known_queries(cart) for cart in block]
            single = [asked for asked in known if not self.ranks_as_cart(asked)]
            scored = np.unique(np.concatenate([np.zeros(0, dtype=np.int32), *single]))
            scores = self.score_all(scored)
            for cart, asked in zip(block, known, strict=True):
                candidates = np.flatnonzero(self._candidates(cart, None, (), False)).astype(
                    np.int32
                )
                if self.cart_ranking is not None and self.ranks_as_cart(asked):
                    found = self.cart_ranking.score(asked, candidates)
                elif len(asked):
                    rows = scores[np.searchsorted(scored, asked)]
                    found = score_cart(
                        partial(rows.take, axis=1), len(asked), candidates, self.min_score
                    )
                else:
                    answers.append(asked)
                    continue
                answers.append(found.codes[best(found.total, k)])
        return answers

    def _known_queries(self, cart: Codes) -> Codes:
        """The items of the cart for which the model has scores."""
        return cart if self.scores_unseen_items else cart[self.item_count[cart] > 0]

    def _candidates(
        self,
        cart: Codes,
        category: str | Sequence[str] | None,
        exclude: Item | Sequence[Item],
        same_category: bool,
    ) -> npt.NDArray[np.bool_]:
        """Which items may be recommended, shape (items,)."""
        allowed = self.item_count > 0
        allowed[cart] = False
        allowed[find_items(self.catalog, exclude)] = False
        if not same_category:
            allowed &= ~same_category_as(self.catalog, cart, self.category_level)
        if category is not None:
            allowed &= in_categories(self.catalog, category)
        return allowed

    def _unseen_note(self, code: int) -> str:
        return f"{printable(self.catalog.name(code))} is in no training basket"

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


BLOCK_SCORES = 16_000_000
"""Scores in memory per block of carts."""
