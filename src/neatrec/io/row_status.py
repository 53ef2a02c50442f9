"""Rows as text, numbers and moments, each with its fate: kept, left out, or bad and why."""

from __future__ import annotations

from typing import Any, NamedTuple

from neatrec.errors import SourceError
from neatrec.io.columns import Columns
from neatrec.io.sql import LARGEST_POSITION, SqlColumn, moment, number, raw, text
from neatrec.io.tables import ROW, InputTable
from neatrec.text import printable

KEPT, NO_ID, RETURN = 0, 1, 2
FIRST_BAD = 10  # fates from here on are bad rows: FIRST_BAD + index into CHECKS
RAW_ROLES = ("basket", "item", "position", "quantity", "time")


class RowCheck(NamedTuple):
    """What makes a row bad."""

    role: str
    condition: str
    reason: str
    swallows: bool = False
    """Asked of CSV only, where it means that the row has swallowed others."""


_BREAK = "chr(10)"
_BROKEN = "must stand on one line: a quote may be opened and not closed"
CHECKS = (
    RowCheck("basket", f"contains(basket, {_BREAK})", _BROKEN, swallows=True),
    RowCheck("item", f"contains(item, {_BREAK})", _BROKEN, swallows=True),
    RowCheck("basket", "contains(basket, chr(0))", "must be text, holds a NUL byte"),
    RowCheck("item", "contains(item, chr(0))", "must be text, holds a NUL byte"),
    RowCheck("position", "position_text IS NULL", "must be a number, is missing"),
    RowCheck("position", "position IS NULL OR isnan(position) OR isinf(position)", "must be a number, got {value}"),
    RowCheck(
        "position", f"position < 0 OR position > {LARGEST_POSITION}", "must be a number from 0 to 2^53, got {value}"
    ),
    RowCheck(
        "quantity",
        "quantity_text IS NOT NULL AND (quantity IS NULL OR isnan(quantity))",
        "must be a number, got {value}",
    ),
    RowCheck(
        "time",
        "time_text IS NOT NULL AND moment IS NULL",
        "must be a time such as 2024-01-31 or 2024-01-31T12:00:00Z, got {value}",
    ),
)


def clean_rows(
    table: InputTable, columns: Columns, *, rejects: bool = False, numbered: bool = False
) -> tuple[str, list[Any]]:
    """A SELECT of the rows with their fate, and its parameters; `rejects` and `numbered` as in `InputTable.scan`."""
    chosen = {role: table.column(name) for role, name in columns.by_role().items()}
    _refuse_odd_types(table, columns, chosen)
    fields = [f"{text(chosen['basket'])} AS basket", f"{text(chosen['item'])} AS item"]
    for role in ("position", "quantity"):
        if role in chosen:
            fields += [f"{number(chosen[role])} AS {role}", f"{text(chosen[role])} AS {role}_text"]
    if "time" in chosen:
        fields += [f"{moment(chosen['time'])} AS moment", f"{text(chosen['time'])} AS time_text"]
    if "user" in chosen:
        fields.append(f"{text(chosen['user'])} AS customer")
    fields += [f"{text(chosen[f'attribute {i}'])} AS a{i}" for i in range(len(columns.attributes))]
    fields += [f"{text(chosen[role])} AS item_{role}" for role in ("name", "group") if role in chosen]
    fields += [f"{text(chosen[f'category {i}'])} AS k{i}" for i in range(len(columns.category))]
    fields += [f"{raw(chosen[role])} AS raw_{role}" for role in RAW_ROLES if role in chosen]
    fields += [ROW] if numbered else []
    scan, parameters = table.scan(rejects=rejects, numbered=numbered)
    fate = _fate(chosen, is_csv=table.csv is not None)
    return f"SELECT *, {fate} AS fate FROM (SELECT {', '.join(fields)} FROM {scan})", parameters


def _refuse_odd_types(table: InputTable, columns: Columns, chosen: dict[str, SqlColumn]) -> None:
    for role, column in chosen.items():
        if not column.has_ids:
            name = columns.by_role()[role]
            raise SourceError(
                f"{printable(table.shown)}, column {printable(repr(name))}: cannot be read as {role.split()[0]}, "
                f"its type is {printable(column.type, 40)}",
                file=table.shown,
                column=name,
                hint="One row is one line of a basket, with plain values.",
            )


def _fate(chosen: dict[str, SqlColumn], is_csv: bool) -> str:
    cases = [f"WHEN basket IS NULL OR item IS NULL THEN {NO_ID}"]
    cases += [
        f"WHEN {check.condition} THEN {FIRST_BAD + i}"
        for i, check in enumerate(CHECKS)
        if check.role in chosen and (is_csv or not check.swallows)
    ]
    if "quantity" in chosen:
        cases.append(f"WHEN quantity <= 0 THEN {RETURN}")
    return f"CAST(CASE {' '.join(cases)} ELSE {KEPT} END AS UTINYINT)"
