"""What a report says, small enough to travel with a bundle: its first leaderboard and its tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neatrec.errors import BundleError
from neatrec.report.findings import Finding, read_table
from neatrec.report.folder import FORMAT, RUN, file_hash
from neatrec.text import printable

LARGEST_TABLE = 500
"""Rows of a table that are taken along."""
MEASURE = "hr@10"
"""The held-out measure by which a publish gate compares two bundles."""

ALIKE = ("protocol", "split", "split_options", "level", "candidates")
"""What two leaderboards must have in common for their measures to be compared; the baskets are others every night."""


def read_report(folder: str | Path) -> dict[str, Any]:
    """The attachment that `neatrec index --report` puts into a bundle.

    `format, source, leaderboard {protocol, split, split_options, level, candidates, labels, queries, models [{name,
    kind, mean, low, high}]}, tables [{name, caption, columns, rows}]`: means and limits by metric ("hr@10"), titles
    and cells of tables as the report's page shows them.
    """
    folder = Path(folder)
    try:
        run = json.loads((folder / RUN).read_text(encoding="utf-8"))
        if run["format"] != FORMAT:
            raise _no_report(folder, f"{RUN} has format {printable(run['format'])}, this version reads {FORMAT}")
        tables = [_table(folder, name, schema, run["files"]) for name, schema in run["tables"].items()]
        board = run["boards"][0]
        return {
            "format": FORMAT,
            "source": str(run.get("source", "")),
            "leaderboard": _leaderboard(board, board["results"][0]),
            "tables": tables,
        }
    except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise _no_report(folder, printable(repr(error))) from error


def held_out(attachment: Mapping[str, Any] | None, model: str) -> float | None:
    """HR@10 of a model by the attached leaderboard; None where there is none."""
    if attachment is None:
        return None
    for line in attachment.get("leaderboard", {}).get("models", ()):
        if line["name"] == model:
            value = line["mean"].get(MEASURE)
            return None if value is None else float(value)
    return None


def comparable(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> str | None:
    """Why the measures of two attachments say nothing about each other; None where they do, or where one is missing."""
    if old is None or new is None:
        return None
    boards = [attachment.get("leaderboard", {}) for attachment in (old, new)]
    pairs = {name: (_value(boards[0], name), _value(boards[1], name)) for name in ALIKE}
    differ = [f"{name} {_said(one)} against {_said(other)}" for name, (one, other) in pairs.items() if one != other]
    return f"the two reports do not measure the same: {', '.join(differ)}" if differ else None


def _value(board: Mapping[str, Any], name: str) -> Any:
    """A field of an attached leaderboard; candidate sets were called recallN before they were called topN."""
    value = board.get(name)
    if name == "candidates" and isinstance(value, str) and value.startswith("recall"):
        return value.replace("recall", "top")
    return value


def _said(value: Any) -> str:
    return "not told" if value is None else printable(value, 60)


def _leaderboard(board: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
    models = [
        {"name": name, "kind": board["models"].get(name, {}).get("kind", ""), **_means(line)}
        for name, line in result["models"].items()
    ]
    split = dict(board["options"]["split"])
    made = {"protocol": board["options"]["protocol"], "split": split.pop("method"), "split_options": split}
    return {**made, **{key: result[key] for key in ("level", "candidates", "labels", "queries")}, "models": models}


def _means(line: Mapping[str, Any]) -> dict[str, Any]:
    return {key: dict(line[key]) for key in ("mean", "low", "high")}


def _table(folder: Path, name: str, schema: Mapping[str, Any], hashes: Mapping[str, str]) -> dict[str, Any]:
    file = folder / "tables" / f"{name}.csv"
    if file_hash(file) != hashes[f"tables/{name}.csv"]:
        raise _no_report(folder, f"tables/{printable(name)}.csv is not as it was written")
    table = read_table(folder, name, schema)
    if isinstance(table, Finding):
        raise _no_report(folder, str(table))
    titles = [column.title for column in table.columns]
    return {"name": name, "caption": table.caption, "columns": titles, "rows": table.shown()[:LARGEST_TABLE]}


def _no_report(folder: Path, why: str) -> BundleError:
    return BundleError(
        f"{printable(folder)} is no report that can be attached: {why}",
        file=str(folder),
        hint="`neatrec report` writes one.",
    )
