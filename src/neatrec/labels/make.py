"""`make_labels`: baskets in, labels out; `run_labels` with the shuffle null beside them."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec._version import __version__
from neatrec.cooccurrence.count_book import CountBook
from neatrec.cooccurrence.engine import MEMORY, Engine
from neatrec.cooccurrence.expected_counts import fit_expected
from neatrec.cooccurrence.lift_prior import LEAST_COUNT, lift_prior
from neatrec.data.baskets import Baskets
from neatrec.data.counts import Counts
from neatrec.labels.calibrated import CalibratedTest
from neatrec.labels.config import LabelConfig, LabelOptions
from neatrec.labels.null import NullResult, check_within, shuffle_null
from neatrec.labels.paper import PaperTest
from neatrec.labels.record import Labels
from neatrec.statistics import LiftEstimate, estimate_lifts
from neatrec.text import plural, printable

log = logging.getLogger(__name__)

JSON_FORMAT = 1
DEFAULTS = LabelOptions()
FEW_LABELS = 100
WORTHWHILE = 1.5
"""Smaller baskets are suggested where they give this many times the labels."""
SMALLEST_BASKET = 2
"""The smallest basket that holds a pair."""
COLUMNS = ("count", "expected", "statistic", "p", "q", "customers", "reverse")
"""Columns of the tested pairs that labels have, too."""
Codes = npt.NDArray[np.int32]
Positions = npt.NDArray[np.int64]


def make_labels(
    baskets: Baskets,
    options: LabelOptions = DEFAULTS,
    *,
    engine: Engine = MEMORY,
    **changes: Any,
) -> Labels:
    """Select the pairs that go together by a protocol, with their evidence.

    Parameters
    ----------
    baskets
        The baskets that make the labels.
    options
        Protocol, levels, strata and further options.
    engine
        Engine that counts pairs.
    **changes
        Fields of `LabelOptions`: protocol (calibrated or paper), levels, expected, strata,
        min_basket, category_level, once_per_customer, max_basket_pairs.

    Examples
    --------
    >>> baskets = Baskets.from_lists([["bun", "sausage"]] * 30 + [["tea", "milk"]] * 30)
    >>> labels = make_labels(baskets, min_basket=2)
    >>> [(labels.catalog.id(q), labels.catalog.id(v)) for q, v in zip(labels.query, labels.item)]
    [('bun', 'sausage'), ('tea', 'milk')]
    """
    return labels_of(CountBook(baskets, engine), replace(options, **changes))


def labels_of(book: CountBook, options: LabelOptions = DEFAULTS) -> Labels:
    """`make_labels` of the baskets of a book."""
    baskets = book.baskets
    config = options.resolve(baskets)
    if config.category_level is not None:
        log.info("pairs of one %s are left out", printable(config.category_level))
    test = config.protocol_test
    tested = test.test(book)
    thresholds, passing = _passing(config, test, tested)
    totals, overall, prior = tested.margins, passing.column("expected"), None
    if config.protocol == "calibrated" and len(passing):
        fitted = fit_expected(totals, config.expected, directed=config.directed)
        overall = fitted.of(passing.query, passing.item)
        repeated = book.count("all", replace(config.counting, min_count=LEAST_COUNT))
        prior = lift_prior(repeated, book, config.expected)
    found = estimate_lifts(prior, passing.count, overall).within(
        overall, passing.column("expected")
    )
    evidence = _evidence(passing, found, directed=config.directed)
    labels = Labels(
        protocol=config.protocol,
        level_kind=test.level_kind,
        levels=config.levels,
        thresholds=thresholds,
        baskets=totals.baskets,
        records=totals.records,
        pairs=totals.pairs,
        basket_hash=baskets.hash,
        catalog=tested.catalog,
        options=config.options,
        **evidence,
    )
    if not len(labels):
        log.warning(
            "no labels at %s = %s among %s of %s",
            labels.level_kind,
            max(config.levels),
            plural(labels.records, "pair record"),
            plural(labels.baskets, "basket"),
        )
    return labels


def _passing(
    config: LabelConfig, test: PaperTest | CalibratedTest, tested: Counts
) -> tuple[dict[float, float], Counts]:
    """The threshold of each level, and the pairs that pass at the widest."""
    thresholds = test.thresholds(tested, config.levels)
    return thresholds, tested.where(test.passes(tested, thresholds[max(config.levels)]))


def _evidence(pairs: Counts, found: LiftEstimate, *, directed: bool) -> dict[str, Any]:
    """The columns of `Labels` for the pairs that passed; `found` are their lifts."""
    query, item, source = _both_ways(pairs.query, pairs.item, np.arange(len(pairs)), directed)
    columns = {name: values[source] for name, values in pairs.columns.items()}
    return {
        "query": query,
        "item": item,
        "lift": found.lift[source],
        "lift_low": found.low[source],
        "lift_high": found.high[source],
        **{name: columns.get(name) for name in COLUMNS},
    }


def _both_ways(
    query: Codes, item: Codes, source: Positions, directed: bool
) -> tuple[Codes, Codes, Positions]:
    """Labels as (query, item, position of the pair): also (item, query) where pairs have no direction."""
    if directed:
        return query, item, source
    query, item = np.append(query, item), np.append(item, query)
    order = np.lexsort((item, query))
    return query[order], item[order], np.append(source, source)[order]


def smaller_baskets(
    baskets: Baskets, found: int, options: LabelOptions, engine: Engine = MEMORY
) -> str:
    """A sentence that suggests --min-basket 2 where few labels were found and it gives many more; else "".

    `found` labels came out with `options`.
    """
    if found >= FEW_LABELS or options.min_basket <= SMALLEST_BASKET:
        return ""
    config = replace(options, min_basket=SMALLEST_BASKET).resolve(baskets)
    test = config.protocol_test
    _, passing = _passing(config, test, test.test(CountBook(baskets, engine)))
    more = len(passing) * (1 if config.directed else 2)
    if more < WORTHWHILE * max(found, 1):
        return ""
    few = f"{plural(found, 'label')} from baskets of {options.min_basket} or more items"
    return f"{few}: --min-basket {SMALLEST_BASKET} would give {more:,}."


@dataclass(frozen=True)
class LabelRun:
    """Labels of some baskets and, with null rounds, how many come out by chance."""

    labels: Labels
    null: NullResult | None
    source: str
    baskets: int
    """Baskets read; the smaller ones among them are not counted."""
    seed: int
    advice: str = ""
    """A sentence on how to get more labels, where there are few."""

    def to_json(self) -> dict[str, Any]:
        """The object that `neatrec labels --json` prints."""
        answer = self.labels.to_json()
        answer["null"] = None if self.null is None else self.null.to_json()
        return {
            "format": JSON_FORMAT,
            **answer,
            "source": self.source,
            "baskets_read": self.baskets,
            "advice": self.advice,
            "seed": self.seed,
            "version": __version__,
            "options": dict(self.labels.options),
        }


def run_labels(
    baskets: Baskets,
    options: LabelOptions = DEFAULTS,
    *,
    null_rounds: int = 0,
    null_within: str = "none",
    seed: int = 0,
    engine: Engine = MEMORY,
) -> LabelRun:
    """Labels, and `null_rounds` rounds of the shuffle null."""
    check_within(null_within, ordered=baskets.ordered)
    labels = make_labels(baskets, options, engine=engine)
    null = None
    if null_rounds:
        null = shuffle_null(
            baskets, labels, null_rounds, within=null_within, seed=seed, engine=engine
        )
    advice = smaller_baskets(baskets, len(labels), options, engine)
    return LabelRun(labels, null, baskets.source, len(baskets), seed, advice)
