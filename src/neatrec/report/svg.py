"""Figures as small SVG: drawn by matplotlib, then cleaned so that one drawing serves light and dark, page and file.

Colours are drawn as stand-ins and become CSS variables, styles become plain attributes (a strict content-security
policy may forbid inline styles), names are made unique to the figure, numbers are shortened, and nothing but the
drawing is left.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

PALETTE = {
    "ink": ("#010100", "#1c2024", "#e8ebee"),
    "muted": ("#010200", "#5b6470", "#a4adb8"),
    "line": ("#010300", "#d5dae0", "#3a424b"),
    "ground": ("#010400", "#ffffff", "#14181c"),
    "series-1": ("#020100", "#1f5fa8", "#7fb5f2"),
    "series-2": ("#020200", "#b3500a", "#f2a25c"),
    "series-3": ("#020300", "#1a7a48", "#6fd39d"),
    "series-4": ("#020400", "#7a45a8", "#c6a4f0"),
    "series-5": ("#020500", "#ad2a72", "#f08fc2"),
    "series-6": ("#020600", "#4d6570", "#9fb8c2"),
}
"""CSS variable -> its stand-in, which is drawn, and its colours on light and on dark ground."""
LIGHT, DARK = ({name: colours[place] for name, colours in PALETTE.items()} for place in (1, 2))
VARIABLES = {stand_in: name for name, (stand_in, _, _) in PALETTE.items()}
INK, MUTED, GRID, GROUND, *SERIES = VARIABLES

SETTINGS: Mapping[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "neatrec",
    "text.parse_math": False,
    "font.size": 11.5,
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "axes.labelsize": 11.5,
    "axes.edgecolor": GRID,
    "axes.labelcolor": MUTED,
    "axes.titlecolor": INK,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "figure.facecolor": "none",
    "text.color": INK,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 11,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "ytick.labelsize": 11.5,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "lines.linewidth": 1.6,
    "lines.solid_capstyle": "round",
}

XML_SPACE = "http://www.w3.org/2000/svg"
FONTS = "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_DROPPED_STYLES = {"font-family", "font", "font-stretch", "font-variant"}


@dataclass(frozen=True)
class Figure:
    """A drawing, the words that replace it for those who cannot see it, and its caption."""

    name: str
    caption: str
    alt: str
    """What the drawing shows, in words."""
    drawing: str
    """The SVG element for the page, which defines its colours."""

    def file(self) -> str:
        """The drawing as a file of its own, light or dark as the reader's system is."""
        style = f"{_variables(LIGHT)} @media screen and (prefers-color-scheme: dark) {{ {_variables(DARK)} }}"
        head, body = self.drawing.split(">", 1)
        return f'{head} xmlns="{XML_SPACE}"><style>{style}</style>{body}\n'


def _variables(colours: Mapping[str, str]) -> str:
    return "svg { background: var(--ground); " + css_variables(colours) + " }"


def css_variables(colours: Mapping[str, str]) -> str:
    """The declarations that give the variables their colours."""
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())


@contextmanager
def canvas(width: float, height: float) -> Iterator[tuple[Any, Any]]:
    """A matplotlib figure of `width` x `height` points and its axes, in our style; nothing global is changed."""
    import matplotlib
    from matplotlib.figure import Figure as Drawing

    with matplotlib.rc_context(dict(SETTINGS)):
        drawing = Drawing(figsize=(width / 72, height / 72), layout="constrained")
        yield drawing, drawing.subplots()


def finish(drawing: Any, name: str, caption: str, alt: str) -> Figure:
    """The `Figure` of a matplotlib figure; call it inside `canvas`."""
    out = io.StringIO()
    drawing.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return Figure(name, caption, alt, _clean(out.getvalue(), name, alt))


def _clean(text: str, name: str, alt: str) -> str:
    root = ElementTree.fromstring(text)
    for parent in list(root.iter()):
        for child in list(parent):
            if _local(child.tag) in ("metadata", "style"):
                parent.remove(child)
    used = set(re.findall(r"#([\w.-]+)\"|url\(#([\w.-]+)\)", text))
    names = {one or other for one, other in used}
    for element in root.iter():
        element.tag = _local(element.tag)
        element.attrib.update(_attributes(element, names, name))
        element.text = _squeezed(element.text) if element.tag != "text" else element.text
        element.tail = _squeezed(element.tail)
    box = root.attrib["viewBox"]
    root.attrib.clear()
    title = ElementTree.Element("title", id=f"{name}-alt")
    title.text = alt
    root.insert(0, title)
    root.attrib |= {"viewBox": box, "role": "img", "aria-labelledby": f"{name}-alt"}
    root.attrib |= {"font-family": FONTS, "stroke-linejoin": "round", "fill": "currentColor"}
    return ElementTree.tostring(root, encoding="unicode")


def _attributes(element: Any, names: set[str], figure: str) -> dict[str, str]:
    """The attributes of `element` as we keep them; they are taken out of it first."""
    old = dict(element.attrib)
    element.attrib.clear()
    kept: dict[str, str] = {}
    for key, value in old.items():
        key = _local(key)
        if key == "style":
            kept |= _from_style(value)
        elif key == "id":
            kept |= {"id": f"{figure}-{value}"} if value in names else {}
        elif key == "href":
            kept["href"] = f"#{figure}-{value.removeprefix('#')}"
        elif key == "clip-path":
            kept[key] = value.replace("url(#", f"url(#{figure}-")
        elif key != "transform" or not value.startswith("rotate(-0 "):
            kept[key] = _short(value) if key in ("d", "x", "y", "width", "height", "transform") else value
    return kept


def _from_style(style: str) -> dict[str, str]:
    pairs = [part.split(":", 1) for part in style.split(";") if ":" in part]
    kept = {key.strip(): value.strip() for key, value in pairs if key.strip() not in _DROPPED_STYLES}
    return {key: f"var(--{VARIABLES[value]})" if value in VARIABLES else value for key, value in kept.items()}


def _short(numbers: str) -> str:
    """Coordinates with at most two decimals."""
    short = re.sub(r"-?\d+\.\d+", lambda match: f"{float(match[0]):.2f}".rstrip("0").rstrip("."), numbers)
    return " ".join(short.split())


def _squeezed(text: str | None) -> str | None:
    return text if text is None or text.strip() else None


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]
