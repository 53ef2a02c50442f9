"""Times as orders have them: ISO 8601, counts since 1970, day and month in either order, a format.

Which of day and month comes first is decided by all values of a column together, and refused where
they do not tell.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from neatrec.errors import bad_file, must_be
from neatrec.io.column_names import DATES, TIMES_OF_DAY, column_called
from neatrec.io.columns import Columns
from neatrec.io.database import Database
from neatrec.io.options import SourceOptions
from neatrec.io.reading_rules import CLOCK, NUMERIC_DATE, text, time_text
from neatrec.io.tables import InputTable
from neatrec.text import printable

log = logging.getLogger(__name__)

SAMPLE = 1_000
"""Values that are looked at before a whole column is read."""
_CLOCK_FORMATS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")


def with_times(
    database: Database, tables: Sequence[InputTable], columns: Columns, options: SourceOptions
) -> Columns:
    """`columns` with the formats of their times, and the column with the time of day."""
    if columns.time is None:
        for name in ("time_of_day", "time_format"):
            if (value := getattr(options, name)) is not None:
                wanted = "given with a column of times"
                raise must_be(name, wanted, value, hint="Name it with --time.")
        return columns
    if options.time_format is not None:
        return replace(columns, time_formats=(options.time_format,), is_time_format_given=True)
    columns = _with_time_of_day(database, tables, columns, options)
    if columns.time is None:
        return columns
    values = _sample(database, tables[0], columns)
    if not any(re.fullmatch(NUMERIC_DATE, value) for value in values[:20]):
        return columns
    return replace(columns, time_formats=_day_and_month(database, tables, columns))


def _sample(
    database: Database, table: InputTable, columns: Columns, of: str | None = None
) -> list[str]:
    """The first values of the time column (or of another), as text."""
    expression = _text_of(table, columns) if of is None else text(table.column(of))
    scan, parameters = table.scan()
    values = f"SELECT {expression} AS value FROM {scan}"
    query = f"SELECT value FROM ({values}) WHERE value IS NOT NULL LIMIT {SAMPLE}"
    return [str(row[0]) for row in database.rows(query, parameters, table)]


def _text_of(table: InputTable, columns: Columns) -> str:
    assert columns.time is not None
    clock = None if columns.time_of_day is None else table.column(columns.time_of_day)
    return time_text(table.column(columns.time), clock)


def _with_time_of_day(
    database: Database, tables: Sequence[InputTable], columns: Columns, options: SourceOptions
) -> Columns:
    """A date is combined with a time of day where both have usual names; else it is asked for."""
    if columns.time_of_day is not None or columns.time is None:
        return columns
    first = tables[0]

    def is_clock(column: str) -> bool:
        values = _sample(database, first, columns, column)
        return first.column(column).type == "TIME" or (
            bool(values) and all(re.fullmatch(CLOCK, value) for value in values[:20])
        )

    date, clock = column_called(DATES, first.columns), column_called(TIMES_OF_DAY, first.columns)
    if is_clock(columns.time):
        if options.time is None and date is None:
            name = printable(repr(columns.time))
            log.warning("column %s holds times of day without a date: not read", name)
            return replace(columns, time=None)
        if options.time is not None:
            hint = f"Name both: --time DATE-COLUMN --time-of-day {printable(columns.time)}."
            raise bad_file(
                first.shown, "holds times of day without a date", column=columns.time, hint=hint
            )
        clock = columns.time
    elif options.time is not None or date != columns.time or clock is None or not is_clock(clock):
        return columns
    log.info("time = %s and %s together", printable(date), printable(clock))
    return replace(columns, time=date, time_of_day=clock)


class DateEvidence(NamedTuple):
    """Numeric dates with one separator, over all values of a table."""

    separator: str
    shortest: int
    """Digits of the shortest year."""
    longest: int
    low: int
    """The smallest first number."""
    day_first: int
    """Values that only day first explains."""
    month_first: int
    example: str


def _day_and_month(
    database: Database, tables: Sequence[InputTable], columns: Columns
) -> tuple[str, ...]:
    """The formats of a column of dates such as 03/08/19, by what all of its values put first."""
    seen = [each for table in tables for each in _numeric_dates(database, table, columns)]
    separators = sorted({each.separator for each in seen})
    example = printable(next((each.example for each in seen if each.example), ""), 40)
    day_first = any(each.day_first for each in seen)
    month_first = any(each.month_first for each in seen)
    short = any(each.shortest == 2 for each in seen)
    may_be_year_first = short and ("-" in separators or all(each.low > 12 for each in seen))
    with_dots = separators == ["."]  # nobody writes the month first with dots
    is_clear = with_dots or (day_first != month_first and not may_be_year_first)
    if not is_clear:
        trouble = "some dates have the day first and some the month"
        if not (day_first and month_first):
            numbers = "do not tell which number is the day, the month and the year"
            trouble = f"dates such as {example} {numbers}"
        hint = (
            "Give the format: --time-format '%d/%m/%y' for day first, '%m/%d/%y' for month first "
            "(%Y: four digits)."
        )
        raise bad_file(tables[0].shown, trouble, column=columns.time, hint=hint)
    order = "day" if with_dots or day_first else "month"
    level = logging.DEBUG if with_dots else logging.INFO
    log.log(level, "dates such as %s: the %s comes first", example, order)
    lengths = {length for each in seen for length in (each.shortest, each.longest)}
    # two digits first: four would take them for the first century
    years = [sign for length, sign in ((2, "%y"), (4, "%Y")) if length in lengths]
    days = ["%d", "%m"] if order == "day" else ["%m", "%d"]
    dates = [separator.join([*days, year]) for separator in separators for year in years]
    return tuple(date + clock for date in dates for clock in _CLOCK_FORMATS)


def _numeric_dates(database: Database, table: InputTable, columns: Columns) -> list[DateEvidence]:
    scan, parameters = table.scan()
    parts = f"regexp_extract(value, '^{NUMERIC_DATE}$', ['one', 'separator', 'two', 'year'])"
    numbers = (
        "TRY_CAST(p.one AS INTEGER) AS one, TRY_CAST(p.two AS INTEGER) AS two, "
        "length(p.year) AS year"
    )
    values = f"SELECT {_text_of(table, columns)} AS value FROM {scan}"
    matching = f"SELECT value, {parts} AS p FROM ({values})"
    query = (
        "SELECT separator, min(year), max(year), min(one), "
        "count(*) FILTER (one > 12 AND two <= 12), count(*) FILTER (two > 12 AND one <= 12), "
        f"any_value(value) FROM (SELECT value, p.separator AS separator, {numbers} "
        f"FROM ({matching}) WHERE p.separator <> '') GROUP BY 1"
    )
    return [DateEvidence(*row) for row in database.rows(query, parameters, table)]
