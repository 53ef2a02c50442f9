"""Items and categories as people say them (ids, names, paths), turned into codes."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from neatrec.data.catalog import Catalog, of_categories
from neatrec.data.name_search import NameSearch
from neatrec.errors import UnknownItemError, must_be, must_be_one_of
from neatrec.text import printable

Item = str | int | np.integer
"""An id (text or an integer) or a name (text)."""


def find_items(
    catalog: Catalog, items: Item | Sequence[Item] | npt.NDArray[np.integer]
) -> npt.NDArray[np.int32]:
    """Codes of items given as ids, variants' ids or names, shape (items,). An integer is an id.

    >>> find_items(Catalog.from_ids(["17", "4"], names=["Tea", "Milk"]), ["tea", "4", 17]).tolist()
    [0, 1, 0]
    """
    if isinstance(items, str | int | np.integer):
        items = [items]
    return np.array([_find(catalog, item) for item in items], dtype=np.int32)


def _find(catalog: Catalog, item: Item) -> int:
    if isinstance(item, bool) or not isinstance(item, str | int | np.integer):
        raise must_be("items", "ids (text or integers) or names (text)", item)
    for lookup in (catalog.code_of, catalog.code_of_variant):
        if str(item) in lookup:
            return lookup[str(item)]
    return _find_by_name(catalog, str(item))


def _find_by_name(catalog: Catalog, name: str) -> int:
    """The code of the one item called `name`, ignoring case where no name is equal."""
    hits = _codes_with_name(catalog, name)
    if len(hits) == 1:
        return int(hits[0])
    if len(hits) > 1:
        some = ", ".join(printable(catalog.id(code), 40) for code in hits[:5])
        raise UnknownItemError(
            f"{len(hits)} items are called {printable(name)!r}",
            hint=f"Ask by id: {some}{' ...' if len(hits) > 5 else ''}.",
        )
    similar = suggest_items(catalog, name)
    near = " or ".join(f"{printable(catalog.name(code), 60)!r}" for code in similar)
    example = f"Ask by id or name, such as {printable(catalog.name(0), 60)!r}."
    hint = f"Did you mean {near}?" if similar else example
    raise UnknownItemError(f"no item has the id or name {printable(name)!r}", hint=hint)


def _codes_with_name(catalog: Catalog, name: str) -> npt.NDArray[np.int64]:
    if catalog.names is None or not name:
        return np.zeros(0, dtype=np.int64)
    exact = np.flatnonzero(pc.equal(catalog.names, name).to_numpy(zero_copy_only=False) == True)  # noqa: E712 (null is not True)
    if len(exact):
        return exact
    folded = pc.equal(pc.utf8_lower(catalog.names), name.lower())
    return np.flatnonzero(pc.fill_null(folded, False).to_numpy(zero_copy_only=False))


def suggest_items(catalog: Catalog, text: str, count: int = 3) -> list[int]:
    """Codes of the items whose name (or id, without names) is most like `text`, best first."""
    labels = catalog.ids if catalog.names is None else pc.coalesce(catalog.names, catalog.ids)
    return NameSearch(labels.to_pylist(), np.zeros(len(catalog), dtype=np.int64)).find(text, count)


def same_category_as(
    catalog: Catalog, codes: npt.NDArray[np.int32], level: str | None = None
) -> npt.NDArray[np.bool_]:
    """Mask of the items that share a known category with one of `codes`, shape (items,)."""
    category = catalog.category_of(level)
    return of_categories(category, category[codes])


def in_categories(catalog: Catalog, wanted: str | Sequence[str]) -> npt.NDArray[np.bool_]:
    """Which items belong to a category, or to any of several, shape (items,).

    A category is named by its name at any level, or by its path: "produce / fresh fruits".
    """
    inside = np.zeros(len(catalog), dtype=np.bool_)
    for name in [wanted] if isinstance(wanted, str) else wanted:
        if not isinstance(name, str):
            raise must_be("category", "a name or a path", name)
        if not catalog.levels:
            raise must_be("category", "left out: the catalogue has no categories", name)
        steps = catalog.category_steps(name)
        if steps is None:
            names = sorted({known for level in catalog.category_names for known in level})
            near = get_close_matches(name, names, n=12, cutoff=0.0)
            raise must_be_one_of("category", [printable(known, 60) for known in near], name)
        inside |= catalog.in_category(steps)
    return inside
