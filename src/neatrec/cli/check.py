"""`neatrec check` and `neatrec import`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import typer

from neatrec.cli.options import HALF_LIFE_HELP, STRATA_HELP, SourceArguments, parse_strata
from neatrec.cli.output import OutputOptions, print_text
from neatrec.text import plural


def check(
    source: SourceArguments,
    output: OutputOptions,
    strata: list[str] | None = typer.Option(None, metavar="A,B|none", help=STRATA_HELP),
    half_life: str | None = typer.Option(None, metavar="90d|none", help=HALF_LIFE_HELP),
) -> None:
    """Report what is in the data, what was dropped, what looks suspect, and how much it can show."""
    from neatrec.check.run import check_baskets

    named, columns = parse_strata(strata)
    result = check_baskets(source.read(attributes=columns).baskets, strata=named, half_life=half_life)
    if not output.printed_json(result):
        print_text(result.to_text())


def import_orders(
    source: SourceArguments,
    output: OutputOptions,
    to: Path = typer.Option(
        ..., metavar="FOLDER", help="Add the orders to this basket store; it is made if there is none."
    ),
    replace_old: bool = typer.Option(
        False, "--replace", help="Replace baskets that the store has already. Default: an error."
    ),
    strata: list[str] | None = typer.Option(
        None, metavar="A,B", help="Keep columns that describe the basket, such as store, for --strata."
    ),
) -> None:
    """Add the orders of SOURCE to a basket store: a folder that every command takes as SOURCE."""
    from neatrec.io.basket_store import import_baskets
    from neatrec.io.read import log_dropped

    _, columns = parse_strata(strata)
    done = import_baskets(source.source, to, replace(source.options, attributes=columns), replace=replace_old)
    log_dropped(done.dropped)
    if output.printed_json(done):
        return
    replaced = f", {done.replaced:,} of them replaced" if done.replaced else ""
    print(f"imported {plural(done.baskets, 'basket')}, {plural(done.lines, 'line')}{replaced}")
    print(f"{to} holds {plural(done.store_baskets, 'basket')} in {plural(done.parts, 'part')}")
