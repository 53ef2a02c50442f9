"""`neatrec check`."""

from __future__ import annotations

from typing import Annotated

import typer

from neatrec.cli.output import OutputOptions, print_json, print_text
from neatrec.cli.source_options import HALF_LIFE_HELP, STRATA_HELP, SourceArguments, parse_strata


def check(
    source: SourceArguments,
    output: OutputOptions,
    strata: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B|none",
            help=STRATA_HELP,
        ),
    ] = None,
    half_life: Annotated[str | None, typer.Option(metavar="90d|none", help=HALF_LIFE_HELP)] = None,
) -> None:
    """Report what is in the data, what was dropped, what looks suspect, and how much it can show."""
    from neatrec.check.run import check_baskets

    named, columns = parse_strata(strata)
    result = check_baskets(source.read(attributes=columns).baskets, strata=named, half_life=half_life)
    if output.as_json:
        print_json(result.to_json())
    else:
        print_text(result.to_text())
