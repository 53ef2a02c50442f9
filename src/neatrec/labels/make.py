"""`make_labels`: labels of baskets; `run_labels`: labels with the shuffle null."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from neatrec._version import __version__
from neatrec.cooccurrence.counting import MEMORY, CountBook, Engine
from neatrec.cooccurrence.expected_counts import fit_expected
from neatrec.cooccurrence.lift_prior import LEAST_COUNT, lift_prior
from neatrec.data.baskets import Baskets
from neatrec.data.counts import Counts
from neatrec.labels.config import LabelOptions
from neatrec.labels.null import NullResult, check_within, shuffle_null
from neatrec.labels.protocols import run_test
from neatrec.labels.record import Labels
from neatrec.statistics import LiftEstimate, estimate_lifts
from neatrec.text import plural, printable

log = logging.getLogger(__name__)

JSON_FORMAT = 1
DEFAULTS = LabelOptions()
FEW_LABELS = 100
WORTHWHILE = 1.5
"""Smaller baskets are suggested if they give this many times the labels."""
SMALLEST_BASKET = 2
"""The smallest basket that holds a pair."""
COLUMNS = ("count", "expected", "statistic", "p", "q", "customers", "reverse")
"""Columns that labels take from the tested pairs."""


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
    """Make the labels of the baskets of a book."""
    baskets = book.baskets
    config = options.resolve(baskets)
    if config.category_level is not None:
        log.info("pairs of one %s are left out", printable(config.category_level))
    pairs = run_test(config, book)
    passing, totals = pairs.labels, pairs.tested.margins
    expected, prior = passing.column("expected"), None
    overall = expected
    if config.protocol == "calibrated" and len(passing):
        fitted = fit_expected(totals, config.expected)
        overall = fitted.of(passing.query, passing.item)
        repeated = book.count(
            "all", replace(config.counting, min_count=LEAST_COUNT, customers=False)
        )
        prior = lift_prior(repeated, book, config.expected)
    lifts = estimate_lifts(prior, passing.count, overall).within(overall, expected)
    labels = Labels(
        protocol=config.protocol,
        level_kind=pairs.level_kind,
        levels=config.levels,
        thresholds=pairs.thresholds,
        baskets=totals.baskets,
        records=totals.records,
        pairs=totals.pairs,
        basket_hash=baskets.hash,
        catalog=baskets.catalog,
        options=config.options,
        **_evidence(passing, lifts, directed=config.directed),
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


def _evidence(pairs: Counts, lifts: LiftEstimate, *, directed: bool) -> dict[str, Any]:
    """The columns of `Labels`; without direction a pair is a label both ways."""
    query, item, source = pairs.query, pairs.item, np.arange(len(pairs))
    if not directed:
        query, item = np.append(query, item), np.append(item, query)
        order = np.lexsort((item, query))
        query, item, source = query[order], item[order], np.append(source, source)[order]
    columns = {
        name: values[source].astype(np.int64 if values.dtype.kind == "i" else values.dtype)
        for name, values in pairs.columns.items()
    }
    return {
        "query": query,
        "item": item,
        "lift": lifts.lift[source],
        "lift_low": lifts.low[source],
        "lift_high": lifts.high[source],
        **{name: columns.get(name) for name in COLUMNS},
    }


def smaller_baskets(
    baskets: Baskets, labels: int, options: LabelOptions, engine: Engine = MEMORY
) -> str:
    """The sentence that suggests --min-basket 2 if it gives many more than `labels`; else ""."""
    if labels >= FEW_LABELS or options.min_basket <= SMALLEST_BASKET:
        return ""
    config = replace(options, min_basket=SMALLEST_BASKET).resolve(baskets)
    more = len(run_test(config, CountBook(baskets, engine)).labels)
    more *= 1 if config.directed else 2
    if more < WORTHWHILE * max(labels, 1):
        return ""
    few = f"{plural(labels, 'label')} from baskets of {options.min_basket} or more items"
    return f"{few}: --min-basket {SMALLEST_BASKET} would give {more:,}."


@dataclass(frozen=True)
class LabelRun:
    """Labels of some baskets and, with null rounds, the numbers of labels by chance."""

    labels: Labels
    null: NullResult | None
    source: str
    baskets: int
    """Number of baskets, including those below `min_basket`."""
    seed: int
    advice: str = ""
    """A sentence that suggests how to get more labels, where there are few."""

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
    """Make labels, and run `null_rounds` rounds of the shuffle null."""
    check_within(null_within, ordered=baskets.ordered)
    labels = make_labels(baskets, options, engine=engine)
    null = None
    if null_rounds:
        null = shuffle_null(
            baskets, labels, null_rounds, within=null_within, seed=seed, engine=engine
        )
    advice = smaller_baskets(baskets, len(labels), options, engine)
    return LabelRun(labels, null, baskets.source, len(baskets), seed, advice)
