"""`neatrec export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from neatrec.cli.output import OutputOptions, print_json


def export(
    output: OutputOptions,
    bundle: Annotated[
        Path, typer.Argument(help="Export a bundle with its serving table, or a store.", show_default=False)
    ],
    out: Annotated[
        Path, typer.Option(metavar="F.parquet|F.csv|F.sql", help="Write the answers into this file.")
    ] = Path("neatrec-answers.parquet"),
    k: Annotated[int, typer.Option("-k", help="Write at most so many answers per item.", min=1)] = 10,
    min_evidence: Annotated[
        str | None,
        typer.Option(
            metavar="certain|likely|guess",
            help="Write only answers at least this sure. Default: likely; for items that nobody has bought, what "
            "goes with their category.",
        ),
    ] = None,
) -> None:
    """Write what `recommend` answers for every item, with the evidence, as a file."""
    from neatrec.release.export import export_table
    from neatrec.release.store import bundle_in
    from neatrec.serving import ServingTable

    rows = export_table(ServingTable.open(bundle_in(bundle)), out, min_evidence=min_evidence, k=k)
    if output.as_json:
        print_json({"out": str(out), "answers": rows})
    else:
        print(f"{rows:,} answers in {out}")
