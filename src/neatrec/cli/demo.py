"""`neatrec demo`."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from neatrec.cli.audit import show_audit
from neatrec.cli.leaderboard import show_leaderboard
from neatrec.cli.output import OutputOptions, percent, print_json, print_table
from neatrec.cli.source_options import output_folder
from neatrec.text import printable

if TYPE_CHECKING:
    from neatrec.demo import Demo

log = logging.getLogger(__name__)


def demo(
    output: OutputOptions,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where report and bundle are written.")] = Path(
        "neatrec-demo"
    ),
    seed: Annotated[int, typer.Option(help="Seed of the simulated shop.", min=0)] = 0,
) -> None:
    """Run the main task on a simulated supermarket: which items really go together, and how certain that is."""
    from neatrec.demo import run_demo

    done = run_demo(output_folder(out), seed=seed, log=log.info)
    if output.as_json:
        print_json(done.to_json())
        return
    print(done.checked.to_text())
    print()
    show_audit(done.plain)
    print(
        f"Within baskets of one size, month and store the calibrated labels are "
        f"{percent(done.stratified_score.precision)} right:\n"
        "what only a season or a single store brings together is gone, from labels and from answers.\n"
    )
    _show_strongest(done)
    show_leaderboard(done.board)
    print_table(
        "First answers to the queries of these labels, whole catalogue",
        ["model", "planted"],
        [[name, percent(share)] for name, share in done.planted().items()],
    )
    print(
        "Threads learn side by side in neat and item2vec: their measures differ a little from run to run.\n"
        "`neatrec train --reproducible` gives the same bits every time.\n"
    )
    for query, asked in done.recommendations():
        best = asked.answers[0] if asked.answers else None
        names = ", ".join(printable(line.answer.name) for line in asked.answers) or "nothing that can be shown"
        print(f"{printable(done.market.baskets.catalog.name(query))} goes with {names}.")
        if best is not None:
            print(f"  {printable(best.answer.name)}: {best.evidence.words()}")
    print("Association, not proof of extra sales.")
    print(f"\nThe report: {done.report}\nAsk for more: neatrec recommend {done.bundle} ITEM")
    print(f"Look at it and ask by HTTP: neatrec serve {done.bundle}")


def _show_strongest(done: Demo) -> None:
    """The strongest labels, with the evidence that the bundle serves: one pair, one set of numbers."""
    from neatrec.serving.evidence import at_least, times_chance

    labels = done.stratified
    planted = done.market.truth.is_complement(labels.query, labels.item)
    print_table(
        "Strongest pairs within basket size, month and store",
        ["query", "goes with", "customers", "expected", "times chance", "at least", "planted"],
        [
            [
                labels.catalog.name(labels.query[i]),
                labels.catalog.name(labels.item[i]),
                evidence.customers,
                evidence.expected,
                times_chance(evidence.lift),
                at_least(evidence.lift_low),
                bool(planted[i]),
            ]
            for i, evidence in done.strongest(5)
        ],
    )
