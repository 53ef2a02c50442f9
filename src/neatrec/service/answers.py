"""What goes with an item, or completes a cart.

An item: by the table, by exact scores where filters used it up, by its category if it is new. A cart: by the exact
scores of the model (`Model.score_cart`), each answer with the items that contribute to it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from neatrec.data.catalog import UNKNOWN
from neatrec.service.loaded_bundle import LoadedBundle
from neatrec.service.rules import CompiledRules, ItemFilter
from neatrec.service.schemas import LEVELS, CartQuery, Filters, ItemFilters
from neatrec.service.snapshot import ServingSnapshot
from neatrec.serving import ItemAnswers, PairEvidence, best
from neatrec.serving.evidence import GUESS, LIKELY
from neatrec.serving.query import CART_NOTE, place_new
from neatrec.serving.table import NUMBERS
from neatrec.text import printable

MEMBERS = 200
"""Best sellers of a category whose answers a new item gets."""


@dataclass(frozen=True, slots=True)
class AnswerLine:
    """One answer."""

    code: int
    score: float | None
    evidence: PairEvidence

    @property
    def grade(self) -> str:
        return self.evidence.grade


@dataclass(frozen=True, slots=True)
class AnsweredQuery:
    """The answers to one query."""

    bundle: LoadedBundle
    lines: list[AnswerLine]
    notes: list[str]
    k: int
    """How many were asked for."""
    rule_hits: tuple[str, ...] = ()
    """Rules that changed the answer: block, pin."""
    explained: list[AnswerLine] | None = None
    """On request: pairs that season, store or basket size explain."""


def goes_with(
    snapshot: ServingSnapshot, bundle: LoadedBundle, code: int, filters: Filters, *, exact: bool
) -> AnsweredQuery | None:
    """What goes with an item. None, unless `exact`: the table does not suffice, and exact scores take longer."""
    rules = snapshot.rules[bundle.name]
    item_filter = ItemFilter(bundle, rules, filters, [code])
    bundle = bundle.with_goal(filters.goal)
    pins = _pins(bundle, rules, code, filters.k, item_filter)
    wanted = filters.k - len(pins)
    is_new = not bundle.count[code]
    level = LEVELS.index(filters.min_evidence or ("category" if is_new else "likely"))
    lines = _from_table(bundle, code, wanted, level, item_filter)
    notes = [_new_note(bundle, code)] if is_new else []
    if len(lines) < wanted and bundle.may_have_more(code, level):
        if not exact:
            return None
        lines += _beyond(bundle, code, wanted - len(lines), level, item_filter)
        if bundle.index.recall is not None:  # an approximate table may have missed a better one
            lines.sort(key=lambda line: -(line.score or 0.0))
    if is_new and level == LEVELS.index("category") and len(lines) < wanted:
        if not exact:
            return None
        lines += from_category(bundle, peers_of(bundle, code), wanted - len(lines), item_filter)
    if filters.include_new:
        if not exact:
            return None
        bundle.check_new_items()
        lines = place_new(lines, _beyond(bundle, code, wanted, GUESS, item_filter, new=True), wanted)
    for position, line in pins:
        lines.insert(min(position - 1, len(lines)), line)
    hits = (("block",) if item_filter.block_hit else ()) + ("pin",) * len(pins)
    return AnsweredQuery(bundle, lines, notes, filters.k, hits)


def explained_by(
    bundle: LoadedBundle, rules: CompiledRules, code: int, filters: ItemFilters
) -> list[AnswerLine] | None:
    """The items that season, store or basket size explain, under the same filters; None where nobody asks for them."""
    if filters.include is None and filters.month is None:
        return None
    item_filter = ItemFilter(bundle, rules, filters, [code])
    table = bundle.index.explained(code, filters.month, len(bundle.ids))
    rows: list[int] = []
    for row, item in enumerate(table.item.tolist()):
        if len(rows) < filters.k and item_filter.passes(item):
            item_filter.take(item)
            rows.append(row)
    return lines_of(bundle, table, rows)


def for_new_item(snapshot: ServingSnapshot, bundle: LoadedBundle, category: str, filters: Filters) -> AnsweredQuery:
    """What goes with an item that the bundle does not hold, from the category that the caller gives it."""
    members = bundle.in_category(category)
    item_filter = ItemFilter(bundle, snapshot.rules[bundle.name], filters, [])
    item_filter.own = bundle.same_category(np.flatnonzero(members).tolist())
    bundle = bundle.with_goal(filters.goal)
    note = f"A new item: answered from its category, {printable(category)}."
    if filters.min_evidence not in (None, "category"):
        return AnsweredQuery(bundle, [], [note], filters.k)
    return AnsweredQuery(bundle, from_category(bundle, members, filters.k, item_filter), [note], filters.k)


def _pins(
    bundle: LoadedBundle, rules: CompiledRules, code: int, k: int, item_filter: ItemFilter
) -> list[tuple[int, AnswerLine]]:
    pins = []
    for position, item in rules.pinned.get(code, ()):
        if position <= k and item_filter.passes(item, pinned=True):
            item_filter.take(item)
            evidence = replace(bundle.index.evidence(code, item), grade="rule")
            pins.append((position, AnswerLine(item, None, evidence)))
    return pins


def _from_table(bundle: LoadedBundle, code: int, wanted: int, level: int, item_filter: ItemFilter) -> list[AnswerLine]:
    table = bundle.index.answers(code)
    rows: list[int] = []
    grades, items = table.grade.tolist(), table.item.tolist()
    for row, item in enumerate(items):
        if len(rows) >= wanted:
            break
        if grades[row] <= level and item_filter.passes(item):
            item_filter.take(item)
            rows.append(row)
    return lines_of(bundle, table, rows)


def lines_of(bundle: LoadedBundle, table: ItemAnswers, rows: list[int]) -> list[AnswerLine]:
    """Chosen rows of a table. Column by column: asking row by row takes several times as long."""
    if not rows:
        return []
    columns = {name: getattr(table, name)[rows].tolist() for name in ("item", "score", "grade", *NUMBERS)}
    query, variance, grades, nan = table.query, bundle.variance, bundle.index.grades, float("nan")
    lines = []
    for item, score, grade, *numbers in zip(*columns.values(), strict=True):
        spread = (nan, nan) if variance is None else (variance[query], variance[item])
        own = (bundle.count[query], bundle.count[item], *spread)
        evidence = PairEvidence(*(*numbers, *own, grades[grade], bundle.reason))
        lines.append(AnswerLine(item, score, evidence))
    return lines


def _beyond(
    bundle: LoadedBundle, code: int, wanted: int, level: int, item_filter: ItemFilter, *, new: bool = False
) -> list[AnswerLine]:
    """Exact answers after those of the table, which are all used up; `new`: items that nobody has bought."""
    used = bundle.index.answers(code).item.tolist()
    lines: list[AnswerLine] = []
    while len(lines) < wanted:
        # with `diversify` an answer may forbid the next one: ask again without its category
        more = bundle.index.beyond(
            code, skip=used, allowed=item_filter.mask(new=new), min_grade=level, k=wanted, new=new
        )
        rows: list[int] = []
        for row, item in enumerate(more.item.tolist()):
            if len(lines) + len(rows) < wanted and item_filter.passes(item):
                item_filter.take(item)
                rows.append(row)
        lines += lines_of(bundle, more, rows)
        if not rows or not item_filter.diversify:
            break
    return lines


def peers_of(bundle: LoadedBundle, code: int) -> npt.NDArray[np.bool_]:
    """Which items share the deepest known category of an item, shape (items,)."""
    categories = bundle.catalog.categories
    row = categories[code] if categories is not None else np.zeros(0, dtype=np.int32)
    known = np.flatnonzero(row != UNKNOWN)
    if categories is None or not len(known):
        return np.zeros(len(bundle.ids), dtype=np.bool_)
    peers: npt.NDArray[np.bool_] = categories[:, known[-1]] == row[known[-1]]
    return peers


def from_category(
    bundle: LoadedBundle, members: npt.NDArray[np.bool_], wanted: int, item_filter: ItemFilter
) -> list[AnswerLine]:
    """Items that go with a category's best sellers; the score is the share of their sales that they go with."""
    count = np.where(members, bundle.index.item_count, 0)
    sellers = np.argsort(-count, kind="stable")[:MEMBERS]
    sellers = sellers[count[sellers] > 0]
    weight: dict[int, int] = {}
    for seller in sellers.tolist():
        table = bundle.index.answers(seller)
        for item in table.item[table.grade <= LIKELY].tolist():
            weight[item] = weight.get(item, 0) + int(count[seller])
    total = int(count[sellers].sum())
    lines: list[AnswerLine] = []
    for item in sorted(weight, key=lambda item: (-weight[item], item)):
        if len(lines) >= wanted:
            break
        if item_filter.passes(item):
            item_filter.take(item)
            lines.append(AnswerLine(item, weight[item] / total, _by_category(bundle, item)))
    return lines


def _by_category(bundle: LoadedBundle, item: int) -> PairEvidence:
    nan = float("nan")
    variance = bundle.index.variance
    return PairEvidence(
        count=-1,
        expected=nan,
        lift=nan,
        lift_low=nan,
        lift_high=nan,
        q=nan,
        customers=-1,
        forward=-1,
        backward=-1,
        overall_lift=nan,
        season=-1,
        query_count=-1,
        item_count=bundle.count[item],
        query_variance=nan,
        item_variance=nan if variance is None else float(variance[item]),
        grade="category",
    )


def _new_note(bundle: LoadedBundle, code: int) -> str:
    return f"{printable(bundle.names[code])} is in no training basket: what is known comes from its category."


@dataclass(frozen=True, slots=True)
class CartContribution:
    """A cart item that an answer goes with."""

    code: int
    part: float
    """As `Model.rank` has it: above 0 where the two go together; in a cart of one the model's score."""
    evidence: PairEvidence


def _sureness(grade: str) -> int:
    return LEVELS.index(grade) if grade in LEVELS else len(LEVELS)


@dataclass(frozen=True, slots=True)
class CartLine:
    code: int
    score: float
    """As `Model.rank` has it."""
    contributions: list[CartContribution]

    @property
    def grade(self) -> str:
        """The best grade among the contributions."""
        return min((one.evidence.grade for one in self.contributions), key=_sureness)


@dataclass(frozen=True, slots=True)
class AnsweredCart:
    bundle: LoadedBundle
    cart: list[int]
    lines: list[CartLine]
    notes: list[str]
    k: int
    rule_hits: tuple[str, ...] = ()


def completes(snapshot: ServingSnapshot, bundle: LoadedBundle, query: CartQuery) -> AnsweredCart:
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
    item_filter = ItemFilter(bundle, snapshot.rules[bundle.name], query, cart)
    bundle = bundle.with_goal(query.goal)
    if query.goal is not None and bundle.index.model.ranks_as_cart(cart):
        notes.append(CART_NOTE)
    level = LEVELS.index(query.min_evidence or "likely")
    queries = [code for code in cart if bundle.count[code] or bundle.index.model.scores_unseen_items]
    if query.include_new:
        bundle.check_new_items()
    lines = _cart_lines(bundle, queries, query.k, level, item_filter, new=query.include_new) if queries else []
    return AnsweredCart(bundle, cart, lines, notes, query.k, ("block",) if item_filter.block_hit else ())


def _cart_lines(
    bundle: LoadedBundle, queries: list[int], k: int, level: int, item_filter: ItemFilter, *, new: bool
) -> list[CartLine]:
    # blocked items are scored too: only then is it known whether the rule changed the answer
    allowed = item_filter.mask(blocked=True)
    may_be_new = item_filter.mask(blocked=True, new=True) if new else np.zeros_like(allowed)
    model, asked = bundle.index.model, np.array(queries, dtype=np.int32)
    candidates = np.flatnonzero(allowed | may_be_new).astype(np.int32)
    scored = model.score_cart(asked, candidates)
    codes, total = scored.codes, scored.total
    if level < GUESS:
        shown = (_with_evidence(bundle, queries, level, allowed) | may_be_new)[codes]
    else:
        explained = set.intersection(*(set(bundle.index.explained_with(code).tolist()) for code in queries))
        shown = ~np.isin(codes, list(explained))
    codes, total = codes[shown], total[shown]
    is_new = may_be_new[codes]
    found = [line for part in (~is_new, is_new) for line in _best_passing(codes[part], total[part], k, item_filter)]
    if not found:
        return []
    chosen, scores = [code for code, _ in found], [score for _, score in found]
    parts = scored.parts(np.array(chosen, dtype=np.int32))
    contributions = _contributions(bundle, queries, chosen, parts, level)
    lines = [CartLine(*line) for line in zip(chosen, scores, contributions, strict=True)]
    known, others = ([line for line in lines if may_be_new[line.code] == part] for part in (False, True))
    return place_new(known, others, k)


def _best_passing(
    codes: npt.NDArray[np.int32], total: npt.NDArray[np.floating], k: int, item_filter: ItemFilter
) -> list[tuple[int, float]]:
    """Codes and scores of the best `k` that pass."""
    # one answer may forbid others, by rule or by `diversify`: so many may have to be passed over
    reach = len(codes) if item_filter.diversify else k + len(item_filter.blocked)
    chosen: list[tuple[int, float]] = []
    for row in best(total, reach).tolist() if len(codes) else []:
        if len(chosen) == k:
            break
        if item_filter.passes(int(codes[row])):
            item_filter.take(int(codes[row]))
            chosen.append((int(codes[row]), float(total[row])))
    return chosen


def _with_evidence(
    bundle: LoadedBundle, queries: list[int], level: int, allowed: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Which items have evidence of `level` or better with something in the cart, shape (items,)."""
    found = np.zeros(len(allowed), dtype=np.bool_)
    for code in queries:
        table = bundle.index.answers(code)
        found[table.item[table.grade <= level]] = True
        if bundle.may_have_more(code, level):
            used = table.item.tolist()
            more = bundle.index.beyond(code, skip=used, allowed=allowed, min_grade=level, k=len(allowed))
            found[more.item] = True
    return found


def _contributions(
    bundle: LoadedBundle, queries: list[int], codes: list[int], parts: npt.NDArray[np.float64], level: int
) -> list[list[CartContribution]]:
    """For each answer the cart items that it goes with, the largest contribution first: those with evidence, or above
    their median.

    Grades come all together: pair by pair takes thirty times as long.
    """
    pairs = np.tile(queries, len(codes)), np.repeat(codes, len(queries))
    grades = bundle.index.pairs.columns(*pairs)["grade"].reshape(parts.shape)
    found = []
    for item, part, grade in zip(codes, parts, grades, strict=True):
        order = np.argsort(-part, kind="stable")
        chosen = order[(grade[order] <= level) & ((part[order] > 0) | (grade[order] < GUESS))]
        if not len(chosen):  # below the median of all that it goes with, and yet the best there is
            chosen = order[[np.argmin(grade[order])]]
        found.append(
            [CartContribution(queries[i], float(part[i]), bundle.index.evidence(queries[i], item)) for i in chosen]
        )
    return found
