"""One opened bundle, with the lookups that answer from it quickly."""

from __future__ import annotations

import json
from collections import Counter
from copy import copy
from functools import cached_property
from sys import getsizeof
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.data.catalog import UNKNOWN
from neatrec.data.name_search import NameSearch, spelled
from neatrec.errors import ParameterError
from neatrec.service.byte_cache import ByteCache
from neatrec.service.problems import Problem, unknown_choice, unknown_item
from neatrec.service.settings import BRIEF_BYTES, CATEGORY_BYTES, MAX_GUESS
from neatrec.serving import ServingTable
from neatrec.serving.pair_list import PairList
from neatrec.text import printable

NEAR = 5
"""Near names in a 404."""
SHORT = 12
"""Characters of a version on pages and in metrics."""


class LoadedBundle:
    """A bundle's serving table and lookups over its catalogue; it never changes."""

    def __init__(self, index: ServingTable, old: ServingTable | None = None) -> None:
        """`old` is the version before, to compare with; it is not kept."""
        self.index, self.pairs = index, PairList(index, old)
        self.catalog = index.catalog
        self.version = index.version
        self.short = index.version[:SHORT]
        self.name = str(index.manifest.model)
        self.ids: list[str] = self.catalog.ids.to_pylist()
        self.names: list[str] = self._names()
        self.count: list[int] = index.item_count.tolist()
        self._briefs: ByteCache[int, str] = ByteCache(BRIEF_BYTES)
        self._members: ByteCache[tuple[str, ...], npt.NDArray[np.bool_]] = ByteCache(CATEGORY_BYTES)
        self._by_goal: dict[str, LoadedBundle] = {}

    def renamed(self, name: str) -> LoadedBundle:
        """The same bundle under another name, where two are of one model."""
        other = copy(self)
        other.name, other._by_goal = name, {}
        return other

    def with_goal(self, goal: str | None) -> LoadedBundle:
        """The same bundle, answering by another goal of its model."""
        if goal is None or goal == self.index.goal:
            return self
        if not self.index.goals:
            message = f"`goal` must be left out: model {printable(self.name)} has one ranking"
            raise Problem(404, "ParameterError", message, argument="goal")
        if goal not in self._by_goal:
            other = copy(self)
            other.index = self.index.with_goal(goal)
            self._by_goal[goal] = other
        return self._by_goal[goal]

    def check_new_items(self) -> None:
        """Refuse `include_new`, as an unknown goal, where the model has no scores for answers that nobody bought."""
        try:
            self.index.model.check_new_items()
        except ParameterError as error:
            raise Problem(404, "ParameterError", error.message, hint=error.hint, argument="include_new") from error

    def _names(self) -> list[str]:
        if self.catalog.names is None:
            return self.ids
        return [name or item for name, item in zip(self.catalog.names.to_pylist(), self.ids, strict=True)]

    @cached_property
    def search(self) -> NameSearch:
        return NameSearch(self.names, self.index.item_count)

    def code(self, item: str) -> int | None:
        """The code of an id, of a variant's id or of a name that one item has; None when there is no such item."""
        code = self.catalog.code_of.get(item)
        code = self.catalog.code_of_variant.get(item) if code is None else code
        return self.code_of_name.get(spelled(item)) if code is None else code

    @cached_property
    def code_of_name(self) -> dict[str, int]:
        """Names that one item has, as `spelled`; of one that several have, only an id can tell which is meant."""
        names = [spelled(name) for name in self.names]
        times = Counter(names)
        return {name: code for code, name in enumerate(names) if times[name] == 1}

    def known(self, item: str) -> int:
        """The code of an item that must be there, else a 404 with near names."""
        code = self.code(item)
        if code is None:
            near = self.search.find(item, NEAR) if len(item) <= MAX_GUESS else []
            raise unknown_item(item, [self.brief(code) for code in near])
        return code

    def brief(self, code: int) -> dict[str, Any]:
        """An item as a list shows it."""
        return {"id": self.ids[code], "name": self.names[code], "category": self.path(code)}

    def brief_json(self, code: int) -> str:
        """`brief` as JSON without its braces, cached: every answer repeats it."""
        text = self._briefs.get(code)
        if text is None:
            text = json.dumps(self.brief(code), ensure_ascii=False, separators=(",", ":"))[1:-1]
            self._briefs.put(code, text, getsizeof(text))
        return text

    def variants_of(self, code: int) -> list[str]:
        return [variant for variant, owner in self.catalog.code_of_variant.items() if owner == code]

    def path(self, code: int) -> list[str]:
        return list(self.catalog.category_path(code))

    def in_category(self, name: str) -> npt.NDArray[np.bool_]:
        """Which items belong to the category called `name` at any level (or by a path "a / b"), shape (items,).

        Names come from callers: they are brought to one spelling before anything is cached, and the cache is bounded.
        """
        steps = self.catalog.category_steps(name)
        if steps is None:
            raise unknown_choice("category", self.category_names, name, status=404)
        found = self._members.get(steps)
        if found is None:
            found = self.catalog.in_category(steps)
            self._members.put(steps, found, found.nbytes)
        return found

    @cached_property
    def category_names(self) -> list[str]:
        return sorted({name for names in self.catalog.category_names for name in names})

    def same_category(self, codes: list[int]) -> set[int]:
        """The categories of `codes`, the unknown one left out."""
        return {self.index.category[code] for code in codes} - {UNKNOWN}
