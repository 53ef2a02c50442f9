"""`neatrec reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from neatrec.cli.output import OutputOptions, print_json
from neatrec.errors import must_be


def reproduce(
    output: OutputOptions,
    what: Annotated[
        str, typer.Argument(metavar="instacart", help="Reproduce the results on this data set.", show_default=False)
    ],
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Read the official tables from this folder.", show_default=False)
    ],
    *,
    out: Annotated[Path, typer.Option(metavar="REPORT", help="Write the report into this folder.")] = Path(
        "neatrec-reproduction"
    ),
    models: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Train this model; may be repeated. Default: all, and the paper's settings."),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Train each model so many times.", min=1)] = 5,
    seed: Annotated[int, typer.Option(help="Use this seed for the first training.", min=0)] = 0,
    margin_seeds: Annotated[
        int, typer.Option(help="Train each margin so many times; 0 leaves the study out.", min=0)
    ] = 1,
    journey: Annotated[
        bool, typer.Option(help="Evaluate also on Complete Journey, in place of the Walmart data.")
    ] = True,
    journey_seeds: Annotated[
        int, typer.Option(help="Train each model there so many times, at most --seeds.", min=1)
    ] = 2,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep trained models there; a second run reuses them.")
    ] = None,
    device: Annotated[
        str, typer.Option(metavar="auto|cpu|gpu", help="Train and rank the models on this device.")
    ] = "auto",
    threads: Annotated[int | None, typer.Option(help="Use so many threads. Default: all cores.", min=1)] = None,
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
    if output.as_json:
        print_json(answer)
        return
    print(answer["marks"])
    for difference in answer["differs"]:
        print(difference)
    print(f"The report: {out / 'index.html'}")
