"""`neatrec`: the commands, and how errors and signals become exit codes."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from textwrap import fill
from typing import Any, NoReturn

import typer

from neatrec._version import __version__
from neatrec.cli.check import check, import_orders
from neatrec.cli.demo import demo
from neatrec.cli.export import export as export_table
from neatrec.cli.labels import audit, labels
from neatrec.cli.leaderboard import benchmark, export, leaderboard
from neatrec.cli.options import with_groups
from neatrec.cli.output import close_bar, print_json
from neatrec.cli.publish import publish
from neatrec.cli.recommend import recommend
from neatrec.cli.report import report, reproduce, verify
from neatrec.cli.serve import serve
from neatrec.cli.show import show
from neatrec.cli.signals import TerminatedError, leave_on_sigterm
from neatrec.cli.train import train
from neatrec.errors import NeatrecError
from neatrec.io.options import option_infos
from neatrec.text import printable

app = typer.Typer(
    name="neatrec",
    help="Finds what goes with what from shopping baskets, and measures how far its answers can be trusted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def help_topic(
    topic: str = typer.Argument("", metavar="[data|COMMAND]", help="Explain this.", show_default=False),
) -> None:
    """Explain a command, or with `data` the options that describe SOURCE in every command."""
    if topic != "data":
        raise typer.Exit(exit_code_of([topic, "--help"] if topic else ["--help"]))
    print("Options that describe SOURCE. Every command that takes one has them; a source.toml may hold them.")
    panel = None
    for name, info in option_infos().items():
        if info.panel is None:
            continue
        if info.panel != panel:
            panel = info.panel
            print(f"\n{panel}")
        option = f"  --{name.replace('_', '-')} {info.metavar}".ljust(26)
        print(fill(info.help, 80, initial_indent=option, subsequent_indent=" " * 26))


PANELS: dict[str, dict[str, Callable[..., None]]] = {
    "Start": {"demo": demo, "check": check, "serve": serve, "help": help_topic},
    "Work": {
        "labels": labels,
        "train": train,
        "recommend": recommend,
        "export": export_table,
        "report": report,
        "show": show,
    },
    "Every night": {"import": import_orders, "publish": publish},
    "Research": {"leaderboard": leaderboard, "reproduce": reproduce, "verify": verify, "audit": audit},
}
"""Panel of `neatrec --help` -> its commands."""
for panel, commands in PANELS.items():
    for name, command in commands.items():
        app.command(name, rich_help_panel=panel)(with_groups(command))
benchmark.command("export")(with_groups(export))
app.add_typer(benchmark, name="benchmark", rich_help_panel="Research")

log = logging.getLogger(__name__)

# typer carries its own copy of click in some versions: its usage errors are found through the public BadParameter
_UsageError: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


@app.callback(invoke_without_command=True)
def version_option(
    version: bool = typer.Option(False, "--version", help="Print the version and leave.", is_eager=True),
) -> None:
    """Finds what goes with what from shopping baskets, and measures how far its answers can be trusted."""
    if version:
        print(f"neatrec {__version__}")
        raise typer.Exit


def run(arguments: list[str] | None = None) -> NoReturn:
    """The entry point: runs one command and leaves with its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    leave_on_sigterm()
    code = exit_code_of(arguments)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # the reader left early (`| head`): nothing more to print, and nothing for Python to flush at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


INTERRUPTED = ("Interrupted", "stopped by the user")


def exit_code_of(arguments: list[str]) -> int:
    """Run one command; errors become a sentence on stderr (or an object on stdout under `--json`) and an exit code."""
    as_json = "--json" in arguments
    try:
        code = app(arguments, prog_name="neatrec", standalone_mode=False) or 0
        return _report(as_json, code, *INTERRUPTED) if code == 130 else code  # typer turns Ctrl-C into this code itself
    except NeatrecError as error:
        return _report(as_json, error.exit_code, **error.to_dict()["error"], before="error: ")
    except _UsageError as error:
        message = error.format_message().rstrip(".") or "a command is needed"
        hint = "Run with --help to see what it takes."
        if message.endswith("?"):  # it ends with a suggestion
            message, _, suggestion = message.rpartition(". ")
            hint = f"{suggestion} {hint}"
        return _report(as_json, 2, "UsageError", message, hint, before="error: ")
    except (KeyboardInterrupt, typer.Abort) as error:
        if isinstance(error.__cause__, EOFError):  # typer takes any for Ctrl-D, and we never ask for input
            log.debug("traceback", exc_info=True)
            return _fault(error.__cause__, as_json)
        return _report(as_json, 130, *INTERRUPTED)
    except TerminatedError:
        return _report(as_json, 143, "Terminated", "stopped by SIGTERM")
    except BrokenPipeError:
        return 0
    except Exception as error:  # the last resort
        log.debug("traceback", exc_info=True)
        return _fault(error, as_json)
    finally:
        close_bar()


def _fault(error: BaseException, as_json: bool) -> int:
    hint = "This is a fault of neatrec; run again with --verbose for the traceback and report it."
    kind, message = type(error).__name__, printable(error, limit=500)
    return _report(as_json, 1, kind, message, hint, before=f"error: neatrec failed: {kind}: ")


def _report(
    as_json: bool, code: int, kind: str, message: str, hint: str | None = None, *, before: str = "", **where: Any
) -> int:
    """Print what ended a command as a sentence and, with --json, as an object."""
    if as_json:
        print_json({"error": {"kind": kind, "message": message, "hint": hint, **where}})
    print(before + (f"{message}. {hint}" if hint else message), file=sys.stderr)
    return code
