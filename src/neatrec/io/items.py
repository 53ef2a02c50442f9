"""The catalogue: names, groups, categories and prices of items, from lines or a file."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from neatrec.data.catalog import UNKNOWN, Catalog, string_array
from neatrec.errors import SourceError, bad_file
from neatrec.io.column_names import CATEGORY
from neatrec.io.columns import Columns
from neatrec.io.database import Database
from neatrec.io.options import SourceOptions
from neatrec.io.rows import LoadedRows, line_of, require_records
from neatrec.io.rules import KEPT
from neatrec.text import plural, printable

log = logging.getLogger(__name__)
Path_ = tuple[str | None, ...]
NAMED = 10
"""Ids that one line of the log names."""
CATALOGUE_ROWS = "one row per item"
"""The rows that a catalogue must hold."""
TEXTS = ("item_name", "item_group", "item_price", "path")


def name_items(database: Database, columns: Columns) -> None:
    """The table `item_of_name`: the id that most lines with a product's name have."""
    database.execute(
        'CREATE TABLE item_of_name AS SELECT "item_else" AS product, "item" AS id FROM raw '
        'WHERE "item_else" IS NOT NULL AND "item" IS NOT NULL GROUP BY 1, 2 '
        'QUALIFY row_number() OVER (PARTITION BY "item_else" ORDER BY count(*) DESC, "item") = 1'
    )
    empty = database.count('raw WHERE "item" IS NULL AND "item_else" IS NOT NULL')
    shared = database.count(
        'raw SEMI JOIN item_of_name ON product = "item_else" WHERE "item" IS NULL'
    )
    if empty:
        log.info(
            "%s without %s: %s take the id of lines with the same name, %s their own name",
            plural(empty, "line"),
            printable(columns.item),
            f"{shared:,}",
            f"{empty - shared:,}",
        )


def describe_by_lines(database: Database) -> None:
    """The table `in_lines`: the most frequent values of the lines (ties: the first by alphabet)."""
    database.execute(
        f"CREATE TABLE item_text AS SELECT item, {', '.join(TEXTS)}, count(*) AS n FROM line "
        f"WHERE status = {KEPT} GROUP BY ALL"
    )
    database.execute("CREATE TABLE bought AS SELECT item, sum(n) AS n FROM item_text GROUP BY item")
    joins = [
        f"LEFT JOIN (SELECT item, {name} FROM item_text WHERE {name} IS NOT NULL GROUP BY 1, 2 "
        f"QUALIFY row_number() OVER (PARTITION BY item ORDER BY sum(n) DESC, {name}) = 1) "
        "USING (item)"
        for name in TEXTS
    ]
    database.execute(f"CREATE TABLE in_lines AS SELECT * EXCLUDE (n) FROM bought {' '.join(joins)}")


def describe_by_catalogue(database: Database, loaded: LoadedRows) -> None:
    """Complete the table `in_lines` by a catalogue, in which an item stands once."""
    require_records(loaded)
    (table,) = loaded.tables
    database.execute(
        "CREATE TABLE in_catalogue AS SELECT item, item_name, item_group, path, "
        "min(item_price) AS item_price FROM catalogue_line WHERE item IS NOT NULL GROUP BY ALL"
    )
    if not database.count("in_catalogue"):
        raise bad_file(table.shown, f"has no rows: it must hold {CATALOGUE_ROWS}")
    twins = "SELECT item FROM in_catalogue GROUP BY item HAVING count(*) > 1 ORDER BY 1 LIMIT 1"
    for (item,) in database.rows(twins):
        lines = "SELECT row FROM catalogue_line WHERE item = ? ORDER BY row LIMIT 2"
        rows = database.rows(lines, [item])
        trouble = (
            f"item {printable(repr(item))} is in the catalogue twice, with different names, groups "
            "or categories"
        )
        line = line_of(loaded, rows[1][0])[1] if table.csv is not None else None
        column, hint = loaded.columns.item, "Keep one row per item."
        raise bad_file(table.shown, trouble, line=line, column=column, hint=hint)
    if database.count("catalogue_line WHERE item IS NULL"):
        log.warning("%s has rows without an item id; they are skipped", printable(table.shown))
    _compare_with_catalogue(database, table.shown)
    both = ", ".join(f"coalesce(c.{name}, l.{name}) AS {name}" for name in TEXTS)
    database.execute(
        f"CREATE OR REPLACE TABLE in_lines AS SELECT item, {both} "
        "FROM in_catalogue AS c FULL JOIN in_lines AS l USING (item)"
    )


def _compare_with_catalogue(database: Database, shown: str) -> None:
    """Log the bought items missing from the catalogue; an error if all are."""
    missing = database.count("bought ANTI JOIN in_catalogue USING (item)")
    bought = database.count("bought")
    if missing and missing == bought:
        ours, theirs = (
            printable(repr(database.rows(f"SELECT min(item) FROM {name}")[0][0]), 60)
            for name in ("bought", "in_catalogue")
        )
        none = f"none of the {plural(bought, 'item')} bought is in the catalogue"
        look = f"its items look like {theirs}, those bought like {ours}"
        hint = "Name its item column with --catalog-item COLUMN."
        raise SourceError(f"{none} {printable(shown)}: {look}", file=shown, hint=hint)
    if missing:
        items = plural(missing, "item bought is", "items bought are")
        log.warning("%s not in the catalogue: no name, no category", items)


def build_catalog(
    database: Database,
    options: SourceOptions,
    levels: Sequence[str],
    *,
    has_names: bool,
    nested: bool,
) -> Catalog:
    """The catalogue sorted by id; the table `item_code` tells the code of every id in the lines.

    Items of a group become one item. Excluded ids and groups are left out. With `nested` a category
    name below two parents is two categories.
    """
    database.execute(
        "CREATE TABLE member AS SELECT * REPLACE (coalesce(n, 0) AS n), "
        "coalesce(item_group, item) AS id FROM bought FULL JOIN in_lines USING (item)"
    )
    _refuse_chains(database)
    _exclude(database, options.exclude_item)
    database.execute(
        "CREATE TABLE item_code AS SELECT item, id, "
        "CAST(dense_rank() OVER (ORDER BY id) - 1 AS INTEGER) AS code FROM member"
    )
    # the item that stands for its variants: the one called like the group, then the most bought
    first = "ORDER BY item <> id, n DESC, item"
    texts = ", ".join(
        f"first({name} {first}) FILTER ({name} IS NOT NULL) AS {name}" for name in TEXTS
    )
    table = database.arrow(f"SELECT id, {texts} FROM member GROUP BY id ORDER BY id")
    variants = database.arrow("SELECT item, code FROM item_code WHERE item <> id ORDER BY item")
    codes, names = _category_codes(table["path"].to_pylist(), len(levels), nested=nested)
    has_prices = table["item_price"].null_count < len(table)
    return Catalog(
        string_array(table["id"]),
        string_array(table["item_name"]) if has_names else None,
        levels=tuple(level.removeprefix(CATEGORY) for level in levels),
        categories=codes,
        category_names=names,
        variants=string_array(variants["item"]) if len(variants) else None,
        variant_codes=variants["code"].to_numpy() if len(variants) else None,
        prices=table["item_price"].to_numpy() if has_prices else None,
    )


def _refuse_chains(database: Database) -> None:
    chains = database.rows(
        "SELECT one.item, one.id, other.id FROM member AS one JOIN member AS other "
        "ON one.id = other.item WHERE other.id <> one.id ORDER BY 1 LIMIT 1"
    )
    if chains:
        item, group, beyond = (printable(repr(each)) for each in chains[0])
        raise SourceError(
            f"item {item} belongs to group {group}, which is itself an item of group {beyond}",
            hint="Give all variants of a product the same group.",
        )


def _exclude(database: Database, excluded: Sequence[str]) -> None:
    """Leave out items and groups by id; ids that are no item of the source are logged."""
    if not excluded:
        return
    ids = {each for row in database.rows("SELECT DISTINCT item, id FROM member") for each in row}
    strangers = sorted(set(excluded) - ids)
    if strangers:
        some = [printable(item, 40) for item in strangers[:NAMED]]
        some += ["…"] * (len(strangers) > NAMED)
        count = plural(len(strangers), "id is", "ids are")
        log.warning("%s to exclude and no item of the source: %s", count, ", ".join(some))
    delete = "DELETE FROM member WHERE list_contains($1, item) OR list_contains($1, id)"
    database.execute(delete, [list(excluded)])


def _category_codes(
    paths: Sequence[Path_ | None], levels: int, *, nested: bool
) -> tuple[np.ndarray, tuple[tuple[str, ...], ...]]:
    """Codes of shape (items, levels) and the names of each level, sorted.

    A name below two parents gets them in front, as "food > other".
    """
    codes = np.full((len(paths), levels), UNKNOWN, dtype=np.int32)
    names = []
    for level in range(levels):
        keys = [None if path is None else tuple(path[: level + 1]) for path in paths]
        parents = defaultdict(set)
        for key in keys:
            if key is not None and key[-1] is not None:
                parents[key[-1]].add(key[:-1])
        name_of = {}
        for own, above in parents.items():
            for parent in above:
                parts = (*parent, own) if nested and len(above) > 1 else (own,)
                name_of[*parent, own] = " > ".join(part for part in parts if part is not None)
        ordered = sorted(set(name_of.values()))
        code = {name: i for i, name in enumerate(ordered)}
        codes[:, level] = [code[name_of[key]] if key in name_of else UNKNOWN for key in keys]
        names.append(tuple(ordered))
    return codes, tuple(names)
