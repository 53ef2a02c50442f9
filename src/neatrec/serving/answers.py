"""`recommend`: what goes with an item or completes a cart, each answer with its evidence.

One implementation for Python, the command line, the API, the page and exports. The pairs with evidence
of an item come from the table; guesses and carts are scored by the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from neatrec.data.catalog import UNKNOWN, Catalog, of_categories
from neatrec.data.table_result import TableResult
from neatrec.errors import must_be, must_be_one_of, require_whole
from neatrec.models.items import Item, find_items, in_categories
from neatrec.models.recommendations import CartScores, best
from neatrec.serving.evidence import GRADES, GUESS, LIKELY, PUBLIC, Evidence
from neatrec.serving.table import SAME_CATEGORY, PairTable
from neatrec.text import plural, printable

Codes = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

LEVELS = ("certain", "likely", "guess", "category")
"""What `min_evidence` may be, the strictest first. A rule of the shop needs no evidence."""
"""Where answers of the question's own category stand: after all others, nowhere, or among them by
the lower end of their lift."""
MEMBERS = 200
"""Best sellers of a category whose answers a new item gets."""


@dataclass(frozen=True)
class Filters:
    """Which answers a question asks for."""

    k: int = 10
    min_evidence: str | None = None
    """One of `LEVELS`; None: `likely`, and for an item that nobody has bought its category."""
    among: Mask | None = None
    """The items that may be answers, shape (items,); None: all."""
    exclude: tuple[int, ...] = ()
    """Codes of items that may not."""
    same_category: str | None = None
    """One of `SAME_CATEGORY`; None: the default of the bundle."""
    diversify: bool = False
    """At most one answer per category."""
    include_explained: bool = False
    """Also list what season, store or basket size explain."""
    month: int | None = None
    """List of those only what is in season in this month, from 1."""

    def __post_init__(self) -> None:
        require_whole("k", self.k)
        if self.month is not None:
            require_whole("month", self.month, 1, 12)
        if self.min_evidence is not None and self.min_evidence not in LEVELS:
            raise must_be_one_of("min_evidence", LEVELS, self.min_evidence)
        if self.same_category not in (None, *SAME_CATEGORY):
            raise must_be_one_of("same_category", SAME_CATEGORY, self.same_category)

    def of(self, table: PairTable) -> Filters:
        """The same filters, with the defaults of a bundle."""
        return replace(self, same_category=self.same_category or table.same_category)

    @property
    def level(self) -> int:
        """The number of the grade that a pair must have at least."""
        if self.min_evidence is None:
            return LIKELY
        return min(GRADES.index(self.min_evidence), GUESS)

    @property
    def by_category(self) -> bool:
        """Whether an item that nobody has bought is answered from its category."""
        return self.min_evidence in (None, "category")


EVERY_ITEM = -1
"""In place of a query: a rule for all queries."""


class ShopRules(NamedTuple):
    """The shop's own rules in the codes of one table."""

    blocked: Mapping[int, frozenset[int]] = {}
    """Query -> items that are never answers."""
    pinned: Mapping[int, tuple[tuple[int, int], ...]] = {}
    """Query -> (position, item), by position."""
    boosted: Mapping[int, Mapping[int, int]] = {}
    """Query -> item -> places that it moves up."""
    available: Mask | None = None
    """The items that may be answers, shape (items,); None: all."""

    def hidden(self, query: int) -> frozenset[int]:
        """Items that are never answers to `query`."""
        nothing = frozenset[int]()
        return self.blocked.get(EVERY_ITEM, nothing) | self.blocked.get(query, nothing)

    def boosts(self, query: int) -> Mapping[int, int]:
        """Item -> places that it moves up among the answers to `query`."""
        return {**self.boosted.get(EVERY_ITEM, {}), **self.boosted.get(query, {})}


class Contribution(NamedTuple):
    """An item of the question that an answer goes with."""

    code: int
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer."""

    code: int
    evidence: Evidence
    """The best evidence that an item of the question gives it."""
    goes_with: tuple[Contribution, ...] = ()
    """The items of a cart that it goes with, the largest contribution first."""

    @property
    def grade(self) -> str:
        return self.evidence.grade


@dataclass(frozen=True, repr=False)
class Answers(TableResult):
    """The answers to one question, best first."""

    catalog: Catalog
    cart: tuple[int, ...]
    """Codes of what was asked for."""
    lines: tuple[Answer, ...]
    k: int
    """Number of answers asked for."""
    notes: tuple[str, ...] = ()
    """What a reader should know: a new item, for example."""
    explained: tuple[Answer, ...] | None = None
    """On request: what looks certain overall, but not within season, store or basket size."""
    left_out: int = 0
    """Pairs bought together with less evidence than asked for, as far as they would fill the list."""
    rule_hits: tuple[str, ...] = ()
    """Rules of the shop that changed the answers: block, pin, boost."""

    SHOWN: ClassVar[tuple[str, ...]] = ("item", "id", "goes_with", "grade", "strength", "words")
    """Columns that a prompt and a notebook show."""

    def __len__(self) -> int:
        return len(self.lines)

    def rows(self) -> list[dict[str, Any]]:
        """The answers as JSON holds them."""
        return [self._row(rank, line) for rank, line in enumerate(self.lines, 1)]

    def explained_rows(self) -> list[dict[str, Any]]:
        """The explained pairs as JSON holds them."""
        return [self._row(rank, line) for rank, line in enumerate(self.explained or (), 1)]

    def _row(self, rank: int, line: Answer) -> dict[str, Any]:
        evidence = line.evidence
        return {
            "rank": rank,
            **brief(self.catalog, line.code),
            "grade": evidence.grade,
            "strength": evidence.strength,
            "evidence": {"words": evidence.words(), **evidence.to_dict()},
            "goes_with": [
                {
                    **brief(self.catalog, one.code),
                    "grade": one.evidence.grade,
                    "strength": one.evidence.strength,
                    "words": one.evidence.words(),
                }
                for one in line.goes_with
            ],
        }

    def to_arrow(self) -> pa.Table:
        """One row per answer: item, id, what it goes with, grade, strength, words, and the numbers."""
        asked = [self.catalog.name(code) for code in self.cart[:1]]
        rows = [
            {
                "item": row["name"],
                "id": row["id"],
                "goes_with": ", ".join([one["name"] for one in row["goes_with"][:1]] or asked),
                "grade": row["grade"],
                "strength": row["strength"],
                **row["evidence"],
            }
            for row in self.rows()
        ]
        place = ANSWER_SCHEMA.get_field_index("id")
        ids = pa.field("id", pa.int64() if self.catalog.integer_ids else pa.string())
        return pa.Table.from_pylist(rows, ANSWER_SCHEMA.set(place, ids))

    def _head(self) -> tuple[pa.Table, int]:
        rows, number = super()._head()
        return rows.select(self.SHOWN), number

    def _caption(self) -> str:
        return "Answers"


ARROW = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), list[str]: pa.list_(pa.string())}
ANSWER_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("item", "id", "goes_with", "grade", "strength")),
        ("words", pa.string()),
        *((name, ARROW[spec.metadata["json"]]) for name, spec in PUBLIC.items()),
    ]
)


def brief(catalog: Catalog, code: int) -> dict[str, Any]:
    """An item as JSON holds it."""
    path = list(catalog.category_path(code))
    return {"id": catalog.public_id(code), "name": catalog.name(code), "category": path}


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
        Where answers of the question's own category stand: `last`, `exclude`, or `mix`. By default
        as the bundle was trained, which is `last` unless named.
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
    filters = filters.of(table)
    rules = ShopRules() if rules is None else rules
    picker = Picker(table, cart, filters, rules)
    notes = [_new_note(table, code) for code in cart if not table.item_count[code]]
    hits: list[str] = []
    if len(cart) == 1:
        lines, hits = _item_answers(picker, cart[0])
    else:
        lines = _cart_answers(picker, cart)
    hits = ["block"] * picker.block_hit + hits
    explained = None
    if filters.include_explained or filters.month is not None:
        explained = tuple(_explained(Picker(table, cart, filters, rules), cart))
    if filters.same_category == "exclude" and len(lines) < filters.k:
        notes += _excluded_notes(picker, cart, bool(lines))
    return Answers(
        table.catalog,
        tuple(cart),
        tuple(lines),
        filters.k,
        tuple(notes),
        explained,
        left_out=_left_out(picker, cart, filters.k - len(lines)),
        rule_hits=tuple(hits),
    )


def answers_from_category(
    table: PairTable, members: Mask, filters: Filters, rules: ShopRules | None = None
) -> Answers:
    """The answers to an item that the table does not hold, from its category: `members` (items,)."""
    filters = filters.of(table)
    picker = Picker(table, (), filters, ShopRules() if rules is None else rules)
    picker.own = {table.category[code] for code in np.flatnonzero(members).tolist()} - {UNKNOWN}
    lines = _of_category(picker, members, filters.k) if filters.by_category else []
    return Answers(table.catalog, (), tuple(lines), filters.k)


class Picker:
    """Passes what a request and the rules of the shop leave of the answers, and remembers what was taken."""

    def __init__(
        self, table: PairTable, cart: Sequence[int], filters: Filters, rules: ShopRules
    ) -> None:
        self.table, self.filters, self.rules = table, filters, rules
        self.out = {*cart, *filters.exclude}
        self.own = {table.category[code] for code in cart} - {UNKNOWN}
        """The categories of what was asked for."""
        self.blocked = frozenset[int]().union(*map(rules.hidden, cart or [EVERY_ITEM]))
        self.taken_categories: set[int] = set()
        self.block_hit = False

    def is_own(self, code: int) -> bool:
        """Whether an item shares a category with what was asked for."""
        return self.table.category[code] in self.own

    def allows(self, code: int) -> bool:
        """Whether an item may be the next answer, whatever its category has to do with the question."""
        if code in self.out:
            return False
        if code in self.blocked:
            self.block_hit = True
            return False
        for mask in (self.filters.among, self.rules.available):
            if mask is not None and not mask[code]:
                return False
        category = self.table.category[code]
        return not (self.filters.diversify and category in self.taken_categories - {UNKNOWN})

    def take(self, codes: Iterable[int], k: int) -> list[int]:
        """The places of the first codes that are allowed, at most `k`; none of them is allowed again."""
        places: list[int] = []
        for place, code in enumerate(codes):
            if len(places) >= k:
                break
            if self.allows(code):
                self.out.add(code)
                self.taken_categories.add(self.table.category[code])
                places.append(place)
        return places

    def mask(self) -> Mask:
        """The bought items of other categories that may be scored; blocked ones, too, shape (items,)."""
        allowed = np.asarray(self.table.item_count) > 0
        allowed[list(self.out)] = False
        closed = self.own | (self.taken_categories if self.filters.diversify else set())
        if closed - {UNKNOWN}:
            allowed &= ~of_categories(self.table.pairs.category, list(closed - {UNKNOWN}))
        for mask in (self.filters.among, self.rules.available):
            if mask is not None:
                allowed &= mask
        return allowed


# ---- an item


def _item_answers(picker: Picker, code: int) -> tuple[list[Answer], list[str]]:
    """The answers to an item with the pins and boosts of the shop, and the rules that changed them."""
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
    table, how = picker.table, picker.filters.same_category
    rows = table.rows_of(code, picker.filters.level)
    pairs = table.answers["pair"][rows]
    same = table.pairs.columns["same_category"][pairs] > 0
    if how == "exclude":
        rows, pairs = rows[~same], pairs[~same]
    elif how == "mix":
        columns = table.pairs.columns
        weaker = columns["grade"][pairs] > LIKELY
        order = np.lexsort((-np.where(weaker, 0, columns["lift_low"][pairs]), weaker))
        rows, pairs = rows[order], pairs[order]
    items = table.answers["item"][rows]
    taken = picker.take(items.tolist(), k)
    items = items[taken]
    evidence = table.evidence_of(np.full(len(items), code), items, pairs[taken])
    return list(map(Answer, items.tolist(), evidence))


def _guesses(picker: Picker, code: int, k: int) -> list[Answer]:
    """What the model names beyond the table, of pairs that the counts do not refute."""
    table, lines = picker.table, list[Answer]()
    used = table.answers["item"][table.rows_of(code)]
    while len(lines) < k:
        # with `diversify` an answer may forbid the next one: ask again without its category
        allowed = picker.mask()
        allowed[used] = False
        items, _ = table.guesses(code, allowed, k + len(picker.blocked))
        evidence = table.evidence_of(np.full(len(items), code), items)
        named = [place for place, one in enumerate(evidence) if one.grade == "guess"]
        taken = picker.take(items[named].tolist(), k - len(lines))
        lines += [Answer(int(items[named[i]]), evidence[named[i]]) for i in taken]
        if not taken or not picker.filters.diversify:
            break
    return lines


def _pins(picker: Picker, code: int) -> list[tuple[int, Answer]]:
    pins = []
    for position, item in picker.rules.pinned.get(code, ()):
        if position <= picker.filters.k and picker.take([item], 1):
            evidence = replace(picker.table.evidence(code, item), grade="rule")
            pins.append((position, Answer(item, evidence)))
    return pins


def _boost(lines: list[Answer], boosts: Mapping[int, int], wanted: int) -> int:
    """Move the answers that the shop boosts up, the first one first; how many of those wanted moved."""
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
    """Items of other categories that go with a category's best sellers, by the sales that they go with."""
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


def _new_note(table: PairTable, code: int) -> str:
    name = printable(table.catalog.name(code))
    return f"{name} is in no training basket: its answers come from its category."


# ---- a cart


def _cart_answers(picker: Picker, cart: Sequence[int]) -> list[Answer]:
    """The answers to a cart: items of other categories by the model, then of its own by their evidence."""
    filters = picker.filters
    lines = _scored_answers(picker, cart)
    if filters.same_category == "exclude" or (
        len(lines) >= filters.k and filters.same_category == "last"
    ):
        return lines
    k = filters.k - (len(lines) if filters.same_category == "last" else 0)
    lines += _same_category_answers(picker, cart, k)
    if filters.same_category == "mix":
        lines.sort(key=lambda line: _weakness(line.evidence))
    return lines[: filters.k]


def _scored_answers(picker: Picker, cart: Sequence[int]) -> list[Answer]:
    table, filters = picker.table, picker.filters
    queries = [code for code in cart if table.item_count[code] or table.model.scores_unseen_items]
    candidates = np.flatnonzero(picker.mask()).astype(np.int32)
    if not queries or not len(candidates):
        return []
    scored = table.model.score_cart(np.array(queries, dtype=np.int32), candidates)
    if filters.level < GUESS:
        shown = np.zeros(len(table), dtype=np.bool_)
        for code in queries:
            shown[table.items_of(code, filters.level)] = True
    else:
        shown = np.ones(len(table), dtype=np.bool_)
        shown[table.explained_with(*queries)] = False
    kept = shown[scored.codes]
    codes, total = scored.codes[kept], scored.total[kept]
    # answers may be forbidden by rules, by the counts, and with `diversify` by others
    reach = len(codes) if filters.diversify else 4 * filters.k + len(picker.blocked)
    ordered = codes[best(total, reach)]
    if filters.level >= GUESS:
        ordered = ordered[_not_refuted(table, queries, ordered)]
    chosen = ordered[picker.take(ordered.tolist(), filters.k)]
    return _with_contributions(table, queries, chosen, scored, filters.level)


def _not_refuted(table: PairTable, queries: list[int], codes: Codes) -> Mask:
    """Whether some item of the cart and each of `codes` may go together for all that the counts say."""
    pairs = np.tile(queries, len(codes)).astype(np.int32), np.repeat(codes, len(queries))
    grades = table.evidence_columns(*pairs)["grade"].reshape(len(codes), len(queries))
    return np.asarray((grades <= GUESS).any(axis=1))


def _with_contributions(
    table: PairTable, queries: list[int], codes: Codes, scored: CartScores, level: int
) -> list[Answer]:
    """Answers with the cart items that they go with, the largest contribution first: those with
    evidence, or above their median."""
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
        # below the median of all that it goes with, and yet the best there is
        shown = good if len(good) else order[[np.argmin(grades[order])]]
        reasons = tuple(Contribution(queries[i], mine[i]) for i in shown.tolist())
        lines.append(Answer(code, min((one.evidence for one in reasons), key=_weakness), reasons))
    return lines


def _same_category_answers(picker: Picker, cart: Sequence[int], k: int) -> list[Answer]:
    """Items of the cart's own categories that have evidence with one of its items, the surest lift first."""
    table, level = picker.table, min(picker.filters.level, LIKELY)
    reasons: dict[int, list[Contribution]] = {}
    for query in cart:
        items = table.items_of(query, level)
        items = items[[picker.is_own(item) for item in items.tolist()]]
        evidence = table.evidence_of(np.full(len(items), query), items)
        for item, one in zip(items.tolist(), evidence, strict=True):
            reasons.setdefault(item, []).append(Contribution(query, one))
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
    """The items that season, store or basket size explain with an item of the cart, the largest
    overall lift first, each item once."""
    table, month = picker.table, picker.filters.month
    found = []
    for query in cart:
        items = table.explained_with(query)
        evidence = table.evidence_of(np.full(len(items), query), items)
        found += [
            Answer(item, one, (Contribution(query, one),) if len(cart) > 1 else ())
            for item, one in zip(items.tolist(), evidence, strict=True)
            if month is None or one.season >> (month - 1) & 1
        ]
    found.sort(key=lambda line: -line.evidence.overall_lift)
    return [found[place] for place in picker.take((line.code for line in found), picker.filters.k)]


def _left_out(picker: Picker, cart: Sequence[int], room: int) -> int:
    """How many pairs bought together without the evidence asked for would fill the list."""
    table, level = picker.table, picker.filters.level
    if room <= 0 or level >= GUESS:
        return 0
    weaker = {item for code in cart for item in table.items_of(code, GUESS).tolist()}
    kept = (item for item in weaker if not (picker.is_own(item) or item in picker.blocked))
    return len(picker.take(kept, room))


def _excluded_notes(picker: Picker, cart: Sequence[int], some: bool) -> list[str]:
    """What `same_category="exclude"` keeps out of a list that is not full."""
    table, level = picker.table, min(picker.filters.level, LIKELY)
    items = {item for code in cart for item in table.items_of(code, level).tolist()}
    own = [item for item in items - set(cart) if picker.is_own(item)]
    if not own:
        return []
    what = "the item's own category" if len(cart) == 1 else "the cart's own categories"
    number = f"{plural(len(own), 'answer')} with evidence"
    if some:
        return [f"{number} of {what} left out."]
    return [f"No answer of another category has evidence; {number} of {what} left out."]


__all__ = [
    "LEVELS",
    "SAME_CATEGORY",
    "Answer",
    "Answers",
    "Contribution",
    "Filters",
    "ShopRules",
    "answers_from_category",
    "answers_to",
    "recommend",
]
