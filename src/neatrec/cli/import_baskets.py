"""`neatrec import`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from neatrec.cli.output import OutputOptions, print_json
from neatrec.cli.source_options import SourceArguments, parse_strata
from neatrec.text import plural


def import_orders(
    source: SourceArguments,
    output: OutputOptions,
    to: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Add the orders to this basket store; it is made if there is none.")
    ],
    replace_old: Annotated[
        bool,
        typer.Option("--replace", help="Replace baskets that the store has already. Default: an error."),
    ] = False,
    strata: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B", help="Keep columns that describe the basket, such as store, for --strata."),
    ] = None,
) -> None:
    """Add the orders of SOURCE to a basket store: a folder that every command takes as SOURCE."""
    from neatrec.io.basket_store import import_baskets
    from neatrec.io.read import log_dropped

    _, columns = parse_strata(strata)
    done = import_baskets(source.source, to, replace(source.options, attributes=columns), replace=replace_old)
    log_dropped(done.dropped)
    if output.as_json:
        print_json(done.to_json())
        return
    replaced = f", {done.replaced:,} of them replaced" if done.replaced else ""
    print(f"imported {plural(done.baskets, 'basket')}, {plural(done.lines, 'line')}{replaced}")
    print(f"{to} holds {plural(done.store_baskets, 'basket')} in {plural(done.parts, 'part')}")
