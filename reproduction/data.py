"""The paper's data, and Complete Journey instead of the Walmart data, which are not public."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from neatrec.data.baskets import Baskets
from neatrec.data.catalog import UNKNOWN, Catalog
from neatrec.data.splits import half
from neatrec.errors import SourceError
from neatrec.io import read_baskets
from neatrec.labels import Labels, make_labels

JOURNEY_WEEKS, JOURNEY_PURCHASES = 42, 5
"""Weeks of Complete Journey that train; purchases below which an item is left out."""


@dataclass(frozen=True)
class PaperData:
    """Training and test baskets of one data set."""

    title: str
    key: str
    """INS or WMT: the paper's tables that the results are compared with."""
    train: Baskets
    test: Baskets
    evaluated: Baskets
    """All orders that the paper evaluates on."""
    split: str
    """Against the paper's: `same split, new training`, `other split`, ..."""
    labels: Labels | None = None
    """None: made from the test baskets by the leaderboard."""

    @property
    def same_split(self) -> bool:
        """Whether the training orders are the paper's own."""
        return self.split.startswith("same split")


def read_instacart(folder: str | Path) -> PaperData:
    """The folder's orders, split as in the paper if it has the prior orders, else into halves."""
    baskets = read_baskets(str(folder))
    if "eval_set" not in baskets.attributes:
        raise SourceError(
            f"{folder} does not hold the Instacart tables",
            file=str(folder),
            hint="It must have orders, products, aisles, departments and order_products__train.",
        )
    attribute = baskets.attributes["eval_set"]
    names = np.array(attribute.names)[attribute.codes]
    evaluated = baskets.select(names == "train")
    if (names == "prior").any():
        prior = baskets.select(names == "prior")
        own = "same split, new training"
        return PaperData("Instacart", "INS", prior, evaluated, evaluated, own)
    halves = half(evaluated)
    return PaperData("Instacart", "INS", halves.train, halves.test, evaluated, "other split")


def read_complete_journey(levels: tuple[float, ...]) -> PaperData:
    """Weeks 1 to 42 against 43 to 53; both items of a label are sold in the training weeks."""
    baskets = read_baskets("complete-journey")
    baskets = only_items(baskets, baskets.item_counts >= JOURNEY_PURCHASES)
    baskets = replace(baskets, catalog=with_one_unknown(baskets.catalog))
    week = baskets.attributes["week"]
    early = np.array([int(name) for name in week.names])[week.codes] <= JOURNEY_WEEKS
    train, test = baskets.select(early), baskets.select(~early)
    labels = make_labels(test, protocol="paper", levels=levels)
    sold = train.item_counts > 0
    labels = _only_labels(labels, sold[labels.query] & sold[labels.item])
    split = "Complete Journey instead of the Walmart data"
    return PaperData("Complete Journey", "WMT", train, test, test, split, labels)


def only_items(baskets: Baskets, kept: npt.NDArray[np.bool_]) -> Baskets:
    """The baskets without the items that are not kept; the catalogue stays as it is."""
    lines = kept[baskets.items]
    before = np.concatenate([[0], np.cumsum(lines)])
    return replace(baskets, items=baskets.items[lines], offsets=before[baskets.offsets])


def with_one_unknown(catalog: Catalog) -> Catalog:
    """The catalogue with the items of unknown category in one category of their own."""
    if catalog.categories is None or not (catalog.categories[:, -1] == UNKNOWN).any():
        return catalog
    codes = catalog.categories.copy()
    names = (*catalog.category_names[-1], "(no category)")
    codes[codes[:, -1] == UNKNOWN, -1] = len(names) - 1
    return replace(catalog, categories=codes, category_names=(*catalog.category_names[:-1], names))


def _only_labels(labels: Labels, kept: npt.NDArray[np.bool_]) -> Labels:
    """Some of the labels."""
    arrays = {
        entry.name: getattr(labels, entry.name)[kept]
        for entry in fields(labels)
        if isinstance(getattr(labels, entry.name), np.ndarray)
    }
    return replace(labels, **arrays)
