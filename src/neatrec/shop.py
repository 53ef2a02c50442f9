"""`fit` and `load`: from orders to answers with evidence in a notebook."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np
import pyarrow as pa

from neatrec.data.baskets import Baskets
from neatrec.data.table_result import ResultTable
from neatrec.errors import must_be, must_be_one_of, require_whole
from neatrec.models.items import Item
from neatrec.text import plural

if TYPE_CHECKING:
    from neatrec.io import SourceOptions
    from neatrec.leaderboard import Leaderboard, LeaderboardOptions
    from neatrec.serving import Answers, PairTable

SHOWN = ("item", "other", "grade", "strength", "lift", "lift_low", "lift_high", "count", "beyond")
"""Columns of the pairs that a notebook shows."""
STATISTICS = ("shrunk-lift-tuned", "llr", "popco", "pop")
"""The models that `Shop.evaluate` compares the model with."""


P = ParamSpec("P")
R = TypeVar("R")


def named(function: Callable[P, R]) -> Callable[P, R]:
    """The function, which refuses an unknown keyword and names the nearest one."""
    known = [name for name in signature(function).parameters if name != "self"]

    @wraps(function)
    def call(*args: P.args, **keywords: P.kwargs) -> R:
        for name in keywords:
            if name not in known:
                raise must_be_one_of("keyword", known, name)
        return function(*args, **keywords)

    return call


class Shop:
    """A fitted shop: which items go together, with the evidence for each pair."""

    def __init__(
        self,
        bundle: Path,
        baskets: Baskets | None = None,
        folder: TemporaryDirectory[str] | None = None,
    ) -> None:
        from neatrec.serving import PairTable

        self.bundle, self.baskets = bundle, baskets
        self.table: PairTable = PairTable.open(bundle)
        self._folder = folder  # a temporary bundle lives as long as the shop

    def __repr__(self) -> str:
        items = plural(len(self.table), "item")
        pairs = f"{len(self.table.pairs.evident):,} pairs with evidence"
        return f"<Shop {self.table.manifest.model}, {items}, {pairs}>"

    def __getstate__(self) -> dict[str, Any]:
        files = {
            file.relative_to(self.bundle).as_posix(): file.read_bytes()
            for file in self.bundle.rglob("*")
            if file.is_file()
        }
        return {"files": files, "baskets": self.baskets}

    def __setstate__(self, state: dict[str, Any]) -> None:
        folder = TemporaryDirectory(prefix="neatrec-shop-")
        bundle = Path(folder.name) / "bundle"
        for name, content in state["files"].items():
            (bundle / name).parent.mkdir(parents=True, exist_ok=True)
            (bundle / name).write_bytes(content)
        Shop.__init__(self, bundle, state["baskets"], folder)

    @named
    def pairs(self, k: int | None = None, *, sort: str = "beyond") -> ResultTable:
        """The pairs with evidence, each once.

        Parameters
        ----------
        k
            Number of pairs; None: all.
        sort
            `beyond` (orders beyond chance), `revenue` (beyond chance, where prices are known),
            `strength` (lower end of the lift), `customers`, `sure`.

        Examples
        --------
        >>> shop = fit([["chips", "salsa"], ["tea", "milk"]] * 40, model="shrunk-lift")
        >>> shop.pairs().to_arrow().select(["item", "other", "grade"]).to_pylist()[0]
        {'item': 'chips', 'other': 'salsa', 'grade': 'certain'}
        """
        from neatrec.serving.answers import ANSWER_SCHEMA
        from neatrec.serving.evidence import PUBLIC
        from neatrec.serving.pair_list import PairList

        k = require_whole("k", k, or_none=True)
        pairs = PairList(self.table)
        if sort not in pairs.orders:
            raise must_be_one_of("sort", tuple(pairs.orders), sort)
        name = self.table.catalog.name
        rows = [
            {
                "item": name(one),
                "other": name(other),
                "grade": evidence.grade,
                "strength": evidence.strength,
                **evidence.to_dict(),
            }
            for one, other, evidence in pairs.evidence(pairs.orders[sort][:k])
        ]
        texts = [(column, pa.string()) for column in ("item", "other", "grade", "strength")]
        schema = pa.schema([*texts, *(ANSWER_SCHEMA.field(column) for column in PUBLIC)])
        shown = (*SHOWN, "revenue") if "revenue" in pairs.orders else SHOWN
        return ResultTable("Pairs with evidence", pa.Table.from_pylist(rows, schema), shown)

    @named
    def all(
        self, k: int = 10, *, min_evidence: str | None = None, same_category: str | None = None
    ) -> ResultTable:
        """The answers of all items as one table, one row per answer, as `neatrec export` writes it.

        Parameters
        ----------
        k
            Number of answers per item.
        min_evidence, same_category
            As for `goes_with`.
        """
        from neatrec.release import AllAnswers
        from neatrec.serving import Filters

        filters = Filters(k=k, min_evidence=min_evidence, same_category=same_category)
        rows = pa.concat_tables(AllAnswers(self.table, filters).tables())
        return ResultTable("Answers of all items", rows)

    @named
    def goes_with(
        self,
        item: Item,
        k: int = 10,
        *,
        min_evidence: str | None = None,
        category: str | Sequence[str] | None = None,
        exclude: Item | Sequence[Item] = (),
        same_category: str | None = None,
        diversify: bool = False,
    ) -> Answers:
        """The answers to an item.

        Parameters
        ----------
        item
            An id or a name.
        k
            Number of answers.
        min_evidence
            `certain`, `likely` (the default) or `guess`.
        category
            Only items of this category, or of any of several.
        exclude
            Ids or names of items that are no answers.
        same_category
            Position of answers from the item's own category: `last`, `exclude`, or `mix`; by
            default as trained.
        diversify
            At most one answer per category.
        """
        from neatrec.serving import recommend

        if not isinstance(item, str | int | np.integer):
            raise must_be("item", "one id or name", item, hint="`complete` answers for a cart.")
        return recommend(
            self.table,
            [item],
            k,
            min_evidence=min_evidence,
            category=category,
            exclude=exclude,
            same_category=same_category,
            diversify=diversify,
        )

    @named
    def complete(
        self,
        cart: Sequence[Item],
        k: int = 10,
        *,
        min_evidence: str | None = None,
        category: str | Sequence[str] | None = None,
        exclude: Item | Sequence[Item] = (),
        same_category: str | None = None,
        diversify: bool = False,
    ) -> Answers:
        """The answers to a cart; the parameters are those of `goes_with`."""
        from neatrec.serving import recommend

        if isinstance(cart, str | int | np.integer):
            raise must_be("cart", "a list of items", cart, hint="`goes_with` answers for one item.")
        return recommend(
            self.table,
            list(cart),
            k,
            min_evidence=min_evidence,
            category=category,
            exclude=exclude,
            same_category=same_category,
            diversify=diversify,
        )

    @named
    def evaluate(
        self, *, split: str = "half", options: LeaderboardOptions | None = None
    ) -> Leaderboard:
        """The model beside simple statistics, trained and evaluated on two parts of the baskets."""
        from neatrec.data.splits import split_baskets
        from neatrec.leaderboard import LeaderboardOptions, run_leaderboard

        if self.baskets is None:
            raise must_be("shop", "made by `fit`: a bundle holds no baskets", str(self.bundle))
        parts = split_baskets(self.baskets, split)
        models = tuple(dict.fromkeys((self.table.manifest.model, *STATISTICS)))
        return run_leaderboard(parts.train, parts.test, models, options or LeaderboardOptions())

    def save(self, path: str | Path) -> Path:
        """Copy the bundle to a new folder, for `load`, `neatrec serve`, `publish` and `export`."""
        path = Path(path)
        if path.exists():
            raise must_be("path", "a new folder", str(path), hint="Nothing was overwritten.")
        shutil.copytree(self.bundle, path)
        return path


def load(path: str | Path) -> Shop:
    """The shop of a bundle, or of the live version of a store.

    Parameters
    ----------
    path
        Folder of the bundle or the store.

    Examples
    --------
    >>> load("bundle").goes_with("Tortilla Chips")  # doctest: +SKIP
    """
    from neatrec.bundle.versions import bundle_in

    return Shop(bundle_in(path))


@named
def fit(
    orders: Any,
    *,
    basket: str | None = None,
    item: str | None = None,
    user: str | None = None,
    position: str | None = None,
    time: str | None = None,
    name: str | None = None,
    category: str | Sequence[str] = (),
    group: str | None = None,
    quantity: str | None = None,
    price: str | None = None,
    catalog: Any = None,
    since: str | None = None,
    until: str | None = None,
    options: SourceOptions | None = None,
    model: str | None = None,
    settings: Mapping[str, Any] | None = None,
    strata: Sequence[str] | None = None,
    same_category: str = "last",
    seed: int = 0,
) -> Shop:
    """The shop of a table of orders.

    Parameters
    ----------
    orders
        A data frame (pandas, polars, Arrow, DuckDB), a path, or lists of items.
    basket, item, user, position, time, name, category, group, quantity, price
        Columns: the order, the item, the customer, the cart position, the time, the item's name,
        its categories (shallow to deep), the product of a variant, the quantity, the price of one
        item. Usual names are recognized.
    catalog
        Items with names and categories: a data frame or a path.
    since, until
        Baskets from this date on, and before this date.
    options
        Further options of the source; the arguments above come before them.
    model
        Name of a model; by default the one of `neatrec train`.
    settings
        Parameters of the model by name.
    strata
        Columns within which evidence is measured; None: basket size, month and store, as far as
        they are known, (): none.
    same_category
        Position of answers from the query's own category, unless a question names one: `last`,
        `exclude`, or `mix`.
    seed
        Seed of all random numbers.

    Examples
    --------
    >>> orders = [["chips", "salsa"], ["chips", "salsa", "tea"], ["tea", "milk"]]
    >>> shop = fit(orders, model="shrunk-lift")
    >>> shop.goes_with("chips", min_evidence="guess").to_arrow()["item"].to_pylist()[:1]
    ['salsa']
    """
    from neatrec.io.read import as_baskets
    from neatrec.training.train import ModelChoice, TrainOptions, train_bundle

    given: dict[str, Any] = {
        "basket": basket,
        "item": item,
        "user": user,
        "position": position,
        "time": time,
    }
    given |= {"name": name, "category": category or None, "group": group, "quantity": quantity}
    given |= {"price": price, "catalog": catalog, "since": since, "until": until}
    columns = {key: value for key, value in given.items() if value is not None}
    baskets = as_baskets(orders, columns, options)
    folder = TemporaryDirectory(prefix="neatrec-shop-")
    bundle = Path(folder.name) / "bundle"
    choice = ModelChoice(model=model, parameters=dict(settings or {}))
    training = TrainOptions(seed=seed, strata=strata, same_category=same_category)
    train_bundle(lambda: baskets, bundle, choice, training)
    return Shop(bundle, baskets, folder)
