"""Which column plays which role: as given, or guessed from its name and reported in the log."""

from __future__ import annotations

import logging
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from neatrec.errors import SourceError
from neatrec.io.options import SourceOptions
from neatrec.io.tables import InputTable, refuse_doubles
from neatrec.text import printable


@dataclass(frozen=True)
class Columns:
    """Role -> column name; roles without a column are not read."""

    basket: str
    item: str
    position: str | None = None
    quantity: str | None = None
    user: str | None = None
    time: str | None = None
    attributes: tuple[str, ...] = ()
    name: str | None = None
    group: str | None = None
    category: tuple[str, ...] = ()

    def by_role(self) -> dict[str, str]:
        """Role -> column for the roles that have one; attributes and category levels are numbered."""
        roles = ("basket", "item", "position", "quantity", "user", "time", "name", "group")
        single = {role: getattr(self, role) for role in roles if getattr(self, role) is not None}
        return single | _numbered("attribute", self.attributes) | _numbered("category", self.category)


def _numbered(role: str, columns: Sequence[str]) -> dict[str, str]:
    return {f"{role} {i}": column for i, column in enumerate(columns)}


# The first name that a table has wins. A name stands here only where it can hardly mean anything else: a line number
# of an invoice is no cart order, a product group no group of variants.
USUAL_NAMES: dict[str, tuple[str, ...]] = {
    "basket": (
        *("basket_id", "order_id", "transaction_id", "invoice_id", "invoice_no", "invoice", "receipt_id", "receipt_no"),
        *("ticket_id", "ticket", "cart_id", "order_number", "order_no", "order_name", "purchase_id", "basket"),
        *("order", "transaction", "receipt", "session_id"),
    ),
    "item": (
        *("item_id", "product_id", "sku", "stock_code", "article_id", "item", "product_code", "item_code", "sku_id"),
        *("product_sku", "item_sku", "asin", "upc", "ean", "gtin", "article", "product", "variant_id"),
    ),
    "user": (
        *("user_id", "customer_id", "household_id", "member_id", "client_id", "shopper_id", "customer_no", "buyer_id"),
        *("user", "customer", "household", "household_key"),
    ),
    "position": ("add_to_cart_order", "cart_position", "cart_order", "position_in_cart", "position"),
    "time": (
        *("time", "timestamp", "order_time", "order_date", "ordered_at", "created_at", "purchased_at", "invoice_date"),
        *("transaction_timestamp", "transaction_date", "transaction_time", "purchase_date", "datetime", "date"),
    ),
    "name": ("product_name", "item_name", "name", "description", "title", "product_title", "item_description"),
    "quantity": ("quantity", "qty", "units", "item_quantity", "quantity_ordered", "units_sold"),
    "group": ("item_group_id", "variant_group", "parent_sku", "parent_asin", "parent_product_id", "style_id"),
}
# shallow to deep; at most one name of each row is taken
USUAL_CATEGORIES: tuple[tuple[str, ...], ...] = (
    ("department", "department_name", "division"),
    ("category", "category_name", "product_category", "item_category", "main_category"),
    ("aisle", "sub_category", "product_subcategory", "category_2"),
)
ITEM_ROLES = ("name", "group", "category")
FLAGS = (*USUAL_NAMES, "category", "catalog_item")


def plain(name: str) -> str:
    """
    >>> plain("Order ID"), plain("orderId")
    ('orderid', 'orderid')
    """
    return re.sub(r"[^a-z0-9]", "", name.lower())


def guess(role: str, columns: Sequence[str]) -> str | None:
    """The column that usually plays `role`, or None."""
    by_name = {plain(column): column for column in reversed(columns)}
    for usual in USUAL_NAMES[role]:
        if plain(usual) in by_name:
            return by_name[plain(usual)]
    return None


def guess_category(columns: Sequence[str]) -> tuple[str, ...]:
    """The columns that usually hold the category path, shallow to deep."""
    by_name = {plain(column): column for column in reversed(columns)}
    found = []
    for usual in USUAL_CATEGORIES:
        found += [by_name[plain(name)] for name in usual if plain(name) in by_name][:1]
    return tuple(found)


def nearest(wanted: str, role: str, columns: Sequence[str]) -> str | None:
    """The column most likely meant by `wanted`: a similar name, else a usual one for the role."""

    def likeness(column: str) -> float:
        return SequenceMatcher(None, plain(wanted), plain(column)).ratio()

    best = max(columns, key=likeness, default=None)
    if best is not None and likeness(best) >= 0.7:
        return best
    if role == "category":
        return next(iter(guess_category(columns)), None)
    role = "item" if role == "catalog_item" else role
    return guess(role, columns) if role in USUAL_NAMES else None


def missing_column(
    file: str, wanted: dict[str, str | None], missing: str, columns: Sequence[str], *, extra: str = ""
) -> SourceError:
    """The error for a column that is not there: what was found, and which flags are likely meant.

    `wanted` is role -> column as asked for (None: not given), `missing` the role whose column is not there.
    """
    column = wanted[missing]
    found = ", ".join(printable(name, 40) for name in columns[:40]) + (", …" if len(columns) > 40 else "")
    likely = {role: nearest(name or role, role, columns) for role, name in wanted.items() if name not in columns}
    flags = [_flag(role, printable(column, 40)) for role, column in likely.items() if column is not None]
    about = (
        f"has no column {printable(repr(column))} for {missing}"
        if column
        else f"has no column known to be the {missing}"
    )
    hint = f"Likely meant: {' '.join(flags)}." if flags else f"Name it with {_flag(missing, 'COLUMN')}."
    return SourceError(
        f"{printable(file)} {about}; its columns are: {found}{extra}", file=file, column=column, hint=hint
    )


def _flag(role: str, column: str) -> str:
    """The flag that gives `role` to `column`; attributes of baskets are read for the strata."""
    return f"--{role.replace('_', '-') if role in FLAGS else 'strata'} {shlex.quote(column)}"


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
    named = {**found, **({} if options.category == category else {"category": " > ".join(category)})}
    if named:
        log.info("columns taken by their names: %s", ", ".join(f"{role} = {printable(c)}" for role, c in named.items()))
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
