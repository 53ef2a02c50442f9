"""`neatrec export`."""

from __future__ import annotations

from pathlib import Path

import typer

from neatrec.cli.options import MIN_EVIDENCE, SAME_CATEGORY, K
from neatrec.cli.output import OutputOptions
from neatrec.text import plural, printable


def export(
    output: OutputOptions,
    bundle: Path = typer.Argument(..., help="Bundle, or store.", show_default=False),
    *,
    target: str | None = typer.Option(
        None,
        "--for",
        metavar="TARGET",
        help="Format: parquet, csv (one row per answer), jsonl (one line per item), shopify or "
        "woocommerce (a product import), postgres, redis. Default: by the ending of --out, or "
        "parquet.",
    ),
    out: str | None = typer.Option(
        None,
        metavar="FILE|ADDRESS",
        help="File, or address of a database: postgresql://user@host/database, redis://host. "
        "Passwords come from PGPASSWORD, ~/.pgpass and REDIS_PASSWORD. Default: a file named "
        "after the format.",
    ),
    k: int = K,
    min_evidence: str | None = MIN_EVIDENCE,
    same_category: str | None = SAME_CATEGORY,
    products: Path | None = typer.Option(
        None,
        metavar="FILE.csv",
        help="Product export of the Shopify shop (handle or SKU) or WooCommerce shop (ID or SKU); "
        "only its products are written. Shopify needs it.",
    ),
    table: str | None = typer.Option(
        None,
        metavar="NAME",
        help="Table of PostgreSQL (SCHEMA.TABLE) or key of Redis to replace. Default: "
        "public.neatrec_complements, neatrec:complements.",
    ),
) -> None:
    """Write the answers for every item into a file, a shop import or a database."""
    from neatrec.bundle.versions import bundle_in
    from neatrec.release import ExportOptions, export_answers
    from neatrec.serving import PairTable

    options = ExportOptions(target, out, k, min_evidence, same_category, products, table)
    done = export_answers(PairTable.open(bundle_in(bundle)), options)
    facts = {"for": done.target, "out": done.out, "answers": done.answers}
    if not output.printed_json({**facts, "left_out": len(done.left_out)}):
        print(f"{plural(done.answers, 'answer')} in {printable(done.out)}")
