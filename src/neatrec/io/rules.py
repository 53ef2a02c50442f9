"""The reading rules: columns as text, numbers and times; each row with a status.

Nothing from data becomes SQL text here.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import NamedTuple

from neatrec.errors import bad_file, must_be
from neatrec.io.columns import Columns
from neatrec.io.database import Database, literal, quoted
from neatrec.io.options import SourceOptions
from neatrec.io.tables import SqlColumn
from neatrec.text import printable

log = logging.getLogger(__name__)

# Markers of a missing value: SQL's NULL in exports, pandas after astype(str), R, spreadsheets.
MISSING = ("", "NULL", "Null", "null", "None", "NaN", "nan", "NA", "N/A", "#N/A", "<NA>", "\\N")
_BLANK = "[ \\t\\x{A0}]+"
_MISSING_SQL = ", ".join(map(literal, MISSING))
LARGEST_POSITION = 2**53  # past it float64 no longer tells neighbours apart
END_OF_2100 = 4_133_980_800_000_000  # microseconds since 1970
# 31/01/2024, 1.2.24, with or without a time of day
NUMERIC_DATE = r"([0-9]{1,2})([./-])([0-9]{1,2})[./-]([0-9]{4}|[0-9]{2})(?:[ T,].*)?"
_CLOCK_FORMATS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
# what the database does not read by itself: pattern -> replacement, in this order
_ISO_FORMS = (
    (",", "."),
    (r"\s+([+-][0-9]{2}(:?[0-9]{2})?|Z)$", r"\1"),
    (r"^([0-9]{4})\.([0-9]{2})\.([0-9]{2})", r"\1-\2-\3"),
    (r"^([0-9]{4})([0-9]{2})([0-9]{2})[T ]", r"\1-\2-\3T"),
    (r"^([0-9]{4}-[0-9]{2})$", r"\1-01"),
    (r"T([0-9]{2})([0-9]{2})([0-9]{2})", r"T\1:\2:\3"),
)


TIME = '"time"'


class NumberStyle(NamedTuple):
    """How numbers are written that programs do not read by themselves."""

    pattern: str
    thousands: str
    decimal: str


NUMBER_STYLES = {
    "1.234,5": NumberStyle(r"[+-]?([0-9]{1,3}(\.[0-9]{3})+|[0-9]+)(,[0-9]+)?", ".", ","),
    "1,234.5": NumberStyle(r"[+-]?([0-9]{1,3}(,[0-9]{3})+|[0-9]+)(\.[0-9]+)?", ",", "."),
}
"""In the order in which they are tried."""

KEPT, NO_ID, RETURN, VOID = 0, 1, 2, 3
FIRST_BAD = 10  # statuses from here on are bad rows: FIRST_BAD + index into CHECKS


class RowCheck(NamedTuple):
    """A condition that makes a row bad."""

    role: str
    condition: str
    reason: str


_BROKEN = "must stand on one line: a quote may be opened and not closed"
_NUMBER = "must be a number, got {value}"
SWALLOWING = (
    RowCheck("basket", "contains(basket, chr(10))", _BROKEN),
    RowCheck("item", "contains(item, chr(10))", _BROKEN),
)
"""Asked of CSV only, where they mean that the row has swallowed others."""
CHECKS = (
    *SWALLOWING,
    RowCheck("basket", "contains(basket, chr(0))", "must be text, holds a NUL byte"),
    RowCheck("item", "contains(item, chr(0))", "must be text, holds a NUL byte"),
    RowCheck("position", "position_text IS NULL", "must be a number, is missing"),
    RowCheck("position", "position IS NULL OR NOT isfinite(position)", _NUMBER),
    RowCheck(
        "position",
        f"position < 0 OR position > {LARGEST_POSITION}",
        "must be a number from 0 to 2^53, got {value}",
    ),
    RowCheck(
        "quantity", "quantity_text IS NOT NULL AND (quantity IS NULL OR isnan(quantity))", _NUMBER
    ),
    RowCheck(
        "time",
        "time_text IS NOT NULL AND moment IS NULL",
        "must be a time such as 2024-01-31 or 2024-01-31T12:00:00Z, got {value}",
    ),
    RowCheck(
        "time",
        f"moment < 0 OR moment >= {END_OF_2100}",
        "must be a time from 1970 to 2100, got {value}",
    ),
)


def text(column: SqlColumn) -> str:
    """The value as text, NULL where it is missing; an integer has no decimal point.

    A table of numbers with gaps often arrives as float: 7.0 is the id "7", as it is in a CSV.
    """
    value, as_text = column.sql, f"CAST({column.sql} AS VARCHAR)"
    if column.kind == "text":
        # the comparisons spare most values the pattern: blanks sort before "!", the hard space from
        # U+00A0 on
        unusual = f"({as_text} < '!' OR {as_text} >= chr(160))"
        blank = f"{unusual} AND regexp_full_match({as_text}, '{_BLANK}')"
        missing = f"{as_text} IN ({_MISSING_SQL}) OR ({blank})"
        return f"CASE WHEN {missing} THEN NULL ELSE {as_text} END"
    whole = f"CAST(CAST({value} AS HUGEINT) AS VARCHAR)"
    if column.kind == "float":
        is_whole = f"{value} = trunc({value}) AND abs({value}) <= {LARGEST_POSITION}"
        number = f"CASE WHEN {is_whole} THEN {whole} ELSE {as_text} END"
        return f"CASE WHEN isnan({value}) THEN NULL ELSE {number} END"
    if column.kind == "decimal":
        return f"CASE WHEN {value} = trunc({value}) THEN {whole} ELSE {as_text} END"
    return as_text


def clean_rows(
    database: Database,
    columns: Columns,
    options: SourceOptions,
    raw: str,
    into: str,
    *,
    is_csv: bool,
) -> None:
    """The table `into` of the rows of the table `raw` with parsed values and their statuses.

    Its columns: row (from 0), basket, item, position, customer, moment, a0 ... (attributes), void,
    item_name, item_group, path (category names), item_price, status.
    """
    roles = columns.by_role()
    item, scan = '"item"', raw
    if columns.item_else:
        item = 'coalesce("item", id, "item_else")'
        scan = f'{raw} LEFT JOIN item_of_name ON product = "item_else"'
    given = {
        role: quoted(role) if role in roles else "CAST(NULL AS VARCHAR)"
        for role in ("position", "quantity", "price", "time", "user", "name", "group")
    }
    fields = [f"{raw}.rowid AS row", '"basket" AS basket', f"{item} AS item"]
    for role in ("position", "quantity", "price"):
        value = _number(database, raw, role, columns) if role in roles else "CAST(NULL AS DOUBLE)"
        fields += [f"{value} AS {role}", f"{given[role]} AS {role}_text"]
    moment = _moment(database, raw, columns, options) if columns.time else "CAST(NULL AS BIGINT)"
    fields += [f"{moment} AS moment", f"{given['time']} AS time_text"]
    fields += [f"{given['user']} AS customer"]
    fields += [f'"attribute {i}" AS a{i}' for i in range(len(columns.attributes))]
    fields += [f"{given['name']} AS item_name", f"{given['group']} AS item_group"]
    levels = ", ".join(f'"category {i}"' for i in range(len(columns.category)))
    path = f"CASE WHEN coalesce({levels}) IS NOT NULL THEN [{levels}] END" if levels else "NULL"
    fields += [f"CAST({path} AS VARCHAR[]) AS path", f"{_is_void(columns)} AS void"]
    price = "CASE WHEN price > 0 AND isfinite(price) THEN price END AS item_price"
    checked = "quantity, price, position_text, quantity_text, price_text, time_text"
    database.execute(
        f"CREATE TABLE {into} AS SELECT * EXCLUDE ({checked}), {price}, "
        f"{_status(roles, is_csv)} AS status FROM (SELECT {', '.join(fields)} FROM {scan})"
    )


def _status(roles: Collection[str], is_csv: bool) -> str:
    cases = [f"WHEN basket IS NULL OR item IS NULL THEN {NO_ID}"]
    cases += [
        f"WHEN {check.condition} THEN {FIRST_BAD + i}"
        for i, check in enumerate(CHECKS)
        if check.role in roles and (is_csv or check not in SWALLOWING)
    ]
    cases += [f"WHEN quantity <= 0 THEN {RETURN}"]
    return f"CAST(CASE {' '.join(cases)} ELSE {KEPT} END AS UTINYINT)"


def _is_void(columns: Columns) -> str:
    """Whether a line says that its order was cancelled or refunded."""
    signs = ["false"]
    for number, values in enumerate(columns.void.values()):
        listed = ", ".join(map(literal, values))
        is_listed = f'coalesce(lower(trim("void {number}")) IN ({listed}), false)'
        signs.append(is_listed if values else f'"void {number}" IS NOT NULL')
    return " OR ".join(signs)


def _number(database: Database, raw: str, role: str, columns: Columns) -> str:
    """The value of `role` as DOUBLE, by the way in which all numbers of its column are written."""
    tests = ["TRY_CAST(value AS DOUBLE) IS NULL"]
    tests += [
        f"NOT regexp_full_match(value, '{style.pattern}')" for style in NUMBER_STYLES.values()
    ]
    counts = ", ".join(f"count(*) FILTER ({test})" for test in tests)
    values = f"SELECT {quoted(role)} AS value FROM {raw} WHERE value IS NOT NULL"
    unreadable, *unlike = database.rows(f"SELECT {counts} FROM ({values})")[0]
    fitting = [name for name, count in zip(NUMBER_STYLES, unlike, strict=True) if not count]
    if not unreadable or not fitting:
        return f"TRY_CAST({quoted(role)} AS DOUBLE)"
    column = printable(repr(getattr(columns, role)))
    log.info("numbers of column %s are written as %s", column, fitting[0])
    style = NUMBER_STYLES[fitting[0]]
    plain = f"replace({quoted(role)}, '{style.thousands}', '')"
    return f"TRY_CAST(replace({plain}, '{style.decimal}', '.') AS DOUBLE)"


def _moment(database: Database, raw: str, columns: Columns, options: SourceOptions) -> str:
    """The time as microseconds since 1970, UTC, NULL where it is missing or not a time.

    Whether the day or the month comes first is decided by all values together, and refused where
    they do not tell.
    """
    if database.rows(f'SELECT any_value(typeof("time")) FROM {raw}')[0][0] == "BIGINT":
        return TIME
    if options.time_format is not None:
        return _by_format(TIME, [options.time_format])
    numeric = f"regexp_full_match(\"time\", '{NUMERIC_DATE}')"
    if not database.count(f"{raw} WHERE {numeric}"):
        return _iso_or_count(TIME)
    one_blank = r"""regexp_replace("time", '^([0-9./-]+)[ T,]+', '\1 ')"""
    by_format = _by_format(one_blank, _day_and_month(database, raw, columns))
    return f"CASE WHEN {numeric} THEN {by_format} ELSE {_iso_or_count(TIME)} END"


def _by_format(value: str, formats: Sequence[str]) -> str:
    return f"epoch_us(try_strptime({value}, [{', '.join(map(literal, formats))}]))"


def _iso_or_count(value: str) -> str:
    """Digits alone are a date (YYYYMMDD) or a count since 1970, its unit found from its length."""
    count = f"TRY_CAST({value} AS BIGINT)"
    form = f"upper({value})"
    for pattern, replacement in _ISO_FORMS:
        form = f"regexp_replace({form}, '{pattern}', '{replacement}')"
    moments = [f"epoch_us(TRY_CAST({each} AS TIMESTAMPTZ))" for each in (value, form)]
    return (
        f"CASE WHEN regexp_full_match({value}, '[0-9]{{8}}')"
        f" THEN epoch_us(try_strptime({value}, '%Y%m%d'))"
        f" WHEN regexp_full_match({value}, '[0-9]{{9,10}}') THEN {count} * 1000000"
        f" WHEN regexp_full_match({value}, '[0-9]{{12,13}}') THEN {count} * 1000"
        f" WHEN regexp_full_match({value}, '[0-9]{{15,16}}') THEN {count}"
        f" WHEN regexp_full_match({value}, '[0-9]{{18,19}}') THEN {count} // 1000"
        f" ELSE coalesce({', '.join(moments)}) END"
    )


def _day_and_month(database: Database, raw: str, columns: Columns) -> list[str]:
    """The formats of a column of dates such as 03/08/19, by what all of its values put first."""
    parts = f"regexp_extract(\"time\", '^{NUMERIC_DATE}$', ['one', 'separator', 'two', 'year'])"
    numbers = (
        "CAST(p.one AS INTEGER) AS one, CAST(p.two AS INTEGER) AS two, length(p.year) AS year, "
        "p.separator AS separator"
    )
    query = (
        "SELECT list_sort(list(DISTINCT separator)), list_sort(list(DISTINCT year)), "
        "min(one) > 12, coalesce(bool_or(one > 12 AND two <= 12), false), "
        "coalesce(bool_or(two > 12 AND one <= 12), false), min(value) "
        f'FROM (SELECT value, {numbers} FROM (SELECT "time" AS value, {parts} AS p FROM {raw}) '
        "WHERE p.separator <> '')"
    )
    separators, years, is_high, day_first, month_first, example = database.rows(query)[0]
    example = printable(example, 40)
    may_be_year_first = 2 in years and ("-" in separators or is_high)
    with_dots = separators == ["."]  # nobody writes the month first with dots
    if not with_dots and (day_first == month_first or may_be_year_first):
        trouble = "some dates have the day first and some the month"
        if not (day_first and month_first):
            unclear = "do not tell which number is the day, the month and the year"
            trouble = f"dates such as {example} {unclear}"
        hint = (
            "Give the format: --time-format '%d/%m/%y' for day first, '%m/%d/%y' for month first "
            "(%Y: four digits)."
        )
        raise bad_file(database.source, trouble, column=columns.time, hint=hint)
    order = "day" if with_dots or day_first else "month"
    if not with_dots:
        log.info("dates such as %s: the %s comes first", example, order)
    days = ["%d", "%m"] if order == "day" else ["%m", "%d"]
    # two digits first: four would take them for the first century
    signs = ["%y" if digits == 2 else "%Y" for digits in years]
    dates = [separator.join([*days, sign]) for separator in separators for sign in signs]
    return [date + clock for date in dates for clock in _CLOCK_FORMATS]


def require_time(columns: Columns, options: SourceOptions) -> None:
    """An error for an option about times where no column has them."""
    for name in ("since", "until", "time_format"):
        value = getattr(options, name)
        if value is not None and columns.time is None:
            hint = "Name it with --time COLUMN."
            raise must_be(name, "given with a column of times", value, hint=hint)
