"""`ServingTable`: a bundle opened to answer, and `ItemAnswers`: what goes with an item, best first."""

from __future__ import annotations

import hashlib
import os
import weakref
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.bundle import Manifest, read_bundle
from neatrec.bundle.manifest import damaged
from neatrec.bundle.store import ARRAYS, model_of, named_file, parameters_of, read_catalog
from neatrec.cooccurrence.count_kernels import find_pairs
from neatrec.data.catalog import of_categories
from neatrec.errors import must_be, must_be_one_of
from neatrec.models.base import Model, no_goals
from neatrec.models.recommendations import best
from neatrec.models.registry import model_class
from neatrec.serving.evidence import EXPLAINED, GRADES, GUESS, RULE, PairEvidence, grade_names, grade_pairs
from neatrec.serving.files import (
    ANSWER_BOUNDS,
    ANSWERS,
    FOLDER,
    OPTIONAL_ANSWER_BOUNDS,
    Bounds,
    GoalOrder,
    TableFiles,
    about_table,
    read_attachment,
    read_goals,
    read_pairs,
)
from neatrec.serving.pairs import PairTable

Codes = npt.NDArray[np.integer[Any]]

COLUMNS: dict[str, Any] = {
    "item": np.int32,
    "score": np.float32,
    "grade": np.uint8,
    "count": np.int32,
    "expected": np.float32,
    "lift": np.float32,
    "lift_low": np.float32,
    "lift_high": np.float32,
    "q": np.float32,
    "customers": np.int32,
    "forward": np.int32,
    "backward": np.int32,
    "overall_lift": np.float32,
    "season": np.int32,
    "weighted": np.int32,
}
"""Columns of an answer. Whole numbers are -1 and others NaN where they are not known."""

EVERY = slice(None)
READ_BYTES = 1 << 30
"""At once: some systems read no 2 GiB."""
NUMBERS = tuple(name for name in COLUMNS if name not in {"item", "score", "grade"})


def missing(name: str, length: int) -> npt.NDArray[Any]:
    """A column of which nothing is known; it takes no memory."""
    kind = COLUMNS[name]
    return np.broadcast_to(kind(-1 if kind is np.int32 else np.nan), length)


@dataclass(frozen=True, slots=True, eq=False)
class ItemFacts:
    """What is known of each item by itself, arrays of shape (items,), and what grades mean."""

    count: npt.NDArray[np.int64]
    variance: npt.NDArray[np.float32] | None
    reason: str
    grades: tuple[str, ...]

    def evidence(self, queries: Codes, items: Codes, columns: Mapping[str, npt.NDArray[Any]]) -> list[PairEvidence]:
        """The evidence of aligned pairs, from columns with `grade` and `NUMBERS`."""
        nothing = np.broadcast_to(np.float32(np.nan), len(self.count))
        variance = nothing if self.variance is None else self.variance
        about = (facts[codes].tolist() for facts in (self.count, variance) for codes in (queries, items))
        grades = [self.grades[grade] for grade in columns["grade"].tolist()]
        return list(
            map(PairEvidence, *(columns[name].tolist() for name in NUMBERS), *about, grades, repeat(self.reason))
        )


@dataclass(frozen=True, slots=True)
class AnswerLine:
    """One answer."""

    code: int
    score: float | None
    """None: placed by a rule of the shop."""
    evidence: PairEvidence

    @property
    def grade(self) -> str:
        return self.evidence.grade


class ItemAnswers:
    """Arrays of one length, best first: `item`, `score`, `grade` (a number into the table's `grades`) and the other
    `COLUMNS`.

    Those of a table are slices of its columns, made when they are asked for: nothing is copied.
    """

    item: npt.NDArray[np.int32]
    score: npt.NDArray[np.float32]
    grade: npt.NDArray[np.uint8]

    def __init__(
        self,
        query: int,
        facts: ItemFacts,
        columns: Mapping[str, npt.NDArray[Any]],
        rows: slice | npt.NDArray[np.integer[Any]] = EVERY,
    ) -> None:
        """The answers of one query that stand in these rows of `columns`."""
        self.query = query
        self._facts, self._columns, self._rows = facts, columns, rows

    def __getattr__(self, name: str) -> Any:
        if name not in COLUMNS:
            raise AttributeError(f"answers have no {name!r}")
        values = self._columns[name][self._rows]
        setattr(self, name, values)
        return values

    def __len__(self) -> int:
        return len(self.item)

    def __repr__(self) -> str:
        return f"<{len(self)} answers for item {self.query}>"

    def evidence(self, row: int) -> PairEvidence:
        """The evidence of one answer."""
        return self.lines([row])[0].evidence

    def lines(self, rows: Sequence[int]) -> list[AnswerLine]:
        """Chosen answers. Column by column: asking row by row takes several times as long."""
        if not rows:
            return []
        columns = {name: getattr(self, name)[rows] for name in COLUMNS}
        items = columns["item"]
        found = self._facts.evidence(np.broadcast_to(self.query, len(items)), items, columns)
        return list(map(AnswerLine, items.tolist(), columns["score"].tolist(), found))


class ServingTable:
    """A bundle with its serving table: checked when it is opened, read-only, and the same until its last user is gone.

    It stays whole when the bundle is replaced or removed meanwhile, and when a file is changed in its place.

    >>> index = ServingTable.open("bundle")  # doctest: +SKIP
    >>> index.answers(17).item[:10]  # doctest: +SKIP

    `columns` are those of all answers by the bundle's own goal, item after item; those of an item begin at
    `start[code]`.
    """

    def __init__(self, folder: Path, manifest: Manifest, about: dict[str, Any]) -> None:
        self.manifest = manifest
        self.version = manifest.content_hash
        self.k = int(about["k"])
        self.recall: dict[str, Any] | None = about.get("recall")
        """What an approximate table has of the exact one (`approximate.MeasuredRecall`); None: the table is exact."""
        self.catalog, self.item_count = read_catalog(folder, manifest)
        self.attachment: dict[str, Any] | None = read_attachment(folder, manifest)
        self.pairs: PairTable
        files, size = TableFiles(folder, manifest), len(self.catalog)
        self.pairs, items = read_pairs(files, about, size)
        self.variance: npt.NDArray[np.float32] | None = items.get("variance")
        self.grades = grade_names(self.pairs.strata)
        """The names of the grades that the table's numbers stand for."""
        codes = {"item": Bounds("i", 0, size - 1), "grade": Bounds("u", 0, len(self.grades) - 1)}
        columns = files.columns(ANSWERS, ANSWER_BOUNDS | codes, OPTIONAL_ANSWER_BOUNDS)
        rows = len(columns["item"])
        self._pool = {name: columns[name] if name in columns else missing(name, rows) for name in COLUMNS}
        """Of the answers by any goal."""
        self.start = files.starts(items, "answers", rows, more=bool(about.get("goals")))
        self._start: list[int] = self.start.tolist()
        if np.isnan(columns["score"][: self._start[-1]]).any():  # those of other goals only have none
            raise damaged(folder / FOLDER / ANSWERS, "column 'score' must hold numbers")
        if about["columns"] == 1 and rows:
            times = self._pool["customers" if self.pairs.by_customer else "count"]
            self._pool["grade"] = grade_pairs(times, self._pool["lift_low"], self._pool["q"])
        self.columns = {name: values[: self._start[-1]] for name, values in self._pool.items()}
        self.goal: str | None = getattr(parameters_of(manifest, folder), "goal", None)
        """What it answers by; None for a model with one ranking."""
        self.goals = model_class(manifest.model).goals
        """What it can answer by."""
        self._own: ServingTable | None = None
        """The table of the bundle's own goal; None: this one."""
        self._orders = read_goals(files, about, items, rows)
        self._order: GoalOrder | None = None
        self._facts = ItemFacts(self.item_count, self.variance, str(about["reason"]), self.grades)
        self._reasons: dict[str, str] = about.get("reasons", {})
        self._folder, self._arrays = folder, named_file(folder, manifest, ARRAYS).open("rb")
        weakref.finalize(self, self._arrays.close)

    @classmethod
    def open(cls, bundle: str | Path, *, verify: bool = True) -> ServingTable:
        """The index of a bundle. A damaged file, or a bundle without a table, is refused with a sentence."""
        return read_bundle(
            bundle, lambda folder, manifest: cls(folder, manifest, about_table(manifest, bundle)), verify=verify
        )

    def __len__(self) -> int:
        return len(self.catalog)

    @cached_property
    def model(self) -> Model:
        """The model itself, for what the table does not hold; read at the first use."""
        from safetensors.numpy import load

        if self._own is not None and self.goal is not None:
            return self._own.model.with_goal(self.goal)
        file = self._folder / ARRAYS
        content = read_all(self._arrays.fileno())
        if hashlib.sha256(content).hexdigest() != self.manifest.files[ARRAYS].sha256:
            raise damaged(file, "it was changed after the bundle was opened")
        return model_of(self.manifest, self.catalog, load(content), self._folder)

    def with_goal(self, goal: str | None) -> ServingTable:
        """The same bundle, answering by another goal of its model; None: by its own."""
        own = self if self._own is None else self._own
        if goal is None or goal == own.goal:
            return own
        if not self.goals:
            raise no_goals(self.manifest.model, goal)
        if goal not in self.goals:
            raise must_be_one_of("goal", self.goals, goal)
        other = copy(own)
        other.__dict__.pop("model", None)
        other.goal, other._own, other._order = goal, own, own._orders.get(goal)
        other._facts = ItemFacts(self.item_count, self.variance, self._reasons.get(goal, own.reason), self.grades)
        return other

    @property
    def reason(self) -> str:
        """Why the model names a pair without evidence; see `evidence.REASONS`."""
        return self._facts.reason

    def answers(self, code: int) -> ItemAnswers:
        """The best of an item by the table, at most `k`; by the bundle's own goal slices, nothing is copied."""
        if self._own is not None:
            return self._by_order(code)
        return ItemAnswers(code, self._facts, self.columns, slice(self._start[code], self._start[code + 1]))

    def _by_order(self, code: int) -> ItemAnswers:
        if self._order is None:  # an older table
            return self.beyond(code)
        start, row, score = self._order
        part = slice(int(start[code]), int(start[code + 1]))
        found = ItemAnswers(code, self._facts, self._pool, row[part])
        found.score = score[part]
        return found

    def evidence(self, query: int, item: int) -> PairEvidence:
        """What the training baskets say about any pair, in the table or not."""
        if self._own is not None:
            return replace(self._own.evidence(query, item), reason=self.reason)
        for code in (query, item):
            if not 0 <= code < len(self):
                raise must_be("item", f"a code of the catalogue (0 to {len(self) - 1})", code)
        first, last = self._start[query], self._start[query + 1]
        rows = np.flatnonzero(self.columns["item"][first:last] == item)
        if len(rows):
            return self.answers(query).evidence(int(rows[0]))
        return self.evidence_of(np.array([query]), np.array([item]))[0]

    def evidence_of(self, queries: Codes, items: Codes) -> list[PairEvidence]:
        """The evidence of aligned pairs, from the counts."""
        return self._facts.evidence(queries, items, self._evidence_columns(queries, items))

    def beyond(
        self,
        code: int,
        allowed: npt.NDArray[np.bool_] | None = None,
        *,
        min_grade: int = GUESS,
        k: int | None = None,
    ) -> ItemAnswers:
        """The best by exact scores of the model, when filters have used up the table.

        Of `allowed` (items,), by default the candidates of the table, those whose grade is at most `min_grade`, so none
        that strata explain; at most `k` (default: the table's).
        """
        may = self.candidates(code) if allowed is None else allowed.copy()
        may[self.explained_with(code)] = False
        if self.item_count[code] == 0 and not self.model.scores_unseen_items:
            may[:] = False
        scores = np.zeros(0)
        if min_grade < GUESS:
            items = self.evident_with(code, min_grade)
            items = items[may[items]]
            if len(items):
                scores = self.model.score(np.full(len(items), code, dtype=np.int32), items)
        else:
            items = np.flatnonzero(may).astype(np.int32)
            if len(items):
                scores = self.model.score_all([code])[0, items].astype(np.float64)
        if len(items):
            items, scores = items[scores > self.model.min_score], scores[scores > self.model.min_score]
        top = best(scores, self.k if k is None else k)
        return self._answers_of(code, items[top], scores[top])

    def may_have_more(self, code: int, level: int) -> bool:
        """Whether answers of grade `level` or better may exist beyond the table of an item."""
        table = self.answers(code)
        if len(table) < self.k:
            return False
        return level >= GUESS or len(self.evident_with(code, level)) > int((table.grade <= level).sum())

    def evident_with(self, code: int, level: int) -> npt.NDArray[np.int32]:
        """The items that have evidence of `level` or better with an item, ascending."""
        start, items, grades = self.evident_pairs
        part = slice(int(start[code]), int(start[code + 1]))
        found: npt.NDArray[np.int32] = items[part][grades[part] <= level]
        return found

    def grades_of(self, queries: npt.NDArray[np.int32], items: npt.NDArray[np.int32]) -> npt.NDArray[np.uint8]:
        """The grades of aligned pairs, without the numbers of their evidence, which take longer."""
        start, item, grade = self.evident_pairs
        place = find_pairs(start, item, queries, items)
        found = np.full(len(place), GUESS, dtype=np.uint8)
        found[place >= 0] = grade[place[place >= 0]]
        if self.pairs.explained is not None:
            place = self.pairs.find(queries, items)
            explained = np.where(place < 0, 0, self.pairs.explained[place])
            found[explained > 0] = EXPLAINED - 1 + explained[explained > 0]
        return found

    @cached_property
    def evident_pairs(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
        """For each item what is certain or likely to go with it: where its items start, the items, their grades.

        Items whose table holds them all need no exact scores; without this, every short answer would ask for them.
        """
        if self._own is not None:
            return self._own.evident_pairs
        one, other, columns = self.pairs.with_evidence()
        return self._by_item(one, other, columns["grade"])

    def with_evidence(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], dict[str, npt.NDArray[Any]]]:
        """`PairTable.with_evidence`; `evident_pairs` is kept from the same pass, which takes a second per million."""
        own = self if self._own is None else self._own
        one, other, columns = own.pairs.with_evidence()
        if "evident_pairs" not in own.__dict__:
            own.__dict__["evident_pairs"] = own._by_item(one, other, columns["grade"])
        return one, other, columns

    def _by_item(
        self, one: npt.NDArray[np.int32], other: npt.NDArray[np.int32], grade: npt.NDArray[np.uint8]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
        """Pairs under both of their items, as `evident_pairs` has them."""
        query, item = np.concatenate([one, other]), np.concatenate([other, one])
        order = np.lexsort((item, query))
        start = np.concatenate([[0], np.cumsum(np.bincount(query, minlength=len(self)))])
        return start, item[order], np.tile(grade, 2)[order]

    @cached_property
    def category_codes(self) -> npt.NDArray[np.int32]:
        """The category of each item that an answer must not share with the query; UNKNOWN where it is not known."""
        level = self.manifest.parameters.get("category_level")
        return self.catalog.category_of(level if level in self.catalog.levels else None)

    @cached_property
    def category(self) -> list[int]:
        """`category_codes` as a list: asked for one item, it answers several times as fast."""
        codes: list[int] = self.category_codes.tolist()
        return codes

    def explained(self, code: int, month: int | None = None) -> ItemAnswers:
        """Items that look certain with an item over all baskets, but not within strata: the largest overall lift first.

        `month`: only those whose season holds this month, from 1.
        """
        items = self.explained_with(code)
        columns = self.pairs.columns(np.full(len(items), code, dtype=np.int32), items)
        chosen = np.argsort(-columns["overall_lift"], kind="stable")
        if month is not None:
            chosen = chosen[(columns["season"][chosen] >> (month - 1) & 1) > 0]
        scores = self.model.score(np.full(len(chosen), code), items[chosen]) if len(chosen) else np.zeros(0)
        return self._answers_of(code, items[chosen], scores)

    def explained_with(self, *codes: int) -> npt.NDArray[np.int32]:
        """The items that look certain with each of `codes` over all baskets, but not within strata: no answers to them;
        ascending."""
        inside = np.zeros(len(self), dtype=np.bool_)
        inside[list(codes)] = True
        smaller, larger = self._explained_pairs
        others = np.concatenate([larger[inside[smaller]], smaller[inside[larger]]])
        items, times = np.unique(others, return_counts=True)
        found: npt.NDArray[np.int32] = items[times == len(codes)]
        return found

    @cached_property
    def _explained_pairs(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        pairs = self.pairs
        places = np.flatnonzero(pairs.explained) if pairs.explained is not None else np.zeros(0, dtype=np.int64)
        smaller = np.searchsorted(pairs.start, places, side="right") - 1
        return smaller.astype(np.int32), pairs.item[places]

    def candidates(self, code: int) -> npt.NDArray[np.bool_]:
        """Which items the table may name for an item: those that somebody bought, of other categories, (items,)."""
        may: npt.NDArray[np.bool_] = ~of_categories(self.category_codes, [self.category[code]]) & (self.item_count > 0)
        may[code] = False
        return may

    def _answers_of(self, code: int, items: npt.NDArray[np.int32], scores: npt.NDArray[np.float64]) -> ItemAnswers:
        columns = self._evidence_columns(np.full(len(items), code, dtype=np.int32), items)
        return ItemAnswers(code, self._facts, {"item": items, "score": scores.astype(np.float32), **columns})

    def _evidence_columns(self, queries: Codes, items: Codes) -> dict[str, npt.NDArray[Any]]:
        columns = self.pairs.columns(queries, items)
        return columns | {name: missing(name, len(items)) for name in NUMBERS if name not in columns}

    def coverage(self) -> dict[str, dict[str, float]]:
        """For each grade the share of the bought items, and of their sales, whose best answer has it: in the table, or
        beyond it.

        `none`: items without an answer. Categories and rules belong to a service, so their shares are 0 here.
        """
        bought = self.item_count > 0
        start = self.start
        grade = np.full(len(self), len(GRADES), dtype=np.int64)
        has = np.diff(start) > 0
        # the best evidence among an item's answers, not the grade of its first one
        grade[has] = np.minimum.reduceat(self.columns["grade"], start[:-1][has]) if has.any() else 0
        grade[has & (grade >= EXPLAINED)] = GUESS
        first, _, evident = self.evident_pairs
        known = np.diff(first) > 0
        if known.any():
            grade[known] = np.minimum(grade[known], np.minimum.reduceat(evident, first[:-1][known]))
        items = np.bincount(grade[bought], minlength=RULE + 2) / max(int(bought.sum()), 1)
        lines = np.bincount(grade[bought], self.item_count[bought], minlength=RULE + 2)
        sales = lines / max(int(lines.sum()), 1)
        names = (*GRADES, "none")
        return {name: {"items": float(items[i]), "sales": float(sales[i])} for i, name in enumerate(names)}


def read_all(descriptor: int) -> bytes:
    """A whole open file, whatever other threads read of it meanwhile."""
    parts: list[bytes] = []
    while part := os.pread(descriptor, READ_BYTES, sum(map(len, parts))):
        parts.append(part)
    return b"".join(parts)
