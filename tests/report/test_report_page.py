"""The page: self-contained, safe, readable by people, keyboards and screen readers."""

import re
from pathlib import Path

import pytest

from helpers.page_tags import Tags
from helpers.small_report import INJECTIONS


@pytest.fixture(scope="module")
def html(small_report: Path) -> str:
    return (small_report / "index.html").read_text(encoding="utf-8")


def test_a_policy_lets_nothing_run_and_nothing_load(html: str) -> None:
    metas = [attributes for tag, attributes in Tags(html).tags if tag == "meta"]
    [policy] = [m["content"] for m in metas if m.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_twenty_names_that_try_to_break_out_are_shown_as_text(html: str) -> None:
    outline = Tags(html)
    assert len(INJECTIONS) == 20
    tags = {tag for tag, _ in outline.tags}
    assert not tags & {"script", "iframe", "img", "object", "embed", "base", "form", "math", "link"}
    assert not [
        attributes for _, attributes in outline.tags for name in attributes if name.startswith("on")
    ]
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u2028\u2029\u202e]", html)
    shown = " ".join(outline.text)
    assert sum(name in shown for name in INJECTIONS) > 10
    assert "tea\\x1b[31m\\x07\\x00red" in shown
    assert "{{ 7 * 7 }}" in shown


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
    sentence = r"Bought together by [\d,]+ customers, [\d.,]+x as often as by chance \(at least [\d.,]+x\)\."
    assert all(re.fullmatch(sentence, words) for words, _ in pairs)
    assert {grade.split(",")[0] for _, grade in pairs} <= {"certain", "likely"}
