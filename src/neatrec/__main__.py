"""`python -m neatrec` is the command line."""

from neatrec.cli import run

run()
