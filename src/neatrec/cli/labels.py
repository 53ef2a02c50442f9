"""`neatrec labels` and `neatrec audit`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from neatrec.cli.options import (
    HALF_LIFE_HELP,
    EngineArguments,
    SourceArguments,
    output_file,
    output_folder,
    parse_strata,
)
from neatrec.cli.output import OutputOptions, percent, print_table
from neatrec.errors import must_be, require_extra
from neatrec.text import printable

if TYPE_CHECKING:
    from neatrec.cooccurrence.spark.lines import SparkLines
    from neatrec.data.baskets import Baskets
    from neatrec.labels.audit import Audit
    from neatrec.labels.make import LabelRun

log = logging.getLogger(__name__)


def labels(
    source: SourceArguments,
    engine: EngineArguments,
    output: OutputOptions,
    *,
    protocol: str = typer.Option(
        "calibrated", metavar="calibrated|paper", help="Accept a pair as a label by this protocol."
    ),
    level: list[float] | None = typer.Option(
        None, help="Accept labels at this level (paper: p, calibrated: q); may be repeated. Default: 0.05 0.01 0.001."
    ),
    expected: str = typer.Option(
        "quasi", metavar="quasi|product", help="Compute the count expected by chance in this way (calibrated)."
    ),
    strata: list[str] | None = typer.Option(
        None,
        metavar="A,B|none",
        help="Compare within baskets of one size, month, or value of a column such as store (calibrated). Default: "
        "size,month,store, as far as SOURCE has them.",
    ),
    half_life: str | None = typer.Option(None, metavar="90d|none", help=HALF_LIFE_HELP),
    null_rounds: int = typer.Option(
        0, metavar="N", help="Shuffle the baskets so many times to count labels by chance.", min=0
    ),
    null_within: str = typer.Option(
        "none", metavar="none|size|size+position", help="Leave this unchanged by the shuffle."
    ),
    min_basket: int = typer.Option(5, help="Leave out smaller baskets.", min=2),
    category_level: str = typer.Option(
        "deepest", help="Remove pairs of one category at this level; 'none' keeps them."
    ),
    per_customer: bool | None = typer.Option(
        None,
        "--per-customer/--per-basket",
        help="Count a pair at most once per customer. Default: calibrated does, where customers are known.",
        show_default=False,
    ),
    out: Path | None = typer.Option(None, metavar="F.parquet|F.csv", help="Write the labels into this file."),
    seed: int = typer.Option(0, help="Shuffle with this seed.", min=0),
    spark_read: bool = typer.Option(
        False,
        "--spark-read",
        help="Let the cluster of --engine spark read SOURCE (Parquet, CSV, any address it understands, or "
        "table:NAME); the lines stay there.",
        rich_help_panel="Counting",
    ),
) -> None:
    """Find which items really go together: evaluation labels by a protocol, with false-discovery rates."""
    from neatrec.labels import LabelOptions
    from neatrec.labels.make import run_labels
    from neatrec.labels.null import check_within

    out = output_file(out, (".parquet", ".csv"), source.source)
    named, columns = parse_strata(strata)
    choices = engine.choices()
    options = LabelOptions(
        protocol,
        tuple(level or LabelOptions.levels),
        expected,
        named,
        min_basket,
        None if category_level == "none" else category_level,
        per_customer,
        choices.pop("max_basket_pairs"),
        half_life,
    )
    check_within(null_within)
    baskets: Baskets | SparkLines
    if spark_read:
        refused: dict[str, Any] = {"--engine": engine.engine != "spark", "--strata": named}
        refused |= {"--null-rounds": null_rounds, "--half-life": half_life}
        for option, given in refused.items():
            if given:
                needed = "spark with --spark-read" if option == "--engine" else "left out with --spark-read"
                raise must_be(option, needed, engine.engine if option == "--engine" else given)
        from neatrec.io.spark_lines import read_spark_lines

        baskets = read_spark_lines(
            source.source, source.options, max_basket_pairs=options.max_basket_pairs, threads=engine.threads
        )
    else:
        baskets = source.read(attributes=columns).baskets
    run = run_labels(baskets, options, null_rounds=null_rounds, null_within=null_within, seed=seed, **choices)
    _finish(run, out, output)


def _finish(run: LabelRun, out: Path | None, output: OutputOptions) -> None:
    from neatrec.labels.make import write_labels

    if out:
        write_labels(run.labels, out)
        log.info("wrote %s", out)
    if not output.printed_json(run):
        show_labels(run)


def show_labels(run: LabelRun, strongest: int = 10) -> None:
    """The counts by level and the strongest pairs by name."""
    from neatrec.cooccurrence.recency import half_life_words
    from neatrec.cooccurrence.strata import strata_words

    labels, null = run.labels, run.null
    rows = []
    for level in labels.levels:
        row: list[object] = [f"{labels.level_kind} = {level:g}", int(labels.at(level).sum()), labels.thresholds[level]]
        if null is not None:
            chance = null.labels[level]
            row += [sum(chance) / len(chance), percent(null.fdr[level], 2)]
        rows.append(row)
    kept = "chi-squared above" if labels.protocol == "paper" else "p at most"
    columns = ["level", "labels", kept] + ([] if null is None else ["by chance", "false-discovery rate"])
    note = (
        f"{labels.baskets:,} of {run.baskets:,} baskets have {labels.options['min_basket']} or more items: "
        f"{labels.records:,} co-purchase records, {labels.pairs:,} different pairs"
        + (f"\n{run.advice}" if run.advice else "")
    )
    if "strata" in labels.options:
        note += f"\n{strata_words(labels.options['strata'])}"
    if "half_life" in labels.options:
        note += f"\n{half_life_words(labels.options['half_life'])}"
    print_table(f"Labels, protocol {labels.protocol}", columns, rows, note=note)
    best = labels.strongest(strongest)
    print_table(
        "Strongest pairs",
        ["query", "goes with", "together", "expected", "lift", "at least"],
        [
            [
                labels.catalog.name(labels.query[i]),
                labels.catalog.name(labels.item[i]),
                int(labels.count[i]),
                float(labels.expected[i]),
                float(labels.lift[i]),
                float(labels.lift_low[i]),
            ]
            for i in best
        ],
        note=_counted(labels.options),
    )


def _counted(options: Mapping[str, Any]) -> str:
    """What "together" counts, which is not what a bundle shows.

    >>> print(_counted({"once_per_customer": False, "min_basket": 2, "directed": False}))  # doctest: +ELLIPSIS
    together: baskets with both, in baskets of 2 or more items. `recommend` and the page show evidence of all baskets...
    """
    what = ("weighted " if "half_life" in options else "") + (
        "customers" if options["once_per_customer"] else "baskets"
    )
    order = ", the query put in first" if options["directed"] else ""
    return (
        f"together: {what} with both{order}, in baskets of {options['min_basket']} or more items. `recommend` and the "
        "page show evidence of all baskets, in either order: see docs/explanation/evidence.md."
    )


def audit(
    source: SourceArguments,
    engine: EngineArguments,
    output: OutputOptions,
    *,
    out: Path = typer.Option(
        Path("neatrec-audit"), metavar="DIR", help="Write text, CSV and SVG files into this folder."
    ),
    level: list[float] | None = typer.Option(
        None, help="Accept labels at this level; may be repeated. Default: 0.05 0.01 0.001."
    ),
    null_rounds: int = typer.Option(
        3, metavar="N", help="Shuffle the baskets so many times to count labels by chance.", min=0
    ),
    null_within: str = typer.Option(
        "none", metavar="none|size|size+position", help="Leave this unchanged by the shuffle."
    ),
    strata: list[str] | None = typer.Option(
        None, metavar="A,B", help="Use these strata in the calibrated protocol, as for `labels`."
    ),
    min_basket: int = typer.Option(5, help="Leave out smaller baskets.", min=2),
    seed: int = typer.Option(0, help="Shuffle with this seed.", min=0),
) -> None:
    """Study the labels: coverage, consistency, accuracy, and what both protocols get wrong."""
    require_extra("report", "the study of the labels")
    from neatrec.labels import LabelOptions
    from neatrec.labels.audit import audit_labels
    from neatrec.labels.null import check_within
    from neatrec.report.audit_report import write_audit

    out = output_folder(out)
    named, columns = parse_strata(strata)
    levels, choices = tuple(level or LabelOptions.levels), engine.choices()
    options = LabelOptions(levels=levels, strata=named, min_basket=min_basket)
    check_within(null_within)
    loaded = source.read(attributes=columns)
    found = audit_labels(
        loaded.baskets,
        options,
        truth=loaded.truth,
        null_rounds=null_rounds,
        null_within=null_within,
        seed=seed,
        **choices,
    )
    files = write_audit(found, out)
    if output.printed_json({**found.to_json(), "files": [str(file) for file in files]}):
        return
    show_audit(found)
    print(f"The whole study: {printable(out / 'audit.txt')}, with {len(files) - 1} tables and figures beside it.")


def show_audit(found: Audit) -> None:
    """Both protocols side by side: labels, what chance makes, and the truth where it is known."""
    rows = []
    for labels in (found.paper, found.calibrated):
        for level in labels.levels:
            null, score = found.nulls.get(labels.protocol), found.truth.get((labels.protocol, level))
            rows.append(
                [
                    labels.protocol,
                    f"{labels.level_kind} = {level:g}",
                    int(labels.at(level).sum()),
                    "-" if null is None else percent(null.fdr[level], 2),
                    "-" if score is None else percent(score.precision),
                    "-" if score is None else percent(score.recall),
                ]
            )
    columns = ["protocol", "level", "labels", "false-discovery rate", "right (precision)", "found (recall)"]
    wrong = found.negatives[-1]
    print_table(
        "Labels by both protocols",
        columns if found.truth else columns[:4],
        rows if found.truth else [row[:4] for row in rows],
        note=f"Of the {wrong.pairs:,} pairs that the paper calls negative at p < {wrong.level:g}, "
        f"{wrong.lift_above_one:,} are bought together more often than chance.",
    )
