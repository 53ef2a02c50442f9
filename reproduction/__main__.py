"""`python -m reproduction DATA --out FOLDER`: the paper's tables and figures beside ours."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from neatrec.errors import NeatrecError
from neatrec.leaderboard import LeaderboardOptions, run_leaderboard
from neatrec.models import MODEL_NAMES
from neatrec.models.registry import model_class
from reproduction import models
from reproduction.data import read_complete_journey, read_instacart
from reproduction.labels import label_tables
from reproduction.tables import Table, count_marks, write

JOURNEY_SEEDS = 2
"""Complete Journey is twice as large: two trainings show the spread."""


def paper_rows() -> list[str]:
    """Every model, and the paper's settings of those that have some of their own."""
    presets = [
        f"{name}@paper" for name in MODEL_NAMES if model_class(name).Parameters.presets.get("paper")
    ]
    return [*MODEL_NAMES, *presets]


def reproduce(
    folder: Path,
    out: Path,
    names: Sequence[str],
    *,
    seeds: int = 5,
    null_rounds: int = 3,
    journey: bool = True,
) -> list[Table]:
    """Write every table and figure into `out`; without names of models those of data and labels.

    `journey`: whether Complete Journey is evaluated instead of the Walmart data.
    """
    out.mkdir(parents=True, exist_ok=True)
    instacart = read_instacart(folder)
    both = [instacart]
    if journey:
        both.append(read_complete_journey(LeaderboardOptions.levels))
    tables = label_tables(instacart, both[1] if journey else None, null_rounds)
    figures = {"consistency.svg": tables[-1].caption}
    models.draw_consistency(tables[-1], out / "consistency.svg")
    for data in both if names else []:
        trainings = seeds if data is instacart else min(seeds, JOURNEY_SEEDS)
        options = LeaderboardOptions(protocol="paper", seeds=trainings, queries=0, carts=0)
        result = run_leaderboard(data.train, data.test, names, options, labels=data.labels)
        tables += models.comparison_tables(data, result)
        if "neat" in names:
            file = f"margin-{data.key.lower()}.svg"
            tables.append(models.margin_table(data, result))
            figures[file] = tables[-1].caption
            models.draw_margin(tables[-1], out / file)
    if "neat" in names:
        tables.append(models.case_study_table(instacart))
        figures["concept.svg"] = "Three items as Gaussians (the paper's Figure 1, a sketch there)"
        models.draw_concept(instacart, out / "concept.svg")
    write(out, tables, figures)
    return tables


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m reproduction", description=__doc__)
    parser.add_argument("data", type=Path, help="folder with the Instacart tables")
    parser.add_argument("--out", type=Path, default=Path("reproduced"), help="folder to write into")
    parser.add_argument("--models", nargs="*", help="models to train; none: data and labels only")
    parser.add_argument("--seeds", type=int, default=5, help="trainings of each model")
    parser.add_argument("--no-journey", action="store_true", help="leave Complete Journey out")
    asked = parser.parse_args()
    names = paper_rows() if asked.models is None else asked.models
    try:
        tables = reproduce(
            asked.data, asked.out, names, seeds=asked.seeds, journey=not asked.no_journey
        )
    except NeatrecError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for mark in (mark for table in tables for mark in table.marks if mark.startswith("differs")):
        print(mark)
    print(f"{count_marks(tables)}: {asked.out / 'reproduction.md'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
