"""`neatrec train`."""

from __future__ import annotations

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
from neatrec.cli.output import OutputOptions, ShowProgress, close_bar, found_words, percent
from neatrec.cli.show import gain_words
from neatrec.errors import SourceError
from neatrec.text import printable

if TYPE_CHECKING:
    from neatrec.training.train import ModelChoice


@dataclass(frozen=True)
class TrainingArguments:
    """How to train: `TrainOptions` by name."""

    device: str = option(
        "auto", metavar="DEVICE", help="Device: auto (default), cpu or gpu.", show_default=False
    )
    threads: int | None = option(None, **THREADS)
    seed: int = option(
        0, metavar="N", min=0, help="Seed of all random numbers.", show_default=False
    )
    reproducible: bool = option(False, "--reproducible", help="One thread: same seed, same bits.")
    k: int | None = option(None, "-k", metavar="N", help="Answers per item. Default: 100.", min=1)
    same_category: str = option(
        "last",
        metavar="PLACE",
        help="Answers of the same category: last (default), mix or exclude.",
        show_default=False,
    )
    strata: list[str] | None = option(None, metavar="A,B|none", help=STRATA_HELP)
    keep_users: bool = option(False, "--keep-users", help="User ids and vectors in the bundle.")


def train(
    source: SourceArguments,
    *,
    out: Path = typer.Option(
        Path("neatrec-bundle"), metavar="DIR", help="Folder of the bundle, new or old."
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
    if output.printed_json(answer):
        return
    print(found_words(answer["pairs"], answer["coverage"]))
    if "learned" in answer:
        print(gain_words(answer["learned"]))
    if words := same_category_words(answer["same_category"], training.same_category):
        print(words)
    cost = f"{answer['model']}, {answer['train_seconds']:.1f} s, {answer['peak_mb']:,.0f} MB"
    print(f"bundle in {printable(out)} ({cost}): neatrec serve {printable(out)}")


def same_category_words(share: float, place: str) -> str:
    """The share of pairs of one category, and what it means for the answers; "" without one.

    >>> same_category_words(0.94, "last")
    '94 % of the pairs are of one category: listed last; --same-category mix|exclude changes that'
    """
    if not share:
        return ""
    where, others = {
        "last": ("listed last", "mix|exclude"),
        "mix": ("listed among the others", "last|exclude"),
        "exclude": ("not listed", "last|mix"),
    }[place]
    said = f"{percent(share, 0)} of the pairs are of one category: {where}"
    return f"{said}; --same-category {others} changes that"


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
