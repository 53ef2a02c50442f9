"""Answers of the service: those of `serving.answers` under the shop's rules, with pins and notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np

from neatrec.service.loaded_bundle import LoadedBundle
from neatrec.service.rules import CompiledRules, filter_of
from neatrec.service.schemas import CartQuery, Filters, ItemFilters
from neatrec.service.snapshot import ServingSnapshot
from neatrec.serving.answers import (
    AnswerFilter,
    CartAnswers,
    CartLine,
    answer_item,
    explained_answers,
    from_category,
    level_of,
    new_note,
)
from neatrec.serving.query import CART_NOTE
from neatrec.serving.table import AnswerLine
from neatrec.text import printable

Line = TypeVar("Line", AnswerLine, CartLine)


@dataclass(frozen=True, slots=True)
class Answered(Generic[Line]):
    """The answers to one query."""

    bundle: LoadedBundle
    lines: list[Line]
    notes: list[str]
    k: int
    """How many were asked for."""
    rule_hits: tuple[str, ...] = ()
    """Rules that changed the answer: block, pin, boost."""
    cart: Sequence[int] = ()
    explained: list[AnswerLine] | None = None
    """On request: pairs that season, store or basket size explain."""


def goes_with(
    snapshot: ServingSnapshot, bundle: LoadedBundle, code: int, filters: Filters, *, exact: bool = True
) -> Answered[AnswerLine]:
    """What goes with an item. Unless `exact`: by the table alone, or `TableUsedUp`."""
    if filters.include_new and exact:
        bundle.check_new_items()
    rules = snapshot.rules[bundle.name]
    item_filter = filter_of(bundle, rules, filters, [code])
    bundle = bundle.with_goal(filters.goal)
    pins = _pins(bundle, rules, code, filters.k, item_filter)
    wanted, level = filters.k - len(pins), level_of(filters.min_evidence)
    new, boosts = filters.include_new, rules.boosts(code)
    most = wanted + max(boosts.values(), default=0)  # an answer below the last one may move up to it
    lines = answer_item(bundle.index, code, most, level, item_filter, include_new=new, exact=exact)
    moved = _boost(lines, boosts, wanted)
    lines = lines[:wanted]
    for position, line in pins:
        lines.insert(min(position - 1, len(lines)), line)
    hits = (("block",) if item_filter.block_hit else ()) + ("pin",) * len(pins) + ("boost",) * moved
    notes = [] if bundle.count[code] else [new_note(bundle.index, code)]
    return Answered(bundle, lines, notes, filters.k, hits)


def explained_by(
    bundle: LoadedBundle, rules: CompiledRules, code: int, filters: ItemFilters
) -> list[AnswerLine] | None:
    """The items that season, store or basket size explain, under the same filters; None where nobody asks for them."""
    if filters.include is None and filters.month is None:
        return None
    item_filter = filter_of(bundle, rules, filters, [code])
    bundle = bundle.with_goal(filters.goal)
    return [line for _, line in explained_answers(bundle.index, [code], filters.month, filters.k, item_filter)]


def for_new_item(
    snapshot: ServingSnapshot, bundle: LoadedBundle, category: str, filters: Filters
) -> Answered[AnswerLine]:
    """What goes with an item that the bundle does not hold, from the category that the caller gives it."""
    members = bundle.in_category(category)
    item_filter = filter_of(bundle, snapshot.rules[bundle.name], filters, [])
    item_filter.own = bundle.same_category(np.flatnonzero(members).tolist())
    bundle = bundle.with_goal(filters.goal)
    note = f"A new item: answered from its category, {printable(category)}."
    if filters.min_evidence not in (None, "category"):
        return Answered(bundle, [], [note], filters.k)
    return Answered(bundle, from_category(bundle.index, members, filters.k, item_filter), [note], filters.k)


def _pins(
    bundle: LoadedBundle, rules: CompiledRules, code: int, k: int, item_filter: AnswerFilter
) -> list[tuple[int, AnswerLine]]:
    pins = []
    for position, item in rules.pinned.get(code, ()):
        if position <= k and item_filter.passes(item, pinned=True):
            item_filter.take(item)
            evidence = replace(bundle.index.evidence(code, item), grade="rule")
            pins.append((position, AnswerLine(item, None, evidence)))
    return pins


def _boost(lines: list[AnswerLine], boosts: Mapping[int, int], wanted: int) -> int:
    """Move the answers that the shop boosts up, the first one first; returns how many moved among those wanted."""
    moved = 0
    for place, line in enumerate(list(lines)) if boosts else ():
        to = max(place - boosts.get(line.code, 0), 0)
        if to < place:
            lines.insert(to, lines.pop(place))
            moved += to < wanted
    return moved


def completes(snapshot: ServingSnapshot, bundle: LoadedBundle, query: CartQuery) -> Answered[CartLine]:
    """What goes with a cart; items of the cart and of its categories are left out, as are the shop's blocks."""
    held = {item: bundle.code(item) for item in query.items}
    cart = list(dict.fromkeys(code for code in held.values() if code is not None))
    if not cart:
        bundle.known(query.items[0])
    unknown = [item for item, code in held.items() if code is None]
    notes = [f"{printable(item, 60)} is not in the bundle and was left out." for item in unknown[:5]]
    notes += [
        f"{printable(bundle.names[code], 60)} is in no training basket." for code in cart if not bundle.count[code]
    ]
    if query.include_new:
        bundle.check_new_items()
    item_filter = filter_of(bundle, snapshot.rules[bundle.name], query, cart)
    bundle = bundle.with_goal(query.goal)
    if query.goal is not None and bundle.index.model.ranks_as_cart(cart):
        notes.append(CART_NOTE)
    level = level_of(query.min_evidence)
    scored = CartAnswers(bundle.index, cart, item_filter, include_new=query.include_new)
    lines = scored.lines(query.k, level, item_filter)
    return Answered(bundle, lines, notes, query.k, ("block",) if item_filter.block_hit else (), cart)
