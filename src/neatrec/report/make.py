"""`neatrec report`: one HTML page and a CSV file for each of its tables."""

from __future__ import annotations

import logging
from pathlib import Path

from neatrec.bundle.folder import replacing
from neatrec.cooccurrence import Engine
from neatrec.cooccurrence.counting import CountBook
from neatrec.data.baskets import Baskets
from neatrec.data.splits import split_baskets
from neatrec.errors import SourceError, require_extra
from neatrec.leaderboard import Leaderboard, LeaderboardOptions, run_leaderboard
from neatrec.leaderboard.model_specs import Models
from neatrec.leaderboard.run import DEFAULT_OPTIONS
from neatrec.report.page import Page, render
from neatrec.report.sections import model_sections
from neatrec.report.summary import summary_section
from neatrec.serving import EvidenceTable
from neatrec.text import printable
from neatrec.training.train import DEFAULT_MODEL

__all__ = ["make_report", "write_report"]

log = logging.getLogger(__name__)

PAGE, TABLES = "index.html", "tables"
MODELS = (DEFAULT_MODEL, "llr", "popco")
"""The models to compare by default: ours, a statistic, and counts."""


def make_report(
    baskets: Baskets,
    out: str | Path,
    models: Models | None = MODELS,
    options: LeaderboardOptions = DEFAULT_OPTIONS,
    *,
    split: str = "half",
) -> Leaderboard:
    """Find pairs, compare models on held-out baskets, write the report.

    Parameters
    ----------
    baskets
        All baskets: pairs come from all, models are trained on one part and tested on the other.
    out
        Folder of the report; an earlier report there is replaced.
    models
        Models to compare; None: all.
    options
        Those of `run_leaderboard`.
    split
        That of `split_baskets`.
    """
    require_extra("report", "a report")
    refuse_foreign(Path(out))
    log.info("finding the pairs with evidence")
    book = CountBook(baskets, Engine(threads=options.threads))
    pairs = EvidenceTable.of(baskets, strata=options.strata, book=book)
    parts = split_baskets(baskets, split)
    method = {"method": parts.method, **parts.options}
    result = run_leaderboard(parts.train, parts.test, models, options, split=method)
    write_report(result, baskets, pairs, out)
    log.info("wrote %s", printable(out))
    return result


def write_report(
    result: Leaderboard, baskets: Baskets, pairs: EvidenceTable, out: str | Path
) -> None:
    """Write the page and its tables into the folder `out`; an earlier report is replaced."""
    advice = [result.advice] if result.advice else []
    advice += [f"{name} is left out: {reason}." for name, reason in result.skipped.items()]
    lead = f"The baskets: {baskets.source}." if baskets.source else ""
    summary = summary_section(baskets, pairs, advice)
    page = Page("What goes together", lead, summary, model_sections(result))
    with replacing(Path(out), parents=True) as folder:
        (folder / TABLES).mkdir(parents=True)
        for table in page.tables():
            (folder / TABLES / f"{table.name}.csv").write_text(table.to_csv(), encoding="utf-8")
        (folder / PAGE).write_text(render(page), encoding="utf-8")


def refuse_foreign(out: Path) -> None:
    """Refuse a file, and a folder that holds something other than a report."""
    if out.exists() and not out.is_dir():
        raise SourceError(f"{printable(out)} is a file, a report is a folder", file=str(out))
    if out.is_dir() and not {file.name for file in out.iterdir()} <= {PAGE, TABLES}:
        raise SourceError(
            f"{printable(out)} is not empty and holds no report",
            file=str(out),
            hint="Name a new folder, or a report to replace.",
        )
