"""The interface of all models: fit on baskets, score pairs, rank items for an item or a cart, save arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from neatrec.data.baskets import Baskets, BasketStream, as_shards, is_orders
from neatrec.data.catalog import Catalog
from neatrec.errors import BundleError, DivergedError, ParameterError, must_be, require_whole
from neatrec.models.cart_ranking import CartRanking
from neatrec.models.embeddings.kernels.gpu import cupy
from neatrec.models.items import Item, find_items, in_categories, same_category_as
from neatrec.models.parallel import thread_limit
from neatrec.models.parameters import ModelParameters
from neatrec.models.recommendations import CartScores, Ranking, best, count_new, score_cart
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
    uses_vectors: ClassVar[bool] = False
    """Whether a fit uses `Run.vectors`."""
    trains_in_epochs: ClassVar[bool] = False
    """Whether a fit can use validation baskets, stop early and be resumed."""
    min_score: ClassVar[float] = -np.inf
    """`rank` leaves out items that score no higher: 0 where 0 means never bought together."""

    goals: ClassVar[tuple[str, ...]] = ()
    """What one fit can rank its answers for, by the parameter `goal`; the first is the default."""
    reason: ClassVar[str] = "similar"
    """Why it recommends a pair without evidence in the counts: similar items, `popular` items, or none but `counts`."""

    def __init__(self, parameters: ModelParameters | None = None) -> None:
        self.parameters: Any = self.Parameters() if parameters is None else parameters
        if type(self.parameters) is not self.Parameters:
            raise must_be("parameters", f"the {self.Parameters.__name__} of {self.name!r}", parameters)
        self.user_ids: pa.LargeStringArray | None = None
        self.seed: int | None = None
        """That of the fit; None where a generator was given."""
        self._trained_on: Baskets | str | None = None
        self._catalog: Catalog | None = None
        self._item_count: npt.NDArray[np.int64] | None = None
        self.cart_ranking: CartRanking | None = None
        """How it ranks for a cart of several items, where that is not the mean of their scaled scores."""

    # ---- fitting

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # `deep` is scikit-learn's, and changes nothing here
        """The parameters by name."""
        return dict(self.parameters.to_dict())

    def fit(self, baskets: BasketStream | Any, run: Run | None = None) -> Self:
        """The model itself, fitted on `baskets`: baskets, shards over one catalogue (iterated as often as needed), or
        what `neatrec.read_baskets` reads with the usual names of columns, such as a data frame."""
        run = Run() if run is None else run
        if is_orders(baskets):
            from neatrec.io.read import as_baskets

            baskets = as_baskets(baskets)
        self.check_run(run, validation=run.validation is not None)
        shards = as_shards(baskets)
        catalog, count = self._scan_shards(shards)
        _check_vectors(run, len(catalog))
        self._catalog, self._item_count, self.user_ids = catalog, count, None
        self.seed = run.rng if isinstance(run.rng, int) else None
        self._trained_on = baskets if isinstance(baskets, Baskets) else None
        with thread_limit(run.threads):
            self._fit(shards, run)
        return self

    def set_origin(self, baskets_hash: str, seed: int | None) -> None:
        """What a bundle knows of the fit."""
        self._trained_on, self.seed = baskets_hash, seed

    @property
    def baskets_hash(self) -> str | None:
        """The hash of the baskets it was fitted on; None where they were a stream."""
        return self._trained_on.hash if isinstance(self._trained_on, Baskets) else self._trained_on

    def check_run(self, run: Run, *, validation: bool = False) -> None:
        """Refuse what a fit cannot honor, before any basket is read; `validation`: whether there will be some."""
        if run.device not in ("auto", *self.devices):
            raise must_be("device", f"{' or '.join(self.devices)} for model {self.name!r}", run.device)
        if run.device == "gpu":
            cupy()
        for option, asked in (("validation", validation), ("resume", run.resume)):
            if asked and not self.trains_in_epochs:
                raise ParameterError(
                    f"`{option}` is of no use to model {self.name!r}, which does not train in epochs",
                    hint=f"Leave {option} out, or choose a model that does, such as neat.",
                    argument=option,
                )

        if run.vectors is not None and not self.uses_vectors:
            raise ParameterError(
                f"`vectors` are of no use to model {self.name!r}, which learns from baskets alone",
                hint="Leave vectors out, or choose a model that uses them, such as bayes.",
                argument="vectors",
            )

    def fit_key(self) -> tuple[str, dict[str, Any]]:
        """Models with equal keys have equal arrays after a fit: one fit serves them all."""
        return getattr(self, "shares_fit_with", self.name), self.parameters.to_dict()

    def fit_device(self, run: Run) -> str:
        """`gpu` where `run` fits the model on a GPU, to other bits than on the CPU; else `cpu`."""
        return "cpu"

    @classmethod
    def has_user_arrays(cls) -> bool:
        """Whether it has arrays of users that a bundle may keep."""
        return cls._user_arrays is not Model._user_arrays

    def _scan_shards(self, shards: Iterable[Any]) -> tuple[Catalog, npt.NDArray[np.int64]]:
        """One pass over the stream: the catalog, and the number of lines of each item, shape (items,)."""
        catalog: Catalog | None = None
        count = np.zeros(0, dtype=np.int64)
        for number, shard in enumerate(shards):
            if not isinstance(shard, Baskets):
                wanted = "baskets, shards of them, or a table of orders"
                raise must_be("baskets", wanted, f"{type(shards).__name__} of {type(shard).__name__}")
            if catalog is None:
                catalog, count = shard.catalog, np.zeros(len(shard.catalog), dtype=np.int64)
            elif shard.catalog is not catalog and shard.catalog.hash != catalog.hash:
                raise ParameterError(f"`baskets` must be shards over one catalogue, shard {number} has another")
            if self.needs_users and shard.users is None:
                raise ParameterError(
                    f"model {self.name!r} learns from users, and the users of these baskets are not known",
                    hint="Name the user column, or choose a model that needs none.",
                )
            count += shard.item_counts
        if catalog is None or not count.any():
            raise ParameterError("`baskets` must hold at least one line, got none")
        return catalog, count

    @abstractmethod
    def _fit(self, shards: Iterable[Baskets], run: Run) -> None:
        """Fit on the shards. `self.catalog` and `self.item_count` are set already."""

    @property
    def catalog(self) -> Catalog:
        """The items it was fitted on."""
        if self._catalog is None:
            raise ParameterError(f"this {self.name!r} model is not fitted", hint="Call fit(baskets) first.")
        return self._catalog

    @property
    def item_count(self) -> npt.NDArray[np.int64]:
        """Lines of each item in the training baskets, shape (items,)."""
        if self._item_count is None:
            raise ParameterError(f"this {self.name!r} model is not fitted", hint="Call fit(baskets) first.")
        return self._item_count

    @property
    def category_level(self) -> str | None:
        """The category level at which two items count as alike: a name, or None for the deepest."""
        level = getattr(self.parameters, "category_level", None)
        return None if level in (None, "deepest") else str(level)

    def with_goal(self, goal: str) -> Self:
        """The same fit, ranking its answers for another goal."""
        raise no_goals(self.name, goal)

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

    def score_goals(self, queries: npt.ArrayLike) -> dict[str, Scores]:
        """`score_all` by each goal."""
        return {goal: self.with_goal(goal).score_all(queries) for goal in self.goals}

    def score_pairs_by_goal(self, queries: Codes, items: Codes) -> dict[str, Scores]:
        """`score` by each goal."""
        return {goal: self.with_goal(goal).score(queries, items) for goal in self.goals}

    def related_items(self, queries: Codes) -> tuple[npt.NDArray[np.int64], Codes]:
        """The items among which the best of each query are mostly found, (start, items), where the model knows them."""
        raise ParameterError(f"model {self.name!r} does not know related items", argument="model")

    @classmethod
    def knows_related_items(cls) -> bool:
        """Whether an approximate table can be made of `related_items`, by every goal; a model needs goals for it."""
        return bool(cls.goals) and cls.related_items is not Model.related_items

    @abstractmethod
    def _score(self, queries: Codes, items: Codes) -> Scores: ...

    @abstractmethod
    def _score_all(self, queries: Codes) -> Scores: ...

    def _codes(self, argument: str, codes: npt.ArrayLike) -> Codes:
        array = np.atleast_1d(np.asarray(codes))
        if array.size == 0:
            return np.zeros(0, dtype=np.int32)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise must_be(argument, "one-dimensional item codes", codes, hint="`find_items` turns ids into codes.")
        if array.min() < 0 or array.max() >= len(self.catalog):
            raise must_be(argument, f"codes of the catalogue (0 to {len(self.catalog) - 1})", int(array.max()))
        return array.astype(np.int32, copy=False)

    def _without_nan(self, scores: Scores) -> Scores:
        if np.isnan(scores).any():
            raise DivergedError(f"model {self.name!r} has scores that are not numbers", hint="Train it again.")
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
        include_new: bool = False,
    ) -> Ranking:
        """The best `k` items for an item or a whole cart; fewer where fewer score above `min_score`.

        This is the ranking alone, whatever the evidence; what a shop shows comes from `neatrec.recommend`.

        Items are ids, names or codes. Items of the cart, items that share a category with one of them (unless
        `same_category`) and items that no training basket holds are never recommended. `category` keeps only those of a
        category (its name, or its path as "produce / fresh fruits") or of any of several. Ties go to the smaller code.
        With `include_new` the `new_items` of the model come last: in places that would be empty, and in the last of ten
        places where they score higher (`count_new`).

        For one item the scores are the model's own. For a cart they are those of `cart_ranking`; without one each
        item's scores are scaled, 0 for its median candidate and 1 for its best, and averaged, so that no item
        dominates because its scores are large.
        """
        k = require_whole("k", k)
        cart = np.unique(find_items(self.catalog, items))
        if not len(cart):
            raise must_be("items", "at least one item", items)
        asked = self._known_queries(cart)
        allowed = self._candidates(cart, category, exclude, same_category, include_new)
        candidates = np.flatnonzero(allowed).astype(np.int32)
        notes = tuple(self._unseen_note(code) for code in cart if self.item_count[code] == 0)
        if not len(asked) or not len(candidates):
            return Ranking.empty(self.catalog, cart, notes)
        scored = self.score_cart(asked, candidates)
        if not len(scored.codes):
            return Ranking.empty(self.catalog, cart, notes)
        top = best(scored.total, k)
        if include_new:
            is_new = self.item_count[scored.codes] == 0
            known, new = (
                each[best(scored.total[each], k)] for each in (np.flatnonzero(~is_new), np.flatnonzero(is_new))
            )
            size = count_new(scored.total[known], scored.total[new], k)
            top = np.concatenate([known[: k - size], new[:size]])
        codes = scored.codes[top]
        return Ranking(self.catalog, cart, codes, scored.total[top], asked, scored.parts(codes), notes)

    def score_cart(self, asked: Codes, candidates: Codes) -> CartScores:
        """The scores of `candidates` for a cart of items that the model knows; see `rank`."""
        if self.cart_ranking is None or not self.ranks_as_cart(asked):
            return self._mean_of_scaled(asked, candidates)
        new = candidates[self.item_count[candidates] == 0]
        ranked = self.cart_ranking.score(asked, candidates)
        return ranked.above(self._mean_of_scaled(asked, new)) if len(new) else ranked

    def ranks_as_cart(self, asked: npt.ArrayLike) -> bool:
        """Whether `cart_ranking` ranks for these items: for every goal alike."""
        bought = self.item_count[np.asarray(asked, dtype=np.int64)] > 0
        return self.cart_ranking is not None and int(bought.sum()) > 1

    def _mean_of_scaled(self, asked: Codes, candidates: Codes) -> CartScores:
        size = max(1, BLOCK_SCORES // max(len(self.catalog), 1))
        kept = self.score_all(asked) if len(asked) <= size else None  # a large cart of a large shop: a few at a time

        def rows(codes: Codes) -> Iterator[Scores]:
            for first in range(0, len(asked), size):
                scores = self.score_all(asked[first : first + size]) if kept is None else kept
                yield from scores.take(codes, axis=1)

        return score_cart(rows, len(asked), candidates, self.min_score)

    def rank_carts(self, carts: Sequence[Codes], k: int = 10) -> list[Codes]:
        """The codes that `rank` returns for each cart of codes; an item of several carts is scored once."""
        k = require_whole("k", k)
        if type(self).rank is not Model.rank:
            return [self.rank(cart.tolist(), k).codes for cart in carts]
        carts, answers = [self._codes("carts", np.unique(cart)) for cart in carts], []
        block_of = np.cumsum([len(cart) for cart in carts]) * len(self.catalog) // BLOCK_SCORES
        for of_block in np.split(np.arange(len(carts)), np.flatnonzero(np.diff(block_of)) + 1):
            block = [carts[place] for place in of_block]
            known = [self._known_queries(cart) for cart in block]
            single = [asked for asked in known if not self.ranks_as_cart(asked)]
            scored = np.unique(np.concatenate([np.zeros(0, dtype=np.int32), *single]))
            scores = self.score_all(scored)
            for cart, asked in zip(block, known, strict=True):
                candidates = np.flatnonzero(self._candidates(cart, None, (), False, False)).astype(np.int32)
                if self.cart_ranking is not None and self.ranks_as_cart(asked):
                    found = self.cart_ranking.score(asked, candidates)
                elif len(asked):
                    rows = scores[np.searchsorted(scored, asked)]
                    found = score_cart(partial(rows.take, axis=1), len(asked), candidates, self.min_score)
                else:
                    answers.append(asked)
                    continue
                answers.append(found.codes[best(found.total, k)])
        return answers

    @property
    def new_items(self) -> npt.NDArray[np.bool_]:
        """Items that nobody bought and that have scores as answers all the same, shape (items,)."""
        return np.zeros(len(self.catalog), dtype=np.bool_)

    def check_new_items(self) -> None:
        """Refuse `include_new` where the model has no scores for answers that nobody bought."""
        if type(self).new_items is Model.new_items:
            raise must_be(
                "include_new",
                f"left out: model {self.name!r} has no scores for items that nobody bought",
                True,
                hint="Train `bayes` to recommend new items.",
            )

    def _known_queries(self, cart: Codes) -> Codes:
        """The items of the cart for which the model has scores."""
        return cart if self.scores_unseen_items else cart[self.item_count[cart] > 0]

    def _candidates(
        self,
        cart: Codes,
        category: str | Sequence[str] | None,
        exclude: Item | Sequence[Item],
        same_category: bool,
        include_new: bool,
    ) -> npt.NDArray[np.bool_]:
        """Which items may be recommended, shape (items,)."""
        if include_new:
            self.check_new_items()
        allowed = (self.item_count > 0) | (self.new_items & include_new)
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
        cls, parameters: ModelParameters | None, catalog: Catalog, arrays: Mapping[str, npt.NDArray[Any]]
    ) -> Self:
        """The model that `arrays` came from."""
        model = cls(parameters)
        try:
            count = np.ascontiguousarray(arrays["item_count"], dtype=np.int64)
            if count.shape != (len(catalog),):
                wanted = f"{len(catalog):,} values, one per item"
                raise BundleError(f"`item_count` must have {wanted}, got shape {count.shape}")
            model._catalog, model._item_count = catalog, count
            model._restore(arrays)
        except (KeyError, ValueError, IndexError, TypeError) as error:
            raise BundleError(f"these are not the arrays of a {cls.name!r} model: {printable(repr(error))}") from error
        return model

    @abstractmethod
    def _arrays(self) -> dict[str, npt.NDArray[Any]]: ...

    def _user_arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {}

    @abstractmethod
    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Restore the arrays of `_arrays` (and of `_user_arrays`, where they were saved)."""


def require_shapes(arrays: Mapping[str, npt.NDArray[Any]], shapes: Mapping[str, tuple[str, ...]], items: int) -> None:
    """Refuse arrays of a file that do not fit together: compiled loops read as far as the shapes promise.

    Lengths of one name are equal; `items` is that of the catalogue.
    """
    lengths = {"items": items}
    for name, shape in shapes.items():
        found = arrays[name].shape
        wanted = tuple(lengths.setdefault(dimension, length) for dimension, length in zip(shape, found, strict=False))
        if found != wanted or len(found) != len(shape):
            raise ValueError(f"`{name}` must have the shape ({', '.join(shape)}), got {found}")


def no_goals(name: str, goal: str) -> ParameterError:
    """A goal was asked of a model without any."""
    return must_be("goal", f"left out: model {name!r} has one ranking", goal, hint="Train `bayes` to choose a goal.")


def _check_vectors(run: Run, items: int) -> None:
    if run.vectors is not None and (run.vectors.ndim != 2 or len(run.vectors) != items):
        raise must_be("vectors", f"of shape (items, dim) with {items:,} items", run.vectors.shape)


BLOCK_SCORES = 16_000_000
"""Scores in memory per block of carts."""
