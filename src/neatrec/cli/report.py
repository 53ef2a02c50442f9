"""`neatrec report` and `neatrec verify`."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from neatrec.cli.leaderboard import LeaderboardArguments, show_leaderboard
from neatrec.cli.output import OutputOptions, print_json
from neatrec.cli.source_options import SourceArguments

log = logging.getLogger(__name__)


def report(
    source: SourceArguments,
    contest: LeaderboardArguments,
    output: OutputOptions,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The report's folder.")],
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep trainings there; a second run takes them up.")
    ] = None,
    null: Annotated[int, typer.Option(metavar="ROUNDS", help="Rounds of the shuffle null.", min=0)] = 3,
) -> None:
    """Leaderboard, label study and gallery as one page that opens offline, with every table and figure as a file."""
    from neatrec.leaderboard.report import make_report

    options, models, scores = contest.options(), contest.chosen_models(), contest.score_files()
    shop = source.read()
    result = make_report(
        shop.baskets,
        out,
        models,
        options,
        split=contest.split,
        split_options=contest.split_options(),
        truth=shop.truth,
        null_rounds=null,
        scores=scores,
        keep=keep,
        progress=log.info,
    )
    if output.as_json:
        print_json(result.to_json())
    else:
        show_leaderboard(result)
        print(f"The report: {out / 'index.html'}")


def verify(
    output: OutputOptions,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A report's folder.", show_default=False)],
) -> None:
    """Recompute a report's results from its ranks and labels, check the hash of every file, and report mismatches."""
    from neatrec.report.verify import check_report

    answer = check_report(folder)
    if output.as_json:
        print_json(answer)
    else:
        print(f"{answer['files']} files are unchanged, and the results follow from ranks and labels.")
