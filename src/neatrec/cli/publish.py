"""`neatrec publish`, `neatrec rollback` and `neatrec diff`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from neatrec.cli.output import OutputOptions, percent, print_json, print_table

if TYPE_CHECKING:
    from neatrec.release.diff import BundleDiff

StoreFolder = Annotated[Path, typer.Argument(metavar="STORE", help="The folder of the store.", show_default=False)]


def publish(
    output: OutputOptions,
    bundle: Annotated[Path, typer.Argument(help="The new bundle, with its serving table.", show_default=False)],
    store: StoreFolder,
    gate: Annotated[
        Path | None, typer.Option(metavar="F.toml", help="Limits. Default: gate.toml in the store, else built-in ones.")
    ] = None,
) -> None:
    """Make a bundle live unless it differs too much from the live one (exit code 3)."""
    from neatrec.release.limits import PublishLimits
    from neatrec.release.publish import publish as publish_bundle

    answer = publish_bundle(bundle, store, None if gate is None else PublishLimits.read(gate))
    if output.as_json:
        print_json(answer)
        return
    what = "is live" if answer["published"] else "was live already"
    print(f"version {answer['live']} ({answer['version'][:12]}) {what} in {store}")
    if answer["difference"] is not None:
        print(
            f"{percent(answer['difference']['top10_changed'])} of the first ten answers with evidence changed, by sales"
        )


def rollback(
    output: OutputOptions,
    store: StoreFolder,
    to: Annotated[int | None, typer.Option(metavar="N", help="This version. Default: the one before.")] = None,
) -> None:
    """Make the version before the live one live again."""
    from neatrec.release.publish import rollback as roll_back

    answer = roll_back(store, to)
    if output.as_json:
        print_json(answer)
    else:
        print(f"version {answer['live']} ({answer['version'][:12]}) is live in {store}")


def diff(
    output: OutputOptions,
    a: Annotated[Path, typer.Argument(metavar="A", help="A bundle or a store.", show_default=False)],
    b: Annotated[Path, typer.Argument(metavar="B", help="Another one, the newer.", show_default=False)],
    listed: Annotated[int, typer.Option("--list", metavar="N", help="How many changes are named.", min=0)] = 20,
) -> None:
    """What changed between two bundles: sizes, evidence, answers, and for which items most."""
    from neatrec.release.diff import compare
    from neatrec.release.store import bundle_in
    from neatrec.serving import ServingTable

    found = compare(ServingTable.open(bundle_in(a)), ServingTable.open(bundle_in(b)), listed=listed)
    if output.as_json:
        print_json(found.to_json())
    else:
        _show(found)


def _show(found: BundleDiff) -> None:
    rows: list[list[object]] = [
        ["version", *(version[:12] for version in found.versions)],
        ["training lines", *(f"{lines:,}" for lines in found.rows)],
        ["bought items", *(f"{items:,}" for items in found.items)],
        ["sales with evidence", *(percent(share) for share in found.coverage)],
    ]
    if found.held_out is not None:
        rows.append(["held-out HR@10", *(f"{value:.4f}" for value in found.held_out)])
    print_table("Two bundles", ["", "A", "B"], rows)
    if found.held_out_note is not None:
        print(f"The held-out measure is not compared: {found.held_out_note}.")
    print(f"{percent(found.top10_changed)} of the first ten answers with evidence changed, by sales; ", end="")
    print(f"{found.items_new:,} items are new, {found.items_gone:,} are gone.")
    if found.changes:
        lines = [
            [change.name, change.sales, percent(change.changed), ", ".join(change.came), ", ".join(change.gone)]
            for change in found.changes
        ]
        print_table("Largest changes", ["item", "sales", "changed", "came", "gone"], lines)
