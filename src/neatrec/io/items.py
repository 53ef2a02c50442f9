"""The catalogue of a source: names, groups and categories of items, from lines or a file."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import numpy as np

from neatrec.data.catalog import UNKNOWN, Catalog, string_array
from neatrec.errors import SourceError, bad_file
from neatrec.io.bad_rows import no_records, record_lines
from neatrec.io.columns import Columns
from neatrec.io.database import Database
from neatrec.io.reading_rules import clean_rows, text
from neatrec.io.tables import ROW, InputTable
from neatrec.text import plural, printable

log = logging.getLogger(__name__)
Path_ = tuple[str | None, ...]
NAMED = 10
"""Ids that one line of the log names."""
CATALOGUE_ROWS = "one row per item"
"""The rows that a catalogue must hold."""


@dataclass(frozen=True)
class ItemTexts:
    """Name, group and category of an item."""

    name: str | None = None
    group: str | None = None
    path: Path_ = ()
    """Category names, shallow to deep, None where unknown."""
    price: float | None = None


@dataclass(frozen=True)
class ItemTable:
    """The descriptions of the items of a source."""

    texts: Mapping[str, ItemTexts]
    levels: tuple[str, ...] = ()
    """Names of the category levels, shallow to deep."""
    named: bool = True
    """Whether items have names at all."""
    nested: bool = True
    """Whether a category name below two parents is two categories."""


def build_catalog(
    bought: Mapping[str, int], items: ItemTable, excluded: AbstractSet[str] = frozenset()
) -> tuple[Catalog, dict[str, int]]:
    """The catalogue sorted by id, and item id -> code for every id that may stand in a line.

    `bought` is item id -> lines. Items of a group become one item. `excluded` ids and groups are
    left out.
    """
    described, levels, nothing = items.texts, items.levels, ItemTexts()
    group_of = {
        item: described.get(item, nothing).group or item for item in {**described, **bought}
    }
    _refuse_chains(group_of)
    strangers = sorted(excluded - set(group_of) - set(group_of.values()))
    if strangers:
        some = [printable(item, 40) for item in strangers[:NAMED]] + ["…"] * (
            len(strangers) > NAMED
        )
        count = plural(len(strangers), "id is", "ids are")
        log.warning("%s to exclude and no item of the source: %s", count, ", ".join(some))
    members: dict[str, list[str]] = {}
    for item, group in group_of.items():
        if item not in excluded and group not in excluded:
            members.setdefault(group, []).append(item)
    ids = sorted(members)
    code = {group: i for i, group in enumerate(ids)}
    names: list[str | None] = []
    paths: list[Path_] = []
    prices: list[float] = []
    for group in ids:
        # the item that stands for its variants: the one called like the group, then the most bought
        ranked = sorted(
            members[group], key=lambda item: (item != group, -bought.get(item, 0), item)
        )
        about = [described.get(item, nothing) for item in ranked]
        names.append(next((d.name for d in about if d.name), None))
        paths.append(next((d.path for d in about if any(d.path)), (None,) * len(levels)))
        prices.append(next((d.price for d in about if d.price is not None), np.nan))
    codes, category_names = category_codes(paths, len(levels), nested=items.nested)
    variants = sorted(item for group in ids for item in members[group] if item != group)
    catalog = Catalog(
        string_array(ids),
        string_array(names) if items.named else None,
        levels=levels,
        categories=codes,
        category_names=category_names,
        variants=string_array(variants) if variants else None,
        variant_codes=np.array([code[group_of[item]] for item in variants], np.int32)
        if variants
        else None,
        prices=None if np.isnan(prices).all() else np.array(prices),
    )
    return catalog, {item: code[group] for group in ids for item in members[group]}


def _refuse_chains(group_of: Mapping[str, str]) -> None:
    for item, group in group_of.items():
        beyond = group_of.get(group, group)
        if beyond != group:
            raise SourceError(
                f"item {printable(repr(item))} belongs to group {printable(repr(group))}, which is "
                f"itself an item of group {printable(repr(beyond))}",
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


def merged(first: Mapping[str, ItemTexts], second: Mapping[str, ItemTexts]) -> dict[str, ItemTexts]:
    """Descriptions from two tables; each says what the other does not."""
    out = dict(first)
    for item, more in second.items():
        known = out.get(item, ItemTexts())
        path = known.path if any(known.path) else more.path
        price = more.price if known.price is None else known.price
        out[item] = ItemTexts(known.name or more.name, known.group or more.group, path, price)
    return out


def compare_with_catalogue(
    bought: Mapping[str, int], described: Mapping[str, ItemTexts], shown: str
) -> None:
    """Log items bought that are not in the catalogue; an error where none is."""
    missing = [item for item in bought if item not in described]
    if not missing:
        return
    if len(missing) == len(bought):
        ours, theirs = (printable(repr(next(iter(ids))), 60) for ids in (bought, described))
        none = f"none of the {plural(len(bought), 'item')} bought is in the catalogue"
        look = f"its items look like {theirs}, those bought like {ours}"
        hint = "Name its item column with --catalog-item COLUMN."
        raise SourceError(f"{none} {printable(shown)}: {look}", file=shown, hint=hint)
    items = plural(len(missing), "item bought is", "items bought are")
    log.warning("%s not in the catalogue: no name, no category", items)


def name_items(database: Database, tables: Sequence[InputTable], columns: Columns) -> None:
    """The table `item_of_name`: the id that most lines with a product's name have."""
    if columns.item_else is None:
        return
    database.execute("CREATE TABLE named_item (name VARCHAR, item VARCHAR)")
    for table in tables:
        item, name = text(table.column(columns.item)), text(table.column(columns.item_else))
        scan, parameters = table.scan()
        query = f"INSERT INTO named_item SELECT {name}, {item} FROM {scan}"
        database.execute(query, parameters, table)
    database.execute(
        "CREATE TABLE item_of_name AS SELECT name, item FROM named_item "
        "WHERE name IS NOT NULL AND item IS NOT NULL GROUP BY name, item "
        "QUALIFY row_number() OVER (PARTITION BY name ORDER BY count(*) DESC, item) = 1"
    )
    empty = database.count("named_item WHERE item IS NULL AND name IS NOT NULL")
    shared = database.count("named_item SEMI JOIN item_of_name USING (name) WHERE item IS NULL")
    database.execute("DROP TABLE named_item")
    if empty:
        log.info(
            "%s without %s: %s take the id of lines with the same name, %s their own name",
            plural(empty, "line"),
            printable(columns.item),
            f"{shared:,}",
            f"{empty - shared:,}",
        )


def texts_in_lines(
    database: Database, tables: Sequence[InputTable], columns: Columns
) -> dict[str, ItemTexts]:
    """Item -> what the lines say of it most often (among equals, the first by alphabet)."""
    if not (columns.name or columns.group or columns.category or columns.price):
        return {}
    path = [f"k{i}" for i in range(len(columns.category))]
    fields = ", ".join(f"{name} VARCHAR" for name in ("item", "item_name", "item_group", *path))
    database.execute(f"CREATE TABLE item_text ({fields}, item_price DOUBLE, n BIGINT)")
    for table in tables:
        select, parameters = clean_rows(table, columns)
        rows = f"SELECT {_described(columns)}, {_price(columns)}, count(*) FROM ({select})"
        insert = f"INSERT INTO item_text {rows} WHERE status = 0 GROUP BY ALL"
        database.execute(insert, parameters, table)
    singles = [_most_frequent(database, [f"item_{role}"]) for role in ("name", "group", "price")]
    paths, unknown = _most_frequent(database, path) if path else {}, (None,) * len(path)
    found = {}
    for item in sorted({*paths}.union(*singles)):
        name, group, price = (of_item.get(item, (None,))[0] for of_item in singles)
        found[item] = ItemTexts(name, group, paths.get(item, unknown), price)
    return found


def _described(columns: Columns) -> str:
    """What to select of rows to describe items: item, name, group and category path."""
    singles = [f"item_{role}" if getattr(columns, role) else "NULL" for role in ("name", "group")]
    return ", ".join(["item", *singles, *(f"k{i}" for i in range(len(columns.category)))])


def _price(columns: Columns) -> str:
    return "item_price" if columns.price else "NULL"


def _most_frequent(database: Database, names: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    values = ", ".join(names)
    rows = database.rows(
        f"SELECT item, {values} FROM item_text WHERE coalesce({values}) IS NOT NULL "
        f"GROUP BY item, {values} "
        f"QUALIFY row_number() OVER (PARTITION BY item ORDER BY sum(n) DESC, {values}) = 1"
    )
    return {item: tuple(found) for item, *found in rows}


def texts_in_catalogue(
    database: Database, table: InputTable, columns: Columns
) -> dict[str, ItemTexts]:
    """Item -> description from a catalogue file, in which an item stands once."""
    fields, price = _described(columns), f"min({_price(columns)}) AS item_price"
    create = f"CREATE OR REPLACE TABLE catalogue AS SELECT {fields}, {price}"
    load_table(database, table, columns, create, "GROUP BY ALL")
    _refuse_twins(database, table, columns)
    rows = database.rows("FROM catalogue")
    found = {
        item: ItemTexts(name, group, tuple(path), price)
        for item, name, group, *path, price in rows
        if item is not None
    }
    if not found:
        raise bad_file(table.shown, f"has no rows: it must hold {CATALOGUE_ROWS}")
    if len(found) < len(rows):
        log.warning("%s has rows without an item id; they are passed over", printable(table.shown))
    return found


def load_table(
    database: Database, table: InputTable, columns: Columns, create: str, grouped: str = ""
) -> None:
    """Run `create` FROM the rows of a table in which every row must be a record."""
    select, parameters = clean_rows(table, columns, rejects=table.csv is not None)
    database.execute(f"{create} FROM ({select}) {grouped}", parameters, table)
    if bad := no_records(database, table):
        hint = "Fix it: no bad row is allowed in a table that describes others."
        raise bad[0].error(len(bad), hint)


def _refuse_twins(database: Database, table: InputTable, columns: Columns) -> None:
    twin = database.rows(
        "SELECT item FROM catalogue WHERE item IS NOT NULL GROUP BY item HAVING count(*) > 1 "
        "ORDER BY item LIMIT 1"
    )
    if not twin:
        return
    item = str(twin[0][0])
    line = None
    if table.csv is not None:
        rows, parameters = clean_rows(table, columns, numbered=True)
        query = f"SELECT {ROW} FROM ({rows}) WHERE item = ? ORDER BY ALL LIMIT 2"
        number = database.rows(query, [*parameters, item], table)[1][0]
        line = record_lines(table.csv, [number], [])[number][0]
    trouble = (
        f"item {printable(repr(item))} is in the catalogue twice, with different names, groups "
        "or categories"
    )
    raise bad_file(
        table.shown, trouble, line=line, column=columns.item, hint="Keep one row per item."
    )
