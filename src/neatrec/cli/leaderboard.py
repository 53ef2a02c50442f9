"""`neatrec leaderboard` and `neatrec report`."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from neatrec.cli.options import (
    THREADS,
    SourceArguments,
    option,
    output_file,
    require_device,
    split_list,
    strata_names,
)
from neatrec.cli.output import OutputOptions, print_table, write_table
from neatrec.errors import must_be_one_of
from neatrec.text import printable

if TYPE_CHECKING:
    from neatrec.leaderboard import Leaderboard, LeaderboardOptions

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ComparisonArguments:
    """Options of the commands that compare models."""

    split: str = option(
        "half",
        metavar="half|time|random",
        help="Split of the baskets: halves by basket id, the last fifth of the time, or random.",
    )
    models: list[str] | None = option(
        None,
        "--models",
        "--model",
        metavar="NAME",
        help="Model, NAME@paper for the paper's settings, or pkg.mod:Class; repeatable. "
        "Default: all; for a report, three.",
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
        "auto", metavar="auto|cpu|gpu", help="Device of the training, for models that support it."
    )
    threads: int | None = option(None, **THREADS)

    def model_names(self, default: Sequence[str] | None = None) -> Sequence[str] | None:
        """The models, each of which can be made; None: all."""
        from neatrec.leaderboard.model_specs import model_spec

        names = split_list(self.models)
        if names == ["all"]:
            return None
        for name in names:  # a mistake is named before anything is read
            model_spec(name)
        return names or default

    def options(self) -> LeaderboardOptions:
        """The options of the comparison, checked before anything is read."""
        from neatrec.data.splits import METHODS
        from neatrec.labels import LabelOptions
        from neatrec.labels.config import LEVELS
        from neatrec.leaderboard import LeaderboardOptions

        if self.split not in METHODS:
            raise must_be_one_of("split", METHODS, self.split)
        LabelOptions(self.protocol)
        require_device(self.device)
        return LeaderboardOptions(
            protocol=self.protocol,
            levels=tuple(self.level or LEVELS),
            min_basket=self.min_basket,
            candidates=self.candidates,
            seeds=self.seeds,
            seed=self.seed,
            device=self.device,
            strata=strata_names(self.strata),
            threads=self.threads,
        )


def leaderboard(
    source: SourceArguments,
    comparison: ComparisonArguments,
    output: OutputOptions,
    out: Path | None = typer.Option(
        None, metavar="F.parquet|F.csv", help="File for the table of results."
    ),
) -> None:
    """Compare models on held-out baskets, with 95 % intervals and paired tests."""
    from neatrec.data.splits import split_baskets
    from neatrec.leaderboard import run_leaderboard

    out = output_file(out, source.source)
    options, models = comparison.options(), comparison.model_names()
    parts = split_baskets(source.read(options.strata), comparison.split)
    method = {"method": parts.method, **parts.options}
    result = run_leaderboard(parts.train, parts.test, models, options, split=method)
    if out is not None:
        write_table(result.to_arrow(), out)
        log.info("wrote %s", printable(out))
    if not output.printed_json(result):
        show_leaderboard(result)


def report(
    source: SourceArguments,
    comparison: ComparisonArguments,
    output: OutputOptions,
    out: Path = typer.Option(Path("neatrec-report"), metavar="DIR", help="Folder of the report."),
) -> None:
    """Write pairs with evidence and a comparison of models as one page, with CSV tables."""
    from neatrec.report.make import MODELS, make_report, refuse_foreign

    refuse_foreign(out)
    options, models = comparison.options(), comparison.model_names(MODELS)
    baskets = source.read(options.strata)
    result = make_report(baskets, out, models, options, split=comparison.split)
    if not output.printed_json(result):
        show_leaderboard(result)
        print(f"The report: {printable(out / 'index.html')}")


def show_leaderboard(result: Leaderboard) -> None:
    """The first level on the candidate set, best first; without labels a sentence that says so."""
    rows, labels = result.first_rows(), result.task.labels
    first = rows[0]
    made = f"protocol {labels.protocol}, {labels.level_kind} = {first['level']:g}"
    if not first["labels"]:
        print(f"No labels ({made}): nothing to compare models by. {result.advice}".rstrip())
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
    counted = f"{first['labels']:,} labels of {first['queries']:,} queries, {made}"
    note = " ".join([f"{counted};", *_notes(result, first)])
    print_table(f"Leaderboard, {first['candidates']}", columns, cells, note=note)


def _notes(result: Leaderboard, first: dict[str, Any]) -> Iterator[str]:
    """Sentences below the table."""
    from neatrec.cooccurrence.strata import SIZE

    yield f"best possible HR@10 {_shown(first['best_possible_hr@10'])}."
    if first["best_statistic"] is not None and len(result.models) > 1:
        yield (
            "HR@10 over statistic: 95 % interval of the difference to "
            f"{printable(first['best_statistic'])}, the best statistic, on the same labels; "
            "with 0 inside it is a tie."
        )
    strata = (printable(name, 40) for name in result.options.strata or () if name != SIZE)
    within = ", ".join(strata)
    counts = f"within {within}" if within else "over all baskets"
    yield f"Models compare counts with chance {counts}."
    if result.options.seeds == 1:
        yield "Each model is trained once: the intervals leave out how trainings differ (--seeds)."
    for name, reason in result.skipped.items():
        yield f"{printable(name)} is left out: {reason}."
    if result.advice:
        yield result.advice


def _over(row: dict[str, Any]) -> str:
    if row["model"] == row["best_statistic"]:
        return "best statistic"
    low, high = row["over_statistic_low"], row["over_statistic_high"]
    return "-" if low is None else f"{low:+.3f} to {high:+.3f}"


def _shown(value: float | None) -> str:
    """Three decimals; a dash where there is nothing to measure."""
    return "-" if value is None else f"{value:.3f}"
