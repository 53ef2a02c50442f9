"""`neatrec report` and `neatrec verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from neatrec.cli.leaderboard import LeaderboardArguments, show_leaderboard
from neatrec.cli.output import OutputOptions, print_json
from neatrec.cli.source_options import SourceArguments, parse_strata


def report(
    source: SourceArguments,
    comparison: LeaderboardArguments,
    output: OutputOptions,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Write the report into this folder.")] = Path(
        "neatrec-report"
    ),
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep trained models there; a second run reuses them.")
    ] = None,
    null_rounds: Annotated[
        int, typer.Option(metavar="N", help="Shuffle the baskets so many times to count labels by chance.", min=0)
    ] = 3,
) -> None:
    """Write leaderboard, label audit and examples as one page that opens offline, and every table as a file."""
    from neatrec.leaderboard.report import make_report

    options, models, scores = comparison.options(), comparison.chosen_models(), comparison.score_files()
    loaded = source.read(attributes=parse_strata(comparison.strata)[1])
    result = make_report(
        loaded.baskets,
        out,
        models,
        options,
        split=comparison.split,
        split_options=comparison.split_options(),
        truth=loaded.truth,
        null_rounds=null_rounds,
        scores=scores,
        keep=keep,
    )
    if output.as_json:
        print_json(result.to_json())
    else:
        show_leaderboard(result)
        print(f"The report: {out / 'index.html'}")


def verify(
    output: OutputOptions,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Check the report in this folder.", show_default=False)],
) -> None:
    """Recompute a report's results from its ranks and labels, check the hash of every file, and report mismatches."""
    from neatrec.report.verify import check_report

    answer = check_report(folder)
    if output.as_json:
        print_json(answer)
    else:
        print(f"{answer['files']} files are unchanged, and the results follow from ranks and labels.")
