"""`neatrec index`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from neatrec.cli.output import OutputOptions, percent, print_json, print_table
from neatrec.cli.source_options import SourceArguments


def index(
    output: OutputOptions,
    bundle: Annotated[Path, typer.Argument(help="A bundle that `neatrec train` wrote.", show_default=False)],
    k: Annotated[int | None, typer.Option("--k", "-k", help="Answers kept per item. Default: as before.")] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A report whose leaderboard and tables the page shows.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            metavar="SOURCE",
            help="The training baskets, for a bundle that was written without a table; a source.toml names columns.",
        ),
    ] = None,
    ann: Annotated[
        bool | None,
        typer.Option(
            "--ann/--exact",
            help="An approximate table, for millions of items (needs faiss; its measured recall is reported), or an "
            "exact one. Default: as before; a first one is exact.",
            show_default=False,
        ),
    ] = None,
    device: Annotated[str, typer.Option(metavar="auto|cpu|gpu", help="Where the best answers are searched.")] = "auto",
    threads: Annotated[int | None, typer.Option(help="Default: all cores.")] = None,
) -> None:
    """Write a bundle's serving table again: each item's best answers with their evidence."""
    from neatrec.report.attachment import read_report
    from neatrec.serving import ServingTable, rewrite_index, table_words

    attachment = None if report is None else read_report(report)
    baskets = None if source is None else SourceArguments(source).read().baskets
    rewrite_index(bundle, baskets=baskets, k=k, attachment=attachment, ann=ann, threads=threads, device=device)
    opened = ServingTable.open(bundle)
    if output.as_json:
        answers = {"answers": len(opened.columns["item"]), "coverage": opened.coverage()}
        about = {"bundle": str(bundle), "version": opened.version, "k": opened.k, "recall": opened.recall}
        print_json({**about, **answers})
        return
    print(f"{len(opened.columns['item']):,} answers, at most {opened.k} per item, in {bundle}")
    print(table_words(opened.recall))
    print_coverage(opened.coverage())


def print_coverage(coverage: dict[str, dict[str, float]]) -> None:
    """The share of items and of sales at each grade of evidence."""
    rows = [
        [grade, percent(shares["items"]), percent(shares["sales"])]
        for grade, shares in coverage.items()
        if grade not in ("category", "rule")
    ]
    print_table("Best evidence among an item's answers", ["grade", "items", "sales"], rows)
