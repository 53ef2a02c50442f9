"""`make_labels`: baskets in, labels out."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from neatrec.data.baskets import Baskets
from neatrec.labels.config import MAX_BASKET_PAIRS, LabelConfig, make_label_config
from neatrec.labels.evidence import PairTest, PairTester
from neatrec.labels.record import Labels
from neatrec.statistics import garwood_interval, lift
from neatrec.text import plural, printable

log = logging.getLogger(__name__)

LEVELS = (0.05, 0.01, 0.001)
Codes = npt.NDArray[np.int32]
Positions = npt.NDArray[np.int64]


def make_labels(
    baskets: Baskets,
    protocol: str = "calibrated",
    levels: Sequence[float] = LEVELS,
    *,
    expected: str = "quasi",
    strata: Sequence[str] = (),
    min_basket: int = 5,
    category_level: str | None = "deepest",
    once_per_customer: bool | None = None,
    max_basket_pairs: int = MAX_BASKET_PAIRS,
    engine: str = "auto",
    memory_limit: int | str | None = None,
    threads: int | None = None,
) -> Labels:
    """The pairs that go together by `protocol` (calibrated or paper) at `levels`, with their evidence.

    Calibrated: `levels` are false-discovery rates; `expected` is quasi or product; `strata` names columns whose
    differences must not make labels (basket_size, month, any attribute of the baskets). Paper: `levels` are p-values.
    `once_per_customer` None: once a customer where customers return (calibrated), every basket (paper).
    A basket with more than `max_basket_pairs` pairs of lines is refused.

    >>> baskets = Baskets.from_lists([["bun", "sausage"]] * 30 + [["tea", "milk"]] * 30)
    >>> labels = make_labels(baskets, min_basket=2)
    >>> [(labels.catalog.id(q), labels.catalog.id(v)) for q, v in zip(labels.query, labels.item)]
    [('bun', 'sausage'), ('tea', 'milk')]
    """
    recipe = make_label_config(
        baskets,
        protocol,
        levels,
        expected=expected,
        strata=strata,
        min_basket=min_basket,
        category_level=category_level,
        once_per_customer=once_per_customer,
        max_basket_pairs=max_basket_pairs,
    )
    say_what_is_left_out(recipe)
    options = {"engine": engine, "memory_limit": memory_limit, "threads": threads}
    return labels_from(recipe, *recipe.test_pairs(baskets, options), basket_hash=baskets.hash)


def say_what_is_left_out(recipe: LabelConfig) -> None:
    """One line in the log."""
    if recipe.category_level is not None:
        log.info("pairs of one %s are left out", printable(recipe.category_level))


def labels_from(recipe: LabelConfig, test: PairTester, evidence: PairTest, *, basket_hash: str) -> Labels:
    """The pairs that pass, with their evidence; a warning where none does."""
    labels = _labels(recipe, test, evidence, basket_hash)
    if not len(labels):
        log.warning(
            "no labels at %s = %s among %s of %s",
            labels.level_kind,
            max(recipe.levels),
            plural(labels.records, "pair record"),
            plural(labels.baskets, "basket"),
        )
    return labels


def _labels(recipe: LabelConfig, test: PairTester, evidence: PairTest, basket_hash: str) -> Labels:
    thresholds = test.thresholds(evidence, recipe.levels)
    chosen = np.flatnonzero(test.passes(evidence, thresholds[max(recipe.levels)]))
    pairs, totals = evidence.pairs, evidence.pairs.margins
    query, item, source = _both_ways(pairs.query[chosen], pairs.item[chosen], chosen, recipe.directed)
    count, expected = pairs.count[source], evidence.expected[source]
    low, high = garwood_interval(count)
    return Labels(
        protocol=recipe.protocol,
        level_kind=test.level_kind,
        levels=recipe.levels,
        thresholds=thresholds,
        baskets=totals.baskets,
        records=totals.records,
        pairs=totals.pairs,
        basket_hash=basket_hash,
        catalog=pairs.catalog,
        query=query,
        item=item,
        count=count,
        expected=expected,
        lift=lift(count, expected),
        lift_low=lift(low, expected),
        lift_high=lift(high, expected),
        statistic=evidence.statistic[source],
        p=evidence.p[source],
        q=None if evidence.q is None else evidence.q[source],
        customers=None if pairs.customers is None else pairs.customers[source],
        reverse=pairs.reverse[source] if recipe.directed and pairs.reverse is not None else None,
        options=recipe.options,
    )


def _both_ways(query: Codes, item: Codes, source: Positions, directed: bool) -> tuple[Codes, Codes, Positions]:
    """Labels as (query, item, position of the pair): also (item, query) where pairs have no direction."""
    if directed:
        return query, item, source
    query, item = np.append(query, item), np.append(item, query)
    order = np.lexsort((item, query))
    return query[order], item[order], np.append(source, source)[order]
