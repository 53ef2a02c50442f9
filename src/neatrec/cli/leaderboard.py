"""`neatrec leaderboard` and `neatrec benchmark export`."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from neatrec.cli.options import HALF_LIFE_HELP, SourceArguments, option, output_folder, parse_strata
from neatrec.cli.output import OutputOptions, print_table
from neatrec.errors import must_be
from neatrec.text import printable

if TYPE_CHECKING:
    from neatrec.data.baskets import Baskets
    from neatrec.data.splits import Split
    from neatrec.leaderboard.run import LeaderboardOptions, LeaderboardResult

log = logging.getLogger(__name__)
SPLIT, MODELS = "Split", "Models to compare"
STATISTICS = ("pop", "popco", "lift", "shrunk-lift", "llr", "jaccard")


@dataclass(frozen=True)
class LeaderboardArguments:
    """Options of everything that trains and compares models."""

    split: str = option(
        "half",
        metavar="half|time|random",
        help="Split the baskets in this way. half: even basket ids train, odd ones test (a stable hash for other ids).",
        rich_help_panel=SPLIT,
    )
    split_seed: int = option(0, min=0, help="Split at random with this seed.", rich_help_panel=SPLIT)
    split_cut: str | None = option(None, metavar="DATE", help="Cut a split by time there.", rich_help_panel=SPLIT)
    models: list[str] | None = option(
        None,
        "--models",
        "--model",
        metavar="NAME",
        help="Compare this model, NAME@paper for the paper's settings, or pkg.mod:Class; may be repeated. "
        "Default: all.",
        rich_help_panel=MODELS,
    )
    scores: list[str] | None = option(
        None,
        metavar="NAME=F.parquet",
        help="Compare scores of others as well: a table of query, item, score.",
        rich_help_panel=MODELS,
    )
    protocol: str = option("calibrated", metavar="calibrated|paper", help="Make the labels by this protocol.")
    level: list[float] | None = option(
        None, help="Accept labels at this level; may be repeated. Default: 0.05 0.01 0.001."
    )
    min_basket: int = option(5, help="Make labels from baskets of at least so many items.", min=2)
    candidates: int = option(200, help="Rank so many candidates per query.", min=1)
    seeds: int = option(1, help="Train each model so many times.", min=1)
    seed: int = option(0, help="Use this seed for the first training and the label-free intervals.", min=0)
    strata: list[str] | None = option(
        None,
        metavar="A,B|none",
        help="Compare counts with chance within baskets of one size, month, or value of a column such as store. "
        "Default: as `train` does; none with --protocol paper.",
    )
    half_life: str | None = option(None, metavar="90d|none", help=HALF_LIFE_HELP)
    device: str = option(
        "auto", metavar="auto|cpu|gpu", help="Train and rank on this device the models that support it."
    )
    threads: int | None = option(None, help="Use so many threads. Default: all cores.", min=1)

    def chosen_models(self) -> list[str] | None:
        """The names, however they were given; None for all of ours."""
        named = [name.strip() for entry in self.models or () for name in entry.split(",") if name.strip()]
        return named or None

    def split_options(self) -> dict[str, Any]:
        """What the split takes beside its name; an option of another split is an error."""
        if self.split_cut is not None and self.split != "time":
            raise must_be("--split-cut", "used with --split time", self.split)
        if self.split_seed and self.split != "random":
            raise must_be("--split-seed", "used with --split random", self.split)
        if self.split == "random":
            return {"seed": self.split_seed}
        return {"cut": self.split_cut} if self.split_cut is not None else {}

    def part(self, baskets: Baskets) -> Split:
        from neatrec.data.splits import split_baskets

        return split_baskets(baskets, self.split, **self.split_options())

    def options(self) -> LeaderboardOptions:
        from neatrec.leaderboard.run import LEVELS, LeaderboardOptions

        same = ("protocol", "min_basket", "candidates", "seeds", "seed", "half_life", "device", "threads")
        chosen: dict[str, Any] = {name: getattr(self, name) for name in same}
        return LeaderboardOptions(levels=tuple(self.level or LEVELS), strata=parse_strata(self.strata)[0], **chosen)

    def score_files(self) -> dict[str, Path]:
        from neatrec.leaderboard.model_specs import parse_named_file

        return dict(parse_named_file(text) for text in self.scores or ())


def leaderboard(
    source: SourceArguments,
    comparison: LeaderboardArguments,
    output: OutputOptions,
    out: Path | None = typer.Option(
        None, metavar="DIR", help="Keep results and bundles there; a second run reuses them."
    ),
) -> None:
    """Train and evaluate every model on held-out baskets: which is better, by how much, with what confidence."""
    result, _ = _run(source, comparison, out)
    if not output.printed_json(result):
        show_leaderboard(result)


def _run(
    source: SourceArguments, comparison: LeaderboardArguments, out: Path | None
) -> tuple[LeaderboardResult, Split]:
    from neatrec.leaderboard.run import run_leaderboard

    out = None if out is None else output_folder(out)
    options, models, scores = comparison.options(), comparison.chosen_models(), comparison.score_files()
    parts = comparison.part(source.read(attributes=parse_strata(comparison.strata)[1]).baskets)
    method = {"method": parts.method, **parts.options}
    result = run_leaderboard(parts.train, parts.test, models, options, scores=scores, split=method, out=out)
    if out is not None:
        log.info("wrote %s", printable(out))
    return result, parts


def show_leaderboard(result: LeaderboardResult) -> None:
    """The first level on the candidate set, best first; without labels a sentence that says so."""
    from neatrec.cooccurrence.recency import half_life_words

    board = result.to_json()
    first = board["results"][0]
    made = f"protocol {board['protocol']}, {board['level_kind']} = {first['level']:g}"
    advice = f" {result.advice}" if result.advice else ""
    if not first["labels"]:
        print(f"No labels ({made}): nothing to compare models by.{advice}")
        return
    statistic = first["best_statistic"]
    rows = [
        [
            line["name"],
            _shown(line["hr"]["10"]),
            " to ".join(_shown(end) for end in line["ci"]["hr"]["10"]),
            _shown(line["ndcg"]["10"]),
            _over(line, statistic),
            line["train_seconds"],
        ]
        for line in first["models"]
    ]
    columns = ["model", "HR@10", "95 % interval", "NDCG\n@10", "HR@10 over\nstatistic", "seconds"]
    note = (
        f"{first['labels']:,} labels of {first['queries']:,} queries, {made}; best possible HR@10 "
        f"{_shown(first['ceiling']['10'])}."
    )
    if statistic is not None:
        note += (
            f" HR@10 over statistic: 95 % interval of the difference to {printable(statistic)}, the best statistic, on "
            "the same labels; with 0 inside it is a tie."
        )
    note += f" {_trained_within(board['strata'])} {half_life_words(board.get('half_life'))}".rstrip()
    if result.options.seeds == 1:
        note += " Each model is trained once: the intervals do not cover how trainings differ (--seeds)."
    note += "".join(f" {printable(name)} is left out: {reason}." for name, reason in result.skipped.items())
    print_table(f"Leaderboard, {first['candidates']}", columns, rows, note=note + advice)


def _trained_within(strata: Sequence[str]) -> str:
    """What models that compare counts with chance take off; the size of baskets is left to the evidence.

    >>> _trained_within(["basket_size", "month"])
    'Models compare counts with chance within month.'
    """
    from neatrec.cooccurrence.strata import SIZE

    named = ", ".join(printable(name, 40) for name in strata if name != SIZE)
    return f"Models compare counts with chance {f'within {named}' if named else 'over all baskets'}."


def _over(line: dict[str, Any], statistic: str | None) -> str:
    if line["name"] == statistic:
        return "best statistic"
    found = line["over_best_statistic"]
    return "-" if found is None else " to ".join(f"{end:+.3f}" for end in found["ci"])


def _shown(value: float | None) -> str:
    """Three decimals; a dash where there is nothing to measure."""
    return "-" if value is None else f"{value:.3f}"


benchmark = typer.Typer(help="Write or use the open benchmark: the same split, labels and candidate sets for everyone.")


def export(
    *,
    folder: Path = typer.Argument(..., metavar="DIR", help="Write the files into this folder.", show_default=False),
    source: SourceArguments,
    output: OutputOptions,
    models: list[str] | None = typer.Option(
        None, metavar="NAME", help="Write the ranks of this model; may be repeated. Default: the statistics."
    ),
    called: str = typer.Option("instacart-half-v1", "--as", help="Give the benchmark this versioned name."),
) -> None:
    """Write split, labels, candidate sets, ranks and their hashes, so that others can compare with them.

    The benchmark is what its name says: the half-split, labels by the paper's protocol, a candidate set of 200.
    """
    from neatrec.leaderboard.benchmark import export_benchmark

    output_folder(folder)
    comparison = LeaderboardArguments(protocol="paper", models=models or list(STATISTICS))
    result, parts = _run(source, comparison, None)
    about = export_benchmark(result, parts.train, parts.test, folder, name=called)
    if not output.printed_json(about):
        print_table(called, ["file", "rows"], [[file, facts["rows"]] for file, facts in about["files"].items()])
