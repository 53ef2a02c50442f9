"""The audit of the labels as text, CSV, SVG and as a section of a report."""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterator, Sequence
from pathlib import Path

import numpy as np

from neatrec._version import __version__
from neatrec.labels.audit import BIN_WIDTH, Audit, CasePair, Histogram
from neatrec.labels.record import Labels
from neatrec.report.figures import share_bars
from neatrec.report.page import Block, FigureRow, Heading, Paragraph, Section
from neatrec.report.svg import MUTED, SERIES, Figure, canvas, finish
from neatrec.report.table import ReportTable, format_sentence, number, share, text, to_csv

SHOWN_BINS = 10
"""Bins of the drawn histogram; the last one holds everything above. The CSV file has them all."""
SHOWN_CATEGORIES = 30
"""Categories that are drawn, those with the most pairs. The CSV file has them all."""
LIST = "audit.files"
"""Names of the files an audit wrote into its folder, one a line."""
OWN_NAME = re.compile(r"audit\.txt|[a-z_]+\.csv|[a-z0-9-]+\.svg")
MARK = {"paper": "p", "calibrated": "q"}


def write_audit(audit: Audit, folder: str | Path) -> list[Path]:
    """Write `audit.txt`, a CSV file for each table and an SVG file for each figure into `folder`; gives the paths.

    What an earlier audit wrote there and this one does not is removed: `audit.files` lists it. Other files stay.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tables = audit_tables(audit)
    texts = {"audit.txt": audit_text(audit)}
    texts |= {f"{table.name}.csv": to_csv(table) for table in tables}
    texts |= {f"{figure.name}.svg": figure.file() for figure in audit_figures(audit)}
    _remove_earlier(folder, keep=texts)
    _write(folder / LIST, "".join(f"{name}\n" for name in texts))
    return [_write(folder / name, text) for name, text in texts.items()]


def _remove_earlier(folder: Path, keep: Container[str]) -> None:
    """Remove what the list of an earlier audit names, as far as an audit could have written it."""
    try:
        names = (folder / LIST).read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, UnicodeDecodeError):
        return  # no audit was written here: everything is somebody else's
    for name in names:
        if OWN_NAME.fullmatch(name) and name not in keep:
            (folder / name).unlink(missing_ok=True)


def _write(path: Path, text: str) -> Path:
    """Written under a temporary name and renamed: never half a file."""
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)
    return path


def audit_text(audit: Audit) -> str:
    tables = [_first_bins(audit) if table.name == "consistency" else table for table in audit_tables(audit)]
    head = [
        "The labels of " + (format_sentence(audit.source) or "these baskets"),
        f"{audit.paper.baskets:,} baskets counted, {audit.paper.records:,} co-purchase records, "
        f"{audit.paper.pairs:,} different pairs",
        f"hash of the paper labels {audit.paper.hash}",
        f"hash of the calibrated labels {audit.calibrated.hash}",
        *(f"{labels.protocol}: {_options(labels)}" for labels in (audit.paper, audit.calibrated)),
        f"null rounds {audit.null_rounds}, within {audit.null_within}, seed {audit.seed}; neatrec {__version__}",
    ]
    return "\n".join(head) + "\n\n" + "\n".join(text_table(table) for table in tables)


def _options(labels: Labels) -> str:
    """The options of a protocol in one line."""
    made = labels.options
    level = made["category_level"]
    parts = [
        f"baskets of at least {made['min_basket']} lines",
        "pairs of one category kept" if level is None else f"pairs of one {format_sentence(level)} left out",
        "a pair counts once a customer" if made["once_per_customer"] else "every basket counts",
    ]
    if "strata" in made:
        parts.append(f"expected counts {made['expected']}")
        parts.append("strata " + (", ".join(map(format_sentence, made["strata"])) or "none"))
    return "; ".join(parts)


def text_table(table: ReportTable) -> str:
    """A table in columns of even width: caption, head, rows, notes."""
    cells = [[column.title for column in table.columns], *table.text_rows()]
    width = [max(len(row[place]) for row in cells) for place in range(len(table.columns))]
    lines = [format_sentence(table.caption), ""]
    for line, row in enumerate(cells):
        parts = [
            cell.rjust(w) if column.is_numeric else cell.ljust(w)
            for cell, w, column in zip(row, width, table.columns, strict=True)
        ]
        lines.append("  ".join(parts).rstrip())
        if line == 0:
            lines.append("  ".join("-" * w for w in width))
    notes = [format_sentence(note) for note in table.notes]
    return "\n".join([*lines, *([""] if notes else []), *notes]) + "\n\n"


def audit_tables(audit: Audit) -> list[ReportTable]:
    """The tables of the audit in reading order; empty ones are left out."""
    tables = [
        _labels(audit),
        _false_discoveries(audit),
        _truth(audit),
        _negatives(audit),
        _overlap(audit),
        _coverage(audit),
        _consistency(audit),
        _cases("positive_pairs", "positive", audit.positive),
        _cases("negative_pairs", "negative", audit.negative),
        _popular(audit),
    ]
    return [table for table in tables if table.rows]


def _level(protocol: str, level: float) -> str:
    return f"{MARK[protocol]} = {level:g}"


def _labels(audit: Audit) -> ReportTable:
    columns = (text("protocol"), text("level"), number("labels"), number("queries"), number("most_of_one_query"))
    rows = [
        (c.protocol, _level(c.protocol, c.level), c.labels, c.queries, c.most_of_one_query) for c in audit.clustering
    ]
    note = "Labels that share an item are not independent: intervals must allow for both items of a pair."
    return ReportTable("summary", "Labels by both protocols", columns, tuple(rows), (note,))


def _false_discoveries(audit: Audit) -> ReportTable:
    rate = share("rate", "False-discovery rate", 2)
    by_chance, rerun = number("by_chance", digits=1), number("rerun", "Threshold re-made", 1)
    rows = [
        (
            protocol,
            _level(protocol, level),
            null.real[level],
            float(np.mean(null.labels[level])),
            null.fdr[level],
            float(np.mean(null.rerun[level])),
        )
        for protocol, null in audit.nulls.items()
        for level in null.real
    ]
    notes = [
        f"Mean of {null.rounds} shuffles (within {null.within}, seed {null.seed}) that pass the real run's threshold, "
        "over the labels. The shuffle keeps basket sizes and item counts; it cannot see that shoppers differ."
        for null in list(audit.nulls.values())[:1]
    ]
    columns = (text("protocol"), text("level"), number("labels"), by_chance, rate, rerun)
    caption = "False discoveries: labels that chance alone makes"
    return ReportTable("false_discoveries", caption, columns, tuple(rows), tuple(notes))


def _truth(audit: Audit) -> ReportTable:
    counts = (text("protocol"), text("level"), number("labels"), number("right", "True"))
    rows = [
        (protocol, _level(protocol, level), score.given, score.right, score.precision, score.recall)
        for (protocol, level), score in audit.truth.items()
    ]
    columns = (*counts, share("precision"), share("recall"))
    return ReportTable("truth", "Against the truth, which is known here", columns, tuple(rows))


def _negatives(audit: Audit) -> ReportTable:
    columns = (
        text("level"),
        number("pairs", "Negative pairs"),
        number("lift_above_one", "Lift above 1"),
        number("quasi_lift_above_one", "Above quasi-independence"),
        share("share", "Share with lift above 1"),
    )
    rows = [
        (*counts, row.lift_above_one / row.pairs if row.pairs else None)
        for row in audit.negatives
        for counts in [(_level("paper", row.level), row.pairs, row.lift_above_one, row.quasi_lift_above_one)]
    ]
    note = (
        "Lift here is the count over F_q. F_.v / N with directed margins; the paper's expected count is about four "
        "times as large where cart order is known."
    )
    caption = "Pairs the paper calls negatively dependent that are bought together more often than by chance"
    return ReportTable("negatives", caption, columns, tuple(rows), (note,))


def _overlap(audit: Audit) -> ReportTable:
    columns = (text("level"), number("both"), number("only_paper"), number("only_calibrated"))
    rows = [(f"{row.level:g}", row.both, row.only_paper, row.only_calibrated) for row in audit.overlap]
    return ReportTable("overlap", "Labels that both protocols find", columns, tuple(rows))


def _coverage(audit: Audit) -> ReportTable:
    keys = list(audit.coverage[0].of_labels) if audit.coverage else []
    columns = [
        text("category", audit.category_level or "category"),
        share("pairs", "All pairs", 3),
        *(share(f"{protocol}_{level:g}", f"{protocol} {_level(protocol, level)}", 3) for protocol, level in keys),
    ]
    rows = [(row.name, row.of_pairs, *(row.of_labels[key] for key in keys)) for row in audit.coverage]
    caption = "Coverage: unique pairs and labels by the category of the query"
    return ReportTable("coverage", caption, tuple(columns), tuple(rows))


CONSISTENCY = "Consistency: dependent pairs by chi-squared"


def _consistency(audit: Audit) -> ReportTable:
    columns = (
        text("level"),
        text("sign"),
        number("from", "Chi-squared from"),
        number("to", "Below"),
        number("pairs"),
        share("share", digits=3),
    )
    rows = []
    for h in audit.consistency:
        sign, total = "positive" if h.positive else "negative", h.count.sum()
        for start, count in zip(h.start.tolist(), h.count.tolist(), strict=True):
            rows.append((_level("paper", h.level), sign, start, start + BIN_WIDTH, count, count / total))
    return ReportTable("consistency", CONSISTENCY, columns, tuple(rows))


def _first_bins(audit: Audit) -> ReportTable:
    """The histograms side by side, as far as they are drawn."""
    drawn = [histogram for histogram in audit.consistency if len(histogram.count)]
    columns = [number("bin", "Chi-squared from")]
    for place, h in enumerate(drawn):
        columns.append(share(f"share_{place}", f"{'+' if h.positive else '-'} {_level('paper', h.level)}", 2))
    rows = zip((BIN_WIDTH * place for place in range(SHOWN_BINS)), *(_binned(h) for h in drawn), strict=True)
    note = (
        "Shares of the positively (+) and negatively (-) dependent pairs at each level. The last row holds all above."
    )
    return ReportTable("consistency", CONSISTENCY, tuple(columns), tuple(rows), (note,))


def _cases(name: str, sign: str, pairs: Sequence[CasePair]) -> ReportTable:
    columns = (
        text("query"),
        text("item"),
        number("count", "Together"),
        number("expected", "Expected (paper)", 2),
        number("chi_squared", "Chi-squared", 2),
        number("lift", "Lift (quasi)", 2),
    )
    rows = [(c.query, c.item, c.count, c.expected, c.statistic, c.true_lift) for c in pairs]
    return ReportTable(name, f"Accuracy: the strongest pairs the paper calls {sign}ly dependent", columns, tuple(rows))


def _popular(audit: Audit) -> ReportTable:
    columns = (number("rank"), text("item"), number("lines"))
    rows = [(rank, name, lines) for rank, (name, lines) in enumerate(audit.popular, 1)]
    return ReportTable("popular", "Accuracy: the most popular items", columns, tuple(rows))


def audit_figures(audit: Audit) -> Iterator[Figure]:
    """The histograms of chi-squared, one a level, and the coverage of categories."""
    for level in audit.paper.levels:
        shares = {
            "positive" if h.positive else "negative": _binned(h)
            for h in audit.consistency
            if h.level == level and len(h.count)
        }
        if shares:
            edges = [BIN_WIDTH * place for place in range(SHOWN_BINS)]
            caption = f"Dependent pairs by chi-squared at p = {level:g}; the last bin holds all above."
            yield share_bars(f"consistency-{level:g}".replace(".", "-"), edges, shares, "chi-squared", caption)
    if audit.coverage:
        yield _coverage_figure(audit)


def _binned(histogram: Histogram) -> list[float]:
    place = np.minimum(histogram.start // BIN_WIDTH, SHOWN_BINS - 1)
    counts = np.bincount(place, histogram.count, SHOWN_BINS)
    found: list[float] = (counts / counts.sum()).tolist()
    return found


def _coverage_figure(audit: Audit) -> Figure:
    """Shares of the categories among all pairs and among the labels of both protocols, largest first."""
    level = max(audit.paper.levels)
    rows = sorted(audit.coverage, key=lambda row: row.of_pairs)[-SHOWN_CATEGORIES:]
    series = [("all pairs", MUTED, "|", [row.of_pairs for row in rows])]
    for colour, protocol, shape in ((SERIES[0], "paper", "o"), (SERIES[1], "calibrated", "s")):
        series.append((protocol, colour, shape, [row.of_labels[protocol, level] for row in rows]))
    with canvas(380, 70 + 17 * len(rows)) as (drawing, axes):
        places = np.arange(len(rows))
        for name, colour, shape, shares in series:
            axes.plot(100 * np.array(shares), places, shape, color=colour, label=name, markersize=6)
        axes.set_yticks(places, [format_sentence(row.name)[:26] for row in rows])
        axes.set(xlabel="% by the category of the query", xlim=(0, None))
        drawing.legend(loc="outside upper left", ncols=3, fontsize=11, handletextpad=0.1)
        caption = f"Categories among all pairs and among the labels at level {level:g}."
        words = "; ".join(
            f"{format_sentence(row.name)}: {100 * row.of_pairs:.1f} % of pairs, "
            f"{100 * row.of_labels['paper', level]:.1f} % of paper labels, "
            f"{100 * row.of_labels['calibrated', level]:.1f} % of calibrated labels"
            for row in reversed(rows)
        )
        return finish(drawing, "coverage", caption, f"Dot plot of shares by category. {words}.")


PARTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "How many, and how many by chance",
        "The paper protocol tests each pair by chi-squared. The calibrated protocol counts what chance gives to "
        "each pair and controls the false-discovery rate of all labels together.",
        ("summary", "false_discoveries", "truth", "overlap", "negatives"),
    ),
    ("Coverage", "Labels should not come from a few categories only.", ("coverage",)),
    (
        "Consistency",
        "Shares of the pairs that pass the paper's test by their chi-squared: positive (more often together than "
        "the paper expects) and negative.",
        (),
    ),
    ("Accuracy", "The strongest pairs of both signs by name.", ("positive_pairs", "negative_pairs", "popular")),
)
"""Heading, words and tables of each part."""
FILES_ONLY = ("consistency",)
"""Tables too long for the page."""


def level_text(labels: Labels, level: float) -> str:
    """A level as people read it: what protocol, what kind of level."""
    kind = "p =" if labels.level_kind == "p" else "a false-discovery rate of"
    return f"{labels.protocol} labels at {kind} {level:g}"


def audit_section(audit: Audit, without: Sequence[str] = ()) -> tuple[Section, list[ReportTable]]:
    """The study of the labels by both protocols, and the tables that are too long for the page.

    `without` names parts to leave out.
    """
    tables = {table.name: table for table in audit_tables(audit)}
    figures = tuple(audit_figures(audit))
    blocks: list[Block] = []
    for heading, words, names in (part for part in PARTS if part[0] not in without):
        blocks += [Heading(heading, f"labels-{heading.split(',')[0].lower().replace(' ', '-')}"), Paragraph(words)]
        drawn = tuple(figure for figure in figures if figure.name.startswith(heading.lower()))
        blocks += [FigureRow(drawn)] if drawn else []
        blocks += [tables[name] for name in names if name in tables]
    files_only = [tables[name] for name in FILES_ONLY if name in tables]
    return Section("labels", "How far the labels can be trusted", tuple(blocks)), files_only
