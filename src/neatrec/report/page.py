"""The page: sections of words, tables, plots and lists, rendered into one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
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


class FactList(NamedTuple):
    facts: tuple[tuple[str, str], ...]


class Tile(NamedTuple):
    """One number of the summary."""

    name: str
    value: str
    note: str


class SummaryCard(NamedTuple):
    """The numbers that a reader looks for first, and what to be careful about."""

    tiles: tuple[Tile, ...]
    warnings: tuple[str, ...]


class PairLine(NamedTuple):
    """A pair, its evidence in one sentence, how sure and how strong it is."""

    item: str
    other: str
    words: str
    grade: str


class PairLines(NamedTuple):
    """The best pairs; `table` is a file with more of them."""

    pairs: tuple[PairLine, ...]
    table: ReportTable


class ExampleQuery(NamedTuple):
    """A query with the recommendations of each model: (model, items with whether they are labels)."""

    name: str
    category: str
    labels: int
    answers: tuple[tuple[str, tuple[tuple[str, bool], ...]], ...]


class ExampleList(NamedTuple):
    queries: tuple[ExampleQuery, ...]


Block = Paragraph | ReportTable | DotPlot | FactList | ExampleList | SummaryCard | PairLines


@dataclass(frozen=True)
class Section:
    """A part of the page with its own heading and entry in the contents."""

    id: str
    title: str
    blocks: tuple[Block, ...]
    folded: bool = False
    """Folded under "For statisticians", after the others."""


@dataclass(frozen=True)
class Page:
    title: str
    lead: str
    sections: tuple[Section, ...]

    def tables(self) -> Iterator[ReportTable]:
        """Every table, those that are files only included."""
        blocks = (block for section in self.sections for block in section.blocks)
        for block in blocks:
            if isinstance(block, PairLines):
                yield block.table
            elif isinstance(block, ReportTable):
                yield block


def render(page: Page) -> str:
    """The page as HTML. Every text is escaped; the content-security policy lets nothing run and nothing load."""
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
