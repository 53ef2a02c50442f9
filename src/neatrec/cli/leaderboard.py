"""`neatrec leaderboard` and `neatrec report`."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from neatrec.cli.options import (
    THREADS,
    SourceArguments,
    option,
    output_file,
    parse_strata,
    require_device,
)
from neatrec.cli.output import OutputOptions, print_table, write_table
from neatrec.errors import must_be, must_be_one_of
from neatrec.text import printable

if TYPE_CHECKING:
    from neatrec.leaderboard.run import Leaderboard, LeaderboardOptions

log = logging.getLogger(__name__)
SPLIT, MODELS = "Split", "Models to compare"


@dataclass(frozen=True)
class LeaderboardArguments:
    """Options of everything that trains and compares models."""

    split: str = option(
        "half",
        metavar="half|time|random",
        help="Split. half: even basket ids train, odd ones test (a stable hash for other ids).",
        rich_help_panel=SPLIT,
    )
    split_seed: int = option(0, min=0, help="Seed of a random split.", rich_help_panel=SPLIT)
    split_cut: str | None = option(
        None, metavar="DATE", help="Date of a split by time.", rich_help_panel=SPLIT
    )
    models: list[str] | None = option(
        None,
        "--models",
        "--model",
        metavar="NAME",
        help="Model, NAME@paper for the paper's settings, or pkg.mod:Class; repeatable. "
        "Default: all, of a report three.",
        rich_help_panel=MODELS,
    )
    protocol: str = option("calibrated", metavar="calibrated|paper", help="Protocol of the labels.")
    level: list[float] | None = option(
        None, help="Level of the labels; repeatable. Default: 0.05 0.01 0.001."
    )
    min_basket: int = option(5, help="Smallest basket of the labels.", min=2)
    candidates: int = option(200, help="Number of candidates per query.", min=1)
    seeds: int = option(1, help="Number of trainings per model.", min=1)
    seed: int = option(0, help="Seed of the first training.", min=0)
    strata: list[str] | None = option(
        None,
        metavar="A,B|none",
        help="Strata of the counts. Default: as for `train`; none with --protocol paper.",
    )
    device: str = option(
        "auto", metavar="auto|cpu|gpu", help="Device on which models are trained that support it."
    )
    threads: int | None = option(None, **THREADS)

    def named_models(self, default: Sequence[str] | None = None) -> Sequence[str] | None:
        """The names that were given, else the default; None for all models."""
        from neatrec.leaderboard.model_specs import external_class
        from neatrec.models import make_model

        names = [name.strip() for entry in self.models or () for name in entry.split(",")]
        named = [name for name in names if name]
        if named == ["all"]:
            return None
        for name in named:  # a mistake is named before anything is read
            if ":" in name:
                external_class(name)
            else:
                base, _, preset = name.partition("@")
                make_model(base, preset=preset or None)
        return named or default

    def split_options(self) -> dict[str, Any]:
        """The options of the split; an option of another split is an error."""
        from neatrec.data.splits import METHODS

        if self.split not in METHODS:
            raise must_be_one_of("split", METHODS, self.split)
        if self.split_cut is not None and self.split != "time":
            raise must_be("--split-cut", "used with --split time", self.split)
        if self.split_seed and self.split != "random":
            raise must_be("--split-seed", "used with --split random", self.split)
        if self.split == "random":
            return {"seed": self.split_seed}
        return {"cut": self.split_cut} if self.split_cut is not None else {}

    def options(self) -> LeaderboardOptions:
        """The options of the comparison; a GPU that is not there is refused."""
        from neatrec.labels import LabelOptions
        from neatrec.leaderboard.run import LEVELS, LeaderboardOptions

        LabelOptions(protocol=self.protocol)  # refuses an unknown protocol before anything is read
        require_device(self.device)
        return LeaderboardOptions(
            protocol=self.protocol,
            levels=tuple(self.level or LEVELS),
            min_basket=self.min_basket,
            candidates=self.candidates,
            seeds=self.seeds,
            seed=self.seed,
            device=self.device,
            strata=parse_strata(self.strata)[0],
            threads=self.threads,
        )


def leaderboard(
    source: SourceArguments,
    comparison: LeaderboardArguments,
    output: OutputOptions,
    out: Path | None = typer.Option(
        None, metavar="F.parquet|F.csv", help="File for the table of results."
    ),
) -> None:
    """Compare models on held-out baskets, with 95 % intervals and paired tests."""
    from neatrec.data.splits import split_baskets
    from neatrec.leaderboard.run import run_leaderboard

    out = output_file(out, (".parquet", ".csv"), source.source)
    options, split_options = comparison.options(), comparison.split_options()
    models = comparison.named_models()
    baskets = source.read(attributes=parse_strata(comparison.strata)[1]).baskets
    parts = split_baskets(baskets, comparison.split, **split_options)
    method = {"method": parts.method, **parts.options}
    result = run_leaderboard(parts.train, parts.test, models, options, split=method)
    if out is not None:
        write_table(result.to_arrow(), out)
        log.info("wrote %s", printable(out))
    if not output.printed_json(result):
        show_leaderboard(result)


def report(
    source: SourceArguments,
    comparison: LeaderboardArguments,
    output: OutputOptions,
    out: Path = typer.Option(Path("neatrec-report"), metavar="DIR", help="Folder of the report."),
) -> None:
    """Write the pairs with evidence and a comparison of models as one page, its tables as CSV."""
    from neatrec.report.make import MODELS, make_report, refuse_foreign

    refuse_foreign(out)
    options, split_options = comparison.options(), comparison.split_options()
    models = comparison.named_models(MODELS)
    result = make_report(
        source.read(attributes=parse_strata(comparison.strata)[1]).baskets,
        out,
        models,
        options,
        split=comparison.split,
        split_options=split_options,
    )
    if not output.printed_json(result):
        show_leaderboard(result)
        print(f"The report: {printable(out / 'index.html')}")


def show_leaderboard(result: Leaderboard) -> None:
    """The first level on the candidate set, best first; without labels a sentence that says so."""
    rows = result.to_arrow().slice(0, len(result.model_specs)).to_pylist()
    first, labels = rows[0], result.task.labels
    made = f"protocol {labels.protocol}, {labels.level_kind} = {first['level']:g}"
    advice = f" {result.advice}" if result.advice else ""
    if not first["labels"]:
        print(f"No labels ({made}): nothing to compare models by.{advice}")
        return
    cells: list[list[Any]] = [
        [
            row["model"],
            _shown(row["hr@10"]),
            f"{_shown(row['hr@10_low'])} to {_shown(row['hr@10_high'])}",
            _shown(row["ndcg@10"]),
            _over(row),
            f"{row['train_seconds']:.2f}",
        ]
        for row in rows
    ]
    columns = ["model", "HR@10", "95 % interval", "NDCG\n@10", "HR@10 over\nstatistic", "seconds"]
    note = (
        f"{first['labels']:,} labels of {first['queries']:,} queries, {made}; best possible HR@10 "
        f"{_shown(first['best_possible_hr@10'])}."
    )
    if first["best_statistic"] is not None and len(rows) > 1:
        note += (
            " HR@10 over statistic: 95 % interval of the difference to "
            f"{printable(first['best_statistic'])}, the best statistic, on the same labels; "
            "with 0 inside it is a tie."
        )
    note += f" {_trained_within(result.options.strata or ())}"
    if result.options.seeds == 1:
        note += (
            " Each model is trained once: the intervals leave out how trainings differ (--seeds)."
        )
    for name, reason in result.skipped.items():
        note += f" {printable(name)} is left out: {reason}."
    print_table(f"Leaderboard, {first['candidates']}", columns, cells, note=note + advice)


def _trained_within(strata: Sequence[str]) -> str:
    """The strata within which models compare counts with chance; evidence alone uses the size.

    >>> _trained_within(["basket_size", "month"])
    'Models compare counts with chance within month.'
    """
    from neatrec.cooccurrence.strata import SIZE

    named = ", ".join(printable(name, 40) for name in strata if name != SIZE)
    within = f"within {named}" if named else "over all baskets"
    return f"Models compare counts with chance {within}."


def _over(row: dict[str, Any]) -> str:
    if row["model"] == row["best_statistic"]:
        return "best statistic"
    low, high = row["over_statistic_low"], row["over_statistic_high"]
    return "-" if low is None else f"{low:+.3f} to {high:+.3f}"


def _shown(value: float | None) -> str:
    """Three decimals; a dash where there is nothing to measure."""
    return "-" if value is None else f"{value:.3f}"
