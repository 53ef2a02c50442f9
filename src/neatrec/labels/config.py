"""How labels are made: the protocol and its options, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from neatrec.cooccurrence import CooccurrenceCounts, CountOptions, Keep, Margins, count
from neatrec.cooccurrence.counts import DEEPEST
from neatrec.data.baskets import Baskets
from neatrec.data.catalog import Catalog
from neatrec.errors import ParameterError, must_be, must_be_one_of
from neatrec.labels.calibrated import CalibratedTest
from neatrec.labels.evidence import PairTest, PairTester
from neatrec.labels.expected_counts import Expected, fit_expected, fit_strata
from neatrec.labels.paper import PaperTest
from neatrec.labels.record import Labels
from neatrec.labels.strata import strata_of
from neatrec.labels.stratum_margins import stratum_margins

PROTOCOLS = ("calibrated", "paper")
EXPECTED = ("quasi", "product")
MAX_BASKET_PAIRS = 200_000_000
Engine = Mapping[str, Any]
"""Options of the counting engine: engine, memory_limit, threads."""


@dataclass(frozen=True)
class LabelConfig:
    """A protocol and its options; what it says of the same baskets never differs."""

    protocol: str
    levels: tuple[float, ...]
    directed: bool
    expected: str = "quasi"
    strata: tuple[str, ...] = ()
    min_basket: int = 5
    category_level: str | None = DEEPEST
    """The level whose pairs are left out; None where they are kept or items have no categories."""
    once_per_customer: bool = False
    max_basket_pairs: int = MAX_BASKET_PAIRS

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise must_be_one_of("protocol", PROTOCOLS, self.protocol)
        if self.expected not in EXPECTED:
            raise must_be_one_of("expected", EXPECTED, self.expected)
        if self.protocol == "paper" and (self.strata or self.expected != "quasi"):
            raise ParameterError(
                "`strata` and `expected` must be left alone with the paper protocol, which has its own expected counts",
                hint="Use protocol='calibrated'.",
            )

    @classmethod
    def of(cls, labels: Labels) -> LabelConfig:
        """The recipe that made `labels`."""
        options: dict[str, Any] = {**labels.options, "strata": tuple(labels.options.get("strata", ()))}
        return cls(labels.protocol, labels.levels, **options)

    @property
    def counting(self) -> CountOptions:
        return CountOptions(
            directed=self.directed,
            min_basket=self.min_basket,
            category_level=self.category_level,
            once_per_customer=self.once_per_customer,
            max_basket_pairs=self.max_basket_pairs,
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
        own = {} if self.protocol == "paper" else {"expected": self.expected, "strata": list(self.strata)}
        return {**common, **own}

    def test_pairs(self, baskets: Baskets, engine: Engine, *, at_least: float = 0.0) -> tuple[PairTester, PairTest]:
        """Count the pairs, keep those that may be labels (and all with p <= `at_least`), and test them."""

        def counted(keep: Keep) -> CooccurrenceCounts:
            return count(baskets, self.counting, keep=keep, **engine)

        return self.examine_counted(counted, lambda: baskets, at_least=at_least)

    def examine_counted(
        self, counted: Callable[[Keep], CooccurrenceCounts], baskets: Callable[[], Baskets], *, at_least: float = 0.0
    ) -> tuple[PairTester, PairTest]:
        """`examine` where `counted` has the pairs that a `keep` leaves; `baskets` are asked for only by strata."""
        if self.protocol == "paper":
            paper = PaperTest(self.levels, self.directed)
            return paper, paper.judge(counted(paper))
        test = CalibratedTest(self.levels, directed=self.directed, fit=self._fit(baskets), at_least=at_least)
        return test, test.judge(counted(test))

    def _fit(self, baskets: Callable[[], Baskets]) -> Callable[[Margins], Expected]:
        """What makes expected counts of the margins of a count: theirs, or those of the strata they are made of."""
        if not self.strata:
            return lambda margins: fit_expected(margins, self.expected, directed=self.directed)
        shop = baskets()
        strata = strata_of(shop, self.strata)

        def fit(margins: Margins) -> Expected:
            parts = stratum_margins(shop, strata, self.counting)
            return fit_strata(parts, margins.category, self.expected, directed=self.directed)

        return fit


def make_label_config(
    baskets: Baskets,
    protocol: str,
    levels: Sequence[float],
    *,
    expected: str,
    strata: Sequence[str],
    min_basket: int,
    category_level: str | None,
    once_per_customer: bool | None,
    max_basket_pairs: int = MAX_BASKET_PAIRS,
) -> LabelConfig:
    """The recipe for these baskets: directed where cart order is known, once a customer where customers return."""
    if isinstance(strata, str):
        raise must_be("strata", "a sequence of names", strata)
    if once_per_customer is None:
        once_per_customer = protocol == "calibrated" and customers_return(baskets)
    return LabelConfig(
        protocol,
        checked_levels(levels),
        baskets.ordered,
        expected,
        tuple(strata),
        min_basket,
        level_of(baskets.catalog, category_level),
        once_per_customer,
        max_basket_pairs,
    )


def level_of(catalog: Catalog, category_level: str | None) -> str | None:
    """The name of the level whose pairs are left out; None where they are kept or items have no categories.

    >>> level_of(Catalog.from_ids(["tea"], categories=["drinks"]), "deepest")
    'category'
    """
    if not catalog.levels:
        return None
    return catalog.levels[-1] if category_level == DEEPEST else category_level


def checked_levels(levels: Sequence[float]) -> tuple[float, ...]:
    """The levels as numbers between 0 and 1, in the order given, each once."""
    try:
        numbers = tuple(dict.fromkeys(float(level) for level in levels))
    except (TypeError, ValueError) as error:
        raise must_be("levels", "a sequence of numbers between 0 and 1", levels) from error
    if not numbers:
        raise must_be("levels", "at least one number between 0 and 1", levels)
    for level in numbers:
        if not 0 < level < 1:
            raise must_be("level", "between 0 and 1", level)
    return numbers


def customers_return(baskets: Baskets) -> bool:
    """Whether users are known and some user has more than one basket."""
    return baskets.users is not None and len(baskets) > 0 and int(np.bincount(baskets.users).max()) > 1
