"""`neatrec recommend`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from neatrec.cli.output import OutputOptions, print_json, print_table
from neatrec.errors import must_be
from neatrec.text import printable

if TYPE_CHECKING:
    from neatrec.models import Model
    from neatrec.models.recommendations import Ranking
    from neatrec.serving import AnswerWithEvidence, QueryResult, ServingTable


def recommend(
    output: OutputOptions,
    bundle: Path = typer.Argument(
        ..., help="Answer by a bundle that `neatrec train` wrote, or by a store.", show_default=False
    ),
    items: list[str] = typer.Argument(
        ..., metavar="ITEM...", help="Ask for these ids or names; several are a cart.", show_default=False
    ),
    *,
    k: int = typer.Option(10, "-k", help="Give so many answers.", min=1),
    min_evidence: str | None = typer.Option(
        None,
        metavar="certain|likely|guess",
        help="Give only answers at least this sure. Default: likely; for an item that nobody has bought, what "
        "goes with its category.",
    ),
    goal: str | None = typer.Option(
        None,
        metavar="balanced|lift|evidence",
        help="Rank by this goal of a `bayes` bundle: high lifts first, certain pairs first, or both. Default: "
        "as it was trained.",
    ),
    category: list[str] | None = typer.Option(None, help="Give only items of this category; may be repeated."),
    exclude: list[str] | None = typer.Option(None, help="Never give this item; may be repeated."),
    same_category: bool = typer.Option(False, "--same-category", help="Give also items of the cart's own categories."),
    include_new: bool = typer.Option(
        False, "--include-new", help="Give also items that nobody has bought yet, below all with evidence."
    ),
    include_explained: bool = typer.Option(
        False, "--include-explained", help="List also what only a season, a store or large baskets explain."
    ),
    month: int | None = typer.Option(
        None, metavar="1-12", min=1, max=12, help="List also what is in season in this month."
    ),
) -> None:
    """Show what goes with an item, or with a whole cart, and how certain that is."""
    from neatrec.bundle import load_bundle, read_manifest
    from neatrec.bundle.versions import bundle_in
    from neatrec.serving import ServingTable, has_table
    from neatrec.serving import recommend as answered

    bundle = bundle_in(bundle)
    narrowed: dict[str, Any] = {
        "category": category,
        "exclude": exclude or (),
        "same_category": same_category,
        "include_new": include_new,
    }
    if has_table(read_manifest(bundle, verify=False)):
        index = ServingTable.open(bundle).with_goal(goal)
        narrowed |= {"include_explained": include_explained, "month": month, "goal": goal}
        found = answered(index, items, k, min_evidence=min_evidence, **narrowed)
        _show_with_evidence(output, index, found, min_evidence or "likely")
    else:
        _require_table(min_evidence, include_explained, month, bundle)
        model = load_bundle(bundle)
        model = model if goal is None else model.with_goal(goal)
        _show_plain(output, model, model.rank(items, k, **narrowed))


def _require_table(min_evidence: str | None, include_explained: bool, month: int | None, bundle: Path) -> None:
    """Without a serving table there is no evidence: guesses are shown, and only if asked for."""
    needed: dict[str, object] = {"--month": month, "--include-explained": include_explained or None}
    if min_evidence != "guess":
        needed["--min-evidence"] = min_evidence or "likely"
    for option, given in needed.items():
        if given is not None:
            raise must_be(
                option,
                "guess" if option == "--min-evidence" else "left out",
                given,
                hint=f"{printable(bundle)} has no serving table, so no evidence: `neatrec train SOURCE --out BUNDLE "
                "--rewrite-table` writes one; --min-evidence guess shows the ranking as it is.",
            )


def _show_with_evidence(output: OutputOptions, index: ServingTable, result: QueryResult, least: str) -> None:
    from neatrec.serving import FOOTER

    manifest, catalog = index.manifest, index.catalog
    notes = list(result.notes)
    if result.left_out:
        notes.append(f"left out {result.left_out} below {least!r}: --min-evidence guess shows them")
    if output.as_json:
        print_json(
            {
                "model": manifest.model,
                "kind": manifest.kind,
                **({} if index.goal is None else {"goal": index.goal}),
                "items": [{"id": catalog.id(code), "name": catalog.name(code)} for code in result.cart],
                "recommendations": [line.to_dict() for line in result.answers],
                "explained": [line.to_dict() for line in result.explained],
                "strata": list(index.pairs.strata),
                "notes": notes,
            }
        )
        return
    cart = ", ".join(printable(catalog.name(code)) for code in result.cart)
    print(f"Goes with {cart} ({_ranked_by(manifest.model, index.goal)})\n")
    for line in result.answers:
        _print_line(line)
    if result.explained:
        print("\nOnly by season, store or basket size:\n")
    for line in result.explained:
        _print_line(line)
    print(f"\n{FOOTER}" if result.answers or result.explained else "Nothing with that much evidence.")
    print(index.pairs.words())
    _print_notes(notes)


def _print_line(line: AnswerWithEvidence) -> None:
    both = ", ".join(filter(None, (line.evidence.grade, line.evidence.strength)))
    print(f"{line.answer.rank:3}  {printable(line.answer.name)} ({printable(line.answer.id)}), {printable(both)}")
    print(f"     {printable(line.evidence.words(), 400)}")


def _show_plain(output: OutputOptions, model: Model, answer: Ranking) -> None:
    """Guesses, marked: a bundle without a serving table has no evidence to show."""
    goal = getattr(model.parameters, "goal", None)
    if output.as_json:
        ranked_for = {} if goal is None else {"goal": goal}
        found = answer.to_dict()
        found["recommendations"] = [{**line, "grade": "guess"} for line in found["recommendations"]]
        print_json({"model": model.name, "kind": model.kind, **ranked_for, **found})
        return
    cart = ", ".join(printable(model.catalog.name(code)) for code in answer.cart)
    rows: list[list[object]] = [[r.rank, r.name, r.id, " / ".join(r.category), r.score, "guess"] for r in answer]
    columns = ["rank", "item", "id", "category", "score", "sure"]
    print_table(f"Goes with {cart} ({_ranked_by(model.name, goal)})", columns, rows)
    _print_notes(
        [
            *answer.notes,
            "no evidence is shown: the bundle has no serving table "
            "(`neatrec train SOURCE --out BUNDLE --rewrite-table` writes one)",
        ]
    )


def _ranked_by(model: str, goal: str | None) -> str:
    return model if goal is None else f"{model}, goal {goal}"


def _print_notes(notes: Sequence[str]) -> None:
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
