"""`neatrec publish`: publish, roll back, compare."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from neatrec.cli.output import OutputOptions, percent, print_table
from neatrec.errors import must_be
from neatrec.text import printable

if TYPE_CHECKING:
    from neatrec.release.diff import BundleDiff


def publish(
    output: OutputOptions,
    paths: list[Path] = typer.Argument(
        ..., metavar="[BUNDLE] STORE", help="New bundle, and the store.", show_default=False
    ),
    *,
    gate: Path | None = typer.Option(
        None,
        metavar="F.toml",
        help="File of limits. Default: gate.toml in the store, else built-in ones.",
    ),
    show_diff: bool = typer.Option(
        False, "--diff", help="Changes from the first path to the second; nothing is published."
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
    from neatrec.release import publish as release
    from neatrec.release.limits import PublishLimits

    if show_diff and rollback:
        raise must_be("publish", "given one of --diff and --rollback", "both")
    if to is not None and not rollback:
        raise must_be("--to", "given with --rollback", to)
    needed = ("A", "B") if show_diff else ("STORE",) if rollback else ("BUNDLE", "STORE")
    if len(paths) != len(needed):
        raise must_be("publish", f"given {' and '.join(needed)}", " ".join(map(str, paths)))
    if show_diff:
        _diff(output, paths[0], paths[1], listed)
        return
    if rollback:
        answer = release.rollback(paths[0], to)
    else:
        limits = None if gate is None else PublishLimits.read(gate)
        answer = release.publish(paths[0], paths[1], limits)
    if not output.printed_json(answer):
        _print_live(answer, "is live" if rollback or answer["published"] else "was live already")


def _print_live(answer: dict[str, Any], state: str) -> None:
    version = f"version {answer['live']} ({answer['version'][:12]})"
    print(f"{version} {state} in {printable(answer['store'])}")
    if answer["difference"] is not None:
        print(f"{_changed_words(answer['difference']['top10_changed'])}.")


def _changed_words(share: float) -> str:
    return f"{percent(share)} of the first ten answers with evidence changed, weighted by sales"


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
        ["sales with evidence", *map(percent, found.coverage)],
    ]
    print_table("Two bundles", ["", "A", "B"], rows)
    print(f"{_changed_words(found.top10_changed)}; ", end="")
    print(f"{found.items_new:,} items are new, {found.items_gone:,} are gone.")
    if found.changes:
        lines: list[list[object]] = [
            [c.name, c.sales, percent(c.changed), ", ".join(c.came), ", ".join(c.gone)]
            for c in found.changes
        ]
        print_table("Largest changes", ["item", "sales", "changed", "came", "gone"], lines)
