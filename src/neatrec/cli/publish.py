"""`neatrec publish`: publish, roll back, compare."""

from __future__ import annotations

from pathlib import Path

import typer

from neatrec.cli.output import OutputOptions, percent, print_table
from neatrec.errors import must_be
from neatrec.text import printable


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
    rollback: bool = typer.Option(False, "--rollback", help="Rollback to the previous version."),
    to: int | None = typer.Option(None, metavar="N", help="Version that --rollback makes live."),
) -> None:
    """Make a bundle live in a store, unless it differs too much from the live one (exit code 3)."""
    from neatrec import release

    if show_diff and rollback:
        raise must_be("publish", "given one of --diff and --rollback", "both")
    if to is not None and not rollback:
        raise must_be("--to", "given with --rollback", to)
    needed = ("A", "B") if show_diff else ("STORE",) if rollback else ("BUNDLE", "STORE")
    if len(paths) != len(needed):
        raise must_be("publish", f"given {' and '.join(needed)}", " ".join(map(str, paths)))
    if show_diff:
        _print_difference(output, *paths)
        return
    if rollback:
        answer = release.rollback(paths[0], to)
    else:
        limits = None if gate is None else release.PublishLimits.read(gate)
        answer = release.publish(paths[0], paths[1], limits)
    if output.printed_json(answer):
        return
    state = "is live" if rollback or answer["published"] else "was live already"
    version = f"version {answer['live']} ({answer['version'][:12]})"
    print(f"{version} {state} in {printable(answer['store'])}")
    if answer["difference"] is not None:
        print(f"{_changed_words(answer['difference']['top10_changed'])}.")


def _changed_words(share: float) -> str:
    return f"{percent(share)} of the first ten answers with evidence changed, weighted by sales"


def _print_difference(output: OutputOptions, a: Path, b: Path) -> None:
    from neatrec.bundle.versions import bundle_in
    from neatrec.release import compare
    from neatrec.serving import PairTable

    diff = compare(PairTable.open(bundle_in(a)), PairTable.open(bundle_in(b)), listed=20)
    if output.printed_json(diff):
        return
    facts: list[list[object]] = [
        ["version", *(version[:12] for version in diff.versions)],
        ["training lines", *(f"{lines:,}" for lines in diff.rows)],
        ["bought items", *(f"{items:,}" for items in diff.items)],
        ["sales with evidence", *map(percent, diff.coverage)],
    ]
    print_table("Two bundles", ["", "A", "B"], facts)
    print(f"{_changed_words(diff.top10_changed)}; ", end="")
    print(f"{diff.items_new:,} items are new, {diff.items_gone:,} are gone.")
    changes: list[list[object]] = [
        [c.name, c.sales, percent(c.changed), ", ".join(c.came), ", ".join(c.gone)]
        for c in diff.changes
    ]
    if changes:
        print_table("Largest changes", ["item", "sales", "changed", "came", "gone"], changes)
