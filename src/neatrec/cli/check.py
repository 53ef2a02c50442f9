"""`neatrec check` and `neatrec import`."""

from __future__ import annotations

from pathlib import Path

import typer

from neatrec.cli.options import STRATA_HELP, EngineArguments, SourceArguments, strata_names
from neatrec.cli.output import OutputOptions, print_text
from neatrec.text import plural


def check(
    source: SourceArguments,
    engine: EngineArguments,
    output: OutputOptions,
    strata: list[str] | None = typer.Option(None, metavar="A,B|none", help=STRATA_HELP),
) -> None:
    """Report contents, dropped rows, suspect values, and the smallest detectable lift."""
    from neatrec.check.run import check_baskets

    names, counting = strata_names(strata), engine.start()
    result = check_baskets(source.read(names), strata=names, engine=counting)
    if not output.printed_json(result):
        print_text(result.to_text())


def import_orders(
    source: SourceArguments,
    output: OutputOptions,
    to: Path = typer.Option(..., metavar="FOLDER", help="Folder of the orders, new or existing."),
    replace_old: bool = typer.Option(
        False, "--replace", help="Replacement of existing orders. Default: an error."
    ),
    strata: list[str] | None = typer.Option(
        None, metavar="A,B", help="Columns that describe the basket, such as store, to keep."
    ),
) -> None:
    """Add the orders of SOURCE to a folder, which every command takes as SOURCE."""
    from neatrec.io import orders_folder
    from neatrec.io.read import log_dropped

    options = source.described(strata_names(strata))
    done = orders_folder.import_orders(source.source, to, options, replace=replace_old)
    log_dropped(done.dropped)
    if output.printed_json(done):
        return
    replaced = f", {done.replaced:,} of them replaced" if done.replaced else ""
    print(f"imported {plural(done.baskets, 'basket')}, {plural(done.lines, 'line')}{replaced}")
    print(f"{to} holds {plural(done.folder_baskets, 'basket')} in {plural(done.parts, 'file')}")
