"""Plain records for the templates, made of answers."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from neatrec.service.answers import AnsweredCart, goes_with
from neatrec.service.drawings import NetworkLine, NetworkNode, histogram, line_width, network, ruler
from neatrec.service.loaded_bundle import LoadedBundle
from neatrec.service.rules import EVERY, Rule
from neatrec.service.rules_file import words_of
from neatrec.service.schemas import Filters
from neatrec.service.settings import MAX_K
from neatrec.service.snapshot import ServingSnapshot
from neatrec.serving import PairEvidence, table_words
from neatrec.serving.answers import peers_of
from neatrec.serving.evidence import LIKELY
from neatrec.serving.table import AnswerLine
from neatrec.text import plural, show_number

MIN_PEERS = 8
"""Where a category has fewer items than this, an item is compared with all items."""
GRADE_NAMES = {
    "certain": "certain",
    "likely": "likely",
    "guess": "a guess",
    "category": "by category",
    "rule": "the shop's choice",
}
GOAL_NAMES = {"balanced": "balanced", "lift": "highest lift", "evidence": "most certain"}


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
    contributions: tuple[tuple[str, str], ...] = ()
    """Cart items it goes with: name, evidence in words."""
    strength: str | None = None
    hidden: bool = False
    """A rule takes it out; only editors see it."""

    @property
    def grade_name(self) -> str:
        return grade_name(self.grade, self.strength)


def grade_name(grade: str, strength: str | None) -> str:
    """Both words of a pair: how sure, how strong.

    >>> grade_name("certain", "moderate"), grade_name("explained by store", None)
    ('certain, moderate', 'explained by store')
    """
    sure = GRADE_NAMES.get(grade, grade)
    return sure if strength is None else f"{sure}, {strength}"


SORT_NAMES = {"strength": "strongest", "customers": "most customers", "sure": "surest", "new": "new ones only"}


@dataclass(frozen=True)
class PairRow:
    """One pair of the list."""

    a: dict[str, Any]
    b: dict[str, Any]
    grade: str
    grade_name: str
    words: str
    is_new: bool


def pair_rows(bundle: LoadedBundle, rows: npt.NDArray[np.int64], public: bool) -> list[PairRow]:
    pairs = bundle.pairs
    return [
        PairRow(
            bundle.brief(a),
            bundle.brief(b),
            evidence.grade,
            grade_name(evidence.grade, evidence.strength),
            evidence.words(public=public, suggested=False),
            pairs.is_new is not None and bool(pairs.is_new[row]),
        )
        for row, (a, b, evidence) in zip(rows.tolist(), pairs.evidence(rows), strict=True)
    ]


def cards(bundle: LoadedBundle, lines: list[AnswerLine], public: bool) -> list[ItemCard]:
    return [
        ItemCard(
            rank,
            bundle.ids[line.code],
            bundle.names[line.code],
            bundle.path(line.code),
            line.evidence.grade,
            line.evidence.words(public=public),
            drawn(line.evidence, public),
            strength=line.evidence.strength,
        )
        for rank, line in enumerate(lines, 1)
    ]


def hidden_answers(
    snapshot: ServingSnapshot, bundle: LoadedBundle, code: int, filters: Filters
) -> list[tuple[int, AnswerLine]]:
    """What rules hide of the answers to an item, each with the number of other answers that stand before it."""
    rules = snapshot.rules[bundle.name]
    hidden = rules.hidden(code)
    if not hidden:
        return []
    unruled = replace(snapshot, rules={bundle.name: rules.without_blocks()})
    most = filters.model_copy(update={"k": min(filters.k + len(hidden), MAX_K)})
    answered = goes_with(unruled, bundle, code, most, exact=True)
    found, before = [], 0
    for line in answered.lines if answered else ():
        if line.code in hidden:
            found.append((before, line))
        else:
            before += 1
    return found


def with_hidden(
    shown: list[ItemCard], hidden: list[tuple[int, AnswerLine]], public: bool, bundle: LoadedBundle
) -> list[ItemCard]:
    """The cards of the answers, and those of hidden ones where they would stand."""
    found = list(shown)
    for number, (before, line) in enumerate(hidden):
        card = replace(cards(bundle, [line], public)[0], hidden=True)
        if before <= len(shown):
            found.insert(before + number, card)
    return found


@dataclass(frozen=True)
class RuleRow:
    """A rule as editors see it."""

    rule: Rule
    query: dict[str, Any] | None
    """None: every item."""
    item: dict[str, Any]
    words: str
    holds: bool


def rules_about(
    snapshot: ServingSnapshot, bundle: LoadedBundle, codes: set[int] | None, *, both: bool = False
) -> list[RuleRow]:
    """The rules that name one of these items (`both`: no item but these), None: all; in the order of the file."""

    def brief(text: str) -> dict[str, Any]:
        code = bundle.code(text)
        return {"id": text, "name": text, "category": []} if code is None else bundle.brief(code)

    found = []
    for rule in snapshot.written.rules:
        texts = [rule.item] if rule.query == EVERY else [rule.item, rule.query]
        here = [codes is None or bundle.code(text) in codes for text in texts]
        if all(here) if both else any(here):
            item, query = brief(rule.item), None if rule.query == EVERY else brief(rule.query)
            found.append(RuleRow(rule, query, item, words_of(rule), rule.holds(snapshot.day)))
    return found


def cart_cards(answered: AnsweredCart, public: bool) -> list[ItemCard]:
    bundle = answered.bundle
    return [
        ItemCard(
            rank,
            bundle.ids[line.code],
            bundle.names[line.code],
            bundle.path(line.code),
            line.grade,
            "",
            Markup(""),
            tuple((bundle.names[s.code], s.evidence.words(public=public)) for s in line.contributions[:3]),
        )
        for rank, line in enumerate(answered.lines, 1)
    ]


def drawn(evidence: PairEvidence, public: bool) -> Markup:
    """The ruler of a pair whose evidence counts."""
    return ruler(evidence) if evidence.grade in ("certain", "likely") and not public else Markup("")


@dataclass(frozen=True)
class PeerComparison:
    """An item among its peers."""

    sentence: str
    drawing: Markup


def popularity(bundle: LoadedBundle, code: int) -> PeerComparison | None:
    """How often it is bought, among the items of its category."""
    peers, who = _peers(bundle, code)
    count = np.asarray(bundle.index.item_count)
    if not count[code] or len(peers) < 2:
        return None
    less = float(np.mean(count[peers] < count[code]))
    sentence = f"In {plural(int(count[code]), 'basket')}: more often than {100 * less:.0f} % of {who}."
    picture = histogram(count[peers].astype(np.float64), float(count[code]), sentence, "seldom", "often")
    return PeerComparison(sentence, picture)


def spread(bundle: LoadedBundle, code: int) -> PeerComparison | None:
    """How varied the items are that it goes with: the variance that a Gaussian model learned, among its peers."""
    variance = bundle.index.variance
    peers, who = _peers(bundle, code)
    if variance is None or not bundle.count[code] or len(peers) < 2:
        return None
    less = float(np.mean(variance[peers] < variance[code]))
    kind = "goes with many different things" if less > 0.66 else "goes with few kinds of things" if less < 0.33 else ""
    sentence = f"Variance {show_number(variance[code])}: larger than that of {100 * less:.0f} % of {who}."
    sentence += f" It {kind}." if kind else ""
    picture = histogram(variance[peers].astype(np.float64), float(variance[code]), sentence, "narrow", "wide")
    return PeerComparison(sentence, picture)


def _peers(bundle: LoadedBundle, code: int) -> tuple[npt.NDArray[np.int64], str]:
    """Bought items of its category, or all bought items where these are few."""
    bought = np.asarray(bundle.index.item_count) > 0
    peers = np.flatnonzero(peers_of(bundle.index, code) & bought)
    if len(peers) >= MIN_PEERS:
        return peers, f"the {plural(len(peers), 'item')} in {bundle.path(code)[-1]}"
    everyone = np.flatnonzero(bought)
    return everyone, f"all {plural(len(everyone), 'item')}"


def best_sellers(bundle: LoadedBundle, count: int) -> list[dict[str, Any]]:
    """Items to begin with: often bought, and with an answer that has evidence."""
    found = []
    for code in np.argsort(-np.asarray(bundle.index.item_count), kind="stable")[: 40 * count].tolist():
        table = bundle.index.answers(code)
        if len(table) and (table.grade <= LIKELY).any():
            found.append(bundle.brief(code))
        if len(found) == count:
            break
    return found


def unanswered(bundle: LoadedBundle, count: int) -> tuple[int, list[dict[str, Any]]]:
    """How many bought items have no pair with evidence, and those of them that are bought most."""
    has_none = (np.diff(bundle.index.evident_pairs[0]) == 0) & (bundle.index.item_count > 0)
    codes = np.flatnonzero(has_none)
    best = codes[np.argsort(-bundle.index.item_count[codes], kind="stable")[:count]]
    return len(codes), [bundle.brief(code) for code in best.tolist()]


HEAT = 20
"""Categories of the heat map, those that sell most."""
SHADES = 5


@dataclass(frozen=True)
class HeatMap:
    """Categories x categories: pairs with evidence, and a shade from 0 (none) to SHADES for each cell."""

    names: list[str]
    pairs: list[list[int]]
    shades: list[list[int]]
    left_out: int
    """Categories that sell less."""


def heat_map(bundle: LoadedBundle) -> HeatMap | None:
    """Of the highest level; None without categories."""
    catalog, pairs = bundle.catalog, bundle.pairs
    if not catalog.levels or catalog.categories is None:
        return None
    code, names = catalog.categories[:, 0], catalog.category_names[0]
    sales = np.bincount(code[code >= 0], bundle.index.item_count[code >= 0], len(names))
    largest = np.argsort(-sales, kind="stable")[:HEAT]
    place = np.full(len(names) + 1, -1)  # the last one is for unknown, code -1
    place[largest] = np.arange(len(largest))
    one, other = place[code[pairs.one]], place[code[pairs.other]]
    known = (one >= 0) & (other >= 0)
    counts = np.bincount(one[known] * len(largest) + other[known], minlength=len(largest) ** 2)
    counts = counts.reshape(len(largest), len(largest))
    counts = counts + counts.T - np.diag(np.diag(counts))
    shades = np.ceil(SHADES * np.log1p(counts) / max(np.log1p(counts.max(initial=0)), 1e-9)).astype(int)
    left_out = len(names) - len(largest)
    return HeatMap([names[each] for each in largest.tolist()], counts.tolist(), shades.tolist(), left_out)


FIRST, SECOND = 8, 3
"""Complements of an item in its network, and of each of them."""


@dataclass(frozen=True)
class Network:
    """An item, its complements and theirs: drawn, and as a list."""

    drawing: Markup
    complements: list[tuple[ItemCard, list[ItemCard]]]


def network_of(snapshot: ServingSnapshot, bundle: LoadedBundle, code: int, public: bool) -> Network | None:
    """The network around an item; None where nothing with evidence goes with it."""

    def answers(query: int, count: int) -> list[AnswerLine]:
        found = goes_with(snapshot, bundle, query, Filters(k=count, min_evidence="likely"), exact=True)
        return [] if found is None else found.lines

    first = answers(code, FIRST)
    if not first:
        return None
    found_of = {line.code: answers(line.code, SECOND + 1) for line in first}
    second = {one: [line for line in found if line.code != code][:SECOND] for one, found in found_of.items()}
    inner = {line.code for line in first}
    outer = list(dict.fromkeys(line.code for lines in second.values() for line in lines if line.code not in inner))
    row_of = {other: float(row) for row, other in enumerate(outer)}
    rows = max(len(outer), len(first))
    nodes = [NetworkNode(bundle.ids[code], bundle.names[code], 0, (rows - 1) / 2)]
    nodes += [
        NetworkNode(bundle.ids[line.code], bundle.names[line.code], 1, (row + 0.5) * rows / len(first) - 0.5)
        for row, line in enumerate(first)
    ]
    nodes += [NetworkNode(bundle.ids[other], bundle.names[other], 2, row_of[other]) for other in outer]
    place = {other: number for number, other in enumerate([code, *(line.code for line in first), *outer])}
    lines: dict[tuple[int, int], NetworkLine] = {}
    for query, found in {code: first, **second}.items():
        for line in found:
            one, other = sorted((place[query], place[line.code]))
            lines.setdefault((one, other), NetworkLine(one, other, line_width(line.evidence, public)))
    listed = [
        (card, cards(bundle, second[line.code], public))
        for card, line in zip(cards(bundle, first, public), first, strict=True)
    ]
    label = f"What goes with {bundle.names[code]}, and what goes with that. The same as a list below."
    return Network(network(nodes, list(lines.values()), label), listed)


def covered(coverage: dict[str, dict[str, float]]) -> tuple[float, float]:
    """The share of items, and of sales, with an answer that has evidence."""
    good = [coverage[grade] for grade in ("certain", "likely") if grade in coverage]
    return sum(row["items"] for row in good), sum(row["sales"] for row in good)


ROWS = (
    ("certain", "certain"),
    ("likely", "likely"),
    ("guess", "guesses only"),
    ("none", "no answer"),
)

MEASURES = ("hr@10", "ndcg@10", "mrr")
MAX_TABLES = 12


@dataclass(frozen=True)
class QualityTable:
    """A table of the page."""

    title: str
    about: str
    columns: list[str]
    rows: list[list[str]]


def quality(snapshot: ServingSnapshot, public: bool) -> dict[str, Any]:
    """What the template shows; for the `public` no count, no share of sales and none of the report's tables."""
    main = snapshot.main
    manifest = main.index.manifest
    attachment = main.index.attachment or {}
    facts = [("Model", f"{main.name} ({manifest.kind})"), ("Bundle", main.version), ("Made", manifest.created)]
    facts += [("Serving table", table_words(main.index.recall, public))]
    facts += [("Evidence", main.index.pairs.words())]
    if not public:
        facts += [("Items", f"{manifest.items:,}"), ("Lines of training baskets", f"{manifest.lines:,}")]
    return {
        "coverage": {name: coverage_of(bundle, public) for name, bundle in snapshot.bundles.items()},
        "rows": ROWS,
        "boards": boards(attachment, public),
        "withheld": public and bool(attachment),
        "facts": facts,
    }


def coverage_of(bundle: LoadedBundle, public: bool) -> dict[str, dict[str, float]]:
    """For each grade the share of items whose best evidence has it, and of sales where these are not withheld."""
    coverage = bundle.index.coverage()
    return {grade: {"items": share["items"]} for grade, share in coverage.items()} if public else coverage


def boards(attachment: dict[str, Any], public: bool) -> list[QualityTable]:
    """The attached leaderboard and the tables of its report; what is not there is left out.

    Tables may hold any count, so the `public` sees none of them; the leaderboard's measures are shares.
    """
    found = [leaderboard(attachment["leaderboard"], public)] if "leaderboard" in attachment else []
    tables = [
        QualityTable(
            str(table["caption"]), "", [str(c) for c in table["columns"]], [[str(c) for c in r] for r in table["rows"]]
        )
        for table in attachment.get("tables", ())[:MAX_TABLES]
    ]
    return found if public else found + tables


def leaderboard(board: dict[str, Any], public: bool) -> QualityTable:
    """Every model on baskets that none of them saw, the best first, with 95 % intervals."""
    measures = [name for name in MEASURES if any(name in line["mean"] for line in board["models"])]
    rows = [
        [f"{line['name']} ({line['kind']})", *(_interval(line, name) for name in measures)] for line in board["models"]
    ]
    size = "" if public else f": {board['labels']:,} true pairs of {board['queries']:,} items"
    about = f"On baskets that no model saw{size}, candidates {board['candidates']}."
    about += " In brackets the 95 % interval over items."
    return QualityTable("Leaderboard", about, ["model", *(name.upper() for name in measures)], rows)


def _interval(line: dict[str, Any], measure: str) -> str:
    mean, low, high = (line[key].get(measure) for key in ("mean", "low", "high"))
    if mean is None:
        return "-"
    return f"{mean:.3f}" if low is None or high is None else f"{mean:.3f} ({low:.3f} to {high:.3f})"
