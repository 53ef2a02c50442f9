"""`neatrec serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from neatrec.cli.output import OutputOptions
from neatrec.service.settings import IN_FLIGHT

ACCESS = "Access"
CURATION = "Rules and stock"


def serve(
    output: OutputOptions,
    bundle: Annotated[
        Path, typer.Argument(metavar="BUNDLE|STORE", help="A bundle, or a store whose `current` is live.")
    ],
    compare: Annotated[
        list[Path] | None, typer.Option(metavar="BUNDLE", help="Another model beside it; may be repeated.")
    ] = None,
    host: Annotated[str, typer.Option(help="An address other than loopback needs a key.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8000,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes; they share the mapped table.")] = 1,
    rules: Annotated[
        Path | None,
        typer.Option(
            metavar="rules.csv", help="A table of query,item,action,position,until,note.", rich_help_panel=CURATION
        ),
    ] = None,
    available: Annotated[
        Path | None,
        typer.Option(metavar="items.txt", help="Ids of the items that may be recommended.", rich_help_panel=CURATION),
    ] = None,
    api_key_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="One key per line, at most two. Or set NEATREC_API_KEY.", rich_help_panel=ACCESS
        ),
    ] = None,
    cors_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="https://SHOP", help="An origin that may send requests; may be repeated.", rich_help_panel=ACCESS
        ),
    ] = None,
    public: Annotated[bool, typer.Option("--public", help="Do not show counts.", rich_help_panel=ACCESS)] = False,
    in_flight: Annotated[
        int, typer.Option(min=1, max=10_000, help="Requests served at the same time; more get 503.")
    ] = IN_FLIGHT,
) -> None:
    """Serve answers with their evidence: an API for shops, a page for people."""
    from neatrec.service.run import serve as run
    from neatrec.service.settings import ServiceSettings

    settings = ServiceSettings(
        bundle=bundle.absolute(),
        compare=tuple(path.absolute() for path in compare or ()),
        rules=rules and rules.absolute(),
        available=available and available.absolute(),
        key_file=api_key_file and api_key_file.absolute(),
        cors=tuple(cors_origin or ()),
        public=public,
        in_flight=in_flight,
    )
    run(settings, host=host, port=port, workers=workers, log_config=log_config(output))


def log_config(output: OutputOptions) -> dict[str, Any]:
    """The log of the server and of each worker, in the form that was asked for."""
    formatter = "_JsonFormatter" if output.log_json else "_LineFormatter"
    level = "DEBUG" if output.verbose else "WARNING" if output.quiet else "INFO"
    ours = {"handlers": ["stderr"], "propagate": False}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"()": f"neatrec.cli.output.{formatter}"}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "stream": "ext://sys.stderr"}},
        "loggers": {"neatrec": {**ours, "level": level}, "uvicorn": {**ours, "level": "WARNING"}},
    }
