"""One opened bundle, with the lookups that answer from it quickly."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from neatrec.data.name_search import NameSearch, spelled
from neatrec.service.problems import unknown_choice, unknown_item
from neatrec.service.settings import MAX_GUESS
from neatrec.serving import PairTable
from neatrec.serving.pair_list import PairList

NEAR = 5
"""Near names in a 404."""
SHORT = 12
"""Characters of a version on pages and in metrics."""


class LoadedBundle:
    """A bundle's serving table and lookups over its catalogue; it never changes."""

    def __init__(self, index: PairTable, old: PairTable | None = None) -> None:
        """`old` is the version before, to compare with; it is not kept."""
        self.index, self.pairs = index, PairList(index, old)
        self.catalog = index.catalog
        self.version = index.version
        self.short = index.version[:SHORT]
        self.name = str(index.manifest.model)
        self.ids: list[str] = self.catalog.ids.to_pylist()
        self.names: list[str] = self._names()
        self.count: list[int] = index.item_count.tolist()

    def _names(self) -> list[str]:
        if self.catalog.names is None:
            return self.ids
        return [
            name or item
            for name, item in zip(self.catalog.names.to_pylist(), self.ids, strict=True)
        ]

    @cached_property
    def search(self) -> NameSearch:
        """The search by name."""
        return NameSearch(self.names, self.index.item_count)

    def code(self, item: str) -> int | None:
        """The code of an id, a variant's id or a name that only one item has; None if unknown."""
        code = self.catalog.code_of.get(item)
        code = self.catalog.code_of_variant.get(item) if code is None else code
        return self.code_of_name.get(spelled(item)) if code is None else code

    @cached_property
    def code_of_name(self) -> dict[str, int]:
        """Names that exactly one item has, as `spelled`."""
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
        return {
            "id": self.catalog.public_id(code),
            "name": self.names[code],
            "category": self.path(code),
        }

    def variants_of(self, code: int) -> list[str]:
        """The ids that are folded into an item."""
        return [variant for variant, owner in self.catalog.code_of_variant.items() if owner == code]

    def path(self, code: int) -> list[str]:
        """The names of an item's categories, shallow to deep."""
        return list(self.catalog.category_path(code))

    def in_category(self, name: str) -> npt.NDArray[np.bool_]:
        """Whether each item is in a category, named at any level or by a path "a / b"."""
        steps = self.catalog.category_steps(name)
        if steps is None:
            raise unknown_choice("category", self.category_names, name, status=404)
        return self.catalog.in_category(steps)

    @cached_property
    def category_names(self) -> list[str]:
        """The names of all categories, sorted."""
        return sorted({name for names in self.catalog.category_names for name in names})
