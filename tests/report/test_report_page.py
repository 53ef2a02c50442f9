"""The page: self-contained, safe, readable by people, keyboards and screen readers."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from helpers.small_report import INJECTIONS

VOID = {"meta", "br", "img", "link", "input", "hr"}


class Outline(HTMLParser):
    """Tags with their attributes, texts by tag, and whether everything that opens closes."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"{tag} closes what never opened"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.open[-1] if self.open else "", data.strip()))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def html(small_report: Path) -> str:
    return (small_report / "index.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def outline(html: str) -> Outline:
    return Outline(html)


def test_the_page_needs_no_outside_address(html: str, outline: Outline, small_report: Path) -> None:
    for tag, attributes in outline.tags:
        for name in ("src", "href", "xlink:href", "action", "data", "srcset"):
            address = attributes.get(name)
            if address is None:
                continue
            assert address.startswith("#") or (small_report / address).is_file(), (tag, address)
    assert not re.search(r"@import|url\((?!#)", html)
    assert outline.open == []  # everything that opens closes


def test_a_policy_lets_nothing_run_and_nothing_load(outline: Outline) -> None:
    policy = next(
        m["content"]
        for m in outline.all("meta")
        if m.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_twenty_names_that_try_to_break_out_are_shown_as_text(html: str, outline: Outline) -> None:
    assert len(INJECTIONS) == 20
    tags = {tag for tag, _ in outline.tags}
    assert not tags & {"script", "iframe", "img", "object", "embed", "base", "form", "math", "link"}
    assert not [
        attributes for _, attributes in outline.tags for name in attributes if name.startswith("on")
    ]
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u2028\u2029\u202e]", html)
    shown = " ".join(text for _, text in outline.texts)
    assert sum(name in shown for name in INJECTIONS) > 10
    assert "tea\\x1b[31m\\x07\\x00red" in shown
    assert "{{ 7 * 7 }}" in shown


def test_tables_have_captions_headers_with_scope_and_scroll_by_keyboard(outline: Outline) -> None:
    tables = len(outline.all("table"))
    assert tables > 10
    assert len(outline.all("caption")) == tables
    assert {header.get("scope") for header in outline.all("th")} == {"col", "row"}
    scrolling = [a for a in outline.all("div") if a.get("class") == "scroll"]
    assert len(scrolling) == tables
    assert all(
        a["tabindex"] == "0" and a["role"] == "region" and a["aria-labelledby"] for a in scrolling
    )


def test_the_drawing_and_links_to_files_are_described_in_words(outline: Outline) -> None:
    [drawing] = outline.all("svg")
    assert drawing["role"] == "img"
    assert drawing["aria-labelledby"]
    titles = [text for tag, text in outline.texts if tag == "title"]
    assert re.match(r"Dot plot of HR@10, best first: \S+ [\d.]+ \([\d.]+ to [\d.]+\); ", titles[1])
    links = [a for a in outline.all("a") if (a.get("href") or "").startswith("tables/")]
    assert len(links) > 10


def test_the_sections_a_reader_looks_for_are_there(outline: Outline) -> None:
    headings = {
        level: [text for tag, text in outline.texts if tag == level] for level in ("h2", "h3")
    }
    assert headings["h2"] == ["The pairs worth most", "For statisticians"]
    assert headings["h3"] == [
        "Which model is better, and how certain",
        "Where each model is good",
        "Measures that need no labels",
        "How this was made",
    ]


def test_the_first_screen_is_for_the_owner_of_the_shop(html: str) -> None:
    first = html[html.index("<main") : html.index('id="statisticians"')]
    tiles = dict(re.findall(r"<dt>(.*?)</dt><dd><strong>(.*?)</strong>", first))
    assert tiles["Pairs found"] == "11"
    assert re.fullmatch(r"\d+ %", tiles["Sales covered"])
    assert re.fullmatch(r"[\d,]+ customers", tiles["Bought together beyond chance"])
    assert "<table" not in first
    assert not re.search(r"HR@|goal|\btie", first)
    pairs = re.findall(r"<li><strong>.*?</strong> <span>(.*?)</span> <small>(.*?)</small>", first)
    assert len(pairs) == 10
    sentence = (
        r"Bought together by [\d,]+ customers, [\d.,]+x more than chance \(at least [\d.,]+x\)\."
    )
    assert all(re.fullmatch(sentence, words) for words, _ in pairs)
    assert {grade.split(",")[0] for _, grade in pairs} <= {"certain", "likely"}
