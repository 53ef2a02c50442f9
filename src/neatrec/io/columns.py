"""Which column plays which role: as given, or guessed from its name and reported in the log."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import SequenceMatcher
from typing import Any

from neatrec.data.baskets import STORES
from neatrec.errors import SourceError
from neatrec.io.csv_text import fields_vary
from neatrec.io.options import SourceOptions
from neatrec.io.tables import DATA_FRAME, InputTable, refuse_doubles
from neatrec.text import plain_name, printable


@dataclass(frozen=True)
class Columns:
    """Role -> column name; roles without a column are not read."""

    basket: str
    item: str
    item_else: str | None = None
    """What the item is called by where `item` is empty."""
    position: str | None = None
    quantity: str | None = None
    user: str | None = None
    time: str | None = None
    time_of_day: str | None = None
    """The column that completes a `time` of dates."""
    time_formats: tuple[str, ...] = ()
    """How times are written, in the signs of strptime; none: ISO 8601 or a count since 1970."""
    is_time_format_given: bool = False
    """Whether no other format is tried."""
    attributes: tuple[str, ...] = ()
    name: str | None = None
    group: str | None = None
    category: tuple[str, ...] = ()

    def by_role(self) -> dict[str, str]:
        """Role -> column for the roles that have one; attributes and category levels are numbered."""
        roles = ("basket", "item", "item_else", "position", "quantity", "user", "time", "time_of_day", "name", "group")
        single = {role: getattr(self, role) for role in roles if getattr(self, role) is not None}
        return single | _numbered("attribute", self.attributes) | _numbered("category", self.category)


def _numbered(role: str, columns: Sequence[str]) -> dict[str, str]:
    return {f"{role} {i}": column for i, column in enumerate(columns)}


# The first name that a table has wins; English, German, French, Spanish. A name stands here only where it can hardly
# mean anything else: a line number of an invoice is no cart order, a product group no group of variants.
USUAL_NAMES: dict[str, tuple[str, ...]] = {
    "basket": (
        *("basket_id", "order_id", "transaction_id", "invoice_id", "invoice_no", "invoice", "receipt_id", "receipt_no"),
        *("ticket_id", "ticket", "cart_id", "order_number", "order_no", "order_name", "purchase_id", "basket"),
        *("order", "transaction", "receipt", "session_id", "invoice_number", "receipt_number", "transaction_no"),
        *("bestellnummer", "bestell_nr", "bestellung", "auftragsnummer", "auftrags_nr", "auftrag", "belegnummer"),
        *("beleg_nr", "beleg", "rechnungsnummer", "rechnungs_nr", "bonnummer", "bon_nr", "bon", "warenkorb"),
        *("numero_commande", "num_commande", "no_commande", "id_commande", "commande", "numero_facture", "facture"),
        *("numero_ticket", "id_ticket", "numero_pedido", "num_pedido", "no_pedido", "id_pedido", "pedido", "factura"),
        *("numero_factura", "id_venta", "venta"),
    ),
    "item": (
        *("item_id", "product_id", "sku", "stock_code", "article_id", "item", "product_code", "item_code", "sku_id"),
        *("product_sku", "item_sku", "asin", "upc", "ean", "gtin", "article", "product", "variant_id"),
        *("artikelnummer", "artikel_nr", "artikel_id", "artikelcode", "artikel", "produktnummer", "produkt_id"),
        *("produkt", "reference_produit", "code_produit", "id_produit", "ref_produit", "code_article", "id_article"),
        *("reference", "produit", "codigo_producto", "id_producto", "codigo_articulo", "id_articulo", "referencia"),
        *("producto", "articulo"),
    ),
    "user": (
        *("user_id", "customer_id", "household_id", "member_id", "client_id", "shopper_id", "customer_no", "buyer_id"),
        *("user", "customer", "household", "household_key", "customer_number"),
        *("kundennummer", "kunden_nr", "kunden_id", "kunde", "id_client", "code_client", "numero_client", "client"),
        *("id_cliente", "codigo_cliente", "cliente"),
    ),
    "position": ("add_to_cart_order", "cart_position", "cart_order", "position_in_cart", "position"),
    "time": (
        *("time", "timestamp", "order_time", "order_date", "ordered_at", "created_at", "purchased_at", "invoice_date"),
        *("transaction_timestamp", "transaction_date", "transaction_time", "purchase_date", "datetime", "date"),
        *("date_created", "bestelldatum", "auftragsdatum", "belegdatum", "rechnungsdatum", "kaufdatum", "datum"),
        *("zeitpunkt", "date_commande", "date_de_commande", "date_facture", "date_achat", "fecha_pedido"),
        *("fecha_compra", "fecha_factura", "fecha"),
    ),
    "name": (
        *("product_name", "item_name", "name", "description", "title", "product_title", "item_description"),
        *("artikelbezeichnung", "artikelname", "produktname", "bezeichnung", "nom_produit", "nom_article", "libelle"),
        *("designation", "nombre_producto", "nombre_articulo", "descripcion", "nombre"),
    ),
    "quantity": (
        *("quantity", "qty", "units", "item_quantity", "quantity_ordered", "units_sold", "product_qty", "qty_ordered"),
        *("menge", "anzahl", "stueckzahl", "stuckzahl", "quantite", "qte", "cantidad", "unidades"),
    ),
    "store": STORES,
    "group": ("item_group_id", "variant_group", "parent_sku", "parent_asin", "parent_product_id", "style_id"),
}
# shallow to deep; at most one name of each row is taken
USUAL_CATEGORIES: tuple[tuple[str, ...], ...] = (
    ("department", "department_name", "division", "abteilung", "rayon", "departamento", "seccion"),
    (
        *("category", "category_name", "product_category", "item_category", "main_category", "kategorie"),
        *("warengruppe", "artikelgruppe", "categorie", "famille", "categoria", "familia"),
    ),
    ("aisle", "sub_category", "product_subcategory", "category_2", "unterkategorie", "sous_categorie", "subcategoria"),
)
# a time of day beside a date: `time` alone holds neither of them
TIMES_OF_DAY = ("time", "order_time", "transaction_time", "time_of_day", "uhrzeit", "zeit", "heure", "hora")
DATES = (
    *("date", "order_date", "transaction_date", "invoice_date", "purchase_date", "day", "datum", "bestelldatum"),
    *("auftragsdatum", "belegdatum", "rechnungsdatum", "kaufdatum", "date_commande", "date_facture", "date_achat"),
    *("jour", "fecha", "fecha_pedido", "fecha_compra", "fecha_factura"),
)
# words in the name of a column that nobody named: what it may be good for
MAY_HELP: dict[str, tuple[str, ...]] = {
    "category": ("categ", "kategor", "shelf", "aisle", "depart", "section", "warengruppe", "rayon", "famil", "class"),
    "position": ("added", "cart", "position", "sequence"),
    "user": ("customer", "client", "user", "member", "email", "household", "kunde", "loyalty"),
    "time": ("date", "time", "datum", "fecha", "created", "day"),
    "name": ("name", "title", "descri", "bezeichnung", "libell"),
    "group": ("parent", "variant", "style"),
    "quantity": ("quant", "qty", "units", "menge", "cantidad"),
    "strata": ("store", "shop", "branch", "channel", "filial", "magasin", "tienda", "outlet"),
}
ITEM_ROLES = ("name", "group", "category")
FLAGS = (*(role for role in USUAL_NAMES if role != "store"), "category", "catalog_item", "time_of_day")


@dataclass(frozen=True)
class Preset:
    """An export whose header is known."""

    name: str
    marks: tuple[str, ...]
    """Columns that no other table has together."""
    roles: Mapping[str, tuple[str, ...]]
    """Role -> columns, the first that is there."""


PRESETS = (
    Preset(
        "a Shopify orders export",
        ("Name", "Lineitem name", "Lineitem quantity"),
        {
            "basket": ("Name",),
            "item": ("Lineitem sku", "Lineitem name"),
            "item_else": ("Lineitem name",),
            "name": ("Lineitem name",),
            "quantity": ("Lineitem quantity",),
            "user": ("Customer ID", "Email"),
            "time": ("Created at",),
        },
    ),
    Preset(
        "a WooCommerce orders export",
        ("Order Number", "Order Status", "Item Name"),
        {
            "basket": ("Order Number",),
            "item": ("SKU", "Product Id", "Item Name"),
            "item_else": ("Item Name",),
            "name": ("Item Name",),
            "quantity": ("Quantity (- Refund)", "Quantity"),
            "user": ("Customer User ID", "Email (Billing)"),
            "time": ("Order Date",),
        },
    ),
    Preset(
        "WooCommerce's table of order products",
        ("order_item_id", "order_id", "product_id", "product_qty"),
        {
            "basket": ("order_id",),
            "item": ("product_id",),
            "quantity": ("product_qty",),
            "user": ("customer_id",),
            "time": ("date_created",),
        },
    ),
    Preset(
        "Magento's table of order items",
        ("item_id", "order_id", "sku", "qty_ordered"),
        {
            "basket": ("order_id",),
            "item": ("sku",),
            "name": ("name",),
            "quantity": ("qty_ordered",),
            "time": ("created_at",),
        },
    ),
    Preset(
        "Instacart's order lines",
        ("order_id", "product_id", "add_to_cart_order", "reordered"),
        {"basket": ("order_id",), "item": ("product_id",), "position": ("add_to_cart_order",)},
    ),
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
    found = (column_called(usual, columns) for usual in USUAL_CATEGORIES)
    return tuple(column for column in found if column is not None)


def known_export(columns: Sequence[str]) -> Preset | None:
    """The preset whose marks are all among `columns`."""
    names = {plain_name(column) for column in columns}
    return next((preset for preset in PRESETS if {plain_name(mark) for mark in preset.marks} <= names), None)


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


def missing_column(
    file: str, wanted: dict[str, str | None], missing: str, columns: Sequence[str], *, extra: str = ""
) -> SourceError:
    """The error for a column that is not there: what was found, and which flags are likely meant.

    `wanted` is role -> column as asked for (None: not given), `missing` the role whose column is not there.
    """
    column = wanted[missing]
    found = ", ".join(printable(name, 40) for name in columns[:40]) + (", …" if len(columns) > 40 else "")
    likely = {role: nearest(name or role, role, columns) for role, name in wanted.items() if name not in columns}
    flag = _keyword if file == DATA_FRAME else _flag
    flags = [flag(role, printable(column, 40)) for role, column in likely.items() if column is not None]
    about = (
        f"has no column {printable(repr(column))} for {missing}"
        if column
        else f"has no column known to be the {missing}"
    )
    hint = f"Likely meant: {' '.join(flags)}." if flags else f"Name it with {flag(missing, 'COLUMN')}."
    return SourceError(
        f"{printable(file)} {about}; its columns are: {found}{extra}", file=file, column=column, hint=hint
    )


def _flag(role: str, column: str) -> str:
    """The flag that gives `role` to `column`; attributes of baskets are read for the strata."""
    return f"--{role.replace('_', '-') if role in FLAGS else 'strata'} {shlex.quote(column)}"


def _keyword(role: str, column: str) -> str:
    """The argument of Python that gives `role` to `column`."""
    return f"{role if role in FLAGS else 'attributes'}={column!r}"


log = logging.getLogger(__name__)
LINE_ROLES = ("basket", "item", "user", "position", "time", "quantity")
MOST_NAMED = 8
"""Columns that one line of the log names."""


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
        if first.csv is not None and fields_vary(first.csv):
            raise SourceError(
                f"{printable(first.shown)} has no column known to be the {missing}, and its lines have different "
                "numbers of fields",
                file=first.shown,
                hint="If each line is one basket, a list of items, say --basket-per-line.",
            )
        others = "; if the folder holds other tables too, give one file or a glob" if len(tables) > 1 else ""
        raise missing_column(first.shown, wanted, missing, first.columns, extra=others or _one_column(first))
    in_catalogue = _catalogue_columns(options, first, catalogue) if catalogue else None
    named: dict[str, Any] = {field.name: getattr(options, field.name, field.default) for field in fields(Columns)}
    for role in ITEM_ROLES:
        if in_catalogue and getattr(in_catalogue, role):
            named[role] = () if role == "category" else None
    lines = Columns(**{**named, "item_else": _item_else(first, options, guessing)})
    for table in tables:
        _require(table, lines, first)
    if catalogue and in_catalogue:
        refuse_doubles(catalogue, list(in_catalogue.by_role().values()))
    log_unused(lines, in_catalogue, first.columns)
    return lines, in_catalogue


def _item_else(first: InputTable, options: SourceOptions, guessing: bool) -> str | None:
    """What a known export calls an item without an id by."""
    preset = known_export(first.columns) if guessing else None
    found = None if preset is None else column_called(preset.roles.get("item_else", ()), first.columns)
    return None if found == options.item else found


def _guessed(options: SourceOptions, first: InputTable, catalogue: InputTable | None, guessing: bool) -> SourceOptions:
    """Options with the roles filled in that nobody named; what a catalogue says of items is always looked for."""
    preset = known_export(first.columns) if guessing else None
    found: dict[str, str] = {}
    places = ([catalogue] if catalogue else []) + ([first] if guessing else [])
    for role in (*LINE_ROLES, "name", "group"):
        looked_in = places if role in ITEM_ROLES else [first] * guessing
        columns = [column for table in looked_in if (column := _role_column(role, table, preset, first))]
        if getattr(options, role) is None and columns:
            found[role] = columns[0]
    if not _is_english(found.get("basket")):
        found.pop("position", None)  # "Position" numbers the lines of a document there
    store = guess("store", first.columns) if guessing and preset is None and not options.attributes else None
    paths = [path for table in places if (path := guess_category(table.columns))]
    category = options.category or (paths[0] if paths else ())
    named = {**found, **({} if options.category == category else {"category": " > ".join(category)})}
    named |= {} if store is None else {"store": store}
    if named:
        kind = "" if preset is None else f"{preset.name}, "
        taken = ", ".join(f"{role} = {printable(column)}" for role, column in named.items())
        log.info("%scolumns: %s", kind, taken)
    attributes = options.attributes if store is None else (store,)
    return replace(options, category=category, attributes=attributes, **found)  # type: ignore[arg-type]


def _role_column(role: str, table: InputTable, preset: Preset | None, first: InputTable) -> str | None:
    """The column for `role`: the one that the preset of the lines names, or a usual one where it names none."""
    if preset is None or table is not first or role not in preset.roles:
        return guess(role, table.columns)
    return column_called(preset.roles[role], table.columns)


def _is_english(basket: str | None) -> bool:
    names = USUAL_NAMES["basket"]
    return basket is None or plain_name(basket) not in map(plain_name, names[names.index("bestellnummer") :])


def log_unused(lines: Columns, in_catalogue: Columns | None, columns: Sequence[str]) -> None:
    """One line on columns that are not read and, by their names, may play a role that has no column."""
    used = set(lines.by_role().values())
    taken = {role.split()[0] for role in (*lines.by_role(), *(in_catalogue.by_role() if in_catalogue else ()))}
    may_help = []
    for column in columns:
        for role, words in MAY_HELP.items():
            if column not in used and role not in taken and any(word in plain_name(column) for word in words):
                may_help.append(f"{printable(column, 40)} ({role}?)")
                break
    if may_help:
        log.info("unused columns that may help: %s", ", ".join(may_help[:MOST_NAMED]))


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
