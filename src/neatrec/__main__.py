"""`python -m neatrec` is the command line."""

from neatrec.cli.main import run

run()
