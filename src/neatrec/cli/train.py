"""`neatrec train`."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from neatrec.cli.options import (
    STRATA_HELP,
    THREADS,
    EngineArguments,
    SourceArguments,
    option,
    parse_strata,
    require_device,
)
from neatrec.cli.output import (
    OutputOptions,
    ShowProgress,
    close_bar,
    found_words,
    same_category_words,
)
from neatrec.cli.show import gain_words
from neatrec.errors import ParameterError
from neatrec.text import printable

if TYPE_CHECKING:
    from neatrec.training.train import ModelChoice

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingArguments:
    """How to train: `TrainOptions` by name."""

    device: str = option("auto", metavar="auto|cpu|gpu", help="Device of the training.")
    threads: int | None = option(None, **THREADS)
    seed: int = option(0, metavar="N", min=0, help="Seed of all random numbers.")
    reproducible: bool = option(False, "--reproducible", help="One thread: same seed, same bits.")
    k: int | None = option(
        None, "-k", metavar="N", help="Number of answers per item. Default: 100.", min=1
    )
    strata: list[str] | None = option(None, metavar="A,B|none", help=STRATA_HELP)
    keep_users: bool = option(False, "--keep-users", help="User ids and vectors in the bundle.")


def train(
    source: SourceArguments,
    *,
    out: Path = typer.Option(
        Path("neatrec-bundle"),
        metavar="DIR",
        help="Folder of the bundle; an older one is replaced at the end.",
    ),
    model: str | None = typer.Option(
        None,
        metavar="NAME",
        help="Model, or NAME@paper for the paper's settings; `neatrec show` lists them.",
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
    training: TrainingArguments,
    engine: EngineArguments,
    output: OutputOptions,
) -> None:
    """Train a model and write it as a bundle."""
    named, columns = parse_strata(training.strata)
    from neatrec.training.train import ModelChoice, TrainOptions, train_bundle

    require_device(training.device)
    choice = ModelChoice(model=model, settings=tuple(settings or ()))
    if config is not None:
        choice = read_training_toml(config).updated(choice)
    options = TrainOptions(
        **{**vars(training), "strata": named},
        engine=engine.start(training.threads),
        progress=ShowProgress(output),
    )
    answer = train_bundle(lambda: source.read(attributes=columns).baskets, out, choice, options)
    close_bar()
    if not output.printed_json(answer):
        print(found_words(answer["pairs"], answer["coverage"]))
        if "learned" in answer:
            words = gain_words(answer["learned"])
            print(f"{words[0].upper()}{words[1:]}.")
        if words := same_category_words(answer["same_category"]):
            print(words)
        cost = f"{answer['model']}, {answer['train_seconds']:.1f} s, {answer['peak_mb']:,.0f} MB"
        print(f"bundle in {printable(out)} ({cost}): neatrec serve {printable(out)}")


def read_training_toml(path: Path) -> ModelChoice:
    """`model` and a `[parameters]` table."""
    from neatrec.io.options import read_toml
    from neatrec.training.train import ModelChoice

    kinds = {"model": str, "parameters": dict}
    table = read_toml(path)
    for key, value in table.items():
        if not isinstance(value, kinds.get(key, ())):
            wanted = {"model": "text", "parameters": "a table"}.get(key, "left out")
            raise ParameterError(
                f"{printable(path)}: key {printable(key)!r}: must be {wanted}",
                file=str(path),
                hint="The file may hold model and a [parameters] table.",
            )
    return ModelChoice(**table)
