"""The reading rules: any column as text, number or time; each row with a status.

Nothing from data becomes SQL text here except column names, and those only through `quoted`. Values
are parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from neatrec.errors import bad_file
from neatrec.io.columns import Columns
from neatrec.io.tables import ROW, InputTable, SqlColumn
from neatrec.text import printable

# Markers of a missing value: SQL's NULL in exports, pandas after astype(str), R, spreadsheets.
MISSING = ("", "NULL", "Null", "null", "None", "NaN", "nan", "NA", "N/A", "#N/A", "<NA>", "\\N")
_BLANK = "[ \\t\\x{A0}]+"
_MISSING_SQL = ", ".join(f"'{marker}'" for marker in MISSING)
LARGEST_POSITION = 2**53  # past it float64 no longer tells neighbours apart
END_OF_2100 = 4_133_980_800_000_000  # microseconds since 1970
# 31/01/2024, 1.2.24, with or without a time of day
NUMERIC_DATE = r"([0-9]{1,2})([./-])([0-9]{1,2})[./-]([0-9]{4}|[0-9]{2})(?:[ T,].*)?"
CLOCK = r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?( ?[AaPp]\.?[Mm]\.?)?"
_ORDINAL_OR_WEEK = r"[0-9]{4}(-?[0-9]{3}|-?W[0-9]{2}-?[1-7])(T.*)?"
_ORDINAL_AND_WEEK_FORMATS = tuple(
    day + clock
    for day in ("%Y-%j", "%Y%j", "%G-W%V-%u", "%GW%V%u")
    for clock in ("", "T%H:%M", "T%H:%M:%S", "T%H:%MZ", "T%H:%M:%SZ")
)
# what the database does not read by itself: pattern -> replacement, in this order
_ISO_FORMS = (
    (",", "."),
    (r"\s+([+-][0-9]{2}(:?[0-9]{2})?|Z)$", r"\1"),
    (r"^([0-9]{4})\.([0-9]{2})\.([0-9]{2})", r"\1-\2-\3"),
    (r"^([0-9]{4})([0-9]{2})([0-9]{2})[T ]", r"\1-\2-\3T"),
    (r"^([0-9]{4}-[0-9]{2})$", r"\1-01"),
    (r"T([0-9]{2})([0-9]{2})([0-9]{2})", r"T\1:\2:\3"),
    (r"T([0-9]{2})([0-9]{2})([^0-9:]|$)", r"T\1:\2\3"),
    (r"T([0-9]{2})([^0-9:]|$)", r"T\1:00\2"),
)


class NumberStyle(NamedTuple):
    """How numbers are written that programs do not read by themselves."""

    pattern: str
    marks: tuple[str, str]
    """Between thousands, and before decimals."""


NUMBER_STYLES = {
    "1.234,5": NumberStyle(r"[+-]?([0-9]{1,3}(\.[0-9]{3})+|[0-9]+)(,[0-9]+)?", (".", ",")),
    "1,234.5": NumberStyle(r"[+-]?([0-9]{1,3}(,[0-9]{3})+|[0-9]+)(\.[0-9]+)?", (",", ".")),
}
"""In the order in which they are tried."""


def raw(column: SqlColumn) -> str:
    """The value as it stands, as text."""
    return f"CAST({column.sql} AS VARCHAR)"


def text(column: SqlColumn) -> str:
    """The value as text, NULL where it is missing; an integer has no decimal point.

    A table of numbers with gaps often arrives as float: 7.0 is the id "7", as it is in a CSV.
    """
    value = column.sql
    if column.kind == "text":
        as_text = raw(column)
        # the comparisons spare most values the pattern: blanks sort before "!", the hard space from
        # U+00A0 on
        unusual = f"({as_text} < '!' OR {as_text} >= chr(160))"
        blank = f"{unusual} AND regexp_full_match({as_text}, '{_BLANK}')"
        missing = f"{as_text} IN ({_MISSING_SQL}) OR ({blank})"
        return f"CASE WHEN {missing} THEN NULL ELSE {as_text} END"
    whole = f"CAST(CAST({value} AS HUGEINT) AS VARCHAR)"
    if column.kind == "float":
        is_whole = f"{value} = trunc({value}) AND abs({value}) <= {LARGEST_POSITION}"
        number = f"CASE WHEN {is_whole} THEN {whole} ELSE {raw(column)} END"
        return f"CASE WHEN isnan({value}) THEN NULL ELSE {number} END"
    if column.kind == "decimal":
        return f"CASE WHEN {value} = trunc({value}) THEN {whole} ELSE {raw(column)} END"
    return raw(column)


def number(column: SqlColumn, style: str | None = None) -> str:
    """The value as DOUBLE, NULL where it is missing or no number.

    `style` is one of NUMBER_STYLES, None the way of programs.
    """
    if style is None or column.kind != "text":
        return f"TRY_CAST({text(column)} AS DOUBLE)"
    thousands, decimal = NUMBER_STYLES[style].marks
    plain = f"replace(replace({text(column)}, '{thousands}', ''), '{decimal}', '.')"
    return f"TRY_CAST({plain} AS DOUBLE)"


def time_text(column: SqlColumn, time_of_day: SqlColumn | None) -> str:
    """The time as text, with its time of day from another column; NULL where it is missing."""
    if time_of_day is None:
        return text(column)
    day = (
        f"CAST(CAST({column.sql} AS DATE) AS VARCHAR)" if column.kind == "moment" else text(column)
    )
    midnight = "[ T]0?0:00(:00(\\.0+)?)?$"  # spreadsheets add it to a date
    both = f"concat_ws(' ', regexp_replace({day}, '{midnight}', ''), {text(time_of_day)})"
    return f"CASE WHEN {day} IS NOT NULL THEN {both} END"


def moment(columns: Columns, column: SqlColumn, time_of_day: SqlColumn | None = None) -> str:
    """Microseconds since 1970, UTC, NULL where missing or not a time.

    Digits alone are a date (YYYYMMDD) or a count since 1970, its unit found from its length.
    """
    if column.type == "DATE" and time_of_day is None:
        return f"epoch_us(CAST({column.sql} AS TIMESTAMP))"
    if column.kind == "moment" and time_of_day is None:
        precise = column.type in ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE")
        return f"epoch_us({column.sql if precise else f'CAST({column.sql} AS TIMESTAMP)'})"
    value = time_text(column, time_of_day)
    if not columns.time_formats:
        return _iso_or_count(value)
    if columns.is_time_format_given:
        return _by_format(value, columns.time_formats)
    one_blank = rf"regexp_replace({value}, '^([0-9./-]+)[ T,]+', '\1 ')"
    numeric = f"regexp_full_match({value}, '{NUMERIC_DATE}')"
    by_format = _by_format(one_blank, columns.time_formats)
    return f"CASE WHEN {numeric} THEN {by_format} ELSE {_iso_or_count(value)} END"


def _by_format(value: str, formats: Sequence[str]) -> str:
    listed = ", ".join("'" + each.replace("'", "''") + "'" for each in formats)
    return f"epoch_us(try_strptime({value}, [{listed}]))"


def _iso_or_count(value: str) -> str:
    count = f"TRY_CAST({value} AS BIGINT)"
    form = f"upper({value})"
    for pattern, made in _ISO_FORMS:
        form = f"regexp_replace({form}, '{pattern}', '{made}')"
    by_day_or_week = _by_format(value, _ORDINAL_AND_WEEK_FORMATS)
    unusual = (
        f"CASE WHEN regexp_full_match({value}, '{_ORDINAL_OR_WEEK}') THEN {by_day_or_week} END"
    )
    moments = [f"epoch_us(TRY_CAST({each} AS TIMESTAMPTZ))" for each in (value, form)]
    return (
        f"CASE WHEN regexp_full_match({value}, '[0-9]{{8}}')"
        f" THEN epoch_us(try_strptime({value}, '%Y%m%d'))"
        f" WHEN regexp_full_match({value}, '[0-9]{{9,10}}') THEN {count} * 1000000"
        f" WHEN regexp_full_match({value}, '[0-9]{{12,13}}') THEN {count} * 1000"
        f" WHEN regexp_full_match({value}, '[0-9]{{15,16}}') THEN {count}"
        f" WHEN regexp_full_match({value}, '[0-9]{{18,19}}') THEN {count} // 1000"
        f" ELSE coalesce({', '.join(moments)}, {unusual}) END"
    )


KEPT, NO_ID, RETURN, VOID = 0, 1, 2, 3
FIRST_BAD = 10  # statuses from here on are bad rows: FIRST_BAD + index into CHECKS
RAW_ROLES = ("basket", "item", "position", "quantity", "time")


class RowCheck(NamedTuple):
    """A condition that makes a row bad."""

    role: str
    condition: str
    reason: str
    swallows: bool = False
    """Asked of CSV only, where it means that the row has swallowed others."""


_BREAK = "chr(10)"
_BROKEN = "must stand on one line: a quote may be opened and not closed"
_NUL = "must be text, holds a NUL byte"
_IS_MISSING = "must be a number, is missing"
_NUMBER = "must be a number, got {value}"
_POSITION = "must be a number from 0 to 2^53, got {value}"
_TIME = "must be a time such as 2024-01-31 or 2024-01-31T12:00:00Z, got {value}"
_OUTSIDE = "must be a time from 1970 to 2100, got {value}"
CHECKS = (
    RowCheck("basket", f"contains(basket, {_BREAK})", _BROKEN, swallows=True),
    RowCheck("item", f"contains(item, {_BREAK})", _BROKEN, swallows=True),
    RowCheck("basket", "contains(basket, chr(0))", _NUL),
    RowCheck("item", "contains(item, chr(0))", _NUL),
    RowCheck("position", "position_text IS NULL", _IS_MISSING),
    RowCheck("position", "position IS NULL OR isnan(position) OR isinf(position)", _NUMBER),
    RowCheck("position", f"position < 0 OR position > {LARGEST_POSITION}", _POSITION),
    RowCheck(
        "quantity", "quantity_text IS NOT NULL AND (quantity IS NULL OR isnan(quantity))", _NUMBER
    ),
    RowCheck("time", "time_text IS NOT NULL AND moment IS NULL", _TIME),
    RowCheck("time", f"moment < 0 OR moment >= {END_OF_2100}", _OUTSIDE),
)


def clean_rows(
    table: InputTable, columns: Columns, *, rejects: bool = False, numbered: bool = False
) -> tuple[str, list[Any]]:
    """A SELECT of the rows with their status, and its parameters.

    `rejects` and `numbered` as in `InputTable.scan`.
    """
    used = {role: table.column(name) for role, name in columns.by_role().items()}
    _refuse_odd_types(table, columns, used)
    fields = [f"{text(used['basket'])} AS basket", f"{_item(used)} AS item"]
    for role in ("position", "quantity"):
        if role in used:
            value = number(used[role], columns.number_styles.get(role))
            fields += [f"{value} AS {role}", f"{text(used[role])} AS {role}_text"]
    if "time" in used:
        time_of_day = used.get("time_of_day")
        fields.append(f"{moment(columns, used['time'], time_of_day)} AS moment")
        fields.append(f"{text(used['time'])} AS time_text")
    if "user" in used:
        fields.append(f"{text(used['user'])} AS customer")
    fields += [f"{text(used[f'attribute {i}'])} AS a{i}" for i in range(len(columns.attributes))]
    fields += [f"{text(used[role])} AS item_{role}" for role in ("name", "group") if role in used]
    if "price" in used:
        value = number(used["price"], columns.number_styles.get("price"))
        fields.append(f"CASE WHEN {value} > 0 AND isfinite({value}) THEN {value} END AS item_price")
    fields += [f"{text(used[f'category {i}'])} AS k{i}" for i in range(len(columns.category))]
    fields += [f"{raw(used[role])} AS raw_{role}" for role in RAW_ROLES if role in used]
    fields += [f"{_is_void(columns, used)} AS void"]
    fields += [ROW] if numbered else []
    scan, parameters = table.scan(rejects=rejects, numbered=numbered)
    if "item_else" in used:
        scan += f" LEFT JOIN item_of_name ON item_of_name.name = {text(used['item_else'])}"
    status = _status(used, is_csv=table.csv is not None)
    return f"SELECT *, {status} AS status FROM (SELECT {', '.join(fields)} FROM {scan})", parameters


def _item(used: Mapping[str, SqlColumn]) -> str:
    """The item id; where it is empty the id of other lines with the same name, or the name."""
    if "item_else" not in used:
        return text(used["item"])
    return f"coalesce({text(used['item'])}, item_of_name.item, {text(used['item_else'])})"


def _is_void(columns: Columns, used: Mapping[str, SqlColumn]) -> str:
    """Whether a line says that its order was cancelled or refunded."""
    signs = []
    for number, values in enumerate(columns.void.values()):
        value = text(used[f"void {number}"])
        listed = ", ".join(f"'{each}'" for each in values)
        is_listed = f"coalesce(lower(trim({value})) IN ({listed}), false)"
        signs.append(is_listed if values else f"{value} IS NOT NULL")
    return " OR ".join(signs) or "false"


def _refuse_odd_types(table: InputTable, columns: Columns, used: Mapping[str, SqlColumn]) -> None:
    for role, column in used.items():
        if not column.kind:
            trouble = (
                f"cannot be read as {role.split()[0]}, its type is {printable(column.type, 40)}"
            )
            hint = "One row is one line of a basket, with plain values."
            raise bad_file(table.shown, trouble, column=columns.by_role()[role], hint=hint)


def _status(used: Mapping[str, SqlColumn], is_csv: bool) -> str:
    cases = [f"WHEN basket IS NULL OR item IS NULL THEN {NO_ID}"]
    cases += [
        f"WHEN {check.condition} THEN {FIRST_BAD + i}"
        for i, check in enumerate(CHECKS)
        if check.role in used and (is_csv or not check.swallows)
    ]
    if "quantity" in used:
        cases.append(f"WHEN quantity <= 0 THEN {RETURN}")
    return f"CAST(CASE {' '.join(cases)} ELSE {KEPT} END AS UTINYINT)"
