"""Labels of a source that Spark reads, counts and tests; the driver holds the items and the labels, never the lines."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NoReturn

from neatrec.cooccurrence import CooccurrenceCounts, Keep
from neatrec.cooccurrence.spark.engine import count_lines
from neatrec.errors import ParameterError
from neatrec.io import SourceOptions
from neatrec.io.read import resolve_options
from neatrec.io.spark_lines import SparkLines, read_cluster_lines
from neatrec.labels import Labels
from neatrec.labels.config import MAX_BASKET_PAIRS, LabelConfig, checked_levels, level_of
from neatrec.labels.make import LEVELS, labels_from, say_what_is_left_out
from neatrec.labels.run import LabelRun


def labels_of_cluster(
    lines: SparkLines,
    protocol: str = "calibrated",
    levels: Sequence[float] = LEVELS,
    *,
    expected: str = "quasi",
    min_basket: int = 5,
    category_level: str | None = "deepest",
    once_per_customer: bool | None = None,
    max_basket_pairs: int = MAX_BASKET_PAIRS,
    threads: int | None = None,
) -> Labels:
    """The labels that `make_labels` gives for the same baskets, in every number.

    `basket_hash` is of what was looked over (source, columns, sizes), not of the lines, which nobody holds.
    """
    if once_per_customer is None:
        once_per_customer = protocol == "calibrated" and lines.customers_return
    recipe = LabelConfig(
        protocol,
        checked_levels(levels),
        lines.ordered,
        expected,
        (),
        min_basket,
        level_of(lines.catalog, category_level),
        once_per_customer,
        max_basket_pairs,
    )
    say_what_is_left_out(recipe)
    asked = lines.counted_as(recipe.counting)

    def counted(keep: Keep) -> CooccurrenceCounts:
        pairs, totals = count_lines(asked, keep, threads)
        return CooccurrenceCounts(
            asked.catalog, asked.counting, totals, pairs.query, pairs.item, pairs.count, pairs.reverse, pairs.customers
        )

    return labels_from(recipe, *recipe.examine_counted(counted, _no_baskets), basket_hash=_hash(lines))


def run_labels_on_cluster(
    source: str,
    options: SourceOptions,
    protocol: str,
    levels: Sequence[float],
    *,
    seed: int,
    max_basket_pairs: int = MAX_BASKET_PAIRS,
    threads: int | None = None,
    **how: object,
) -> LabelRun:
    """`run_labels` where Spark reads the source."""
    source, options = resolve_options(source, options)
    lines = read_cluster_lines(source, options, max_basket_pairs=max_basket_pairs, threads=threads)
    how |= {"max_basket_pairs": max_basket_pairs, "threads": threads}
    labels = labels_of_cluster(lines, protocol, levels, **how)  # type: ignore[arg-type]
    return LabelRun(labels, None, source, lines.baskets, seed)


def _no_baskets() -> NoReturn:
    raise ParameterError("`strata` need the baskets themselves, which Spark keeps", argument="strata")


def _hash(lines: SparkLines) -> str:
    said = f"{lines.source}|{sorted(lines.options.given().items())}|{sorted(lines.sizes.items())}|{lines.catalog.hash}"
    return hashlib.sha256(said.encode()).hexdigest()
