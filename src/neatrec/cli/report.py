"""`neatrec report`."""

from __future__ import annotations

from pathlib import Path

import typer

from neatrec.cli.leaderboard import LeaderboardArguments, show_leaderboard
from neatrec.cli.options import SourceArguments, parse_strata
from neatrec.cli.output import OutputOptions


def report(
    source: SourceArguments,
    comparison: LeaderboardArguments,
    output: OutputOptions,
    out: Path = typer.Option(Path("neatrec-report"), metavar="DIR", help="Folder of the report."),
) -> None:
    """Write the pairs with evidence and a comparison of models as one page, its tables as CSV."""
    from neatrec.report.make import MODELS, make_report

    options = comparison.options()
    loaded = source.read(attributes=parse_strata(comparison.strata)[1])
    result = make_report(
        loaded.baskets,
        out,
        comparison.chosen_models(MODELS),
        options,
        split=comparison.split,
        split_options=comparison.split_options(),
    )
    if not output.printed_json(result):
        show_leaderboard(result)
        print(f"The report: {out / 'index.html'}")
