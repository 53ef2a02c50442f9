"""Strings from data, made safe to show."""

from __future__ import annotations

import math
import re
import unicodedata
from datetime import UTC, datetime, timedelta
from decimal import Decimal

UNPRINTABLE = {"Cc", "Cf", "Cs", "Zl", "Zp", "Co", "Cn"}
"""Control, format (also bidi), lone surrogate, line separator, private use, unassigned."""


LOGIN = re.compile(r"(//[^\s:/@]*):\S+@")
"""A user and a password after the // of an address."""
LOGIN_ALONE = re.compile(r":\S+@(?=localhost\b|[\w-]+(\.[\w-]+)+|[\w.-]+[/:])", re.IGNORECASE)
"""A password before what only a host can be: a name with a dot, a port or a path."""


def printable(text: object, limit: int = 120) -> str:
    r"""`text` on one line, with control characters escaped and at most `limit` characters long.

    Names and ids come from other people's files: an escape sequence must not reach a terminal.

    >>> printable("tea\x1b[31m\n")
    'tea\\x1b[31m\\n'
    """
    out: list[str] = []
    size = 0
    for character in str(text):
        escape = unicodedata.category(character) in UNPRINTABLE
        shown = character.encode("unicode_escape").decode("ascii") if escape else character
        if size + len(shown) > limit - 1:
            return "".join(out) + "…"
        out.append(shown)
        size += len(shown)
    return "".join(out)


def without_passwords(text: str) -> str:
    """`text` without the password of each user:password@host in it.

    An item may be called a:b@c.

    >>> without_passwords("no file postgresql//ann:x@shop/orders, no item a:b@c")
    'no file postgresql//ann:…@shop/orders, no item a:b@c'
    """
    return LOGIN_ALONE.sub(":…@", LOGIN.sub(r"\1:…@", text))


def first_line(error: BaseException) -> str:
    """The message of a library, without its stack."""
    return printable(str(error).split("\n", 1)[0], 200)


FORMULA_STARTS = "=+@\t\r-"
"""First characters of cells that a spreadsheet runs; the hyphen is last, for patterns."""


def no_formula(text: str) -> str:
    r"""`text` that no spreadsheet takes for a formula.

    >>> no_formula("=1+1"), no_formula("\t=1+1"), no_formula("tea"), no_formula("-0.5")
    ("'=1+1", "'\t=1+1", 'tea', '-0.5')
    """
    formula = text.startswith(tuple(FORMULA_STARTS)) and not re.fullmatch(r"-[0-9.,]+", text)
    return "'" + text if formula else text


def plain_name(name: str) -> str:
    """The name of a column, however it is written.

    >>> plain_name("Order ID"), plain_name("orderId"), plain_name("Straße")
    ('orderid', 'orderid', 'strasse')
    """
    return re.sub(r"[^a-z0-9]", "", unicodedata.normalize("NFKD", name.casefold()))


def plural(count: int, noun: str, many: str | None = None) -> str:
    """The number with its noun.

    >>> plural(1, "basket"), plural(12000, "basket"), plural(2, "category", "categories")
    ('1 basket', '12,000 baskets', '2 categories')
    """
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


SMALLEST_SHOWN = 1e-6
"""Numbers below it are shown as "below 0.000001"."""


def show_number(value: float) -> str:
    """A number for people: three digits, never an exponent.

    >>> show_number(3.5821), show_number(12345.6), show_number(0.0000123), show_number(1e-37)
    ('3.58', '12,346', '0.0000123', 'below 0.000001')
    """
    if not math.isfinite(value):
        return str(value)
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if 0 < abs(value) < SMALLEST_SHOWN:
        return f"{'below ' if value > 0 else 'above -'}{SMALLEST_SHOWN:f}"
    return f"{Decimal(f'{value:.3g}'):f}"


def parse_moment(text: str) -> int:
    """Microseconds since 1970 of a date or time in ISO 8601; without a zone it is UTC.

    >>> parse_moment("1970-01-02"), parse_moment("1970-01-01T01:00:00+01:00")
    (86400000000, 0)
    """
    moment = datetime.fromisoformat(text)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def show_size(size: float) -> str:
    """The size in the unit that suits it.

    >>> show_size(2147483648), show_size(1500000), show_size(10)
    ('2.0 GiB', '1.4 MiB', '10 B')
    """
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError("unreachable")
