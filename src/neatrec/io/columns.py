"""The roles of columns: as given, or guessed from their names and reported in the log."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from neatrec.errors import SourceError, bad_file
from neatrec.io.column_names import (
    ATTRIBUTE,
    GERMAN,
    Export,
    column_called,
    guess,
    guess_category,
    known_export,
    nearest,
)
from neatrec.io.options import SourceOptions, option_infos
from neatrec.io.tables import DATA_FRAME, InputTable, refuse_doubles
from neatrec.text import plain_name, printable

log = logging.getLogger(__name__)
LINE_ROLES = ("basket", "item", "user", "position", "time", "quantity")
SINGLE_ITEM_ROLES = ("name", "group", "price")
ITEM_ROLES = (*SINGLE_ITEM_ROLES, "category")
NONE = "none"
"""The value of an option whose role no column plays."""
MAX_LISTED = 40
"""Columns that an error lists."""


@dataclass(frozen=True)
class Columns:
    """Role -> column name; roles without a column are not read."""

    basket: str
    item: str
    item_else: str | None = None
    """The name of a product, which tells its id where `item` is empty."""
    position: str | None = None
    quantity: str | None = None
    user: str | None = None
    time: str | None = None
    void: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Column -> values of orders that do not count, in small letters; no values: any."""
    attributes: tuple[str, ...] = ()
    name: str | None = None
    group: str | None = None
    price: str | None = None
    category: tuple[str, ...] = ()

    def by_role(self) -> dict[str, str]:
        """Role -> column for the roles that have one; those with several columns are numbered."""
        roles = (*LINE_ROLES, "item_else", *SINGLE_ITEM_ROLES)
        single = {role: getattr(self, role) for role in roles if getattr(self, role) is not None}
        several = {"void": self.void, "attribute": self.attributes, "category": self.category}
        for role, columns in several.items():
            single |= {f"{role} {i}": column for i, column in enumerate(columns)}
        return single


def map_roles(
    options: SourceOptions, tables: Sequence[InputTable], catalogue: InputTable | None
) -> tuple[Columns, Columns | None]:
    """The columns of the lines, and those of the catalogue where there is one."""
    first = tables[0]
    export = known_export(first.columns)
    roles: dict[str, Any] = {
        role: _column_of(role, options, first, catalogue, export)
        for role in (*LINE_ROLES, *SINGLE_ITEM_ROLES)
    }
    if roles["basket"] is None or roles["item"] is None:
        missing = "basket" if roles["basket"] is None else "item"
        wanted = {"basket": roles["basket"], "item": roles["item"]}
        several = "; if the folder holds other tables too, give one file or a glob"
        raise missing_column(first, wanted, missing, several if len(tables) > 1 else "")
    if options.position is None and plain_name(roles["basket"]) in _GERMAN_BASKETS:
        roles["position"] = None  # "Position" numbers the lines of a document there
    roles["category"] = _category(options, first, catalogue)
    roles["attributes"] = _attributes(options, first, export)
    _log_guessed(options, roles, export)
    in_catalogue = _catalogue_columns(options, roles, first, catalogue) if catalogue else None
    for role in ITEM_ROLES:
        if in_catalogue and getattr(in_catalogue, role):
            roles[role] = () if role == "category" else None
    lines = _of_export(Columns(**roles), first, export)
    for table in tables:
        require_columns(table, lines.by_role(), first)
    if catalogue and in_catalogue:
        require_columns(catalogue, in_catalogue.by_role())
    return lines, in_catalogue


_GERMAN_BASKETS = {plain_name(name) for name in GERMAN["basket"].split()}


def _column_of(
    role: str,
    options: SourceOptions,
    first: InputTable,
    catalogue: InputTable | None,
    export: Export | None,
) -> str | None:
    """The column for `role`: the named one, that of an export, or one with a usual name."""
    named: str | None = getattr(options, role)
    if named is not None:
        return None if named == NONE and role not in ("basket", "item") else named
    if catalogue and role in ITEM_ROLES and (column := guess(role, catalogue.columns)):
        return column
    all_named = {getattr(options, each) for each in (*LINE_ROLES, *SINGLE_ITEM_ROLES)}
    all_named |= {*options.category, *options.attributes}
    free = [column for column in first.columns if column not in all_named]
    if export and role in export.roles:
        return column_called(export.roles[role], free)
    return guess(role, free)


def _category(
    options: SourceOptions, first: InputTable, catalogue: InputTable | None
) -> tuple[str, ...]:
    if options.category:
        return () if options.category == (NONE,) else options.category
    found = guess_category(catalogue.columns) if catalogue else ()
    return found or guess_category(first.columns)


def _attributes(
    options: SourceOptions, first: InputTable, export: Export | None
) -> tuple[str, ...]:
    """The columns of baskets: those named, those of an import, or a store."""
    if options.attributes:
        return tuple(
            f"{ATTRIBUTE}{name}" if f"{ATTRIBUTE}{name}" in first.columns else name
            for name in options.attributes
        )
    imported = tuple(column for column in first.columns if column.startswith(ATTRIBUTE))
    store = guess("store", first.columns) if export is None else None
    return imported or (() if store is None else (store,))


def _of_export(lines: Columns, first: InputTable, export: Export | None) -> Columns:
    """`lines` with the rules of a known export beyond the roles that can be named."""
    if export is None:
        return lines
    if lines.item == column_called(export.roles["item"], first.columns):
        other = column_called(export.roles.get("item_else", ()), first.columns)
        lines = replace(lines, item_else=None if other == lines.item else other)
    columns = {name: column_called((name,), first.columns) for name in export.void}
    void = {column: export.void[name] for name, column in columns.items() if column}
    return replace(lines, void=void)


def _log_guessed(options: SourceOptions, roles: Mapping[str, Any], export: Export | None) -> None:
    """One line with the columns that nobody named."""
    shown = {**roles, "category": " > ".join(roles["category"])}
    shown["store"] = ", ".join(shown.pop("attributes"))
    guessed = [
        f"{role} = {printable(column)}"
        for role, column in shown.items()
        if column and not getattr(options, "attributes" if role == "store" else role)
    ]
    if guessed:
        kind = "" if export is None else f"{export.name}, "
        log.info("%scolumns: %s", kind, ", ".join(guessed))


def missing_column(
    table: InputTable, wanted: Mapping[str, str | None], missing: str, extra: str = ""
) -> SourceError:
    """The error for a missing column, with the flags that are likely meant.

    `wanted` is role -> column as asked for (None: not given), `missing` the role without a column.
    """
    column, columns = wanted[missing], table.columns
    listed = ", ".join(printable(name, 40) for name in columns[:MAX_LISTED])
    listed += ", …" if len(columns) > MAX_LISTED else ""
    flag = _keyword if table.shown == DATA_FRAME else _flag
    likely = {
        role: nearest(name or role, role, columns)
        for role, name in wanted.items()
        if name not in columns
    }
    flags = [flag(role, printable(near, 40)) for role, near in likely.items() if near]
    about = f"{printable(repr(column))} for {missing}" if column else f"known to be the {missing}"
    message = f"{printable(table.shown)} has no column {about}; its columns are: {listed}"
    hint = f"Name it with {flag(missing, 'COLUMN')}."
    if flags:
        hint = f"Likely meant: {' '.join(flags)}."
    elif table.csv is not None and column is None:
        hint += " If each line is one basket, a list of items, use --basket-per-line."
    if table.csv is not None and len(table.columns) == 1:
        separators = "comma, semicolon, tab or |, or set --delimiter"
        extra = extra or f" (only one: fields must be separated by {separators})"
    return SourceError(message + extra, file=table.shown, column=column, hint=hint)


def _flag(role: str, column: str) -> str:
    """The flag that gives `role` to `column`; attributes of baskets are read for the strata."""
    name = role.replace("_", "-") if role in option_infos() else "strata"
    return f"--{name} {shlex.quote(column)}"


def _keyword(role: str, column: str) -> str:
    """The argument of Python that gives `role` to `column`."""
    return f"{role if role in option_infos() else 'attributes'}={column!r}"


def require_columns(
    table: InputTable, wanted: Mapping[str, str], first: InputTable | None = None
) -> InputTable:
    """`table`, which must have these columns, as the `first` of its kind may have."""
    for role, column in wanted.items():
        if column not in table.columns:
            is_in_first = first and column in first.columns
            mixed = f"; {printable(first.shown)} has it" if first and is_in_first else ""
            kind = role.split()[0]
            kinds = {each.split()[0]: name for each, name in wanted.items()} | {kind: column}
            raise missing_column(table, kinds, kind, mixed)
    refuse_doubles(table, list(wanted.values()))
    for role, column in wanted.items():
        if not table.column(column).kind:
            kind = printable(table.column(column).type, 40)
            trouble = f"cannot be read as {role.split()[0]}, its type is {kind}"
            hint = "One row is one line of a basket, with plain values."
            raise bad_file(table.shown, trouble, column=column, hint=hint)
    return table


def _catalogue_columns(
    options: SourceOptions, roles: Mapping[str, Any], first: InputTable, catalogue: InputTable
) -> Columns:
    """Where the catalogue has a column for an item's name, group or category, it is read there."""
    shared = roles["item"] if roles["item"] in catalogue.columns else None
    item = options.catalog_item or shared or guess("item", catalogue.columns)
    if item is None or item not in catalogue.columns:
        wanted = {"catalog_item": options.catalog_item or roles["item"]}
        raise missing_column(catalogue, wanted, "catalog_item")
    singles = [(role, roles[role]) for role in SINGLE_ITEM_ROLES if roles[role]]
    for role, column in singles + [("category", column) for column in roles["category"]]:
        if column not in catalogue.columns and column not in first.columns:
            extra = f"; {printable(first.shown)} has none either"
            raise missing_column(catalogue, {role: column}, role, extra)
    has = set(catalogue.columns)
    return Columns(
        basket=item,  # a catalogue row is a line of its own item
        item=item,
        name=roles["name"] if roles["name"] in has else None,
        group=roles["group"] if roles["group"] in has else None,
        price=roles["price"] if roles["price"] in has else None,
        category=roles["category"] if set(roles["category"]) <= has else (),
    )
