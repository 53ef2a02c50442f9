"""What completes a cart: each item speaks by its exact scores, on one scale, and the answer says who spoke."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from neatrec.service.item_filter import ItemFilter
from neatrec.service.loaded_bundle import LoadedBundle
from neatrec.service.query_params import LEVELS, QueryParams
from neatrec.service.snapshot import ServingSnapshot
from neatrec.serving import Model, PairEvidence, best, score_cart
from neatrec.serving.grades import PREDICTED
from neatrec.text import printable

CELLS = 4_000_000
"""Scores held at once: a large cart of a large shop is scored a few items at a time."""


@dataclass(frozen=True, slots=True)
class CartContribution:
    """A cart item that an answer goes with."""

    code: int
    part: float
    """How loudly it speaks: 1 for its own best answer, 0 for its median one; in a cart of one the model's score."""
    evidence: PairEvidence


@dataclass(frozen=True, slots=True)
class CartLine:
    code: int
    score: float
    """The mean over the cart of what each item says; the same as `Model.recommend` has it."""
    speakers: list[CartContribution]

    @property
    def grade(self) -> str:
        """The best grade among the speakers."""
        return min((speaker.evidence.grade for speaker in self.speakers), key=LEVELS.index)


@dataclass(frozen=True, slots=True)
class AnsweredCart:
    shelf: LoadedBundle
    cart: list[int]
    lines: list[CartLine]
    notes: list[str]
    asked: int
    rules: tuple[str, ...] = ()


def completes(edition: ServingSnapshot, shelf: LoadedBundle, items: list[str], question: QueryParams) -> AnsweredCart:
    """What goes with a cart; items of the cart and of its categories are left out, as are the shop's blocks."""
    held = {item: shelf.code(item) for item in items}
    cart = list(dict.fromkeys(code for code in held.values() if code is not None))
    if not cart:
        shelf.known(items[0])
    unknown = [item for item, code in held.items() if code is None]
    notes = [f"{printable(item, 60)} is not in the bundle and was left out." for item in unknown[:5]]
    notes += [f"{printable(shelf.names[code], 60)} is in no training basket." for code in cart if not shelf.count[code]]
    sieve = ItemFilter(shelf, edition.decided[shelf.name], question, cart)
    level = LEVELS.index(question.min_evidence or "some")
    model = shelf.index.model
    asked = [code for code in cart if shelf.count[code] or model.scores_unseen_items]
    lines = _lines(shelf, asked, question.k, level, sieve) if asked else []
    return AnsweredCart(shelf, cart, lines, notes, question.k, ("block",) if sieve.block_hit else ())


def _lines(shelf: LoadedBundle, asked: list[int], k: int, level: int, sieve: ItemFilter) -> list[CartLine]:
    # what a rule forbids is scored too: only so is it seen whether the rule changed the answer
    may = sieve.mask(blocked=True)
    model, queries = shelf.index.model, np.array(asked, dtype=np.int32)
    candidates = np.flatnonzero(may).astype(np.int32)
    scored = score_cart(lambda codes: _rows(model, queries, codes), len(asked), candidates, model.min_score)
    codes, total = scored.codes, scored.total
    if level < PREDICTED:
        shown = _with_evidence(shelf, asked, level, may)[codes]
        codes, total = codes[shown], total[shown]
    # one answer may forbid others, by rule or by `diversify`: so many may have to be passed over
    reach = len(codes) if sieve.diversify else k + len(sieve.blocked)
    chosen: list[tuple[int, float]] = []
    for row in best(total, reach).tolist() if len(codes) else []:
        if len(chosen) == k:
            break
        if sieve.passes(int(codes[row])):
            sieve.take(int(codes[row]))
            chosen.append((int(codes[row]), float(total[row])))
    named = [code for code, _ in chosen]
    if not named:
        return []
    pairs = model.score(np.tile(queries, len(named)), np.repeat(named, len(asked)).astype(np.int32))
    parts = scored.contributions(pairs.reshape(-1, len(asked)))
    spoken = _speakers(shelf, asked, named, parts, level)
    return [CartLine(code, score, speakers) for (code, score), speakers in zip(chosen, spoken, strict=True)]


def _rows(
    model: Model, asked: npt.NDArray[np.int32], codes: npt.NDArray[np.int32]
) -> Iterator[npt.NDArray[np.floating]]:
    """The scores of `codes` by each cart item, some items at a time."""
    size = max(1, CELLS // len(model.catalog))
    for first in range(0, len(asked), size):
        yield from model.score_all(asked[first : first + size]).take(codes, axis=1)


def _with_evidence(
    shelf: LoadedBundle, asked: list[int], level: int, may: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Which items have evidence of `level` or better with something in the cart, shape (items,)."""
    found = np.zeros(len(may), dtype=np.bool_)
    for code in asked:
        table = shelf.index.answers(code)
        found[table.item[table.grade <= level]] = True
        if shelf.may_have_more(code, level):
            used = table.item.tolist()
            found[shelf.index.beyond(code, skip=used, allowed=may, min_grade=level, k=len(may)).item] = True
    return found


def _speakers(
    shelf: LoadedBundle, asked: list[int], codes: list[int], parts: npt.NDArray[np.float64], level: int
) -> list[list[CartContribution]]:
    """For each answer the cart items that it goes with, the loudest first: by evidence, or by more than the middle.

    Grades come all together: asking pair by pair takes thirty times as long.
    """
    if not codes:
        return []
    queries, items = np.tile(asked, len(codes)), np.repeat(codes, len(asked))
    grades = shelf.index.pairs.columns(queries, items)["grade"].reshape(parts.shape)
    spoken = []
    for item, part, grade in zip(codes, parts, grades, strict=True):
        order = np.argsort(-part, kind="stable")
        heard = order[(grade[order] <= level) & ((part[order] > 0) | (grade[order] < PREDICTED))]
        # below the middle of all that it goes with, and yet the best there is
        chosen = heard if len(heard) else order[[np.argmin(grade[order])]]
        spoken.append(
            [CartContribution(asked[i], float(part[i]), shelf.index.evidence(asked[i], item)) for i in chosen]
        )
    return spoken
