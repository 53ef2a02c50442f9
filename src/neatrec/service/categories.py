"""Which items belong to a category that a caller names."""

from __future__ import annotations

from threading import Lock

import numpy as np
import numpy.typing as npt

from neatrec.data.catalog import Catalog
from neatrec.service.limits import CATEGORY_BYTES

Members = npt.NDArray[np.bool_]
Key = tuple[str, ...]


class Categories:
    """Members by the name of a category at any level, or by a path "a / b"; capitals do not matter.

    Names come from callers: they are brought to one spelling before anything is kept, and what is kept has an end.
    """

    def __init__(self, catalog: Catalog, limit: int = CATEGORY_BYTES) -> None:
        self.catalog, self.limit, self.bytes = catalog, limit, 0
        self.codes = _codes_by_name(catalog)
        self._kept: dict[Key, Members] = {}
        self._lock = Lock()

    def members(self, name: str) -> Members | None:
        """Which items belong to the category, shape (items,); None when there is no such category."""
        key = self._key(name)
        if key is None:
            return None
        with self._lock:
            found = self._kept.get(key)
        if found is None:
            found = np.logical_and.reduce([self._at_any_level(step) for step in key])
            self._keep(key, found)
        return found

    def _key(self, name: str) -> Key | None:
        """The one spelling of a name: itself, or the steps of a path."""
        folded = name.casefold()
        if folded in self.codes:
            return (folded,)
        steps = dict.fromkeys(step.strip() for step in folded.replace(">", "/").split("/") if step.strip())
        # an item has one category a level: no path is longer
        if not 1 <= len(steps) <= len(self.catalog.levels) or any(step not in self.codes for step in steps):
            return None
        return tuple(sorted(steps))

    def _at_any_level(self, folded: str) -> Members:
        found = np.zeros(len(self.catalog), dtype=np.bool_)
        for level, codes in self.codes[folded].items():
            found |= np.isin(self.catalog.category_of(level), codes)
        return found

    def _keep(self, key: Key, found: Members) -> None:
        with self._lock:
            if key in self._kept:
                return
            self._kept[key] = found
            self.bytes += found.nbytes
            while self.bytes > self.limit:
                self.bytes -= self._kept.pop(next(iter(self._kept))).nbytes


def _codes_by_name(catalog: Catalog) -> dict[str, dict[str, list[int]]]:
    """Folded name -> level -> codes."""
    found: dict[str, dict[str, list[int]]] = {}
    for level, names in zip(catalog.levels, catalog.category_names, strict=True):
        for code, name in enumerate(names):
            found.setdefault(name.casefold(), {}).setdefault(level, []).append(code)
    return found
