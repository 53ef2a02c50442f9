"""The data of the paper, and Complete Journey in place of what is not public: training and test baskets, labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from neatrec.data.baskets import Baskets
from neatrec.data.catalog import UNKNOWN, Catalog
from neatrec.data.splits import half
from neatrec.errors import SourceError
from neatrec.io import read_baskets
from neatrec.labels import Labels, make_labels
from neatrec.reproduction.label_tables import PaperDataSet
from neatrec.reproduction.model_tables import PaperComparison
from neatrec.text import printable

JOURNEY_WEEKS = 42
"""Weeks 1 to 42 of Complete Journey train, the others test."""
JOURNEY_PURCHASES = 5
"""Items of Complete Journey bought less often are left out."""
NO_CATEGORY = "(no category)"


@dataclass(frozen=True)
class InstacartData:
    """The orders of the folder."""

    title: ClassVar[str] = "Instacart"
    folder: ClassVar[str] = "instacart"
    """Where its trainings are cached."""
    name: ClassVar[str] = ""
    """Goes into the names of its files."""
    labels: ClassVar[None] = None
    """Made by the leaderboard, from `test`."""

    train: Baskets
    test: Baskets
    ins_e: Baskets
    """All orders that the paper evaluates on (`order_products__train`)."""
    has_prior: bool
    """Whether the folder has the paper's training orders, so that the split is the paper's own."""

    @property
    def split(self) -> dict[str, str]:
        return {"method": "the paper's own: prior orders train, train orders test" if self.has_prior else "half"}

    @property
    def comparison(self) -> PaperComparison:
        return PaperComparison("INS", self.has_prior, "same split, new training" if self.has_prior else "other split")

    def data_sets(self) -> dict[str, PaperDataSet]:
        """Sizes for the data set table, by the paper's names."""
        categories = len(self.ins_e.catalog.category_names[-1])
        prior = self.train if self.has_prior else None
        return {
            "INS-T": PaperDataSet(
                None if prior is None else len(prior),
                None if prior is None else int((prior.item_counts > 0).sum()),
                categories,
                None if prior is None else users_of(prior),
            ),
            "INS-E": PaperDataSet(len(self.ins_e), None, None, users_of(self.ins_e)),
        }


def read_instacart(folder: str | Path) -> InstacartData:
    """The folder's orders, split as in the paper where it has the prior orders, else into halves."""
    baskets = read_baskets(str(folder))
    if "eval_set" not in baskets.attributes:
        raise SourceError(
            f"{printable(folder)} does not hold the Instacart tables",
            file=str(folder),
            hint="Give the folder with orders, products, aisles, departments and order_products__train.",
        )
    attribute = baskets.attributes["eval_set"]
    names = np.array(attribute.names)[attribute.codes]
    ins_e = baskets.select(names == "train")
    if not len(ins_e):
        raise SourceError(
            f"{printable(folder)} has no orders of order_products__train, which the paper evaluates on",
            file=str(folder),
        )
    if (names == "prior").any():
        return InstacartData(baskets.select(names == "prior"), ins_e, ins_e, has_prior=True)
    halves = half(ins_e)
    return InstacartData(halves.train, halves.test, ins_e, has_prior=False)


def users_of(baskets: Baskets) -> int | None:
    return None if baskets.users is None else len(np.unique(baskets.users))


@dataclass(frozen=True)
class JourneyData:
    """Complete Journey, in place of the Walmart data: returning households, no cart order."""

    title: ClassVar[str] = "Complete Journey"
    folder: ClassVar[str] = "journey"
    name: ClassVar[str] = "journey"
    split: ClassVar[Mapping[str, str]] = {"method": "time", "cut": "weeks 1 to 42 train"}
    comparison: ClassVar[PaperComparison] = PaperComparison(
        "WMT", False, "Complete Journey in place of the Walmart data"
    )

    train: Baskets
    test: Baskets
    labels: Labels
    """Paper labels of the test weeks, both items of which the training weeks have."""

    def data_sets(self) -> dict[str, PaperDataSet]:
        """Sizes for the data set table."""
        out = {}
        for name, part in (("training", self.train), ("test", self.test)):
            sold = part.item_counts > 0
            categories = len(np.unique(part.catalog.category_of()[sold]))
            out[f"Complete Journey, {name}"] = PaperDataSet(len(part), int(sold.sum()), categories, users_of(part))
        return out


def read_complete_journey(levels: tuple[float, ...], threads: int | None = None) -> JourneyData:
    """Weeks 1 to 42 against 43 to 53, items bought at least five times; what has no category shares one."""
    baskets = read_baskets("complete-journey")
    baskets = only_items(baskets, baskets.item_counts >= JOURNEY_PURCHASES)
    baskets = replace(baskets, catalog=with_one_unknown(baskets.catalog))
    week = baskets.attributes["week"]
    early = np.array([int(name) for name in week.names])[week.codes] <= JOURNEY_WEEKS
    train, test = baskets.select(early), baskets.select(~early)
    labels = make_labels(test, protocol="paper", levels=levels, threads=threads)
    sold = train.item_counts > 0
    return JourneyData(train, test, only_labels(labels, sold[labels.query] & sold[labels.item]))


def only_items(baskets: Baskets, kept: npt.NDArray[np.bool_]) -> Baskets:
    """The baskets without the items that are not kept; the catalogue stays as it is."""
    lines = kept[baskets.items]
    before = np.concatenate([[0], np.cumsum(lines)])
    return replace(baskets, items=baskets.items[lines], offsets=before[baskets.offsets])


def with_one_unknown(catalog: Catalog) -> Catalog:
    """The catalogue with all items whose deepest category is not known in one category of their own."""
    if catalog.categories is None or not (catalog.categories[:, -1] == UNKNOWN).any():
        return catalog
    codes = catalog.categories.copy()
    names = (*catalog.category_names[-1], NO_CATEGORY)
    codes[codes[:, -1] == UNKNOWN, -1] = len(names) - 1
    return replace(catalog, categories=codes, category_names=(*catalog.category_names[:-1], names))


def only_labels(labels: Labels, kept: npt.NDArray[np.bool_]) -> Labels:
    """Some of the labels."""
    arrays = ("query", "item", "count", "expected", "lift", "lift_low", "lift_high", "statistic", "p")
    chosen = {name: getattr(labels, name)[kept] for name in arrays}
    for name in ("q", "customers", "reverse"):
        array = getattr(labels, name)
        chosen[name] = None if array is None else array[kept]
    return replace(labels, **chosen)
