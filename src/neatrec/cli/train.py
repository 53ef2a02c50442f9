"""`neatrec train`."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from neatrec.cli.progress import ShowProgress
from neatrec.cli.signals import at_a_safe_moment
from neatrec.cli.source_options import Source
from neatrec.cli.talk import Talk, print_json
from neatrec.cli.toml import read_training_toml

log = logging.getLogger(__name__)
HOW = "How to train"


def train(
    source: Source,
    talk: Talk,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The bundle to write; an older one is replaced at the end.")],
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Default: the best statistic of our own table, named in the log.")
    ] = None,
    preset: Annotated[str | None, typer.Option(metavar="paper", help="The paper's settings as stated.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A parameter of the model; may be repeated.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="F.toml", help="Model, preset and parameters from a file.")
    ] = None,
    device: Annotated[str, typer.Option(metavar="auto|cpu|gpu", rich_help_panel=HOW)] = "auto",
    threads: Annotated[int | None, typer.Option(help="Default: all cores.", rich_help_panel=HOW)] = None,
    seed: Annotated[int, typer.Option(min=0, rich_help_panel=HOW)] = 0,
    reproducible: Annotated[
        bool, typer.Option("--reproducible", help="The same bits at any thread count.", rich_help_panel=HOW)
    ] = False,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on from the checkpoint beside DIR, if there is one.", rich_help_panel=HOW),
    ] = False,
    validation: Annotated[
        float,
        typer.Option(
            help="Share of baskets kept out of training: stop when their loss has not fallen for two epochs (the "
            "bundle holds the last epoch, not the best). For models that train in epochs.",
            rich_help_panel=HOW,
        ),
    ] = 0.0,
    keep_users: Annotated[
        bool, typer.Option("--keep-users", help="Keep user ids and vectors in the bundle.", rich_help_panel=HOW)
    ] = False,
    index: Annotated[
        bool,
        typer.Option("--index/--no-index", help="Write the serving table with its evidence.", rich_help_panel=HOW),
    ] = True,
) -> None:
    """Train a model and write it as a bundle."""
    from neatrec.experiments.training import Plan, train_bundle

    plan = Plan(model=model, preset=preset, settings=tuple(settings or ()))
    if config is not None:
        plan = read_training_toml(config).updated(plan)
    answer = train_bundle(
        lambda: source.read().baskets,
        out,
        plan,
        device=device,
        threads=threads,
        seed=seed,
        reproducible=reproducible,
        resume=resume,
        validation_share=validation,
        keep_users=keep_users,
        index=index,
        progress=ShowProgress(talk),
        stopping=at_a_safe_moment,
    )
    if talk.as_json:
        print_json(answer)
    else:
        print(f"{answer['model']} ({answer['kind']}) trained in {answer['train_seconds']:.1f} s, bundle in {out}")
        print(f"ask it: neatrec recommend {out} ITEM")
