"""`neatrec train`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from neatrec.cli.options import (
    STRATA_HELP,
    THREADS,
    EngineArguments,
    SourceArguments,
    require_device,
    strata_names,
)
from neatrec.cli.output import OutputOptions, found_words, percent
from neatrec.cli.show import gain_words
from neatrec.errors import SourceError
from neatrec.text import printable

if TYPE_CHECKING:
    from neatrec.training.train import ModelChoice

LISTED = {"last": "listed last", "mix": "listed among the others", "exclude": "not listed"}


def train(
    source: SourceArguments,
    *,
    out: Path = typer.Option(
        Path("neatrec-bundle"), metavar="DIR", help="Folder of the bundle, new or existing."
    ),
    model: str | None = typer.Option(
        None, metavar="NAME[@paper]", help="Model; `neatrec show` lists them."
    ),
    settings: list[str] | None = typer.Option(
        None,
        "--set",
        metavar="KEY=VALUE",
        help="Parameter of the model; repeatable. `neatrec show NAME` lists them.",
    ),
    config: Path | None = typer.Option(
        None, metavar="F.toml", help="TOML file with model and parameters."
    ),
    device: str = typer.Option(
        "auto", metavar="DEVICE", help="Device: auto (default), cpu or gpu.", show_default=False
    ),
    threads: int | None = typer.Option(None, **THREADS),
    seed: int = typer.Option(
        0, metavar="N", min=0, help="Seed of all random numbers.", show_default=False
    ),
    reproducible: bool = typer.Option(
        False, "--reproducible", help="One thread: same seed, same bits."
    ),
    k: int = typer.Option(
        100, "-k", metavar="N", help="Answers per item. Default: 100.", min=1, show_default=False
    ),
    same_category: str = typer.Option(
        "last",
        metavar="POSITION",
        help="Answers of the same category: last (default), mix or exclude.",
        show_default=False,
    ),
    strata: list[str] | None = typer.Option(None, metavar="A,B|none", help=STRATA_HELP),
    keep_users: bool = typer.Option(
        False, "--keep-users", help="User ids and vectors in the bundle."
    ),
    engine: EngineArguments,
    output: OutputOptions,
) -> None:
    """Train a model and write it as a bundle."""
    from neatrec.models.parameters import parse_settings
    from neatrec.training.train import ModelChoice, TrainOptions, train_bundle

    require_device(device)
    choice = ModelChoice() if config is None else read_training_toml(config)
    parameters = {**choice.parameters, **parse_settings(settings or ())}
    choice = ModelChoice(model or choice.model, parameters)
    options = TrainOptions(
        device=device,
        threads=threads,
        seed=seed,
        reproducible=reproducible,
        keep_users=keep_users,
        strata=strata_names(strata),
        k=k,
        same_category=same_category,
        engine=engine.start(threads),
        progress=output.show_progress,
    )
    answer = train_bundle(lambda: source.read(options.strata), out, choice, options)
    if output.printed_json(answer):
        return
    print(found_words(answer["pairs"], answer["coverage"]))
    if "learned" in answer:
        print(gain_words(answer["learned"]))
    if share := answer["same_category"]:
        said = f"{percent(share, 0)} of the pairs are of one category: {LISTED[same_category]}"
        print(f"{said}; --same-category last|mix|exclude changes that")
    cost = f"{answer['model']}, {answer['train_seconds']:.1f} s, {answer['peak_mb']:,.0f} MB"
    print(f"bundle in {printable(out)} ({cost}): neatrec serve {printable(out)}")


def read_training_toml(path: Path) -> ModelChoice:
    """`model` and a `[parameters]` table."""
    from neatrec.io.options import read_toml
    from neatrec.training.train import ModelChoice

    kinds = {"model": (str, "text"), "parameters": (dict, "a table")}
    table = read_toml(path)
    for key, value in table.items():
        kind, wanted = kinds.get(key, ((), "left out"))
        if not isinstance(value, kind):
            hint = "The file may hold model and a [parameters] table."
            message = f"{printable(path)}: key {printable(key)!r}: must be {wanted}"
            raise SourceError(message, file=str(path), hint=hint)
    return ModelChoice(**table)
