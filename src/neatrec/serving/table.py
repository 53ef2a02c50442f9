"""`PairTable`: a bundle opened to answer, the pairs of each item best first with their evidence."""

from __future__ import annotations

import hashlib
import json
import os
import weakref
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.bundle import Manifest, read_bundle
from neatrec.bundle.manifest import NAME, Kinds, check_entries, damaged
from neatrec.bundle.store import (
    ARRAYS,
    arrays_of,
    model_of,
    named_file,
    parameters_of,
    read_catalog,
)
from neatrec.data.catalog import Catalog
from neatrec.data.counts import DEEPEST, CountOptions
from neatrec.errors import BundleError, InputError, must_be
from neatrec.models.base import Model
from neatrec.models.ranking import best
from neatrec.serving.counted import EvidenceTable
from neatrec.serving.evidence import (
    EXPLAINED,
    GRADES,
    GUESS,
    LIKELY,
    RULE,
    STORED,
    Evidence,
    Numbers,
)
from neatrec.serving.files import Column, Columns, read_columns, write_columns
from neatrec.statistics import LiftPrior
from neatrec.text import printable

Codes = npt.NDArray[np.int32]
Places = npt.NDArray[np.int64]

FOLDER = NOTE = "table"
"""The folder of the table in a bundle, and the entry of the manifest's notes that describes it."""
ANSWERS, ITEMS, PAIRS = (f"{FOLDER}/{name}.arrow" for name in ("answers", "items", "pairs"))
PRIOR = f"{FOLDER}/lift_prior.json"
ABOUT: Kinds = {"k": (int,), "reason": (str,), "same_category": (str,), "evidence": (dict,)}
ABOUT_EVIDENCE: Kinds = {
    "by_customer": (bool,),
    "strata": (list,),
    **dict.fromkeys(("min_count", "baskets", "records"), (int,)),
}
"""The types in the manifest's entry about the table."""
SAME_CATEGORY = ("last", "exclude", "mix")
"""Where answers of the question's own category stand: after all others, nowhere, or among them by
the lower end of their lift."""
READ_BYTES = 1 << 30
"""At once: some systems read no 2 GiB."""


def code_column(size: int, kind: str = "i4") -> Column:
    """Codes, or rows, below `size`."""
    return Column(np.dtype(kind), 0, size - 1)


def pair_columns(items: int, grades: int) -> dict[str, Column]:
    """The columns of `pairs.arrow`: derived from the fields of `Evidence`."""
    found = {"one": code_column(items), "other": code_column(items)}
    for name, spec in STORED.items():
        facts = spec.metadata
        unknown = np.nan if facts["kind"].kind == "f" else -1
        found[name] = Column(
            facts["kind"], facts["low"], facts["high"], unknown, not facts["optional"]
        )
    return {**found, "grade": Column(np.dtype("u1"), 0, grades - 1)}


def answer_columns(items: int, pairs: int) -> dict[str, Column]:
    """The columns of `answers.arrow`."""
    codes = code_column(items)
    score = Column(np.dtype("f4"), -np.inf, np.inf, np.nan)
    return {"query": codes, "item": codes, "pair": code_column(pairs, "i8"), "score": score}


FACTOR = Column(np.dtype("f8"), 0, 1e300)
ITEM_COLUMNS = {"query_factor": FACTOR, "item_factor": FACTOR}


class PairTable:
    """The serving table of a bundle: opened once, checked, immutable whatever its files become.

    The model is read only when a question needs it: guesses, and carts.

    >>> table = PairTable.open("bundle")  # doctest: +SKIP
    >>> table.catalog.name(table.items_of(17)[0])  # doctest: +SKIP
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        about = _about(folder, manifest)
        self.manifest = manifest
        self.version = manifest.content_hash
        self.k: int = about["k"]
        self.reason: str = about["reason"]
        """Why the model names a pair without evidence; see `evidence.REASONS`."""
        self.same_category: str = about["same_category"]
        """One of `SAME_CATEGORY`, for questions that name none."""
        self.catalog, self.item_count = read_catalog(folder, manifest)
        self.pairs = _read_pairs(folder, manifest, about["evidence"], self.catalog)
        self.grades = self.pairs.grades
        specs = answer_columns(len(self), len(self.pairs))
        self.answers: Columns = read_columns(folder, manifest, ANSWERS, specs)
        """`query`, `item`, `pair` (its row) and `score`: item after item, best first."""
        self.start: Places = np.searchsorted(self.answers["query"], np.arange(len(self) + 1))
        self._start: list[int] = self.start.tolist()
        self._folder, self._arrays = folder, named_file(folder, manifest, ARRAYS).open("rb")
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
        file = self._folder / ARRAYS
        content = read_all(self._arrays.fileno())
        if hashlib.sha256(content).hexdigest() != self.manifest.files[ARRAYS].sha256:
            raise damaged(file, "it was changed after the bundle was opened")
        return model_of(self.manifest, self.catalog, arrays_of(content, file), self._folder)

    @cached_property
    def category(self) -> list[int]:
        """The category of each item; negative: unknown."""
        codes: list[int] = self.pairs.category.tolist()
        return codes

    # ---- answers

    def rows_of(
        self, code: int | None = None, level: int = GUESS, same_category: str = "last"
    ) -> Places:
        """The rows of `answers` of an item (None: of all) of grade `level` or better, in order."""
        first = 0 if code is None else self._start[code]
        rows = slice(first, None if code is None else self._start[code + 1])
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
        return first + places

    def items_of(self, code: int, level: int = LIKELY) -> Codes:
        """The items of these answers."""
        items: Codes = self.answers["item"][self.rows_of(code, level)]
        return items

    def guesses(self, code: int, allowed: npt.NDArray[np.bool_], k: int) -> tuple[Codes, Numbers]:
        """The best `k` items of `allowed` (items,) by the model, and their scores.

        Items that strata explain with `code` are left out.
        """
        may = allowed.copy()
        may[self.explained_with(code)] = False
        items = np.flatnonzero(may).astype(np.int32)
        if not len(items) or (self.item_count[code] == 0 and not self.model.scores_unseen_items):
            return items[:0], np.zeros(0)
        scores = self.model.score_all([code])[0, items].astype(np.float64)
        above = scores > self.model.min_score
        items, scores = items[above], scores[above]
        top = best(scores, k)
        return items[top], scores[top]

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
        for code in (query, item):
            if not 0 <= code < len(self):
                raise must_be("item", f"a code of the catalogue (0 to {len(self) - 1})", code)
        return self.evidence_of(np.array([query]), np.array([item]))[0]

    def evidence_of(
        self, queries: npt.ArrayLike, items: npt.ArrayLike, pairs: npt.ArrayLike | None = None
    ) -> list[Evidence]:
        """The evidence of aligned pairs; `pairs`: their rows, where they are known."""
        one, other = np.asarray(queries, dtype=np.int32), np.asarray(items, dtype=np.int32)
        columns = self.evidence_columns(one, other, pairs)
        names = [self.grades[grade] for grade in columns.pop("grade").tolist()]
        values = zip(*(columns[name].tolist() for name in columns), strict=True)
        fields = list(columns)
        return [
            Evidence(**dict(zip(fields, value, strict=True)), grade=grade, reason=self.reason)
            for value, grade in zip(values, names, strict=True)
        ]

    def evidence_columns(
        self, queries: Codes, items: Codes, pairs: npt.ArrayLike | None = None
    ) -> dict[str, Numbers]:
        """The fields of `Evidence` of aligned pairs as columns; `grade`: a number into `grades`."""
        found = self.pairs.of_pairs(queries, items, pairs)
        found["query_count"] = self.item_count[queries]
        found["item_count"] = self.item_count[items]
        return found

    def coverage(self) -> dict[str, dict[str, float]]:
        """Grade -> share of the bought items, and of their sales, whose best answer has it.

        `none`: items without an answer. Categories and rules belong to a service: 0 here.
        """
        bought, start = self.item_count > 0, self.start
        grade = np.full(len(self), RULE + 1, dtype=np.int64)
        has = np.diff(start) > 0
        if has.any():
            grades = self.pairs.columns["grade"][self.answers["pair"]]
            grade[has] = np.minimum.reduceat(grades, start[:-1][has])
        items = np.bincount(grade[bought], minlength=RULE + 2) / max(int(bought.sum()), 1)
        lines = np.bincount(grade[bought], self.item_count[bought], minlength=RULE + 2)
        sales = lines / max(int(lines.sum()), 1)
        return {
            name: {"items": float(items[place]), "sales": float(sales[place])}
            for place, name in enumerate((*GRADES, "none"))
        }


def write_table(folder: Path, pairs: EvidenceTable, answers: Columns) -> None:
    """The files of a table into the folder of a bundle."""
    (folder / FOLDER).mkdir()
    write_columns(folder / PAIRS, {"one": pairs.one, "other": pairs.other, **pairs.columns})
    write_columns(folder / ANSWERS, answers)
    factors = {"query_factor": pairs.query_factor, "item_factor": pairs.item_factor}
    write_columns(folder / ITEMS, factors)
    if pairs.prior is not None:
        content = json.dumps(pairs.prior.to_dict(), sort_keys=True, allow_nan=False)
        (folder / PRIOR).write_text(content)


def _about(folder: Path, manifest: Manifest) -> dict[str, Any]:
    """The manifest's entry about the table."""
    about = manifest.notes.get(NOTE)
    if about is None:
        raise BundleError(
            f"{printable(folder)} has no serving table",
            file=str(folder),
            hint=f"`neatrec train SOURCE --out {printable(folder)}` writes a bundle with one.",
        )
    check_entries(about, ABOUT, folder / NAME)
    check_entries(about["evidence"], ABOUT_EVIDENCE, folder / NAME)
    if not all(isinstance(name, str) for name in about["evidence"]["strata"]):
        raise damaged(folder / NAME, "`strata` must be a list of names")
    if about["same_category"] not in SAME_CATEGORY:
        raise damaged(folder / NAME, f"`same_category` must be one of {', '.join(SAME_CATEGORY)}")
    return dict(about)


def category_of(catalog: Catalog, parameters: Mapping[str, Any]) -> Codes:
    """The category of each item at the level of a model's parameters; negative: unknown."""
    level = parameters.get("category_level", DEEPEST)
    return CountOptions(category_level=level).category_of(catalog)


def _category(folder: Path, manifest: Manifest, catalog: Catalog) -> Codes:
    try:
        return category_of(catalog, parameters_of(manifest, folder).to_dict())
    except InputError as error:
        raise damaged(folder / NAME, printable(error, 300)) from error


def _read_pairs(
    folder: Path, manifest: Manifest, about: dict[str, Any], catalog: Catalog
) -> EvidenceTable:
    items = read_columns(folder, manifest, ITEMS, ITEM_COLUMNS)
    if len(items["query_factor"]) != len(catalog):
        raise damaged(folder / ITEMS, f"it must have {len(catalog):,} rows")
    strata = tuple(about["strata"])
    specs = pair_columns(len(catalog), EXPLAINED + len(strata))
    columns = read_columns(folder, manifest, PAIRS, specs)
    _check_evident(folder / PAIRS, columns)
    return EvidenceTable(
        one=columns.pop("one"),
        other=columns.pop("other"),
        columns=columns,
        **items,
        category=_category(folder, manifest, catalog),
        strata=strata,
        by_customer=about["by_customer"],
        min_count=about["min_count"],
        baskets=about["baskets"],
        records=about["records"],
        prior=_read_prior(folder, manifest),
    )


def _check_evident(file: Path, columns: dict[str, Numbers]) -> None:
    """Refuse a pair with evidence whose numbers are not known: sentences and orders need them."""
    evident = (columns["grade"] <= LIKELY) | (columns["grade"] >= EXPLAINED)
    for name in ("lift", "lift_low", "lift_high", "overall_lift", "beyond", "q"):
        if not np.isfinite(columns[name][evident]).all():
            raise damaged(file, f"column {name!r} must hold a number for each pair with evidence")


def _read_prior(folder: Path, manifest: Manifest) -> LiftPrior | None:
    """The prior of lifts, tried out; None where the table has none."""
    if PRIOR not in manifest.files:
        return None
    file = named_file(folder, manifest, PRIOR)
    try:
        prior = LiftPrior.from_dict(json.loads(file.read_text()))
        estimate = prior.estimate(np.array([0.0, 3.0, 1e6]), np.array([1.0, 1e-6, 1e6]))
        if not all(np.isfinite(values).all() for values in vars(estimate).values()):
            raise ValueError("it gives lifts that are no numbers")
    except Exception as error:  # what it is depends on what it holds
        raise damaged(file, printable(error, 300)) from error
    return prior


def read_all(descriptor: int) -> bytes:
    """A whole open file, whatever other threads read of it meanwhile."""
    parts: list[bytes] = []
    while part := os.pread(descriptor, READ_BYTES, sum(map(len, parts))):
        parts.append(part)
    return b"".join(parts)
