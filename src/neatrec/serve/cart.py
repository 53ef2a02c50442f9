"""What completes a cart: each item speaks by its own answers, on one scale, and the answer says who spoke."""

from __future__ import annotations

from dataclasses import dataclass

from neatrec.index import Answers, Evidence
from neatrec.serve.edition import Edition
from neatrec.serve.question import LEVELS, Question
from neatrec.serve.shelf import Shelf
from neatrec.serve.sieve import Sieve
from neatrec.text import printable


@dataclass(frozen=True, slots=True)
class Speaker:
    """A cart item that an answer goes with."""

    code: int
    part: float
    """How loudly it speaks, 0 to 1: 1 for its own best answer."""
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class CartLine:
    code: int
    score: float
    """The mean over the cart of how loudly each item speaks for it."""
    speakers: list[Speaker]

    @property
    def grade(self) -> str:
        """The best grade among the speakers."""
        return min((speaker.evidence.grade for speaker in self.speakers), key=LEVELS.index)


@dataclass(frozen=True, slots=True)
class CartAnswered:
    shelf: Shelf
    cart: list[int]
    lines: list[CartLine]
    notes: list[str]
    asked: int
    rules: tuple[str, ...] = ()


def completes(edition: Edition, shelf: Shelf, items: list[str], question: Question) -> CartAnswered:
    """What goes with a cart; items of the cart and of its categories are left out, as are the shop's blocks."""
    held = {item: shelf.code(item) for item in items}
    cart = list(dict.fromkeys(code for code in held.values() if code is not None))
    if not cart:
        shelf.known(items[0])
    unknown = [item for item, code in held.items() if code is None]
    notes = [f"{printable(item, 60)} is not in the bundle and was left out." for item in unknown[:5]]
    notes += [f"{printable(shelf.names[code], 60)} is in no training basket." for code in cart if not shelf.count[code]]
    sieve = Sieve(shelf, edition.decided[shelf.name], question, cart)
    level = LEVELS.index(question.min_evidence or "some")
    votes: dict[int, list[Speaker]] = {}
    for code in cart:
        for speaker, item in _speaks(shelf, code, level, question.k, sieve):
            votes.setdefault(item, []).append(speaker)
    lines = _best(votes, len(cart), question.k, sieve)
    return CartAnswered(shelf, cart, lines, notes, question.k, ("block",) if sieve.block_hit else ())


def _speaks(shelf: Shelf, code: int, level: int, k: int, sieve: Sieve) -> list[tuple[Speaker, int]]:
    """One cart item's answers that may be named: from its table, and exact ones where filters used that up."""
    table = shelf.index.answers(code)
    spoken = _parts(table, code, level, sieve)
    if len(spoken) < k and shelf.may_have_more(code, level):
        more = shelf.index.beyond(code, skip=table.item.tolist(), allowed=sieve.mask(), min_grade=level, k=k)
        spoken += _parts(more, code, level, sieve, _scale(table))
    return spoken


def _scale(table: Answers) -> tuple[float, float]:
    """Scores that mean 0 and 1: just below the last answer of the table, and its best."""
    best, last = float(table.score[0]), float(table.score[-1])
    # the last answer still says something: it stands a step above 0
    return last - (best - last) / max(len(table), 1), best


def _parts(
    answers: Answers, code: int, level: int, sieve: Sieve, scale: tuple[float, float] | None = None
) -> list[tuple[Speaker, int]]:
    if not len(answers):
        return []
    low, high = scale or _scale(answers)
    reach = high - low
    grades, scores = answers.grade.tolist(), answers.score.tolist()
    spoken = []
    for row, item in enumerate(answers.item.tolist()):
        if grades[row] <= level and sieve.passes(item):
            part = max((scores[row] - low) / reach, 0.0) if reach > 0 else 1.0
            spoken.append((Speaker(code, part, answers.evidence(row)), item))
    return spoken


def _best(votes: dict[int, list[Speaker]], cart: int, k: int, sieve: Sieve) -> list[CartLine]:
    total = {item: sum(speaker.part for speaker in speakers) / cart for item, speakers in votes.items()}
    lines: list[CartLine] = []
    for item in sorted(total, key=lambda item: (-total[item], item)):
        if len(lines) == k:
            break
        if sieve.passes(item):
            sieve.take(item)
            lines.append(CartLine(item, total[item], sorted(votes[item], key=lambda speaker: -speaker.part)))
    return lines
