"""`recommend`: what goes with an item or completes a cart, each answer with its evidence.

One implementation for Python, the command line, the API, the page and exports. The pairs with
evidence of an item come from the table; guesses and carts are scored by the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from neatrec.data.catalog import UNKNOWN
from neatrec.errors import must_be
from neatrec.models.items import Item, find_items, in_categories
from neatrec.models.ranking import CartScores, best, score_cart
from neatrec.serving.answers import Answer, Answers, Contribution
from neatrec.serving.evidence import GRADES, GUESS, LIKELY, Evidence
from neatrec.serving.filters import Filters, Mask, Picker, ShopRules
from neatrec.serving.table import PairTable
from neatrec.text import plural, printable

Codes = npt.NDArray[np.int32]

NEW = "{} is in no training basket: its answers come from its category."
NO_OTHER = "No answer of another category has evidence;"

MEMBERS = 200
"""Best sellers of a category whose answers a new item gets."""


def recommend(
    bundle: str | Path | PairTable,
    items: Item | Sequence[Item],
    k: int = 10,
    *,
    min_evidence: str | None = None,
    category: str | Sequence[str] | None = None,
    exclude: Item | Sequence[Item] = (),
    same_category: str | None = None,
    diversify: bool = False,
    include_explained: bool = False,
    month: int | None = None,
) -> Answers:
    """The answers to an item, or to a cart of several.

    Parameters
    ----------
    bundle
        The path of a bundle, or its opened table.
    items
        Ids or names; several are a cart.
    k
        Number of answers.
    min_evidence
        `certain`, `likely` or `guess`. By default `likely`; an item that nobody has bought is
        answered from its category.
    category
        Only items of this category, or of any of several.
    exclude
        Ids or names of items that are no answers.
    same_category
        Place of answers of the question's own category: `last`, `exclude`, or `mix`; by default
        as trained.
    diversify
        At most one answer per category.
    include_explained
        Also list pairs that season, store or basket size explain.
    month
        List of those what is in season in this month, from 1.

    Examples
    --------
    >>> recommend("bundle", "Tortilla Chips").lines[0].evidence.words()  # doctest: +SKIP
    """
    table = bundle if isinstance(bundle, PairTable) else PairTable.open(bundle)
    filters = Filters(
        k=k,
        min_evidence=min_evidence,
        among=None if category is None else in_categories(table.catalog, category),
        exclude=tuple(find_items(table.catalog, exclude).tolist()),
        same_category=same_category,
        diversify=diversify,
        include_explained=include_explained,
        month=month,
    )
    cart = list(dict.fromkeys(find_items(table.catalog, items).tolist()))
    if not cart:
        raise must_be("items", "at least one item", items)
    return answers_to(table, cart, filters)


def answers_to(
    table: PairTable, cart: Sequence[int], filters: Filters, rules: ShopRules | None = None
) -> Answers:
    """`recommend` for codes, under the rules of a shop."""
    rules = ShopRules() if rules is None else rules
    picker = Picker(table, cart, filters, rules)
    if len(cart) == 1:
        lines, hits = _item_answers(picker, cart[0])
    else:
        lines, hits = _cart_answers(picker, cart), []
    hits = ["block"] * picker.block_hit + hits
    explained = None
    if filters.include_explained or filters.month is not None:
        explained = tuple(_explained(Picker(table, cart, filters, rules), cart))
    return Answers(
        table.catalog,
        tuple(cart),
        tuple(lines),
        filters.k,
        _notes(picker, cart, lines),
        explained,
        left_out=_left_out(picker, cart, filters.k - len(lines)),
        rule_hits=tuple(hits),
    )


def answers_from_category(
    table: PairTable, members: Mask, filters: Filters, rules: ShopRules | None = None
) -> Answers:
    """The answers to an item outside the table, from its category: `members`, shape (items,)."""
    picker = Picker(table, (), filters, ShopRules() if rules is None else rules)
    picker.own = {table.category[code] for code in np.flatnonzero(members).tolist()} - {UNKNOWN}
    lines = _of_category(picker, members, filters.k) if filters.by_category else []
    return Answers(table.catalog, (), tuple(lines), filters.k)


# ---- an item


def _item_answers(picker: Picker, code: int) -> tuple[list[Answer], list[str]]:
    """The answers to an item with the shop's pins and boosts, and the rules that changed them."""
    filters = picker.filters
    pins = _pins(picker, code)
    wanted, boosts = filters.k - len(pins), picker.rules.boosts(code)
    # an answer below the last one may move up to it
    k = wanted + max(boosts.values(), default=0)
    lines = _from_table(picker, code, k)
    if len(lines) < k and filters.level >= GUESS:
        lines += _guesses(picker, code, k - len(lines))
    if len(lines) < k and filters.by_category and picker.table.item_count[code] == 0:
        lines += _of_category(picker, _peers(picker.table, code), k - len(lines))
    moved = _boost(lines, boosts, wanted)
    lines = lines[:wanted]
    for position, line in pins:
        lines.insert(min(position - 1, len(lines)), line)
    return lines, ["pin"] * len(pins) + ["boost"] * moved


def _from_table(picker: Picker, code: int, k: int) -> list[Answer]:
    """The pairs of the table: those with evidence, then those bought together without."""
    table = picker.table
    rows = table.rows_of(code, picker.filters.level, picker.same_category)
    pairs = table.answers["pair"][rows]
    items = table.answers["item"][rows]
    taken = picker.take(items.tolist(), k)
    return _answers(table, code, items[taken], pairs[taken])


def _answers(
    table: PairTable, code: int, items: Codes, pairs: npt.NDArray[np.int64] | None = None
) -> list[Answer]:
    """The items with their evidence; `pairs`: their rows, where they are known."""
    evidence = table.evidence_of(np.full(len(items), code), items, pairs)
    return list(map(Answer, items.tolist(), evidence))


def _guesses(picker: Picker, code: int, k: int) -> list[Answer]:
    """The best items by the model beyond the table, of pairs that the counts do not refute."""
    table, allowed = picker.table, picker.mask()
    allowed[table.items_of(code, GUESS)] = False
    items, _ = table.guesses(code, allowed, _reach(picker, len(allowed)))
    items = items[_not_refuted(table, [code], items)]
    return _answers(table, code, items[picker.take(items.tolist(), k)])


def _reach(picker: Picker, items: int) -> int:
    """The number of scored items to look at: rules, counts and `diversify` may forbid some."""
    filters = picker.filters
    return items if filters.diversify else 4 * filters.k + len(picker.blocked)


def _pins(picker: Picker, code: int) -> list[tuple[int, Answer]]:
    pins = []
    for position, item in picker.rules.pinned.get(code, ()):
        if position <= picker.filters.k and picker.take([item], 1):
            evidence = replace(picker.table.evidence(code, item), grade="rule")
            pins.append((position, Answer(item, evidence)))
    return pins


def _boost(lines: list[Answer], boosts: Mapping[int, int], wanted: int) -> int:
    """Move boosted answers up, the first one first; the number of moves into the `wanted` first."""
    moved = 0
    for place, line in enumerate(list(lines)) if boosts else ():
        to = max(place - boosts.get(line.code, 0), 0)
        if to < place:
            lines.insert(to, lines.pop(place))
            moved += to < wanted
    return moved


def _peers(table: PairTable, code: int) -> Mask:
    """The items that share the deepest known category of an item, shape (items,)."""
    categories = table.catalog.categories
    row = categories[code] if categories is not None else np.zeros(0, dtype=np.int32)
    known = np.flatnonzero(row != UNKNOWN)
    if categories is None or not len(known):
        return np.zeros(len(table), dtype=np.bool_)
    peers: Mask = categories[:, known[-1]] == row[known[-1]]
    return peers


def _of_category(picker: Picker, members: Mask, k: int) -> list[Answer]:
    """Items of other categories that go with a category's best sellers, weighted by their sales."""
    table = picker.table
    count = np.where(members, table.item_count, 0)
    sellers = np.argsort(-count, kind="stable")[:MEMBERS]
    weight: dict[int, int] = {}
    for seller in sellers[count[sellers] > 0].tolist():
        for item in table.items_of(seller).tolist():
            if not picker.is_own(item):
                weight[item] = weight.get(item, 0) + int(count[seller])
    ordered = sorted(weight, key=lambda item: (-weight[item], item))
    return [
        Answer(item, Evidence(item_count=int(table.item_count[item]), grade="category"))
        for item in (ordered[place] for place in picker.take(ordered, k))
    ]


# ---- a cart


def _cart_answers(picker: Picker, cart: Sequence[int]) -> list[Answer]:
    """The answers to a cart: other categories by the model, then its own by their evidence."""
    k, how = picker.filters.k, picker.same_category
    lines = _scored_answers(picker, cart)
    if how == "exclude":
        return lines
    lines += _same_category_answers(picker, cart, k if how == "mix" else k - len(lines))
    if how == "mix":
        lines.sort(key=lambda line: _weakness(line.evidence))
    return lines[:k]


def _scored_answers(picker: Picker, cart: Sequence[int]) -> list[Answer]:
    table, filters = picker.table, picker.filters
    queries = [code for code in cart if table.item_count[code] or table.model.scores_unseen_items]
    candidates = np.flatnonzero(picker.mask()).astype(np.int32)
    if not queries or not len(candidates):
        return []
    scored = score_cart(table.model, np.array(queries, dtype=np.int32), candidates)
    if filters.level < GUESS:
        shown = np.zeros(len(table), dtype=np.bool_)
        for code in queries:
            shown[table.items_of(code, filters.level)] = True
    else:
        shown = np.ones(len(table), dtype=np.bool_)
        shown[table.explained_with(*queries)] = False
    kept = shown[scored.codes]
    codes, total = scored.codes[kept], scored.total[kept]
    ordered = codes[best(total, _reach(picker, len(codes)))]
    if filters.level >= GUESS:
        ordered = ordered[_not_refuted(table, queries, ordered)]
    chosen = ordered[picker.take(ordered.tolist(), filters.k)]
    return _with_contributions(table, queries, chosen, scored, filters.level)


def _not_refuted(table: PairTable, queries: list[int], codes: Codes) -> Mask:
    """Whether the counts leave it open that each of `codes` goes with some item of the cart."""
    pairs = np.tile(queries, len(codes)).astype(np.int32), np.repeat(codes, len(queries))
    grades = table.evidence_columns(*pairs)["grade"].reshape(len(codes), len(queries))
    return np.asarray((grades <= GUESS).any(axis=1))


def _with_contributions(
    table: PairTable, queries: list[int], codes: Codes, scored: CartScores, level: int
) -> list[Answer]:
    """Answers with the cart items that they go with, the largest contribution first.

    Contributions have evidence, or are above their median.
    """
    if not len(codes):
        return []
    parts = scored.parts(codes)
    pairs = np.tile(queries, len(codes)).astype(np.int32), np.repeat(codes, len(queries))
    evidence = table.evidence_of(*pairs)
    lines = []
    for row, code in enumerate(codes.tolist()):
        mine = evidence[row * len(queries) : (row + 1) * len(queries)]
        grades = np.array([_grade_number(one) for one in mine])
        order = np.argsort(-parts[row], kind="stable")
        good = order[(grades[order] <= level) & ((parts[row][order] > 0) | (grades[order] < GUESS))]
        # none is above the median: the best of them
        shown = good if len(good) else order[[np.argmin(grades[order])]]
        reasons = tuple(Contribution(queries[i], mine[i]) for i in shown.tolist())
        lines.append(Answer(code, min((one.evidence for one in reasons), key=_weakness), reasons))
    return lines


def _same_category_answers(picker: Picker, cart: Sequence[int], k: int) -> list[Answer]:
    """Items of the cart's own categories with evidence, the surest lift first."""
    table, level = picker.table, min(picker.filters.level, LIKELY)
    reasons: dict[int, list[Contribution]] = {}
    for query in cart:
        items = table.items_of(query, level)
        items = items[[picker.is_own(item) for item in items.tolist()]]
        for line in _answers(table, query, items):
            reasons.setdefault(line.code, []).append(Contribution(query, line.evidence))
    for found in reasons.values():
        found.sort(key=lambda one: _weakness(one.evidence))
    ordered = sorted(reasons, key=lambda item: _weakness(reasons[item][0].evidence))
    chosen = (ordered[place] for place in picker.take(ordered, k))
    return [Answer(item, reasons[item][0].evidence, tuple(reasons[item])) for item in chosen]


def _grade_number(evidence: Evidence) -> int:
    return GRADES.index(evidence.grade) if evidence.grade in GRADES else len(GRADES)


def _weakness(evidence: Evidence) -> tuple[int, float]:
    return _grade_number(evidence), -evidence.lift_low


# ---- what is not among the answers


def _explained(picker: Picker, cart: Sequence[int]) -> list[Answer]:
    """The items that strata explain with an item of the cart, the largest overall lift first."""
    table, month = picker.table, picker.filters.month
    found = []
    for query in cart:
        for line in _answers(table, query, table.explained_with(query)):
            if month is None or line.evidence.season >> (month - 1) & 1:
                why = (Contribution(query, line.evidence),) if len(cart) > 1 else ()
                found.append(replace(line, goes_with=why))
    found.sort(key=lambda line: -line.evidence.overall_lift)
    return [found[place] for place in picker.take((line.code for line in found), picker.filters.k)]


def _left_out(picker: Picker, cart: Sequence[int], room: int) -> int:
    """The number of pairs without the evidence asked for that would fill the list."""
    table, level = picker.table, picker.filters.level
    if room <= 0 or level >= GUESS:
        return 0
    weaker = {item for code in cart for item in table.items_of(code, GUESS).tolist()}
    kept = (item for item in weaker if not (picker.is_own(item) or item in picker.blocked))
    return len(picker.take(kept, room))


def _notes(picker: Picker, cart: Sequence[int], lines: Sequence[Answer]) -> tuple[str, ...]:
    """Sentences on new items, and on what the categories of the cart do to its answers."""
    table, level = picker.table, min(picker.filters.level, LIKELY)
    notes = [NEW.format(printable(table.catalog.name(i))) for i in cart if not table.item_count[i]]
    partners = {item for code in cart for item in table.items_of(code, level).tolist()}
    others = partners - set(cart)
    own = [item for item in others if picker.is_own(item) and picker.allows(item)]
    if picker.same_category == "exclude":
        if own and len(lines) < picker.filters.k:
            whose = "item's own category" if len(cart) == 1 else "cart's own categories"
            number = f"{plural(len(own), 'answer')} with evidence of the {whose} left out."
            notes.append(number if lines else f"{NO_OTHER} {number}")
    elif len(cart) > 1 and lines and all(picker.is_own(line.code) for line in lines):
        notes.append("Every answer is of the cart's own categories.")
    elif len(cart) > 1 and partners and not others:
        notes.append("The items that go with these are in the cart already.")
    return tuple(notes)
