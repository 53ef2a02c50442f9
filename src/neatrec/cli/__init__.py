"""The command line: parse, one call, print. Nobody imports it."""

from __future__ import annotations

import sys

from neatrec._version import __version__


def run() -> None:
    """The entry point of `neatrec`. Printing the version does not wait for the parser's imports."""
    if sys.argv[1:] == ["--version"]:
        print(f"neatrec {__version__}")
        return
    from neatrec.cli.main import run as run_command

    run_command()
