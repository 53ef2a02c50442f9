"""`neatrec recommend`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from neatrec.cli.options import MIN_EVIDENCE, SAME_CATEGORY, K
from neatrec.cli.output import OutputOptions
from neatrec.text import printable

if TYPE_CHECKING:
    from neatrec.serving import Answers, PairTable


def recommend(
    output: OutputOptions,
    bundle: Path = typer.Argument(..., help="Bundle, or store.", show_default=False),
    items: list[str] = typer.Argument(
        ...,
        metavar="ITEM...",
        help="Ids or names of items; several form a cart.",
        show_default=False,
    ),
    *,
    k: int = K,
    min_evidence: str | None = MIN_EVIDENCE,
    category: list[str] | None = typer.Option(None, help="Category of the answers; repeatable."),
    exclude: list[str] | None = typer.Option(None, help="Item to leave out; repeatable."),
    same_category: str | None = SAME_CATEGORY,
    include_explained: bool = typer.Option(
        False,
        "--include-explained",
        help="Pairs explained by a season, a store or basket size, listed separately.",
    ),
    month: int | None = typer.Option(
        None, metavar="1-12", min=1, max=12, help="Month of the seasonal pairs to list."
    ),
) -> None:
    """Print the complements of an item or of a cart, with their certainty."""
    from neatrec.bundle.versions import bundle_in
    from neatrec.serving import PairTable
    from neatrec.serving import recommend as answered

    table = PairTable.open(bundle_in(bundle))
    answers = answered(
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
    notes = list(answers.notes)
    if answers.left_out:
        left = f"left out {answers.left_out} below {min_evidence or 'likely'!r}"
        notes.append(f"{left}: --min-evidence guess shows them")
    if not output.printed_json(_as_json(table, answers, notes)):
        _print_answers(table, answers)
        for note in notes:
            print(f"note: {note}", file=sys.stderr)


def _as_json(table: PairTable, answers: Answers, notes: list[str]) -> dict[str, Any]:
    catalog = table.catalog
    return {
        "model": table.manifest.model,
        "kind": table.manifest.kind,
        "items": [{"id": catalog.public_id(c), "name": catalog.name(c)} for c in answers.cart],
        "recommendations": answers.rows(),
        "explained": answers.explained_rows(),
        "strata": list(table.pairs.strata),
        "notes": notes,
    }


def _print_answers(table: PairTable, answers: Answers) -> None:
    from neatrec.serving import FOOTER

    cart = ", ".join(printable(table.catalog.name(code)) for code in answers.cart)
    print(f"Goes with {cart} ({table.manifest.model})\n")
    for row in answers.rows():
        _print_row(row)
    if answers.explained:
        print("\nOnly by season, store or basket size:\n")
    for row in answers.explained_rows():
        _print_row(row)
    nothing = "No answer has this much evidence."
    print(f"\n{FOOTER}" if answers.lines or answers.explained else nothing)
    print(table.pairs.words())


def _print_row(row: Mapping[str, Any]) -> None:
    same = "same category" if row["evidence"]["same_category"] else None
    facts = ", ".join(filter(None, (row["grade"], row["strength"], same)))
    name, item = printable(row["name"]), printable(row["id"])
    print(f"{row['rank']:3}  {name} ({item}), {printable(facts)}")
    reasons = [f"with {one['name']}: {one['words']}" for one in row["goes_with"]]
    for words in reasons or [row["evidence"]["words"]]:
        print(f"     {printable(words, 400)}")
