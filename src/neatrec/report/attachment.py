"""The part of a report that is stored in a bundle: its first leaderboard and its tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neatrec.errors import BundleError
from neatrec.report.folder import read_run
from neatrec.report.verify import changed_files
from neatrec.text import printable

FORMAT = 1
MEASURE = "hr@10"
"""The held-out measure by which a publish gate compares two bundles."""

COMPARED = ("protocol", "split", "split_options", "level", "candidates")
"""What two leaderboards must have in common for their measures to be compared."""


def read_report(folder: str | Path) -> dict[str, Any]:
    """The attachment that `neatrec train --rewrite-table --report` puts into a bundle.

    `format, source, leaderboard {protocol, split, split_options, level, candidates, labels, queries, models [{name,
    kind, mean, low, high}]}, tables [{name, caption, columns, rows}]`: means and limits by metric ("hr@10"), titles
    and cells of tables as text.
    """
    run = read_run(folder)
    for mismatch in changed_files(Path(folder), run["files"]):
        raise BundleError(f"{printable(folder)} is not as it was written: {mismatch}", file=mismatch.file)
    try:
        leaderboard = run["leaderboards"][0]
        return {
            "format": FORMAT,
            "source": str(run.get("source", "")),
            "leaderboard": _leaderboard(leaderboard, leaderboard["results"][0]),
            "tables": [{"name": name, **table} for name, table in run["tables"].items()],
        }
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise BundleError(f"{printable(folder)} is no report that can be attached: {error!r}") from error


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
    """Why the measures of two attachments cannot be compared; None where they can, or where one is missing."""
    if old is None or new is None:
        return None
    leaderboards = [attachment.get("leaderboard", {}) for attachment in (old, new)]
    pairs = {name: (_value(leaderboards[0], name), _value(leaderboards[1], name)) for name in COMPARED}
    differ = [f"{name} {_text(one)} against {_text(other)}" for name, (one, other) in pairs.items() if one != other]
    return f"the two reports do not measure the same: {', '.join(differ)}" if differ else None


def _value(leaderboard: Mapping[str, Any], name: str) -> Any:
    """A field of an attached leaderboard; candidate sets were called recallN before they were called topN."""
    value = leaderboard.get(name)
    if name == "candidates" and isinstance(value, str) and value.startswith("recall"):
        return value.replace("recall", "top")
    return value


def _text(value: Any) -> str:
    return "unknown" if value is None else printable(value, 60)


def _leaderboard(leaderboard: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
    models = [
        {"name": name, "kind": leaderboard["models"].get(name, {}).get("kind", ""), **_means(line)}
        for name, line in result["models"].items()
    ]
    split = dict(leaderboard["options"]["split"])
    made = {"protocol": leaderboard["options"]["protocol"], "split": split.pop("method"), "split_options": split}
    return {**made, **{key: result[key] for key in ("level", "candidates", "labels", "queries")}, "models": models}


def _means(line: Mapping[str, Any]) -> dict[str, Any]:
    return {key: dict(line[key]) for key in ("mean", "low", "high")}
