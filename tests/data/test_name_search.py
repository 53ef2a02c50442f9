"""Search by name: whole names, beginnings, typos; empty catalogues and odd letters are no trouble."""

import importlib
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neatrec.data import name_search
from neatrec.data.name_search import NameSearch, folded

NAMES = [
    "Spaghetti",
    "Spaghetti Squash",
    "Marinara Sauce",
    "Soy Sauce",
    "Café Crème",
    "Tee",
    "Green Tea",
    "寿司",
]
COUNTS = np.array([10, 50, 30, 5, 2, 1, 8, 3])


def found(text: str, count: int = 3) -> list[str]:
    return [NAMES[code] for code in NameSearch(NAMES, COUNTS).find(text, count)]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("spaghetti", "Spaghetti"),
        ("SPAGHETTI  SQUASH", "Spaghetti Squash"),
        ("spagetti", "Spaghetti"),
        ("sauce", "Marinara Sauce"),
        ("soy", "Soy Sauce"),
        ("sauce soy", "Soy Sauce"),
        ("marinra", "Marinara Sauce"),
        ("café", "Café Crème"),
        ("寿司", "寿司"),
        ("tee", "Tee"),
    ],
)
def test_the_right_name_comes_first(text: str, first: str) -> None:
    assert found(text)[0] == first


def test_nonsense_finds_nothing() -> None:
    assert found("qqqqqqqq") == []
    assert found("   ") == []


def test_typos_are_forgiven_without_the_compiled_similarity(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "rapidfuzz.fuzz", None)
    plain = importlib.reload(name_search)
    monkeypatch.undo()
    search = plain.NameSearch(NAMES, COUNTS)
    assert [NAMES[search.find(text, 1)[0]] for text in ("spagetti", "marinra")] == [
        "Spaghetti",
        "Marinara Sauce",
    ]
    assert importlib.reload(name_search).ratio is not plain.SequenceMatcher


@given(st.lists(st.text("ab é寿", max_size=12), max_size=12), st.text("ab é寿", max_size=8))
def test_names_that_hold_all_words_are_those_that_a_plain_search_finds(
    names: list[str], text: str
) -> None:
    held = NameSearch(names, np.ones(len(names), dtype=np.int64)).holding(text)
    assert held.tolist() == [
        all(word in folded(name) for word in folded(text).split()) for name in names
    ]
