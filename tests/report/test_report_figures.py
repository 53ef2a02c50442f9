"""Figures: small, without scripts or outside addresses, in words for those who cannot see them."""

import re
from functools import cache
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.small_report import INJECTIONS
from neatrec.report.figures import (
    Curve,
    Dot,
    GaussianCurve,
    density_chart,
    dot_plot,
    line_chart,
    popularity_chart,
    share_bars,
    spread_out,
)
from neatrec.report.model_sections import log_correlation
from neatrec.report.svg import DARK, LIGHT, XML_SPACE, Figure


@cache
def figures() -> list[Figure]:
    return drawn()


def drawn() -> list[Figure]:
    rng = np.random.default_rng(0)
    bought = np.exp(rng.normal(4, 1.5, 400)).astype(int) + 1
    dots = [Dot("lift", "statistic", 0.3, 0.2, 0.4), Dot("neat", "paper", 0.2, 0.1, 0.3), Dot("mine", "odd", 0, 0, 0)]
    curves = [
        Curve("lift", [0.1, 0.3]),
        Curve("pop", [0.0, 0.1], highlighted=False),
        Curve("best", [0.3, 0.6], dashed=True),
    ]
    return [
        dot_plot("dots", dots, "HR@10", "Dots.", ceiling=0.5),
        line_chart("lines", [1, 10], curves, "K", "HR@K", "Lines."),
        share_bars(
            "bars", [100 * i for i in range(10)], {"positive": [0.1] * 10, "negative": [0.1] * 10}, "x", "Bars."
        ),
        popularity_chart("popularity", bought, np.log(bought) / 5, 1.0, "Popularity."),
        density_chart("curves", [GaussianCurve("a", 0, 1), GaussianCurve("b", 1, 0.5)], "x", "Bells.", at_zero=True),
    ]


@pytest.mark.parametrize("figure", figures(), ids=lambda figure: figure.name)
def test_a_figure_is_small_and_carries_nothing_but_its_drawing_and_names_of_its_own(figure: Figure) -> None:
    assert len(figure.drawing) < 45_000
    outside = figure.file().replace(XML_SPACE, "")
    assert "http" not in outside
    assert not re.search(r"<script|<image|<foreignObject|\son\w+=|style=", figure.drawing)
    assert not re.search(r"#[0-9a-f]{6}\b", figure.drawing)  # colours come from the page
    ids = re.findall(r' id="([^"]+)"', figure.drawing)
    assert len(ids) == len(set(ids))
    assert all(name.startswith(f"{figure.name}-") for name in ids)
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', figure.drawing)) <= set(ids)


@pytest.mark.parametrize("figure", figures(), ids=lambda figure: figure.name)
def test_a_figure_file_is_xml_and_has_colours_for_light_and_dark(figure: Figure) -> None:
    root = ElementTree.fromstring(figure.file())
    assert root.tag == f"{{{XML_SPACE}}}svg"
    style = next(element.text or "" for element in root if element.tag.endswith("style"))
    assert LIGHT["ink"] in style
    dark = f"{{ svg {{ background: var(--ground); --ink: {DARK['ink']}"
    assert f"@media screen and (prefers-color-scheme: dark) {dark}" in style


def test_the_words_of_a_figure_hold_its_numbers() -> None:
    dots, lines, bars, popularity, curves = (figure.alt for figure in figures())
    assert "lift 0.300 (0.200 to 0.400)" in dots
    assert "against K 1, 10: lift 0.100, 0.300; best 0.300, 0.600" in lines
    assert "positive: 10.00, " in bars
    assert "correlation with the logarithm of purchases 1.00" in popularity
    assert "a: mean 0.000, variance 1.0000, density at zero (A) 0.399" in curves


def test_names_in_a_figure_stay_text() -> None:
    figure = dot_plot("dots", [Dot(name, "paper", 0.1, 0.0, 0.2) for name in INJECTIONS], "HR", "Dots.")
    root = ElementTree.fromstring(figure.file())
    assert {element.tag.rpartition("}")[2] for element in root.iter()} <= {
        "svg", "style", "title", "defs", "g", "path", "use", "text", "clipPath", "rect",
    }  # fmt: skip
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u2028\u202e]", figure.drawing)


def test_drawing_again_gives_the_same_text_and_changes_no_setting_of_matplotlib() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    assert [figure.drawing for figure in drawn()] == [figure.drawing for figure in figures()]
    assert dict(matplotlib.rcParams) == before


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_labels_that_would_cover_each_other_are_moved_apart(values: list[float]) -> None:
    spread = spread_out(np.array(values), 0.05, 1.0)
    ordered = np.sort(spread)
    assert (np.diff(ordered) >= 0.05 - 1e-9).all()
    assert (np.argsort(values, kind="stable") == np.argsort(spread, kind="stable")).all()


def test_a_correlation_of_what_never_varies_is_no_number() -> None:
    assert np.isnan(log_correlation(np.array([1.0, 1.0]), np.array([0.0, 1.0])))
