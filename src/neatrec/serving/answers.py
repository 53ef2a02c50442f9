"""`Answers`: the one result of `recommend`, in Python, the command line, the API and the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from neatrec.data.catalog import Catalog
from neatrec.data.table_result import TableResult
from neatrec.serving.evidence import PUBLIC, Evidence
from neatrec.text import printable


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
        """One of `GRADES`."""
        return self.evidence.grade


@dataclass(frozen=True, repr=False)
class Answers(TableResult):
    """The answers to one question, best first."""

    catalog: Catalog
    cart: tuple[int, ...]
    """Codes of the query items."""
    lines: tuple[Answer, ...]
    k: int
    """Number of answers asked for."""
    notes: tuple[str, ...] = ()
    """Sentences on new items, and on answers that are left out."""
    explained: tuple[Answer, ...] | None = None
    """On request: pairs that look certain overall, but not within season, store or basket size."""
    left_out: int = 0
    """Number of pairs with less evidence than asked for that would fill the list."""
    rule_hits: tuple[str, ...] = ()
    """Rules of the shop that changed the answers: block, pin, boost."""

    SHOWN: ClassVar[tuple[str, ...]] = ("item", "id", "goes_with", "grade", "strength")
    """Columns that a prompt and a notebook show, with the words."""

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
        numbers = {"words": evidence.words(), **evidence.to_dict()}
        goes_with = [{**self._graded(one), "words": one.evidence.words()} for one in line.goes_with]
        return {"rank": rank, **self._graded(line), "evidence": numbers, "goes_with": goes_with}

    def _graded(self, line: Answer | Contribution) -> dict[str, Any]:
        grades = {"grade": line.evidence.grade, "strength": line.evidence.strength}
        return {**brief(self.catalog, line.code), **grades}

    def to_arrow(self) -> pa.Table:
        """One row per answer: item, id, the item it goes with, grade, strength, words, numbers."""
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
        ids = pa.field("id", pa.int64() if self.catalog.integer_ids else pa.string())
        return pa.Table.from_pylist(rows, ANSWER_SCHEMA.set(1, ids))

    def _head(self) -> tuple[pa.Table, int]:
        rows, number = super()._head()
        same = ["same_category"] if any(rows["same_category"].to_pylist()) else []
        return rows.select([*self.SHOWN, *same, "words"]), number

    def _caption(self) -> str:
        names = ", ".join(printable(self.catalog.name(code)) for code in self.cart)
        return f"Goes with {names}"

    def _notes(self) -> tuple[str, ...]:
        return self.notes


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
