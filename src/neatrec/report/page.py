"""The page: sections of words, tables and a plot, rendered into one HTML file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from neatrec._version import __version__
from neatrec.report.figures import DotPlot
from neatrec.report.table import ReportTable, format_sentence, format_text


class Paragraph(NamedTuple):
    """A paragraph; `tone` is "plain" or "note"."""

    text: str
    tone: str = "plain"


class Tile(NamedTuple):
    """One number of the summary."""

    name: str
    value: str
    note: str


class SummaryCard(NamedTuple):
    """The numbers that a reader looks for first, and warnings."""

    tiles: tuple[Tile, ...]
    warnings: tuple[str, ...]


class BestPairs(NamedTuple):
    """The first rows of a table of pairs, as a list; all of them are in its file."""

    table: ReportTable
    shown: int


Block = Paragraph | ReportTable | DotPlot | SummaryCard | BestPairs


class Section(NamedTuple):
    """A part of the page with its own heading and entry in the contents."""

    id: str
    title: str
    blocks: tuple[Block, ...]


class Page(NamedTuple):
    """The summary, and the sections that are folded under "For statisticians"."""

    title: str
    lead: str
    summary: Section
    folded: tuple[Section, ...]

    def tables(self) -> Iterator[ReportTable]:
        """Every table, including those only in files."""
        for section in (self.summary, *self.folded):
            for block in section.blocks:
                if isinstance(block, BestPairs):
                    yield block.table
                elif isinstance(block, ReportTable):
                    yield block


def render(page: Page) -> str:
    """The page as HTML: every text is escaped, and its policy lets nothing run and nothing load."""
    style = _templates().get_template("style.css").render()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    template = _templates().get_template("page.html.jinja")
    return template.render(page=page, style=style, policy=policy, version=__version__)


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("neatrec", "report/templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"name": format_text, "sentence": format_sentence}
    environment.filters["template"] = lambda block: f"blocks/{type(block).__name__}.html.jinja"
    return environment
