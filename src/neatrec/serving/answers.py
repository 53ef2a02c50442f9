"""What goes with an item, or completes a cart: one implementation for Python, the command line, the API, the page and
`export`.

An item: by the table, by exact scores where filters used it up, by its category if nobody has bought it. A cart: by
the exact scores of the model (`Model.score_cart`), each answer with the items that contribute to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from neatrec.data.catalog import UNKNOWN, of_categories
from neatrec.errors import must_be_one_of
from neatrec.models.recommendations import CartScores, best, count_new
from neatrec.serving.evidence import CATEGORY, GRADES, GUESS, LIKELY, PairEvidence
from neatrec.serving.table import AnswerLine, ServingTable
from neatrec.text import printable

Mask = npt.NDArray[np.bool_]

LEVELS = GRADES[: CATEGORY + 1]
"""What `min_evidence` may be, the strictest first. A rule of the shop needs no evidence."""
MEMBERS = 200
"""Best sellers of a category whose answers a new item gets."""


def level_of(min_evidence: str | None) -> int | None:
    """The grade that answers must have at least; None: what has evidence."""
    if min_evidence is not None and min_evidence not in LEVELS:
        raise must_be_one_of("min_evidence", LEVELS, min_evidence)
    return None if min_evidence is None else LEVELS.index(min_evidence)


class AnswerFilter:
    """Passes what a request, the cart and the shop's rules leave; remembers what was taken.

    `queries` are the codes of the items asked for: they are never recommended, nor, unless `same_category`, is what
    shares a category with one of them. `chosen` are the items of the categories asked for, shape (items,).
    """

    def __init__(
        self,
        index: ServingTable,
        queries: Sequence[int],
        *,
        exclude: Iterable[int] = (),
        chosen: Mask | None = None,
        same_category: bool = False,
        diversify: bool = False,
    ) -> None:
        self.index = index
        self.out = {*queries, *exclude}
        self.own = set() if same_category else {index.category[code] for code in queries} - {UNKNOWN}
        self.chosen, self.same_category, self.diversify = chosen, same_category, diversify
        self.taken_categories: set[int] = set()
        self.blocked: set[int] = set()
        """What rules of the shop forbid."""
        self.available: bytes | None = None
        """One byte per item: 1 when it may be recommended. None: all may."""
        self.block_hit = False

    def passes(self, code: int, *, pinned: bool = False) -> bool:
        """Whether `code` may be recommended next. The shop may pin an item of the same category."""
        category = self.index.category[code]
        if code in self.out or (category in self.own and not pinned):
            return False
        if code in self.blocked:
            self.block_hit = True
            return False
        if self.available is not None and not self.available[code]:
            return False
        if self.chosen is not None and not self.chosen[code]:
            return False
        return not (self.diversify and category != UNKNOWN and category in self.taken_categories)

    def take(self, code: int) -> None:
        """`code` is recommended: not again, and with `diversify` nothing else of its category."""
        self.out.add(code)
        self.taken_categories.add(self.index.category[code])

    def taken(self, codes: Iterable[int], most: int) -> list[int]:
        """The places of the first codes that pass, at most so many, which are taken."""
        places: list[int] = []
        for place, code in enumerate(codes):
            if len(places) >= most:
                break
            if self.passes(code):
                self.take(code)
                places.append(place)
        return places

    def mask(self, *, blocked: bool = False, new: bool = False) -> Mask:
        """Every item that may come next, shape (items,); with `blocked` also those that only a rule forbids; `new`: of
        those that nobody has bought."""
        index = self.index
        allowed = index.model.new_items.copy() if new else np.asarray(index.item_count) > 0
        allowed[list(self.out if blocked else self.out | self.blocked)] = False
        categories = self.own | (self.taken_categories - {UNKNOWN} if self.diversify else set())
        if categories:
            allowed &= ~of_categories(index.category_codes, list(categories))
        if self.available is not None:
            allowed &= np.frombuffer(self.available, dtype=np.bool_)
        if self.chosen is not None:
            allowed &= self.chosen
        return allowed


class TableUsedUp(Exception):
    """The table does not suffice: exact scores must be computed."""


def answer_item(
    index: ServingTable,
    code: int,
    k: int,
    level: int | None,
    item_filter: AnswerFilter,
    *,
    include_new: bool = False,
    exact: bool = True,
) -> list[AnswerLine]:
    """What goes with an item, the best first. Unless `exact`: by the table alone, or `TableUsedUp`.

    `level`: the least evidence. None: `likely`; of an item that nobody has bought, what goes with its category.
    """
    least = LIKELY if level is None else level
    by_table = not item_filter.same_category or least < GUESS  # it holds no item of the same category
    lines = _from_table(index, code, k, least, item_filter) if by_table else []
    is_short = len(lines) < k and (index.may_have_more(code, least) or not by_table)
    has_peers = index.item_count[code] == 0 and level in (None, CATEGORY)
    if not exact and (is_short or include_new or (has_peers and len(lines) < k)):
        raise TableUsedUp
    if is_short:
        used = index.answers(code).item.tolist() if by_table else []
        lines += _beyond(index, code, k - len(lines), least, item_filter, used=used)
        if index.recall is not None:  # an approximate table may have missed a better one
            lines.sort(key=lambda line: -(line.score or 0.0))
    if has_peers and len(lines) < k:
        lines += from_category(index, peers_of(index, code), k - len(lines), item_filter)
    if include_new:
        index.model.check_new_items()
        lines = place_new(lines, _beyond(index, code, k, GUESS, item_filter, new=True), k)
    return lines


def _from_table(index: ServingTable, code: int, k: int, level: int, item_filter: AnswerFilter) -> list[AnswerLine]:
    table = index.answers(code)
    enough = np.flatnonzero(table.grade <= level).tolist()
    places = item_filter.taken(table.item[enough].tolist(), k)
    return table.lines([enough[place] for place in places])


def _beyond(
    index: ServingTable,
    code: int,
    k: int,
    level: int,
    item_filter: AnswerFilter,
    *,
    used: Sequence[int] = (),
    new: bool = False,
) -> list[AnswerLine]:
    """Exact answers after those of the table, which are all `used` up; `new`: items that nobody has bought."""
    lines: list[AnswerLine] = []
    while len(lines) < k:
        # with `diversify` an answer may forbid the next one: ask again without its category
        allowed = item_filter.mask(new=new)
        allowed[list(used)] = False
        more = index.beyond(code, allowed, min_grade=level, k=k)
        rows = item_filter.taken(more.item.tolist(), k - len(lines))
        lines += more.lines(rows)
        if not rows or not item_filter.diversify:
            break
    return lines


def explained_answers(
    index: ServingTable, queries: Sequence[int], month: int | None, k: int, item_filter: AnswerFilter
) -> list[tuple[int, AnswerLine]]:
    """The items that season, store or basket size explain with one of `queries`, which comes first; the largest
    overall lift first, each item once."""
    found = []
    for query in queries:
        table = index.explained(query, month)
        found += [(query, line) for line in table.lines(range(len(table)))]
    found.sort(key=lambda each: -each[1].evidence.overall_lift)
    return [found[place] for place in item_filter.taken((line.code for _, line in found), k)]


def peers_of(index: ServingTable, code: int) -> Mask:
    """Which items share the deepest known category of an item, shape (items,)."""
    categories = index.catalog.categories
    row = categories[code] if categories is not None else np.zeros(0, dtype=np.int32)
    known = np.flatnonzero(row != UNKNOWN)
    if categories is None or not len(known):
        return np.zeros(len(index), dtype=np.bool_)
    peers: Mask = categories[:, known[-1]] == row[known[-1]]
    return peers


def from_category(index: ServingTable, members: Mask, k: int, item_filter: AnswerFilter) -> list[AnswerLine]:
    """Items that go with a category's best sellers; the score is the share of their sales that they go with."""
    count = np.where(members, index.item_count, 0)
    sellers = np.argsort(-count, kind="stable")[:MEMBERS]
    sellers = sellers[count[sellers] > 0]
    weight: dict[int, int] = {}
    for seller in sellers.tolist():
        table = index.answers(seller)
        for item in table.item[table.grade <= LIKELY].tolist():
            weight[item] = weight.get(item, 0) + int(count[seller])
    total = int(count[sellers].sum())
    ordered = sorted(weight, key=lambda item: (-weight[item], item))
    chosen = [ordered[place] for place in item_filter.taken(ordered, k)]
    lines = []
    for item in chosen:
        spread = math.nan if index.variance is None else float(index.variance[item])
        evidence = PairEvidence(item_count=int(index.item_count[item]), item_variance=spread, grade="category")
        lines.append(AnswerLine(item, weight[item] / total, evidence))
    return lines


def new_note(index: ServingTable, code: int) -> str:
    """Of an item that nobody has bought."""
    return f"{printable(index.catalog.name(code))} is in no training basket: what is known comes from its category."


class ScoredLine(Protocol):
    """An answer with a score and a grade."""

    @property
    def score(self) -> float | None: ...
    @property
    def grade(self) -> str: ...


Line = TypeVar("Line", bound=ScoredLine)


def place_new(known: list[Line], new: list[Line], k: int) -> list[Line]:
    """`k` of both, new items last and none instead of an answer with evidence; both are sorted by score."""
    kept = max((place for place, line in enumerate(known, 1) if line.grade in GRADES[:GUESS]), default=0)
    size = count_new([line.score or 0.0 for line in known], [line.score or 0.0 for line in new], k, kept)
    return [*known[: k - size], *new[:size]]


@dataclass(frozen=True, slots=True)
class CartContribution:
    """A cart item that an answer goes with."""

    code: int
    part: float
    """As `Model.rank` has it: above 0 where the two go together; in a cart of one the model's score."""
    evidence: PairEvidence


@dataclass(frozen=True, slots=True)
class CartLine:
    """One answer to a cart."""

    code: int
    score: float
    """As `Model.rank` has it."""
    contributions: list[CartContribution]

    @property
    def evidence(self) -> PairEvidence:
        """The best evidence among the contributions."""
        return min((one.evidence for one in self.contributions), key=_weakness)

    @property
    def grade(self) -> str:
        return self.evidence.grade


def _weakness(evidence: PairEvidence) -> tuple[int, float]:
    grade = evidence.grade
    return GRADES.index(grade) if grade in GRADES else len(GRADES), -evidence.lift_low


class CartAnswers:
    """The answers to a cart by any grade: it is scored once.

    `item_filter` says what may be scored. Blocked items are scored too: only then is it known whether the rule changed
    the answer.
    """

    def __init__(
        self, index: ServingTable, cart: Sequence[int], item_filter: AnswerFilter, *, include_new: bool = False
    ) -> None:
        if include_new:
            index.model.check_new_items()
        self.index = index
        self.queries = [code for code in cart if index.item_count[code] or index.model.scores_unseen_items]
        allowed = item_filter.mask(blocked=True)
        self.new = item_filter.mask(blocked=True, new=True) if include_new else np.zeros_like(allowed)
        candidates = np.flatnonzero(allowed | self.new).astype(np.int32)
        self.scored: CartScores | None = None
        """None: there is nothing to score."""
        if self.queries and len(candidates):
            self.scored = index.model.score_cart(np.array(self.queries, dtype=np.int32), candidates)

    def best(
        self, k: int, level: int, item_filter: AnswerFilter, *, new: bool = False
    ) -> tuple[list[int], list[float]]:
        """Codes and scores of the best `k` that pass, each with evidence of `level` with one of the cart's items;
        `new`: of those that nobody has bought, which need none."""
        if self.scored is None:
            return [], []
        codes, total = self.scored.codes, self.scored.total
        if new:
            shown = self.new
        elif level < GUESS:
            shown = _with_evidence(self.index, self.queries, level) & ~self.new
        else:
            shown = ~self.new
            shown[self.index.explained_with(*self.queries)] = False
        kept = shown[codes]
        codes, total = codes[kept], total[kept]
        # one answer may forbid others, by rule or by `diversify`: so many may have to be passed over
        reach = len(codes) if item_filter.diversify else k + len(item_filter.blocked)
        order = best(total, reach) if len(codes) else np.zeros(0, dtype=np.int64)
        chosen = order[item_filter.taken(codes[order].tolist(), k)]
        return codes[chosen].tolist(), total[chosen].tolist()

    def lines(self, k: int, level: int | None, item_filter: AnswerFilter) -> list[CartLine]:
        """The answers; `level`: the least evidence, None is `likely`."""
        level = LIKELY if level is None else level
        known, scores = self.best(k, level, item_filter)
        new, new_scores = self.best(k, level, item_filter, new=True) if self.new.any() else ([], [])
        if self.scored is None or not known + new:
            return []
        parts = self.scored.parts(np.array(known + new, dtype=np.int32))
        contributions = _contributions(self.index, self.queries, known + new, parts, level)
        lines = [CartLine(*line) for line in zip(known + new, scores + new_scores, contributions, strict=True)]
        return place_new(lines[: len(known)], lines[len(known) :], k)


def _with_evidence(index: ServingTable, queries: Sequence[int], level: int) -> Mask:
    """Which items have evidence of `level` or better with something in the cart, shape (items,)."""
    found = np.zeros(len(index), dtype=np.bool_)
    for code in queries:
        found[index.evident_with(code, level)] = True
    return found


def _contributions(
    index: ServingTable, queries: Sequence[int], codes: list[int], parts: npt.NDArray[np.float64], level: int
) -> list[list[CartContribution]]:
    """For each answer the cart items that it goes with, the largest contribution first: those with evidence, or above
    their median.

    Evidence comes all together: pair by pair takes thirty times as long.
    """
    query_codes = np.array(queries, dtype=np.int32)
    items = np.repeat(np.array(codes, dtype=np.int32), len(query_codes))
    grades = index.grades_of(np.tile(query_codes, len(codes)), items).reshape(parts.shape)
    chosen = []
    for part, grade in zip(parts, grades, strict=True):
        order = np.argsort(-part, kind="stable")
        mine = order[(grade[order] <= level) & ((part[order] > 0) | (grade[order] < GUESS))]
        # below the median of all that it goes with, and yet the best there is
        chosen.append(mine if len(mine) else order[[np.argmin(grade[order])]])
    sizes = [len(mine) for mine in chosen]
    evidence = iter(index.evidence_of(query_codes[np.concatenate(chosen)], np.repeat(codes, sizes).astype(np.int32)))
    return [
        [CartContribution(queries[i], float(part[i]), next(evidence)) for i in mine.tolist()]
        for part, mine in zip(parts, chosen, strict=True)
    ]
