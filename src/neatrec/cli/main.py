"""`neatrec`: the commands, and how errors and signals become exit codes."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import typer

from neatrec._version import __version__
from neatrec.cli.check import check, import_orders
from neatrec.cli.demo import demo
from neatrec.cli.export import export
from neatrec.cli.labels import labels
from neatrec.cli.leaderboard import leaderboard, report
from neatrec.cli.options import with_groups
from neatrec.cli.output import close_bar, print_json
from neatrec.cli.publish import publish
from neatrec.cli.recommend import recommend
from neatrec.cli.serve import serve
from neatrec.cli.show import show
from neatrec.cli.train import train
from neatrec.errors import NeatrecError
from neatrec.text import printable

__all__ = ["app", "exit_code_of", "run"]

PURPOSE = "Finds the products that are bought together, and states how certain each pair is."
app = typer.Typer(
    name="neatrec",
    help=PURPOSE,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


PANELS: dict[str, dict[str, Callable[..., None]]] = {
    "Start": {"demo": demo, "check": check, "serve": serve},
    "Work": {"train": train, "recommend": recommend, "report": report, "show": show},
    "Every night": {"import": import_orders, "publish": publish, "export": export},
    "Research": {"labels": labels, "leaderboard": leaderboard},
}
"""Panel of `neatrec --help` -> its commands."""
for panel, commands in PANELS.items():
    for name, command in commands.items():
        grouped = with_groups(command, show_source_options=command is check)
        app.command(name, rich_help_panel=panel)(grouped)

log = logging.getLogger(__name__)

# typer may carry its own copy of click: its usage errors are found through the public BadParameter
_UsageError: Any = next(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"
)


@app.callback(invoke_without_command=True)
def version_option(
    version: bool = typer.Option(False, "--version", help="Version of neatrec.", is_eager=True),
) -> None:
    """Print the version."""
    if version:
        print(f"neatrec {__version__}")
        raise typer.Exit


def run(arguments: list[str] | None = None) -> NoReturn:
    """The entry point: runs one command and leaves with its exit code."""
    for number in STOPPED:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)
    code = exit_code_of(sys.argv[1:] if arguments is None else arguments)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # the reader left early (`| head`): Python must have nothing to flush at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _stop(number: int, frame: Any) -> NoReturn:
    _signals.append(number)
    raise KeyboardInterrupt  # unwinds, so that files and locks are released


_signals: list[int] = []
"""The signals that arrived: a library may turn our exception into one of its own."""
STOPPED = {
    signal.SIGINT: (130, "Interrupted", "stopped by the user"),
    signal.SIGTERM: (143, "Terminated", "stopped by SIGTERM"),
}


def exit_code_of(arguments: list[str]) -> int:
    """Run one command; an error becomes a sentence (an object with `--json`) and an exit code."""
    as_json = "--json" in arguments
    try:
        if "_NEATREC_COMPLETE" in os.environ:
            app(prog_name="neatrec")
        # not by `app`, which would take Ctrl-C and the end of a file for an answer of the user
        with typer.main.get_command(app).make_context("neatrec", list(arguments)) as context:
            context.command.invoke(context)
        return 0
    except typer.Exit as done:
        return int(done.exit_code)
    except NeatrecError as error:
        return _report(as_json, error.exit_code, **error.to_dict()["error"], before="error: ")
    except _UsageError as error:
        return _usage(error, arguments)
    except BrokenPipeError:
        return 0
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # rich: the reader left early
            return 0
        raise
    except (KeyboardInterrupt, Exception) as error:
        if _signals or isinstance(error, KeyboardInterrupt):
            number = _signals[0] if _signals else signal.SIGINT
            return _report(as_json, *STOPPED[signal.Signals(number)])
        log.debug("traceback", exc_info=True)
        return _fault(error, as_json)
    finally:
        close_bar()


def _usage(error: Any, arguments: list[str]) -> int:
    """An unknown command or option, or a value of the wrong kind."""
    named = [word for word in arguments[:1] for commands in PANELS.values() if word in commands]
    command, listed = " ".join(["neatrec", *named]), "options" if named else "commands"
    message = error.format_message().rstrip(".") or "a command is needed"
    hint = f"`{command} --help` lists the {listed}."
    if message.endswith("?"):  # it ends with a suggestion
        message, _, suggestion = message.rpartition(". ")
        hint = f"{suggestion} {hint}"
    return _report("--json" in arguments, 2, "UsageError", message, hint, before="error: ")


def _fault(error: Exception, as_json: bool) -> int:
    hint = "This is a bug in neatrec; run again with --verbose for the traceback and report it."
    kind, message = type(error).__name__, printable(error, limit=500)
    return _report(as_json, 1, kind, message, hint, before=f"error: neatrec failed: {kind}: ")


def _report(
    as_json: bool,
    code: int,
    kind: str,
    message: str,
    hint: str | None = None,
    *,
    before: str = "",
    **where: Any,
) -> int:
    """Print what ended a command as a sentence and, with --json, as an object."""
    if as_json:
        print_json({"error": {"kind": kind, "message": message, "hint": hint, **where}})
    print(before + (f"{message}. {hint}" if hint else message), file=sys.stderr)
    return code
