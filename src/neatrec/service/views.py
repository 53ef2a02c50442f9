"""What the page shows, made of answers: plain records for the templates."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from neatrec.service.answers import AnsweredQuery, peers_of
from neatrec.service.cart import AnsweredCart
from neatrec.service.loaded_bundle import LoadedBundle
from neatrec.service.svg import histogram, ruler
from neatrec.serving import PairEvidence
from neatrec.text import plural

ENOUGH = 8
"""Peers below this number are no crowd to stand in: all items are taken instead."""
GRADE_NAMES = {
    "strong": "strong evidence",
    "some": "some evidence",
    "predicted": "predicted",
    "category": "by category",
    "rule": "the shop's choice",
}


def address(path: str, **fields: object) -> str:
    """A link into the page."""
    return f"{path}?{urlencode(fields, doseq=True)}" if fields else path


def unbroken(text: str) -> str:
    """`text` for a page, where no line ends between a number and its per cent sign.

    >>> unbroken("at least 9x chance (95 %).")
    'at least 9x chance (95\\xa0%).'
    """
    return re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", text)


@dataclass(frozen=True)
class ItemCard:
    """One answer as a card."""

    rank: int
    id: str
    name: str
    category: list[str]
    grade: str
    words: str
    ruler: Markup
    speakers: tuple[tuple[str, str], ...] = ()
    """Cart items it goes with: name, evidence in words."""

    @property
    def grade_name(self) -> str:
        return GRADE_NAMES[self.grade]


def cards(answered: AnsweredQuery, public: bool) -> list[ItemCard]:
    shelf = answered.shelf
    return [
        ItemCard(
            rank,
            shelf.ids[line.code],
            shelf.names[line.code],
            shelf.path(line.code),
            line.evidence.grade,
            line.evidence.words(public=public),
            drawn(line.evidence, public),
        )
        for rank, line in enumerate(answered.lines, 1)
    ]


def cart_cards(answered: AnsweredCart, public: bool) -> list[ItemCard]:
    shelf = answered.shelf
    return [
        ItemCard(
            rank,
            shelf.ids[line.code],
            shelf.names[line.code],
            shelf.path(line.code),
            line.grade,
            "",
            Markup(""),
            tuple((shelf.names[s.code], s.evidence.words(public=public)) for s in line.speakers[:3]),
        )
        for rank, line in enumerate(answered.lines, 1)
    ]


def drawn(evidence: PairEvidence, public: bool) -> Markup:
    """The ruler of a pair whose evidence counts."""
    return ruler(evidence) if evidence.grade in ("strong", "some") and not public else Markup("")


@dataclass(frozen=True)
class ModelRow:
    """An item among its peers."""

    sentence: str
    drawing: Markup


def popularity(shelf: LoadedBundle, code: int) -> ModelRow | None:
    """How often it is bought, among the items of its category."""
    peers, who = _crowd(shelf, code)
    count = np.asarray(shelf.index.item_count)
    if not count[code] or len(peers) < 2:
        return None
    less = float(np.mean(count[peers] < count[code]))
    sentence = f"In {plural(int(count[code]), 'basket')}: more often than {100 * less:.0f} % of {who}."
    picture = histogram(count[peers].astype(np.float64), float(count[code]), sentence, "seldom", "often")
    return ModelRow(sentence, picture)


def spread(shelf: LoadedBundle, code: int) -> ModelRow | None:
    """How wide its taste is: the variance that a Gaussian model learned, among its peers."""
    variance = shelf.index.variance
    peers, who = _crowd(shelf, code)
    if variance is None or not shelf.count[code] or len(peers) < 2:
        return None
    less = float(np.mean(variance[peers] < variance[code]))
    kind = "goes with many different things" if less > 0.66 else "keeps to its own company" if less < 0.33 else ""
    sentence = f"Variance {variance[code]:.3g}: larger than that of {100 * less:.0f} % of {who}."
    sentence += f" It {kind}." if kind else ""
    picture = histogram(variance[peers].astype(np.float64), float(variance[code]), sentence, "narrow", "wide")
    return ModelRow(sentence, picture)


def _crowd(shelf: LoadedBundle, code: int) -> tuple[npt.NDArray[np.int64], str]:
    """Bought items of its category, or all bought items where these are few."""
    bought = np.asarray(shelf.index.item_count) > 0
    peers = np.flatnonzero(peers_of(shelf, code) & bought)
    if len(peers) >= ENOUGH:
        return peers, f"the {plural(len(peers), 'item')} in {shelf.path(code)[-1]}"
    everyone = np.flatnonzero(bought)
    return everyone, f"all {plural(len(everyone), 'item')}"


def best_sellers(shelf: LoadedBundle, count: int) -> list[dict[str, Any]]:
    """Items to begin with: often bought, and with an answer that has evidence."""
    found = []
    for code in np.argsort(-np.asarray(shelf.index.item_count), kind="stable")[: 40 * count].tolist():
        table = shelf.index.answers(code)
        if len(table) and (table.grade <= 1).any():
            found.append(shelf.brief(code))
        if len(found) == count:
            break
    return found


def covered(coverage: dict[str, dict[str, float]]) -> tuple[float, float]:
    """The share of items, and of sales, with an answer that has evidence."""
    good = [coverage[grade] for grade in ("strong", "some") if grade in coverage]
    return sum(row["items"] for row in good), sum(row["sales"] for row in good)
