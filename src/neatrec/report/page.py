"""The page: sections of words, tables, figures and lists, rendered into one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from neatrec._version import __version__
from neatrec.report.svg import DARK, LIGHT, Figure, css_variables
from neatrec.report.table import ReportTable, format_sentence, format_text

MARKS = ("exact", "comparable", "differs")


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; `tone` is "plain" or "note"."""

    kind: ClassVar[str] = "words"
    text: str
    tone: str = "plain"


@dataclass(frozen=True)
class Heading:
    """A heading inside a section."""

    kind: ClassVar[str] = "heading"
    text: str
    id: str


@dataclass(frozen=True)
class TableBlock:
    """A table in the page."""

    kind: ClassVar[str] = "table"
    table: ReportTable


@dataclass(frozen=True)
class PairEntries:
    """A table of pairs as a list: readable on a phone, where four columns are not."""

    kind: ClassVar[str] = "pairs"
    table: ReportTable


@dataclass(frozen=True)
class FigureRow:
    """Figures side by side where they fit."""

    kind: ClassVar[str] = "figures"
    figures: tuple[Figure, ...]


@dataclass(frozen=True)
class FactList:
    """Names and values, as a list."""

    kind: ClassVar[str] = "facts"
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Tile:
    """One number of the summary: what it is, the number, what to know about it."""

    name: str
    value: str
    note: str


@dataclass(frozen=True)
class SummaryCard:
    """The numbers that a reader looks for first, and what to be careful about."""

    kind: ClassVar[str] = "card"
    tiles: tuple[Tile, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class ExampleItem:
    """One recommended item."""

    name: str
    is_label: bool


@dataclass(frozen=True)
class ExampleQuery:
    """A query with the recommendations of each model: (model, items)."""

    name: str
    category: str
    labels: int
    answers: tuple[tuple[str, tuple[ExampleItem, ...]], ...]


@dataclass(frozen=True)
class ExampleList:
    """Queries with the recommendations of each model."""

    kind: ClassVar[str] = "examples"
    queries: tuple[ExampleQuery, ...]


Block = Paragraph | Heading | TableBlock | FigureRow | FactList | ExampleList | SummaryCard | PairEntries


@dataclass(frozen=True)
class Section:
    """A part of the page with its own heading and place in the contents."""

    id: str
    title: str
    blocks: tuple[Block, ...]
    folded: bool = False
    """Stands folded under "For statisticians", after the others."""


@dataclass(frozen=True)
class Page:
    """A title, the conclusion in a few sentences, sections."""

    title: str
    lead: tuple[str, ...]
    sections: tuple[Section, ...]

    def tables(self) -> Iterator[ReportTable]:
        """All tables in the order of the page."""
        blocks = (block for section in self.sections for block in section.blocks)
        return (block.table for block in blocks if isinstance(block, TableBlock | PairEntries))

    def figures(self) -> Iterator[Figure]:
        """All figures in the order of the page."""
        return (f for section in self.sections for b in section.blocks if isinstance(b, FigureRow) for f in b.figures)


def render(page: Page) -> str:
    """The page as HTML. Every text is escaped; the content-security policy lets nothing run and nothing load."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("neatrec", "report/templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "name": format_text,
        "sentence": format_sentence,
        "drawing": _drawing,
        "mark_class": _mark_class,
    }
    style = environment.get_template("style.css").render(
        light=Markup(css_variables(LIGHT)), dark=Markup(css_variables(DARK))
    )
    values: dict[str, Any] = {"page": page, "style": Markup(style), "policy": _policy(style), "version": __version__}
    return environment.get_template("page.html.jinja").render(values)


def _drawing(figure: Figure) -> Any:
    """The figure's SVG as it is: made by us, every text in it escaped."""
    from markupsafe import Markup

    return Markup(figure.drawing)


def _mark_class(mark: str) -> str:
    """The class of a mark: its first word, where that is one of MARKS."""
    word = mark.split(" ")[0].rstrip(",:")
    return word if word in MARKS else "other"


def _policy(style: str) -> str:
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
