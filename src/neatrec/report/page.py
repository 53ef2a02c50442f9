"""The page: sections of words, tables, figures and lists, rendered into one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from neatrec._version import __version__
from neatrec.report.svg import DARK, LIGHT, Figure, css_variables
from neatrec.report.table import ReportTable, format_sentence, format_text

MARKS = ("exact", "comparable", "differs")


class Paragraph(NamedTuple):
    """A paragraph; `tone` is "plain" or "note"."""

    text: str
    tone: str = "plain"


class Heading(NamedTuple):
    text: str
    id: str


class FigureRow(NamedTuple):
    figures: tuple[Figure, ...]


class FactList(NamedTuple):
    facts: tuple[tuple[str, str], ...]


class Tile(NamedTuple):
    """One number of the summary: what it is, the number, what to know about it."""

    name: str
    value: str
    note: str


class SummaryCard(NamedTuple):
    """The numbers that a reader looks for first, and what to be careful about."""

    tiles: tuple[Tile, ...]
    warnings: tuple[str, ...]


class ExampleQuery(NamedTuple):
    """A query with the recommendations of each model: (model, items with whether they are labels)."""

    name: str
    category: str
    labels: int
    answers: tuple[tuple[str, tuple[tuple[str, bool], ...]], ...]


class ExampleList(NamedTuple):
    queries: tuple[ExampleQuery, ...]


Block = Paragraph | Heading | ReportTable | FigureRow | FactList | ExampleList | SummaryCard


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
        return (block for section in self.sections for block in section.blocks if isinstance(block, ReportTable))

    def figures(self) -> Iterator[Figure]:
        return (f for section in self.sections for b in section.blocks if isinstance(b, FigureRow) for f in b.figures)


def render(page: Page) -> str:
    """The page as HTML. Every text is escaped; the content-security policy lets nothing run and nothing load."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("neatrec", "report/templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"name": format_text, "sentence": format_sentence, "mark_class": _mark_class}
    environment.filters["template"] = lambda block: f"blocks/{getattr(block, 'kind', type(block).__name__)}.html.jinja"
    style = environment.get_template("style.css").render(light=css_variables(LIGHT), dark=css_variables(DARK))
    values: dict[str, Any] = {"page": page, "style": style, "policy": _policy(style), "version": __version__}
    return environment.get_template("page.html.jinja").render(values)


def _mark_class(mark: str) -> str:
    """The class of a mark: its first word, where that is one of MARKS."""
    word = mark.split(" ")[0].rstrip(",:")
    return word if word in MARKS else "other"


def _policy(style: str) -> str:
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
