"""Names that columns usually have, in English and German, and the headers of known exports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from neatrec.data.baskets import STORES
from neatrec.text import plain_name

# The first name that a table has wins, English before German. A name is listed only where it can
# hardly mean anything else: a line number of an invoice is no cart order.
ENGLISH = {
    "basket": "basket_id order_id transaction_id invoice_id invoice_no invoice receipt_id"
    " receipt_no ticket_id ticket cart_id order_number order_no order_name purchase_id basket order"
    " transaction receipt session_id invoice_number receipt_number transaction_no",
    "item": "item_id product_id sku stock_code article_id item product_code item_code sku_id"
    " product_sku item_sku asin upc ean gtin article product variant_id",
    "user": "user_id customer_id household_id member_id client_id shopper_id customer_no buyer_id"
    " user customer household household_key customer_number",
    "position": "add_to_cart_order cart_position cart_order position_in_cart position",
    # dates first: beside a date, `time` is the time of day alone
    "time": "timestamp datetime order_date date ordered_at created_at purchased_at invoice_date"
    " transaction_timestamp transaction_date purchase_date date_created time order_time"
    " transaction_time",
    "name": "product_name item_name name description title product_title item_description",
    "quantity": "quantity qty units item_quantity quantity_ordered units_sold product_qty"
    " qty_ordered",
    "price": "price unit_price item_price lineitem_price product_price sale_price",
    "group": "item_group_id variant_group parent_sku parent_asin parent_product_id style_id",
}
GERMAN = {
    "basket": "bestellnummer bestell_nr bestellung auftragsnummer auftrags_nr auftrag belegnummer"
    " beleg_nr beleg rechnungsnummer rechnungs_nr bonnummer bon_nr bon warenkorb",
    "item": "artikelnummer artikel_nr artikel_id artikelcode artikel produktnummer produkt_id"
    " produkt",
    "user": "kundennummer kunden_nr kunden_id kunde",
    "time": "bestelldatum auftragsdatum belegdatum rechnungsdatum kaufdatum datum zeitpunkt",
    "name": "artikelbezeichnung artikelname produktname bezeichnung",
    "quantity": "menge anzahl stueckzahl stuckzahl",
    "price": "preis einzelpreis stueckpreis stuckpreis verkaufspreis",
}
USUAL_NAMES = {
    role: (*names.split(), *GERMAN.get(role, "").split()) for role, names in ENGLISH.items()
} | {"store": STORES}
# shallow to deep; at most one name of each row is taken
USUAL_CATEGORIES = tuple(
    tuple(names.split())
    for names in (
        "department department_name division abteilung",
        "category category_name product_category item_category main_category kategorie warengruppe"
        " artikelgruppe",
        "aisle sub_category product_subcategory category_2 unterkategorie",
    )
)
CATEGORY, ATTRIBUTE = "category:", "attribute:"
"""How `neatrec import` begins the names of columns with a category level or an attribute."""


@dataclass(frozen=True)
class Export:
    """An export whose header is known."""

    name: str
    marks: tuple[str, ...]
    """Columns that no other table has together."""
    roles: Mapping[str, tuple[str, ...]]
    """Role -> columns, the first that the table has."""
    void: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Columns -> values of orders that do not count, in small letters; no values: any."""


EXPORTS = (
    Export(
        "a Shopify orders export",
        ("Name", "Lineitem name", "Lineitem quantity"),
        {
            "basket": ("Name",),
            "item": ("Lineitem sku", "Lineitem name"),
            "item_else": ("Lineitem name",),
            "name": ("Lineitem name",),
            "quantity": ("Lineitem quantity",),
            "price": ("Lineitem price",),
            "user": ("Customer ID", "Email"),
            "time": ("Created at",),
        },
        {"Cancelled at": (), "Financial Status": ("refunded", "voided")},
    ),
    Export(
        "a WooCommerce orders export",
        ("Order Number", "Order Status", "Item Name"),
        {
            "basket": ("Order Number",),
            "item": ("SKU", "Product Id", "Item Name"),
            "item_else": ("Item Name",),
            "name": ("Item Name",),
            "quantity": ("Quantity (- Refund)", "Quantity"),
            "price": ("Item Cost",),
            "user": ("Customer User ID", "Email (Billing)"),
            "time": ("Order Date",),
        },
        {
            "Order Status": (
                *("cancelled", "refunded", "failed", "trash"),
                *("wc-cancelled", "wc-refunded", "wc-failed"),
            )
        },
    ),
    Export(
        "Magento's table of order items",
        ("item_id", "order_id", "sku", "qty_ordered"),
        {
            "basket": ("order_id",),
            "item": ("sku",),
            "name": ("name",),
            "quantity": ("qty_ordered",),
            "price": ("price",),
            "time": ("created_at",),
        },
    ),
)


def known_export(columns: Sequence[str]) -> Export | None:
    """The export whose marks are all among `columns`."""
    names = {plain_name(column) for column in columns}
    return next(
        (each for each in EXPORTS if {plain_name(mark) for mark in each.marks} <= names), None
    )


def column_called(names: Iterable[str], columns: Sequence[str]) -> str | None:
    """The first of the usual `names` that a table has, as the table writes it."""
    by_name = {plain_name(column): column for column in reversed(columns)}
    return next((by_name[plain_name(name)] for name in names if plain_name(name) in by_name), None)


def guess(role: str, columns: Sequence[str]) -> str | None:
    """The column that usually plays `role`, or None."""
    return column_called(USUAL_NAMES[role], columns)


def guess_category(columns: Sequence[str]) -> tuple[str, ...]:
    """The columns that usually hold the category path, shallow to deep."""
    imported = tuple(column for column in columns if column.startswith(CATEGORY))
    found = (column_called(usual, columns) for usual in USUAL_CATEGORIES)
    return imported or tuple(column for column in found if column is not None)


def nearest(wanted: str, role: str, columns: Sequence[str]) -> str | None:
    """The column most likely meant by `wanted`: a similar name, else a usual one for the role."""

    def likeness(column: str) -> float:
        return SequenceMatcher(None, plain_name(wanted), plain_name(column)).ratio()

    best = max(columns, key=likeness, default=None)
    if best is not None and likeness(best) >= 0.7:
        return best
    if role == "category":
        return next(iter(guess_category(columns)), None)
    role = "item" if role == "catalog_item" else role
    return guess(role, columns) if role in USUAL_NAMES else None
