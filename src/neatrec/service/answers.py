"""What goes with one item: by the table, by exact scores where filters used it up, by its category if it is new."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from neatrec.data.catalog import UNKNOWN
from neatrec.service.item_filter import ItemFilter
from neatrec.service.loaded_bundle import LoadedBundle
from neatrec.service.query_params import LEVELS, QueryParams
from neatrec.service.snapshot import CompiledRules, ServingSnapshot
from neatrec.serving import GRADES, ItemAnswers, PairEvidence
from neatrec.serving.answers import NUMBERS
from neatrec.text import printable

MEMBERS = 200
"""Best sellers of a category that are asked on behalf of a new item."""
SOME = GRADES.index("some")
COUNTED = NUMBERS.index("posterior")
"""`PairEvidence` has what is counted of a pair, then the items' own numbers, then the posterior."""


@dataclass(frozen=True, slots=True)
class AnswerLine:
    """One answer."""

    code: int
    score: float | None
    evidence: PairEvidence


@dataclass(frozen=True, slots=True)
class AnsweredQuery:
    """The answers to one question."""

    shelf: LoadedBundle
    lines: list[AnswerLine]
    notes: list[str]
    asked: int
    """How many were asked for."""
    rules: tuple[str, ...] = ()
    """Rules that changed the answer: block, pin."""


def goes_with(
    edition: ServingSnapshot, shelf: LoadedBundle, code: int, question: QueryParams, *, exact: bool
) -> AnsweredQuery | None:
    """What goes with an item. None, unless `exact`: the table does not suffice, ask again where time may pass."""
    decided = edition.decided[shelf.name]
    sieve = ItemFilter(shelf, decided, question, [code])
    pins = _pins(shelf, decided, code, question, sieve)
    wanted = question.k - len(pins)
    is_new = not shelf.count[code]
    level = LEVELS.index(question.min_evidence or ("category" if is_new else "some"))
    lines = _from_table(shelf, code, wanted, level, sieve)
    notes = [_new_note(shelf, code)] if is_new else []
    if len(lines) < wanted and shelf.may_have_more(code, level):
        if not exact:
            return None
        lines += _beyond(shelf, code, wanted - len(lines), level, sieve)
        if shelf.index.recall is not None:  # an approximate table may have missed a better one
            lines.sort(key=lambda line: -(line.score or 0.0))
    if is_new and level == LEVELS.index("category") and len(lines) < wanted:
        if not exact:
            return None
        lines += from_category(shelf, peers_of(shelf, code), wanted - len(lines), sieve)
    for position, line in pins:
        lines.insert(min(position - 1, len(lines)), line)
    hits = (("block",) if sieve.block_hit else ()) + ("pin",) * len(pins)
    return AnsweredQuery(shelf, lines, notes, question.k, hits)


def for_new_item(edition: ServingSnapshot, shelf: LoadedBundle, question: QueryParams) -> AnsweredQuery:
    """What goes with an item that the bundle does not hold, from the category that the caller says it has."""
    category = question.category_of or ""
    members = shelf.in_category(category)
    sieve = ItemFilter(shelf, edition.decided[shelf.name], question, [])
    sieve.own = shelf.same_category(np.flatnonzero(members).tolist())
    note = f"A new item: answered from its category, {printable(category)}."
    if question.min_evidence not in (None, "category"):
        return AnsweredQuery(shelf, [], [note], question.k)
    return AnsweredQuery(shelf, from_category(shelf, members, question.k, sieve), [note], question.k)


def _pins(
    shelf: LoadedBundle, decided: CompiledRules, code: int, question: QueryParams, sieve: ItemFilter
) -> list[tuple[int, AnswerLine]]:
    pins = []
    for position, item in decided.pinned.get(code, ()):
        if position <= question.k and sieve.passes(item, pinned=True):
            sieve.take(item)
            evidence = replace(shelf.index.evidence(code, item), grade="rule")
            pins.append((position, AnswerLine(item, None, evidence)))
    return pins


def _from_table(shelf: LoadedBundle, code: int, wanted: int, level: int, sieve: ItemFilter) -> list[AnswerLine]:
    table = shelf.index.answers(code)
    rows: list[int] = []
    grades, items = table.grade.tolist(), table.item.tolist()
    for row, item in enumerate(items):
        if len(rows) >= wanted:
            break
        if grades[row] <= level and sieve.passes(item):
            sieve.take(item)
            rows.append(row)
    return lines_of(shelf, table, rows)


def lines_of(shelf: LoadedBundle, table: ItemAnswers, rows: list[int]) -> list[AnswerLine]:
    """Chosen rows of a table. Column by column: asking row by row takes several times as long."""
    if not rows:
        return []
    columns = {name: getattr(table, name)[rows].tolist() for name in ("item", "score", "grade", *NUMBERS)}
    query, variance, nan = table.query, shelf.variance, float("nan")
    lines = []
    for item, score, grade, *numbers in zip(*columns.values(), strict=True):
        spread = (nan, nan) if variance is None else (variance[query], variance[item])
        own = (shelf.count[query], shelf.count[item], *spread)
        evidence = PairEvidence(*(*numbers[:COUNTED], *own, *numbers[COUNTED:], GRADES[grade], shelf.reason))
        lines.append(AnswerLine(item, score, evidence))
    return lines


def _beyond(shelf: LoadedBundle, code: int, wanted: int, level: int, sieve: ItemFilter) -> list[AnswerLine]:
    """Exact answers after those of the table, which are all used up."""
    used = shelf.index.answers(code).item.tolist()
    lines: list[AnswerLine] = []
    while len(lines) < wanted:
        # with `diversify` an answer may forbid the next one: ask again without its category
        more = shelf.index.beyond(code, skip=used, allowed=sieve.mask(), min_grade=level, k=wanted)
        rows: list[int] = []
        for row, item in enumerate(more.item.tolist()):
            if len(lines) + len(rows) < wanted and sieve.passes(item):
                sieve.take(item)
                rows.append(row)
        lines += lines_of(shelf, more, rows)
        if not rows or not sieve.diversify:
            break
    return lines


def peers_of(shelf: LoadedBundle, code: int) -> npt.NDArray[np.bool_]:
    """Which items share the deepest known category of an item, shape (items,)."""
    categories = shelf.catalog.categories
    row = categories[code] if categories is not None else np.zeros(0, dtype=np.int32)
    known = np.flatnonzero(row != UNKNOWN)
    if categories is None or not len(known):
        return np.zeros(len(shelf.ids), dtype=np.bool_)
    peers: npt.NDArray[np.bool_] = categories[:, known[-1]] == row[known[-1]]
    return peers


def from_category(
    shelf: LoadedBundle, members: npt.NDArray[np.bool_], wanted: int, sieve: ItemFilter
) -> list[AnswerLine]:
    """Items that go with a category's best sellers; the score is the share of their sales that speaks for it."""
    count = np.where(members, shelf.index.item_count, 0)
    speakers = np.argsort(-count, kind="stable")[:MEMBERS]
    speakers = speakers[count[speakers] > 0]
    votes: dict[int, int] = {}
    for speaker in speakers.tolist():
        table = shelf.index.answers(speaker)
        for item in table.item[table.grade <= SOME].tolist():
            votes[item] = votes.get(item, 0) + int(count[speaker])
    total = int(count[speakers].sum())
    lines: list[AnswerLine] = []
    for item in sorted(votes, key=lambda item: (-votes[item], item)):
        if len(lines) >= wanted:
            break
        if sieve.passes(item):
            sieve.take(item)
            lines.append(AnswerLine(item, votes[item] / total, _by_category(shelf, item)))
    return lines


def _by_category(shelf: LoadedBundle, item: int) -> PairEvidence:
    nan = float("nan")
    variance = shelf.index.variance
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
        query_count=-1,
        item_count=shelf.count[item],
        query_variance=nan,
        item_variance=nan if variance is None else float(variance[item]),
        posterior=nan,
        posterior_low=nan,
        posterior_high=nan,
        grade="category",
    )


def _new_note(shelf: LoadedBundle, code: int) -> str:
    return f"{printable(shelf.names[code])} is in no training basket: what is known comes from its category."
