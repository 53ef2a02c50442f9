"""Plain records for the templates, made of answers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import islice
from typing import Any
from urllib.parse import parse_qsl, urlencode

import numpy as np
import numpy.typing as npt

from neatrec.service.rules import EVERY
from neatrec.service.snapshot import LoadedBundle, ServingSnapshot
from neatrec.serving import Answer, Evidence
from neatrec.serving.evidence import LIKELY_Q, PUBLIC, coincidence_words
from neatrec.serving.filters import LEVELS
from neatrec.text import show_number

TICKS = (1, 3, 10, 30, 100, 300)
WIDTH, LEFT = 208.0, 8.0
"""Of the ruler, in its own units."""
GRADE_NAMES = {
    "guess": "a guess",
    "chance": "no more than chance",
    "category": "by category",
    "rule": "the shop's choice",
}


def address(path: str, **fields: object) -> str:
    """A link into the page; true is 1, and None is left out."""
    given = {name: value for name, value in fields.items() if value is not None}
    query = urlencode(
        {name: int(value) if isinstance(value, bool) else value for name, value in given.items()},
        True,
    )
    return f"{path}?{query}" if query else path


def field_values(fields: dict[str, object]) -> list[tuple[str, str]]:
    """The values that a form sends for these fields."""
    return parse_qsl(address("", **fields)[1:])


def unbroken(text: str) -> str:
    r"""`text` for a page, where no line ends between a number and its per cent sign.

    >>> unbroken("at least 9x chance (95 %).")
    'at least 9x chance (95\xa0%).'
    """
    return re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", text)


def share(value: float) -> str:
    r"""A share as people read it.

    >>> share(0.256)
    '26\xa0%'
    """
    return unbroken(f"{100 * value:.0f} %")


def last_or(text: str) -> str:
    """A list with "or" before its last entry.

    >>> last_or("basket size, month, store")
    'basket size, month or store'
    """
    return " or ".join(text.rsplit(", ", 1))


def grade_name(grade: str, strength: str | None = None) -> str:
    """Both words of a pair: how sure, how strong.

    >>> grade_name("certain", "moderate"), grade_name("explained by store", None)
    ('certain, moderate', 'explained by store')
    """
    sure = GRADE_NAMES.get(grade, grade)
    return sure if strength is None else f"{sure}, {strength}"


def facts(bundle: LoadedBundle, evidence: Evidence) -> list[tuple[str, str]]:
    """The facts of a pair; the words of its coincidences claim no more than the strata allow."""
    found = dict(evidence.facts())
    if evidence.q <= 1:
        low = evidence.q <= LIKELY_Q
        words = (
            coincidence_words(evidence.q, bundle.index.pairs.strata) if low else share(evidence.q)
        )
        found[PUBLIC["q"].metadata["description"]] = words
    return list(found.items())


def ruler(evidence: Evidence) -> dict[str, Any] | None:
    """The 95 % interval of the lift on a ruler of times chance; None without evidence."""
    if evidence.grade not in ("certain", "likely"):
        return None
    low, high, middle = evidence.lift_low, evidence.lift_high, evidence.lift
    reach = next((tick for tick in (30, 100, 300, 1000, 10_000) if high <= tick), 100_000)
    return {
        "label": f"{middle:.1f} times chance, 95 % interval {low:.1f} to {high:.1f}",
        "ticks": [(tick, _along(tick, reach)) for tick in TICKS if tick <= reach],
        "start": _along(low, reach),
        "end": _along(high, reach),
        "point": _along(middle, reach),
    }


def _along(value: float, reach: float) -> float:
    """The position on a ruler to `reach`; left of 1x is space for intervals below chance."""
    share = math.log10(max(min(value, reach), 0.5) / 0.5) / math.log10(reach / 0.5)
    return round(LEFT + WIDTH * share, 1)


IN_TEMPLATES = {
    "address": address,
    "facts": facts,
    "ruler": ruler,
    "field_values": field_values,
    "grade_name": grade_name,
    "levels": {level: grade_name(level) for level in LEVELS},
    "same_category": {
        "": "as trained",
        "last": "after the others",
        "mix": "mixed with them",
        "exclude": "left out",
    },
    "sort_names": {
        "beyond": "most orders beyond chance",
        "revenue": "most revenue beyond chance",
        "strength": "strongest",
        "customers": "most customers",
        "sure": "surest",
        "new": "new ones only",
    },
}
FILTERS = {"number": show_number, "share": share, "last_or": last_or, "unbroken": unbroken}


def pair_rows(bundle: LoadedBundle, rows: npt.NDArray[np.int64]) -> list[dict[str, Any]]:
    """Pairs of the list as templates show them."""
    is_new = np.zeros(len(rows), bool) if bundle.pairs.is_new is None else bundle.pairs.is_new[rows]
    return [
        {"a": bundle.brief(a), "b": bundle.brief(b), "evidence": evidence, "is_new": new}
        for new, (a, b, evidence) in zip(is_new, bundle.pairs.evidence(rows), strict=True)
    ]


Card = dict[str, Any]


def cards(bundle: LoadedBundle, lines: Sequence[Answer]) -> list[Card]:
    """Answers as cards, with their evidence or the cart items that they go with."""
    return [
        {**bundle.brief(line.code), "rank": rank, "line": line}
        for rank, line in enumerate(lines, 1)
    ]


def rules_about(
    snapshot: ServingSnapshot, codes: set[int] | None, *, both: bool = False
) -> list[dict[str, Any]]:
    """The rules that name one of these items (None: any), or with `both` no item but these.

    They are in the order of the file; a `query` of None means every item.
    """
    bundle, rows = snapshot.bundle, []
    for number, rule in enumerate(snapshot.written.rules):
        texts = [rule.item] if rule.query == EVERY else [rule.item, rule.query]
        here = [codes is None or bundle.code(text) in codes for text in texts]
        if all(here) if both else any(here):
            items = [_brief(bundle, text) for text in texts]
            item, query = items if len(items) > 1 else (items[0], None)
            row = {"rule": rule, "number": number, "item": item, "query": query}
            rows.append({**row, "holds": rule.holds(snapshot.day)})
    return rows


def _brief(bundle: LoadedBundle, text: str) -> dict[str, Any]:
    """An item of a rule, which the bundle may not hold."""
    code = bundle.code(text)
    return {"id": text, "name": text, "category": []} if code is None else bundle.brief(code)


def best_sellers(bundle: LoadedBundle, count: int) -> list[dict[str, Any]]:
    """Items to begin with: often bought, and with an answer that has evidence."""
    often = np.argsort(-np.asarray(bundle.index.item_count), kind="stable")[: 40 * count].tolist()
    answered = (code for code in often if len(bundle.index.items_of(code)))
    return [bundle.brief(code) for code in islice(answered, count)]


def unanswered(bundle: LoadedBundle, count: int) -> tuple[int, list[dict[str, Any]]]:
    """The number of bought items without a pair with evidence, and the best sellers among them."""
    table = bundle.index
    has_none = table.item_count > 0
    has_none[table.pairs.one[table.pairs.evident]] = False
    has_none[table.pairs.other[table.pairs.evident]] = False
    codes = np.flatnonzero(has_none)
    best = codes[np.argsort(-bundle.index.item_count[codes], kind="stable")[:count]]
    return len(codes), [bundle.brief(code) for code in best.tolist()]


def covered(coverage: dict[str, dict[str, float]]) -> tuple[float, float]:
    """The share of items, and of sales, with an answer that has evidence."""
    good = [coverage[grade] for grade in ("certain", "likely") if grade in coverage]
    return sum(row["items"] for row in good), sum(row["sales"] for row in good)


ROWS = {"certain": "certain", "likely": "likely", "guess": "guesses only", "none": "no answer"}


def quality(bundle: LoadedBundle) -> dict[str, Any]:
    """The values of the page about quality."""
    manifest = bundle.index.manifest
    facts = {
        "Model": f"{bundle.name} ({manifest.kind})",
        "Bundle": bundle.version,
        "Made": manifest.created,
        "Evidence": bundle.index.pairs.words(),
        "Items": f"{manifest.items:,}",
        "Lines of training baskets": f"{manifest.lines:,}",
    }
    return {"coverage": bundle.index.coverage(), "rows": ROWS, "facts": facts}
