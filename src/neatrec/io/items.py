"""The catalogue of what was bought and what could have been: names, variants, category paths."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import numpy as np

from neatrec.data.catalog import UNKNOWN, Catalog, string_array
from neatrec.errors import SourceError
from neatrec.text import plural, printable

log = logging.getLogger(__name__)
Path_ = tuple[str | None, ...]


@dataclass(frozen=True)
class ItemTexts:
    """What is known of an item."""

    name: str | None = None
    group: str | None = None
    path: Path_ = ()
    """Category names, shallow to deep, None where unknown."""


def build_catalog(
    bought: Mapping[str, int],
    described: Mapping[str, ItemTexts],
    levels: Sequence[str],
    *,
    excluded: AbstractSet[str] = frozenset(),
    named: bool = True,
    nested: bool = True,
) -> tuple[Catalog, dict[str, int]]:
    """The catalogue sorted by id, and item id -> code for every id that may stand in a line.

    `bought` is item id -> lines. Items of a group become one item. `excluded` ids and groups are left out.
    `nested`: a category name below two parents is two categories.
    """
    nothing = ItemTexts()
    group_of = {item: described.get(item, nothing).group or item for item in {**described, **bought}}
    _refuse_chains(group_of)
    strangers = len(excluded - set(group_of) - set(group_of.values()))
    if strangers:
        log.warning("%s to exclude and no item of the source", plural(strangers, "id is", "ids are"))
    members: dict[str, list[str]] = {}
    for item, group in group_of.items():
        if item not in excluded and group not in excluded:
            members.setdefault(group, []).append(item)
    ids = sorted(members)
    code = {group: i for i, group in enumerate(ids)}
    names: list[str | None] = []
    paths: list[Path_] = []
    for group in ids:
        # the item that stands for its variants: the one called like the group, then the most bought
        ranked = sorted(members[group], key=lambda item: (item != group, -bought.get(item, 0), item))
        about = [described.get(item, nothing) for item in ranked]
        names.append(next((d.name for d in about if d.name), None))
        paths.append(next((d.path for d in about if any(d.path)), (None,) * len(levels)))
    codes, category_names = category_codes(paths, len(levels), nested=nested)
    variants = sorted(item for group in ids for item in members[group] if item != group)
    catalog = Catalog(
        string_array(ids),
        string_array(names) if named else None,
        levels=tuple(levels),
        categories=codes,
        category_names=category_names,
        variants=string_array(variants) if variants else None,
        variant_codes=np.array([code[group_of[item]] for item in variants], np.int32) if variants else None,
    )
    return catalog, {item: code[group] for group in ids for item in members[group]}


def _refuse_chains(group_of: Mapping[str, str]) -> None:
    for item, group in group_of.items():
        beyond = group_of.get(group, group)
        if beyond != group:
            raise SourceError(
                f"item {printable(repr(item))} belongs to group {printable(repr(group))}, which is itself an item of "
                f"group {printable(repr(beyond))}",
                hint="Give all variants of a product the same group.",
            )


def category_codes(
    paths: Sequence[Path_], levels: int, *, nested: bool = True
) -> tuple[np.ndarray, tuple[tuple[str, ...], ...]]:
    """Codes of shape (items, levels) and the names of each level, sorted.

    >>> category_codes([("food", "other"), ("drink", "other"), ("food", "bread")], 2)[1]
    (('drink', 'food'), ('bread', 'drink > other', 'food > other'))
    """
    codes = np.full((len(paths), levels), UNKNOWN, dtype=np.int32)
    names = []
    for level in range(levels):
        keys = [path[: level + 1] if nested else path[level : level + 1] for path in paths]
        name_of = _unique_names({key for key in keys if key[-1] is not None})
        ordered = sorted(name_of.values())
        code = {name: i for i, name in enumerate(ordered)}
        codes[:, level] = [UNKNOWN if key[-1] is None else code[name_of[key]] for key in keys]
        names.append(tuple(ordered))
    return codes, tuple(names)


def _unique_names(keys: AbstractSet[Path_]) -> dict[Path_, str]:
    """A name for each category: its own, with its parents in front where two share it."""
    own = Counter(key[-1] for key in keys)
    names: dict[Path_, str] = {}
    taken: set[str] = {str(key[-1]) for key in keys if own[key[-1]] == 1}
    for key in sorted(keys, key=lambda key: tuple(part or "" for part in key)):
        name = str(key[-1])
        if own[key[-1]] > 1:
            name = base = " > ".join(part for part in key if part is not None)
            number = 2
            while name in taken:
                name, number = f"{base} ({number})", number + 1
            taken.add(name)
        names[key] = name
    return names


def describe(rows: Iterable[Sequence[Any]], fields: Sequence[str]) -> dict[str, ItemTexts]:
    """Item -> description from rows of (item, then one value for each of `fields`: name, group, category levels)."""
    described = {}
    for item, *values in rows:
        known = dict(zip(fields, values, strict=True))
        path = tuple(value for field, value in known.items() if field not in ("name", "group"))
        described[item] = ItemTexts(known.get("name"), known.get("group"), path)
    return described


def merged(first: Mapping[str, ItemTexts], second: Mapping[str, ItemTexts]) -> dict[str, ItemTexts]:
    """Descriptions from two tables; each says what the other does not."""
    out = dict(first)
    for item, more in second.items():
        known = out.get(item, ItemTexts())
        path = known.path if any(known.path) else more.path
        out[item] = ItemTexts(known.name or more.name, known.group or more.group, path)
    return out


def compare_with_catalogue(bought: Mapping[str, int], described: Mapping[str, ItemTexts], shown: str) -> None:
    """A word on items that were bought and are not in the catalogue; an error where that is all of them."""
    missing = [item for item in bought if item not in described]
    if not missing:
        return
    if len(missing) == len(bought):
        ours, theirs = (printable(repr(next(iter(ids))), 60) for ids in (bought, described))
        raise SourceError(
            f"none of the {plural(len(bought), 'item')} bought is in the catalogue {printable(shown)}: its items look "
            f"like {theirs}, those bought like {ours}",
            file=shown,
            hint="Name its item column with --catalog-item COLUMN.",
        )
    log.warning("%s bought are not in the catalogue: they have no name and no category", plural(len(missing), "item"))
