"""`neatrec labels`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from neatrec.cli.options import (
    STRATA_HELP,
    THREADS,
    EngineArguments,
    SourceArguments,
    output_file,
    strata_names,
)
from neatrec.cli.output import OutputOptions, percent, print_table, write_table
from neatrec.text import printable

if TYPE_CHECKING:
    from neatrec.labels.make import LabelRun

log = logging.getLogger(__name__)


def labels(
    source: SourceArguments,
    engine: EngineArguments,
    output: OutputOptions,
    *,
    protocol: str = typer.Option(
        "calibrated", metavar="calibrated|paper", help="Protocol of the labels."
    ),
    level: list[float] | None = typer.Option(
        None, help="Level (paper: p, calibrated: q); repeatable. Default: 0.05 0.01 0.001."
    ),
    strata: list[str] | None = typer.Option(
        None, metavar="A,B|none", help=f"{STRATA_HELP} Calibrated protocol only."
    ),
    min_basket: int = typer.Option(5, help="Smallest basket that counts.", min=2),
    category_level: str = typer.Option(
        "deepest", help="Category level whose pairs are left out; none keeps them."
    ),
    per_customer: bool | None = typer.Option(
        None,
        "--per-customer/--per-basket",
        help="Unit that counts once. Default: the customer, if known (calibrated).",
        show_default=False,
    ),
    max_basket_pairs: int = typer.Option(
        200_000_000, help="Largest number of pairs in a basket.", min=1, rich_help_panel="Counting"
    ),
    null_rounds: int = typer.Option(
        0, metavar="N", help="Number of shuffles that count labels by chance.", min=0
    ),
    null_within: str = typer.Option(
        "none",
        metavar="none|size|size+position",
        help="Properties of baskets that a shuffle keeps.",
    ),
    out: Path | None = typer.Option(None, metavar="F.parquet|F.csv", help="File for the labels."),
    seed: int = typer.Option(0, help="Seed of the shuffles.", min=0),
    threads: int | None = typer.Option(None, rich_help_panel="Counting", **THREADS),
) -> None:
    """Make evaluation labels: the pairs that a protocol accepts, with their certainty."""
    from neatrec.labels import LabelOptions
    from neatrec.labels.make import run_labels
    from neatrec.labels.null import check_within

    out = output_file(out, source.source)
    options = LabelOptions(
        protocol=protocol,
        levels=tuple(level or LabelOptions.levels),
        strata=strata_names(strata),
        min_basket=min_basket,
        category_level=None if category_level == "none" else category_level,
        once_per_customer=per_customer,
        max_basket_pairs=max_basket_pairs,
    )
    check_within(null_within)
    counting = engine.start(threads)
    run = run_labels(
        source.read(options.strata),
        options,
        null_rounds=null_rounds,
        null_within=null_within,
        seed=seed,
        engine=counting,
    )
    if out:
        write_table(run.labels.table(), out)
        log.info("wrote %s", printable(out))
    if not output.printed_json(run):
        _print_counts(run)
        _print_strongest(run)


def _print_counts(run: LabelRun) -> None:
    """The number of labels by level."""
    from neatrec.cooccurrence.strata import strata_words

    labels, null = run.labels, run.null
    bound = "chi-squared above" if labels.protocol == "paper" else "p at most"
    columns = ["level", "labels", bound]
    columns += [] if null is None else ["by chance", "false-discovery rate"]
    rows: list[list[object]] = []
    for level in labels.levels:
        number = int(labels.at(level).sum())
        rows.append([f"{labels.level_kind} = {level:g}", number, labels.thresholds[level]])
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


def _print_strongest(run: LabelRun, k: int = 10) -> None:
    """The strongest pairs by name."""
    labels = run.labels
    rows: list[list[object]] = [
        [
            labels.catalog.name(labels.query[row]),
            labels.catalog.name(labels.item[row]),
            int(labels.count[row]),
            *(float(each[row]) for each in (labels.expected, labels.lift, labels.lift_low)),
        ]
        for row in labels.strongest(k)
    ]
    columns = ["query", "goes with", "together", "expected", "lift", "at least"]
    print_table("Strongest pairs", columns, rows, note=_together(labels.options))


def _together(options: Mapping[str, Any]) -> str:
    """The meaning of "together", which differs from the counts of a bundle."""
    unit = "customers" if options["once_per_customer"] else "baskets"
    order = ", the query added first" if options["directed"] else ""
    return (
        f"together: {unit} with both{order}, in baskets of {options['min_basket']} or more items. "
        "`recommend` and the page show evidence of all baskets, in either order: see "
        "docs/explanation/evidence.md."
    )
