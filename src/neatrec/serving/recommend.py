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
from neatrec.models.ranking import CartScores, best, score_allowed
from neatrec.serving.answers import Answer, Answers, Contribution
from neatrec.serving.evidence import GRADES, GUESS, LIKELY, Evidence
from neatrec.serving.filters import Filters, Mask, Question, ShopRules
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
        Ids or names of items; several form a cart.
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
        Position of answers from the query's own category: `last`, `exclude`, or `mix`; by default
        as trained.
    diversify
        At most one answer per category.
    include_explained
        Also list pairs that season, store or basket size explain.
    month
        List only pairs in season in this month, from 1.

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
    question = Question(table, cart, filters, rules)
    lines, hits = _item_answers(question) if len(cart) == 1 else (_cart_answers(question), [])
    hits = ["block"] * question.block_hit + hits
    explained = None
    if filters.include_explained or filters.month is not None:
        explained = _explained(Question(table, cart, filters, rules))
    return Answers(
        table.catalog,
        tuple(cart),
        tuple(lines),
        filters.k,
        _notes(question, lines),
        explained,
        left_out=_left_out(question, filters.k - len(lines)),
        rule_hits=tuple(hits),
    )


def answers_from_category(
    table: PairTable, members: Mask, filters: Filters, rules: ShopRules | None = None
) -> Answers:
    """The answers to an item outside the table, from its category: `members`, shape (items,)."""
    question = Question(table, (), filters, rules)
    question.own = question.category[members]
    lines = _of_category(question, members, filters.k) if filters.by_category else []
    return Answers(table.catalog, (), tuple(lines), filters.k)


# ---- an item


def _item_answers(question: Question) -> tuple[list[Answer], list[str]]:
    """The answers to an item with the shop's pins and boosts, and the rules that changed them.

    First the pairs of the table: those with evidence, then those bought together without.
    """
    table, filters, (code,) = question.table, question.filters, question.cart
    pins = _pins(question, code)
    wanted, boosts = filters.k - len(pins), question.rules.boosts(code)
    # an answer below the last one may move up to it
    k = wanted + max(boosts.values(), default=0)
    rows = table.rows_of(code, filters.level, question.same_category)
    rows = rows[question.pick(table.answers["item"][rows], k)]
    lines = _answers(table, code, table.answers["item"][rows], table.answers["pair"][rows])
    if len(lines) < k and filters.level >= GUESS:
        lines += _answers(table, code, _best_by_model(question, k - len(lines))[0])
    if len(lines) < k and filters.by_category and table.item_count[code] == 0:
        lines += _of_category(question, _peers(table, code), k - len(lines))
    moved = _boost(lines, boosts, wanted)
    lines = lines[:wanted]
    for position, line in pins:
        lines.insert(min(position - 1, len(lines)), line)
    return lines, ["pin"] * len(pins) + ["boost"] * moved


def _answers(
    table: PairTable, code: int, items: Codes, pairs: npt.NDArray[np.int64] | None = None
) -> list[Answer]:
    """The items with their evidence; `pairs`: their rows, where they are known."""
    evidence = table.evidence_of(np.full(len(items), code), items, pairs)
    return list(map(Answer, items.tolist(), evidence))


def _pins(question: Question, code: int) -> list[tuple[int, Answer]]:
    pins = []
    for position, item in question.rules.pinned.get(code, ()):
        if position <= question.filters.k and len(question.pick(np.array([item]), 1)):
            evidence = replace(question.table.evidence(code, item), grade="rule")
            pins.append((position, Answer(item, evidence)))
    return pins


def _boost(lines: list[Answer], boosts: Mapping[int, int], wanted: int) -> int:
    """Move boosted answers up, the first one first; the number of moves into the `wanted` first."""
    moved = 0
    for position, line in enumerate(list(lines)) if boosts else ():
        to = max(position - boosts.get(line.code, 0), 0)
        if to < position:
            lines.insert(to, lines.pop(position))
            moved += to < wanted
    return moved


def _peers(table: PairTable, code: int) -> Mask:
    """The items that share the deepest known category of an item, shape (items,)."""
    categories = table.catalog.categories
    peers: Mask = np.zeros(len(table), dtype=np.bool_)
    if categories is not None and (categories[code] != UNKNOWN).any():
        level = np.flatnonzero(categories[code] != UNKNOWN)[-1]
        peers = categories[:, level] == categories[code, level]
    return peers


def _of_category(question: Question, members: Mask, k: int) -> list[Answer]:
    """Items of other categories that go with a category's best sellers, weighted by their sales."""
    table = question.table
    count = np.where(members, table.item_count, 0)
    sellers = np.argsort(-count, kind="stable")[:MEMBERS]
    weight = np.zeros(len(table), dtype=np.int64)
    for seller in sellers[count[sellers] > 0].tolist():
        weight[table.items_of(seller)] += count[seller]
    items = np.flatnonzero(weight).astype(np.int32)
    items = items[~question.is_own(items)]
    items = items[np.argsort(-weight[items], kind="stable")]
    return [
        Answer(item, Evidence(item_count=int(table.item_count[item]), grade="category"))
        for item in items[question.pick(items, k)].tolist()
    ]


# ---- by the model


def _best_by_model(question: Question, k: int) -> tuple[Codes, Codes, CartScores]:
    """The best items by the model, the items asked for that it scores, and its scores.

    Below the level `guess` only items with evidence are answers, else all whose pairs neither the
    counts nor the strata refute.
    """
    table, filters = question.table, question.filters
    cart = np.array(question.cart, dtype=np.int32)
    queries, scored = score_allowed(table.model, cart, question.scorable())
    shown = np.full(len(table), filters.level >= GUESS)
    if filters.level >= GUESS:
        shown[table.explained_with(*queries.tolist())] = False
    else:
        for query in queries.tolist():
            shown[table.items_of(query, filters.level)] = True
    kept = np.flatnonzero(shown[scored.codes])
    # rules, counts and `diversify` may forbid some
    reach = len(kept) if filters.diversify else 4 * filters.k + int(question.blocked.sum())
    codes = scored.codes[kept[best(scored.total[kept], reach)]]
    if filters.level >= GUESS:
        pairs = np.tile(queries, len(codes)), np.repeat(codes, len(queries))
        grades = table.pairs.of_pairs(*pairs)["grade"].reshape(len(codes), len(queries))
        codes = codes[(grades <= GUESS).any(axis=1)]
    return codes[question.pick(codes, k)], queries, scored


def _cart_answers(question: Question) -> list[Answer]:
    """The answers to a cart: other categories by the model, then its own by their evidence."""
    k, how = question.filters.k, question.same_category
    lines = _with_contributions(question, *_best_by_model(question, k))
    if how == "exclude":
        return lines
    lines += _same_category_answers(question, k if how == "mix" else k - len(lines))
    if how == "mix":
        lines.sort(key=lambda line: _weakness(line.evidence))
    return lines[:k]


def _with_contributions(
    question: Question, codes: Codes, queries: Codes, scored: CartScores
) -> list[Answer]:
    """Answers with the cart items that they go with, the largest contribution first.

    Contributions have evidence, or are above their median.
    """
    if not len(codes):
        return []
    table, parts = question.table, scored.parts(codes)
    evidence = table.evidence_of(np.tile(queries, len(codes)), np.repeat(codes, len(queries)))
    lines = []
    for row, code in enumerate(codes.tolist()):
        mine = evidence[row * len(queries) : (row + 1) * len(queries)]
        grades = np.array([_grade_number(one) for one in mine])
        order = np.argsort(-parts[row], kind="stable")
        good = (grades <= question.filters.level) & ((parts[row] > 0) | (grades < GUESS))
        # none is above the median: the best of them
        shown = order[good[order]] if good.any() else order[[np.argmin(grades[order])]]
        reasons = tuple(Contribution(int(queries[i]), mine[i]) for i in shown.tolist())
        lines.append(Answer(code, min((one.evidence for one in reasons), key=_weakness), reasons))
    return lines


def _same_category_answers(question: Question, k: int) -> list[Answer]:
    """Items of the cart's own categories with evidence, the surest lift first."""
    table, level = question.table, min(question.filters.level, LIKELY)
    reasons: dict[int, list[Contribution]] = {}
    for query in question.cart:
        items = table.items_of(query, level)
        for line in _answers(table, query, items[question.is_own(items)]):
            reasons.setdefault(line.code, []).append(Contribution(query, line.evidence))
    lines = []
    for item, why in reasons.items():
        why.sort(key=lambda one: _weakness(one.evidence))
        lines.append(Answer(item, why[0].evidence, tuple(why)))
    lines.sort(key=lambda line: _weakness(line.evidence))
    return _picked(question, lines, k)


def _picked(question: Question, lines: list[Answer], k: int) -> list[Answer]:
    """The first `k` lines that may be answers, of each item the first line."""
    first = {line.code: line for line in reversed(lines)}
    codes = np.array(list(dict.fromkeys(line.code for line in lines)), dtype=np.int32)
    return [first[code] for code in codes[question.pick(codes, k)].tolist()]


def _grade_number(evidence: Evidence) -> int:
    return GRADES.index(evidence.grade) if evidence.grade in GRADES else len(GRADES)


def _weakness(evidence: Evidence) -> tuple[int, float]:
    return _grade_number(evidence), -evidence.lift_low


# ---- what is not among the answers


def _explained(question: Question) -> tuple[Answer, ...]:
    """The items that strata explain with an item of the cart, the largest overall lift first."""
    table, month = question.table, question.filters.month
    lines = []
    for query in question.cart:
        for line in _answers(table, query, table.explained_with(query)):
            if month is None or line.evidence.season >> (month - 1) & 1:
                why = (Contribution(query, line.evidence),) if len(question.cart) > 1 else ()
                lines.append(replace(line, goes_with=why))
    lines.sort(key=lambda line: -line.evidence.overall_lift)
    return tuple(_picked(question, lines, question.filters.k))


def _left_out(question: Question, room: int) -> int:
    """The number of pairs without the evidence asked for that would fill the list."""
    if room <= 0 or question.filters.level >= GUESS:
        return 0
    items = _partners(question, GUESS)
    return len(question.pick(items[~question.is_own(items)], room))


def _partners(question: Question, level: int) -> Codes:
    """The items that go with any item of the cart."""
    parts = [question.table.items_of(code, level) for code in question.cart]
    items: Codes = np.unique(np.concatenate(parts))
    return items


def _notes(question: Question, lines: Sequence[Answer]) -> tuple[str, ...]:
    """Sentences on new items, and on the effect of the cart's categories on its answers."""
    table, cart = question.table, question.cart
    notes = [NEW.format(printable(table.catalog.name(i))) for i in cart if not table.item_count[i]]
    partners = _partners(question, min(question.filters.level, LIKELY))
    if question.same_category == "exclude":
        own = partners[question.is_own(partners)]
        number = int((question.allowed & ~question.blocked)[own].sum())
        if number and len(lines) < question.filters.k:
            whose = "item's own category" if len(cart) == 1 else "cart's own categories"
            words = f"{plural(number, 'answer')} with evidence of the {whose} left out."
            notes.append(words if lines else f"{NO_OTHER} {words}")
    elif len(cart) > 1 and lines and question.is_own(np.array([one.code for one in lines])).all():
        notes.append("Every answer is of the cart's own categories.")
    elif len(cart) > 1 and len(partners) and np.isin(partners, cart).all():
        notes.append("The items that go with these are in the cart already.")
    return tuple(notes)
