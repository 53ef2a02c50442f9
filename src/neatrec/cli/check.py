"""`neatrec check`."""

from __future__ import annotations

from neatrec.cli.output import OutputOptions, print_json, print_text
from neatrec.cli.source_options import SourceArguments


def check(source: SourceArguments, output: OutputOptions) -> None:
    """Report what is in the data, what was dropped, what looks suspect, and how much it can show."""
    from neatrec.check.run import check_baskets

    result = check_baskets(source.read().baskets)
    if output.as_json:
        print_json(result.to_json())
    else:
        print_text(result.to_text())
