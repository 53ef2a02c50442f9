"""`neatrec demo`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from neatrec.cli.leaderboard import show_leaderboard
from neatrec.cli.options import output_folder
from neatrec.cli.output import OutputOptions, close_bar, found_words, percent, print_text
from neatrec.errors import require_extra
from neatrec.text import plural, printable

if TYPE_CHECKING:
    from neatrec.data.catalog import Catalog
    from neatrec.demo import Demo


def demo(
    output: OutputOptions,
    out: Path = typer.Option(
        Path("neatrec-demo"), metavar="DIR", help="Folder for report and bundle."
    ),
    seed: int = typer.Option(0, help="Seed of the simulated shop.", min=0),
) -> None:
    """Find the complements of a simulated supermarket, with their certainty, report and bundle."""
    require_extra("report", "the demo")  # before it is imported
    from neatrec.demo import run_demo

    done = run_demo(output_folder(out), seed=seed)
    close_bar()
    if output.printed_json(done):
        return
    if output.verbose:
        print_text(done.checked.to_text())
        print()
        show_leaderboard(done.board)
    _show_summary(done)


def _show_summary(done: Demo) -> None:
    """The result in at most 15 lines of 80 columns."""
    from neatrec.serving import PairTable
    from neatrec.serving.evidence import times_chance
    from neatrec.training.train import DEFAULT_MODEL

    table, names = PairTable.open(done.bundle), done.market.baskets.catalog
    rows, truth = table.pairs.evident, done.market.truth
    one, other = table.pairs.one[rows], table.pairs.other[rows]
    planted = truth.is_complement(one, other) | truth.is_complement(other, one)
    baskets, items = plural(len(done.market.baskets), "basket"), plural(len(names), "item")
    print(f"A simulated supermarket: {baskets}, {items}.")
    found = found_words(len(one), table.coverage())
    print(f"{found}, {percent(planted.mean(), 0)} of them planted there, such as:")
    for query, item, evidence in done.first_pairs(5):
        bought = f"{evidence.times_words()}, {times_chance(evidence.lift)} chance"
        print(f"  {_pair(names, query, item)}: {bought}")
    if (trap := done.caught()) is not None:
        overall = trap.evidence.words().partition(", ")[2]
        print(f"Caught: {_pair(names, trap.query, trap.item)}, {overall}")
    first = done.board.to_arrow().slice(0, len(done.board.model_specs)).to_pylist()
    hits = {row["model"]: row["hr@10"] for row in first}
    statistic = first[0]["best_statistic"]
    best = f"{hits[statistic]:.3f} by {statistic}, the best statistic"
    print(f"Held-out HR@10: {hits[DEFAULT_MODEL]:.3f} by {DEFAULT_MODEL}, {best}.")
    print(f"The report: {done.report}")
    # `make demo` calls .venv/bin/neatrec, which is on no PATH
    on_path = Path(sys.argv[0]).name != "neatrec" or shutil.which("neatrec")
    program = "neatrec" if on_path else sys.argv[0]
    print(f'Ask: {program} recommend {done.bundle} "{names.name(done.first_pairs(1)[0][0])}"')
    print(f"Look at it: {program} serve {done.bundle}")


def _pair(names: Catalog, query: int, item: int) -> str:
    return " + ".join(printable(names.name(code), 26) for code in (query, item))
