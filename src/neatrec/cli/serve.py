"""`neatrec serve`."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from neatrec.cli.options import SourceArguments, argument
from neatrec.cli.output import OutputOptions, ShowProgress, close_bar, found_words
from neatrec.errors import must_be, require_extra
from neatrec.io.options import SourceOptions
from neatrec.service.settings import IN_FLIGHT
from neatrec.text import printable

log = logging.getLogger(__name__)

ACCESS = "Access"
CURATION = "Rules and stock"
PAGE = "Page"


@dataclass(frozen=True)
class ServedSource(SourceArguments):
    """What to serve: a bundle, a store, or orders to train on first."""

    source: str = argument(
        metavar="BUNDLE|STORE|SOURCE",
        help="Bundle, store, or orders to train on (`neatrec check --help` lists the options that "
        "describe them).",
        show_default=False,
    )


def serve(
    output: OutputOptions,
    source: ServedSource,
    *,
    out: Path = typer.Option(
        Path("neatrec-bundle"),
        metavar="DIR",
        help="Folder for the bundle of SOURCE.",
    ),
    browse: bool = typer.Option(False, "--open", help="Page opened in a browser."),
    host: str = typer.Option(
        "127.0.0.1", help="Address to listen on; one other than loopback needs a key."
    ),
    port: int = typer.Option(8000, min=0, max=65535, help="Port; 0 takes a free one."),
    workers: int = typer.Option(1, min=1, max=64, help="Number of processes."),
    rules: Path | None = typer.Option(
        None,
        metavar="rules.csv",
        help="Table of rules: query,item,action,position,until,note,who,when.",
        rich_help_panel=CURATION,
    ),
    available: Path | None = typer.Option(
        None,
        metavar="items.txt",
        help="Ids of the items that may be answered, one per line.",
        rich_help_panel=CURATION,
    ),
    api_key_file: Path | None = typer.Option(
        None,
        metavar="FILE",
        help="Keys of the API, one per line, at most two. Or set NEATREC_API_KEY.",
        rich_help_panel=ACCESS,
    ),
    editor_key_file: Path | None = typer.Option(
        None,
        metavar="FILE",
        help="Keys of those who may edit the rules on the page. Default: nobody.",
        rich_help_panel=ACCESS,
    ),
    cors_origin: list[str] | None = typer.Option(
        None,
        metavar="https://SHOP",
        help="Origin of requests from a browser; repeatable.",
        rich_help_panel=ACCESS,
    ),
    image_url: str | None = typer.Option(
        None,
        metavar="https://CDN/{id}.jpg",
        help="Address of an item's picture; {id} stands for its id.",
        rich_help_panel=PAGE,
    ),
    link_url: str | None = typer.Option(
        None,
        metavar="https://SHOP/{id}",
        help="Address of an item in the shop.",
        rich_help_panel=PAGE,
    ),
    in_flight: int = typer.Option(
        IN_FLIGHT, min=1, max=10_000, help="Number of requests at the same time; more get 503."
    ),
) -> None:
    """Serve answers with their evidence: an API for shops and a page for people.

    `neatrec serve orders.csv` trains the default model first, unless DIR holds
    that of the same baskets. A bundle of other options is never replaced.
    """
    import webbrowser

    require_extra("serve", "the service")
    from neatrec.bundle import is_bundle
    from neatrec.bundle.versions import is_store
    from neatrec.service.run import bound, require_api_key
    from neatrec.service.run import serve as run
    from neatrec.service.settings import AddressTemplate, ServiceSettings

    trained = is_bundle(source.source) or is_store(Path(source.source))
    settings = ServiceSettings(
        bundle=Path(source.source if trained else out).absolute(),
        rules=rules and rules.absolute(),
        available=available and available.absolute(),
        key_file=api_key_file and api_key_file.absolute(),
        editor_key_file=editor_key_file and editor_key_file.absolute(),
        cors=tuple(cors_origin or ()),
        image_url=None if image_url is None else AddressTemplate.parse("--image-url", image_url),
        link_url=None if link_url is None else AddressTemplate.parse("--link-url", link_url),
        in_flight=in_flight,
    )
    if not trained:
        require_api_key(host, settings)  # and a port in use: before the minutes of training
        bound(host, port).close()
        _train(source, out, output)
    elif source.options != SourceOptions():
        raise must_be(
            "SOURCE", "orders where options describe columns, rows or training", source.source
        )
    opened = {"ready": webbrowser.open} if browse else {}
    run(settings, host=host, port=port, workers=workers, log_config=log_config(output), **opened)


def _train(source: ServedSource, out: Path, output: OutputOptions) -> None:
    """The default model of the orders that were named, unless `out` holds it already."""
    from neatrec.bundle import is_bundle, read_manifest
    from neatrec.training.train import ModelChoice, TrainOptions, train_bundle, trained_otherwise

    choice, options = ModelChoice(), TrainOptions(progress=ShowProgress(output))
    baskets = source.read().baskets
    if is_bundle(out) and (other := trained_otherwise(out, baskets, choice, options)) is not None:
        raise must_be(
            "--out",
            "a new folder, or a bundle of the same training",
            f"{printable(out)} ({other})",
            hint=f"`neatrec serve {printable(out)}` serves it as it is.",
        )
    if is_bundle(out) and read_manifest(out).data_hash == baskets.hash:
        log.info(
            "serving the bundle in %s, which was trained on the same baskets with the same options",
            printable(out),
        )
    else:
        found = train_bundle(lambda: baskets, out, choice, options)
        close_bar()
        log.info("%s", found_words(found["pairs"], found["coverage"]))


def log_config(output: OutputOptions) -> dict[str, Any]:
    """The log of the server and of each worker, in the form that was asked for."""
    formatter = "_JsonFormatter" if output.log_json else "_LineFormatter"
    level = "DEBUG" if output.verbose else "WARNING" if output.quiet else "INFO"
    ours = {"handlers": ["stderr"], "propagate": False}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"()": f"neatrec.cli.output.{formatter}"}},
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "formatter": "line",
                "stream": "ext://sys.stderr",
            }
        },
        "loggers": {"neatrec": {**ours, "level": level}, "uvicorn": {**ours, "level": "WARNING"}},
    }
