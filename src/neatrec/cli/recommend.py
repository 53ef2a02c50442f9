"""`neatrec recommend`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from neatrec.cli.talk import Talk, print_json, print_table
from neatrec.text import printable


def recommend(
    talk: Talk,
    bundle: Annotated[Path, typer.Argument(help="A bundle that `neatrec train` wrote.", show_default=False)],
    items: Annotated[
        list[str], typer.Argument(metavar="ITEM...", help="Ids or names; several are a cart.", show_default=False)
    ],
    k: Annotated[int, typer.Option("-k", help="How many answers.", min=1)] = 10,
    category: Annotated[list[str] | None, typer.Option(help="Only items of this category; may be repeated.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Never this item; may be repeated.")] = None,
    same_category: Annotated[
        bool, typer.Option("--same-category", help="Also items of the cart's own categories.")
    ] = False,
) -> None:
    """What goes with an item, or with a whole cart."""
    from neatrec.bundle import load_bundle

    model = load_bundle(bundle)
    answer = model.recommend(items, k, category=category or None, exclude=exclude or (), same_category=same_category)
    if talk.as_json:
        print_json({"model": model.name, "kind": model.kind, **answer.to_dict()})
        return
    cart = ", ".join(printable(model.catalog.name(code)) for code in answer.cart)
    rows: list[list[object]] = [[r.rank, r.name, r.id, " / ".join(r.category), r.score] for r in answer]
    print_table(f"Goes with {cart} ({model.name})", ["rank", "item", "id", "category", "score"], rows)
    for note in answer.notes:
        print(f"note: {note}", file=sys.stderr)
