"""`fit`: from orders to answers with evidence in a notebook; a thin front over what the command line does."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from neatrec.data.baskets import Baskets
from neatrec.data.table_result import ResultTable
from neatrec.errors import must_be, require_extra, require_whole
from neatrec.text import plural, printable

if TYPE_CHECKING:
    from neatrec.leaderboard.run import LeaderboardOptions, LeaderboardResult
    from neatrec.serving import ServingTable

PAIR_COLUMNS = ["query_name", "item_name", "grade", "strength", "lift", "lift_low", "lift_high", "count", "customers"]
STATISTICS = ("shrunk-lift-tuned", "llr", "popco", "pop")
"""What `Shop.evaluate` compares the model with."""


class Shop:
    """A fitted shop: which items go together, with the evidence for each pair."""

    def __init__(self, baskets: Baskets, bundle: Path, folder: TemporaryDirectory[str] | None = None) -> None:
        from neatrec.serving import ServingTable

        self.baskets, self.bundle = baskets, bundle
        self.index: ServingTable = ServingTable.open(bundle)
        self._folder = folder  # a temporary bundle lives as long as the shop

    def __repr__(self) -> str:
        return f"<Shop {self.index.manifest.model}, {plural(len(self.baskets), 'basket')}, {len(self.index):,} items>"

    def pairs(self, k: int | None = None, *, min_evidence: str = "likely") -> ResultTable:
        """The pairs with evidence, the strongest lower bound of the lift first, each once; the first `k` of them."""
        from neatrec.release.export_rows import answers_table

        k = None if k is None else require_whole("k", k)
        rows = answers_table(self.index, min_evidence=min_evidence, k=self.index.k).sort_by(
            [("lift_low", "descending"), ("query", "ascending"), ("item", "ascending")]
        )
        pairs = map(frozenset, zip(rows["query"].to_pylist(), rows["item"].to_pylist(), strict=True))
        first = {pair: place for place, pair in reversed(list(enumerate(pairs)))}
        found = rows.take(pa.array(sorted(first.values()), pa.int64())).select(PAIR_COLUMNS)
        return ResultTable("Pairs with evidence", found if k is None else found.slice(0, k))

    def goes_with(self, item: str, k: int = 10, **choices: Any) -> ResultTable:
        """What goes with an item, given by id or name; `choices` as for `neatrec.recommend`."""
        return self._answers([item], k, choices)

    def complete(self, cart: Sequence[str], k: int = 10, **choices: Any) -> ResultTable:
        """What completes a cart."""
        if isinstance(cart, str):
            raise must_be("cart", "a list of items", cart, hint="`goes_with` answers for one item.")
        return self._answers(list(cart), k, choices)

    def _answers(self, items: list[str], k: int, choices: Mapping[str, Any]) -> ResultTable:
        from neatrec.serving import recommend

        found = recommend(self.index, items, k, **choices)
        names = ", ".join(self.index.catalog.name(code) for code in found.cart)
        return ResultTable(f"Goes with {names}", found.to_arrow())

    def evaluate(self, *, split: str = "half", options: LeaderboardOptions | None = None) -> LeaderboardResult:
        """The model beside simple statistics, trained on one part of the baskets and evaluated on the other."""
        from neatrec.data.splits import split_baskets
        from neatrec.leaderboard.run import LeaderboardOptions, run_leaderboard

        parts = split_baskets(self.baskets, split)
        models = tuple(dict.fromkeys((self.index.manifest.model, *STATISTICS)))
        if options is None:
            options = LeaderboardOptions(half_life=self.index.pairs.half_life)
        return run_leaderboard(parts.train, parts.test, models, options)

    def plot(self, item: str, k: int = 10) -> Any:
        """A figure of what goes with an item: the lift of each answer with its 95 % interval."""
        require_extra("report", "a figure")
        from matplotlib.figure import Figure

        found = self.goes_with(item, k)
        answers = found.table
        lift, low, high = (
            np.array(answers[name].to_pylist(), dtype=float) for name in ("lift", "lift_low", "lift_high")
        )
        figure = Figure(figsize=(7, 1.2 + 0.35 * len(answers)), layout="constrained")
        axes = figure.subplots()
        place = np.arange(len(answers))[::-1]
        axes.errorbar(lift, place, xerr=np.maximum([lift - low, high - lift], 0), fmt="o", capsize=3)
        axes.axvline(1, color="grey", linestyle=":")
        names = [printable(name, limit=40) for name in answers["item"].to_pylist()]
        axes.set_yticks(place, names, parse_math=False)  # a name with two dollar signs is no formula
        axes.set(xscale="log", xlabel="times more often than chance, with its 95 % interval")
        axes.set_title(printable(found.title, limit=90), parse_math=False)
        figure._repr_png_ = lambda: _png(figure)  # type: ignore[attr-defined]  # a notebook without pyplot shows it, too
        return figure

    def save(self, path: str | Path) -> Path:
        """Copy the bundle to a new folder, for `neatrec serve`, `publish` and `export`."""
        path = Path(path)
        if path.exists():
            raise must_be("path", "a new folder", str(path), hint="Nothing was overwritten.")
        shutil.copytree(self.bundle, path)
        return path

    def serve(self, *, host: str = "127.0.0.1", port: int = 8000) -> None:
        """Serve the page and the API until interrupted."""
        require_extra("serve", "the service")
        from neatrec.service.run import serve
        from neatrec.service.settings import ServiceSettings

        serve(ServiceSettings(bundle=self.bundle.absolute()), host=host, port=port, workers=1, log_config=None)


def _png(figure: Any) -> bytes:
    file = BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def fit(
    orders: Any,
    *,
    model: str | None = None,
    seed: int = 0,
    items: Sequence[str] | None = None,
    half_life: str | float | None = None,
    **columns: Any,
) -> Shop:
    """The shop of a table of orders: a data frame (pandas, polars, Arrow, DuckDB), a path, lists of items, or a sparse
    matrix of baskets by items with the names of its columns in `items`. `columns` as for `read_baskets`. With a
    `half_life` ("90d", "12w", days) old baskets count less.

    >>> shop = fit([["chips", "salsa"], ["chips", "salsa", "tea"], ["tea", "milk"]], model="shrunk-lift")
    >>> shop.goes_with("chips", min_evidence="guess").to_arrow()["item"].to_pylist()[:1]
    ['salsa']
    """
    from neatrec.io.read import as_baskets
    from neatrec.training.train import ModelChoice, TrainOptions, train_bundle

    baskets = as_baskets(orders, items, columns)
    folder = TemporaryDirectory(prefix="neatrec-shop-")
    bundle = Path(folder.name) / "bundle"
    train_bundle(lambda: baskets, bundle, ModelChoice(model=model), TrainOptions(seed=seed, half_life=half_life))
    return Shop(baskets, bundle, folder)
