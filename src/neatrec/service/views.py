"""Plain records for the templates, made of answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any
from urllib.parse import parse_qsl, urlencode

import numpy as np
import numpy.typing as npt

from neatrec.service.answers import goes_with
from neatrec.service.drawings import histogram, line_width, network_path, network_point, ruler
from neatrec.service.loaded_bundle import LoadedBundle
from neatrec.service.rules import EVERY
from neatrec.service.rules_file import words_of
from neatrec.service.schemas import Filters
from neatrec.service.settings import MAX_K
from neatrec.service.snapshot import ServingSnapshot
from neatrec.serving import PairEvidence, table_words
from neatrec.serving.answers import LEVELS, CartLine, peers_of
from neatrec.serving.evidence import LIKELY, coincidence_words
from neatrec.serving.table import AnswerLine
from neatrec.text import plural, show_number

MIN_PEERS = 8
"""Where a category has fewer items than this, an item is compared with all items."""
GRADE_NAMES = {"guess": "a guess", "category": "by category", "rule": "the shop's choice"}


def address(path: str, **fields: object) -> str:
    """A link into the page; what is true is 1, what is None is left out."""
    given = {name: value for name, value in fields.items() if value is not None}
    query = urlencode({name: int(value) if isinstance(value, bool) else value for name, value in given.items()}, True)
    return f"{path}?{query}" if query else path


def field_values(fields: dict[str, object]) -> list[tuple[str, str]]:
    """What a form sends for these fields: what a link to them holds."""
    return parse_qsl(address("", **fields)[1:])


def unbroken(text: str) -> str:
    """`text` for a page, where no line ends between a number and its per cent sign.

    >>> unbroken("at least 9x chance (95 %).")
    'at least 9x chance (95\\xa0%).'
    """
    return re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", text)


def grade_name(grade: str, strength: str | None = None) -> str:
    """Both words of a pair: how sure, how strong.

    >>> grade_name("certain", "moderate"), grade_name("explained by store", None)
    ('certain, moderate', 'explained by store')
    """
    sure = GRADE_NAMES.get(grade, grade)
    return sure if strength is None else f"{sure}, {strength}"


def coincidences(bundle: LoadedBundle, evidence: PairEvidence) -> str | None:
    return coincidence_words(evidence.q, bundle.index.pairs.strata) if evidence.q < 1 else None


def drawn(evidence: PairEvidence, public: bool) -> dict[str, Any] | None:
    """The ruler of a pair whose evidence counts."""
    return ruler(evidence) if evidence.grade in ("certain", "likely") and not public else None


IN_TEMPLATES = {
    "address": address,
    "coincidences": coincidences,
    "drawn": drawn,
    "field_values": field_values,
    "goal_names": {"balanced": "balanced", "lift": "highest lift", "evidence": "most certain"},
    "grade_name": grade_name,
    "levels": {level: grade_name(level) for level in LEVELS},
    "sort_names": {"strength": "strongest", "customers": "most customers", "sure": "surest", "new": "new ones only"},
}
FILTERS = {"number": show_number, "share": lambda value: unbroken(f"{100 * value:.0f} %"), "unbroken": unbroken}


def pair_rows(bundle: LoadedBundle, rows: npt.NDArray[np.int64]) -> list[dict[str, Any]]:
    is_new = np.zeros(len(rows), bool) if bundle.pairs.is_new is None else bundle.pairs.is_new[rows]
    return [
        {"a": bundle.brief(a), "b": bundle.brief(b), "evidence": evidence, "is_new": new}
        for new, (a, b, evidence) in zip(is_new, bundle.pairs.evidence(rows), strict=True)
    ]


Card = dict[str, Any]


def cards(bundle: LoadedBundle, lines: Sequence[AnswerLine | CartLine]) -> list[Card]:
    """Answers as cards: to an item with their evidence, to a cart with the items that they go with."""
    return [
        {**bundle.brief(line.code), "rank": rank, "line": line, "hidden": False} for rank, line in enumerate(lines, 1)
    ]


def with_hidden(
    shown: list[Card], snapshot: ServingSnapshot, bundle: LoadedBundle, code: int, filters: Filters
) -> list[Card]:
    """The cards of the answers to an item, and those that rules hide, where they would stand."""
    rules = snapshot.rules[bundle.name]
    hidden = rules.hidden(code)
    if not hidden:
        return shown
    unruled = replace(snapshot, rules={bundle.name: rules.without_blocks()})
    most = filters.model_copy(update={"k": min(filters.k + len(hidden), MAX_K)})
    answered = goes_with(unruled, bundle, code, most)
    found, before = list(shown), 0
    for line in answered.lines:
        if line.code not in hidden:
            before += 1
        elif before <= len(shown):
            place = before + len(found) - len(shown)
            found.insert(place, {**cards(bundle, [line])[0], "hidden": True})
    return found


def rules_about(
    snapshot: ServingSnapshot, bundle: LoadedBundle, codes: set[int] | None, *, both: bool = False
) -> list[dict[str, Any]]:
    """The rules that name one of these items (`both`: no item but these), None: all; in the order of the file.

    A `query` of None: every item.
    """

    def brief(text: str) -> dict[str, Any]:
        code = bundle.code(text)
        return {"id": text, "name": text, "category": []} if code is None else bundle.brief(code)

    found = []
    for rule in snapshot.written.rules:
        texts = [rule.item] if rule.query == EVERY else [rule.item, rule.query]
        here = [codes is None or bundle.code(text) in codes for text in texts]
        if all(here) if both else any(here):
            item, query = brief(rule.item), None if rule.query == EVERY else brief(rule.query)
            words, holds = words_of(rule), rule.holds(snapshot.day)
            found.append({"rule": rule, "query": query, "item": item, "words": words, "holds": holds})
    return found


def popularity(bundle: LoadedBundle, code: int) -> dict[str, Any] | None:
    """How often an item is bought, among the items of its category."""
    count = np.asarray(bundle.index.item_count)
    compared = _among_peers(bundle, code, count)
    if compared is not None:
        compared["sentence"] = f"In {plural(int(count[code]), 'basket')}: more often than {compared['sentence']}."
    return compared


def spread(bundle: LoadedBundle, code: int) -> dict[str, Any] | None:
    """How varied the items are that it goes with: the variance that a Gaussian model learned, among its peers."""
    variance = bundle.index.variance
    compared = None if variance is None else _among_peers(bundle, code, variance)
    if variance is None or compared is None:
        return None
    less = compared["less"]
    kind = " It goes with many different things." if less > 0.66 else " It goes with few kinds of things."
    sentence = f"Variance {show_number(variance[code])}: larger than that of {compared['sentence']}."
    return {**compared, "sentence": sentence + (kind if less > 0.66 or less < 0.33 else "")}


def _among_peers(bundle: LoadedBundle, code: int, values: npt.NDArray[Any]) -> dict[str, Any] | None:
    """A value of a bought item among those of its category, or of all bought items where these are few."""
    bought = np.asarray(bundle.index.item_count) > 0
    peers = np.flatnonzero(peers_of(bundle.index, code) & bought)
    if len(peers) >= MIN_PEERS:
        who = f"the {plural(len(peers), 'item')} in {bundle.path(code)[-1]}"
    else:
        peers = np.flatnonzero(bought)
        who = f"all {plural(len(peers), 'item')}"
    if not bought[code] or len(peers) < 2:
        return None
    less = float(np.mean(values[peers] < values[code]))
    drawing = histogram(values[peers].astype(np.float64), float(values[code]))
    return {"less": less, "sentence": f"{100 * less:.0f} % of {who}", "drawn": drawing}


def best_sellers(bundle: LoadedBundle, count: int) -> list[dict[str, Any]]:
    """Items to begin with: often bought, and with an answer that has evidence."""
    often = np.argsort(-np.asarray(bundle.index.item_count), kind="stable")[: 40 * count].tolist()
    answered = (code for code in often if (bundle.index.answers(code).grade <= LIKELY).any())
    return [bundle.brief(code) for code in islice(answered, count)]


def unanswered(bundle: LoadedBundle, count: int) -> tuple[int, list[dict[str, Any]]]:
    """How many bought items have no pair with evidence, and those of them that are bought most."""
    has_none = (np.diff(bundle.index.evident_pairs[0]) == 0) & (bundle.index.item_count > 0)
    codes = np.flatnonzero(has_none)
    best = codes[np.argsort(-bundle.index.item_count[codes], kind="stable")[:count]]
    return len(codes), [bundle.brief(code) for code in best.tolist()]


HEAT = 20
"""Categories of the heat map, those that sell most."""
SHADES = 5


def heat_map(bundle: LoadedBundle) -> dict[str, Any] | None:
    """Categories of the highest level x the same: pairs with evidence, and a shade from 0 (none) to SHADES for each
    cell. `left_out`: categories that sell less. None without categories."""
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
    shown, left_out = [names[each] for each in largest.tolist()], len(names) - len(largest)
    return {"names": shown, "pairs": counts.tolist(), "shades": shades.tolist(), "left_out": left_out}


FIRST, SECOND = 8, 3
"""Complements of an item in its network, and of each of them."""


def network_of(snapshot: ServingSnapshot, bundle: LoadedBundle, code: int, public: bool) -> dict[str, Any] | None:
    """An item, its complements and theirs: as a list, and where they are drawn. None where nothing goes with it."""

    def answers(query: int, count: int) -> list[AnswerLine]:
        return goes_with(snapshot, bundle, query, Filters(k=count, min_evidence="likely")).lines

    first = answers(code, FIRST)
    if not first:
        return None
    found_of = {line.code: answers(line.code, SECOND + 1) for line in first}
    second = {one: [line for line in found if line.code != code][:SECOND] for one, found in found_of.items()}
    outer = list(dict.fromkeys(line.code for lines in second.values() for line in lines if line.code not in second))
    rows = max(len(outer), len(first))
    at = {code: network_point(0, (rows - 1) / 2)}
    at |= {one: network_point(1, (row + 0.5) * rows / len(first) - 0.5) for row, one in enumerate(second)}
    at |= {other: network_point(2, row) for row, other in enumerate(outer)}
    order = list(at)
    lines: dict[tuple[int, ...], tuple[str, float]] = {}
    for query, found in {code: first, **second}.items():
        for line in found:
            one, other = pair = tuple(sorted((query, line.code), key=order.index))
            lines.setdefault(pair, (network_path(at[one], at[other]), line_width(line.evidence, public)))
    theirs = (cards(bundle, found) for found in second.values())
    return {
        "complements": list(zip(cards(bundle, first), theirs, strict=True)),
        "nodes": [(bundle.brief(item), point) for item, point in at.items()],
        "lines": list(lines.values()),
        "height": network_point(0, rows)[1],
    }


def covered(coverage: dict[str, dict[str, float]]) -> tuple[float, float]:
    """The share of items, and of sales, with an answer that has evidence."""
    good = [coverage[grade] for grade in ("certain", "likely") if grade in coverage]
    return sum(row["items"] for row in good), sum(row["sales"] for row in good)


ROWS = {"certain": "certain", "likely": "likely", "guess": "guesses only", "none": "no answer"}
MEASURES = ("hr@10", "ndcg@10", "mrr")
MAX_TABLES = 12


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


def boards(attachment: dict[str, Any], public: bool) -> list[dict[str, Any]]:
    """The attached leaderboard and the tables of its report; what is not there is left out.

    Tables may hold any count, so the `public` sees none of them; the leaderboard's measures are shares.
    """
    found = [leaderboard(attachment["leaderboard"], public)] if "leaderboard" in attachment else []
    tables = [{**table, "title": table["caption"], "about": ""} for table in attachment.get("tables", ())[:MAX_TABLES]]
    return found if public else found + tables


def leaderboard(board: dict[str, Any], public: bool) -> dict[str, Any]:
    """Every model on baskets that none of them saw, the best first, with 95 % intervals."""
    measures = [name for name in MEASURES if any(name in line["mean"] for line in board["models"])]
    rows = [
        [f"{line['name']} ({line['kind']})", *(_interval(line, name) for name in measures)] for line in board["models"]
    ]
    size = "" if public else f": {board['labels']:,} true pairs of {board['queries']:,} items"
    about = f"On baskets that no model saw{size}, candidates {board['candidates']}."
    about += " In brackets the 95 % interval over items."
    columns = ["model", *(name.upper() for name in measures)]
    return {"title": "Leaderboard", "about": about, "columns": columns, "rows": rows}


def _interval(line: dict[str, Any], measure: str) -> str:
    mean, low, high = (line[key].get(measure) for key in ("mean", "low", "high"))
    if mean is None:
        return "-"
    return f"{mean:.3f}" if low is None or high is None else f"{mean:.3f} ({low:.3f} to {high:.3f})"
