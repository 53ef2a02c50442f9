"""Which column plays which role: as told, or guessed where nothing was told, and said in the log."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from neatrec.io.column_names import ITEM_ROLES, guess, guess_category, missing_column
from neatrec.io.columns import Columns
from neatrec.io.options import SourceOptions
from neatrec.io.tables import InputTable, refuse_doubles
from neatrec.text import printable

log = logging.getLogger(__name__)
LINE_ROLES = ("basket", "item", "user", "position", "time", "quantity")


def resolve(
    options: SourceOptions, tables: Sequence[InputTable], catalogue: InputTable | None
) -> tuple[Columns, Columns | None]:
    """The columns of the lines, and those of the catalogue where there is one."""
    first = tables[0]
    guessing = options.basket is None or options.item is None
    options = _guessed(options, first, catalogue, guessing)
    if options.basket is None or options.item is None:
        missing = "basket" if options.basket is None else "item"
        wanted = {"basket": options.basket, "item": options.item}
        others = "; if the folder holds other tables too, give one file or a glob" if len(tables) > 1 else ""
        raise missing_column(first.shown, wanted, missing, first.columns, extra=others or _one_column(first))
    in_catalogue = _catalogue_columns(options, first, catalogue) if catalogue else None
    lines = Columns(
        basket=options.basket,
        item=options.item,
        position=options.position,
        quantity=options.quantity,
        user=options.user,
        time=options.time,
        attributes=options.attributes,
        name=None if in_catalogue and in_catalogue.name else options.name,
        group=None if in_catalogue and in_catalogue.group else options.group,
        category=() if in_catalogue and in_catalogue.category else options.category,
    )
    for table in tables:
        _require(table, lines, first)
    if catalogue and in_catalogue:
        refuse_doubles(catalogue, list(in_catalogue.by_role().values()))
    return lines, in_catalogue


def _guessed(options: SourceOptions, first: InputTable, catalogue: InputTable | None, guessing: bool) -> SourceOptions:
    """Options with the roles filled in that nobody named; what a catalogue says of items is always looked for."""
    found: dict[str, str] = {}
    places = ([catalogue] if catalogue else []) + ([first] if guessing else [])
    for role in (*LINE_ROLES, "name", "group"):
        looked_in = places if role in ITEM_ROLES else [first] * guessing
        columns = [column for table in looked_in if (column := guess(role, table.columns))]
        if getattr(options, role) is None and columns:
            found[role] = columns[0]
    paths = [path for table in places if (path := guess_category(table.columns))]
    category = options.category or (paths[0] if paths else ())
    told = {**found, **({} if options.category == category else {"category": " > ".join(category)})}
    if told:
        log.info("columns taken by their names: %s", ", ".join(f"{role} = {printable(c)}" for role, c in told.items()))
    return replace(options, category=category, **found)  # type: ignore[arg-type]


def _one_column(table: InputTable) -> str:
    if len(table.columns) > 1 or table.csv is None:
        return ""
    return " (only one: fields must be divided by comma, semicolon, tab or |, or say which with --delimiter)"


def _require(table: InputTable, lines: Columns, first: InputTable) -> None:
    """An error for the first column that `table` does not have."""
    wanted = lines.by_role()
    for role, column in wanted.items():
        if column not in table.columns:
            mixed = "" if table is first or column not in first.columns else f"; {printable(first.shown)} has it"
            kinds = {role.split()[0]: column for role, column in wanted.items()}
            kind = role.split()[0]
            extra = mixed or _one_column(table)
            raise missing_column(table.shown, {**kinds, kind: column}, kind, table.columns, extra=extra)
    refuse_doubles(table, list(wanted.values()))


def _catalogue_columns(options: SourceOptions, first: InputTable, catalogue: InputTable) -> Columns:
    """Where the catalogue has a column for an item's name, group or category, it is taken from there."""
    item = options.catalog_item or (options.item if options.item in catalogue.columns else None)
    item = item or guess("item", catalogue.columns)
    if item is None or item not in catalogue.columns:
        wanted = {"catalog_item": options.catalog_item or options.item}
        raise missing_column(catalogue.shown, wanted, "catalog_item", catalogue.columns, extra=_one_column(catalogue))
    for role, column in _item_columns(options):
        if column not in catalogue.columns and column not in first.columns:
            raise missing_column(
                catalogue.shown,
                {role: column},
                role,
                catalogue.columns,
                extra=f"; {printable(first.shown)} has none either",
            )
    has = set(catalogue.columns)
    return Columns(
        basket=item,  # a catalogue row is a line of its own item
        item=item,
        name=options.name if options.name in has else None,
        group=options.group if options.group in has else None,
        category=options.category if set(options.category) <= has else (),
    )


def _item_columns(options: SourceOptions) -> list[tuple[str, str]]:
    named = [("name", options.name), ("group", options.group)]
    return [(role, column) for role, column in named if column] + [("category", c) for c in options.category]
