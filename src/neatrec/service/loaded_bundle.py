"""One opened bundle, with what is needed to answer from it quickly."""

from __future__ import annotations

import json
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.data.catalog import UNKNOWN
from neatrec.service.categories import Categories
from neatrec.service.limits import LONGEST_GUESS
from neatrec.service.problems import unknown_choice, unknown_item
from neatrec.service.search import NameSearch
from neatrec.serving import ServingTable
from neatrec.serving.grades import PREDICTED, SOME_Q

NEAR = 5
"""Near names in a 404."""
SHORT = 12
"""Characters of a version that are shown to people and counted by."""


class LoadedBundle:
    """A bundle's index and lookups over its catalogue. Nothing in it changes once it is made."""

    def __init__(self, index: ServingTable) -> None:
        self.index = index
        self.catalog = index.catalog
        self.version = index.version
        self.short = index.version[:SHORT]
        self.name = str(index.manifest.model)
        self.ids: list[str] = self.catalog.ids.to_pylist()
        self.names: list[str] = self._names()
        self.count: list[int] = index.item_count.tolist()
        self.level = self._category_level()
        self.category_codes = self.catalog.category_of(self.level)
        self.category: list[int] = self.category_codes.tolist()
        """The category that two items must not share, UNKNOWN where not known."""
        self.variance: list[float] | None = None if index.variance is None else index.variance.tolist()
        self.reason = str(index.manifest.notes["topk"]["reason"])
        self._briefs: dict[int, str] = {}

    def renamed(self, name: str) -> LoadedBundle:
        """The same shelf under another name, for a second bundle of one model."""
        other = copy(self)
        other.name = name
        return other

    def _names(self) -> list[str]:
        if self.catalog.names is None:
            return self.ids
        return [name or item for name, item in zip(self.catalog.names.to_pylist(), self.ids, strict=True)]

    def _category_level(self) -> str | None:
        level = self.index.manifest.parameters.get("category_level")
        return level if level in self.catalog.levels else None

    @cached_property
    def search(self) -> NameSearch:
        return NameSearch(self.names, self.index.item_count)

    def code(self, item: str) -> int | None:
        """The code of an id or of a variant's id; None when there is no such item."""
        code = self.catalog.code_of.get(item)
        return self.catalog.code_of_variant.get(item) if code is None else code

    def known(self, item: str) -> int:
        """The code of an item that must be there, else a 404 with near names."""
        code = self.code(item)
        if code is None:
            near = self.search.find(item, NEAR) if len(item) <= LONGEST_GUESS else []
            raise unknown_item(item, [self.brief(code) for code in near])
        return code

    def brief(self, code: int) -> dict[str, Any]:
        """An item as a list shows it."""
        return {"id": self.ids[code], "name": self.names[code], "category": self.path(code)}

    def brief_json(self, code: int) -> str:
        """`brief` as JSON without its braces, kept once made: every answer repeats it."""
        text = self._briefs.get(code)
        if text is None:
            text = self._briefs[code] = json.dumps(self.brief(code), ensure_ascii=False, separators=(",", ":"))[1:-1]
        return text

    def path(self, code: int) -> list[str]:
        return list(self.catalog.category_path(code))

    def in_category(self, name: str) -> npt.NDArray[np.bool_]:
        """Which items belong to the category called `name` at any level (or by a path "a / b"), shape (items,)."""
        found = self.categories.members(name)
        if found is None:
            raise unknown_choice("category", self.category_names, name, status=404)
        return found

    @cached_property
    def categories(self) -> Categories:
        return Categories(self.catalog)

    @cached_property
    def category_names(self) -> list[str]:
        return sorted({name for names in self.catalog.category_names for name in names})

    def may_have_more(self, code: int, level: int) -> bool:
        """Whether answers of grade `level` or better may exist beyond the table of an item."""
        table = self.index.answers(code)
        if len(table) < self.index.k:
            return False
        if level >= PREDICTED:
            return True
        return bool(self.graded[level][code] > int((table.grade <= level).sum()))

    @cached_property
    def graded(self) -> tuple[npt.NDArray[np.int64], ...]:
        """For `strong` and `some`: how many pairs of that grade or better each item has in all, shape (items,).

        Items whose table holds them all need no exact scores; without this, every short answer would ask for them.
        """
        pairs = self.index.pairs
        place = np.flatnonzero(np.asarray(pairs.q) <= SOME_Q)  # the others are graded lower whatever their lift
        query = (np.searchsorted(pairs.start, place, side="right") - 1).astype(np.int32)
        item = np.asarray(pairs.item)[place]
        grade = pairs.columns(query, item)["grade"]
        return tuple(self._pairs_of(query[grade <= level], item[grade <= level]) for level in range(PREDICTED))

    def _pairs_of(self, query: npt.NDArray[np.int32], item: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        size = len(self.ids)
        return np.bincount(query, minlength=size) + np.bincount(item, minlength=size)

    def same_category(self, codes: list[int]) -> set[int]:
        """The categories of `codes`, the unknown one left out."""
        return {self.category[code] for code in codes} - {UNKNOWN}
