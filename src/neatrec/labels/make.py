"""`make_labels`: baskets in, labels out; `run_labels` with the shuffle null beside them."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec._version import __version__
from neatrec.cooccurrence.expected_counts import fit_expected
from neatrec.cooccurrence.lift_prior import RepeatedPairs
from neatrec.cooccurrence.spark.lines import SparkLines
from neatrec.data.baskets import Baskets
from neatrec.errors import ParameterError, ResourceError
from neatrec.labels.config import LabelConfig, LabelOptions
from neatrec.labels.null import NullResult, check_within, shuffle_null
from neatrec.labels.record import Labels, PairTest, PairTester
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
Codes = npt.NDArray[np.int32]
Positions = npt.NDArray[np.int64]


def make_labels(
    baskets: Baskets | SparkLines,
    options: LabelOptions = DEFAULTS,
    *,
    engine: str = "auto",
    memory_limit: int | str | None = None,
    threads: int | None = None,
    **changes: Any,
) -> Labels:
    """The pairs that go together by a protocol, with their evidence.

    `changes` are fields of `LabelOptions`: protocol (calibrated or paper), levels, expected, strata, min_basket,
    category_level, once_per_customer, max_basket_pairs, half_life.

    >>> baskets = Baskets.from_lists([["bun", "sausage"]] * 30 + [["tea", "milk"]] * 30)
    >>> labels = make_labels(baskets, min_basket=2)
    >>> [(labels.catalog.id(q), labels.catalog.id(v)) for q, v in zip(labels.query, labels.item)]
    [('bun', 'sausage'), ('tea', 'milk')]
    """
    config = replace(options, **changes).resolve(baskets)
    if config.category_level is not None:
        log.info("pairs of one %s are left out", printable(config.category_level))
    choice: dict[str, Any] = {"engine": engine, "memory_limit": memory_limit, "threads": threads}
    tester, tested = config.test_pairs(baskets, choice)
    thresholds, chosen = _passing(config, tester, tested)
    totals = tested.pairs.margins
    overall, prior = tested.expected[chosen], None
    if config.protocol == "calibrated" and len(chosen):
        fitted = fit_expected(totals, config.expected, directed=config.directed)
        overall = fitted.of(tested.pairs.query[chosen], tested.pairs.item[chosen])
        if engine == "spark" and not isinstance(baskets, SparkLines):
            # a process that holds the lines counts them in less time than Spark starts its stages
            choice |= {"engine": "auto", "memory_limit": None}
        repeated = RepeatedPairs.of(baskets, config.counting, totals.pairs, config.expected, **choice)
        prior = repeated.lift_prior(baskets, **choice)
    found = estimate_lifts(prior, tested.pairs.count[chosen], overall).within(overall, tested.expected[chosen])
    evidence = _evidence(tested, chosen, found, directed=config.directed)
    labels = Labels(
        protocol=config.protocol,
        level_kind=tester.level_kind,
        levels=config.levels,
        thresholds=thresholds,
        baskets=totals.baskets,
        records=totals.records,
        pairs=totals.pairs,
        basket_hash=baskets.hash,
        catalog=tested.pairs.catalog,
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


def _passing(config: LabelConfig, tester: PairTester, tested: PairTest) -> tuple[dict[float, float], Positions]:
    """What decides at each level, and where the pairs stand that pass at the widest."""
    thresholds = tester.thresholds(tested, config.levels)
    return thresholds, np.flatnonzero(tester.passes(tested, thresholds[max(config.levels)]))


def _evidence(tested: PairTest, chosen: Positions, found: LiftEstimate, *, directed: bool) -> dict[str, Any]:
    """The pairs at these places, and what is known of each; `found` are their lifts."""
    pairs = tested.pairs
    query, item, place = _both_ways(pairs.query[chosen], pairs.item[chosen], np.arange(len(chosen)), directed)
    source = chosen[place]
    return {
        "query": query,
        "item": item,
        "count": pairs.count[source],
        "expected": tested.expected[source],
        "lift": found.lift[place],
        "lift_low": found.low[place],
        "lift_high": found.high[place],
        "statistic": tested.statistic[source],
        "p": tested.p[source],
        "q": None if tested.q is None else tested.q[source],
        "customers": None if pairs.customers is None else pairs.customers[source],
        "reverse": pairs.reverse[source] if directed and pairs.reverse is not None else None,
    }


def _both_ways(query: Codes, item: Codes, source: Positions, directed: bool) -> tuple[Codes, Codes, Positions]:
    """Labels as (query, item, position of the pair): also (item, query) where pairs have no direction."""
    if directed:
        return query, item, source
    query, item = np.append(query, item), np.append(item, query)
    order = np.lexsort((item, query))
    return query[order], item[order], np.append(source, source)[order]


def smaller_baskets(baskets: Baskets | SparkLines, found: int, options: LabelOptions, **engine: Any) -> str:
    """A sentence that suggests --min-basket 2 where few labels were found and it gives many more; else "".

    `found` labels came out with `options`; `engine`: engine, memory_limit, threads.
    """
    if found >= FEW_LABELS or options.min_basket <= SMALLEST_BASKET or isinstance(baskets, SparkLines):
        return ""
    config = replace(options, min_basket=SMALLEST_BASKET).resolve(baskets)
    _, chosen = _passing(config, *config.test_pairs(baskets, engine))
    more = len(chosen) * (1 if config.directed else 2)
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
    baskets: Baskets | SparkLines,
    options: LabelOptions = DEFAULTS,
    *,
    null_rounds: int = 0,
    null_within: str = "none",
    seed: int = 0,
    **engine: Any,
) -> LabelRun:
    """Labels, and `null_rounds` rounds of the shuffle null. `engine`: engine, memory_limit, threads."""
    check_within(null_within, ordered=baskets.ordered)
    if null_rounds and isinstance(baskets, SparkLines):
        raise ParameterError("`null_rounds` must be 0 for lines that Spark reads", argument="null_rounds")
    labels = make_labels(baskets, options, **engine)
    null = None
    if null_rounds and isinstance(baskets, Baskets):
        null = shuffle_null(baskets, labels, null_rounds, within=null_within, seed=seed, **engine)
    advice = smaller_baskets(baskets, len(labels), options, **engine)
    return LabelRun(labels, null, baskets.source, len(baskets), seed, advice)


def write_labels(labels: Labels, path: Path) -> None:
    """The label table as Parquet or CSV, by the name's ending; written beside and renamed."""
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq

    beside = path.with_name(f".{path.name}.part")
    try:
        if path.suffix == ".parquet":
            pq.write_table(labels.table(), beside, compression="zstd")
        else:
            pacsv.write_csv(labels.table(), beside)
        beside.replace(path)
    except OSError as error:
        raise ResourceError(f"cannot write {printable(path)}: {printable(error)}", file=str(path)) from error
    finally:
        beside.unlink(missing_ok=True)
