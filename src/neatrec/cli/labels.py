"""`neatrec labels`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from neatrec.cli.options import (
    STRATA_HELP,
    THREADS,
    EngineArguments,
    SourceArguments,
    option,
    output_file,
    parse_strata,
)
from neatrec.cli.output import OutputOptions, percent, print_table, write_table
from neatrec.text import printable

if TYPE_CHECKING:
    from neatrec.labels import LabelOptions
    from neatrec.labels.make import LabelRun

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LabelArguments:
    """How labels are made: `LabelOptions` by name."""

    protocol: str = option("calibrated", metavar="calibrated|paper", help="Protocol of the labels.")
    level: list[float] | None = option(
        None, help="Level (paper: p, calibrated: q); repeatable. Default: 0.05 0.01 0.001."
    )
    expected: str = option(
        "quasi",
        metavar="quasi|product",
        help="Expected count by chance (calibrated): quasi-independence, or product of margins.",
    )
    strata: list[str] | None = option(
        None, metavar="A,B|none", help=f"{STRATA_HELP} Calibrated protocol only."
    )
    min_basket: int = option(5, help="Smallest basket that counts.", min=2)
    category_level: str = option(
        "deepest", help="Category level whose pairs are left out; none keeps them."
    )
    per_customer: bool | None = option(
        None,
        "--per-customer/--per-basket",
        help="Unit that counts once. Default: the customer where known (calibrated).",
        show_default=False,
    )
    max_basket_pairs: int = option(
        200_000_000, help="Largest number of pairs in a basket.", min=1, rich_help_panel="Counting"
    )

    def options(self) -> LabelOptions:
        """The options of the labels."""
        from neatrec.labels import LabelOptions

        return LabelOptions(
            protocol=self.protocol,
            levels=tuple(self.level or LabelOptions.levels),
            expected=self.expected,
            strata=parse_strata(self.strata)[0],
            min_basket=self.min_basket,
            category_level=None if self.category_level == "none" else self.category_level,
            once_per_customer=self.per_customer,
            max_basket_pairs=self.max_basket_pairs,
        )


def labels(
    source: SourceArguments,
    engine: EngineArguments,
    output: OutputOptions,
    making: LabelArguments,
    *,
    null_rounds: int = typer.Option(
        0, metavar="N", help="Number of shuffles that count labels by chance.", min=0
    ),
    null_within: str = typer.Option(
        "none", metavar="none|size|size+position", help="Facts of a basket that a shuffle keeps."
    ),
    out: Path | None = typer.Option(None, metavar="F.parquet|F.csv", help="File for the labels."),
    seed: int = typer.Option(0, help="Seed of the shuffles.", min=0),
    threads: int | None = typer.Option(None, rich_help_panel="Counting", **THREADS),
) -> None:
    """Make evaluation labels: the pairs that go together by a protocol, with their certainty."""
    from neatrec.labels.make import run_labels
    from neatrec.labels.null import check_within

    out = output_file(out, (".parquet", ".csv"), source.source)
    options = making.options()
    check_within(null_within)
    selected = engine.start(threads)
    run = run_labels(
        source.read(attributes=parse_strata(making.strata)[1]).baskets,
        options,
        null_rounds=null_rounds,
        null_within=null_within,
        seed=seed,
        engine=selected,
    )
    if out:
        write_table(run.labels.table(), out)
        log.info("wrote %s", printable(out))
    if not output.printed_json(run):
        show_labels(run)


def show_labels(run: LabelRun, strongest: int = 10) -> None:
    """The counts by level and the strongest pairs by name."""
    from neatrec.cooccurrence.strata import strata_words

    labels, null = run.labels, run.null
    columns = ["level", "labels", "chi-squared above"]
    if labels.protocol != "paper":
        columns[2] = "p at most"
    columns += [] if null is None else ["by chance", "false-discovery rate"]
    rows: list[list[object]] = []
    for level in labels.levels:
        number, bound = int(labels.at(level).sum()), labels.thresholds[level]
        rows.append([f"{labels.level_kind} = {level:g}", number, bound])
        if null is not None:
            chance = null.labels[level]
            rows[-1] += [sum(chance) / len(chance), percent(null.fdr[level], 2)]
    note = (
        f"{labels.baskets:,} of {run.baskets:,} baskets have {labels.options['min_basket']} or "
        f"more items: {labels.records:,} co-purchase records, {labels.pairs:,} different pairs"
    )
    strata = strata_words(labels.options["strata"]) if "strata" in labels.options else ""
    note = "\n".join(filter(None, (note, run.advice, strata)))
    print_table(f"Labels, protocol {labels.protocol}", columns, rows, note=note)
    names = labels.catalog.name
    pairs: list[list[object]] = [
        [
            names(labels.query[row]),
            names(labels.item[row]),
            int(labels.count[row]),
            *(float(each[row]) for each in (labels.expected, labels.lift, labels.lift_low)),
        ]
        for row in labels.strongest(strongest)
    ]
    columns = ["query", "goes with", "together", "expected", "lift", "at least"]
    print_table("Strongest pairs", columns, pairs, note=_together(labels.options))


def _together(options: Mapping[str, Any]) -> str:
    """The meaning of "together", which differs from the counts of a bundle.

    >>> print(_together({"once_per_customer": False, "min_basket": 2, "directed": False}))
    together: baskets with both, in baskets of 2 or more items. `recommend` and the page show \
evidence of all baskets, in either order: see docs/explanation/evidence.md.
    """
    unit = "customers" if options["once_per_customer"] else "baskets"
    order = ", the query added first" if options["directed"] else ""
    return (
        f"together: {unit} with both{order}, in baskets of {options['min_basket']} or more items. "
        "`recommend` and the page show evidence of all baskets, in either order: see "
        "docs/explanation/evidence.md."
    )
