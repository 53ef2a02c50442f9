"""How labels are made: `LabelOptions` as given, and `LabelConfig`, what they resolve to for some baskets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, cast

import numpy as np

from neatrec.cooccurrence import CountOptions, Margins, PairBlock, count
from neatrec.cooccurrence.counts import DEEPEST, MAX_BASKET_PAIRS
from neatrec.cooccurrence.expected_counts import Codes, Expected, Floats, StratifiedExpected, fit_expected
from neatrec.cooccurrence.recency import parse_half_life
from neatrec.cooccurrence.spark.lines import SparkLines
from neatrec.cooccurrence.strata import default_strata, parse_strata, strata_groups
from neatrec.data.baskets import Baskets, customers_return
from neatrec.data.catalog import Catalog
from neatrec.errors import ParameterError, must_be, must_be_one_of
from neatrec.labels.calibrated import CalibratedTest
from neatrec.labels.paper import PaperTest
from neatrec.labels.record import Labels, Mask, PairTest, PairTester, pair_codes
from neatrec.statistics import lift

PROTOCOLS = ("calibrated", "paper")
EXPECTED = ("quasi", "product")
LEVELS = (0.05, 0.01, 0.001)
Engine = Mapping[str, Any]
"""Options of the counting engine: engine, memory_limit, threads."""


@dataclass(frozen=True)
class LabelOptions:
    """What a user chooses; checked, before any baskets are read.

    >>> LabelOptions("paper", levels=0.05).levels
    (0.05,)
    """

    protocol: str = "calibrated"
    levels: tuple[float, ...] = LEVELS
    """False-discovery rates (calibrated) or p-values (paper); one number is taken as well."""
    expected: str = "quasi"
    """Expected counts of the calibrated protocol: quasi or product."""
    strata: Sequence[str] | None = None
    """Columns whose differences must not make labels (calibrated): basket_size, month, any attribute of the baskets.
    None: basket size, month and store, as far as the baskets have them; (): none."""
    min_basket: int = 5
    category_level: str | None = DEEPEST
    """Pairs of one category at this level are left out; None keeps them."""
    once_per_customer: bool | None = None
    """None: once per customer where customers return (calibrated), every basket (paper)."""
    max_basket_pairs: int = MAX_BASKET_PAIRS
    """A basket with more pairs of lines is refused."""
    half_life: str | float | None = None
    """A basket counts half after so many days, or "90d", "12w" (calibrated); None: all count the same."""

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise must_be_one_of("protocol", PROTOCOLS, self.protocol)
        if self.expected not in EXPECTED:
            raise must_be_one_of("expected", EXPECTED, self.expected)
        object.__setattr__(self, "strata", parse_strata(self.strata))
        object.__setattr__(self, "half_life", parse_half_life(self.half_life))
        if self.protocol == "paper" and (self.strata or self.expected != "quasi" or self.half_life is not None):
            raise ParameterError(
                "`strata`, `expected` and `half_life` must be left alone with the paper protocol, which has its own "
                "expected counts",
                hint="Use protocol='calibrated'.",
            )
        object.__setattr__(self, "levels", checked_levels(self.levels))

    def resolve(self, baskets: Baskets | SparkLines) -> LabelConfig:
        """Directed where cart order is known, once per customer where customers return, within the strata there are."""
        values = {field.name: getattr(self, field.name) for field in fields(LabelOptions)}
        if self.once_per_customer is None:
            spark = isinstance(baskets, SparkLines)
            again = baskets.customers_return if spark else customers_return(baskets)  # type: ignore[union-attr,arg-type]
            values["once_per_customer"] = self.protocol == "calibrated" and again
        if self.strata is None:
            stratified = self.protocol == "calibrated" and isinstance(baskets, Baskets)
            values["strata"] = default_strata(cast("Baskets", baskets)) if stratified else ()
        values["category_level"] = _level_of(baskets.catalog, self.category_level)
        return LabelConfig(**values, directed=baskets.ordered)


@dataclass(frozen=True)
class LabelConfig(LabelOptions):
    """A protocol and its options; the labels of the same baskets never differ."""

    category_level: str | None = DEEPEST
    """The level whose pairs are left out; None where they are kept or items have no categories."""
    once_per_customer: bool = False
    directed: bool = True

    @classmethod
    def of(cls, labels: Labels) -> LabelConfig:
        """The configuration that made `labels`."""
        return cls(labels.protocol, labels.levels, **labels.options)

    @property
    def counting(self) -> CountOptions:
        return CountOptions(
            directed=self.directed,
            min_basket=self.min_basket,
            category_level=self.category_level,
            once_per_customer=self.once_per_customer,
            max_basket_pairs=self.max_basket_pairs,
            half_life=parse_half_life(self.half_life),
        )

    @property
    def options(self) -> dict[str, Any]:
        """What defines the labels beside protocol and levels, as outputs record it."""
        common = {
            "directed": self.directed,
            "min_basket": self.min_basket,
            "category_level": self.category_level,
            "once_per_customer": self.once_per_customer,
            "max_basket_pairs": self.max_basket_pairs,
        }
        own = {} if self.protocol == "paper" else {"expected": self.expected, "strata": list(self.strata or ())}
        return {**common, **own, **({} if self.half_life is None else {"half_life": self.half_life})}

    def test_pairs(
        self, baskets: Baskets | SparkLines, engine: Engine, *, at_least: float = 0.0
    ) -> tuple[PairTester, PairTest]:
        """Count the pairs, keep those that may be labels (and all with p <= `at_least`), and test them."""
        tester: PairTester = PaperTest(self.levels, self.directed)
        if self.protocol == "calibrated":
            fit = self._expected_of(baskets)
            tester = CalibratedTest(self.levels, directed=self.directed, fit=fit, at_least=at_least)
        return tester, tester.test(count(baskets, self.counting, keep=tester, **engine))

    def lifts_in(self, baskets: Baskets, query: Codes, item: Codes, engine: Engine) -> Floats:
        """The lifts of aligned pairs in other baskets, counted and expected in the same way."""
        keys = pair_codes(query, item)

        def chosen(block: PairBlock, _: Margins) -> Mask:
            return np.isin(pair_codes(block.query, block.item), keys)

        found = count(baskets, self.counting, keep=chosen, **engine)
        times = dict(zip(pair_codes(found.query, found.item).tolist(), found.count.tolist(), strict=True))
        expected = self._expected_of(baskets)(found.margins).of(query, item)
        return lift([times.get(key, 0) for key in keys.tolist()], expected)

    def _expected_of(self, baskets: Baskets | SparkLines) -> Callable[[Margins], Expected]:
        """What makes expected counts of the margins of a count: theirs, or those of the strata they are made of."""
        if not self.strata:
            return lambda margins: fit_expected(margins, self.expected, directed=self.directed)
        if isinstance(baskets, SparkLines):
            raise ParameterError("`strata` need the baskets themselves, which Spark keeps", argument="strata")
        whole, names = baskets, self.strata
        strata_groups(whole, names)  # a column that is not there is refused before anything is counted
        return lambda _: StratifiedExpected.fit(whole, names, self.counting, self.expected)


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
