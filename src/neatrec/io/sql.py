"""Columns of any type as the text, number or moment they stand for, in SQL.

Nothing from data becomes SQL text here except column names, and those only through `quoted`. Values are parameters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# What programs write for "nothing": empty fields, SQL's NULL in exports, pandas after astype(str), R, spreadsheets.
MISSING = ("", "NULL", "Null", "null", "None", "NaN", "nan", "NA", "N/A", "#N/A", "<NA>", "\\N")
_BLANK = "[ \\t\\x{A0}]+"
_MISSING_SQL = ", ".join(f"'{marker}'" for marker in MISSING)
LARGEST_POSITION = 2**53  # past it float64 no longer tells neighbours apart

_TEXT = re.compile(r"VARCHAR|ENUM\(.*|JSON", re.DOTALL)
_WHOLE = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?")
_FLOAT = re.compile(r"FLOAT|DOUBLE")
_DECIMAL = re.compile(r"DECIMAL\(\d+,\s*(\d+)\)")
_MOMENT = re.compile(r"DATE|TIMESTAMP.*")
_OTHER_IDS = re.compile(r'UUID|BOOLEAN|"NULL"')  # "NULL": a column with nothing in it


def quoted(name: str) -> str:
    """`name` as an SQL identifier, whatever characters it holds.

    >>> quoted('order "id"; DROP')
    '"order ""id""; DROP"'
    """
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class SqlColumn:
    """A column of a table: its name in SQL and its DuckDB type."""

    name: str
    type: str

    @property
    def sql(self) -> str:
        return quoted(self.name)

    @property
    def is_text(self) -> bool:
        return bool(_TEXT.fullmatch(self.type))

    @property
    def is_number(self) -> bool:
        return any(kind.fullmatch(self.type) for kind in (_WHOLE, _FLOAT, _DECIMAL))

    @property
    def is_moment(self) -> bool:
        return bool(_MOMENT.fullmatch(self.type))

    @property
    def has_ids(self) -> bool:
        """Whether values of this type can be ids: anything but bytes, lists and the like."""
        return self.is_text or self.is_number or self.is_moment or bool(_OTHER_IDS.fullmatch(self.type))


def raw(column: SqlColumn) -> str:
    """The value as it stands, as text."""
    return f"CAST({column.sql} AS VARCHAR)"


def text(column: SqlColumn) -> str:
    """The value as text, NULL where it is missing; a whole number has no decimal point, whatever its type.

    A table of numbers with gaps often arrives as float: 7.0 is the id "7", as it is in the CSV beside it.
    """
    value = column.sql
    if column.is_text:
        as_text = raw(column)
        # the comparisons spare most values the pattern: blanks sort before "!" or, the hard space, from U+00A0 on
        blank = f"({as_text} < '!' OR {as_text} >= chr(160)) AND regexp_full_match({as_text}, '{_BLANK}')"
        missing = f"{as_text} IN ({_MISSING_SQL}) OR ({blank})"
        return f"CASE WHEN {missing} THEN NULL ELSE {as_text} END"
    whole = f"CAST(CAST({value} AS HUGEINT) AS VARCHAR)"
    if _FLOAT.fullmatch(column.type):
        is_whole = f"{value} = trunc({value}) AND abs({value}) <= {LARGEST_POSITION}"
        return f"CASE WHEN isnan({value}) THEN NULL WHEN {is_whole} THEN {whole} ELSE {raw(column)} END"
    scale = _DECIMAL.fullmatch(column.type)
    if scale and scale[1] != "0":
        return f"CASE WHEN {value} = trunc({value}) THEN {whole} ELSE {raw(column)} END"
    return raw(column)


def number(column: SqlColumn) -> str:
    """The value as DOUBLE, NULL where it is missing or no number."""
    return f"TRY_CAST({text(column)} AS DOUBLE)"


def moment(column: SqlColumn) -> str:
    """Microseconds since 1970, UTC, NULL where missing or not a time.

    Digits alone are a date (YYYYMMDD) or a count since 1970, its unit told by its length.
    """
    if column.type == "DATE":
        return f"epoch_us(CAST({column.sql} AS TIMESTAMP))"
    if column.is_moment:
        precise = column.type in ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE")
        return f"epoch_us({column.sql if precise else f'CAST({column.sql} AS TIMESTAMP)'})"
    value = text(column)
    count = f"TRY_CAST({value} AS BIGINT)"
    return (
        f"CASE WHEN regexp_full_match({value}, '[0-9]{{8}}') THEN epoch_us(try_strptime({value}, '%Y%m%d'))"
        f" WHEN regexp_full_match({value}, '[0-9]{{9,10}}') THEN {count} * 1000000"
        f" WHEN regexp_full_match({value}, '[0-9]{{12,13}}') THEN {count} * 1000"
        f" WHEN regexp_full_match({value}, '[0-9]{{15,16}}') THEN {count}"
        f" WHEN regexp_full_match({value}, '[0-9]{{18,19}}') THEN {count} // 1000"
        f" ELSE epoch_us(TRY_CAST({value} AS TIMESTAMPTZ)) END"
    )
