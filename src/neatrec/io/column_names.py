"""What columns are usually called: guesses where no mapping is given, suggestions where one is wrong."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from difflib import SequenceMatcher

from neatrec.errors import SourceError
from neatrec.text import printable

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
    flags = [_told(role, printable(column, 40)) for role, column in likely.items() if column is not None]
    about = (
        f"has no column {printable(repr(column))} for {missing}"
        if column
        else f"has no column known to be the {missing}"
    )
    hint = f"Likely meant: {' '.join(flags)}." if flags else f"Name it with {_told(missing, 'COLUMN')}."
    return SourceError(
        f"{printable(file)} {about}; its columns are: {found}{extra}", file=file, column=column, hint=hint
    )


def _told(role: str, column: str) -> str:
    """How to say that `column` plays `role`: attributes of baskets are read for the strata."""
    return f"--{role.replace('_', '-') if role in FLAGS else 'strata'} {shlex.quote(column)}"
