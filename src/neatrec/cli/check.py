"""`neatrec check`."""

from __future__ import annotations

from neatrec.cli.output import Talk, print_json
from neatrec.cli.source_options import Source


def check(source: Source, talk: Talk) -> None:
    """What is in the data, what was dropped, what looks suspect, and how much it can show."""
    from neatrec.check.check import check as check_baskets

    result = check_baskets(source.read().baskets)
    if talk.as_json:
        print_json(result.to_json())
    else:
        print(result.to_text())
