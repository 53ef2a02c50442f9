"""`neatrec recommend`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from neatrec.cli.options import same_category_option
from neatrec.cli.output import OutputOptions, print_json
from neatrec.text import printable

if TYPE_CHECKING:
    from neatrec.serving import Answers, PairTable


def recommend(
    output: OutputOptions,
    bundle: Path = typer.Argument(..., help="Bundle, or store.", show_default=False),
    items: list[str] = typer.Argument(
        ..., metavar="ITEM...", help="Ids or names; several are a cart.", show_default=False
    ),
    *,
    k: int = typer.Option(10, "-k", help="Number of answers.", min=1),
    min_evidence: str | None = typer.Option(
        None,
        metavar="certain|likely|guess",
        help="Least evidence of an answer. Default: likely; for an item that nobody has bought, "
        "the answers of its category.",
    ),
    category: list[str] | None = typer.Option(None, help="Category of the answers; repeatable."),
    exclude: list[str] | None = typer.Option(None, help="Item to leave out; repeatable."),
    same_category: str | None = same_category_option("question's"),
    include_explained: bool = typer.Option(
        False,
        "--include-explained",
        help="Pairs that a season, a store or large baskets explain too.",
    ),
    month: int | None = typer.Option(
        None, metavar="1-12", min=1, max=12, help="Month whose seasonal pairs are listed too."
    ),
) -> None:
    """Print the complements of an item or of a cart, with their certainty."""
    from neatrec.bundle.versions import bundle_in
    from neatrec.serving import PairTable
    from neatrec.serving import recommend as answered

    table = PairTable.open(bundle_in(bundle))
    found = answered(
        table,
        items,
        k,
        min_evidence=min_evidence,
        category=category,
        exclude=exclude or (),
        same_category=same_category,
        include_explained=include_explained,
        month=month,
    )
    notes = list(found.notes)
    if found.left_out:
        least = min_evidence or "likely"
        notes.append(f"left out {found.left_out} below {least!r}: --min-evidence guess shows them")
    if output.as_json:
        print_json(_as_json(table, found, notes))
    else:
        _print_answers(table, found)
        for note in notes:
            print(f"note: {note}", file=sys.stderr)


def _as_json(table: PairTable, found: Answers, notes: list[str]) -> dict[str, Any]:
    manifest, catalog = table.manifest, table.catalog
    return {
        "model": manifest.model,
        "kind": manifest.kind,
        "items": [{"id": catalog.public_id(c), "name": catalog.name(c)} for c in found.cart],
        "recommendations": found.rows(),
        "explained": found.explained_rows(),
        "strata": list(table.pairs.strata),
        "notes": notes,
    }


def _print_answers(table: PairTable, found: Answers) -> None:
    from neatrec.serving import FOOTER

    cart = ", ".join(printable(table.catalog.name(code)) for code in found.cart)
    print(f"Goes with {cart} ({table.manifest.model})\n")
    for row in found.rows():
        _print_row(row)
    if found.explained:
        print("\nOnly by season, store or basket size:\n")
    for row in found.explained_rows():
        _print_row(row)
    print(f"\n{FOOTER}" if found.lines or found.explained else "No answer has this much evidence.")
    print(table.pairs.words())


def _print_row(row: Mapping[str, Any]) -> None:
    same = "same category" if row["evidence"]["same_category"] else None
    facts = ", ".join(filter(None, (row["grade"], row["strength"], same)))
    name, item = printable(row["name"]), printable(row["id"])
    print(f"{row['rank']:3}  {name} ({item}), {printable(facts)}")
    reasons = [f"with {one['name']}: {one['words']}" for one in row["goes_with"]]
    for words in reasons or [row["evidence"]["words"]]:
        print(f"     {printable(words, 400)}")
