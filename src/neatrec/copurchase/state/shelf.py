"""`Shelf`: the items of a state by arrival, and the catalogue they make today."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from neatrec.catalog import UNKNOWN, Catalog, string_array
from neatrec.copurchase.records import Int32
from neatrec.errors import ParameterError, SourceError
from neatrec.text import printable

CategoryPath = tuple[str | None, ...]
BETWEEN = " > "


@dataclass(frozen=True, eq=False)
class Shelf:
    """An item keeps its number when others come; its catalogue code, which follows the sorted ids, does not."""

    ids: tuple[str, ...]
    names: tuple[str | None, ...]
    paths: tuple[CategoryPath, ...]
    """Category names of each item, shallow to deep, None where unknown."""
    levels: tuple[str, ...]
    nested: bool = True
    """Whether a category belongs to one category of the level above: then one name below two of them means two."""
    variants: Mapping[str, str] | None = None
    """Ids that count as another item's."""

    def with_items_of(self, catalog: Catalog) -> Shelf:
        """The shelf with what is new in `catalog`; an item that has moved is refused by name."""
        if catalog.levels != self.levels:
            old, new = (", ".join(map(printable, levels)) or "none" for levels in (self.levels, catalog.levels))
            raise ParameterError(
                f"the state has the category levels {old}, these baskets have {new}",
                hint="Name the same category columns, or make a new state.",
            )
        known = dict(zip(self.ids, range(len(self.ids)), strict=True))
        ids, names, paths = list(self.ids), list(self.names), list(self.paths)
        told = [None] * len(catalog) if catalog.names is None else catalog.names.to_pylist()
        for item, name, path in zip(catalog.ids.to_pylist(), told, paths_of(catalog), strict=True):
            if item not in known:
                ids.append(item)
                names.append(name)
                paths.append(path)
                continue
            place = known[item]
            names[place] = names[place] or name
            if any(path) and path != paths[place]:
                raise _moved(item, paths[place], path)
        return Shelf(
            tuple(ids),
            tuple(names),
            tuple(paths),
            self.levels,
            self.nested and is_nested(catalog),
            self._variants_with(catalog, set(ids)),
        )

    def _variants_with(self, catalog: Catalog, items: set[str]) -> dict[str, str]:
        variants = dict(self.variants or {})
        for variant, code in catalog.code_of_variant.items():
            item = catalog.id(code)
            if variants.setdefault(variant, item) != item:
                raise SourceError(
                    f"{printable(repr(variant))} is a variant of {printable(repr(variants[variant]))} in the state and "
                    f"of {printable(repr(item))} in these baskets",
                    hint="Mend the group column, or make a new state from all baskets.",
                )
        both = min(items & set(variants), default=None)
        if both is not None and variants[both] != both:
            raise SourceError(
                f"{printable(repr(both))} counts by itself and as a variant of {printable(repr(variants[both]))}",
                hint="Group the same items every day, or make a new state from all baskets.",
            )
        return variants

    def numbers_of(self, catalog: Catalog) -> Int32:
        """The number of each item of a catalogue whose items all stand here, shape (items,)."""
        number = dict(zip(self.ids, range(len(self.ids)), strict=True))
        return np.array([number[item] for item in catalog.ids.to_pylist()], dtype=np.int32)

    def catalog(self, *, by_arrival: bool = False) -> Catalog:
        """The catalogue that a reader of all baskets would make, or (`by_arrival`) with the items' numbers as codes."""
        order = list(range(len(self.ids)))
        if not by_arrival:
            order.sort(key=self.ids.__getitem__)
        codes = np.full((len(order), len(self.levels)), UNKNOWN, dtype=np.int32)
        category_names = []
        for level in range(len(self.levels)):
            keys = [self._category(number, level) for number in order]
            name_of = _unique_names({key for key in keys if key is not None})
            names = sorted(name_of.values())
            code = {name: i for i, name in enumerate(names)}
            codes[:, level] = [UNKNOWN if key is None else code[name_of[key]] for key in keys]
            category_names.append(tuple(names))
        variants = sorted(self.variants or {})
        place = {self.ids[number]: code for code, number in enumerate(order)}
        return Catalog(
            string_array([self.ids[number] for number in order]),
            string_array([self.names[number] for number in order]) if any(self.names) else None,
            levels=self.levels,
            categories=codes,
            category_names=tuple(category_names),
            variants=string_array(variants) if variants else None,
            variant_codes=np.array([place[(self.variants or {})[v]] for v in variants], np.int32) if variants else None,
        )

    def _category(self, number: int, level: int) -> CategoryPath | None:
        """What tells a category from others of its level."""
        path = self.paths[number]
        if path[level] is None:
            return None
        return path[: level + 1] if self.nested else path[level : level + 1]

    def write(self, path: Path) -> None:
        lists: dict[str, list[str]] = {}
        for variant, item in (self.variants or {}).items():
            lists.setdefault(item, []).append(variant)
        columns = {"id": string_array(self.ids), "name": string_array(self.names)}
        for level, name in enumerate(self.levels):
            columns[f"category:{name}"] = string_array([path_[level] for path_ in self.paths])
        columns["variants"] = pa.array([lists.get(item) for item in self.ids], pa.large_list(pa.large_string()))
        pq.write_table(pa.table(columns), path, compression="zstd", write_page_checksum=True)

    @classmethod
    def read(cls, path: Path, levels: tuple[str, ...], *, nested: bool) -> Shelf:
        table = pq.read_table(path, page_checksum_verification=True)
        ids = table["id"].to_pylist()
        columns = [table[f"category:{level}"].to_pylist() for level in levels]
        lists = table["variants"].to_pylist()
        return cls(
            tuple(ids),
            tuple(table["name"].to_pylist()),
            tuple(zip(*columns, strict=True)) if columns else ((),) * len(ids),
            levels,
            nested,
            {variant: item for item, of_item in zip(ids, lists, strict=True) for variant in of_item or ()},
        )


def empty_shelf(catalog: Catalog) -> Shelf:
    """A shelf that takes the items of `catalog`."""
    return Shelf((), (), (), catalog.levels)


def paths_of(catalog: Catalog) -> Iterator[CategoryPath]:
    """The category names of each item; a name that carries its parents only to be unique is told without them."""
    known: dict[tuple[int, ...], CategoryPath] = {}  # items are many, paths are few
    for row in (catalog.categories if catalog.categories is not None else np.zeros((len(catalog), 0))).tolist():
        codes = tuple(row)
        if codes not in known:
            known[codes] = _path(catalog, codes)
        yield known[codes]


def _path(catalog: Catalog, codes: tuple[int, ...]) -> CategoryPath:
    path: list[str | None] = []
    for names, code in zip(catalog.category_names, codes, strict=True):
        parents = "".join(part + BETWEEN for part in path if part is not None)
        name = None if code == UNKNOWN else names[code]
        path.append(name if name is None else name.removeprefix(parents) or name)
    return tuple(path)


def is_nested(catalog: Catalog) -> bool:
    """Whether every category lies in one category of the level above."""
    codes = catalog.categories
    if codes is None or codes.shape[1] < 2:
        return True
    for level in range(1, codes.shape[1]):
        known = codes[codes[:, level] != UNKNOWN]
        together = np.unique(known[:, level - 1 : level + 1], axis=0)
        if len(together) != len(np.unique(known[:, level])):
            return False
    return True


def _unique_names(keys: set[CategoryPath]) -> dict[CategoryPath, str]:
    """A name for each category: its own, with its parents in front where two share it."""
    own = Counter(key[-1] for key in keys)
    names: dict[CategoryPath, str] = {}
    taken = {str(key[-1]) for key in keys if own[key[-1]] == 1}
    for key in sorted(keys, key=lambda key: tuple(part or "" for part in key)):
        name = base = str(key[-1]) if own[key[-1]] == 1 else BETWEEN.join(part for part in key if part is not None)
        number = 2
        while own[key[-1]] > 1 and name in taken:
            name, number = f"{base} ({number})", number + 1
        taken.add(name)
        names[key] = name
    return names


def _moved(item: str, before: CategoryPath, now: CategoryPath) -> SourceError:
    old, new = (printable(BETWEEN.join(part or "?" for part in path)) for path in (before, now))
    was = f"was in category {old}" if any(before) else "had no category"
    return SourceError(
        f"item {printable(repr(item))} {was} in the state and is in {new} in these baskets",
        hint="Pairs counted so far would have to be counted anew: give it its old category, or make a new state.",
    )
