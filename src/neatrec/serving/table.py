"""`PairTable`: a bundle opened to answer, the pairs of each item best first with their evidence."""

from __future__ import annotations

import hashlib
import weakref
from functools import cached_property
from pathlib import Path
from threading import Lock

import numpy as np
import numpy.typing as npt

from neatrec.bundle import Manifest, read_bundle
from neatrec.bundle.manifest import damaged
from neatrec.bundle.store import ARRAYS, arrays_of, model_of, named_file, read_catalog
from neatrec.models.base import Model
from neatrec.serving.counted import EvidenceTable
from neatrec.serving.evidence import GRADES, GUESS, LIKELY, RULE, Evidence
from neatrec.serving.files import (
    ANSWERS,
    Columns,
    answer_columns,
    read_columns,
    read_pairs,
    table_note,
)

Codes = npt.NDArray[np.int32]
Places = npt.NDArray[np.int64]


class PairTable:
    """The serving table of a bundle: opened once, checked, immutable whatever its files become.

    The model is read only when a question needs it: guesses, and carts.

    >>> table = PairTable.open("bundle")  # doctest: +SKIP
    >>> table.catalog.name(table.items_of(17)[0])  # doctest: +SKIP
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        about = table_note(folder, manifest)
        self.manifest, self.version = manifest, manifest.content_hash
        self.k: int = about["k"]
        self.reason: str = about["reason"]
        """Why the model names a pair without evidence; see `evidence.REASONS`."""
        self.same_category: str = about["same_category"]
        """One of `SAME_CATEGORY`, for questions that name none."""
        self.catalog, self.item_count = read_catalog(folder, manifest)
        self.pairs = read_pairs(folder, manifest, about["evidence"], self.catalog)
        specs = answer_columns(len(self), len(self.pairs))
        self.answers: Columns = read_columns(folder, manifest, ANSWERS, specs)
        """`query`, `item`, `pair` (its row) and `score`: item after item, best first."""
        self.start: Places = np.searchsorted(self.answers["query"], np.arange(len(self) + 1))
        self._folder, self._lock = folder, Lock()
        self._arrays = named_file(folder, manifest, ARRAYS).open("rb")
        weakref.finalize(self, self._arrays.close)

    @classmethod
    def open(cls, bundle: str | Path, *, verify: bool = True) -> PairTable:
        """The table of a bundle; a damaged file, or a bundle without a table, is refused."""
        return read_bundle(bundle, cls, verify=verify)

    def __len__(self) -> int:
        """The number of items."""
        return len(self.catalog)

    @cached_property
    def model(self) -> Model:
        """The model itself, read at the first use."""
        with self._lock:
            self._arrays.seek(0)
            content = self._arrays.read()
        file = self._folder / ARRAYS
        if hashlib.sha256(content).hexdigest() != self.manifest.files[ARRAYS].sha256:
            raise damaged(file, "it was changed after the bundle was opened")
        return model_of(self.manifest, self.catalog, arrays_of(content, file), self._folder)

    # ---- answers

    def rows_of(
        self, code: int | None = None, level: int = GUESS, same_category: str = "last"
    ) -> Places:
        """The rows of `answers` of an item (None: of all) of grade `level` or better, in order."""
        first, end = (0, len(self)) if code is None else (code, code + 1)
        rows = slice(int(self.start[first]), int(self.start[end]))
        pair, columns = self.answers["pair"][rows], self.pairs.columns
        kept = columns["grade"][pair] <= level
        if same_category == "exclude":
            kept &= columns["same_category"][pair] == 0
        places = np.flatnonzero(kept)
        if same_category == "mix":
            weaker = columns["grade"][pair[places]] > LIKELY
            low = np.where(weaker, 0, columns["lift_low"][pair[places]])
            query = self.answers["query"][rows][places]
            places = places[np.lexsort((-low, weaker, query))]
        return rows.start + places

    def items_of(self, code: int, level: int = LIKELY) -> Codes:
        """The items of these answers."""
        items: Codes = self.answers["item"][self.rows_of(code, level)]
        return items

    def explained_with(self, *codes: int) -> Codes:
        """The items that look certain with each of `codes` overall, but not within strata."""
        inside = np.zeros(len(self), dtype=np.bool_)
        inside[list(codes)] = True
        one, other = (side[self.pairs.explained] for side in (self.pairs.one, self.pairs.other))
        others = np.concatenate([other[inside[one]], one[inside[other]]])
        items, times = np.unique(others, return_counts=True)
        found: Codes = items[times == len(codes)]
        return found

    # ---- evidence

    def evidence(self, query: int, item: int) -> Evidence:
        """The evidence of any pair, in the table or not."""
        return self.evidence_of(np.array([query]), np.array([item]))[0]

    def evidence_of(
        self, queries: npt.ArrayLike, items: npt.ArrayLike, pairs: npt.ArrayLike | None = None
    ) -> list[Evidence]:
        """The evidence of aligned pairs; `pairs`: their rows, where they are known."""
        columns = self.pairs.of_pairs(queries, items, pairs)
        columns["query_count"], columns["item_count"] = (
            self.item_count[np.asarray(codes, dtype=np.int32)] for codes in (queries, items)
        )
        columns["grade"] = np.array(self.pairs.grades)[columns["grade"]]
        rows = zip(*(values.tolist() for values in columns.values()), strict=True)
        return [
            Evidence(**dict(zip(columns, row, strict=True)), reason=self.reason) for row in rows
        ]

    def coverage(self) -> dict[str, dict[str, float]]:
        """Grade -> share of the bought items and of their sales; see `coverage_of`."""
        return coverage_of(self.pairs, self.answers, self.item_count)


def coverage_of(
    pairs: EvidenceTable, answers: Columns, item_count: Places
) -> dict[str, dict[str, float]]:
    """Grade -> share of the bought items, and of their sales, whose best answer has it.

    `none`: items without an answer. Categories and rules belong to a service: 0 here.
    """
    bought, grade = item_count > 0, np.full(len(item_count), RULE + 1, dtype=np.int64)
    first = np.flatnonzero(np.diff(answers["query"], prepend=-1))
    if len(first):
        grades = pairs.columns["grade"][answers["pair"]]
        grade[answers["query"][first]] = np.minimum.reduceat(grades, first)
    items = np.bincount(grade[bought], minlength=RULE + 2) / max(int(bought.sum()), 1)
    lines = np.bincount(grade[bought], item_count[bought], minlength=RULE + 2)
    sales = lines / max(int(lines.sum()), 1)
    return {
        name: {"items": float(items[place]), "sales": float(sales[place])}
        for place, name in enumerate((*GRADES, "none"))
    }
