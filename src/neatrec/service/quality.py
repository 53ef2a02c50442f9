"""How good the live bundle is: coverage, and the leaderboard and audit that were attached to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from neatrec.service.loaded_bundle import LoadedBundle
from neatrec.service.snapshot import ServingSnapshot
from neatrec.serving import table_words

ROWS = (
    ("strong", "strong evidence"),
    ("some", "some evidence"),
    ("predicted", "predicted only"),
    ("none", "no answer"),
)

MEASURES = ("hr@10", "ndcg@10", "mrr")
MOST_TABLES = 12


@dataclass(frozen=True)
class QualityTable:
    """A table of the page."""

    title: str
    about: str
    columns: list[str]
    rows: list[list[str]]


def quality(edition: ServingSnapshot, public: bool) -> dict[str, Any]:
    """What the template shows; for the `public` no count, no share of sales and none of the report's tables."""
    main = edition.main
    manifest = main.index.manifest
    attachment = main.index.attachment or {}
    facts = [("Model", f"{main.name} ({manifest.kind})"), ("Bundle", main.version), ("Made", manifest.created)]
    facts += [("Serving table", table_words(main.index.recall, public))]
    if not public:
        facts += [("Items", f"{manifest.items:,}"), ("Lines of training baskets", f"{manifest.lines:,}")]
    return {
        "coverage": {name: coverage_of(shelf, public) for name, shelf in edition.shelves.items()},
        "rows": ROWS,
        "boards": boards(attachment, public),
        "withheld": public and bool(attachment),
        "facts": facts,
    }


def coverage_of(shelf: LoadedBundle, public: bool) -> dict[str, dict[str, float]]:
    """For each grade the share of items whose best evidence has it, and of sales where these are not withheld."""
    coverage = shelf.index.coverage()
    return {grade: {"items": share["items"]} for grade, share in coverage.items()} if public else coverage


def boards(attachment: dict[str, Any], public: bool) -> list[QualityTable]:
    """The attached leaderboard and the tables of its report; what is not there is left out.

    Tables may hold any count, so the `public` sees none of them; the leaderboard's measures are shares.
    """
    found = [leaderboard(attachment["leaderboard"], public)] if "leaderboard" in attachment else []
    tables = [
        QualityTable(
            str(table["caption"]), "", [str(c) for c in table["columns"]], [[str(c) for c in r] for r in table["rows"]]
        )
        for table in attachment.get("tables", ())[:MOST_TABLES]
    ]
    return found if public else found + tables


def leaderboard(board: dict[str, Any], public: bool) -> QualityTable:
    """Every model on baskets that none of them saw, the best first, with 95 % intervals."""
    measures = [name for name in MEASURES if any(name in line["mean"] for line in board["models"])]
    rows = [
        [f"{line['name']} ({line['kind']})", *(_interval(line, name) for name in measures)] for line in board["models"]
    ]
    size = "" if public else f": {board['labels']:,} true pairs of {board['queries']:,} items"
    about = f"On baskets that no model saw{size}, candidates {board['candidates']}."
    about += " In brackets the 95 % interval over items."
    return QualityTable("Leaderboard", about, ["model", *(name.upper() for name in measures)], rows)


def _interval(line: dict[str, Any], measure: str) -> str:
    mean, low, high = (line[key].get(measure) for key in ("mean", "low", "high"))
    if mean is None:
        return "-"
    return f"{mean:.3f}" if low is None or high is None else f"{mean:.3f} ({low:.3f} to {high:.3f})"
