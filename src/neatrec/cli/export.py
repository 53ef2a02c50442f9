"""`neatrec export`."""

from __future__ import annotations

from pathlib import Path

import typer

from neatrec.cli.output import OutputOptions, print_json
from neatrec.errors import ParameterError, must_be


def export(
    output: OutputOptions,
    bundle: Path = typer.Argument(..., help="Export a bundle with its serving table, or a store.", show_default=False),
    *,
    target: str | None = typer.Option(
        None,
        "--for",
        metavar="TARGET",
        help="Write what this system reads: parquet, csv, sql, jsonl (one row or line each); json (a folder for a "
        "static host, with the widget); shopify, woocommerce, magento (a product import, where item ids are SKUs "
        "or, with --products, whatever names a product); postgres, redis, sqlite. Default: by the ending of --out, "
        "or parquet.",
    ),
    out: str | None = typer.Option(
        None,
        metavar="FILE|ADDRESS",
        help="Write into this file, or this database: postgresql://user@host/database, redis://host. Passwords "
        "come from PGPASSWORD, ~/.pgpass and REDIS_PASSWORD. Default: neatrec-answers.parquet, or named after "
        "the target.",
    ),
    k: int = typer.Option(10, "-k", help="Write at most so many answers per item.", min=1),
    min_evidence: str | None = typer.Option(
        None,
        metavar="certain|likely|guess",
        help="Write only answers at least this sure. Default: likely; for items that nobody has bought, what "
        "goes with their category.",
    ),
    products: Path | None = typer.Option(
        None,
        metavar="FILE.csv",
        help="Find items in the product export of your Shopify (by handle or SKU), WooCommerce (ID or SKU) or "
        "Magento shop (SKU), and write its products only. Shopify needs it.",
    ),
    table: str | None = typer.Option(
        None,
        metavar="NAME",
        help="Replace the rows of this table (PostgreSQL: SCHEMA.TABLE), or this key of Redis. Default: "
        "public.neatrec_complements, neatrec:complements.",
    ),
    vectors: bool = typer.Option(
        False, "--vectors", help="Write the vectors of the items for a vector store instead of answers."
    ),
) -> None:
    """Write what `recommend` answers for every item: a file, a shop's import, a database; or the vectors."""
    from neatrec.bundle.versions import bundle_in
    from neatrec.io.addresses import is_address
    from neatrec.release.export import ExportOptions, export_answers
    from neatrec.serving import ServingTable

    folder = bundle_in(bundle)
    if vectors:
        for name, value in {"for": target, "min-evidence": min_evidence, "products": products, "table": table}.items():
            if value is not None:
                raise must_be(name, "left out with --vectors", str(value))
        if out is not None and is_address(out):  # not repeated: it may hold a password
            raise ParameterError("`out` must be a file with --vectors, not an address", argument="out")
        _export_vectors(output, folder, out or "neatrec-vectors.parquet")
        return
    done = export_answers(ServingTable.open(folder), ExportOptions(target, out, k, min_evidence, products, table))
    if output.as_json:
        left_out = len(done.left_out)
        print_json({"for": done.target, "out": done.out, "answers": done.answers, "left_out": left_out})
    else:
        print(f"{done.answers:,} answers in {done.out}")


def _export_vectors(output: OutputOptions, bundle: Path, out: str) -> None:
    from neatrec.bundle import export_vectors, load_bundle

    model = load_bundle(bundle)
    export_vectors(model, out)
    items = int((model.item_count > 0).sum())
    if not output.printed_json({"out": out, "model": model.name, "vectors": items}):
        print(f"{items:,} vectors of {model.name} in {out}")
