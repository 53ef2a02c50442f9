"""The options of labels: `LabelOptions` as given, `LabelConfig` as resolved for some baskets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from neatrec.cooccurrence import CountOptions, Margins
from neatrec.cooccurrence.expected_counts import StratifiedExpected, fit_expected
from neatrec.cooccurrence.strata import default_strata, parse_strata, strata_groups
from neatrec.data.baskets import Baskets, customers_return
from neatrec.data.catalog import Catalog
from neatrec.data.counts import DEEPEST, MAX_BASKET_PAIRS, Expected
from neatrec.errors import ParameterError, must_be, must_be_one_of
from neatrec.labels.record import Labels

PROTOCOLS = ("calibrated", "paper")
EXPECTED = ("quasi", "product")
LEVELS = (0.05, 0.01, 0.001)
COUNTED = ("directed", "min_basket", "category_level", "once_per_customer", "max_basket_pairs")
"""Options of labels that are options of their count, under the same name."""


@dataclass(frozen=True)
class LabelOptions:
    """The options of a user, checked before any baskets are read.

    >>> LabelOptions("paper", levels=0.05).levels
    (0.05,)
    """

    protocol: str = "calibrated"
    levels: tuple[float, ...] = LEVELS
    """False-discovery rates (calibrated) or p-values (paper): one number or several."""
    expected: str = "quasi"
    """Expected counts of the calibrated protocol: quasi or product."""
    strata: Sequence[str] | None = None
    """Columns whose differences make no labels (calibrated): basket_size, month, any attribute.
    None: basket size, month and store, as far as the baskets have them; (): none."""
    min_basket: int = 5
    category_level: str | None = DEEPEST
    """Pairs of one category at this level are left out; None keeps them."""
    once_per_customer: bool | None = None
    """None: once per customer where customers return (calibrated), every basket (paper)."""
    max_basket_pairs: int = MAX_BASKET_PAIRS
    """A basket with more pairs of lines is refused."""

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise must_be_one_of("protocol", PROTOCOLS, self.protocol)
        if self.expected not in EXPECTED:
            raise must_be_one_of("expected", EXPECTED, self.expected)
        object.__setattr__(self, "strata", parse_strata(self.strata))
        if self.protocol == "paper" and (self.strata or self.expected != "quasi"):
            raise ParameterError(
                "`strata` and `expected` must be left alone with the paper protocol, which has its "
                "own expected counts",
                hint="Use protocol='calibrated'.",
            )
        object.__setattr__(self, "levels", checked_levels(self.levels))

    def resolve(self, baskets: Baskets) -> LabelConfig:
        """Resolve the defaults: by cart order, returning customers and the known strata."""
        values = {field.name: getattr(self, field.name) for field in fields(LabelOptions)}
        calibrated = self.protocol == "calibrated"
        if self.once_per_customer is None:
            values["once_per_customer"] = calibrated and customers_return(baskets)
        if self.strata is None:
            values["strata"] = default_strata(baskets) if calibrated else ()
        strata_groups(baskets, values["strata"] or ())  # refuses a missing column
        values["category_level"] = _level_of(baskets.catalog, self.category_level)
        return LabelConfig(**values, directed=baskets.ordered)


@dataclass(frozen=True)
class LabelConfig(LabelOptions):
    """A protocol with all options resolved: it determines the labels of some baskets."""

    category_level: str | None = DEEPEST
    """The level whose pairs are left out; None: pairs are kept, or items have no categories."""
    once_per_customer: bool = False
    directed: bool = True

    @classmethod
    def of(cls, labels: Labels) -> LabelConfig:
        """The configuration that made `labels`."""
        return cls(labels.protocol, labels.levels, **labels.options)

    @property
    def counting(self) -> CountOptions:
        """The options of the count."""
        return CountOptions(**{name: getattr(self, name) for name in COUNTED})

    @property
    def options(self) -> dict[str, Any]:
        """The options that determine the labels, in addition to protocol and levels."""
        options = {name: getattr(self, name) for name in COUNTED}
        if self.protocol == "calibrated":
            options |= {"expected": self.expected, "strata": list(self.strata or ())}
        return options

    def expected_of(self, baskets: Baskets, margins: Margins) -> Expected:
        """Expected counts with these margins of the baskets, or with the margins of strata."""
        if not self.strata:
            return fit_expected(margins, self.expected)
        return StratifiedExpected.fit(baskets, self.strata, self.counting, self.expected)


def _level_of(catalog: Catalog, category_level: str | None) -> str | None:
    if not catalog.levels:
        return None
    return catalog.levels[-1] if category_level == DEEPEST else category_level


def checked_levels(levels: float | Sequence[float]) -> tuple[float, ...]:
    """One level or several as numbers between 0 and 1, in the order given, each once."""
    try:
        numbers = tuple(dict.fromkeys(float(level) for level in np.atleast_1d(levels)))
    except (TypeError, ValueError) as error:
        raise must_be("levels", "a sequence of numbers between 0 and 1", levels) from error
    if not numbers:
        raise must_be("levels", "at least one number between 0 and 1", levels)
    for level in numbers:
        if not 0 < level < 1:
            raise must_be("level", "between 0 and 1", level)
    return numbers
