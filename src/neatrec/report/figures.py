"""The figures: dots with intervals, curves, shares by bin, popularity against variance, densities.

All are drawn narrow, so that their text stays readable on a phone; several panels are several figures, which the page
sets side by side where they fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.report.svg import GRID, GROUND, INK, MUTED, SERIES, Figure, canvas, finish
from neatrec.report.table import format_number, format_text

Floats = npt.NDArray[np.float64]

WIDTH = 380
"""Points across: about a phone's width."""
KIND_COLOURS: Mapping[str, str] = {"paper": SERIES[0], "statistic": SERIES[1], "hybrid": SERIES[2]}
KIND_SHAPES: Mapping[str, str] = {"paper": "o", "statistic": "s", "hybrid": "D"}
SHAPES = "osD^vP"
LABEL_LENGTH = 26


@dataclass(frozen=True)
class Dot:
    """One line of a dot plot: a mean between the ends of its interval."""

    label: str
    kind: str
    mean: float
    low: float
    high: float


def dot_plot(name: str, dots: Sequence[Dot], title: str, caption: str, *, ceiling: float | None = None) -> Figure:
    """One line a model, best first: a dot for the mean, a bar for its interval; colour and shape tell the kind."""
    with canvas(WIDTH, 66 + 22 * len(dots)) as (drawing, axes):
        places = np.arange(len(dots))[::-1]
        for place, dot in zip(places, dots, strict=True):
            colour = KIND_COLOURS.get(dot.kind, SERIES[3])
            axes.plot([dot.low, dot.high], [place, place], color=colour, linewidth=2.2, alpha=0.55, clip_on=False)
            axes.plot(dot.mean, place, KIND_SHAPES.get(dot.kind, "P"), color=colour, markersize=5.5, clip_on=False)
        if ceiling is not None:
            axes.axvline(ceiling, color=MUTED, linewidth=1, linestyle=(0, (3, 3)))
            axes.annotate("best possible ", (ceiling, len(dots) - 0.45), ha="right", va="bottom", color=MUTED, size=10)
        axes.set_yticks(places, [_short_label(dot.label) for dot in dots])
        axes.set(xlabel=title, xlim=(0, None), ylim=(-0.7, len(dots) - 0.3))
        axes.grid(axis="y", visible=False)
        _kind_legend(drawing, [dot.kind for dot in dots])
        return finish(drawing, name, caption, _dots_text(dots, title))


def _kind_legend(drawing: Any, kinds: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    found = [kind for kind in KIND_COLOURS if kind in kinds] + sorted(set(kinds) - set(KIND_COLOURS))
    handles = [
        Line2D([], [], linestyle="", marker=KIND_SHAPES.get(k, "P"), color=KIND_COLOURS.get(k, SERIES[3]), label=k)
        for k in found
    ]
    drawing.legend(handles=handles, loc="outside upper left", ncols=len(handles), handletextpad=0.1, fontsize=11)


def _dots_text(dots: Sequence[Dot], title: str) -> str:
    lines = [f"{format_text(d.label)} {d.mean:.3f} ({d.low:.3f} to {d.high:.3f})" for d in dots]
    return f"Dot plot of {title}, best first: " + "; ".join(lines) + "."


@dataclass(frozen=True)
class Curve:
    label: str
    values: Sequence[float]
    highlighted: bool = True
    """Drawn in colour and named; the others are thin and grey."""
    dashed: bool = False


def line_chart(
    name: str,
    x: Sequence[float],
    curves: Sequence[Curve],
    x_title: str,
    y_title: str,
    caption: str,
    *,
    height: int = 250,
) -> Figure:
    """Lines over evenly spaced `x`, each named at its right end."""
    with canvas(WIDTH, height) as (drawing, axes):
        places = np.arange(len(x))
        highlighted = [curve for curve in curves if curve.highlighted]
        for curve in (c for c in curves if not c.highlighted):
            axes.plot(places, curve.values, color=GRID, linewidth=1.3)
        for number, curve in enumerate(highlighted):
            look: dict[str, Any] = {"color": MUTED, "linestyle": (0, (3, 3)), "linewidth": 1.1}
            if not curve.dashed:
                look = {"color": SERIES[number % len(SERIES)], "marker": SHAPES[number % len(SHAPES)], "markersize": 4}
            axes.plot(places, curve.values, **look)
        axes.set_xticks(places, [f"{value:g}" for value in x])
        axes.set(xlabel=x_title, ylabel=y_title, ylim=(0, None))
        axes.margins(x=0.03)
        axes.grid(axis="x", visible=False)
        _name_lines(axes, places[-1], highlighted, height)
        return finish(drawing, name, caption, _curves_text(x, curves, x_title, y_title))


def _name_lines(axes: Any, last: float, highlighted: Sequence[Curve], height: int) -> None:
    """The name of each line at its right end, moved apart where they would cover each other."""
    top = axes.get_ylim()[1]
    ends = np.array([curve.values[-1] for curve in highlighted], dtype=float)
    spread = spread_out(np.nan_to_num(ends), 14.5 / (height - 60) * top, top)
    for number, (curve, place) in enumerate(zip(highlighted, spread, strict=True)):
        colour = MUTED if curve.dashed else SERIES[number % len(SERIES)]
        axes.annotate(
            _short_label(curve.label, 18),
            (last, place),
            xytext=(7, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            annotation_clip=False,
        )


def spread_out(values: Floats, gap: float, top: float) -> Floats:
    """`values` moved as little as needed to be at least `gap` apart, between 0 and `top` where they fit.

    >>> spread_out(np.array([0.5, 0.5]), 0.2, 1.0).round(2).tolist()
    [0.4, 0.6]
    """
    order = np.argsort(values, kind="stable")
    placed = values[order].astype(np.float64)
    # blocks of labels that touch move as one, centred on the mean of what they name
    blocks = [[place] for place in range(len(placed))]
    at = 0
    while at < len(blocks) - 1:
        low, high = (_block_centre(placed[blocks[place]], gap, top) for place in (at, at + 1))
        if high - low >= gap * (len(blocks[at]) + len(blocks[at + 1])) / 2 - 1e-12:
            at += 1
            continue
        blocks[at] += blocks.pop(at + 1)
        at = max(at - 1, 0)
    out = np.empty(len(values))
    for block in blocks:
        places = gap * (np.arange(len(block)) - (len(block) - 1) / 2)
        out[order[block]] = _block_centre(placed[block], gap, top) + places
    return out


def _block_centre(values: Floats, gap: float, top: float) -> float:
    half = gap * (len(values) - 1) / 2
    return min(max(float(values.mean()), half), max(top - half, half))


def _curves_text(x: Sequence[float], curves: Sequence[Curve], x_title: str, y_title: str) -> str:
    named = [curve for curve in curves if curve.highlighted]
    lines = [f"{format_text(c.label)} {', '.join(format_number(v, 3) for v in c.values)}" for c in named]
    return f"Line chart of {y_title} against {x_title} {', '.join(f'{v:g}' for v in x)}: " + "; ".join(lines) + "."


def share_bars(
    name: str, edges: Sequence[float], shares: Mapping[str, Sequence[float]], x_title: str, caption: str
) -> Figure:
    """Shares of each group by bin, on a logarithmic scale, side by side. `edges` are the bins' lower ends."""
    with canvas(WIDTH, 220) as (drawing, axes):
        places = np.arange(len(edges))
        breadth = 0.8 / max(len(shares), 1)
        colours = (SERIES[2], SERIES[4], *SERIES)
        for number, (label, values) in enumerate(shares.items()):
            heights = 100 * np.asarray(values, dtype=float)
            left = places - 0.4 + number * breadth
            axes.bar(left, heights, breadth, align="edge", color=colours[number], label=label)
        axes.set(xlabel=x_title, ylabel="% of pairs", yscale="log")
        step = 2 if len(edges) > 8 else 1
        axes.set_xticks(places[::step], [f"{edge:g}" for edge in edges[::step]])
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.minorticks_off()
        axes.grid(axis="x", visible=False)
        drawing.legend(loc="outside upper left", ncols=len(shares), fontsize=11, handlelength=1)
        words = [f"{label}: {', '.join(format_number(100 * v, 2) for v in values)}" for label, values in shares.items()]
        alt = f"Bars of the share of pairs in % by {x_title}, bins from {', '.join(f'{e:g}' for e in edges)}. "
        return finish(drawing, name, caption, alt + "; ".join(words) + ".")


def popularity_chart(
    name: str, purchases: npt.ArrayLike, log_variance: npt.ArrayLike, correlation: float, caption: str, dots: int = 250
) -> Figure:
    """Log-variance against purchases: median, middle half and middle 90 % of each bin, and some items as dots."""
    bought, spread = np.asarray(purchases, dtype=float), np.asarray(log_variance, dtype=float)
    middle, bands = _by_bin(bought, spread)
    with canvas(WIDTH, 250) as (drawing, axes):
        axes.fill_between(middle, bands[0], bands[4], color=SERIES[0], alpha=0.15, linewidth=0)
        axes.fill_between(middle, bands[1], bands[3], color=SERIES[0], alpha=0.28, linewidth=0)
        order = np.argsort(bought, kind="stable")
        some = order[np.linspace(0, len(order) - 1, min(dots, len(order))).astype(int)]
        axes.plot(bought[some], spread[some], ".", color=MUTED, markersize=2.2, alpha=0.6)
        axes.plot(middle, bands[2], color=SERIES[0])
        axes.set(xlabel="purchases in the training baskets", ylabel="log-variance", xscale="log")
        axes.minorticks_off()
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        alt = (
            f"Log-variance of {len(bought):,} items against their purchases on a logarithmic scale; correlation "
            f"with the logarithm of purchases {correlation:.2f}. The median goes from {bands[2][0]:.2f} at "
            f"{middle[0]:,.0f} purchases to {bands[2][-1]:.2f} at {middle[-1]:,.0f}."
        )
        return finish(drawing, name, caption, alt)


def _by_bin(bought: Floats, spread: Floats, bins: int = 16) -> tuple[Floats, Floats]:
    """Middles of the bins with items, shape (bins,), and five quantiles in each, shape (5, bins)."""
    edges = np.geomspace(max(bought.min(), 1), bought.max() * 1.0001 + 1e-9, bins + 1)
    code = np.clip(np.searchsorted(edges, bought, side="right") - 1, 0, bins - 1)
    used = [slot for slot in range(bins) if (code == slot).any()]
    middle = np.array([np.exp(np.log(bought[code == slot]).mean()) for slot in used])
    bands = np.array([np.quantile(spread[code == slot], [0.05, 0.25, 0.5, 0.75, 0.95]) for slot in used]).T
    return middle, bands


@dataclass(frozen=True)
class GaussianCurve:
    """A one-dimensional Gaussian with a name."""

    label: str
    mean: float
    variance: float

    def density(self, x: npt.ArrayLike) -> Floats:
        x = np.asarray(x, dtype=np.float64)
        out: Floats = np.exp(-((x - self.mean) ** 2) / (2 * self.variance)) / np.sqrt(2 * np.pi * self.variance)
        return out


def density_chart(
    name: str, curves: Sequence[GaussianCurve], x_title: str, caption: str, *, at_zero: bool = False
) -> Figure:
    """Densities of Gaussians; with `at_zero`, each one's density at 0 is marked with a letter from A."""
    reach = [(b.mean - 3.2 * b.variance**0.5, b.mean + 3.2 * b.variance**0.5) for b in curves]
    x = np.linspace(min(low for low, _ in reach), max(high for _, high in reach), 160)
    words = []
    with canvas(WIDTH, 220) as (drawing, axes):
        for number, curve in enumerate(curves):
            colour = SERIES[number]
            axes.plot(x, curve.density(x), color=colour, label=_short_label(curve.label, 40))
            axes.fill_between(x, curve.density(x), color=colour, alpha=0.1, linewidth=0)
            words.append(f"{format_text(curve.label)}: mean {curve.mean:.3f}, variance {curve.variance:.4f}")
            if at_zero:
                height, letter = float(curve.density(0.0)), chr(ord("A") + number)
                axes.plot(0, height, "o", color=colour, markeredgecolor=GROUND, markersize=7)
                axes.annotate(letter, (0, height), xytext=(6, 4), textcoords="offset points", color=INK)
                words[-1] += f", density at zero ({letter}) {height:.3f}"
        axes.set(xlabel=x_title, ylabel="density", ylim=(0, None))
        drawing.legend(loc="outside upper left", fontsize=11, handlelength=1)
        return finish(drawing, name, caption, "Densities. " + "; ".join(words) + ".")


def _short_label(label: str, length: int = LABEL_LENGTH) -> str:
    text = format_text(label)
    return text if len(text) <= length else text[: length - 1] + "…"
