"""`neatrec demo`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from neatrec.cli.labels import show_audit
from neatrec.cli.leaderboard import show_leaderboard
from neatrec.cli.options import output_folder
from neatrec.cli.output import OutputOptions, close_bar, found_words, percent, print_table, print_text
from neatrec.text import plural, printable

if TYPE_CHECKING:
    from neatrec.data.catalog import Catalog
    from neatrec.demo import Demo


def demo(
    output: OutputOptions,
    out: Path = typer.Option(Path("neatrec-demo"), metavar="DIR", help="Write report and bundle into this folder."),
    seed: int = typer.Option(0, help="Simulate the shop with this seed.", min=0),
) -> None:
    """Run the main task on a simulated supermarket: which items really go together, and how certain that is."""
    from neatrec.demo import run_demo

    done = run_demo(output_folder(out), seed=seed)
    close_bar()
    if output.printed_json(done):
        return
    if output.verbose:
        _show_everything(done)
    _show_summary(done)


def _show_summary(done: Demo) -> None:
    """What was found, what was not fallen for, how good it is, and where to look: at most 15 lines of 80 columns."""
    from neatrec.serving import ServingTable
    from neatrec.serving.evidence import times_chance

    table, names, labels = ServingTable.open(done.bundle), done.market.baskets.catalog, done.stratified
    one, other, _ = table.with_evidence()
    planted = done.market.truth.is_complement(one, other) | done.market.truth.is_complement(other, one)
    print(f"A simulated supermarket: {plural(len(done.market.baskets), 'basket')}, {plural(len(names), 'item')}.")
    print(f"{found_words(len(one), table.coverage())}, {percent(planted.mean(), 0)} of them planted there, such as:")
    for place, evidence in done.strongest(5):
        bought = f"{times_chance(evidence.lift)} chance, {plural(evidence.customers, 'customer')}"
        print(f"  {_pair(names, labels.query[place], labels.item[place])}: {bought}")
    if (trap := done.caught()) is not None:
        overall = trap.evidence.words(public=True).removeprefix("Bought together ")
        print(f"Caught: {_pair(names, trap.query, trap.item)}, {overall}")
    first = done.board.to_json()["results"][0]
    hits = {line["name"]: line["hr"]["10"] for line in first["models"]}
    chosen, statistic = done.model.name, first["best_statistic"]
    print(f"Held-out HR@10: {hits[chosen]:.3f} by {chosen}, {hits[statistic]:.3f} by {statistic}, the best statistic.")
    print(f"The report: {done.report}")
    # `make demo` calls .venv/bin/neatrec, which is on no PATH
    program = sys.argv[0] if Path(sys.argv[0]).name == "neatrec" and not shutil.which("neatrec") else "neatrec"
    print(f'Ask: {program} recommend {done.bundle} "{names.name(done.queries()[0])}"')
    print(f"Look at it: {program} serve {done.bundle}")


def _pair(names: Catalog, query: int, item: int) -> str:
    return " + ".join(printable(names.name(code), 26) for code in (query, item))


def _show_everything(done: Demo) -> None:
    print_text(done.checked.to_text())
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
        "First answers that were planted",
        ["model", "planted"],
        [[name, percent(share)] for name, share in done.planted().items()],
        note="Of the queries of these labels, in the whole catalogue. Threads learn side by side in neat and item2vec: "
        "their measures differ a little from run to run. `neatrec train --reproducible` gives the same bits every "
        "time.",
    )
    for query, result in done.recommendations():
        best = result.answers[0] if result.answers else None
        names = ", ".join(printable(line.answer.name) for line in result.answers) or "nothing that can be shown"
        print(f"{printable(done.market.baskets.catalog.name(query))} goes with {names}.")
        if best is not None:
            print(f"  {printable(best.answer.name)}: {best.evidence.words()}")
    print("Association, not proof of extra sales.\n")


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
