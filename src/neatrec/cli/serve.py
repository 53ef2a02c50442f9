"""`neatrec serve`."""

from __future__ import annotations

import logging
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from neatrec.cli.options import SourceArguments
from neatrec.cli.output import OutputOptions, found_words
from neatrec.errors import must_be, require_extra
from neatrec.io.options import SourceOptions
from neatrec.service.settings import IN_FLIGHT, AddressTemplate, ServiceSettings
from neatrec.text import printable

if TYPE_CHECKING:
    from neatrec.data.baskets import Baskets

log = logging.getLogger(__name__)

ACCESS, CURATION, PAGE = "Access", "Rules and stock", "Page"


def serve(
    output: OutputOptions,
    source: str = typer.Argument(
        ...,
        metavar="BUNDLE|STORE|SOURCE",
        help="Bundle, store, or orders to train on (`neatrec check --help` lists the options that "
        "describe them).",
        show_default=False,
    ),
    *,
    described: SourceOptions,
    out: Path = typer.Option(
        Path("neatrec-bundle"), metavar="DIR", help="Folder for the bundle of SOURCE."
    ),
    browse: bool = typer.Option(False, "--open", help="Page opened in a browser."),
    host: str = typer.Option(
        "127.0.0.1", help="Address to listen on; any but loopback requires a key."
    ),
    port: int = typer.Option(8000, min=0, max=65535, help="Port; 0: any free one."),
    workers: int = typer.Option(1, min=1, max=64, help="Number of processes."),
    in_flight: int = typer.Option(
        IN_FLIGHT, min=1, max=10_000, help="Number of concurrent requests; more get 503."
    ),
    rules: Path | None = typer.Option(
        None,
        metavar="rules.csv",
        help="Table of rules: query,item,action,position,until,note,who,when.",
        rich_help_panel=CURATION,
    ),
    available: Path | None = typer.Option(
        None,
        metavar="items.txt",
        help="Ids of the available items, one per line.",
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
        help="Keys of editors, who may change rules on the page. Default: none.",
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
) -> None:
    """Serve answers with their evidence: an API for shops and a page for people.

    `neatrec serve orders.csv` trains the default model first, unless DIR holds
    one of the same baskets. A bundle trained with other options is never replaced.
    """
    require_extra("serve", "the service")
    from neatrec.bundle import is_bundle
    from neatrec.bundle.versions import is_store
    from neatrec.service.run import bound, require_api_key
    from neatrec.service.run import serve as run

    trained = is_bundle(source) or is_store(Path(source))
    settings = ServiceSettings(
        bundle=Path(source) if trained else out,
        rules=rules,
        available=available,
        key_file=api_key_file,
        editor_key_file=editor_key_file,
        cors=tuple(cors_origin or ()),
        image_url=_address("--image-url", image_url),
        link_url=_address("--link-url", link_url),
        in_flight=in_flight,
    )
    if not trained:
        # a missing key or a port in use is said before the minutes of training
        require_api_key(host, settings)
        bound(host, port).close()
        _train(SourceArguments(source, described).read(), out, output)
    elif described != SourceOptions():
        raise must_be("SOURCE", "orders if options describe columns or rows", source)
    opened = {"ready": webbrowser.open} if browse else {}
    log_config = output.log_config()
    run(settings, host=host, port=port, workers=workers, log_config=log_config, **opened)


def _address(option: str, text: str | None) -> AddressTemplate | None:
    return None if text is None else AddressTemplate.parse(option, text)


def _train(baskets: Baskets, out: Path, output: OutputOptions) -> None:
    """Train the default model on the orders, unless `out` holds it already."""
    from neatrec.bundle import is_bundle, read_manifest
    from neatrec.training.train import ModelChoice, TrainOptions, train_bundle, trained_otherwise

    choice, options = ModelChoice(), TrainOptions(progress=output.show_progress)
    shown = printable(out)
    if is_bundle(out):
        if (other := trained_otherwise(out, choice, options)) is not None:
            wanted = "a new folder, or a bundle of the same training"
            hint = f"`neatrec serve {shown}` serves it as it is."
            raise must_be("--out", wanted, f"{shown} ({other})", hint=hint)
        if read_manifest(out).data_hash == baskets.hash:
            log.info("serving %s, trained on the same baskets with the same options", shown)
            return
    trained = train_bundle(lambda: baskets, out, choice, options)
    log.info("%s", found_words(trained["pairs"], trained["coverage"]))
