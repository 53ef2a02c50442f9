"""`neatrec publish`: publish, roll back, compare."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from neatrec.cli.output import OutputOptions, percent, print_table
from neatrec.errors import must_be

if TYPE_CHECKING:
    from neatrec.release.diff import BundleDiff


def publish(
    output: OutputOptions,
    paths: list[Path] = typer.Argument(
        ...,
        metavar="[BUNDLE] STORE",
        help="New bundle, and the store.",
        show_default=False,
    ),
    *,
    gate: Path | None = typer.Option(
        None,
        metavar="F.toml",
        help="File of limits. Default: gate.toml in the store, else built-in ones.",
    ),
    show_diff: bool = typer.Option(
        False,
        "--diff",
        help="Changes from the first path to the second; nothing is published.",
    ),
    listed: int = typer.Option(
        20, "--list", metavar="N", help="Number of changes listed by --diff.", min=0
    ),
    rollback: bool = typer.Option(
        False, "--rollback", help="Return to the version before the live one."
    ),
    to: int | None = typer.Option(None, metavar="N", help="Version that --rollback makes live."),
) -> None:
    """Make a bundle live in a store, unless it differs too much from the live one (exit code 3)."""
    if show_diff and rollback:
        raise must_be("publish", "given one of --diff and --rollback", "both")
    if to is not None and not rollback:
        raise must_be("--to", "given with --rollback", to)
    needed = ("A", "B") if show_diff else ("STORE",) if rollback else ("BUNDLE", "STORE")
    if len(paths) != len(needed):
        raise must_be("publish", f"given {' and '.join(needed)}", " ".join(map(str, paths)))
    if show_diff:
        _diff(output, paths[0], paths[1], listed)
    elif rollback:
        _rollback(output, paths[0], to)
    else:
        _publish(output, paths[0], paths[1], gate)


def _publish(output: OutputOptions, bundle: Path, store: Path, gate: Path | None) -> None:
    from neatrec.release.limits import PublishLimits
    from neatrec.release.publish import publish as publish_bundle

    answer = publish_bundle(bundle, store, None if gate is None else PublishLimits.read(gate))
    if output.printed_json(answer):
        return
    what = "is live" if answer["published"] else "was live already"
    print(f"version {answer['live']} ({answer['version'][:12]}) {what} in {store}")
    if answer["difference"] is not None:
        print(
            f"{percent(answer['difference']['top10_changed'])} of the first ten answers with evidence changed, by sales"
        )


def _rollback(output: OutputOptions, store: Path, to: int | None) -> None:
    from neatrec.release.publish import rollback as roll_back

    answer = roll_back(store, to)
    if not output.printed_json(answer):
        print(f"version {answer['live']} ({answer['version'][:12]}) is live in {store}")


def print_versions(versions: list[dict[str, Any]]) -> None:
    rows = []
    for found in versions:
        state = "live" if found["live"] else "rolled back" if found["rolled_back"] else ""
        shown = (
            [found["version"][:12], found["model"], found["created"]]
            if found["version"]
            else ["damaged", "", ""]
        )
        rows.append([found["number"], *shown, state])
    print_table("Versions", ["number", "version", "model", "made", ""], rows)


def _diff(output: OutputOptions, a: Path, b: Path, listed: int) -> None:
    from neatrec.bundle.versions import bundle_in
    from neatrec.release.diff import compare
    from neatrec.serving import PairTable

    found = compare(PairTable.open(bundle_in(a)), PairTable.open(bundle_in(b)), listed=listed)
    if not output.printed_json(found):
        _show(found)


def _show(found: BundleDiff) -> None:
    rows: list[list[object]] = [
        ["version", *(version[:12] for version in found.versions)],
        ["training lines", *(f"{lines:,}" for lines in found.rows)],
        ["bought items", *(f"{items:,}" for items in found.items)],
        ["sales with evidence", *(percent(share) for share in found.coverage)],
    ]
    print_table("Two bundles", ["", "A", "B"], rows)
    print(
        f"{percent(found.top10_changed)} of the first ten answers with evidence changed, by sales; ",
        end="",
    )
    print(f"{found.items_new:,} items are new, {found.items_gone:,} are gone.")
    if found.changes:
        lines = [
            [
                change.name,
                change.sales,
                percent(change.changed),
                ", ".join(change.came),
                ", ".join(change.gone),
            ]
            for change in found.changes
        ]
        print_table("Largest changes", ["item", "sales", "changed", "came", "gone"], lines)
