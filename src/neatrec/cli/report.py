"""`neatrec report`, `neatrec verify` and `neatrec reproduce`."""

from __future__ import annotations

from pathlib import Path

import typer

from neatrec.cli.leaderboard import LeaderboardArguments, show_leaderboard
from neatrec.cli.options import SourceArguments, parse_strata
from neatrec.cli.output import OutputOptions
from neatrec.errors import must_be


def report(
    source: SourceArguments,
    comparison: LeaderboardArguments,
    output: OutputOptions,
    out: Path = typer.Option(Path("neatrec-report"), metavar="DIR", help="Write the report into this folder."),
    keep: Path | None = typer.Option(None, metavar="DIR", help="Keep trained models there; a second run reuses them."),
    null_rounds: int = typer.Option(
        3, metavar="N", help="Shuffle the baskets so many times to count labels by chance.", min=0
    ),
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
    if not output.printed_json(result):
        show_leaderboard(result)
        print(f"The report: {out / 'index.html'}")


def verify(
    output: OutputOptions,
    folder: Path = typer.Argument(..., metavar="DIR", help="Check the report in this folder.", show_default=False),
) -> None:
    """Recompute a report's results from its ranks and labels, check the hash of every file, and report mismatches."""
    from neatrec.report.verify import check_report

    answer = check_report(folder)
    if not output.printed_json(answer):
        print(f"{answer['files']} files are unchanged, and the results follow from ranks and labels.")


def reproduce(
    output: OutputOptions,
    what: str = typer.Argument(
        ..., metavar="instacart", help="Reproduce the results on this data set.", show_default=False
    ),
    folder: Path = typer.Argument(
        ..., metavar="DIR", help="Read the official tables from this folder.", show_default=False
    ),
    *,
    out: Path = typer.Option(Path("neatrec-reproduction"), metavar="REPORT", help="Write the report into this folder."),
    models: list[str] | None = typer.Option(
        None, metavar="NAME", help="Train this model; may be repeated. Default: all, and the paper's settings."
    ),
    seeds: int = typer.Option(5, help="Train each model so many times.", min=1),
    seed: int = typer.Option(0, help="Use this seed for the first training.", min=0),
    margin_seeds: int = typer.Option(1, help="Train each margin so many times; 0 leaves the study out.", min=0),
    journey: bool = typer.Option(True, help="Evaluate also on Complete Journey, in place of the Walmart data."),
    journey_seeds: int = typer.Option(2, help="Train each model there so many times, at most --seeds.", min=1),
    keep: Path | None = typer.Option(None, metavar="DIR", help="Keep trained models there; a second run reuses them."),
    device: str = typer.Option("auto", metavar="auto|cpu|gpu", help="Train and rank the models on this device."),
    threads: int | None = typer.Option(None, help="Use so many threads. Default: all cores.", min=1),
) -> None:
    """Reproduce the paper in one command: every table beside ours, marked exact, comparable or not checkable here."""
    from neatrec.leaderboard.run import LeaderboardOptions
    from neatrec.reproduction.run import ReproductionOptions, reproduce_instacart

    if what != "instacart":
        raise must_be("what", "instacart, the paper's public data set", what)
    named = [name.strip() for entry in models or () for name in entry.split(",") if name.strip()]
    done = reproduce_instacart(
        folder,
        out,
        named or None,
        ReproductionOptions(
            LeaderboardOptions(protocol="paper", seeds=seeds, seed=seed, device=device, threads=threads),
            journey=journey,
            journey_seeds=journey_seeds,
            margin_seeds=margin_seeds,
        ),
        keep=keep,
    )
    answer = done.to_json()
    if output.printed_json(answer):
        return
    print(answer["marks"])
    for difference in answer["differs"]:
        print(difference)
    print(f"The report: {out / 'index.html'}")
