"""`neatrec demo`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from neatrec.cli.leaderboard import show_leaderboard
from neatrec.cli.options import output_folder
from neatrec.cli.output import OutputOptions, close_bar, found_words, percent
from neatrec.errors import require_extra
from neatrec.text import plural, printable

if TYPE_CHECKING:
    from neatrec.demo import Demo


def demo(
    output: OutputOptions,
    out: Path = typer.Option(
        Path("neatrec-demo"), metavar="DIR", help="Folder for report and bundle."
    ),
    seed: int = typer.Option(0, help="Seed of the simulated shop.", min=0),
) -> None:
    """Simulate a supermarket, find its complements, and write a report and a bundle."""
    require_extra("report", "the demo")  # before it is imported
    from neatrec.demo import run_demo

    done = run_demo(output_folder(out), seed=seed)
    close_bar()
    if output.printed_json(done):
        return
    if output.verbose:
        show_leaderboard(done.board)
    _print_summary(done)


def _print_summary(done: Demo) -> None:
    """The result in at most 15 lines of 80 columns."""
    from neatrec.serving.evidence import times_chance
    from neatrec.training.train import DEFAULT_MODEL

    names, pairs = done.market.baskets.catalog, done.first_pairs(5)
    baskets, items = plural(len(done.market.baskets), "basket"), plural(len(names), "item")
    print(f"A simulated supermarket: {baskets}, {items}.")
    found = found_words(len(done.table.pairs.evident), done.table.coverage())
    print(f"{found}, {percent(done.planted(), 0)} of them planted there, such as:")
    for query, item, evidence in pairs:
        bought = f"{evidence.times_words()}, {times_chance(evidence.lift)} chance"
        print(f"  {_short(names.name(query))} + {_short(names.name(item))}: {bought}")
    if trap := done.seasonal_trap():
        query, item, evidence = trap
        overall = evidence.words().partition(", ")[2]
        print(f"Caught: {_short(names.name(query))} + {_short(names.name(item))}, {overall}")
    rows = done.board.first_rows()
    hits, statistic = {row["model"]: row["hr@10"] for row in rows}, rows[0]["best_statistic"]
    best = f"{hits[statistic]:.3f} by {statistic}, the best statistic"
    print(f"Held-out HR@10: {hits[DEFAULT_MODEL]:.3f} by {DEFAULT_MODEL}, {best}.")
    print(f"The report: {done.report}")
    # `make demo` calls .venv/bin/neatrec, which is on no PATH
    on_path = Path(sys.argv[0]).name != "neatrec" or shutil.which("neatrec")
    program = "neatrec" if on_path else sys.argv[0]
    print(f'Ask: {program} recommend {done.bundle} "{names.name(pairs[0][0])}"')
    print(f"Look at it: {program} serve {done.bundle}")


def _short(name: str) -> str:
    return printable(name, 26)
